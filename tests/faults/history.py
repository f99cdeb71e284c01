"""Judges what happened from etcd's history alone (recorder.py), and the IDs that clients got by it.

    report = check(folder)      # history.<segment>.jsonl and ids.*.txt in it
    report.findings, report.figures, report.ok

    python3 history.py FOLDER   # prints them; exit 1 on a finding

Pure but for reading the files: no clock, no etcd, no program of ours.  What the words mean is in
ARCHITECTURE.md.  A chain here is what can be seen of one from outside: successive claims of one instance
on one machine ID, in one era, with no foreign write and no release between them; its interval is (h0, top].

The rules, by the names that findings carry:

    fell         a horizon never falls but by a release, and recover only raises
    release      a release deletes own in the same revision, writes n + 1, and ends within its own interval
    count        n goes up by one under the same claim, and a new claim starts at n 1
    own          own is there and names the claim when it extends; absent before a claim, put by it; and
                 never put otherwise, but for the claims in squatters.txt, which are the tests' own
    claim        no claim is written twice, nor for two machine IDs
    foreign      nobody else writes a horizon: init and range-set create it, recover raises it while frozen
    meta         meta is open and of the claim's era when it claims or extends, the machine ID is in range;
                 it is never deleted, its serial rises, its epoch stays, another era only by recover
    floor        the floor never falls, and no claim ends below it
    ceiling      ceil only rises and is never deleted; no horizon is written that reaches it
    deleted      a hor key is never deleted
    unreadable   values are spelt as they must be
    overlap      the intervals of the chains of one machine ID are disjoint, across restored histories too
    era          a chain of a later era begins above all that an earlier one may have used
    interval     an ID lies in the interval of its claim's chain, up to what that very claim had written
    stranger     an ID carries a claim that etcd never saw, or that of another machine ID
    order        IDs of one machine ID rise within a client's file, and from claim to claim in a chain
    line         a client's line is an ID and its claim
    history      the recorded history is whole: versions have no gap, revisions rise, it was proven
    compacted    ... but for revisions that were compacted before they were seen

A history whose end was not proven when etcd was taken away leaves open how far its last claims went: their
IDs above what was seen count as "unproven" in the figures, and stretch the interval of their chain, which
must still be disjoint from all others.
"""

import json
import pathlib
import sys

import id_files
from findings import Report
from replay import Chain, Claim, Ledger, Record, Replay, line, lines

EPOCH_MS = 1704067200000


class Segment:
    """One file: its events, and its notes as (how many events came before, the note, place, text)."""

    def __init__(self, path):
        self.name = path.name
        self.records, self.notes = [], []
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            entry = json.loads(text)
            place = f"{path.name}:{number}"
            if "note" in entry:
                self.notes.append((len(self.records), entry, place, text))
            else:
                self.records.append(Record(entry, place, text))
        self.proven = any(note["note"] == "end" and note["proven"]
                          for _, note, _, _ in self.notes)

    def gaps(self):
        return [(at, note, place, text) for at, note, place, text in self.notes
                if note["note"] == "gap"]


# ---- histories ----

def common(one, other):
    """How many events two histories have in common from the beginning, in whole revisions."""
    n = 0
    while n < min(len(one), len(other)) and one[n].same(other[n]):
        n += 1
    while 0 < n < len(one) and n < len(other) and one[n - 1].rev in (one[n].rev, other[n].rev):
        n -= 1
    return n


def spliced(segment, earlier):
    """The events of a segment whose beginning was compacted, completed from an earlier one that agrees
    with what was left of it; None when none does."""
    gaps = segment.gaps()
    if not gaps or gaps[0][0] != 0 or len(gaps) > 1:
        return None
    compacted = gaps[0][1]["compacted"]
    filled = {record.key: record for record in segment.records if record.filled}
    for records in reversed(earlier):
        state = {}
        old = [record for record in records if record.rev <= compacted]
        for record in old:
            state[record.key] = record
        state = {key: record for key, record in state.items() if record.value is not None}
        if records and records[-1].rev >= compacted and state.keys() == filled.keys() and all(
                (state[key].rev, state[key].value) == (record.mod_rev, record.value)
                for key, record in filled.items()):
            return old + [record for record in segment.records if not record.filled]
    return None


def replay(ledger, segment, records, silent_to):
    """Judges one history."""
    run = Replay(ledger, silent_to)
    batch = []
    for record in records:
        if batch and (record.rev != batch[0].rev or record.filled or batch[0].filled):
            take(run, batch)
            batch = []
        batch.append(record)
    if batch:
        take(run, batch)
    if not segment.proven:
        ledger.unproven_eras.append((run.meta() or {}).get("era"))
        for claim in run.current.values():
            claim.open_ended = True


def take(run, batch):
    if batch[0].filled:
        run.fill(batch[0])
    else:
        run.step(batch[0].rev, batch)


def check_notes(report, segment, complete, last):
    """What the recorder itself found."""
    for _, note, place, text in segment.notes:
        if note["note"] == "gap" and not complete:
            report.add("compacted", f"revisions {note['after'] + 1} to {note['compacted']} are lost",
                       None, note["compacted"], None, [(place, text)])
        elif note["note"] in ("mismatch", "rollback"):
            report.add("history", f"{note['note']}: {note.get('text', '')}", None, note["rev"], None,
                       [(place, text)])
    if last and not segment.proven:
        report.add("history", f"{segment.name} was not proven to be whole at its end", None,
                   segment.records[-1].rev if segment.records else 0, None,
                   [segment.notes[-1][2:]] if segment.notes else [])


def judge_histories(report, segments, squatters):
    ledger = Ledger(report, squatters)
    earlier = []
    for segment in segments:
        records = spliced(segment, earlier)
        check_notes(report, segment, records is not None, segment is segments[-1])
        records = segment.records if records is None else records
        n = max([common(records, other) for other in earlier], default=0)
        replay(ledger, segment, records, records[n - 1].rev if n else 0)
        earlier.append(records)
    return ledger


# ---- intervals ----

def show(chain):
    return f"({chain.h0}, {chain.top()[0]}]"


def check_intervals(ledger):
    for machine_id, chains in sorted(ledger.chains.items()):
        ends = [(chain, *chain.top()) for chain in chains]
        # Those in which nothing can have been issued meet nobody.
        ends = sorted((end for end in ends if end[1] > end[0].h0), key=lambda end: end[0].h0)
        highest = None
        for end in ends:
            if highest and end[0].h0 < highest[1]:
                pair(ledger, "overlap", "meets", machine_id, end, highest)
            if highest is None or end[1] > highest[1]:
                highest = end
        highest = None  # of the earlier eras
        for era in ledger.eras:
            mine = [end for end in ends if end[0].era == era]
            for end in mine:
                if highest and end[0].h0 < highest[1]:
                    pair(ledger, "era", "of a later era begins below the end of", machine_id, end,
                         highest)
            highest = max(mine + ([highest] if highest else []), key=lambda end: end[1], default=None)


def pair(ledger, rule, verb, machine_id, end, other):
    ledger.report.add(rule, f"{show(end[0])} {verb} {show(other[0])}", machine_id,
                      end[0].first.rev, end[0].claims[0].name,
                      [line(end[0].first), other[2]])


# ---- IDs ----

def check_ids(ledger, totals):
    """totals: of id_files.read()."""
    report = ledger.report
    epoch_ms = EPOCH_MS if ledger.epoch_ms is None else ledger.epoch_ms
    unproven = 0
    for (name, machine_id), total in sorted(totals.items()):
        if machine_id in ledger.blind:
            continue
        claim = ledger.claims.get(name)
        low, high = (total.low >> 22) + epoch_ms, (total.high >> 22) + epoch_ms
        if claim is None and ledger.unproven_eras and name not in ledger.recovers:
            # Claimed after the last revision seen of an old history: an interval of its own.
            chain = Chain(machine_id, ledger.unproven_eras[-1], low - 1, Place(total.low_line))
            claim = Claim(name, machine_id, None, chain, chain.first)
            claim.top = high
            claim.highest = Place(total.high_line)
            chain.claims.append(claim)
            ledger.chains.setdefault(machine_id, []).append(chain)
            ledger.claims[name] = claim
            unproven += total.n
            continue
        if claim is None or claim.machine_id != machine_id:
            report.add("stranger", f"{total.n} IDs with a claim of "
                       f"{'nobody' if claim is None else f'machine ID {claim.machine_id}'}",
                       machine_id, claim and claim.first.rev, name,
                       [total.low_line] + lines(claim and claim.first))
            continue
        if low <= claim.chain.h0:
            report.add("interval", f"{total.low} is of {low}, not above {claim.chain.h0}, where the "
                       "interval begins", machine_id, claim.chain.first.rev, name,
                       [total.low_line, line(claim.chain.first)])
        if high > claim.limit() and claim.open_ended and not claim.released:
            unproven += 1
            if claim.chain.stretched is None or high > claim.chain.stretched[0]:
                claim.chain.stretched = (high, total.high_line)
        elif high > claim.limit():
            record = claim.released[1] if claim.released else claim.highest
            report.add("interval", f"{total.high} is of {high}, above {claim.limit()}, the end of its "
                       "interval", machine_id, record.rev, name, [total.high_line, line(record)])
    for before, after in ledger.follows:
        machine_id = ledger.claims[after].machine_id
        one, other = totals.get((before, machine_id)), totals.get((after, machine_id))
        if one and other and one.high >= other.low:
            report.add("order", f"{other.low} of the chain's next claim is not above {one.high}",
                       machine_id, ledger.claims[after].first.rev, after,
                       [one.high_line, other.low_line])
    report.figures["unproven"] = unproven


class Place:
    """A client's line in the place of a record."""

    def __init__(self, where):
        self.place, self.text = where
        self.rev = None


# ---- all of it ----

def check(folder):
    report = Report()
    folder = pathlib.Path(folder)
    paths = sorted(folder.glob("history.*.jsonl"), key=lambda path: int(path.name.split(".")[1]))
    segments = [Segment(path) for path in paths]
    if not segments:
        report.add("history", f"no history in {folder}")
    squatters = folder / "squatters.txt"
    ledger = judge_histories(report, segments, frozenset(
        squatters.read_text().split() if squatters.exists() else ()))
    totals, n_files = id_files.read(folder, report)
    check_ids(ledger, totals)
    check_intervals(ledger)
    report.figures.update(
        segments=len(segments), revisions=sum(len(segment.records) for segment in segments),
        claims=len(ledger.claims), chains=sum(map(len, ledger.chains.values())),
        eras=len(ledger.eras), machine_ids=len(ledger.chains), files=n_files,
        ids=sum(total.n for total in totals.values()))
    return report


if __name__ == "__main__":
    sys.exit(check(sys.argv[1]).show())
