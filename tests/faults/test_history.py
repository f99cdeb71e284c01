#!/usr/bin/env python3
"""history.py against forged histories: good ones pass, and for each rule one that breaks
only that rule is caught, by that rule alone."""

import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

# pylint: disable=wrong-import-position
import history
import lib
from forged_world import CEILING, START, World, claim_name, hor

def two_holders(world):
    """One claim, extended, resumed, released; and one of another worker after it."""
    world.claim(1, 1, 1, 1000)
    world.ids("w.1.1", 1, 1, 1, (1, 1), 500, 999)
    world.extend(1, 1, 2000, 2)
    world.ids("w.1.1", 1, 1, 1001, 2000)
    world.expire(1)
    world.claim(1, 2, 1, 3000)
    world.ids("w.1.1", 1, 2, 2001, 2500)
    world.release(1, 2, 2500, 2)
    world.claim(1, 3, 2, 4000)
    world.ids("x.1.1", 1, 3, 2501, (2501, 1), 3999, 4000)


# ---- good ----

def good_plain(world):
    world.init()
    two_holders(world)
    world.write_meta(mode="FROZEN", reason="by hand")
    world.release(1, 3, 4000, 2)
    world.write_meta(mode="OPEN", reason="", machine_id_range="0-9")
    world.txn(("hor/0008", hor(START, 0, 0)))
    world.txn(("ceil", f"{CEILING + 1:020}"))
    world.claim(8, 4, 2, 100)
    world.extend(8, 4, 100, 2)
    world.txn(("node/x", "anything"))
    world.end()


def good_nothing_issued_before_a_release(world):
    world.init()
    world.claim(1, 1, 1, 1000)
    world.release(1, 1, 0, 2)
    world.claim(1, 2, 2, 1000)
    world.ids("w.1.1", 1, 2, 1)
    world.end()


def good_squatter(world):
    world.init()
    (world.folder / "squatters.txt").write_text(claim_name(1) + "\n")
    world.txn(("own/0001", world.own(1, 1)))
    world.expire(1)
    world.end()


def lost_part(world):
    """What a backup does not have: an extension of 1, and a claim whose worker dies."""
    world.init()
    world.claim(1, 1, 1, 1000)
    world.ids("w.1.1", 1, 1, 900)
    world.save()
    world.extend(1, 1, 2000, 2)
    world.ids("w.1.1", 1, 1, 1900)
    world.claim(2, 2, 2, 2200)
    world.ids("x.1.1", 2, 2, 2100)


def good_recover(world):
    lost_part(world)
    world.restore()
    world.recover()
    world.expire(1)
    world.claim(1, 3, 1, 6000)
    world.claim(2, 4, 3, 6000)
    world.ids("w.1.1", 1, 3, 5001)
    world.ids("y.1.1", 2, 4, 5001)
    world.end()


def good_end_unproven(world):
    """etcd died with an extension, a resume and a claim that the recorder did not see any more."""
    lost_part(world)
    world.ids("w.1.1", 1, 1, 2500)
    world.ids("w.1.1", 1, 7, 2550)
    world.ids("z.1.1", 3, 8, 2600)
    world.restore(proven=False)
    world.recover()
    world.claim(3, 4, 3, 6000)
    world.ids("y.1.1", 3, 4, 5001)
    world.end()


def good_total_loss(world):
    lost_part(world)
    world.lose()
    world.write_meta(mode="FROZEN", reason="rollback: recover 1 is at work")
    world.raise_to(1, 2600)
    world.raise_to(2, 2600)
    world.txn(("ceil", f"{CEILING:020}"))
    world.open(5000)
    world.claim(1, 3, 1, 6000)
    world.ids("w.1.1", 1, 3, 5001)
    world.end()


def good_compacted_backup(world):
    """The restored etcd has only the state of the backup, not what led to it."""
    lost_part(world)
    world.restore()
    state, revision = world.state, world.revision
    mod = {line["key"]: line["rev"] for line in world.lines if "key" in line}
    world.lines = []
    world.note("gap", after=0, compacted=revision)
    for key, (value, created, version) in sorted(state.items(), key=lambda item: mod[item[0]]):
        world.lines.append({"rev": mod[key], "key": key, "value": value, "create_rev": created,
                            "mod_rev": mod[key], "version": version, "at_ms": 0, "filled": True})
    world.recover()
    world.end()


def good_release_in_the_lost_part(world):
    world.init()
    world.claim(1, 1, 1, 1000)
    world.save()
    world.release(1, 1, 500, 2)
    world.claim(1, 2, 2, 1500)
    world.ids("w.1.1", 1, 1, 500)
    world.ids("x.1.1", 1, 2, 501)
    world.restore()
    world.recover()
    world.expire(1)
    world.claim(1, 3, 2, 6000)
    world.ids("x.1.1", 1, 3, 5001)
    world.end()


# ---- forged: the rule, and what breaks it after init ----

def fell_extension(world):
    world.claim(1, 1, 1, 1000)
    world.extend(1, 1, 999, 2)


def fell_claim(world):
    world.claim(1, 1, 1, 1000)
    world.expire(1)
    world.claim(1, 2, 1, 999)


def fell_recover(world):
    world.claim(1, 1, 1, 1000)
    world.freeze()
    world.raise_to(1, 1000)


def release_raises(world):
    world.claim(1, 1, 1, 1000)
    world.release(1, 1, 1001, 2)


def release_too_low(world):
    world.claim(1, 1, 1, 1000)
    world.release(1, 1, 1000, 2)
    world.claim(1, 2, 2, 2000)
    world.release(1, 2, 999, 2)


def count_skips(world):
    world.claim(1, 1, 1, 1000)
    world.extend(1, 1, 2000, 3)


def count_same(world):
    world.claim(1, 1, 1, 1000)
    world.extend(1, 1, 2000, 1)


def count_claim(world):
    world.claim(1, 1, 1, 1000, n=2)


def count_release(world):
    world.claim(1, 1, 1, 1000)
    world.release(1, 1, 500, 3)


def own_gone(world):
    world.claim(1, 1, 1, 1000)
    world.expire(1)
    world.extend(1, 1, 2000, 2)


def own_foreign(world):
    world.claim(1, 1, 1, 1000)
    (world.folder / "squatters.txt").write_text(claim_name(9) + "\n")
    world.txn(("own/0001", world.own(9, 9)))
    world.extend(1, 1, 2000, 2)


def own_there(world):
    world.claim(1, 1, 1, 1000)
    world.claim(1, 2, 2, 2000)


def own_alone(world):
    world.txn(("own/0001", world.own(1, 1)))


def own_other_claim(world):
    world.claim(1, 1, 1, 1000)
    world.expire(1)
    world.txn(("own/0001", world.own(2, 2)), ("hor/0001", hor(START + 2000, 1, 2)))


def claim_again(world):
    world.claim(1, 1, 1, 1000)
    world.release(1, 1, 500, 2)
    world.claim(1, 2, 1, 1500)
    world.expire(1)
    world.claim(1, 1, 1, 2000)


def claim_elsewhere(world):
    world.claim(1, 1, 1, 1000)
    world.claim(2, 1, 1, 1000)


def foreign_late_extension(world):
    """An extension lands after somebody else's claim."""
    world.claim(1, 1, 1, 1000)
    world.expire(1)
    world.claim(1, 2, 2, 2000)
    world.extend(1, 1, 3000, 2)


def foreign_recover_while_open(world):
    world.raise_to(1, 1000)


def foreign_slot(world):
    world.claim(1, 1, 1, 1000)
    world.txn(("own/0001", None), ("hor/0001", hor(START + 1000, 9, 1)))


def foreign_new(world):
    world.txn(("hor/0004", hor(START + 1000, 5, 3)))


def meta_frozen_claim(world):
    world.write_meta(mode="FROZEN")
    world.claim(1, 1, 1, 1000)


def meta_frozen_extend(world):
    world.claim(1, 1, 1, 1000)
    world.write_meta(mode="FROZEN")
    world.extend(1, 1, 2000, 2)


def meta_era_extend(world):
    world.claim(1, 1, 1, 1000)
    world.freeze()
    world.open(1000)
    world.extend(1, 1, 2000, 2)


def meta_reserved(world):
    world.txn(("hor/0006", hor(history.EPOCH_MS, 0, 0)))
    world.claim(6, 1, 1, 1000)


def meta_out_of_range(world):
    world.txn(("hor/0008", hor(history.EPOCH_MS, 0, 0)))
    world.claim(8, 1, 1, 1000)


def meta_deleted(world):
    world.txn(("meta", None))


def meta_serial(world):
    world.write_meta(serial="1")


def meta_epoch(world):
    world.write_meta(epoch_ms=str(history.EPOCH_MS + 1))


def meta_era_unfrozen(world):
    world.open(1000)


def meta_era_forgotten(world):
    world.freeze()
    world.open(1000, earlier_eras=[])


def floor_falls(world):
    world.write_meta(floor_ms=str(START - 1))


def floor_not_reached(world):
    world.claim(1, 1, 1, -1)


def ceiling_falls(world):
    world.txn(("ceil", f"{CEILING - 1:020}"))


def ceiling_deleted(world):
    world.txn(("ceil", None))


def ceiling_claim(world):
    world.claim(1, 1, 1, CEILING - START)


def ceiling_extend(world):
    world.claim(1, 1, 1, CEILING - START - 1)
    world.extend(1, 1, CEILING - START, 2)


def deleted_hor(world):
    world.txn(("hor/0003", None))


def unreadable_hor(world):
    world.txn(("hor/0003", "5:x:1"))


def unreadable_n(world):
    world.claim(1, 1, 1, 1000)
    world.txn(("hor/0001", hor(START + 1000, 1, "02")))


def unreadable_own(world):
    world.txn(("own/0003", "{"))


def unreadable_ceiling(world):
    world.txn(("ceil", str(CEILING + 1)))


def unreadable_meta(world):
    world.txn(("meta", "{}"))


def interval_h0(world):
    world.claim(1, 1, 1, 1000)
    world.ids("w.1.1", 1, 1, 0)


def interval_second_holder(world):
    world.claim(1, 1, 1, 1000)
    world.expire(1)
    world.claim(1, 2, 2, 2000)
    world.ids("x.1.1", 1, 2, 1000)


def interval_above(world):
    world.claim(1, 1, 1, 1000)
    world.ids("w.1.1", 1, 1, 1001)


def interval_of_the_next_claim(world):
    """Granted to the chain, but under its next claim."""
    world.claim(1, 1, 1, 1000)
    world.expire(1)
    world.claim(1, 2, 1, 2000)
    world.ids("w.1.1", 1, 1, 1500)


def interval_released(world):
    world.claim(1, 1, 1, 1000)
    world.release(1, 1, 500, 2)
    world.ids("w.1.1", 1, 1, 501)


def stranger_nobody(world):
    world.claim(1, 1, 1, 1000)
    world.ids("w.1.1", 1, 2, 500)


def stranger_machine(world):
    world.claim(1, 1, 1, 1000)
    world.ids("w.1.1", 2, 1, 500)


def stranger_recover(world):
    world.freeze()
    world.raise_to(1, 1000, claim=7)
    world.ids("w.1.1", 1, 7, 500)


def order_in_a_file(world):
    world.claim(1, 1, 1, 1000)
    world.ids("w.1.1", 1, 1, 500, 501, 499)


def order_equal(world):
    world.claim(1, 1, 1, 1000)
    world.ids("w.1.1", 1, 1, (500, 1), (500, 1))


def order_across_claims(world):
    """The next claim of the chain goes on below what was issued; told by two files."""
    world.claim(1, 1, 1, 1000)
    world.expire(1)
    world.claim(1, 2, 1, 2000)
    world.ids("w.1.1", 1, 1, 900)
    world.ids("w.1.2", 1, 2, 899)


def line_without_claim(world):
    world.line("w.1.1", "5\n")


def line_torn(world):
    world.line("w.1.1", f"5 {claim_name(1)[:-1]}")


def line_zero(world):
    world.line("w.1.1", f"05 {claim_name(1)}\n")


def line_wide(world):
    world.line("w.1.1", f"{1 << 63} {claim_name(1)}\n")


def history_lost_event(world):
    for value in ("1", "2", "3"):
        world.txn(("node/x", value))
    del world.lines[-2]


def history_lost_delete(world):
    world.txn(("node/x", "1"))
    world.txn(("node/x", None))
    del world.lines[-1]
    world.txn(("node/x", "1"))


def history_lost_create(world):
    world.txn(("node/x", "1"))
    del world.lines[-1]
    world.txn(("node/x", None))


def history_backwards(world):
    world.txn(("node/x", "1"))
    world.txn(("node/y", "1"))
    world.lines[-2:] = world.lines[:-3:-1]


def history_mismatch(world):
    world.note("mismatch", rev=world.revision, text="hor/0001")


def history_rollback(world):
    world.note("rollback", rev=world.revision, came=2)


def compacted(world):
    world.note("gap", after=world.revision, compacted=world.revision + 5)


def compacted_claim(world):
    """Of what was lost nothing can be said, but that it was lost."""
    world.note("gap", after=world.revision, compacted=world.revision + 5)
    world.claim(1, 3, 1, 1000, n=1)
    for line in world.lines[-2:]:
        line.update(filled=True)
    world.extend(1, 3, 2000, 2)
    world.ids("w.1.1", 1, 2, 500)


# Rules that need a restore; they write init themselves.

def restored_overlap(world):
    """In the restored etcd somebody claims what the lost part had granted, in the same era."""
    world.init()
    world.claim(1, 1, 1, 1000)
    world.save()
    world.extend(1, 1, 2000, 2)
    world.restore()
    world.expire(1)
    world.claim(1, 2, 2, 3000)
    world.end()


def restored_without_floor(world):
    """recover without a floor: the claim that the backup does not have, of a dead worker."""
    lost_part(world)
    world.restore()
    world.freeze()
    world.raise_to(1, 2600)
    world.open(0)
    world.claim(2, 4, 3, 6000)
    world.end()


def restored_below(world):
    """A chain of a new era that is disjoint from the old one's, but below it."""
    world.init()
    world.save()
    world.write_meta(floor_ms=str(START + 1000))
    world.claim(1, 1, 1, 2000)
    world.restore()
    world.freeze()
    world.open(100)
    world.claim(1, 2, 2, 900)
    world.end()


def restored_unproven_overlap(world):
    """How far a claim went in the lost part is only told by its IDs."""
    lost_part(world)
    world.ids("w.1.1", 1, 1, 5500)
    world.restore(proven=False)
    world.recover()
    world.expire(1)
    world.claim(1, 3, 3, 6000)
    world.end()


def restored_unproven_stranger(world):
    """A claim that the recorder did not see, within the interval of another."""
    lost_part(world)
    world.ids("z.1.1", 3, 8, 5500)
    world.restore(proven=False)
    world.recover()
    world.claim(3, 4, 3, 6000)
    world.end()


def restored_claim_moves(world):
    lost_part(world)
    world.restore()
    world.claim(3, 2, 2, 2200)
    world.end()


def never_proven(world):
    world.init()
    world.end(proven=False)


FORGED = [
    ("fell", fell_extension, fell_claim, fell_recover),
    ("release", release_raises, release_too_low),
    ("count", count_skips, count_same, count_claim, count_release),
    ("own", own_gone, own_foreign, own_there, own_alone, own_other_claim),
    ("claim", claim_again, claim_elsewhere, restored_claim_moves),
    ("foreign", foreign_late_extension, foreign_recover_while_open, foreign_slot, foreign_new),
    ("meta", meta_frozen_claim, meta_frozen_extend, meta_era_extend, meta_reserved,
     meta_out_of_range, meta_deleted, meta_serial, meta_epoch, meta_era_unfrozen, meta_era_forgotten),
    ("floor", floor_falls, floor_not_reached),
    ("ceiling", ceiling_falls, ceiling_deleted, ceiling_claim, ceiling_extend),
    ("deleted", deleted_hor),
    ("unreadable", unreadable_hor, unreadable_n, unreadable_own, unreadable_ceiling, unreadable_meta),
    ("interval", interval_h0, interval_second_holder, interval_above, interval_of_the_next_claim,
     interval_released),
    ("stranger", stranger_nobody, stranger_machine, stranger_recover),
    ("order", order_in_a_file, order_equal, order_across_claims),
    ("line", line_without_claim, line_torn, line_zero, line_wide),
    ("history", history_lost_event, history_lost_delete, history_lost_create, history_backwards,
     history_mismatch, history_rollback, never_proven),
    ("compacted", compacted, compacted_claim),
    # What one history cannot show; the era rule says the same of another era.
    ("overlap", restored_overlap),
    ("era", restored_below),
    ("era overlap", restored_without_floor, restored_unproven_overlap, restored_unproven_stranger),
]
# Those that begin and end by themselves.
WHOLE = {restored_overlap, restored_without_floor, restored_below, restored_unproven_overlap,
         restored_unproven_stranger, restored_claim_moves, never_proven}


def judged(story, whole):
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder)
        if not whole:
            world.init()
        story(world)
        if not whole:
            world.end()
        return history.check(folder)


def test_good_histories_pass():
    stories = [value for name, value in globals().items() if name.startswith("good_")]
    for story in stories:
        report = judged(story, True)
        lib.check(report.ok, f"{story.__name__}: " + "\n".join(map(str, report.findings)))
    lib.check(len(stories) >= 8, "stories")
    report = judged(good_plain, True)
    lib.equal((report.figures["ids"], report.figures["chains"], report.figures["claims"],
               report.figures["unproven"]), (12, 3, 4, 0))
    lib.equal(judged(good_end_unproven, True).figures["unproven"], 3)


def test_each_forgery_is_caught_by_its_rule_alone():
    for rules, *stories in FORGED:
        for story in stories:
            report = judged(story, story in WHOLE)
            lib.equal(" ".join(sorted(report.counts)), rules,
                      f"{story.__name__}: " + "\n".join(map(str, report.findings)))


def test_every_rule_has_a_forgery():
    named = {line.split()[0] for line in history.__doc__.splitlines()
             if line.startswith("    ") and not line.startswith("     ") and "(" not in line.split()[0]
             and len(line.split()) > 2 and line[4:].split()[0].isalpha()}
    rules = {rule for rules, *_ in FORGED for rule in rules.split()}
    lib.equal(rules - named, set(), "forged, but no rule")
    lib.equal(named - rules - {"python3", "report"}, set(), "not forged")


def test_findings_name_what_is_at_odds():
    finding = judged(fell_extension, False).findings[0]
    lib.equal((finding.machine_id, finding.claim, finding.revision), (1, claim_name(1), 10))
    lib.equal([place for place, _ in finding.lines], ["history.1.jsonl:9", "history.1.jsonl:10"])
    lib.check(all('"hor/0001"' in text for _, text in finding.lines), str(finding))
    finding = judged(interval_released, False).findings[0]
    lib.equal([place for place, _ in finding.lines], ["ids.w.1.1.txt:1", "history.1.jsonl:11"])
    lib.check(claim_name(1) in str(finding) and "machine ID 1" in str(finding), str(finding))


if __name__ == "__main__":
    lib.main()
