"""deploy/README.md as an operator follows it: the commands under its headings, run as they stand there.  (Those
of "etcd: user and role" and of recovery are run by test_etcd_auth.py and test_recover.py.)"""

import json
import os
import pathlib
import re
import subprocess

import lib

PAGE = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "README.md"
HERE = {"etcd: what it has to be", "Upgrades and rollbacks", "Several regions", "Capacity and end of life",
        "Security checklist"}
ELSEWHERE = {"etcd: user and role", "Back up", "Restore", "When everything is lost"}


def blocks():
    """{heading: its blocks of commands}."""
    found, heading, block = {}, None, None
    for line in PAGE.read_text().splitlines():
        if block is None and re.match("#+ ", line):
            heading = line.lstrip("# ")
        elif re.match(" *```sh$", line):
            block = []
        elif block is not None and line.strip() == "```":
            found.setdefault(heading, []).append("\n".join(block))
            block = None
        elif block is not None:
            block.append(line)
    return found


class Operator:
    """Somebody at a shell, with an etcd to be."""

    def __init__(self, fleet, name="one"):
        self.fleet = fleet
        client, peer = lib.free_port(), lib.free_port()
        self.settings = {"NAME": name, "DATA": str(fleet.folder / f"{name}.data"),
                         "ETCD": f"http://127.0.0.1:{client}", "PEER": f"http://127.0.0.1:{peer}",
                         "BACKUP": str(fleet.folder / f"{name}.backup"),
                         "PATH": f"{lib.BIN}:/usr/local/bin:/usr/bin:/bin", "ETCD_UNSUPPORTED_ARCH": "arm64"}

    def shell(self, commands):
        return subprocess.run(["bash", "-euc", commands], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=lib.clean_env(self.settings), timeout=60 * lib.SLOW, check=False)

    def run(self, commands):
        """What a block of the page prints; it has to succeed."""
        done = self.shell(commands)
        lib.equal(done.returncode, 0, f"{commands}: {done.stdout}{done.stderr}")
        return done.stdout

    def start_etcd(self):
        process = lib.Process(self.settings["NAME"], ["bash", "-euc", "exec " + blocks()["etcd: what it has to be"][0]],
                              self.fleet.folder, self.settings)
        self.fleet.processes.append(process)
        address = self.settings["ETCD"].removeprefix("http://")
        lib.wait_until(lambda: lib.request(address, "GET", "/health").json()["health"] == "true", 20, "etcd is healthy")


def test_every_block_of_commands_is_run_by_a_test():
    lib.equal(set(blocks()), HERE | ELSEWHERE, "headings with commands")


def test_files_in_the_text_are_there():
    named = set(re.findall(r"`((?:tests|deploy|components|overlays)/[a-zA-Z0-9_./-]+)`", PAGE.read_text()))
    lib.check(len(named) > 8, f"files {named}")
    root = PAGE.parents[1]
    for name in named:
        lib.check((root / name).exists() or (PAGE.parent / "kubernetes" / name).exists(), f"there is no {name}")


def test_options_in_the_text_are_there():
    # `snowfleetctl NAME --option`, in a sentence or in a block.
    used = re.findall(r"snowfleetctl ([a-z-]+)((?: [^`\n|;]*)?)", PAGE.read_text())
    lib.check(len(used) > 20, f"{len(used)} uses of snowfleetctl")
    known = {}
    for command, rest in used:
        command = [command, "accept"] if command == "clock" else [command]
        if tuple(command) not in known:
            done = subprocess.run([lib.BIN / "snowfleetctl", *command, "--help"], capture_output=True, text=True,
                                  timeout=30, env=lib.clean_env(), check=False)
            lib.equal(done.returncode, 0, f"snowfleetctl {' '.join(command)}")
            known[tuple(command)] = set(re.findall(r"^  (--[a-z-]+)", done.stdout, re.MULTILINE))
        for option in re.findall(r"--[a-z-]+", rest):
            lib.check(option in known[tuple(command)], f"snowfleetctl {' '.join(command)} has no {option}")


def test_a_new_cluster_is_upgraded_and_looked_at():
    page = blocks()
    with lib.Fleet() as fleet:
        operator = Operator(fleet)
        operator.start_etcd()
        _, health, init = page["etcd: what it has to be"]
        said = operator.run(health)
        lib.check("3.4" in said or "3.5" in said or "3.6" in said, said)
        lib.check("NOSPACE" not in said, said)
        lib.check("OPEN" in operator.run(init), "the cluster is open")

        lib.check(re.search(r"\d+\.\d+\.\d+", operator.run("snowfleetctl version")), "a version")
        before, after = page["Upgrades and rollbacks"]
        operator.run(before)
        lib.check(os.path.getsize(operator.settings["BACKUP"]) > 0, "a backup")
        worker = lib.Daemon("worker", [lib.BIN / "snowfleet-worker", "--http-listen=127.0.0.1:0",
                                       f"--etcd-endpoints={operator.settings['ETCD']}", "--grpc-listen=127.0.0.1:0",
                                       "--assign-wait=0s"], fleet.folder)
        fleet.processes.append(worker)
        worker.wait_ready()
        workers = json.loads(operator.run(after))["workers"]
        version = operator.run("snowfleetctl version").split()[-1]
        lib.check(len(workers) == 1 and workers[0]["version"] in version, f"{workers} {version}")

        (capacity,) = page["Capacity and end of life"]
        lib.check("0..1023" in operator.run(capacity).replace("-", ".."), "the range")
        # The checklist finds an etcd that is open to everybody.
        (refused,) = page["Security checklist"]
        done = operator.shell(refused)
        lib.check(done.returncode != 0 and "/snowfleet/" in done.stdout, "an etcd that asks for no user is found out")
        operator.run("\n".join(['export ETCDCTL_API=3 ETCDCTL_ENDPOINTS="$ETCD"',
                                "etcdctl user add root:secret", "etcdctl user grant-role root root",
                                "etcdctl auth enable"]))
        done = operator.shell(refused)
        lib.equal((done.returncode, done.stdout), (0, ""), f"one that asks for a user: {done.stderr}")


def test_two_regions():
    create, look, move = blocks()["Several regions"]
    with lib.Fleet() as fleet:
        eu, us = Operator(fleet, "eu"), Operator(fleet, "us")
        eu.start_etcd()
        us.start_etcd()
        eu.settings |= {"ETCD_EU": eu.settings["ETCD"], "ETCD_US": us.settings["ETCD"]}
        eu.run(create)
        said = eu.run(look)
        ranges = re.findall(r'"machine_id_range":\s*"([0-9-]+)"', said)
        lib.equal(ranges, ["0-511", "512-1023"], said)
        eu.run(move)
        lib.check('"0-255"' in eu.run(look), "the smaller range")


if __name__ == "__main__":
    lib.main()
