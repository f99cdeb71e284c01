"""Machine IDs come back by themselves, however often a worker dies; and a worker that is told to
stop hands its own back at once."""

import time

import lib
import load

TIMES = ["--window=1s", "--lease-ttl=2s", "--keepalive-interval=500ms", "--assign-wait=1s"]


def test_30_kills_in_a_range_of_four():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=100-103", "--quiet-time=1s")
        worker = fleet.worker(*TIMES)
        ids, keys, slowest = [], [], 0.0
        for _ in range(10 if lib.SANITIZED else 30):
            began = time.monotonic()
            worker.wait_ready(30)
            slowest = max(slowest, time.monotonic() - began)
            ids += worker.ids(500)
            keys.append(len(fleet.etcd.prefix(fleet.key(""))))
            worker.kill()
            worker.start()
        worker.wait_ready(30)
        ids += worker.ids(500)
        lib.check({load.parts(number)[1] for number in ids} <= {100, 101, 102, 103}, "in range")
        load.no_duplicates(ids)
        lib.check(max(keys) <= 4 + 2 + 3 * 5, f"etcd's keys grow: {keys}")
        print(f"       at most {max(keys)} keys, back within {slowest:.1f} s")


def stops_in_time(fleet, worker, limit=4.0):
    began = time.monotonic()
    worker.signal(15)
    lib.equal(worker.wait(limit / lib.SLOW + 1), 0, "exit code")
    took = time.monotonic() - began
    lib.check(took < limit, f"it took {took:.1f} s to stop")
    return took


def test_sigterm_under_load_hands_the_machine_id_back_at_once():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-0", "--quiet-time=1s")
        worker = fleet.worker("--assign-wait=1s")  # a window of 60 s
        worker.wait_ready()
        with load.Load(worker.address, clients=8, count=1000) as clients:
            clients.wait_more(20000)
            took = stops_in_time(fleet, worker)
            ids = clients.stop()
        lib.equal(fleet.etcd.prefix(fleet.key("own/")), [], "own/")
        lib.equal(fleet.etcd.prefix(fleet.key("node/")), [], "node/")
        lib.equal(fleet.etcd.leases(), [], "leases")
        # Once the machine ID is handed back, and until the exit, the answer is 503.
        lib.check(all(status == 503 and "drain" in error for _, status, error in clients.refusals),
                  f"refusals while it drained: {clients.refusals[:3]}")
        last_ms = max(load.parts(number)[0] for number in ids)
        stored = int(fleet.get("hor/0000").value.split(":")[0])
        lib.check(last_ms <= stored <= last_ms + 50,
                  f"the horizon {stored} is the last timestamp {last_ms}")
        again = fleet.worker("--assign-wait=1s")
        again.wait_ready(20)  # and not after 60 s
        ids += again.ids(10000)
        load.no_duplicates(ids)
        print(f"       stopped in {took:.2f} s")


def test_sigterm_with_etcd_dead_or_stopped():
    for stop in ("kill", "pause"):
        with lib.Fleet() as fleet:
            fleet.init("--new")
            worker = fleet.worker("--assign-wait=1s")
            worker.wait_ready()
            getattr(fleet.etcd, stop)()
            stops_in_time(fleet, worker, 4.2)


def test_sigterm_while_etcd_was_never_there():
    with lib.Fleet() as fleet:
        fleet.etcd.pause()
        worker = fleet.worker()
        lib.equal(worker.get("/livez").status, 200)
        stops_in_time(fleet, worker, 4.2)


def test_not_ready_as_soon_as_it_drains():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker("--assign-wait=1s")
        worker.wait_ready()
        fleet.etcd.pause()  # so that the drain takes its time
        worker.signal(15)
        lib.wait_until(lambda: worker.logged("worker", "draining"), 5, "it drains", 0.001)
        reply = worker.get("/readyz")
        lib.equal(reply.status, 503, "/readyz while draining")
        lib.check("DRAINING" in reply.body, reply.body)
        lib.equal(worker.get("/livez").status, 200, "/livez while draining")
        lib.equal(worker.get("/v1/status").json()["state"], "DRAINING")
        lib.equal(worker.wait(5), 0)


def test_twins_of_one_name_get_different_machine_ids():
    # What Kubernetes gives when a pod is deleted by force or its node is lost.
    with lib.Fleet() as fleet:
        fleet.init("--new")
        coordinator = fleet.coordinator()
        twins = [fleet.worker("--identity=prod/ids-0") for _ in range(2)]
        for twin in twins:
            twin.wait_ready()
        ids = [twin.ids(5000) for twin in twins]
        lib.equal(len({load.parts(each)[1] for batch in ids for each in batch}), 2)
        load.no_duplicates(ids[0] + ids[1])
        lib.equal(coordinator.terminate(10), 0)


if __name__ == "__main__":
    lib.main()
