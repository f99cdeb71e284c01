#!/usr/bin/env python3
"""The leader assigns machine IDs: order of choice, clocks that are off, orders of others kept.  The
workers are stubs: a record in etcd and a clock that can be set."""

import json
import time

import lib

S = 1_000_000_000
SHORT = ["--lease-ttl=2s", "--ceiling-interval=500ms", "--probe-interval=500ms"]


def start(fleet, *init):
    fleet.init("--new", *(init or ["--machine-id-range=0-9"]))
    coordinator = fleet.coordinator(*SHORT)
    fleet.leader([coordinator])
    return coordinator


def now_ms():
    return int(time.time() * 1000)


def test_twenty_at_once_get_twenty_machine_ids():
    with lib.Fleet() as fleet:
        start(fleet, "--machine-id-range=0-30")
        stubs = [fleet.stub(missing=1) for _ in range(20)]
        given = [stub.wait_assignment()["machine_ids"] for stub in stubs]
        lib.equal(len({ids[0] for ids in given}), 20, str(given))
        lib.equal({len(ids) for ids in given}, {1})


def test_a_worker_gets_what_it_held_last_then_what_it_wants_then_the_oldest():
    with lib.Fleet() as fleet:
        start(fleet, "--machine-id-range=0-9", "--quiet-time=10m")
        for n in range(10):  # 9 is the oldest
            fleet.etcd.put(fleet.key(f"hor/{n:04}"), f"{1704067200000 + 1000 - n:020}:{'0' * 32}:0")
        first = fleet.stub("pod-1", missing=1)
        lib.equal(first.wait_assignment()["machine_ids"], [9])
        first.hold(6, horizon_ms=now_ms() + 2000)  # it took another one, as it may
        time.sleep(0.3)
        first.gone()
        second = fleet.stub("pod-1")
        second.wanted = [3]
        second.ask()
        lib.equal(second.wait_assignment()["machine_ids"], [3], "what it wants")
        second.wanted = []
        second.ask()
        lib.equal(second.wait_assignment()["machine_ids"], [9], "6 is not past its horizon yet")
        time.sleep(2.2)
        second.ask()
        lib.equal(second.wait_assignment()["machine_ids"], [6], "cooling, but its own last one")
        other = fleet.stub("pod-2", missing=1)
        lib.equal(other.wait_assignment()["machine_ids"], [9])


def test_refused_and_promised_machine_ids_are_not_offered():
    with lib.Fleet() as fleet:
        start(fleet, "--machine-id-range=0-2")
        a, b, c = (fleet.stub(missing=1) for _ in range(3))
        lib.equal(sorted(stub.wait_assignment()["machine_ids"][0] for stub in (a, b, c)), [0, 1, 2])
        d = fleet.stub(missing=1)
        answer = d.wait_assignment()
        lib.equal(answer["machine_ids"], [])
        lib.check(answer["refused"].startswith("no machine ID free: 0 held"), answer)
        a.gone()
        d.ask()
        freed = d.wait_assignment()["machine_ids"]
        lib.equal(len(freed), 1, "the promise went with its worker")
        b.refused = b.wait_assignment()["machine_ids"]
        b.ask()
        lib.equal(b.wait_assignment()["machine_ids"], [], "the one it refused is not offered again")


def test_none_free_says_how_many_are_held_and_when_to_come_again():
    with lib.Fleet() as fleet:
        start(fleet, "--machine-id-range=0-1", "--quiet-time=1h")
        a, b = fleet.stub(), fleet.stub()
        a.hold(0, horizon_ms=now_ms() + 60000)
        b.hold(1, horizon_ms=now_ms() + 3000)
        c = fleet.stub(missing=1)
        answer = c.wait_assignment()
        lib.check(answer["refused"].startswith("no machine ID free: 2 held, next at 20"), answer)
        lib.check(1000 <= answer["retry_after_ms"] <= 3001, answer)
        b.gone()
        time.sleep(3.2)
        c.ask()
        lib.equal(c.wait_assignment()["machine_ids"], [1],
                  "under pressure the quiet time shrinks to zero")


def test_the_1025th_gets_a_clean_answer():
    with lib.Fleet() as fleet:
        start(fleet, "--machine-id-range=0-1023")
        holder = fleet.stub()
        own = json.dumps({"claim": "ab" * 16, "instance": holder.instance, "identity": "holder",
                          "addresses": {"http": "", "grpc": ""}})
        # With a horizon of their own: or they are stuck, and the leader begins to take them back.
        fleet.etcd.put_all({fleet.key(f"hor/{n:04}"): f"{now_ms() + 600000:020}:{'ab' * 16}:1"
                            for n in range(1023)})
        fleet.etcd.put_all({fleet.key(f"own/{n:04}"): own for n in range(1023)}, holder.lease)
        last = fleet.stub(missing=2)
        lib.equal(last.wait_assignment()["machine_ids"], [1023], "0..1023 and no more")
        last.hold(1023)
        late = fleet.stub(missing=1)
        answer = late.wait_assignment()
        lib.equal(answer["machine_ids"], [])
        lib.check(answer["refused"].startswith("no machine ID free: 1024 held, next at "), answer)
        lib.check(answer["retry_after_ms"] >= 1000, answer)
        lib.equal(fleet.ctl_json("status")["slots"]["held"], 1024)


def test_several_machine_ids_at_once():
    with lib.Fleet() as fleet:
        start(fleet)
        stub = fleet.stub(missing=4)
        lib.equal(stub.wait_assignment()["machine_ids"], [0, 1, 2, 3])
        other = fleet.stub(missing=64)
        lib.equal(other.wait_assignment()["machine_ids"], [4, 5, 6, 7, 8, 9])


def test_while_only_the_floor_is_ahead_machine_ids_are_given():
    with lib.Fleet() as fleet:
        fleet.init("--if-needed")
        fleet.leader([fleet.coordinator(*SHORT)])
        lib.equal(fleet.stub(missing=1).wait_assignment()["machine_ids"], [0])


def test_a_clock_that_is_certainly_off_is_refused_with_its_offset():
    with lib.Fleet() as fleet:
        coordinator = start(fleet)
        good = [fleet.stub(missing=1) for _ in range(3)]
        for stub in good:
            lib.equal(len(stub.wait_assignment()["machine_ids"]), 1)
        for offset in (3, -3):
            bad = fleet.stub(offset_ns=offset * S, missing=1)
            answer = bad.wait_assignment()
            lib.equal(answer["machine_ids"], [])
            sign = "+" if offset > 0 else "-"
            lib.check(f"the clock is {sign}" in answer["refused"] and
                      "500 ms are allowed" in answer["refused"], answer)
            measured = float(answer["refused"].split()[3])
            lib.check(abs(measured - offset * 1000) < 100, answer)
            lib.check(answer["retry_after_ms"] > 0, answer)
            bad.offset_ns = 0
            bad.ask()
            lib.equal(len(bad.wait_assignment()["machine_ids"]), 1, "set right, it is served")
        lib.check("snowfleet_assignments_refused_for_clock_total 2" in
                  coordinator.get("/metrics").body, "counted")


def test_all_at_once_one_of_them_off():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-9")
        stubs = [fleet.stub(missing=1) for _ in range(4)]
        bad = fleet.stub(offset_ns=60 * S, missing=1)
        fleet.leader([fleet.coordinator(*SHORT)])
        for stub in stubs:
            lib.equal(len(stub.wait_assignment()["machine_ids"]), 1)
        lib.check("the clock is +" in bad.wait_assignment()["refused"], bad.assignment())


def test_too_few_clocks_refuse_nobody():
    with lib.Fleet() as fleet:
        start(fleet)
        a = fleet.stub(missing=1)
        b = fleet.stub(offset_ns=60 * S, missing=1)
        for stub in (a, b):
            lib.equal(len(stub.wait_assignment()["machine_ids"]), 1)


def test_a_slow_path_proves_nothing():
    with lib.Fleet() as fleet:
        start(fleet)
        for _ in range(3):
            fleet.stub(missing=1).wait_assignment()
        slow = fleet.stub(offset_ns=int(0.4 * S))
        slow.delay_s = 0.1  # inside the worker: it does not count
        slow.ask()
        lib.equal(len(slow.wait_assignment(20)["machine_ids"]), 1)


def test_a_worker_that_cannot_be_asked_is_assigned_all_the_same():
    with lib.Fleet() as fleet:
        start(fleet)
        dead = fleet.stub(missing=1, serve=False)
        lib.equal(len(dead.wait_assignment()["machine_ids"]), 1)


def test_orders_and_unknown_fields_in_assign_are_kept():
    with lib.Fleet() as fleet:
        start(fleet)
        stub = fleet.stub()
        order = {"attempt": "0", "machine_ids": [], "refused": "", "retry_after_ms": 0,
                 "give_up": [{"machine_id": 4, "claim": "ab" * 16}], "drain": True,
                 "clock_ok_until_ms": "5", "from_the_future": [1, 2]}
        fleet.etcd.put(fleet.key(f"assign/{stub.instance}"), json.dumps(order), stub.lease)
        stub.ask()
        answer = stub.wait_assignment()
        lib.equal(len(answer["machine_ids"]), 1)
        for name in ("give_up", "drain", "clock_ok_until_ms", "from_the_future"):
            lib.equal(answer[name], order[name], name)
        lib.equal(fleet.get(f"assign/{stub.instance}").lease, stub.lease, "it goes with the worker")


def test_the_ceiling_needs_no_wrong_clock():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-9")
        for _ in range(3):
            fleet.stub()
        fleet.stub(offset_ns=10 * 365 * 86400 * S)
        before = int(fleet.get("ceil").value)
        coordinator = fleet.coordinator(*SHORT)
        fleet.leader([coordinator])
        lib.wait_until(lambda: int(fleet.get("ceil").value) > before, 10, "raised")
        lib.check(int(fleet.get("ceil").value) < now_ms() + 86_401_000, "by the good clocks only")
        lib.equal(coordinator.status()["self"]["ceiling_alarm"], None)


def test_a_leader_alone_raises_the_ceiling_with_an_alarm():
    with lib.Fleet() as fleet:
        coordinator = start(fleet)
        lib.wait_until(lambda: coordinator.logged("ceiling", "alarm"), 10, "the alarm is logged")
        lib.check("fewer than three" in coordinator.status()["self"]["ceiling_alarm"], "and shown")
        time.sleep(2)
        lib.equal(len(coordinator.logged("ceiling", "alarm")), 1, "once")
        for _ in range(2):
            fleet.stub()
        lib.wait_until(lambda: coordinator.status()["self"]["ceiling_alarm"] is None, 10,
                       "three clocks end it")


if __name__ == "__main__":
    lib.main()
