"""The effective clock under steps, by strategy: nothing twice, in order, and how it is confirmed."""

import json
import threading
import time

import lib
import load
from clock_page import Clock

TIMES = ["--window=4s", "--lease-ttl=2s", "--keepalive-interval=500ms", "--assign-wait=0s",
         "--confirm-interval=250ms"]
DAY_S = 86400


def start(fleet, clock, *options):
    return fleet.worker(*TIMES, f"--clock-file={clock.path}", *options)


def clock_of(worker):
    return worker.status()["clock"]


def wait_state(worker, state, timeout=10):
    """What it says of its clock when it is in that state."""
    def reached():
        clock = clock_of(worker)
        lib.equal(clock["state"], state)
        return clock
    return lib.wait_until(reached, timeout, f"{worker.name}'s clock is {state}")


def ahead_s(ids):
    """How far the last of them is dated ahead of this machine's clock; less if this process stood still
    since it got them, so let that be some seconds."""
    return load.parts(ids[-1])[0] / 1000 - time.time()


def dated(worker, expected_s, what):
    """Waits until an ID of it is dated that much ahead of this machine's clock, to a second: a time that
    was taken over may first have to be granted.  A worker that was further ahead before does not come
    to that, since its IDs increase."""
    def so():
        before_s = time.time()
        ids = worker.ids(2)
        lib.check(before_s - 1 < load.parts(ids[-1])[0] / 1000 - expected_s < time.time() + 1,
                  f"{ahead_s(ids)} s ahead, not {expected_s}")
        return ids
    return lib.wait_until(so, 10, what)


class Taker:
    """One client, so that the order of its answers is the order of issue."""

    def __init__(self, worker):
        self.worker, self.ids, self.refusals = worker, [], []
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.ending.is_set():
            begun = time.monotonic()
            reply = self.worker.get("/v1/ids?count=2")
            took = time.monotonic() - begun
            lib.check(took < 8, f"answered within its deadline: {took:.1f} s")
            if reply.status == 200:
                self.ids += map(int, reply.json()["ids"])
            else:
                self.refusals.append(reply.json()["error"])
            self.ending.wait(0.002 if reply.status == 200 else 0.02)

    def wait_more(self, more=20, timeout=15):
        goal = len(self.ids) + more
        lib.wait_until(lambda: len(self.ids) >= goal or not self.thread.is_alive(), timeout,
                       f"{more} more IDs")
        lib.check(self.thread.is_alive(), "the client goes on")

    def stop(self):
        self.ending.set()
        self.thread.join(30)
        load.no_duplicates(self.ids)
        last = {}
        for number in self.ids:
            machine_id = load.parts(number)[1]
            lib.check(number > last.get(machine_id, -1), "IDs of a machine ID increase")
            last[machine_id] = number
        return self.ids


# ---- steps and back, each strategy ----

def steps_and_back(strategy):
    """The peers keep this machine's time, so what goes away from it is not confirmed."""
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock = Clock(fleet)
        clock.say(True, 0.02)
        peers = [fleet.stub(f"peer/{i}") for i in range(2)]
        worker = start(fleet, clock, f"--clock-strategy={strategy}")
        worker.wait_ready()
        taker = Taker(worker)
        for step_s in (-0.005, -0.05, -5, -3600, 1, 3600):
            taker.wait_more()
            refused = len(taker.refusals)
            clock.set(step_s)
            if step_s == 3600:
                wait_state(worker, "coasting")
                taker.wait_more()
                lib.check(abs(ahead_s(taker.ids)) < 10, "dated as if the step had not been")
            elif step_s == -5 and strategy == "offset":
                wait_state(worker, "slewing")
                taker.wait_more()
                lib.equal([error for error in taker.refusals[refused:] if "behind" in error["message"]], [],
                          "a step back that is bridged refuses nobody")
            elif step_s < -1:
                wait_state(worker, "behind")
                # Under `bounded` it first says that the stepped clock's error is not known.
                error = lib.wait_until(lambda: next(
                    (error for error in taker.refusals[refused:]
                     if "behind the last ID" in error["message"]), None), 10, "it refuses")
                lib.check(0 < error["retry_after_ms"] <= -step_s * 1000, error)
                lib.equal(worker.get("/readyz").status, 503)
                lib.equal(worker.get("/livez").status, 200)
            else:
                taker.wait_more()
            clock.set(0)
        if strategy == "offset":  # what the clock went back from +1 s is worked off in 16 s
            state = wait_state(worker, "slewing")
            lib.check(0 < state["effective_minus_wall_ms"] < 1001, state)
        else:
            wait_state(worker, "normal")
        taker.wait_more()
        lib.check(abs(ahead_s(taker.ids)) < 10, "back at the right time")
        taker.stop()
        status = clock_of(worker)
        lib.equal((status["strategy"], status["rotations_total"]), (strategy, "0"))
        lib.equal(len(peers), 2)


def test_wait():
    steps_and_back("wait")


def test_offset():
    steps_and_back("offset")


def test_bounded():
    steps_and_back("bounded")


# ---- who confirms a step forward ----

def test_two_peers_confirm():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock = Clock(fleet, offset_s=-20)  # 20 s slow, and then corrected
        peers = [fleet.stub(f"peer/{i}") for i in range(2)]
        worker = start(fleet, clock)
        worker.wait_ready()
        taker = Taker(worker)
        taker.wait_more()
        peers[1].offset_ns = 3_000_000_000  # one peer says yes, the other one no
        clock.set(0)
        state = wait_state(worker, "coasting")
        lib.check("two peers" in state["reason"] and state["wants_confirmation"], state)
        lib.wait_until(lambda: "(1 so far)" in clock_of(worker)["reason"], 10, "one has confirmed")
        lib.wait_until(lambda: fleet.etcd.get(fleet.key(f"node/{worker.instance}")).json()["clock_unconfirmed"],
                       10, "its node record says so to all")
        lib.check(ahead_s(taker.ids) < -15, "not taken over")
        probe = worker.get("/v1/clock").json()
        lib.equal((probe["clock_state"], probe["wants_confirmation"]), ("coasting", True))
        lib.check(-20100 < probe["effective_minus_wall_ms"] < -19900, probe)
        peers[1].offset_ns = 0
        wait_state(worker, "normal")
        taker.wait_more()
        lib.check(abs(ahead_s(taker.ids)) < 10, "dated by the corrected clock")
        taker.stop()
        lib.equal(len(worker.logged("clock", "the step is confirmed", by="peers")), 1)


def test_peers_that_were_stepped_themselves_are_no_witnesses():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock = Clock(fleet)
        workers = [start(fleet, clock) for _ in range(3)]
        for worker in workers:
            worker.wait_ready()
        clock.set(30)  # one bad time server for all of them
        for worker in workers:
            wait_state(worker, "coasting")
        lib.never(lambda: any(clock_of(worker)["state"] != "coasting" for worker in workers), 2,
                  "they confirm each other")
        for worker in workers:
            dated(worker, 0, "as before")
        clock.set(0)
        for worker in workers:
            wait_state(worker, "normal")


def test_alone_in_the_fleet():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock = Clock(fleet)
        worker = start(fleet, clock)
        worker.wait_ready()
        clock.set(50)
        lib.wait_until(lambda: worker.logged("clock", "the step is confirmed", by="being alone"), 10,
                       "50 s are confirmed by itself")
        dated(worker, 50, "and taken over")
        clock.set(50 + 600)
        state = wait_state(worker, "coasting")
        lib.wait_until(lambda: "snowfleetctl clock accept" in clock_of(worker)["reason"], 10,
                       "says what is needed")
        lib.check(state["wants_confirmation"], state)
        # The operator's clock is right, so an order for a minute does not cover ten.
        fleet.ctl("clock", "accept", worker.instance)
        lib.never(lambda: clock_of(worker)["state"] != "coasting", 1, "an order that has ended counts")
        clock.set(0)
        worker.wait_ready()


def test_an_operator_confirms():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock = Clock(fleet, offset_s=-600)
        worker = start(fleet, clock)
        worker.wait_ready()
        worker.ids(5)
        fleet.ctl("clock", "accept", worker.instance)  # too early: there is no step yet
        clock.set(0)
        wait_state(worker, "coasting")
        lib.never(lambda: clock_of(worker)["state"] != "coasting", 1, "an old order counts")
        fleet.ctl("clock", "accept", worker.instance)
        wait_state(worker, "normal")
        dated(worker, 0, "taken over")
        lib.equal(len(worker.logged("clock", "the step is confirmed", by="order")), 1)


def test_standalone():
    with lib.Fleet(start_etcd=False) as fleet:
        clock = Clock(fleet)
        worker = lib.Daemon("alone", [
            lib.BIN / "snowfleet-worker", "--standalone", "--init", "--http-listen=127.0.0.1:0",
            "--grpc-listen=127.0.0.1:0", f"--state-file={fleet.folder / 'state'}",
            f"--clock-file={clock.path}"], fleet.folder)
        fleet.processes.append(worker)
        worker.wait_ready()
        clock.set(50)
        dated(worker, 50, "50 s are taken over")
        clock.set(50 + 600)
        state = wait_state(worker, "coasting")
        lib.check("restart" in state["reason"], state)
        dated(worker, 50, "600 s are not")


# ---- rotation ----

def test_rotation_after_a_correction_by_a_day():
    """A clock nearly a day ahead for one request, then corrected."""
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock = Clock(fleet, offset_s=DAY_S - 60)
        for i in range(2):
            fleet.stub(f"peer/{i}")
        worker = start(fleet, clock)
        worker.wait_ready()
        ids = worker.ids(1)
        lib.check(ahead_s(ids) > DAY_S - 120, "dated by the clock that is ahead")
        first = load.parts(ids[0])[1]
        begun = time.monotonic()
        clock.set(0)

        def served():
            asked = time.monotonic()
            reply = worker.get("/v1/ids")
            took = time.monotonic() - asked
            lib.check(took < 8, f"answered within its deadline: {took:.1f} s")
            if reply.status == 200:
                ids.extend(map(int, reply.json()["ids"]))
                return True
            lib.check("behind the last ID" in reply.body or "no machine ID" in reply.body, reply)
            return False
        lib.wait_until(served, 20, "it serves again", 0.02)
        print(f"    served again after {time.monotonic() - begun:.2f} s")
        lib.check(abs(ahead_s(ids)) < 10, "at the right time")
        second = load.parts(ids[-1])[1]
        lib.check(second != first, "under another machine ID")
        load.no_duplicates(ids)
        ceiling = int(fleet.etcd.get(fleet.key("ceil")).value)
        for key in fleet.etcd.prefix(fleet.key("hor/")):
            lib.check(int(key.value[:20]) < ceiling, f"{key} is below the ceiling")
        horizon = int(fleet.etcd.get(fleet.key(f"hor/{first:04}")).value[:20])
        lib.equal(horizon, load.parts(ids[0])[0], "the first one's horizon is its last ID")
        lib.equal(clock_of(worker)["rotations_total"], "1")
        # At most once a minute: the next step back of that size is refused.
        clock.set(DAY_S - 60)
        wait_state(worker, "coasting")
        dated(worker, 0, "and a step forward is coasted over")


def test_every_machine_id_of_a_worker_is_exchanged():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock = Clock(fleet, offset_s=3600)
        for i in range(2):
            fleet.stub(f"peer/{i}")
        worker = start(fleet, clock, "--machine-ids=3", "--rotate-interval=1s")
        with load.Load(worker.address, clients=12, count=2) as clients:
            def machine_ids():
                return {machine["machine_id"] for machine in worker.status()["machines"]
                        if machine["state"] == "SERVING"}
            before = lib.wait_until(lambda: len(machine_ids()) == 3 and machine_ids(), 30, "3 serve")

            def all_issued():
                worker.ids(1)  # over a connection of its own, so some loop's
                return all(int(machine["issued_total"]) > 0
                           for machine in worker.status()["machines"])
            lib.wait_until(all_issued, 30, "each has issued something that is ahead")
            clock.set(0)
            after = lib.wait_until(lambda: len(machine_ids() - before) == 3 and machine_ids(), 30,
                                   "3 others serve")
            lib.check(not before & after, f"{before} and {after}")
            clients.wait_more(600)
            ids = clients.stop()
        load.no_duplicates(ids)
        dated(worker, 0, "at the right time")
        for reply in clients.refusals:
            lib.equal(reply[1], 503)


def test_a_clock_a_whole_day_ahead_at_the_start():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock = Clock(fleet, offset_s=DAY_S + 30)
        for i in range(2):
            fleet.stub(f"peer/{i}")
        worker = start(fleet, clock)
        reply = worker.get("/v1/ids")
        lib.equal(reply.status, 503)
        lib.wait_until(lambda: "ceiling" in worker.get("/readyz").body, 10, "health names the cause")
        clock.set(0)
        worker.wait_ready()
        dated(worker, 0, "at the right time")


def test_no_rotation_without_a_witness_or_another_machine_id():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-0")
        clock = Clock(fleet, offset_s=120)
        worker = start(fleet, clock)
        worker.wait_ready()
        ids = worker.ids(3)
        clock.set(0)  # 120 s are more than a lone worker confirms by itself
        state = wait_state(worker, "behind")
        lib.wait_until(lambda: clock_of(worker)["wants_confirmation"], 10, "it asks")
        peers = [fleet.stub(f"peer/{i}") for i in range(2)]
        lib.wait_until(lambda: worker.logged(
            "clock", "the clock went back, and no other machine ID is free"), 15, "none is free")
        lib.equal(worker.status()["machines"][0]["machine_id"], 0)
        lib.check("behind" in state["reason"] and len(peers) == 2, state)
        ready = worker.get("/readyz")
        lib.check(ready.status == 503 and "behind the last ID" in ready.body, ready)  # health names the cause
        lib.equal(worker.get("/livez").status, 200)
        reply = worker.get("/v1/ids")
        lib.check(reply.status == 503 and reply.json()["error"]["retry_after_ms"] > 60000, reply)
        load.no_duplicates(ids)


# ---- bounded ----

def test_bounded_serves_only_while_the_error_is_known_and_small():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock = Clock(fleet)
        clock.say(False, 16)
        worker = start(fleet, clock, "--clock-strategy=bounded", "--max-clock-error=100ms")
        state = wait_state(worker, "refusing")
        lib.check("not known" in state["reason"] and state["error_ms"] is None and
                  state["max_error_ms"] is None and not state["trusted"], state)
        lib.wait_until(lambda: "error is not known" in worker.get("/v1/ids").body, 20, "it says so")
        lib.equal(worker.get("/readyz").status, 503)
        lib.equal(worker.get("/livez").status, 200)
        lib.equal(worker.get("/v1/clock").json()["max_error_ns"], None)
        lib.check("snowfleet_clock_max_error_seconds" not in worker.get("/metrics").body,
                  "unknown is no number")
        clock.say(True, 0)  # as systemd-timesyncd does
        clock.say(True, 0, 0)
        lib.wait_until(lambda: "timesyncd" in clock_of(worker)["distrust_reason"], 10, "and why")
        wait_state(worker, "refusing")
        clock.say(True, 0.03)
        worker.wait_ready()
        reply = worker.get("/v1/ids?count=3").json()
        earliest, latest = map(int, reply["interval_ms"])
        first = load.parts(int(reply["ids"][0]))[0]
        lib.check(earliest <= first - 30 and latest >= first + 30 and latest - earliest < 90, reply)
        clock.say(True, 0.2)
        lib.wait_until(lambda: "above --max-clock-error" in worker.get("/v1/ids").body, 10,
                       "too large")
        clock.say(True, 0.02)
        worker.wait_ready()


def test_commit_wait():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock, plain = Clock(fleet), Clock(fleet, "plain")
        clock.say(True, 0.1)
        worker = start(fleet, clock, "--clock-strategy=bounded", "--max-commit-wait=3s",
                       "--max-clock-error=4s")
        worker.wait_ready()
        for count in (1, 9000):
            begun = time.time()
            reply = worker.get(f"/v1/ids?count={count}&commit_wait=1")
            ended = time.time()
            last = load.parts(int(reply.json()["ids"][-1]))[0]
            lib.check(ended * 1000 >= last + 1 + 100, "the IDs' time is certainly past")
            lib.check(0.1 <= ended - begun < 3 * lib.SLOW, f"{ended - begun}")
        lib.equal(worker.request("POST", "/v1/ids", body='{"commit_wait":true}',
                                 headers={"Content-Type": "application/json"}).status, 200)
        clock.say(True, 3.5)
        reply = lib.wait_until(lambda: (lambda r: r if r.status == 503 else None)(
            worker.get("/v1/ids?commit_wait=1")), 10, "it would take too long")
        lib.check("--max-commit-wait" in reply.body and "Retry-After".lower() in reply.headers, reply)
        # The clock goes back while somebody waits: an answer within the deadline, and no IDs.
        clock.say(True, 2)
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(
            worker.get("/v1/ids?commit_wait=1"))) for _ in range(3)]
        lib.wait_until(lambda: worker.get("/v1/ids").json()["interval_ms"], 10, "it serves")
        lib.wait_until(lambda: clock_of(worker)["max_error_ms"] < 2100, 10, "2 s are known")
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        clock.set(-5)
        for thread in threads:
            thread.join(10)
        for answer in answers:
            lib.check(answer.status == 503 and "ids" not in answer.json(), answer)
        lib.equal(len(answers), 3)
        reply = start(fleet, plain).get("/v1/ids?commit_wait=1")
        lib.equal((reply.status, reply.json()["error"]["code"], reply.json()["error"]["field"]),
                  (400, "FAILED_PRECONDITION", "commit_wait"))


# ---- the end of the epoch ----

def test_a_warning_five_years_before_the_end():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--no-ceiling")
        now, end = time.time(), (load.EPOCH_MS + 2**41 - 1) / 1000
        for years, warned in ((5.1, 0), (4.9, 1)):
            left_s = years * 365 * DAY_S
            clock = Clock(fleet, f"clock{warned}", end - now - left_s)
            worker = start(fleet, clock)
            worker.wait_ready()
            found = lib.wait_until(lambda: [
                float(line.split()[1]) for line in worker.get("/metrics").body.splitlines()
                if line.startswith("snowfleet_epoch_left_seconds ")], 10, "it is shown")
            lib.check(left_s - 60 < found[0] <= left_s, found)
            lib.wait_until(lambda: clock_of(worker)["state"] == "normal", 5, "it ticks")
            time.sleep(0.3)  # a tick of the control loop, for the one that must not warn
            lib.equal(len(worker.logged("clock", "IDs of this epoch end within five years")), warned)


# ---- time that passes otherwise ----

def test_a_suspend_and_a_pause_are_no_steps():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock = Clock(fleet)
        worker = start(fleet, clock)
        worker.wait_ready()
        ids = worker.ids(3)
        clock.suspend(3600)
        worker.wait_ready()
        ids += dated(worker, 3600, "boot time has run on, and the wall clock with it")
        worker.pause()
        time.sleep(1)
        clock.suspend(3600)
        worker.resume()
        worker.wait_ready()
        ids += dated(worker, 7200, "likewise")
        load.no_duplicates(ids)
        lib.equal(clock_of(worker)["steps_total"], "0")
        lib.check(json.dumps(clock_of(worker)), "")


if __name__ == "__main__":
    lib.main()
