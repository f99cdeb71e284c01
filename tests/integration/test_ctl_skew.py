#!/usr/bin/env python3
"""snowfleetctl skew: who is named, who is not, and what the exit code says (B112, B115)."""

import json
import time

import lib

S = 1_000_000_000
MS = 1_000_000


def skew(fleet, code):
    done = fleet.ctl_raw("skew", "--output=json")
    lib.equal(done.returncode, code, f"{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def verdicts(report):
    return {node["identity"]: node["verdict"] for node in report["nodes"]}


def start():
    fleet = lib.Fleet()
    fleet.init("--new", "--machine-id-range=0-9")
    return fleet


def test_equal_clocks_are_ok():
    with start() as fleet:
        for n in range(3):
            fleet.stub(f"node-{n}").hold(n)
        report = skew(fleet, 0)
        lib.equal(set(verdicts(report).values()), {"OK"})
        lib.equal(report["incomplete"], False)
        lib.equal(report["schema"], 1)
        lib.equal(report["reference"]["agreeing"], 3)
        lib.equal(sorted(node["machine_id"] for node in report["nodes"]), [0, 1, 2])
        for node in report["nodes"]:
            lib.check(abs(node["offset_ms"]) <= node["bound_ms"] + 5, str(node))
            lib.check(node["bound_ms"] > 0, "never exactly 0")
            lib.equal((node["claimed_error_ms"], node["synchronized"]), (1.0, True))
        lib.check(report["fleet_skew_ms"]["at_least"] <= 5, str(report))
        lib.check(report["fleet_skew_ms"]["at_most"] > 0, str(report))


def test_one_of_five_a_minute_off_is_the_only_one_named():
    with start() as fleet:
        for n in range(4):
            fleet.stub(f"good-{n}")
        bad = fleet.stub("bad")
        for sign in (1, -1):
            bad.offset_ns = sign * 60 * S
            report = skew(fleet, 2)
            lib.equal(verdicts(report), {"bad": "CRIT", **{f"good-{n}": "OK" for n in range(4)}})
            worst = report["nodes"][0]
            lib.equal(worst["identity"], "bad", "worst first")
            lib.check(abs(worst["offset_ms"] - sign * 60000) < 200, str(worst))
            lib.check(59800 < report["fleet_skew_ms"]["at_least"] <= 60100, str(report))
            for node in report["nodes"][1:]:
                lib.check(abs(node["offset_ms"]) < 100, str(node))
        table = fleet.ctl("skew", code=2).splitlines()
        lib.check(table[1].startswith("bad ") and "CRIT" in table[1], table)


def test_signs():
    with start() as fleet:
        for n in range(4):
            fleet.stub(f"good-{n}")
        fleet.stub("ahead", offset_ns=3 * S)
        fleet.stub("behind", offset_ns=-3 * S)
        offsets = {node["identity"]: node["offset_ms"] for node in skew(fleet, 2)["nodes"]}
        lib.check(abs(offsets["ahead"] - 3000) < 100, str(offsets))
        lib.check(abs(offsets["behind"] + 3000) < 100, str(offsets))


def test_two_nodes_differ_and_nobody_is_accused():
    with start() as fleet:
        fleet.stub("a")
        fleet.stub("b", offset_ns=60 * S)
        report = skew(fleet, 2)
        lib.equal(verdicts(report), {"a": "UNKNOWN", "b": "UNKNOWN"})
        lib.equal(report["reference"], None)
        lib.equal([node["offset_ms"] for node in report["nodes"]], [None, None])
        lib.check(abs(report["fleet_skew_ms"]["at_least"] - 60000) < 200, str(report))
        lib.equal(report["incomplete"], False)
        text = fleet.ctl("skew", code=2)
        lib.check("they differ by" in text and "which of them is wrong" in text, text)


def test_two_nodes_that_agree_are_ok():
    with start() as fleet:
        fleet.stub("a")
        fleet.stub("b")
        lib.equal(verdicts(skew(fleet, 0)), {"a": "OK", "b": "OK"})


def test_of_three_the_one_that_is_off_is_named():
    with start() as fleet:
        fleet.stub("a")
        fleet.stub("b")
        fleet.stub("c", offset_ns=60 * S)
        lib.equal(verdicts(skew(fleet, 2)), {"a": "OK", "b": "OK", "c": "CRIT"})


def test_no_majority_no_reference():
    with start() as fleet:
        for n in range(4):
            fleet.stub(f"node-{n}", offset_ns=(n // 2) * 60 * S)
        report = skew(fleet, 2)
        lib.equal(set(verdicts(report).values()), {"UNKNOWN"})
        lib.check("no majority" in fleet.ctl("skew", code=2), "said so")


def test_a_dead_node_is_unknown_and_the_report_incomplete():
    with start() as fleet:
        for n in range(3):
            fleet.stub(f"good-{n}")
        fleet.stub("dead", serve=False)
        report = skew(fleet, 3)
        lib.equal(report["incomplete"], True)
        node = [node for node in report["nodes"] if node["identity"] == "dead"][0]
        lib.equal((node["verdict"], node["offset_ms"], node["bound_ms"]), ("UNKNOWN", None, None))
        lib.check(node["reason"], "and why")
        fleet.stub("bad", offset_ns=60 * S)
        lib.equal(skew(fleet, 2)["incomplete"], True, "critical goes before incomplete")


def test_warnings():
    with start() as fleet:
        stubs = [fleet.stub(f"node-{n}") for n in range(4)]
        stubs[0].offset_ns = 300 * MS
        lib.equal(verdicts(skew(fleet, 1))["node-0"], "WARN")
        stubs[0].offset_ns = 0
        stubs[1].synchronized = False
        lib.equal(verdicts(skew(fleet, 1))["node-1"], "WARN")
        stubs[1].synchronized = True
        stubs[2].max_error_ns = 300 * MS
        lib.equal(verdicts(skew(fleet, 1))["node-2"], "WARN")
        stubs[2].max_error_ns = 2 * S
        lib.equal(verdicts(skew(fleet, 2))["node-2"], "CRIT")
        stubs[2].max_error_ns = MS
        stubs[3].hold(5, horizon_ms=int(time.time() * 1000) - 1)
        lib.equal(verdicts(skew(fleet, 2))["node-3"], "CRIT", "its horizon is past")


def test_nobody_to_ask_is_incomplete():
    with start() as fleet:
        report = skew(fleet, 3)
        lib.equal((report["nodes"], report["incomplete"], report["fleet_skew_ms"]), ([], True, None))
        fleet.etcd.delete(fleet.key("meta"))
        lib.equal(fleet.ctl_raw("skew").returncode, 3)
        fleet.etcd.kill()
        lib.equal(fleet.ctl_raw("skew", "--etcd-timeout=500ms").returncode, 3, "it could not run")


def test_a_delayed_path_widens_the_bound_and_alarms_nobody():
    with start() as fleet:
        for n in range(3):
            fleet.stub(f"node-{n}")
        far = fleet.stub("far")
        for there, back, offset in [(0.2, 0.2, 0), (0.4, 0, 200), (0, 0.4, -200)]:
            far.delay_there_s, far.delay_back_s = there, back
            report = skew(fleet, 0)
            lib.equal(set(verdicts(report).values()), {"OK"})
            node = [node for node in report["nodes"] if node["identity"] == "far"][0]
            lib.check(abs(node["offset_ms"] - offset) < 50, str(node))
            lib.check(200 <= node["bound_ms"] < 300, str(node))
            lib.check(abs(node["offset_ms"]) <= node["bound_ms"] + 5, "the truth is within")


def test_delay_is_not_taken_for_skew():
    with start() as fleet:
        for n in range(3):
            fleet.stub(f"node-{n}")
        slow = fleet.stub("slow")
        slow.delay_s = 0.2  # between its two timestamps
        report = skew(fleet, 0)
        node = [node for node in report["nodes"] if node["identity"] == "slow"][0]
        lib.check(abs(node["offset_ms"]) < 50 and node["bound_ms"] < 100, str(node))


if __name__ == "__main__":
    lib.main()
