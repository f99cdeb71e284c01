#!/usr/bin/env python3
"""What each clock strategy does to availability, timestamps and order under each step of the clock.

    SNOWFLEET_BIN=build/gcc/bin /usr/bin/python3 tests/bench/clock_strategies.py [--rounds 5]

A real worker on a bent clock, a real etcd, two peers that keep the true time, and one client that asks
again as soon as it has an answer.  Two kinds of step:

  corrected  the clock was wrong and is set right: the peers confirm the new time
  disturbed  the clock was right, is wrong for two seconds, and is set right again: nobody confirms

Three tables.  Availability is the time without IDs in ms, the median of the rounds (smallest and largest
in brackets): the sum of the gaps between answers that held at least one refusal, or that were longer than
a millisecond's wait can be (20 ms, which a busy machine may also take without any step: see the first
row).  Timestamps: how far the IDs issued from the step on were dated from true time, in ms, least and most
of all rounds, 0 when it may be the very moment of issue.  Order: by how many ms an ID was
dated before an older one of the same worker; IDs of one machine ID that do not increase end the run.
"""

import argparse
import pathlib
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

import lib  # noqa: E402  pylint: disable=wrong-import-position
import load  # noqa: E402  pylint: disable=wrong-import-position
from clock_page import Clock  # noqa: E402  pylint: disable=wrong-import-position

# +1 s is --max-forward-step itself, and the last one that is taken over without a confirmation.
STEPS = {"none": 0, "-5 ms": -0.005, "-50 ms": -0.05, "-5 s": -5, "-1 h": -3600, "+0.9 s": 0.9, "+1 s": 1,
         "+1.1 s": 1.1, "+1 h": 3600}
STRATEGIES = ("wait", "offset", "bounded")
GAP_S = 0.02
AWAY_S = 2


class Client:
    """Takes IDs from one worker over one connection, and notes when it got some."""

    def __init__(self, worker):
        self.worker, self.ids, self.gaps, self.refused = worker, [], 0.0, False
        self.off_ms = [0.0, 0.0]  # timestamps from true time since begin(), least and most
        self.last = time.monotonic()
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        host, port = self.worker.address.rsplit(":", 1)
        connection = lib.http.client.HTTPConnection(host, int(port), timeout=20)
        while not self.ending.is_set():
            asked_ms = time.time() * 1000
            connection.request("GET", "/v1/ids", headers={"Accept": "text/plain"})
            answer = connection.getresponse()
            body = answer.read().decode()
            now = time.monotonic()
            if answer.status != 200:
                self.refused = True
                time.sleep(0.005)
                continue
            if self.refused or now - self.last > GAP_S:
                self.gaps += now - self.last
            self.refused, self.last = False, now
            self.ids.append(int(body))
            dated_ms = load.parts(self.ids[-1])[0]
            self.off_ms = [min(self.off_ms[0], dated_ms + 1 - asked_ms),
                           max(self.off_ms[1], dated_ms - time.time() * 1000)]
            time.sleep(0.001)

    def begin(self):
        """What came so far is not measured."""
        self.gaps, self.off_ms = 0, [0.0, 0.0]

    def more(self, n=50):
        goal = len(self.ids) + n
        lib.wait_until(lambda: len(self.ids) >= goal, 60, f"{n} more IDs", 0.01)

    def stop(self):
        """Time without IDs, timestamps from the truth, the largest step back from one ID to a later one."""
        self.ending.set()
        self.thread.join(30)
        load.no_duplicates(self.ids)
        last, highest, back_ms = {}, 0, 0
        for wall_ms, machine_id, sequence in map(load.parts, self.ids):
            lib.check((wall_ms, sequence) > last.get(machine_id, (0, 0)), "IDs of a machine ID increase")
            last[machine_id] = (wall_ms, sequence)
            back_ms, highest = max(back_ms, highest - wall_ms), max(highest, wall_ms)
        return self.gaps * 1000, self.off_ms, back_ms


def start(fleet, strategy, offset_s):
    clock = Clock(fleet, f"clock{time.monotonic_ns()}", offset_s)
    clock.say(True, 0.02)
    worker = fleet.worker(f"--clock-file={clock.path}", f"--clock-strategy={strategy}",
                          "--assign-wait=0s", "--chrony-port=0")
    worker.wait_ready()
    return clock, worker, Client(worker)


def corrected(fleet, strategy, step_s):
    clock, worker, client = start(fleet, strategy, -step_s)
    client.more()
    clock.set(0)
    client.begin()
    client.more()
    lib.wait_until(lambda: worker.status()["clock"]["state"] in ("normal", "slewing"), 30,
                   "the step is over")
    client.more()
    found = client.stop()
    worker.terminate()
    return found


def disturbed(fleet, strategy, step_s):
    clock, worker, client = start(fleet, strategy, 0)
    client.more()
    client.begin()
    clock.set(step_s)
    time.sleep(AWAY_S)
    clock.set(0)
    client.more()
    found = client.stop()
    worker.terminate()
    return found


def availability(found):
    gaps = [gap for gap, _, _ in found]
    return f"{statistics.median(gaps):.0f} ({min(gaps):.0f}..{max(gaps):.0f})"


def timestamps(found):
    return f"{min(off[0] for _, off, _ in found):+.0f}..{max(off[1] for _, off, _ in found):+.0f}"


def order(found):
    back_ms = max(back for _, _, back in found)
    return f"back by {back_ms}" if back_ms else "increase"


def print_table(title, cell, measured):
    columns = [(strategy, kind) for strategy in STRATEGIES for kind in (corrected, disturbed)]
    print(f"\n{title}\n\n| step | " + " | ".join(
        f"{strategy}, {kind.__name__}" for strategy, kind in columns) + " |")
    print("|---" * (1 + len(columns)) + "|")
    for name in STEPS:
        print(f"| {name} | " + " | ".join(cell(measured[name, *column]) for column in columns) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    measured = {}
    with lib.Fleet() as fleet:
        fleet.init("--new")
        for i in range(2):
            fleet.stub(f"peer/{i}")
        for number in range(args.rounds):
            for name, step_s in STEPS.items():
                for strategy in STRATEGIES:
                    for kind in (corrected, disturbed):
                        for stub in fleet.stubs:
                            fleet.etcd.keepalive(stub.lease)
                        measured.setdefault((name, strategy, kind), []).append(
                            kind(fleet, strategy, step_s))
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    for cell in (availability, timestamps, order):
        print_table(cell.__name__, cell, measured)


if __name__ == "__main__":
    main()
