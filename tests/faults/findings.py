"""What an oracle says."""

import dataclasses

SHOWN = 20  # of each rule; all are counted


@dataclasses.dataclass
class Finding:
    """lines: the two at odds, each (file:line, its text)."""
    rule: str
    text: str
    machine_id: int | None = None
    revision: int | None = None
    claim: str | None = None
    lines: list = dataclasses.field(default_factory=list)

    def __str__(self):
        parts = [f"{self.rule}: {self.text}"]
        for name, value in (("machine ID", self.machine_id), ("revision", self.revision),
                            ("claim", self.claim)):
            if value is not None:
                parts.append(f"{name} {value}")
        return "; ".join(parts) + "".join(f"\n    {place}  {text}" for place, text in self.lines)


class Report:
    """findings holds the first of each rule, counts all of them."""

    def __init__(self):
        self.findings = []
        self.counts = {}
        self.figures = {}

    def add(self, rule, text, machine_id=None, revision=None, claim=None, lines=()):
        self.counts[rule] = self.counts.get(rule, 0) + 1
        if self.counts[rule] <= SHOWN:
            self.findings.append(Finding(rule, text, machine_id, revision, claim, list(lines)))

    @property
    def ok(self):
        return not self.counts

    def show(self):
        """Prints all of it; the exit code."""
        for finding in self.findings:
            print(finding)
        print(", ".join(f"{name} {value}" for name, value in self.figures.items()))
        print("findings: " + (", ".join(f"{rule} {n}" for rule, n in sorted(self.counts.items()))
                              or "none"))
        return 0 if self.ok else 1
