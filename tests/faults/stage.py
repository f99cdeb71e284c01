"""What every run of the fault suite needs: a fleet in a folder from its start to the verdict of the oracles."""

import http.client
import os
import subprocess
import threading
import time

import carrier as carriers
import clients
import duplicates
import fleet as fleets
import history
import lib
import recorder

LIVENESS_S = 3 * (fleets.TTL_S + fleets.WINDOW_S)


class Say:
    """Prints lines with the time since the start, and keeps them in run.log."""

    def __init__(self, folder):
        self.began = time.monotonic()
        self.lock = threading.Lock()
        self.file = open(folder / "run.log", "w", encoding="utf-8", buffering=1)

    def __call__(self, text):
        with self.lock:
            line = f"{time.monotonic() - self.began:7.2f}  {text}"
            print(line, flush=True)
            self.file.write(line + "\n")


class Disk:
    """A small file system for state files, where we may mount one."""

    def __init__(self, folder):
        self.path = folder / "disk"
        self.path.mkdir()
        self.mounted = os.geteuid() == 0 and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={carriers.DISK_BYTES}", "snowfleet-faults", self.path],
            capture_output=True, check=False).returncode == 0

    def close(self):
        if not self.mounted:
            return
        kept = [(path.name, path.read_bytes()) for path in self.path.iterdir()]
        subprocess.run(["umount", self.path], check=True)
        for name, content in kept:  # evidence
            (self.path / name).write_bytes(content)


def _limits(worker):
    """The limits of its machine IDs, by claim; {} when it does not answer."""
    try:
        return {machine["claim"]: int(machine["limit_ms"]) for machine in worker.status()["machines"]
                if machine["state"] == "SERVING"}
    except (OSError, ValueError, KeyError, http.client.HTTPException):
        return {}


def liveness(fleet, load, carrier, say):
    """After the last heal: within LIVENESS_S every worker serves again, from a grant that is younger than
    the heal: what it still had does not count, unless it is so much (its clock was ahead once) that it
    asks for no more.  Returns how long each took."""
    healed = time.monotonic()
    plenty_ms = (time.time() + LIVENESS_S + fleets.WINDOW_S) * 1000
    before = {worker.name: _limits(worker) for worker in fleet.workers}
    took = {}
    while len(took) < len(fleet.workers) and time.monotonic() < healed + LIVENESS_S:
        for worker in fleet.workers:
            if worker.name in took or load.last_good(worker) < healed:
                continue
            if any(limit > min(plenty_ms, before[worker.name].get(claim, 0))
                   for claim, limit in _limits(worker).items()):
                took[worker.name] = round(time.monotonic() - healed, 2)
        time.sleep(0.05)
    for worker in fleet.workers:
        if worker.name not in took:
            try:
                shown = worker.get("/v1/status").body
            except OSError as err:
                shown = str(err)
            carrier.finding("liveness", f"{worker.name} does not serve {LIVENESS_S} s after all was healed: {shown}")
            took[worker.name] = None
    say(f"serving again after: {took} (bound {LIVENESS_S} s)")
    return took


def reports_of_programs(fleet, carrier):
    """Assertions and sanitizer reports, of all that ever ran."""
    for path in sorted(fleet.folder.glob("*.err")):
        text = path.read_text(errors="replace")
        if path.name.startswith(("worker", "coordinator")):
            try:
                lib._refuse_reports(path.name, 0, text)  # pylint: disable=protected-access
            except lib.Failure as report:
                carrier.finding("report", str(report))
        elif path.name == "fault_proxy.err" and "Traceback" in text:
            carrier.finding("suite", text[-2000:])


def judge(folder, ctl, findings):
    """Both oracles.  Adds to findings; returns their figures."""
    figures = {}
    for name, report in (("history", history.check(folder)), ("duplicates", duplicates.check(folder, ctl=ctl))):
        figures[name] = dict(report.figures)
        findings += [{"rule": finding.rule, "text": str(finding)} for finding in report.findings]
        more = sum(report.counts.values()) - len(report.findings)
        if more:
            findings.append({"rule": name, "text": f"and {more} more"})
    return figures


class Run:
    """One run: a fleet in folder, from its start to the verdict."""

    def __init__(self, folder, seed, say, binaries=None):
        self.folder, self.seed, self.say = folder, seed, say
        self.disk = Disk(folder)
        self.fleet = self.recorder = self.load = self.carrier = None
        self.figures = {}
        try:
            self.fleet = fleets.FaultFleet(folder, seed, binaries)
            self.recorder = recorder.Recorder([member.url for member in self.fleet.etcd.members],
                                              fleets.PREFIX, folder)
            self.recorder.start()
            self.carrier = carriers.Carrier(self.fleet, self.recorder, say)
        except BaseException:
            self.close()
            raise

    def start(self, workers, coordinators):
        """Init, programs, clients; returns when all serve."""
        self.fleet.init(*fleets.INIT)
        for _ in range(coordinators):
            self.fleet.add_coordinator()
        for _ in range(workers):
            self.fleet.add_worker()
        for worker in self.fleet.workers:
            worker.wait_ready()
        self.carrier.save_states()
        self.serve(self.fleet.workers)

    def serve(self, workers, **kwargs):
        """Clients for these workers (see clients.Clients)."""
        self.load = clients.Clients(self.folder, workers, self.seed, **kwargs)

    def stop(self):
        """The clients, then the recorder: what they got is in the history by then."""
        if self.load:
            self.load.stop()
            self.figures.update(self.load.figures())
            self.load = None
        if self.recorder:
            self._silence()
            if not self.recorder.stop():
                self.carrier.finding("recorder", f"the end of the history is not proven: {self.recorder.problem}")
            self.recorder = None

    def _silence(self):
        """Nobody writes any more, and no lease is left to expire: only then can the history have a proven
        end."""
        self.fleet.proxy.rule("black_hole", link="*>etcd*", late=0)
        lib.wait_until(lambda: not any(key.lease for key in self.fleet.etcd.prefix(fleets.PREFIX)), 60,
                       "all leases have expired", 0.2)

    def close(self):
        if self.load:
            self.load.stop()
        if self.recorder:
            self.recorder.stop(1)
        if self.fleet:
            self.fleet.close()
        self.disk.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
