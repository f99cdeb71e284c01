"""A recorded history in the making, true or forged, for the tests of history.py."""

import json
import pathlib

EPOCH_MS = 1704067200000
ERA, NEXT_ERA = "e" * 32, "f" * 32
START = EPOCH_MS + 1000
META = {"format": 1, "serial": "1", "era": ERA, "earlier_eras": [], "floor_ms": str(START),
        "epoch_ms": str(EPOCH_MS), "machine_id_range": "0-7", "reserved": [7, "5-6"],
        "max_window_ms": 4000, "quiet_time_ms": 0, "max_offset_ms": 100, "mode": "OPEN", "reason": ""}
CEILING = START + 1_000_000


def claim_name(number):
    return f"{number:032x}"


def instance_name(number):
    return f"{number:031x}a"


def hor(horizon, claim, n):
    return f"{horizon:020}:{claim if isinstance(claim, str) else claim_name(claim)}:{n}"


class World:
    """A recorded history in the making, and files of IDs.  Times are ms after START."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.segment = 0
        self.files = {}
        self.saved = None
        self.state = {}  # key: [value, create_rev, version]
        self.revision = 1
        self.lines = []
        self.meta = dict(META)

    # -- etcd --

    def txn(self, *writes, **odd):
        """Writes (key, value or None) in one revision; odd replaces fields of the events."""
        self.revision += 1
        for key, value in writes:
            old = self.state.pop(key, None)
            created = old[1] if old else self.revision
            version = 0 if value is None else (old[2] if old else 0) + 1
            if value is not None:
                self.state[key] = [value, created, version]
            self.lines.append({"rev": self.revision, "key": key, "value": value,
                               "create_rev": created, "mod_rev": self.revision,
                               "version": version, "at_ms": 0} | odd)

    def note(self, note, **fields):
        self.lines.append({"note": note, **fields, "at_ms": 0})

    def write_meta(self, **fields):
        self.meta |= {"serial": str(int(self.meta["serial"]) + 1)} | fields
        self.txn(("meta", json.dumps(self.meta)))

    def init(self):
        for number in (0, 1, 2, 3, 4):
            self.txn((f"hor/{number:04}", hor(EPOCH_MS, 0, 0)))
        self.txn(("ceil", f"{CEILING:020}"))
        self.txn(("meta", json.dumps(self.meta)))

    def save(self):
        """A backup."""
        self.saved = (dict(self.state), self.revision, list(self.lines), dict(self.meta))

    def end(self, proven=True):
        self.note("proof", rev=self.revision)
        self.note("end", rev=self.revision, proven=proven)
        self.segment += 1
        (self.folder / f"history.{self.segment}.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in self.lines))

    def restore(self, proven=True):
        self.end(proven)
        self.state, self.revision, self.lines, self.meta = self.saved
        self.save()
        self.lines = list(self.lines)

    def lose(self, proven=True):
        self.end(proven)
        self.state, self.revision, self.lines = {}, 1, []

    # -- workers; horizons as ms after START --

    def own(self, claim, instance):
        return json.dumps({"claim": claim_name(claim), "instance": instance_name(instance),
                           "identity": "w", "addresses": {}})

    def claim(self, machine, claim, instance, until, n=1):
        self.txn((f"own/{machine:04}", self.own(claim, instance)),
                 (f"hor/{machine:04}", hor(START + until, claim, n)))

    def extend(self, machine, claim, until, n):
        self.txn((f"hor/{machine:04}", hor(START + until, claim, n)))

    def release(self, machine, claim, last, n):
        self.txn((f"own/{machine:04}", None), (f"hor/{machine:04}", hor(START + last, claim, n)))

    def expire(self, machine):
        self.txn((f"own/{machine:04}", None))

    def ids(self, name, machine, claim, *times):
        """Each time is ms after START, or (ms, sequence)."""
        for each in times:
            ms, sequence = each if isinstance(each, tuple) else (each, 0)
            number = (START + ms - EPOCH_MS) << 22 | machine << 12 | sequence
            self.line(name, f"{number} {claim_name(claim)}\n")

    def line(self, name, text):
        with open(self.folder / f"ids.{name}.txt", "a", encoding="utf-8") as file:
            file.write(text)

    # -- recover --

    def freeze(self):
        self.write_meta(mode="FROZEN", reason="rollback: recover 1234 is at work")

    def raise_to(self, machine, until, claim=99):
        self.txn((f"hor/{machine:04}", hor(START + until, claim, 1)))

    def open(self, floor, era=NEXT_ERA, **fields):
        self.write_meta(**{"mode": "OPEN", "reason": "", "era": era, "earlier_eras": [ERA],
                           "floor_ms": str(START + floor)} | fields)

    def recover(self, floor=5000):
        self.freeze()
        self.raise_to(1, 2600)
        self.open(floor)
