"""Clock strategy wait, on a bent clock: nothing twice, whatever the clock does."""

import time

import lib
import load
from clock_page import Clock

TIMES = ["--window=4s", "--lease-ttl=2s", "--keepalive-interval=500ms", "--assign-wait=0s"]
END_MS = load.EPOCH_MS + 2**41 - 1


def metric(worker, name):
    return next(float(line.split()[1]) for line in worker.get("/metrics").body.splitlines()
                if line.startswith(name))


def counted(worker, steps):
    lib.wait_until(lambda: metric(worker, "snowfleet_clock_steps_total") >= steps, 5,
                   f"{steps} steps are counted")


def test_steps_back():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock = Clock(fleet)
        worker = fleet.worker(*TIMES, f"--clock-file={clock.path}", "--max-backward-wait=50ms")
        worker.wait_ready()
        with load.Load(worker.address, clients=4, count=2) as clients:
            clients.wait_more()
            clock.set(-0.005)  # waited out by the caller
            clients.wait_more()
            counted(worker, 1)
            lib.equal(len(clients.refusals), 0, "a small step refuses nobody")
            clock.set(-1.5)
            reply = lib.wait_until(lambda: (lambda r: r if r.status == 503 else None)(
                worker.get("/v1/ids")), 5, "it refuses")
            error = reply.json()["error"]
            lib.check("clock" in error["message"] and 0 < error["retry_after_ms"] <= 1600, error)
            lib.equal(worker.get("/livez").status, 200)
            clients.wait_more()  # when the clock has caught up
            counted(worker, 2)
            clock.set(-3600)
            lib.wait_until(lambda: worker.get("/v1/ids").status == 503, 5, "it refuses")
            counted(worker, 3)
            clock.set(0)
            clients.wait_more()
            counted(worker, 4)
            ids = clients.stop()
        load.no_duplicates(ids)
        lib.check(len(worker.logged("clock", "the wall clock was stepped")) >= 3, "and logged")


def test_the_same_millisecond_comes_again():
    # The sequence goes on, and does not start again.
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock = Clock(fleet)
        worker = fleet.worker(*TIMES, f"--clock-file={clock.path}")
        worker.wait_ready()
        ids = []
        for _ in range(50):
            ids += worker.ids(3)
            clock.set(-0.001)
            reply = worker.get("/v1/ids?count=3")
            if reply.status == 200:
                ids += map(int, reply.json()["ids"])
            clock.set(0)
        lib.check(all(a < b for a, b in zip(ids, ids[1:])), "strictly increasing")


def test_before_the_epoch_and_past_the_end():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--no-ceiling")
        clock = Clock(fleet)
        clock.set(load.EPOCH_MS / 1000 - time.time() - 3600)
        early = fleet.worker(*TIMES, f"--clock-file={clock.path}")
        for _ in range(5):
            reply = early.get("/v1/ids")
            lib.equal(reply.status, 503)
            lib.equal(early.get("/livez").status, 200)
        lib.equal(early.terminate(10), 0)
        clock.set(END_MS / 1000 - time.time() - 3)
        late = fleet.worker(*TIMES, f"--clock-file={clock.path}")
        late.wait_ready()
        ids = []

        def refused():
            reply = late.get("/v1/ids?count=100")
            if reply.status == 200:
                ids.extend(map(int, reply.json()["ids"]))
            return reply.status == 503
        lib.wait_until(refused, 20, "the end is past", 0)
        last_ms = max(load.parts(number)[0] for number in ids)
        lib.check(END_MS - 500 < last_ms <= END_MS, f"up to the end: {last_ms}")
        lib.check(all(0 < number < 2**63 for number in ids), "positive")
        load.no_duplicates(ids)
        clock.set(106 * 365 * 86400)
        lib.equal(late.get("/v1/ids").status, 503)
        lib.equal(late.get("/livez").status, 200)


def test_a_clock_that_was_slow_and_is_corrected():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock = Clock(fleet)
        clock.set(-5)
        worker = fleet.worker(*TIMES, f"--clock-file={clock.path}")
        worker.wait_ready()
        ids = worker.ids(10)
        clock.set(0)
        # Alone in its fleet it confirms 5 s by itself, once it has seen that it is alone.
        lib.wait_until(lambda: worker.logged("clock", "the step is confirmed"), 20, "it is confirmed")
        worker.wait_ready()
        before = time.time() * 1000
        number = lib.wait_until(lambda: worker.ids(1), 10, "it serves")[0]
        lib.check(abs(load.parts(number)[0] - before) < 1000, "dated by the corrected clock")
        load.no_duplicates(ids + [number])


if __name__ == "__main__":
    lib.main()
