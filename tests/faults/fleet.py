"""A fleet made to be broken: three etcd members, workers, coordinators, and a fault proxy between them.

Every worker and coordinator reaches every etcd member over a link of its own ("worker1>etcd0"), so single
programs can be cut off from single members.  Coordinators reach each worker over one link that they share
("coordinators>worker1"): it listens on 127.0.0.2 at the worker's own port, and that is the address the
worker advertises.  Clients, snowfleetctl and the recorder go past the proxy.
"""

import pathlib
import resource
import struct
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("integration", "support")]
# pylint: disable=wrong-import-position
import etcd_cluster
import fault_proxy
import lib

# Short, so that minutes hold many claims and expiries.  Liveness is measured against TTL + window.
WINDOW_S = 4
TTL_S = 2
WORKER = [f"--window={WINDOW_S}s", f"--lease-ttl={TTL_S}s", "--keepalive-interval=500ms",
          "--assign-wait=2s", "--etcd-timeout=1s"]
COORDINATOR = [f"--lease-ttl={TTL_S}s", "--ceiling-interval=1s", "--ceiling-lead=1m", "--probe-interval=1s",
               "--etcd-timeout=1s"]
MACHINE_IDS = 256
INIT = ["--new", f"--machine-id-range=0-{MACHINE_IDS - 1}", f"--max-window={WINDOW_S}s", "--quiet-time=1s",
        "--max-offset=500ms"]
PREFIX = "/snowfleet/default/"


class ClockPage:
    """The page of common/clock.h: bends the clocks of the program that was given it."""

    def __init__(self, path):
        self.path = path
        self.path.write_bytes(bytes(40))
        self.sequence = 0
        self.ahead_ns = self.rate_ppm = 0
        self.anchor_ns = 0

    @property
    def bent(self):
        return self.ahead_ns != 0 or self.rate_ppm != 0

    def set(self, ahead_s=0.0, rate_ppm=0):
        """How far the wall clock is ahead from now on, and how much faster it runs."""
        self._write(int(ahead_s * 1e9), rate_ppm, time.clock_gettime_ns(time.CLOCK_BOOTTIME))

    def freeze_at(self, wall_s):
        """It stands still at that time."""
        while True:
            boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            ahead_ns = int(wall_s * 1e9) - time.time_ns()
            if time.clock_gettime_ns(time.CLOCK_BOOTTIME) - boot_ns < 100_000:
                break
        self._write(ahead_ns, -1_000_000, boot_ns)

    def _write(self, ahead_ns, rate_ppm, anchor_ns):
        self.ahead_ns, self.rate_ppm, self.anchor_ns = ahead_ns, rate_ppm, anchor_ns
        with open(self.path, "r+b", buffering=0) as file:
            def write(offset, *values):
                file.seek(offset)
                file.write(struct.pack(f"={len(values)}q", *values))
            write(0, self.sequence + 1)
            write(8, self.ahead_ns, 0, self.anchor_ns, self.rate_ppm)
            self.sequence += 2
            write(0, self.sequence)


class Program(lib.Daemon):
    """A worker or coordinator that can be taken down and brought back, with a clock of its own."""

    clock = None         # its ClockPage
    serves_at = ""       # past the proxy
    state_file = None    # of a worker
    down = False         # it is meant to be

    def restart(self):
        if not self.alive():
            self.start()
        self.down = False


class FaultFleet(etcd_cluster.ClusterFleet):
    """See above.  workers and coordinators are lists of Program."""

    def __init__(self, folder, seed, binaries=None):
        self.proxy = None
        self.binaries = binaries or {}  # program name: path, in place of the ordinary one
        super().__init__(folder=folder)
        self.workers, self.coordinators = [], []
        try:
            self.proxy = fault_proxy.FaultProxy(seed, folder)
        except BaseException:
            self.close()
            raise

    def _program(self, name, binary, port, *args):
        links = [self.proxy.link(f"{name}>etcd{number}", member.address)
                 for number, member in enumerate(self.etcd.members)]
        clock = ClockPage(self.folder / f"{name}.clock")
        program = Program(name, [
            self.binaries.get(binary, lib.BIN / binary),
            "--etcd-endpoints", ",".join(f"http://{link}" for link in links),
            f"--http-listen=127.0.0.1:{port}", f"--clock-file={clock.path}", *args], self.folder)
        program.clock, program.serves_at = clock, f"127.0.0.1:{port}"
        self.processes.append(program)
        return program

    def add_worker(self, *args, name=None):
        name = name or f"worker{len(self.workers) + 1}"
        port = lib.free_port()
        self.proxy.link(f"coordinators>{name}", f"127.0.0.1:{port}", "127.0.0.2", port)
        disk = self.folder / "disk"
        disk.mkdir(exist_ok=True)
        state_file = disk / f"{name}.state"
        options = dict(arg.split("=", 1) for arg in (*WORKER, *args))  # the later one counts
        worker = self._program(name, "snowfleet-worker", port, "--advertise=127.0.0.2",
                               "--grpc-listen=127.0.0.1:0", f"--identity={name}", f"--state-file={state_file}",
                               *(f"{option}={value}" for option, value in options.items()))
        worker.state_file = state_file
        self.workers.append(worker)
        return worker

    def add_coordinator(self, *args):
        name = f"coordinator{len(self.coordinators) + 1}"
        coordinator = self._program(name, "snowfleet-coordinator", lib.free_port(), *COORDINATOR, *args)
        self.coordinators.append(coordinator)
        return coordinator

    @property
    def programs(self):
        return [*self.workers, *self.coordinators]

    def ctl_raw(self, *args, **kwargs):
        # A mutant of snowfleetctl takes the place of the ordinary one.
        command = self.binaries.get("snowfleetctl")
        if not command:
            return super().ctl_raw(*args, **kwargs)
        common = [] if "--etcd-endpoints" in args else self._common()
        return subprocess.run([str(command), str(args[0]), *common, *map(str, args[1:])],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, env=lib.clean_env(),
                              timeout=60 * lib.SLOW, check=False)

    def holding(self, worker):
        """The Key own/NNNN of a machine ID of this worker, or None; by its identity."""
        for key in self.etcd.prefix(self.key("own/")):
            if key.json().get("identity") == worker.name:
                return key
        return None

    def leading(self):
        """The coordinator whose record the leader key holds, or None."""
        key = self.get("leader")
        if key is None:
            return None
        instance = key.json().get("instance")
        return next((program for program in self.coordinators
                     if program.alive() and program.log() and program.instance == instance), None)

    def close(self, failed=False):
        try:
            for process in self.processes:
                if process.stopped and process.alive():
                    process.resume()
            for process in self.processes:  # at once, not one after the other
                if process.alive():
                    process.signal(15)
            super().close(failed=False)
        finally:
            if self.proxy:
                self.proxy.close()

    def dump(self, lines=60):
        pass  # the folder is kept


def limit_file_size(pid, size):
    """How large a file this process may make from now on; None: any size."""
    soft = resource.RLIM_INFINITY if size is None else size
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))
