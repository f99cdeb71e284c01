"""Goes through one recorded history, revision by revision, and judges what each wrote; history.py has the
rules and what follows from several histories together."""

import json
import re

ZEROS = "0" * 32
HORIZON = re.compile(r"(\d{20}):([0-9a-f]{32}):(0|[1-9]\d*)")
CEILING = re.compile(r"\d{20}")
SLOT_KEY = re.compile(r"(hor|own)/(\d{4})")
ROLLBACK_REASON = "rollback:"


class Record:
    """An event, and where it stands in which file."""
    __slots__ = ("rev", "key", "value", "mod_rev", "version", "filled", "place", "text")

    def __init__(self, entry, place, text):
        self.rev = entry["rev"]
        self.key = entry["key"]
        self.value = entry["value"]
        self.mod_rev = entry["mod_rev"]
        self.version = entry["version"]
        self.filled = entry.get("filled", False)
        self.place = place
        self.text = text

    def same(self, other):
        return (self.rev, self.key, self.value) == (other.rev, other.key, other.value)


def line(record):
    return (record.place, record.text)


def lines(*records):
    return [line(record) for record in records if record]


class Claim:
    """What is known of one claim; highest is the record of the largest horizon under it."""

    def __init__(self, name, machine_id, instance, chain, record):
        self.name = name
        self.machine_id = machine_id
        self.instance = instance
        self.chain = chain
        self.first = self.highest = record
        self.top = 0
        self.released = None  # (horizon, record)
        self.open_ended = False

    def limit(self):
        return min(self.top, self.released[0]) if self.released else self.top


class Chain:
    def __init__(self, machine_id, era, h0, record):
        self.machine_id = machine_id
        self.era = era
        self.h0 = h0
        self.first = self.highest = record
        self.claims = []
        self.stretched = None  # (timestamp, place and text): of an ID, when the end is not known

    def top(self):
        """The highest timestamp that may have been used, and the line that says so."""
        for claim in self.claims:
            if claim.released:
                return claim.released[0], line(claim.released[1])
        best = max(self.claims, key=lambda claim: claim.top)
        if self.stretched and self.stretched[0] > best.top:
            return self.stretched
        return best.top, line(best.highest)


class Ledger:
    """What all segments together say."""

    def __init__(self, report, squatters=frozenset()):
        self.report = report
        self.squatters = squatters
        self.claims = {}  # name: Claim
        self.chains = {}  # machine ID: [Chain]
        self.recovers = set()
        self.eras = []  # in the order in which they began
        self.follows = []  # (claim, the next one of its chain), by name
        self.epoch_ms = None
        self.blind = set()  # machine IDs of which revisions were lost
        self.unproven_eras = []  # of the histories whose end was not proven


class Replay:
    """Goes through one history, revision by revision, and judges each; silent up to a revision, which is
    what it has in common with one that was judged before."""

    def __init__(self, ledger, silent_to):
        self.ledger = ledger
        self.silent_to = silent_to
        self.revision = 0
        self.state = {}  # key: Record
        self.current = {}  # machine ID: the Claim whose chain stands
        self.seen = set()

    def found(self, rule, text, machine_id=None, claim=None, *records):
        if self.revision > self.silent_to:
            self.ledger.report.add(rule, text, machine_id, self.revision, claim, lines(*records))

    # ---- values ----

    def meta(self):
        record = self.state.get("meta")
        return as_meta(record.value) if record else None

    def ceiling(self):
        record = self.state.get("ceil")
        return int(record.value) if record and CEILING.fullmatch(record.value) else None

    # ---- a revision ----

    def step(self, revision, records):
        if revision < self.revision:
            self.found("history", f"revision {revision} comes after {self.revision}", None, None,
                       records[0])
        self.revision = revision
        changes = {}
        for record in records:
            before = self.state.get(record.key)
            self.check_version(before, record)
            changes[record.key] = (before, record)
        for number in sorted({int(match[2]) for match in map(SLOT_KEY.fullmatch, changes) if match}):
            nothing = (None, None)
            self.slot(number, *changes.get(f"hor/{number:04}", nothing),
                      *changes.get(f"own/{number:04}", nothing))
        if "meta" in changes:
            self.check_meta(*changes["meta"])
        if "ceil" in changes:
            self.check_ceiling(*changes["ceil"])
        for record in records:
            self.put(record)

    def put(self, record):
        if record.value is None:
            self.state.pop(record.key, None)
        else:
            self.state[record.key] = record

    def fill(self, record):
        """Of a compacted revision: nothing is known of what lay between."""
        match = SLOT_KEY.fullmatch(record.key)
        if match:
            self.ledger.blind.add(int(match[2]))
            self.current.pop(int(match[2]), None)
        self.put(record)

    def check_version(self, before, record):
        if record.value is None:
            if before is None:
                self.found("history", f"{record.key} is deleted and was not there", None, None, record)
            return
        expected = before.version + 1 if before else 1
        if record.version != expected or record.mod_rev != record.rev:
            self.found("history", f"{record.key} has version {record.version}, expected {expected}",
                       None, None, before, record)

    # ---- meta and ceil ----

    def check_meta(self, before, after):
        if after.value is None:
            self.found("meta", "meta is deleted", None, None, before, after)
            return
        new = as_meta(after.value)
        if new is None:
            self.found("unreadable", "meta", None, None, after)
            return
        epoch_ms = self.ledger.epoch_ms
        if epoch_ms is not None and int(new["epoch_ms"]) != epoch_ms:
            self.found("meta", f"the epoch changes from {epoch_ms} to {new['epoch_ms']}", None, None,
                       before, after)
        if epoch_ms is None:
            self.ledger.epoch_ms = int(new["epoch_ms"])
        if new["era"] not in self.ledger.eras:
            self.ledger.eras.append(new["era"])
        old = as_meta(before.value) if before else None
        if old is None:
            return
        if int(new["serial"]) <= int(old["serial"]):
            self.found("meta", f"the serial goes from {old['serial']} to {new['serial']}", None, None,
                       before, after)
        if int(new["floor_ms"]) < int(old["floor_ms"]):
            self.found("floor", f"the floor falls from {old['floor_ms']} to {new['floor_ms']}", None,
                       None, before, after)
        if new["era"] != old["era"] and not (
                old["era"] in new["earlier_eras"] and new["era"] not in old["earlier_eras"]
                and rollback_freeze(old)):
            self.found("meta", f"the era goes from {old['era']} to {new['era']} without a recovery",
                       None, None, before, after)

    def check_ceiling(self, before, after):
        if after.value is None:
            self.found("ceiling", "ceil is deleted", None, None, before, after)
        elif not CEILING.fullmatch(after.value):
            self.found("unreadable", f"ceil is {after.value!r}", None, None, after)
        elif before and CEILING.fullmatch(before.value) and int(after.value) < int(before.value):
            self.found("ceiling", f"ceil falls from {before.value} to {after.value}", None, None,
                       before, after)

    # ---- a slot ----

    def slot(self, machine_id, hor_before, hor, own_before, own):
        """hor and own are what this revision writes, None when it leaves the key alone."""
        if own_before is None:
            own_before = self.state.get(f"own/{machine_id:04}")
        put = as_object(own.value) if own and own.value is not None else None
        if own and own.value is not None and (put is None or not put.get("claim")):
            self.found("unreadable", f"own is {own.value!r}", machine_id, None, own)
            put = None
        if hor is None:
            if put and put["claim"] not in self.ledger.squatters:
                self.found("own", "own is put without a claim", machine_id, put["claim"],
                           own_before, own)
            return
        if hor.value is None:
            self.found("deleted", "the hor key is deleted", machine_id, None, hor_before, hor)
            return
        new = HORIZON.fullmatch(hor.value)
        if not new:
            self.found("unreadable", f"hor is {hor.value!r}", machine_id, None, hor)
            return
        old = HORIZON.fullmatch(hor_before.value) if hor_before else None
        before, after = old and split(old), split(new)
        if put and put["claim"] == after[1]:
            self.claim(machine_id, before, after, put, hor_before, hor, own_before)
        elif put:
            self.found("own", "own is put by another claim than hor", machine_id, after[1], own, hor)
        elif before and before[1] == after[1] and own and own.value is None:
            self.release(machine_id, before, after, hor_before, hor, own_before)
        elif before and before[1] == after[1]:
            self.extend(machine_id, before, after, hor_before, hor, own_before)
        else:
            self.other(machine_id, before, after, hor_before, hor, own)

    def other(self, machine_id, before, after, hor_before, hor, own):
        """Neither a claim's holder nor one that becomes it: init, range-set, recover."""
        self.current.pop(machine_id, None)
        if before is None and after[1:] == (ZEROS, 0):
            return
        meta = self.meta()
        if not (meta and rollback_freeze(meta) and after[2] == 1 and own is None
                and after[1] not in self.ledger.claims):
            self.found("foreign", "hor is written by nobody who may", machine_id, after[1],
                       hor_before, hor)
            return
        self.ledger.recovers.add(after[1])
        if before and after[0] <= before[0]:
            self.found("fell", f"recover writes {after[0]} over {before[0]}", machine_id, after[1],
                       hor_before, hor)

    def guard(self, machine_id, after, era, hor_before, hor):
        """What a claim and an extension share."""
        meta = self.meta()
        record = self.state.get("meta")
        if meta is None or meta["mode"] != "OPEN":
            self.found("meta", "written while the cluster is not open", machine_id, after[1], record,
                       hor)
        elif era is not None and meta["era"] != era:
            self.found("meta", f"written in era {meta['era']} by a chain of {era}", machine_id,
                       after[1], record, hor)
        ceiling = self.ceiling()
        if ceiling is None or after[0] >= ceiling:
            self.found("ceiling", f"{after[0]} is not below ceil, {ceiling}", machine_id, after[1],
                       self.state.get("ceil"), hor)
        if meta and not usable(meta, machine_id):
            self.found("meta", "the machine ID is not to be given out", machine_id, after[1], record,
                       hor)

    def grow(self, claim, after, hor):
        if after[0] >= claim.top:
            claim.top, claim.highest = after[0], hor

    def claim(self, machine_id, before, after, put, hor_before, hor, own_before):
        name = after[1]
        meta = self.meta()
        floor_ms = int(meta["floor_ms"]) if meta else 0
        h0 = max(before[0] if before else 0, floor_ms)
        self.guard(machine_id, after, None, hor_before, hor)
        if before is None:
            self.found("foreign", "a claim on a slot that does not exist", machine_id, name, hor)
        if own_before:
            self.found("own", "claimed while own was there", machine_id, name, own_before, hor)
        if after[2] != 1:
            self.found("count", f"a new claim with n {after[2]}", machine_id, name, hor_before, hor)
        if before and after[0] < before[0]:
            self.found("fell", f"a claim writes {after[0]} over {before[0]}", machine_id, name,
                       hor_before, hor)
        elif after[0] < floor_ms:
            self.found("floor", f"a claim ends at {after[0]}, below the floor {floor_ms}", machine_id,
                       name, self.state.get("meta"), hor)
        previous = self.current.get(machine_id)
        goes_on = (previous is not None and previous.instance == put.get("instance")
                   and previous.chain.era == (meta and meta["era"])
                   and before and before[1] == previous.name)
        known = self.ledger.claims.get(name)
        if name in self.seen or name in self.ledger.recovers or (
                known and (known.machine_id, known.instance) != (machine_id, put.get("instance"))):
            self.found("claim", "the claim was written before", machine_id, name,
                       known and known.first, hor)
        if known is None:
            chain = previous.chain if goes_on else Chain(machine_id, meta and meta["era"], h0, hor)
            known = Claim(name, machine_id, put.get("instance"), chain, hor)
            if not goes_on:
                self.ledger.chains.setdefault(machine_id, []).append(chain)
            chain.claims.append(known)
            self.ledger.claims[name] = known
            if goes_on:
                self.ledger.follows.append((previous.name, name))
        self.seen.add(name)
        self.current[machine_id] = known
        self.grow(known, after, hor)

    def held(self, machine_id, name, hor, own_before):
        """own names the claim that writes."""
        own = as_object(own_before.value) if own_before else None
        if own is None or own.get("claim") != name:
            self.found("own", "written by a claim that own does not name", machine_id, name, own_before,
                       hor)

    def extend(self, machine_id, before, after, hor_before, hor, own_before):
        claim = self.current.get(machine_id)
        self.guard(machine_id, after, claim and claim.chain.era, hor_before, hor)
        self.held(machine_id, after[1], hor, own_before)
        if after[2] != before[2] + 1:
            self.found("count", f"n goes from {before[2]} to {after[2]}", machine_id, after[1],
                       hor_before, hor)
        if after[0] < before[0]:
            self.found("fell", f"an extension writes {after[0]} over {before[0]}", machine_id, after[1],
                       hor_before, hor)
        if claim:
            self.grow(claim, after, hor)

    def release(self, machine_id, before, after, hor_before, hor, own_before):
        claim = self.current.pop(machine_id, None)
        self.held(machine_id, after[1], hor, own_before)
        if after[2] != before[2] + 1:
            self.found("count", f"n goes from {before[2]} to {after[2]}", machine_id, after[1],
                       hor_before, hor)
        if after[0] > before[0]:
            self.found("release", f"a release raises the horizon from {before[0]} to {after[0]}",
                       machine_id, after[1], hor_before, hor)
        if claim is None:
            return
        if after[0] < claim.chain.h0:
            self.found("release", f"a release writes {after[0]}, below {claim.chain.h0}, where its "
                       "interval begins", machine_id, after[1], claim.chain.first, hor)
        if claim.released is None or after[0] < claim.released[0]:
            claim.released = (after[0], hor)


# ---- values ----

def as_object(text):
    try:
        value = json.loads(text)
    except (TypeError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def as_meta(text):
    value = as_object(text)
    try:
        for name in ("serial", "floor_ms", "epoch_ms"):
            int(value[name])
        usable(value, 0)
        return value if value["mode"] in ("OPEN", "FROZEN") and value["era"] is not None \
            and isinstance(value["earlier_eras"], list) else None
    except (KeyError, TypeError, ValueError):
        return None


def rollback_freeze(meta):
    return meta["mode"] == "FROZEN" and meta.get("reason", "").startswith(ROLLBACK_REASON)


def usable(meta, machine_id):
    first, last = map(int, meta["machine_id_range"].split("-"))
    if not first <= machine_id <= last:
        return False
    for item in meta["reserved"]:
        low, _, high = str(item).partition("-")
        if int(low) <= machine_id <= int(high or low):
            return False
    return True


def split(match):
    return int(match[1]), match[2], int(match[3])
