#!/usr/bin/env python3
"""The oracles on real programs and a real etcd: a short run is clean, and what a recorder misses, or two
clients get, is found."""

import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

# pylint: disable=wrong-import-position
import duplicates
import history
import lib
from recorder import Recorder
from test_recover import INIT, TIMES, Rig, page_commands, recover


class Client:
    """Takes IDs one request after the other and appends them to a file."""

    def __init__(self, fleet, worker, number=1):
        self.worker = worker
        self.path = fleet.folder / f"ids.{worker.name}.{worker.starts}.{number}.txt"

    def take(self, times=10, count=100):
        for _ in range(times):
            reply = lib.wait_until(self.ask(count), 30, f"{self.worker.name} serves", 0.02)
            with open(self.path, "a", encoding="utf-8") as file:
                file.writelines(f"{each} {reply['claim']}\n" for each in reply["ids"])

    def ask(self, count):
        def once():
            reply = self.worker.get(f"/v1/ids?count={count}&claim=1")
            return reply.json() if reply.status == 200 else None
        return once


def record(fleet):
    recorder = Recorder([fleet.etcd.url], fleet.key(""), fleet.folder)
    recorder.start()
    return recorder


def clean(fleet, **figures):
    """Both verdicts; figures are those of the history that are known."""
    report = history.check(fleet.folder)
    lib.check(report.ok, "\n".join(map(str, report.findings)))
    for name, value in figures.items():
        lib.equal(report.figures[name], value, name)
    found = duplicates.check(fleet.folder, lib.BIN / "snowfleetctl")
    lib.check(found.ok, "\n".join(map(str, found.findings)))
    lib.equal(found.figures["ids"], report.figures["ids"], "both saw as many IDs")
    return report


def rules(fleet):
    return sorted(history.check(fleet.folder).counts)


def lease_of(fleet, name):
    return fleet.get(name).lease


def held(worker):
    return worker.status()["machines"][0]["machine_id"]


def claim(worker):
    return worker.status()["machines"][0]["claim"]


# ---- real runs ----

def test_a_short_run_is_clean():
    with lib.Fleet() as fleet:
        recorder = record(fleet)
        fleet.init(*INIT)
        one, two = fleet.worker(*TIMES, "--machine-id=1"), fleet.worker(*TIMES, "--machine-id=2")
        for worker in (one, two):
            worker.wait_ready()
            Client(fleet, worker).take()

        # The lease is lost: the same instance resumes under another claim.
        before = claim(one)
        fleet.etcd.revoke(lease_of(fleet, f"own/{held(one):04}"))
        lib.wait_until(lambda: claim(one) not in ("", before), 20, "it resumes")
        Client(fleet, one).take()
        # etcd is gone for a while, and the recorder's watch is cut.
        fleet.etcd.kill()
        fleet.etcd.start()
        lib.wait_until(recorder.healthy, 20, "the recorder is back")
        # A release, and a kill; both come back as other instances.
        slot = held(two)
        lib.equal(two.terminate(10), 0, "it releases")
        lib.check(fleet.get(f"own/{slot:04}") is None, "it gave back")
        one.kill()
        for worker in (one, two):
            worker.start()
            worker.wait_ready()
            Client(fleet, worker).take()
            Client(fleet, worker, 2).take(3)
        lib.check(recorder.settle(20), recorder.problem)
        Client(fleet, one).take(1)
        lib.check(recorder.stop(), recorder.problem)
        report = clean(fleet, ids=5700, segments=1, machine_ids=report_machines(fleet), unproven=0)
        lib.check(report.figures["claims"] > report.figures["chains"] >= 4, str(report.figures))
        notes = [entry["note"] for entry in entries(fleet) if "note" in entry]
        lib.check("cut" in notes and notes.count("proof") == 2, str(notes))
        lib.check(all(entry["reread"] for entry in entries(fleet) if entry.get("note") == "proof"),
                  "read twice")

        # One ID that two clients got is found, by file and line.
        line = Client(fleet, one).path.read_text().splitlines()[7]
        stray = fleet.folder / "ids.stray.1.1.txt"
        stray.write_text(f"{line}\n")
        found = duplicates.check(fleet.folder, lib.BIN / "snowfleetctl")
        lib.equal(found.counts, {"duplicate": 1}, "\n".join(map(str, found.findings)))
        lib.equal({place for place, _ in found.findings[0].lines},
                  {f"{Client(fleet, one).path.name}:8", f"{stray.name}:1"})


def report_machines(fleet):
    """How many machine IDs have ever been claimed, from etcd itself."""
    return sum(1 for key in fleet.etcd.prefix(fleet.key("hor/")) if not key.value.endswith(":0"))


def entries(fleet, segment=1):
    text = (fleet.folder / f"history.{segment}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_a_restore_under_live_workers_and_its_recovery_are_clean():
    with lib.Fleet() as fleet:
        recorder = record(fleet)
        fleet.init(*INIT)
        workers = [fleet.worker(*TIMES) for _ in range(2)]
        clients = [Client(fleet, worker) for worker in workers]
        for worker, client in zip(workers, clients):
            worker.wait_ready()
            client.take()
        rig = Rig(fleet)
        rig.back_up()
        late = fleet.worker(*TIMES)
        late.wait_ready()
        for client in [*clients, Client(fleet, late)]:
            client.take()
        late.kill()
        fleet.etcd.kill()
        # Its ports are those of before.
        rig.new_data()
        recorder.new_segment([fleet.etcd.url])
        rig.run(page_commands("Restore")[0])
        rig.listen(rig.old_port)
        recover(rig, "--yes", "--force")
        for client in clients:
            client.take()
        lib.check(recorder.stop(), recorder.problem)
        report = clean(fleet, segments=2, eras=2, ids=7000)
        lib.check(report.figures["unproven"] >= 0, "counted")


# ---- what a recorder misses ----

class Deaf(Recorder):
    """Loses the event that brings a key from one version to the next, once."""

    def _event(self, revision, key, value, kv, filled=False):
        if key == "x" and value == "lost":
            return
        super()._event(revision, key, value, kv, filled)


def test_a_lost_event_is_noticed():
    for last in ("lost", "later", None):
        with lib.Fleet() as fleet:
            recorder = Deaf([fleet.etcd.url], fleet.key(""), fleet.folder)
            recorder.start()
            fleet.etcd.put(fleet.key("meta"), "{}")
            fleet.etcd.put(fleet.key("x"), "lost")
            if last is None:
                # Nothing in the end tells that it was ever there; only the second reading does.
                fleet.etcd.delete(fleet.key("x"))
            elif last != "lost":
                fleet.etcd.put(fleet.key("x"), last)
            lib.check(not recorder.settle(20), "it is not proven")
            lib.check(not recorder.healthy(), "and not healthy")
            lib.check(not recorder.stop(5), "nor later")
            lib.check("history" in rules(fleet), str(rules(fleet)))


def test_history_that_goes_back_is_noticed():
    with lib.Fleet() as fleet:
        recorder = record(fleet)
        for i in range(20):
            fleet.etcd.put(fleet.key("x"), str(i))
        lib.check(recorder.settle(20), recorder.problem)
        fleet.etcd.kill()
        fleet.etcd.process.argv[fleet.etcd.process.argv.index("--data-dir") + 1] = \
            fleet.folder / "empty.data"
        fleet.etcd.start()
        lib.wait_until(lambda: not recorder.healthy(), 20, "it is noticed")
        lib.check("after" in recorder.problem, recorder.problem)
        lib.check(not recorder.stop(2), "it is not proven")
        lib.equal(rules(fleet), ["history"])


def test_a_compaction_that_was_quicker_is_reported():
    with lib.Fleet() as fleet:
        for i in range(5):
            fleet.etcd.put(fleet.key("hor/0001"), f"{i:020}:{'0' * 32}:0")
        fleet.etcd.compact()
        recorder = record(fleet)
        lib.check(recorder.stop(20), recorder.problem)
        lib.equal(rules(fleet), ["compacted"])
        filled = [entry for entry in entries(fleet) if entry.get("filled")]
        lib.equal([(entry["key"], entry["version"]) for entry in filled], [("hor/0001", 5)])


# ---- the tool ----

def test_what_the_tool_does_not_see_is_noticed():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        lib.equal(list(duplicates.check(folder, lib.BIN / "snowfleetctl").counts), ["tool"])
        for number in (1, 2):
            (folder / f"ids.w.{number}.1.txt").write_text("".join(
                f"{number * 1000 + i} {'a' * 32}\n" for i in range(10)))
        good = duplicates.check(folder, lib.BIN / "snowfleetctl")
        lib.check(good.ok and good.figures == {"files": 2, "ids": 20}, str(good.findings))
        for blind, rule in (("cat >/dev/null; exit 1", "tool"), ("exit 1", "tool"),
                            (f"head -n 15 | {lib.BIN}/snowfleetctl \"$@\"", "tool"),
                            (f"sort -u | {lib.BIN}/snowfleetctl \"$@\"", "tool")):
            tool = folder / "tool"
            tool.write_text(f"#!/bin/sh\n{blind}\n")
            tool.chmod(0o755)
            lib.equal(list(duplicates.check(folder, tool).counts), [rule], blind)
        (folder / "ids.w.3.1.txt").write_text(f"77 {'a' * 31}\n78 {'a' * 32}\n")
        found = duplicates.check(folder, lib.BIN / "snowfleetctl")
        lib.equal(found.counts, {"line": 1})
        lib.equal(found.findings[0].lines[0][0], "ids.w.3.1.txt:1")


if __name__ == "__main__":
    lib.main()
