#!/usr/bin/env python3
"""How precise snowfleetctl skew is on loopback: the bound of the best of eight exchanges.

    SNOWFLEET_BIN=build/gcc/bin tests/bench/skew_precision.py [--rounds 100] [--workers 3]

Prints the median, the 95th percentile and the maximum of the bounds of all workers in all rounds, and how far
the workers' clocks, which are one and the same here, seemed to be apart at most."""

import argparse
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import lib  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--workers", type=int, default=3)
    args = parser.parse_args()
    bounds, offsets = [], []
    with lib.Fleet() as fleet:
        fleet.init("--new")
        for worker in [fleet.worker("--assign-wait=0s") for _ in range(args.workers)]:
            worker.wait_ready()
        for _ in range(args.rounds):
            for node in json.loads(fleet.ctl_raw("skew", "--output=json").stdout)["nodes"]:
                lib.check(node["bound_ms"] is not None, f"not heard: {node}")
                bounds.append(node["bound_ms"])
                offsets.append(abs(node["offset_ms"] or 0))
    bounds.sort()
    print(f"{args.workers} workers, {args.rounds} rounds: bound median {statistics.median(bounds):.3f} ms, "
          f"95 % {bounds[int(len(bounds) * 0.95)]:.3f} ms, maximum {bounds[-1]:.3f} ms; "
          f"|offset| at most {max(offsets):.3f} ms")


if __name__ == "__main__":
    main()
