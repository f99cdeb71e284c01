#!/usr/bin/env python3
"""snowfleetctl skew in real time, with large fleets behind slow paths; in CI test_skew_rounds.c does the
same in time of its own."""

import json
import pathlib
import sys
import time

import lib

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
NODES = 275


class Many:
    """A cluster of nodes that are clocks alone, each off by a known amount, and a tool that asks them."""

    def __init__(self, fleet, name, *options):
        self.fleet, self.name = fleet, name
        self.common = ["--cluster", name, "--etcd-endpoints", fleet.etcd.url]
        clocks = lib.Process(f"clocks-{name}", [sys.executable, SUPPORT / "delaying_clocks.py", *options],
                             fleet.folder)
        fleet.processes.append(clocks)
        self.known = json.loads(lib.wait_until(
            lambda: clocks.output().endswith("\n") and clocks.output(), 30, "the clocks run"))
        fleet.ctl("init", "--new", "--machine-id-range=0-0", "--max-offset=1h", *self.common)
        fleet.etcd.put_all({f"/snowfleet/{name}/node/{i:032x}": json.dumps({
            "identity": str(i), "version": "x", "attempt": "1", "missing": 0, "wanted": [], "held": [],
            "addresses": {"http": node["address"], "grpc": ""}, "refused": [], "synchronized": True,
            "max_error_ns": None}) for i, node in enumerate(self.known)}, fleet.etcd.grant(600))

    def ask(self):
        self.run = lib.Process(f"skew-{self.name}", [
            lib.BIN / "snowfleetctl", "skew", "--output=json", *self.common], self.fleet.folder)
        self.fleet.processes.append(self.run)

    def bounds(self):
        """Of those that were heard, each of which holds the truth."""
        lib.equal(self.run.wait(200), 2, "some of them are certainly off")
        report = json.loads(self.run.output())
        lib.equal(len(report["nodes"]), len(self.known))
        found = []
        for node in report["nodes"]:
            known = self.known[int(node["identity"])]
            if node["bound_ms"] is None:
                lib.check("timed out" in node["reason"], str(node))
                continue
            off_ms = abs(node["offset_ms"] + report["reference"]["from_here_ms"] - known["offset_ns"] / 1e6)
            # Offset and reference are printed to 1 us each.
            lib.check(off_ms <= node["bound_ms"] + 0.002, f"off by {off_ms} ms: {known} {node}")
            lib.check(2 * node["bound_ms"] >= known["there_ms"] + known["back_ms"], f"{known} {node}")
            found.append(node["bound_ms"])
        return found


def test_the_bound_is_honest_a_thousand_times():
    """Known offsets of both signs and all sizes behind paths of up to 400 ms one way, by chance: the truth
    lies within what is printed, every time.  Four fleets, each asked by a tool of its own."""
    with lib.Fleet() as fleet:
        fleets = [Many(fleet, f"many{n}", f"--nodes={NODES}", f"--seed={n + 1}") for n in range(4)]
        for many in fleets:
            many.ask()
        bounds = [bound for many in fleets for bound in many.bounds()]
        lib.check(len(bounds) >= 1000 and min(bounds) < 50 and max(bounds) > 190,
                  f"{len(bounds)} heard, {min(bounds)} to {max(bounds)} ms")
        print(f"    {len(bounds)} rounds, bounds of {min(bounds):.3f} to {max(bounds):.1f} ms")


def test_a_round_may_take_longer_than_an_answer_counts_otherwise():
    """900 nodes of 400 ms each way: the last is heard more than half a minute after the first."""
    with lib.Fleet() as fleet:
        many = Many(fleet, "far", "--nodes=900", "--delay=0.38")
        begun = time.monotonic()
        many.ask()
        bounds = many.bounds()
        lib.check(time.monotonic() - begun > 35, "all were asked in less than an answer counts")
        lib.check(len(bounds) >= 810 and min(bounds) >= 380, f"{len(bounds)} heard")


if __name__ == "__main__":
    lib.main()
