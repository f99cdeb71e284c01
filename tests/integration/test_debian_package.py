"""The Debian package: built by CPack, installed, tried and removed in a chroot of its own; and cmake --install
with other folders than Debian's.  Needs root, mmdebstrap, and a package mirror; --all runs it."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import lib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "kubernetes"))

import containers  # noqa: E402

PROGRAMS = ("usr/bin/snowfleet-worker", "usr/bin/snowfleet-coordinator", "usr/bin/snowfleetctl")
SETTINGS = {"etc/snowfleet/worker.conf", "etc/snowfleet/coordinator.conf"}
FILES = {*PROGRAMS, *SETTINGS,
         "usr/lib/systemd/system/snowfleet-worker.service", "usr/lib/systemd/system/snowfleet-coordinator.service",
         "usr/lib/sysusers.d/snowfleet.conf", "usr/lib/tmpfiles.d/snowfleet.conf",
         "usr/share/man/man8/snowfleet-worker.8", "usr/share/man/man8/snowfleet-coordinator.8",
         "usr/share/man/man1/snowfleetctl.1", "usr/share/doc/snowfleet/copyright", "usr/share/doc/snowfleet/README.md",
         *(f"usr/share/bash-completion/completions/{pathlib.Path(name).name}" for name in PROGRAMS)}


def run(*command, **environment):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=1200, check=False,
                          env=lib.clean_env({"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive", **environment}))
    lib.equal(done.returncode, 0, f"{' '.join(map(str, command))}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def files_below(folder):
    """All files, but what the package tools write for themselves and not for a package."""
    own = ("proc/", "sys/", "dev/", "tmp/", "run/", "var/lib/dpkg/", "var/lib/apt/", "var/cache/", "var/log/",
           "etc/ld.so.cache", "etc/passwd-/", "etc/group-/", "etc/shadow-/", "etc/gshadow-/", "etc/.pwd.lock/")
    names = set()
    for place, folders, files in os.walk(folder):
        where = os.path.relpath(place, folder)
        found = {os.path.normpath(os.path.join(where, name)): name for name in folders + files}
        wanted = {path for path in found if not (path + "/").startswith(own)}
        folders[:] = [name for path, name in found.items() if path in wanted and name in folders]  # and not into /proc
        names |= wanted
    return names


def libraries():
    lines = (ROOT / "deploy" / "packages.txt").read_text().splitlines()
    return [line.split()[0] for line in lines if line.startswith("lib") and line.endswith(" run")]


def build_package():
    """As deploy/README.md says."""
    run("cmake", "-DCMAKE_INSTALL_PREFIX=/usr", "-S", ROOT, "-B", FOLDER / "build", "-G", "Ninja")
    run("cmake", "--build", FOLDER / "build")
    run("cpack", "--config", FOLDER / "build/CPackConfig.cmake", "-B", FOLDER / "packages")
    found = list((FOLDER / "packages").glob("*.deb"))
    lib.equal(len(found), 1, f"packages {found}")
    return found[0]


def make_chroot():
    """systemd brings systemd-sysusers; the libraries are those that deploy/packages.txt has for running, so that
    one which is missing there is found out."""
    chroot = FOLDER / "chroot"
    run("mmdebstrap", "--mode=root", "--variant=apt", f"--include=systemd,{','.join(libraries())}", "bookworm", chroot)
    run("mount", "-t", "proc", "proc", chroot / "proc")
    return chroot


def install(chroot, package, before):
    def inside(*command):
        return run("chroot", chroot, *command)
    shutil.copy(package, chroot / "tmp" / package.name)
    inside("dpkg", "-i", f"/tmp/{package.name}")
    folders = {name for name in files_below(chroot) - before if (chroot / name).is_dir()}
    lib.equal(files_below(chroot) - before - folders, FILES, "what is installed")
    lib.equal(folders, {"etc/snowfleet", "usr/share/doc/snowfleet"}, "new folders")
    for name in PROGRAMS:
        program = pathlib.Path(name).name
        said = inside(program, "version" if program == "snowfleetctl" else "--version")
        lib.check(re.search(r"\d+\.\d+\.\d+", said), f"{program} runs: {said}")
        inside("bash", "-euc", f". /usr/share/bash-completion/completions/{program}; complete -p {program}")
    for unit in chroot.glob("usr/lib/systemd/system/snowfleet-*.service"):
        command = re.search(r"^ExecStart=(\S+) --config (\S+)$", unit.read_text(), re.MULTILINE)
        for path in command.groups():
            lib.check(path.lstrip("/") in FILES, f"{unit.name} starts {path}")
        # Debian's own systemd of that release, not the one of this machine.
        inside("systemd-analyze", "security", "--offline=true", "--threshold=30",
               f"/usr/lib/systemd/system/{unit.name}")
    user = inside("getent", "passwd", "snowfleet").strip().split(":")
    lib.check(0 < int(user[2]) < 1000 and user[-1].endswith("nologin"), f"a user of the system's: {user}")
    lib.equal(inside("stat", "-c", "%a %U %G", "/etc/snowfleet").strip(), "750 root snowfleet", "the folder")
    links = inside("find", "/etc/systemd/system", "-name", "snowfleet*")
    lib.equal(links, "", "no unit is enabled by itself")


def remove(chroot, package, before):
    def inside(*command):
        return run("chroot", chroot, *command)
    setting = chroot / "etc/snowfleet/worker.conf"
    setting.write_text(setting.read_text() + "cluster = mine\n")
    inside("dpkg", "-i", f"/tmp/{package.name}")  # as an upgrade to the same version
    lib.check(setting.read_text().endswith("cluster = mine\n"), "an upgrade leaves what an operator wrote")
    inside("dpkg", "--remove", "snowfleet")
    lib.equal(files_below(chroot) - before, SETTINGS | {"etc/snowfleet"}, "settings alone stay when it is removed")
    state = chroot / "var/lib/snowfleet/state"  # of a standalone worker
    state.parent.mkdir()
    state.write_text("evidence")
    inside("dpkg", "--purge", "snowfleet")
    lib.equal(files_below(chroot) - before, {"var/lib/snowfleet", "var/lib/snowfleet/state"}, "left after purging")
    lib.equal(before - files_below(chroot), set(), "gone with it")
    lib.check("snowfleet" not in inside("dpkg-query", "--show"), "dpkg has forgotten it")


def test_a_package_is_built_installed_and_removed():
    package = build_package()
    print(run("dpkg-deb", "--info", package))
    chroot = make_chroot()
    try:
        before = files_below(chroot)
        install(chroot, package, before)
        remove(chroot, package, before)
    finally:
        run("umount", chroot / "proc")


def test_cmake_install_with_other_folders():
    """What was built for the package, installed elsewhere: nothing is compiled again."""
    build_package()
    folders = {"BINDIR": "programs", "DATADIR": "data", "MANDIR": "data/manuals", "DOCDIR": "data/docs",
               "SYSCONFDIR": "/etc/opt"}
    run("cmake", "-DCMAKE_INSTALL_PREFIX=/opt/snow", "-S", ROOT, "-B", FOLDER / "build",
        *(f"-DCMAKE_INSTALL_{name}={path}" for name, path in folders.items()))
    said = run("cmake", "--build", FOLDER / "build")
    lib.check("Building C object" not in said, said)
    elsewhere = FOLDER / "elsewhere"
    run("cmake", "--install", FOLDER / "build", "--strip", DESTDIR=str(elsewhere))
    found = {str(path.relative_to(elsewhere)) for path in elsewhere.rglob("*") if path.is_file()}
    places = (("usr/bin/", "programs/"), ("usr/share/man/", "data/manuals/"),
              ("usr/share/doc/snowfleet/", "data/docs/"), ("usr/share/", "data/"), ("usr/lib/", "lib/"))
    wanted = {name.replace("etc/", "etc/opt/") for name in SETTINGS}
    for name in FILES - SETTINGS:
        before, after = next(pair for pair in places if name.startswith(pair[0]))
        wanted.add(f"opt/snow/{after}{name.removeprefix(before)}")
    lib.equal(found, wanted, "what is installed")
    for daemon in ("worker", "coordinator"):
        unit = (elsewhere / f"opt/snow/lib/systemd/system/snowfleet-{daemon}.service").read_text()
        command = f"ExecStart=/opt/snow/programs/snowfleet-{daemon} --config /etc/opt/snowfleet/{daemon}.conf\n"
        lib.check(command in unit, unit)
    rule = (elsewhere / "opt/snow/lib/tmpfiles.d/snowfleet.conf").read_text()
    lib.check(" /etc/opt/snowfleet " in rule, rule)


if __name__ == "__main__":
    REASON = containers.isolate(("mmdebstrap", "dpkg-shlibdeps", "catatonit", "unshare"))
    if REASON:
        print(f"skipped: {REASON}")
        sys.exit(0)
    with tempfile.TemporaryDirectory(prefix="snowfleet-deb-") as NAME:
        FOLDER = pathlib.Path(NAME)
        lib.main()
