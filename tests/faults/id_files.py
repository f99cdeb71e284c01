"""Reads what clients got: files ids.<worker>.<incarnation>.<client>.txt with lines "<id> <claim>", in the
order in which they came, one request at a time.

What is kept is small whatever their number: for each claim and machine ID how many, the lowest, the highest.
Most blocks of lines have one claim throughout, and are read at once; the others line by line.
"""

import io
import pathlib
import re

LINE = re.compile(rb"(0|[1-9][0-9]{0,18}) ([0-9a-f]{32})\n")
BLOCK = 1 << 20
ID_MAX = (1 << 63) - 1


class Total:
    """low_line and high_line: (file:line, its text)."""
    __slots__ = ("n", "low", "high", "low_line", "high_line")

    def __init__(self):
        self.n = 0
        self.low = self.low_line = self.high = self.high_line = None


def paths(folder):
    return sorted(pathlib.Path(folder).glob("ids.*.txt"))


def blocks(path):
    """Whole lines, each with its end, some at a time; with the number of the first and how many they are.
    What follows the last line end is a line too, without one."""
    number, rest = 1, b""
    with open(path, "rb") as file:
        while data := file.read(BLOCK):
            whole, end, rest = (rest + data).rpartition(b"\n")
            if end:
                n = whole.count(b"\n") + 1
                yield number, n, whole + end
                number += n
    if rest:
        yield number, 1, rest


class File:
    """One file: its IDs rise for each machine ID."""

    def __init__(self, path, totals, report):
        self.name = path.name
        self.totals = totals
        self.report = report
        self.last = {}  # machine ID: (id, line number)

    def place(self, number, numeral, claim):
        return f"{self.name}:{number}", f"{numeral} {claim}"

    def run(self, number, ids, claim):
        """Successive lines of one claim, the first of them the given one."""
        machines = {each >> 12 & 1023 for each in ids}
        if len(machines) > 1:
            for i, each in enumerate(ids):
                self.run(number + i, [each], claim)
            return
        machine_id = machines.pop()
        total = self.totals.setdefault((claim, machine_id), Total())
        before = self.last.get(machine_id)
        rising = sorted(ids)
        if rising != ids or len(set(ids)) < len(ids) or (before and before[0] >= ids[0]):
            self.find_disorder(number, ids, claim, machine_id, before)
        low, high = rising[0], rising[-1]
        if total.n == 0 or low < total.low:
            total.low, total.low_line = low, self.place(number + ids.index(low), low, claim)
        if total.n == 0 or high > total.high:
            total.high, total.high_line = high, self.place(number + ids.index(high), high, claim)
        total.n += len(ids)
        self.last[machine_id] = (ids[-1], number + len(ids) - 1)

    def find_disorder(self, number, ids, claim, machine_id, before):
        previous = before
        for i, each in enumerate(ids):
            if previous and previous[0] >= each:
                self.report.add("order", f"{each} comes after {previous[0]}", machine_id, None, claim,
                                [self.place(previous[1], previous[0], "..."),
                                 self.place(number + i, each, claim)])
            previous = (each, number + i)

    def block(self, number, text):
        """Lines with their ends."""
        tail = text[-34:]
        if re.fullmatch(rb" [0-9a-f]{32}\n", tail) and re.fullmatch(
                rb"(?:(?:0|[1-9][0-9]{0,18})%b)++" % tail, text):
            ids = list(map(int, text.replace(tail, b"\n").split()))
            if max(ids) <= ID_MAX:
                self.run(number, ids, tail[1:-1].decode())
                return
        for i, each in enumerate(io.BytesIO(text)):
            self.single(number + i, each)

    def single(self, number, text):
        match = LINE.fullmatch(text)
        if match and int(match[1]) <= ID_MAX:
            self.run(number, [int(match[1])], match[2].decode())
        else:
            self.report.add("line", f"{text[:100]!r} is not an ID and its claim", None, None, None,
                            [(f"{self.name}:{number}", text[:100].decode(errors="replace"))])


def read(folder, report):
    """({(claim, machine ID): Total}, how many files)."""
    totals = {}
    found = paths(folder)
    for path in found:
        file = File(path, totals, report)
        for number, _, text in blocks(path):
            file.block(number, text)
    return totals, len(found)
