"""What systemd is told of the daemons, and what it is told about them."""

import contextlib
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile

import lib

BUILD = lib.BIN.parent


class Supervisor:
    """The socket that a daemon notifies, as systemd would hold it."""

    def __init__(self, folder):
        self.path = str(pathlib.Path(folder) / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.setblocking(False)
        self.told = []
        # More often than any test waits: WatchdogSec=1s.
        self.environment = {"NOTIFY_SOCKET": self.path, "WATCHDOG_USEC": "1000000"}

    def messages(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                self.told.extend(self.socket.recv(4096).decode().splitlines())
        return self.told

    def wait_for(self, message):
        lib.wait_until(lambda: message in self.messages(), 20, f"systemd is told {message}")

    def signs_of_life(self):
        return self.messages().count("WATCHDOG=1")


def check_life(supervisor, daemon):
    seen = supervisor.signs_of_life()
    lib.wait_until(lambda: supervisor.signs_of_life() > seen + 2, 20, "signs of life")
    daemon.pause()
    lib.wait_until(lambda: pathlib.Path(f"/proc/{daemon.pid}/stat").read_text().split(") ")[1][0] == "T", 5, "it stops")
    seen = supervisor.signs_of_life()
    lib.never(lambda: supervisor.signs_of_life() > seen, 1, "a sign of life of a stopped process")
    daemon.resume()
    lib.wait_until(lambda: supervisor.signs_of_life() > seen, 20, "signs of life again")


def test_a_worker():
    with lib.Fleet() as fleet:
        supervisor = Supervisor(fleet.folder)
        worker = fleet.worker("--assign-wait=0s", env=supervisor.environment)
        # Ready is what it can be without etcd's help.
        supervisor.wait_for("READY=1")
        lib.wait_until(lambda: any(line.startswith("STATUS=meta missing") for line in supervisor.messages()), 20,
                       "what it is at")
        fleet.init("--new")
        worker.wait_ready()
        supervisor.wait_for("STATUS=serving")
        check_life(supervisor, worker)
        lib.equal(worker.terminate(10), 0, "exit code")
        supervisor.wait_for("STOPPING=1")
        lib.equal(supervisor.messages().count("READY=1"), 1, "ready once")


def test_a_coordinator():
    with lib.Fleet() as fleet:
        supervisor = Supervisor(fleet.folder)
        coordinator = fleet.coordinator("--lease-ttl=2s", env=supervisor.environment)
        supervisor.wait_for("READY=1")
        fleet.init("--new")
        fleet.leader([coordinator])
        supervisor.wait_for("STATUS=leader")
        check_life(supervisor, coordinator)
        lib.equal(coordinator.terminate(10), 0, "exit code")
        supervisor.wait_for("STOPPING=1")


def test_nobody_listens():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker("--assign-wait=0s", env={"NOTIFY_SOCKET": str(fleet.folder / "nothing"),
                                                       "WATCHDOG_USEC": "never"})
        worker.wait_ready()
        lib.equal(worker.terminate(10), 0, "exit code")


# ---- what is installed ----

@contextlib.contextmanager
def installed():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cmake", "--install", BUILD], check=True, capture_output=True, timeout=120,
                       env=lib.clean_env({"DESTDIR": folder}))
        prefix = re.search(r"CMAKE_INSTALL_PREFIX:PATH=(.*)", (BUILD / "CMakeCache.txt").read_text()).group(1)
        yield pathlib.Path(folder), pathlib.Path(folder + prefix)


def test_the_units_are_sound_and_hardened():
    if lib.SANITIZED or not shutil.which("systemd-analyze"):
        print("skipped: needs systemd-analyze and a build without sanitizers")
        return
    with installed() as (root, prefix):
        for daemon in ("worker", "coordinator"):
            unit = prefix / f"lib/systemd/system/snowfleet-{daemon}.service"
            program = re.search(r"ExecStart=(\S+)", unit.read_text()).group(1)
            lib.check((root / program.lstrip("/")).exists(), f"{program} is installed")
            # Verify looks for the program and for the files named in this system.
            local = root / f"snowfleet-{daemon}.service"
            local.write_text(unit.read_text().replace(program, str(root / program.lstrip("/"))))
            said = subprocess.run(["systemd-analyze", "verify", "--man=no", local], capture_output=True, text=True,
                                  timeout=60, check=False)
            ours = [line for line in said.stderr.splitlines() if f"snowfleet-{daemon}" in line]
            lib.equal(ours, [], f"systemd-analyze verify: {said.stderr}")
            exposure = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=30", unit],
                                      capture_output=True, text=True, timeout=60, check=False)
            lib.equal(exposure.returncode, 0, f"exposure below 3.0: {exposure.stdout[-300:]}{exposure.stderr}")


def test_the_sample_settings_are_the_defaults():
    if lib.SANITIZED:
        print("skipped: sanitizer builds are not installed")
        return
    with installed() as (root, prefix):
        for daemon in ("worker", "coordinator"):
            found = sorted(root.glob(f"**/snowfleet/{daemon}.conf"))
            lib.equal(len(found), 1, f"{daemon}.conf is installed")
            sample = found[0].read_text()
            unit = (prefix / f"lib/systemd/system/snowfleet-{daemon}.service").read_text()
            lib.check(f"--config /{found[0].relative_to(root)}" in unit, "the unit names it")
            program = lib.BIN / f"snowfleet-{daemon}"
            names = re.findall(r"^  --([a-z-]+)", subprocess.run([program, "--help"], capture_output=True, text=True,
                                                                timeout=30, check=True).stdout, re.MULTILINE)
            lib.equal(sorted(re.findall(r"^#([a-z-]+) =", sample, re.MULTILINE)),
                      sorted(set(names) - {"config", "version", "help"}), "every option")
            # As it is, and with every default spelt out.
            spelt = root / "spelt.conf"
            spelt.write_text(re.sub(r"^#([a-z-]+ = .+)$", r"\1", sample, flags=re.MULTILINE))
            for file in (found[0], spelt):
                # Listening means that the file was read: --version would not look at it.
                running = lib.Daemon(daemon, [program, "--config", file, "--http-listen=127.0.0.1:0",
                                              f"--etcd-endpoints=http://127.0.0.1:{lib.free_port()}"], root)
                try:
                    lib.check(running.address, f"{file} is taken")
                finally:
                    running.end()


lib.main()
