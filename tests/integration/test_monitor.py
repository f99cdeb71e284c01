#!/usr/bin/env python3
"""The coordinator's continuous skew monitor, and its history."""

import pathlib
import random
import re
import struct
import sys
import threading
import time

import lib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import fault_proxy  # noqa: E402

S = 1_000_000_000
MS = 1_000_000
SHORT = ["--lease-ttl=2s", "--probe-interval=500ms"]


def history(coordinator, query=""):
    reply = coordinator.get("/v1/skew/history" + query)
    lib.equal(reply.status, 200, reply.body)
    return reply.json()


def test_every_coordinator_keeps_a_history():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        coordinators = [fleet.coordinator(*SHORT) for _ in range(2)]
        fleet.leader(coordinators)
        for n in range(3):
            fleet.stub(f"good-{n}").hold(n)
        fleet.stub("ahead", offset_ns=3 * S)
        fleet.stub("dead", serve=False)

        def told(coordinator, since=""):
            """Its newest points, when it has heard all that can be heard."""
            answer = history(coordinator, since)
            lib.equal((answer["schema"], answer["interval_ms"]), (1, 10000))
            last = {node["identity"]: (node["offset_ms"][-1], node["bound_ms"][-1], node)
                    for node in answer["nodes"] if node["offset_ms"]}
            lib.equal(set(last), {"good-0", "good-1", "good-2", "ahead", "dead"})
            lib.check(all(last[f"good-{n}"][0] is not None for n in range(3)), "heard")
            return answer, last
        for coordinator in coordinators:  # whether it leads or not
            answer, last = lib.wait_until(lambda: told(coordinator), 30, "a point of each")
            lib.equal(last["dead"][:2], (None, None))
            lib.check(abs(last["ahead"][0] - 3000) <= last["ahead"][1] + 5, str(last["ahead"][:2]))
            lib.equal(last["good-1"][2]["machine_ids"], [1])
            lib.equal(last["ahead"][2]["machine_ids"], [])
            newest = answer["times_ms"][-1]
            for node in answer["nodes"]:
                lib.equal(len(node["offset_ms"]), len(answer["times_ms"]))
                lib.equal(len(node["bound_ms"]), len(answer["times_ms"]))
                lib.equal(node["present"], True)
            later = history(coordinator, f"?since={newest}")
            lib.check(newest not in later["times_ms"], "only what is new")
        for bad in ("since=", "since=-1", "since=1.5", "since=x", "since=01", "since=1&since=2",
                    "since=9223372036854775808", "until=1"):
            reply = coordinators[0].get(f"/v1/skew/history?{bad}")
            lib.equal(reply.status, 400, bad)
            lib.equal(reply.json()["error"]["field"], bad.split("=")[0], bad)


class Clock:
    """The page of common/clock.h."""

    def __init__(self, fleet, name):
        self.path = fleet.folder / name
        self.path.write_bytes(bytes(40))
        self.sequence = 0

    def set(self, offset_ns, rate_ppm=0):
        with open(self.path, "r+b", buffering=0) as file:
            def write(offset, value):
                file.seek(offset)
                file.write(struct.pack("=q", value))
            write(0, self.sequence + 1)
            write(8, offset_ns)
            write(24, time.clock_gettime_ns(time.CLOCK_BOOTTIME))
            write(32, rate_ppm)
            self.sequence += 2
            write(0, self.sequence)


def metrics(daemon):
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
            for line in daemon.get("/metrics").body.splitlines() if line[0] != "#"}


def skew(coordinator):
    reply = coordinator.get("/v1/skew")
    lib.equal(reply.status, 200, reply.body)
    return {node["identity"]: node for node in reply.json()["nodes"]}


def test_the_alarm_has_the_right_sign():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        coordinator = fleet.coordinator(*SHORT)
        fleet.leader([coordinator])
        clock = Clock(fleet, "clock")
        workers = [fleet.worker(name=f"good-{n}") for n in range(3)]
        bent = fleet.worker("--max-backward-wait=10s", f"--clock-file={clock.path}", name="bent")
        for worker in [*workers, bent]:
            worker.wait_ready()
        for sign in (1, -1):
            clock.set(sign * 3 * S)

            def alarmed(sign=sign):
                nodes = skew(coordinator)
                node = nodes["bent"]
                lib.equal((node["verdict"], node["falseticker"]), ("CRIT", True))
                lib.check(abs(node["offset_ms"] - sign * 3000) <= node["bound_ms"] + 5, str(node))
                word = "ahead of" if sign > 0 else "behind"
                lib.check(any(word in note for note in node["notes"]), str(node["notes"]))
                lib.equal([name for name in nodes if nodes[name]["verdict"] == "CRIT"], ["bent"])
                values = metrics(coordinator)
                offset = [values[name] for name in values
                          if name.startswith("snowfleet_node_offset_seconds") and 'node="bent"' in name]
                lib.check(len(offset) == 1 and abs(offset[0] - sign * 3) < 0.5, str(offset))
                lib.equal(values["snowfleet_skew_falsetickers"], 1)
                return True
            lib.wait_until(alarmed, 20, f"the alarm for {sign * 3} s")
        lib.check(metrics(coordinator)["snowfleet_worker_clock_steps_total"] >= 2, "both steps were seen")


def test_a_worker_that_is_certainly_off_is_refused_and_says_by_how_much():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        coordinator = fleet.coordinator(*SHORT)
        fleet.leader([coordinator])
        for n in range(3):
            fleet.stub(f"good-{n}")
        clock = Clock(fleet, "clock")
        clock.set(-3 * S)
        worker = fleet.worker(f"--clock-file={clock.path}", "--assign-wait=20s", name="late")

        def names_the_figure(reason):
            """The 3 s that it is behind, within what is printed (and what the two readings are apart)."""
            said = re.search(r"the clock is ([-+][0-9.]+) ms \(within ([0-9.]+) ms\) from the fleet's, "
                             "500 ms are allowed", reason)
            return said and abs(float(said[1]) + 3000) <= float(said[2]) + 5
        lib.wait_until(lambda: names_the_figure(worker.status()["reason"]), 20, "its status has the figure")
        lib.wait_until(lambda: any(names_the_figure(line["reason"]) for line in worker.logged(
            "worker", "refused a machine ID")), 20, "and so has its log")
        lib.equal(worker.get("/readyz").status, 503)
        values = metrics(coordinator)
        lib.check(values["snowfleet_assignments_refused_for_clock_total"] >= 1, "counted")


def test_400_ms_one_way_through_a_proxy_is_no_alarm_at_250_ms():
    with lib.Fleet() as fleet, fault_proxy.FaultProxy(seed=1) as proxy:
        fleet.init("--new", "--max-offset=250ms")
        coordinator = fleet.coordinator(*SHORT)
        fleet.leader([coordinator])
        workers = [fleet.worker(name=f"node-{n}") for n in range(3)]
        for worker in workers:
            worker.wait_ready()
        far = fleet.stub("far", serve=False)
        far.address = proxy.link("coordinator>far", workers[0].address)
        for way, sign in (("request", 1), ("answer", -1)):
            proxy.clear()
            proxy.rule("delay", link="coordinator>far", path="/v1/clock", way=way, ms=(400, 400))
            far.write()

            def uncertain(sign=sign):
                node = skew(coordinator)["far"]
                lib.check(node["offset_ms"] is not None and node["uncertain"], str(node))
                lib.check(sign * node["offset_ms"] > 100, f"measured on the delayed path: {node}")
                lib.check(abs(node["offset_ms"]) <= node["bound_ms"] + 1, str(node))
                return node
            node = lib.wait_until(uncertain, 40, "a measurement")
            lib.check(not node["falseticker"] and not node["claim_false"], str(node))
            lib.check(node["verdict"] in ("OK", "WARN"), str(node))  # WARN: nothing synchronizes it here
            lib.check(all("the fleet" not in note for note in node["notes"]), str(node))
            lib.equal(metrics(coordinator)["snowfleet_skew_falsetickers"], 0)
            far.instance = f"{sign + 2:032x}"  # a new one knows nothing of the path before


def test_an_exchange_during_a_step_is_dropped():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        coordinator = fleet.coordinator(*SHORT)
        fleet.leader([coordinator])
        for n in range(4):
            fleet.stub(f"good-{n}")
        torn = fleet.stub("torn")
        torn.delay_s = 0.01  # steps fall between its two timestamps
        over = threading.Event()

        def step():
            pause = random.Random(7)
            while not over.wait(pause.uniform(0.02, 0.2)):
                torn.offset_ns = 5 * S - torn.offset_ns
        stepping = threading.Thread(target=step)
        stepping.start()
        try:
            seen = []

            def enough():
                node = skew(coordinator)["torn"]
                if node["offset_ms"] is not None:
                    near = min(abs(node["offset_ms"]), abs(node["offset_ms"] - 5000))
                    lib.equal(near <= node["bound_ms"] + 5, True, f"never in between: {node}")
                    seen.append(node["offset_ms"])
                values = metrics(coordinator)
                return (values["snowfleet_probe_dropped_total"] >= 10 and len(seen) >= 30
                        and values["snowfleet_worker_clock_steps_total"] >= 1)
            end = time.monotonic() + 60 * lib.SLOW
            while not enough():
                lib.check(time.monotonic() < end, f"{len(seen)} seen")
                time.sleep(0.1)
        finally:
            over.set()
            stepping.join()


def test_a_dead_worker_is_listed_and_its_last_word_is_kept_for_half_a_minute():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        coordinator = fleet.coordinator(*SHORT)
        for n in range(3):
            fleet.stub(f"good-{n}")
        dead = fleet.stub("dead")
        lib.wait_until(lambda: skew(coordinator)["dead"]["verdict"] == "OK", 20, "it is heard")
        dead.close()
        lib.wait_until(lambda: skew(coordinator)["dead"]["heard_ms"] > 3000, 20, "no more")
        lib.equal(skew(coordinator)["dead"]["verdict"], "OK", "one lost probe is no alarm")
        lib.wait_until(lambda: skew(coordinator)["dead"]["verdict"] == "UNKNOWN", 60, "30 s later")
        node = skew(coordinator)["dead"]
        lib.check(node["reason"] and node["offset_ms"] is None and node["heard_ms"] >= 30000, str(node))
        report = coordinator.get("/v1/skew").json()
        lib.equal((report["incomplete"], report["exit_code"]), (True, 3))


def test_the_connection_is_warm():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        coordinator = fleet.coordinator(*SHORT)
        worker = fleet.worker("--assign-wait=0s")
        worker.wait_ready()
        lib.wait_until(lambda: metrics(coordinator)["snowfleet_probes_total"] >= 8, 30, "probes")
        values = metrics(coordinator)
        # Another request to the same worker (its status, for the page) may hold the connection for a
        # moment: then one more is opened, and stays warm beside it.
        cold = values["snowfleet_probe_cold_total"]
        lib.check(cold <= 2, f"{cold} exchanges over a new connection")
        lib.equal(values["snowfleet_probe_dropped_total"], 0)
        done = values["snowfleet_probes_total"] - values["snowfleet_probe_failures_total"]
        lib.check(9 * done <= values["snowfleet_probe_exchanges_total"] <= 9 * (done + 1) + cold,
                  "eight and one before them")
        accepted = metrics(worker)["snowfleet_http_connections_total"]
        lib.wait_until(lambda: metrics(coordinator)["snowfleet_probes_total"] >= 14, 30, "more probes")
        more = metrics(worker)["snowfleet_http_connections_total"] - accepted
        lib.check(more <= 2, f"{more} connections beside that of the scrape itself")


if __name__ == "__main__":
    lib.main()
