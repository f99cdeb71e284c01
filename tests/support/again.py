#!/usr/bin/env python3
"""Which tests of a ctest run may be run once more, alone: prints their names, a line each.

    again.py JUNIT-FILE

Exit code 0: those named, and no other test failed.  1: something failed that no load excuses.

Whole programs with a real etcd have time limits, and beside other tests on two cores a limit can pass
that holds on a machine with time.  What a sanitizer reported, what came twice, and whatever failed
outside of the integration tests is as true beside others as alone.  So is a failure of many.
"""

import re
import sys
import xml.etree.ElementTree

MANY = 4
NO_EXCUSE = re.compile(r"Sanitizer|runtime error:|twice|Assertion `|Segmentation fault|SEGV")


def judge(path):
    """(names that may be run again, reasons why not)"""
    names, reasons = [], []
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        if case.get("status") == "run" and case.find("failure") is None:
            continue
        if case.get("status") in ("disabled", "notrun"):
            reasons.append(f"{case.get('name')}: not run")
            continue
        output = "".join(part.text or "" for part in case.iter("system-out"))
        found = NO_EXCUSE.search(output)
        if not case.get("name").startswith("integration."):
            reasons.append(f"{case.get('name')}: no integration test")
        elif found:
            reasons.append(f"{case.get('name')}: {found.group()}")
        else:
            names.append(case.get("name"))
    if len(names) > MANY:
        reasons.append(f"{len(names)} tests failed")
    return names, reasons


def main():
    names, reasons = judge(sys.argv[1])
    for reason in reasons:
        print(f"again.py: not run again: {reason}", file=sys.stderr)
    if reasons or not names:
        sys.exit(1)
    print("\n".join(names))


if __name__ == "__main__":
    main()
