#!/usr/bin/python3
"""Checks tests/CASES.md: each case once and in order, and each test that it names is there."""

import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parent


def is_there(path, name):
    """Does the file define this test, and run it?"""
    file = TESTS / path
    if not file.is_file():
        return False
    text = file.read_text(encoding="utf-8")
    if path.endswith(".py"):
        return re.search(rf"^def {name}\(", text, re.M) is not None
    if path.endswith(".c"):
        return re.search(rf"\b(CHECK_TEST|CASE)\({name}\)", text) is not None
    return re.search(rf"\b{name}\b", text) is not None


def findings(text):
    last = 0
    for line in text.splitlines():
        row = re.match(r"\| B(\d+) \| (.*) \| (.*) \|$", line)
        if not row:
            if line.startswith("| B"):
                yield f"no row of three columns: {line}"
            continue
        number, tests = int(row[1]), row[3]
        if number <= last:
            yield f"B{row[1]}: out of order, or twice"
        last = number
        named = re.findall(r"`([^`:]+):([^`]+)`", tests)
        if not named and not re.search(r"issue \d+", tests):
            yield f"B{row[1]}: neither a test nor the issue that it waits for"
        for path, name in named:
            if not is_there(path, name):
                yield f"B{row[1]}: {path} has no test {name}"
    if last == 0:
        yield "no case at all"


def main():
    found = list(findings((TESTS / "CASES.md").read_text(encoding="utf-8")))
    for finding in found:
        print(finding)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
