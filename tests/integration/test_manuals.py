"""Manual pages and bash completion, as the programs print them from their tables of options."""

import pathlib
import re
import shutil
import subprocess
import tempfile

import lib

DAEMONS = {"snowfleet-worker": 8, "snowfleet-coordinator": 8}
PROGRAMS = DAEMONS | {"snowfleetctl": 1}


def run(*command, stdin=None, cwd=None):
    done = subprocess.run([str(part) for part in command], input=stdin, capture_output=True, text=True,
                          env=lib.clean_env({"LC_ALL": "C", "MANWIDTH": "1000", "MAN_KEEP_FORMATTING": ""}),
                          cwd=cwd, timeout=60)
    lib.equal((done.returncode, done.stderr), (0, ""), f"{command}")
    return done.stdout


def generated(program, what):
    return run(lib.BIN / program, f"--generate={what}")


def commands():
    text = run(lib.BIN / "snowfleetctl", "--help")
    return re.findall(r"^  ([a-z-]+)", text.split("Commands:")[1], re.MULTILINE)


def options_of(*command):
    """[(name, its paragraph)] as --help prints them."""
    text = run(lib.BIN / command[0], *command[1:], "--help")
    found = re.findall(r"^  --(\S+)[^\n]*\n((?:        .*\n)+)", text, re.MULTILINE)
    lib.check(len(found) > 5, f"{command} --help shows options: {text}")
    return [(name, " ".join(help.split())) for name, help in found]


def test_pages_are_clean():
    for program, section in PROGRAMS.items():
        page = generated(program, "man")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / f"{program}.{section}"
            file.write_text(page)
            if shutil.which("mandoc"):
                done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", file], capture_output=True, text=True,
                                      check=False)
                # A build that can be repeated has no date to give.
                complaints = [line for line in done.stdout.splitlines() if "missing date" not in line]
                lib.equal(complaints, [], f"mandoc about {program}")
                run("mandoc", "-Tascii", file)
            if shutil.which("groff"):
                run("groff", "-man", "-Tascii", "-ww", file)
        lib.check(page.startswith(f'.TH "{program.upper()}" "{section}"'), page[:80])


def plain(page):
    """The page's text: without the macros and with plain hyphens."""
    text = re.sub(r"\\f[BIR]", "", page).replace("\\-", "-").replace("\\&", "").replace("\\e", "\\")
    return " ".join(text.split())


def has_all_options(part, *command):
    text = plain(part)
    for name, help in options_of(*command):
        if name in ("version", "help"):
            lib.check(f"--{name}" in text, f"{command} --{name}")
            continue
        sentences, facts = help.rsplit(" (", 1)
        lib.check(f".TP --{name} " in text, f"{command}: --{name} is in the page")
        lib.check(sentences in text, f"{command} --{name}: its text is in the page: {sentences}")
        variable = re.search(r"SNOWFLEET_[A-Z_]+", facts).group(0)
        lib.check(f"Environment: {variable}." in text, f"{command}: {variable} is in the page")
        default = re.search(r"default ([^;)]+)", facts)
        if default:
            lib.check(f"Default: {default.group(1)}." in text, f"{command} --{name}: {default.group(1)}")


def test_every_option_of_help_is_in_the_page():
    for program in DAEMONS:
        has_all_options(generated(program, "man"), program)
    page = generated("snowfleetctl", "man")
    common = page.split('.SH "OPTIONS OF ALL COMMANDS"')[1]
    parts = dict(re.findall(r'^\.SS "([^ "]+)[^\n]*\n(.*?)(?=^\.S[SH] )', page,
                            re.MULTILINE | re.DOTALL))
    parts = {name.replace("\\-", "-"): part for name, part in parts.items()}
    lib.equal(list(parts), commands(), "commands")
    for command, part in parts.items():
        has_all_options(part + common, "snowfleetctl", command)


def test_only_as_the_one_argument():
    for program in DAEMONS:
        for arguments in (["--generate=man", "--help-me"], ["--generate=html"], ["--generate", "man"]):
            done = subprocess.run([lib.BIN / program, *arguments], capture_output=True, text=True,
                                  env=lib.clean_env(), timeout=20, check=False)
            lib.equal(done.returncode, 64, f"{program} {arguments}")
    for what in ("man", "bash-completion"):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([lib.BIN / "snowfleetctl", f"--generate={what}"], stdout=full,
                                  stderr=subprocess.PIPE, text=True, env=lib.clean_env(), check=False)
        lib.equal(done.returncode, 1, f"{what} to a full disk")


# ---- completion ----

def complete(program, words, cwd=None):
    """What bash offers for the last of the words, as readline splits them."""
    script = generated(program, "bash-completion")
    words = [program, *words]
    array = " ".join("'" + word + "'" for word in words)
    out = run("bash", "-c", f"""{script}
COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}
_{program.replace("-", "_")}
printf '%s\\n' "${{COMPREPLY[@]}}\"""", cwd=cwd)
    return out.split("\n")[:-1] if out != "\n" else []


def test_completion_of_names_and_values():
    offered = complete("snowfleet-worker", ["--"])
    lib.equal(sorted(offered), sorted({f"--{name}" for name, _ in options_of("snowfleet-worker")}
                                      | {"--help", "--version"}))
    lib.equal(complete("snowfleet-worker", ["--log-f"]), ["--log-format"])
    lib.equal(complete("snowfleet-worker", ["--log-format", ""]), ["json", "text"])
    lib.equal(complete("snowfleet-worker", ["--log-format", "=", "t"]), ["text"])
    lib.equal(complete("snowfleet-worker", ["--log-format", "="]), ["json", "text"])
    lib.equal(complete("snowfleet-worker", ["--window", ""]), [], "a duration is the user's")
    lib.equal(complete("snowfleet-worker", ["--window", "15s", "--seq"]), ["--sequence-start"])
    lib.equal(complete("snowfleet-worker", ["--nonsense"]), [])


def test_completion_of_commands():
    lib.equal(complete("snowfleetctl", [""]), [*commands(), "--help", "--version"])
    lib.equal(complete("snowfleetctl", ["mach"]), ["machines"])
    for command in commands():
        offered = complete("snowfleetctl", [command, "--"])
        lib.equal(sorted(offered), sorted({f"--{name}" for name, _ in options_of("snowfleetctl", command)}
                                          | {"--help", "--version"}), command)
    lib.equal(complete("snowfleetctl", ["init", "--n"]), ["--new", "--no-ceiling"])
    lib.equal(complete("snowfleetctl", ["init", "--new", ""])[0], "--new", "a flag takes no value")
    lib.equal(complete("snowfleetctl", ["init", "--new", "=", "f"]), ["false"])
    lib.equal(complete("snowfleetctl", ["status", "--output", "j"]), ["json"])
    lib.equal(complete("snowfleetctl", ["decode", "--epoch", ""]), [])


def test_completion_of_files():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("ca.pem", "ca with blanks.pem", "other"):
            (pathlib.Path(folder) / name).touch()
        lib.equal(sorted(complete("snowfleet-coordinator", ["--etcd-ca-file", "ca"], folder)),
                  ["ca with blanks.pem", "ca.pem"])
        lib.equal(sorted(complete("snowfleetctl", ["status", "--config", "=", "o"], folder)), ["other"])


if __name__ == "__main__":
    lib.main()
