#!/usr/bin/env python3
"""snowfleetctl skew: who is named, who is not, and what the exit code says (B112, B115)."""

import csv
import fcntl
import io
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
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
        said = re.search(r"they differ by ([0-9.]+) to ([0-9.]+) ms; two clocks cannot say which", text)
        lib.check(said and 59800 < float(said[1]) <= float(said[2]) < 60200, text)
        # A coordinator's own clock is one more, so with it and one worker there are two.
        fleet.stubs[0].gone()
        coordinator = fleet.coordinator("--lease-ttl=2s", "--probe-interval=500ms")

        def alarmed():
            texts = [alarm["text"] for alarm in coordinator.get("/v1/fleet").json()["alarms"]]
            said = [found for text in texts if (found := re.search(
                r"The clocks differ by at least ([0-9]+) ms, and too few agree to say which is wrong", text))]
            lib.check(said and 59800 < int(said[0][1]) <= 60200, str(texts))
            return True
        lib.wait_until(alarmed, 20, "the monitor says the same")


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
    paths = {"both": (0.2, 0.2, 0), "there": (0.4, 0, 200), "back": (0, 0.4, -200)}
    with start() as fleet:
        for n in range(4):
            fleet.stub(f"node-{n}")
        for name, (there, back, _) in paths.items():
            far = fleet.stub(name)
            far.delay_there_s, far.delay_back_s = there, back
        report = skew(fleet, 0)
        lib.equal(set(verdicts(report).values()), {"OK"})
        for node in report["nodes"]:
            if node["identity"] not in paths:
                lib.equal(node["uncertain"], False)
                continue
            lib.check(abs(node["offset_ms"] - paths[node["identity"]][2]) < 50, str(node))
            lib.check(200 <= node["bound_ms"] < 300 and node["uncertain"], str(node))
            lib.check(abs(node["offset_ms"]) <= node["bound_ms"] + 5, "the truth is within")
        for name in ("both", "back"):
            next(stub for stub in fleet.stubs if stub.identity == name).gone()
        table = fleet.ctl("skew").splitlines()
        lib.equal([line.split()[0] for line in table if "uncertain" in line], ["there"], "\n".join(table))


def test_delay_is_not_taken_for_skew():
    with start() as fleet:
        for n in range(3):
            fleet.stub(f"node-{n}")
        slow = fleet.stub("slow")
        slow.delay_s = 0.2  # between its two timestamps
        report = skew(fleet, 0)
        node = [node for node in report["nodes"] if node["identity"] == "slow"][0]
        lib.check(abs(node["offset_ms"]) < 50 and node["bound_ms"] < 100, str(node))


def lines_until(run, text, count, timeout=20):
    """Waits until a running tool has printed so many lines with that text."""
    def there():
        found = [line for line in run.output().splitlines() if text in line]
        return found if len(found) >= count else None
    return lib.wait_until(there, timeout, f"{count} lines with {text}")


def run_ctl(fleet, *args):
    run = lib.Process(f"ctl{len(fleet.processes)}", [
        lib.BIN / "snowfleetctl", "skew", *fleet._common(), *args], fleet.folder)
    fleet.processes.append(run)
    return run


def test_the_report_tells_all_that_is_known():
    with start() as fleet:
        for n in range(3):
            fleet.stub(f"node-{n}").hold(n)
        report = skew(fleet, 0)
        lib.equal(report["measured_by"], "snowfleetctl")
        lib.equal(report["verdicts"], {"OK": 3, "WARN": 0, "CRIT": 0, "UNKNOWN": 0})
        lib.equal(report["slots"]["held"], 3)
        lib.equal((report["mode"], report["exit_code"]), ("OPEN", 0))
        lib.check(report["era"] and report["ceiling_lead_s"] > 80000, str(report))
        for node in report["nodes"]:
            lib.equal((node["state"], node["source"], node["notes"]), ("SERVING", "kernel", []))
            lib.check(45000 < node["horizon_lead_ms"] <= 60000, str(node))
            lib.check(0 <= node["heard_ms"] < 20000, str(node))
        table = fleet.ctl("skew")
        for word in ("NODE", "STATE", "OFFSET MS", "+- MS", "CLAIM MS", "DRIFT PPM", "EFF-WALL MS",
                     "LEAD S", "HEARD S", "VERDICT", "reference: 3 of 3 clocks agree", "by at most",
                     "slots: 3 held", "ceiling: ", f"era: {report['era']}"):
            lib.check(word in table, f"{word} in {table}")


def test_a_claim_that_is_proven_false_is_named():
    with start() as fleet:
        for n in range(4):
            fleet.stub(f"good-{n}")
        fleet.stub("liar", offset_ns=90 * MS).max_error_ns = MS
        report = skew(fleet, 1)
        lib.equal([node["identity"] for node in report["nodes"] if node["claim_false"]], ["liar"])
        lib.equal(verdicts(report)["liar"], "WARN", "90 ms alone would be well")
        lib.check("proven false" in fleet.ctl("skew", code=1), "the table says so")


def test_csv():
    with start() as fleet:
        for n in range(3):
            fleet.stub(f"a,b-{n}")
        fleet.stub("dead", serve=False)
        done = fleet.ctl_raw("skew", "--csv")
        lib.equal(done.returncode, 3)
        rows = list(csv.DictReader(io.StringIO(done.stdout, newline="")))
        lib.equal(len(rows), 4)
        lib.equal({row["identity"] for row in rows}, {"a,b-0", "a,b-1", "a,b-2", "dead"})
        for row in rows:
            if row["identity"] == "dead":
                lib.equal((row["offset_ms"], row["verdict"]), ("", "UNKNOWN"))
                lib.check(row["reason"], "and why")
            else:
                lib.check(float(row["bound_ms"]) > 0 and row["synchronized"] == "true", str(row))


def test_watching_goes_on_until_it_is_interrupted():
    with start() as fleet:
        stubs = [fleet.stub(f"node-{n}") for n in range(4)]
        run = run_ctl(fleet, "--watch", "--interval=200ms", "--output=json")
        first = json.loads(lines_until(run, "schema", 1)[0])
        lib.equal(first["exit_code"], 0)
        stubs[3].offset_ns = -60 * S
        def named():
            last = json.loads(run.output().splitlines()[-1])
            return last if last["exit_code"] == 2 else None
        last = lib.wait_until(named, 20, "it sees the step")
        lib.equal(last["nodes"][0]["identity"], "node-3")
        lib.check(abs(last["nodes"][0]["offset_ms"] + 60000) < 1000, str(last["nodes"][0]))
        # Drift comes with time, without any coordinator.
        def drifts():
            last = json.loads(run.output().splitlines()[-1])
            return all(node["drift_ppm"] is not None for node in last["nodes"])
        lib.wait_until(drifts, 20, "drift is known")
        run.signal(signal.SIGINT)
        lib.equal(run.wait(10), 2, "the last report's")


def test_waiting_until_all_is_well():
    with start() as fleet:
        for n in range(3):
            fleet.stub(f"node-{n}")
        bad = fleet.stub("bad", offset_ns=3 * S)
        done = fleet.ctl_raw("skew", "--wait-ok", "--timeout=1s")
        lib.equal(done.returncode, 2, "it gives up")
        lib.check(done.stdout.splitlines()[1].startswith("bad "), done.stdout)
        run = run_ctl(fleet, "--wait-ok", "--timeout=60s", "--output=json")
        lib.never(lambda: not run.alive(), 1.5, "it ends while a clock is off")
        bad.offset_ns = 0
        lib.equal(run.wait(30), 0)
        lib.equal(json.loads(run.output())["exit_code"], 0)


def test_usage():
    with start() as fleet:
        for args in (["--watch", "--wait-ok"], ["--csv", "--output=json"], ["--interval=1ms"],
                     ["--top=-1"], ["--from=nobody"], ["--timeout=5"], ["x"]):
            lib.equal(fleet.ctl_raw("skew", *args).returncode, 64, str(args))


def on_terminal(fleet, columns, rows, *args):
    """What it prints on a terminal of that size."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    command = [str(lib.BIN / "snowfleetctl"), "skew", *fleet._common(), *args]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE,
                          env=lib.clean_env({"TERM": "xterm"}), close_fds=True) as run:
        os.close(theirs)
        text = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:
                break
            if not piece:
                break
            text += piece
        run.wait(60 * lib.SLOW)
    os.close(ours)
    return text.decode().replace("\r\n", "\n").splitlines()


def test_500_workers_on_a_terminal_of_80_columns():
    with start() as fleet:
        for n in range(3):
            fleet.stub(f"production-namespace/snowfleet-worker-{n}").hold(n)
        fleet.stub("production-namespace/snowfleet-worker-bad", offset_ns=-7 * S).hold(4)
        lease = fleet.etcd.grant(120)
        for n in range(496):
            fleet.etcd.put(fleet.key(f"node/{n:032x}"), json.dumps({
                "identity": f"production-namespace/gone-{n}", "version": "x", "attempt": "1",
                "addresses": {"http": "127.0.0.1:1", "grpc": ""}, "missing": 0, "wanted": [],
                "held": [], "refused": [], "synchronized": True, "max_error_ns": "1"}), lease)
        shown = on_terminal(fleet, 80, 24)
        lib.check(all(len(line) <= 80 for line in shown), "\n".join(shown))
        lib.check(len(shown) <= 24, f"{len(shown)} lines")
        lib.check(shown[1].lstrip(".").rstrip().endswith("CRIT") and "-worker-bad" in shown[1], shown[1])
        offset_ms, bound_ms = map(float, shown[1].split()[2:4])
        lib.check(abs(offset_ms + 7000) <= bound_ms + 1, shown[1])
        lib.check(any("and 48" in line and "more" in line for line in shown), str(shown))
        lib.equal(len([line for line in on_terminal(fleet, 80, 24, "--top=0") if "gone-" in line]),
                  496)
        lib.equal(len([line for line in on_terminal(fleet, 80, 24, "--top=2") if "gone-" in line]), 1)
        lib.check("EFF-WALL MS" in on_terminal(fleet, 200, 24)[0], "a wide one shows all")


def test_with_a_coordinator_its_report_is_there_too():
    with start() as fleet:
        for n in range(3):
            fleet.stub(f"node-{n}").hold(n)
        fleet.stub("bad", offset_ns=60 * S)
        lib.equal(fleet.ctl_raw("skew", "--from=coordinator").returncode, 3, "none leads")
        coordinator = fleet.coordinator("--lease-ttl=2s", "--probe-interval=500ms")
        fleet.leader([coordinator])

        def watched():
            done = fleet.ctl_raw("skew", "--from=coordinator", "--output=json")
            report = json.loads(done.stdout)
            lib.equal((done.returncode, report["measured_by"]), (2, coordinator.instance))
            lib.equal(verdicts(report), {"bad": "CRIT", "node-0": "OK", "node-1": "OK", "node-2": "OK"})
            lib.equal(report["reference"]["clocks"], 5, "its own counts")
            lib.check(all(node["drift_ppm"] is not None for node in report["nodes"]), "drift")
            lib.equal(report, {**report, **{"schema": 1, "incomplete": False}})
            return True
        lib.wait_until(watched, 20, "the coordinator's report")
        report = skew(fleet, 2)  # our own measurement, with the drift that it knows
        lib.equal(report["measured_by"], "snowfleetctl")
        lib.check(all(node["drift_ppm"] is not None for node in report["nodes"]), str(report))


if __name__ == "__main__":
    lib.main()
