"""[pure] Which faults happen when: a function of the seed and the options, and of nothing else.

A schedule names roles ("the etcd leader") where only the run can tell who has it at that moment.  What it
cannot fix is how threads and processes interleave: the same seed repeats the faults, not every race.
"""

import dataclasses
import random

TTL_S = 2
YEAR_S = 365 * 86400


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault: from begin_s, for lasts_s, after which it is put right."""

    number: int
    kind: str
    begin_s: float
    lasts_s: float
    victim: int      # of those that there are of its kind; the carrier takes it modulo
    chance: int      # seeds what else the carrier has to choose

    @property
    def end_s(self):
        return self.begin_s + self.lasts_s

    def __str__(self):
        return f"#{self.number} {self.kind} {self.begin_s:.1f} s for {self.lasts_s:.1f} s, victim {self.victim}"


@dataclasses.dataclass(frozen=True)
class Kind:
    """How often compared with others, how long, and how much room it needs."""

    weight: float
    lasts_s: tuple
    alone: bool = False  # nothing else goes on beside it
    clock: bool = False  # at most CLOCKS_BENT at a time: consensus needs a majority that agrees
    etcd: bool = False   # one at a time: three members bear one that is gone


STOP_S = (1, 3 * TTL_S)
CLOCKS_BENT = 2
KINDS = {
    # processes
    "kill_worker": Kind(3, (0.1, 5)),
    "kill_coordinator": Kind(1.5, (0.1, 5)),
    "kill_etcd": Kind(1.5, (0.5, 5), etcd=True),
    "restart_worker": Kind(2, (0.1, 2)),
    "stop_worker": Kind(3, STOP_S),
    "stop_coordinator": Kind(1.5, STOP_S),
    "stop_etcd_leader": Kind(1.5, STOP_S, etcd=True),
    "two_members_down": Kind(1, (1, 6), etcd=True),
    "move_leader": Kind(1, (0, 0), etcd=True),
    # the network
    "partition": Kind(2, (0.5, 8)),
    "partition_up": Kind(1.5, (0.5, 8)),
    "partition_down": Kind(1.5, (0.5, 8)),
    "partition_member": Kind(1, (0.5, 8)),
    "cut": Kind(1, (1, 6)),
    "delay": Kind(2, (1, 6)),
    "reorder": Kind(2, (1, 6)),
    "repeat": Kind(1.5, (1, 6)),
    "eat": Kind(2, (1, 6)),
    "probes_lost": Kind(1, (1, 8)),
    # clocks
    "clock_step_small": Kind(2, (0.5, 5), clock=True),
    "clock_step": Kind(1.5, (0.5, 5), clock=True),
    "clock_step_year": Kind(1, (0.5, 4), clock=True),
    "clock_1970": Kind(0.7, (0.5, 4), clock=True),
    "clock_2093": Kind(0.7, (0.5, 4), clock=True),
    "clock_rate": Kind(1.5, (2, 8), clock=True),
    # keys
    "revoke_lease": Kind(2, (0, 0)),
    "delete_own": Kind(2, (0, 0)),
    "reclaim_live": Kind(1, (0, 0)),
    "slots_taken": Kind(0.7, (3, 8)),
    "freeze": Kind(0.5, (1, 6)),
    # coordination
    "stale_leader": Kind(1, (3, 6)),
    # disks
    "no_space": Kind(0.7, (2, 8), etcd=True),
    "disk_full": Kind(1, (1, 6)),
    "state_lost": Kind(1, (0.1, 2)),
    "state_old": Kind(1, (0.1, 2)),
    # etcd's history
    "restore": Kind(0, (14, 22), alone=True),
}
RESTORE_EVERY_S = 300
PACE_S = 1.2      # one fault begins about this often
BESIDE_MAX = 5    # faults that go on at a time
FIRST_S = 2.0
ROOM_S = 1.0      # before and after one that wants to be alone


def parse_kinds(text):
    """A list with commas, or "all"; ValueError names what is unknown."""
    if text == "all":
        return list(KINDS)
    kinds = text.split(",")
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"{kind!r}: must be all, or some of {', '.join(KINDS)}")
    return kinds


def _fits(fault, others):
    kind = KINDS[fault.kind]
    beside = [other for other in others
              if other.begin_s - ROOM_S < fault.end_s and fault.begin_s < other.end_s + ROOM_S]
    if kind.alone:
        return not beside
    if any(KINDS[other.kind].alone for other in beside) or len(beside) >= BESIDE_MAX:
        return False
    if kind.clock and sum(KINDS[other.kind].clock for other in beside) >= CLOCKS_BENT:
        return False
    return not kind.etcd or not any(KINDS[other.kind].etcd for other in beside)


def build(seed, duration_s, kinds):
    """The schedule: Faults in the order of their beginnings, all put right by duration_s."""
    chance = random.Random(f"schedule {seed}")
    placed = []

    def fault(kind, begin_s):
        lasts_s = min(chance.uniform(*KINDS[kind].lasts_s), max(0.0, duration_s - 1 - begin_s))
        return Fault(0, kind, round(begin_s, 2), round(lasts_s, 2), chance.randrange(1 << 16),
                     chance.randrange(1 << 30))

    # Those that need the stage for themselves come first, spread over the time.
    alone = [kind for kind in kinds if KINDS[kind].alone]
    n_alone = max(1, int(duration_s // RESTORE_EVERY_S)) if alone and duration_s >= 60 else 0
    for number in range(n_alone):
        share = duration_s / n_alone
        at = (number + chance.uniform(0.3, 0.6)) * share
        placed.append(fault(chance.choice(alone), at))

    # Then every kind once, in random order, and then at random by weight.
    rest = [kind for kind in kinds if not KINDS[kind].alone]
    queue = chance.sample(rest, len(rest))
    weights = [KINDS[kind].weight for kind in rest]
    at = FIRST_S
    while rest and at < duration_s - 2:
        kind = queue[0] if queue else chance.choices(rest, weights)[0]
        new = fault(kind, at)
        if _fits(new, placed):
            placed.append(new)
            if queue:
                queue.pop(0)
        elif queue:
            queue.append(queue.pop(0))
        at += chance.expovariate(1 / PACE_S)
    placed.sort(key=lambda fault: fault.begin_s)
    return [dataclasses.replace(fault, number=number) for number, fault in enumerate(placed, 1)]
