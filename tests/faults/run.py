#!/usr/bin/python3
"""Runs a whole fleet under faults, and lets two oracles judge what came of it.

    SNOWFLEET_BIN=build/gcc/bin tests/faults/run.py [--duration 2m] [--seed N] [--faults all|KIND,KIND]
                                                    [--workers N] [--keep DIR] [--json FILE]
    ... --schedule            prints the schedule of that seed, and does nothing
    ... --mutant NAME         a build with one rule removed, under what that rule is for: has to be caught
    ... --mutants             all of them, and the ordinary build in each one's place, which has to be clean

Three etcd members, eight workers, two coordinators, and clients that write down every ID they are given.  The
schedule (which fault, when, how long, on whom) is a function of the seed and the options; how threads
and processes interleave is not.  After the schedule all is put right, and every worker has to serve again
within three times (TTL + window).  Exit code 0 without a finding, 1 with one (then the folder with all evidence
is kept and named), 64 on a wrong argument.

The binaries have to be of a test build (-DSNOWFLEET_TEST_BUILD=ON): clocks are bent by --clock-file, the
machine's own clock is never touched.  As root on a kernel that allows it, state files lie on a small
file system of their own, which can be full.
"""

import argparse
import json
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

import fleet as fleets
import lib
import mutants
import schedule
import stage

WORKERS, COORDINATORS = 8, 2


def run_schedule(options, folder, say):
    """The faults of a schedule.  Returns the report."""
    faults = schedule.build(options.seed, options.duration, options.faults)
    say(f"seed {options.seed}: {len(faults)} faults in {options.duration:g} s, window {fleets.WINDOW_S} s, "
        f"TTL {fleets.TTL_S} s, in {folder}")
    began = time.monotonic()
    with stage.Run(folder, options.seed, say) as run:
        run.start(options.workers, COORDINATORS)
        say("all workers serve; the schedule begins")
        try:
            run.carrier.run(faults)
            run.carrier.heal()
            say("all is healed")
            took = stage.liveness(run.fleet, run.load, run.carrier, say)
        except lib.Failure as failure:
            run.carrier.finding("heal", str(failure))
            took = None
        restored = len(run.carrier.restores)
        run.stop()
        carrier, figures = run.carrier, run.figures
        stage.reports_of_programs(run.fleet, carrier)
    if "restore" in options.faults and not restored and any(fault.kind == "restore" for fault in faults):
        carrier.finding("suite", "no restore came to its end")
    if not figures.get("ids"):
        carrier.finding("suite", "no ID was issued")
    say("the oracles look at it")
    judged = stage.judge(folder, lib.BIN / "snowfleetctl", carrier.findings)
    return {"seed": options.seed, "duration_s": options.duration, "seconds": round(time.monotonic() - began, 1),
            "workers": options.workers, "window_s": fleets.WINDOW_S, "ttl_s": fleets.TTL_S, **figures,
            "faults": dict(sorted(carrier.counts.items())), "faults_total": sum(carrier.counts.values()),
            "missed": carrier.missed, "restores": carrier.restores,
            "serving_again_s": took, "liveness_bound_s": stage.LIVENESS_S, **judged, "findings": carrier.findings}


def run_mutant(name, binaries, folder, seed):
    """The scenario of that mutant with these programs.  (seconds, findings)."""
    say = stage.Say(folder)
    began = time.monotonic()
    with stage.Run(folder, seed, say, binaries) as run:
        try:
            mutants.SCENARIOS[name](run)
        except lib.Failure as failure:
            # A mutant may break down in ways of its own; what counts is what the oracles say.
            say(f"the scenario ends early: {failure}")
            if not binaries:
                run.carrier.finding("scenario", str(failure))
        run.stop()
        if not binaries:
            stage.reports_of_programs(run.fleet, run.carrier)
        findings = run.carrier.findings
    stage.judge(folder, lib.BIN / "snowfleetctl", findings)
    return time.monotonic() - began, findings


def run_mutants(names, options, folder):
    """Returns whether all were caught, and the ordinary build nowhere."""
    good = True
    lines = []
    for name in names:
        for label, binaries in (("ordinary build", {}), ("mutant", mutants.binaries(name))):
            place = folder / f"{name}.{label.split()[0]}"
            place.mkdir()
            took_s, findings = run_mutant(name, binaries, place, options.seed)
            rules = sorted({finding["rule"] for finding in findings})
            right = bool({"scenario", "suite", "recorder"}.isdisjoint(rules) and rules) if binaries else not rules
            good = good and right
            if not right or binaries:
                print(*(f"    {finding['rule']}: {finding['text'][:400]}" for finding in findings[:3]), sep="\n")
            lines.append(f"{name:24} {label:15} {'caught' if rules else 'clean':7} in {took_s:5.1f} s"
                         f"  {', '.join(rules)}{'' if right else '  <- WRONG'}")
            print(lines[-1], flush=True)
    print("\n" + "\n".join(lines) + f"\nseed {options.seed}: {'all as it has to be' if good else 'NOT as it has to be'}")
    return good


def show(report):
    print(f"\nseed {report['seed']}: {report['ids']} IDs in {report['answers']} answers, "
          f"{report['refusals']} refused, {report['broken_requests']} broken")
    print(f"faults: {report['faults_total']}: " + ", ".join(f"{kind} {n}" for kind, n in report["faults"].items()))
    if report["missed"]:
        print("missed: " + ", ".join(f"{kind} {n}" for kind, n in report["missed"].items()))
    for restored in report["restores"]:
        print(f"restore: {restored}")
    print(f"longest unavailability: fleet {report['longest_unavailable_fleet_s']} s; "
          f"by worker {report['longest_unavailable_s']}")
    print(f"serving again after the last heal: {report['serving_again_s']} (bound {report['liveness_bound_s']} s)")
    for name in ("history", "duplicates"):
        print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in report[name].items()))
    for finding in report["findings"]:
        print(f"FINDING {finding['rule']}: {finding['text']}")
    print(f"findings: {len(report['findings'])}; seed {report['seed']}; {report['seconds']} s", flush=True)


def seconds(text):
    """90, 90s, 2m, 1h."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in "smh" else (text, "s")
    if not number.isdecimal() or not 10 <= int(number) * {"s": 1, "m": 60, "h": 3600}[unit] <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r}: must be 10s to 24h")
    return int(number) * {"s": 1, "m": 60, "h": 3600}[unit]


def kinds(text):
    try:
        return schedule.parse_kinds(text)
    except ValueError as err:
        raise argparse.ArgumentTypeError(str(err)) from None


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = lambda message: (print(f"run.py: {message}", file=sys.stderr), sys.exit(64))
    parser.add_argument("--duration", type=seconds, default=120, help="of the schedule: 10s to 24h (2m)")
    parser.add_argument("--seed", type=int, help="of the schedule (a random one, which is printed)")
    parser.add_argument("--faults", type=kinds, default=list(schedule.KINDS), metavar="all|KIND,KIND")
    parser.add_argument("--workers", type=int, choices=range(3, 33), default=WORKERS, metavar="N", help="3 to 32 (8)")
    parser.add_argument("--keep", metavar="DIR", type=pathlib.Path, help="a new folder for all evidence, kept in any case")
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path, help="where to write the report as JSON")
    parser.add_argument("--schedule", action="store_true", help="print the schedule only")
    parser.add_argument("--mutant", choices=list(mutants.SCENARIOS), metavar="NAME", action="append", default=[],
                        help=", ".join(mutants.SCENARIOS))
    parser.add_argument("--mutants", action="store_true", help="all of those")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 32)
    return options


def main():
    options = arguments()
    if options.schedule:
        print(*schedule.build(options.seed, options.duration, options.faults), sep="\n")
        return 0
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    if options.keep:
        options.keep.mkdir(parents=True)
    folder = pathlib.Path(options.keep or tempfile.mkdtemp(prefix="snowfleet-faults-")).resolve()
    if options.mutants or options.mutant:
        good = run_mutants(options.mutant or list(mutants.SCENARIOS), options, folder)
        if good and not options.keep:
            shutil.rmtree(folder)
        elif not good:
            print(f"evidence: {folder}")
        return 0 if good else 1
    report = run_schedule(options, folder, stage.Say(folder))
    show(report)
    text = json.dumps(report, indent=1)
    (folder / "report.json").write_text(text + "\n")
    if options.json:
        options.json.write_text(text + "\n")
    if report["findings"]:
        print(f"evidence: {folder}; again: --seed {options.seed} --duration {options.duration}s "
              f"--workers {options.workers} --faults {','.join(options.faults)}")
    elif not options.keep:
        shutil.rmtree(folder)
    return 1 if report["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
