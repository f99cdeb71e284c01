"""The leader confirms a worker's clock after a step, or does not: a real coordinator on a real etcd."""

import time

import lib
import load
from clock_page import Clock
from test_clock_steps import Taker, ahead_s, clock_of, dated, start, wait_state

COORDINATOR = ["--lease-ttl=2s", "--probe-interval=500ms"]


def lead(fleet, *options):
    coordinator = fleet.coordinator(*COORDINATOR, *options)
    fleet.leader([coordinator])
    return coordinator


def metric(daemon, name):
    return next(float(line.split()[1]) for line in daemon.get("/metrics").body.splitlines()
                if line.startswith(f"snowfleet_{name} "))


def order(fleet, worker):
    """Until when its clock is confirmed by what stands in etcd; 0: it is not."""
    key = fleet.get(f"assign/{worker.instance}")
    return int(key.json().get("clock_ok_until_ms", 0)) if key else 0


def confirmed_by_the_leader(fleet, coordinator, worker):
    """It was, with one order that reaches a minute beyond now, and by nobody else."""
    lib.wait_until(lambda: worker.logged("clock", "the step is confirmed", by="order"), 20,
                   "the leader's order is taken")
    lib.equal(len(worker.logged("clock", "the step is confirmed")), 1)
    lib.equal(len(coordinator.logged("clock", "confirmed", instance=worker.instance)), 1)
    lib.equal(metric(coordinator, "clock_confirmations_total"), 1)
    ahead_ms = order(fleet, worker) - time.time() * 1000
    lib.check(0 < ahead_ms <= 60500, f"the order ends in {ahead_ms} ms")


def wait_measured(coordinator, workers, offset_s):
    """The leader has seen the stepped clocks, and has asked each again since."""
    def seen():
        report = coordinator.get("/v1/skew").json()
        nodes = {node["instance"]: node for node in report["nodes"]}
        for worker in workers:
            node = nodes[worker.instance]
            from_here_ms = node["offset_ms"] + report["reference"]["from_here_ms"]
            lib.check(abs(from_here_ms - offset_s * 1000) <= node["bound_ms"] + 50, str(node))
        return len(nodes)
    members = lib.wait_until(seen, 20, f"they are measured {offset_s} s off")
    probes = metric(coordinator, "probes_total")
    lib.wait_until(lambda: metric(coordinator, "probes_total") >= probes + 2 * members, 30, "and again")


def coasts(fleet, worker, before_ms):
    """The order is what it was, and the worker waits for another."""
    state = clock_of(worker)
    lib.check(state["state"] == "coasting" and state["wants_confirmation"], state)
    lib.equal(order(fleet, worker), before_ms)
    dated(worker, 0, "IDs go on as if the step had not been")


def test_a_clock_is_confirmed_when_it_is_right_and_not_when_it_is_wrong():
    """Both steps are of 20 s, further than --max-forward-step.  One peer is not enough to confirm the first
    one: it takes the leader, whose own clock and the peer's agree with the worker's.  The second one leads
    away from all three of them."""
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock = Clock(fleet, offset_s=-20)
        worker = start(fleet, clock)
        worker.wait_ready()
        taker = Taker(worker)
        taker.wait_more()
        lib.check(ahead_s(taker.ids) < -15, "dated by the slow clock")
        fleet.stub("peer")
        coordinator = lead(fleet)
        clock.set(0)
        confirmed_by_the_leader(fleet, coordinator, worker)
        wait_state(worker, "normal")
        taker.wait_more()
        lib.check(abs(ahead_s(taker.ids)) < 10, "dated by the corrected clock")
        for error in taker.refusals:  # the new time may first have to be granted
            lib.check("the time granted" in error["message"], error)
        taker.stop()
        before_ms = order(fleet, worker)
        fleet.stub("another")  # with the leader three that agree: without that nobody would be confirmed
        clock.set(20)  # the order from before does not cover it, though its minute is not over
        wait_measured(coordinator, [worker], 20)
        coasts(fleet, worker, before_ms)
        clock.set(0)
        wait_state(worker, "normal")
        dated(worker, 0, "as before")
        lib.equal(metric(coordinator, "clock_confirmations_total"), 1)


def test_nobody_confirms_a_fleet_that_one_bad_server_stepped():
    """Three workers agree with each other and not with the leader; each of them waits for a confirmation
    itself, so none is a witness for another."""
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock = Clock(fleet)
        workers = [start(fleet, clock) for _ in range(3)]
        for worker in workers:
            worker.wait_ready()
        coordinator = lead(fleet)
        clock.set(20)
        wait_measured(coordinator, workers, 20)
        for worker in workers:
            coasts(fleet, worker, 0)
        lib.equal(metric(coordinator, "clock_confirmations_total"), 0)


def test_a_leader_with_one_worker():
    """The two of them are all there is; ten minutes are more than a lone worker believes by itself."""
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock = Clock(fleet, offset_s=-600)
        worker = start(fleet, clock)
        worker.wait_ready()
        coordinator = lead(fleet)
        clock.set(0)
        confirmed_by_the_leader(fleet, coordinator, worker)
        dated(worker, 0, "by the corrected clock")


def test_a_step_back_is_confirmed_and_the_machine_id_exchanged():
    """An hour ahead, then corrected: the leader is the witness that rotation asks for."""
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock = Clock(fleet, offset_s=3600)
        worker = start(fleet, clock)
        worker.wait_ready()
        ids = worker.ids(2)
        fleet.stub("peer")
        coordinator = lead(fleet)
        clock.set(0)
        confirmed_by_the_leader(fleet, coordinator, worker)
        lib.wait_until(lambda: clock_of(worker)["rotations_total"] == "1", 20, "it is exchanged")
        worker.wait_ready()
        ids += dated(worker, 0, "at the right time")
        load.no_duplicates(ids)
        lib.check(load.parts(ids[-1])[1] != load.parts(ids[0])[1], "under another machine ID")


if __name__ == "__main__":
    lib.main()
