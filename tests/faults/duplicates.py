"""Looks for an ID that two clients got, among all that any client got.

    report = check(folder, ctl="build/bin/snowfleetctl")

    python3 duplicates.py FOLDER SNOWFLEETCTL      # exit 1 on a finding

`snowfleetctl audit --offline` sorts them, in bounded memory.  That it sees every line is not taken on trust:
it has to count as many as were sent, and one line of each file is sent a second time, at the end: exactly
those have to come back as duplicates, and what else comes back is a finding.

    duplicate    an ID came twice
    line         a line is not an ID and its claim
    tool         snowfleetctl audit has not seen what it was given, or failed
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import id_files
from findings import Report

CLAIM = re.compile(rb" [0-9a-f]{32}$", re.M)
SHOW = 100_000


class Feed:
    """What was sent: where the lines of each file begin in the whole, and which were sent again."""

    def __init__(self):
        self.n = 0
        self.files = []  # (first line, path)
        self.again = []  # (id, path)

    def place(self, number):
        """The file and line of a line of the whole, or None for those sent again."""
        if number > self.n:
            return None
        first, path = max(entry for entry in self.files if entry[0] <= number)
        return f"{path.name}:{number - first + 1}"


def without_claims(block, n):
    claim = block[-34:-1]
    if block.count(claim + b"\n") == block.count(claim) == n:
        return block.replace(claim, b"")
    text = CLAIM.sub(b"", block)
    return text if text.endswith(b"\n") else text + b"\n"


def send(paths, pipe):
    """IDs without claims."""
    feed = Feed()
    for path in paths:
        first, chosen = feed.n + 1, None
        for _, n, block in id_files.blocks(path):
            feed.n += n
            text = without_claims(block, n)
            pipe.write(text)
            # One in the middle of the last block that has a good one.
            middle = text.splitlines()[n // 2]
            if middle.isdigit():
                chosen = middle
        if feed.n >= first:
            feed.files.append((first, path))
        if chosen is not None:
            feed.again.append((chosen.decode(), path))
    for number, _ in feed.again:
        pipe.write(number.encode() + b"\n")
    return feed


def run(ctl, paths, tmp_dir):
    """What audit says, and what it was given."""
    command = [str(ctl), "audit", "--offline", "--output=json", f"--show={SHOW}", "-"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("SNOWFLEET_")}
    if tmp_dir:
        command.insert(2, f"--tmp-dir={tmp_dir}")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=env) as process:
        try:
            feed = send(paths, process.stdin)
        except BrokenPipeError:
            feed = None
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass
        out, errors = process.stdout.read(), process.stderr.read()
    return feed, process.returncode, out, errors.decode(errors="replace")


def check(folder, ctl, tmp_dir=None):
    report = Report()
    paths = [path for path in id_files.paths(folder) if path.stat().st_size > 0]
    report.figures.update(files=len(paths), ids=0)
    if not paths:
        report.add("tool", f"no IDs in {folder}")
        return report
    feed, code, out, errors = run(ctl, paths, tmp_dir)
    try:
        said = json.loads(out)
    except ValueError:
        said = None
    # Lines that were sent again are duplicates, so 1 is what is expected.
    if feed is None or said is None or code != 1:
        report.add("tool", f"{ctl} audit ended with {code}: {errors.strip()}")
        return report
    judge(report, feed, said)
    return report


def judge(report, feed, said):
    report.figures["ids"] = int(said["ids"])
    if int(said["lines"]) != feed.n + len(feed.again):
        report.add("tool", f"{feed.n} lines and {len(feed.again)} again were sent, it saw "
                   f"{said['lines']}")
    for row in said["bad_lines"]["first"]:
        place = feed.place(int(row["line"]))
        report.add("line", row["reason"], lines=[(place, "")])
    again = {}
    for number, path in feed.again:
        again.setdefault(number, []).append(path)
    rows = {row["id"]: row for row in said["duplicates"]["first"]}
    for number, found in again.items():
        if number not in rows:
            report.add("tool", f"{number} of {found[0].name} was sent twice, and it did not notice")
    for number, row in rows.items():
        surplus = int(row["count"]) - 1 - len(again.get(number, []))
        if surplus > 0:
            places = [feed.place(int(place["line"])) for place in row["places"]]
            report.add("duplicate", f"{number} came {surplus + 1} times", row["machine_id"],
                       lines=[(place, number) for place in places if place])
    listed = len(said["duplicates"]["first"])
    if int(said["duplicates"]["ids"]) > listed:
        report.add("duplicate", f"{int(said['duplicates']['ids']) - listed} more IDs came twice")
    if int(said["bad_lines"]["lines"]) > len(said["bad_lines"]["first"]):
        report.add("line", f"{said['bad_lines']['lines']} bad lines")


if __name__ == "__main__":
    sys.exit(check(pathlib.Path(sys.argv[1]), sys.argv[2]).show())
