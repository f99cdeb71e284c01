#!/usr/bin/env python3
"""What a primary key of each kind costs a database: inserts the same small rows under keys of every kind
into PostgreSQL and SQLite and prints, as ratios to auto-increment of the same round, the insert rate, the
size, the pages written and the log, and how full the leaves of the key's index are.

    SNOWFLEET_BIN=build/gcc/bin tests/bench/index/run.py --rounds 3

Every round runs each kind once, in turn; a figure is the median of its rounds, with the smallest and the
largest rate.  Counts do not depend on the machine's load, rates do; inserts a CPU second less.  Needs the
packages tagged bench.

With --json FILE the figures are kept there after each measurement, and what is there already is not measured
again: a run that was ended goes on, and --kinds and --engines split it into pieces.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import plot
from plot import ratios
from postgres import Postgres
from sqlite import Sqlite

KINDS = ["autoincrement", "snowflake", "uuidv7", "ulid-binary", "ulid-text", "uuidv4", "public"]
COUNTS = ["bytes", "index_bytes", "pages_written", "log_bytes", "page_images"]
ENGINES = {
    "postgres": Postgres,
    "sqlite": lambda folder: Sqlite(folder, clustered=False),
    "sqlite-clustered": lambda folder: Sqlite(folder, clustered=True),
}


def number(largest):
    def read(text):
        if not text.isdecimal() or not 1 <= int(text) <= largest:
            raise argparse.ArgumentTypeError(f"must be 1..{largest}, got {text}")
        return int(text)
    return read


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=number(10**9), default=5_000_000)
    parser.add_argument("--rounds", type=number(1000), default=3)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--workers", type=number(64), default=8,
                        help="that give out the keys, between them")
    parser.add_argument("--rate", type=number(10**6), default=20_000,
                        help="keys a second, of all the workers")
    parser.add_argument("--folder", help="for the databases; some 3 GB at 5 million rows")
    parser.add_argument("--json", help="file that keeps all the figures, and those of an earlier run")
    parser.add_argument("--svg", help="file to draw them into")
    parser.add_argument("--from-json", help="measure nothing: print and draw what --json wrote before")
    return parser.parse_args()


def make_rows(kind, args, file):
    program = os.path.join(os.environ.get("SNOWFLEET_BIN", "build/gcc/bin"), "bench_keys")
    if not os.access(program, os.X_OK):
        raise SystemExit(f"run.py: no {program}: SNOWFLEET_BIN must be the folder of a test build's programs")
    with open(file, "w") as out:
        subprocess.run([program, kind, str(args.rows), str(args.workers), str(args.rate)],
                       stdout=out, check=True)


def earlier(args):
    """What an earlier run left, or nothing yet."""
    settings = {"rows": args.rows, "workers": args.workers, "rate": args.rate}
    if not args.json or not os.path.exists(args.json):
        return {**settings, "load": [], "engines": {}}
    with open(args.json) as source:
        found = json.load(source)
    for name, value in settings.items():
        if found[name] != value:
            raise SystemExit(f"run.py: {args.json} was measured with --{name} {found[name]}, not {value}")
    return found


def keep(found, file):
    with open(f"{file}.new", "w") as out:
        json.dump(found, out, indent=1)
    os.replace(f"{file}.new", file)


def run(args):
    found = earlier(args)
    os.umask(0o022)  # PostgreSQL reads the rows as another user, if this one is root
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        os.chmod(folder, 0o755)
        engines = []
        try:
            for name in args.engines:
                os.mkdir(f"{folder}/{name}")
                engines.append(ENGINES[name](f"{folder}/{name}"))
                found["engines"].setdefault(engines[-1].name, {kind: [] for kind in KINDS})
            for n in range(args.rounds):
                for kind in args.kinds:
                    missing = [engine for engine in engines if len(found["engines"][engine.name][kind]) <= n]
                    if missing:
                        make_rows(kind, args, f"{folder}/rows")
                    for engine in missing:
                        started = time.monotonic()
                        figures = engine.measure(kind, f"{folder}/rows", args.rows)
                        found["engines"][engine.name][kind].append(figures)
                        found["load"].append(os.getloadavg()[0])
                        print(f"{engine.name}: {kind}: {time.monotonic() - started:.0f} s",
                              file=sys.stderr)
                        if args.json:
                            keep(found, args.json)
        finally:
            for engine in engines:
                engine.close()
    return found


def measured(found):
    """The engines and kinds that have figures, as ratios need them."""
    some = {engine: {kind: rounds for kind, rounds in kinds.items() if rounds}
            for engine, kinds in found["engines"].items()}
    return {engine: kinds for engine, kinds in some.items() if "autoincrement" in kinds}


def with_extremes(values):
    return f"{statistics.median(values):11.2f}{f'({min(values):.2f} to {max(values):.2f})':>17}"


def report(found):
    print(f"{found['rows']} rows, keys of {found['workers']} workers at {found['rate']}/s; load "
          f"{min(found['load']):.1f} to {max(found['load']):.1f}.  Ratios to auto-increment.")
    for engine, kinds in found["engines"].items():
        base = kinds["autoincrement"]
        counts = [name for name in COUNTS if name in base[0]]
        print(f"\n{engine}, {plot.rounds_of(kinds)}")
        print(f"{'key':<20}{'inserts/s':>11} {'of all rounds':>16}{'per CPU s':>11} {'of all rounds':>16}{'leaves':>8}" +
              "".join(f"{name.replace('_', ' '):>15}" for name in counts))
        for kind in kinds:
            print(f"{kind:<20}" + with_extremes(ratios(kinds, kind, "rows_per_s")) +
                  with_extremes(ratios(kinds, kind, "rows_per_cpu_s")) +
                  f"{statistics.median(x['density'] for x in kinds[kind]):6.0f} %" +
                  "".join(f"{statistics.median(ratios(kinds, kind, name)):15.2f}" for name in counts))
        print("auto-increment itself: " + ", ".join(
            f"{name} {statistics.median(x[name] for x in base):.0f}" for name in base[0]))


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that PostgreSQL is ended too
    if args.from_json:
        with open(args.from_json) as source:
            found = json.load(source)
    else:
        found = run(args)
    found["engines"] = measured(found)
    report(found)
    if args.svg:
        with open(args.svg, "w") as out:
            out.write(plot.svg(found))


if __name__ == "__main__":
    main()
