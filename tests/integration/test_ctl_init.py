#!/usr/bin/env python3
"""snowfleetctl init: what it writes, what it refuses, and several at once."""

import json
import time

import lib

EPOCH = 1704067200000
ZEROS = "0" * 32


def now_ms():
    return int(time.time() * 1000)


def hor(fleet):
    return fleet.etcd.prefix(fleet.key("hor/"))


def test_a_new_cluster_starts_at_once():
    with lib.Fleet() as fleet:
        before = now_ms()
        answer = fleet.ctl_json("init", "--new")
        lib.equal(answer["created"], True)
        lib.equal(answer["wait_ms"], 0)
        meta = fleet.get("meta").json()
        lib.equal(meta["era"], answer["era"])
        lib.equal(meta["mode"], "OPEN")
        lib.equal(meta["serial"], "1")
        lib.equal(meta["epoch_ms"], str(EPOCH))
        lib.equal(meta["floor_ms"], str(EPOCH))
        keys = hor(fleet)
        lib.equal([key.name[-4:] for key in keys], [f"{n:04}" for n in range(1024)])
        lib.equal({key.value for key in keys}, {f"{EPOCH:020}:{ZEROS}:0"})
        lead = int(fleet.get("ceil").value) - before
        lib.check(86_400_000 <= lead <= 86_460_000, f"ceiling lead {lead} ms")
        lib.equal(len(fleet.get("ceil").value), 20)
        lib.equal({key.lease for key in fleet.etcd.prefix(fleet.key(""))}, {0})


def test_settings_are_kept():
    with lib.Fleet() as fleet:
        floor = now_ms() + 5000
        answer = fleet.ctl_json("init", "--new", "--machine-id-range=10-29", "--reserved=10,12-15",
                                "--epoch=2025-01-01T00:00:00Z", f"--floor={floor}", "--no-ceiling",
                                "--max-window=30s", "--quiet-time=1m", "--max-offset=250ms")
        lib.check(0 < answer["wait_ms"] <= 5000, answer)
        names = [key.name[-4:] for key in hor(fleet)]
        lib.equal(names, ["0011"] + [f"{n:04}" for n in range(16, 30)])
        meta = fleet.get("meta").json()
        lib.equal(meta["floor_ms"], str(floor))
        lib.equal(meta["epoch_ms"], "1735689600000")
        lib.equal((meta["max_window_ms"], meta["quiet_time_ms"], meta["max_offset_ms"]),
                  (30000, 60000, 250))
        lib.equal(fleet.get("ceil").value, "09223372036854775807")
        slots = fleet.ctl_json("status")["slots"]
        lib.equal(slots["reserved"], 1024 - 15)


def test_one_machine_id():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range", "1023")
        lib.equal([key.name[-4:] for key in hor(fleet)], ["1023"])


def test_if_needed_waits_because_an_empty_etcd_may_be_a_lost_one():
    with lib.Fleet() as fleet:
        before = now_ms()
        answer = fleet.ctl_json("init", "--if-needed", "--max-window=20s")
        floor = int(answer["floor_ms"])
        lib.check(before + 20500 <= floor <= now_ms() + 20500, f"floor {floor - before} ms ahead")
        # What is left of it: the floor was 20.5 s ahead when it was written.
        lib.check(floor - now_ms() <= answer["wait_ms"] <= 20500, answer)
        meta = fleet.get("meta").value
        again = fleet.ctl_json("init", "--if-needed")
        lib.equal(again["created"], False)
        lib.equal(fleet.get("meta").value, meta, "nothing was written")


def test_an_initialised_prefix_is_refused():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-3")
        before = {key.name: key.value for key in fleet.etcd.prefix("/")}
        done = fleet.ctl_raw("init", "--new")
        lib.equal(done.returncode, 1)
        lib.check("initialised already" in done.stderr, done.stderr)
        lib.equal(done.stderr.count("\n"), 1, "one line")
        lib.equal({key.name: key.value for key in fleet.etcd.prefix("/")}, before)


def test_a_meta_that_cannot_be_read_is_no_empty_prefix():
    with lib.Fleet() as fleet:
        for value in ("", "{}", "garbage", '{"format":2}'):
            fleet.etcd.put(fleet.key("meta"), value)
            for how in ("--new", "--if-needed"):
                done = fleet.ctl_raw("init", how)
                lib.equal(done.returncode, 1, f"{value!r} {how}")
                lib.check("not readable" in done.stderr, done.stderr)
            lib.equal(fleet.get("meta").value, value)
        lib.equal(hor(fleet), [])


def test_claimed_slots_without_meta_are_data_loss():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-9")
        fleet.etcd.delete(fleet.key("meta"))
        fleet.etcd.put(fleet.key("hor/0007"), f"{now_ms():020}:{'ab' * 16}:3")
        for how in ("--new", "--if-needed"):
            done = fleet.ctl_raw("init", how)
            lib.equal(done.returncode, 1)
            lib.check("machine ID 7 was claimed" in done.stderr and "recover" in done.stderr,
                      done.stderr)
        lib.equal(fleet.get("meta"), None)


def test_an_unfinished_init_is_completed():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-199")
        fleet.etcd.delete(fleet.key("meta"))
        fleet.etcd.delete(fleet.key("hor/0150"))
        fleet.etcd.put(fleet.key("ceil"), f"{EPOCH:020}")  # of long ago
        answer = fleet.ctl_json("init", "--if-needed", "--machine-id-range=0-199")
        lib.equal(answer["created"], True)
        lib.equal(len(hor(fleet)), 200)
        lib.check(int(fleet.get("ceil").value) > now_ms(), "the ceiling was raised")


def test_of_two_at_once_one_wins_and_the_other_says_so():
    with lib.Fleet() as fleet:
        for round_ in range(5):
            fleet.cluster = f"race{round_}"
            first = f"--machine-id-range={round_}-600"
            runs = lib.in_parallel([lambda: fleet.ctl_raw("init", "--new", first)] * 4)
            lib.equal(sorted(run.returncode for run in runs), [0, 1, 1, 1], str(runs))
            winner = [run for run in runs if run.returncode == 0][0]
            era = fleet.get("meta").json()["era"]
            lib.check(era in winner.stdout, "meta is the winner's")
            for run in runs:
                if run.returncode == 1:
                    lib.check(f"initialised already (era {era})" in run.stderr, run.stderr)
            lib.equal(len(hor(fleet)), 601 - round_)


def test_of_several_if_needed_at_once_all_are_content():
    with lib.Fleet() as fleet:
        runs = lib.in_parallel(
            [lambda: fleet.ctl_raw("init", "--if-needed", "--output=json")] * 4)
        lib.equal([run.returncode for run in runs], [0] * 4, str(runs))
        answers = [json.loads(run.stdout) for run in runs]
        lib.equal(sum(answer["created"] for answer in answers), 1)
        lib.equal(len({answer["era"] for answer in answers}), 1)


def test_clusters_share_an_etcd_without_touching_each_other():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-1")
        fleet.cluster = "second"
        lib.equal(fleet.ctl_raw("status").returncode, 1)
        fleet.init("--new", "--machine-id-range=5-6")
        lib.equal([key.name for key in hor(fleet)],
                  ["/snowfleet/second/hor/0005", "/snowfleet/second/hor/0006"])


def test_etcd_away_is_said_in_one_line():
    with lib.Fleet() as fleet:
        fleet.etcd.kill()
        begun = time.monotonic()
        done = fleet.ctl_raw("init", "--new", "--etcd-timeout=1s")
        lib.equal(done.returncode, 1)
        lib.equal(done.stderr.count("\n"), 1, done.stderr)
        lib.check(time.monotonic() - begun < 5 * lib.SLOW, "within seconds")


def test_proxies_are_not_asked():
    with lib.Fleet() as fleet:
        proxy = {"http_proxy": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9"}
        fleet.ctl("init", "--new", "--machine-id-range=0-1", env=proxy)
        fleet.ctl("status", env=proxy)


if __name__ == "__main__":
    lib.main()
