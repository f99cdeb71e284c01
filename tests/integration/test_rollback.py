"""etcd restored from a backup under everything that lives, against all advice: the leader notices before
it assigns anything, freezes the cluster and alarms; recover is the way on."""

import time

import lib
import load
from test_recover import INIT, TIMES, Rig, recover

COORDINATOR = ["--lease-ttl=2s", "--ceiling-interval=1s"]
ALARM = "etcd's history went back: nothing is assigned any more"


def alarmed(coordinator):
    return coordinator.logged("rollback", ALARM)


def metric(coordinator, name):
    lines = coordinator.get("/metrics").body.splitlines()
    return [line.split()[1] for line in lines if line.startswith(f"snowfleet_{name} ")]


def frozen(fleet):
    meta = fleet.get("meta").json()
    return meta if meta["mode"] == "FROZEN" and meta["reason"].startswith("rollback:") else None


def assigned(fleet):
    """Who has been given a machine ID."""
    return [key.name for key in fleet.etcd.prefix(fleet.key("assign/"))
            if key.json().get("machine_ids")]


def later_revisions(fleet, n=200):
    """That the leader has seen: it looks every half second."""
    for i in range(n):
        fleet.etcd.put("/other/key", str(i))
    time.sleep(lib.SLOW)


def test_a_naked_restore_freezes_before_anything_is_assigned():
    with lib.Fleet() as fleet:
        fleet.init(*INIT)
        coordinator = fleet.coordinator(*COORDINATOR)
        fleet.leader([coordinator])
        workers = [fleet.worker(*TIMES) for _ in range(2)]
        for worker in workers:
            worker.wait_ready()
        rig = Rig(fleet)
        with load.Load([w.address for w in workers], clients=2, pause=0.002) as clients:
            clients.wait_more()
            rig.back_up()
            later_revisions(fleet)
            lib.equal(metric(coordinator, "rollback"), ["0"])
            rig.restore(rig.old_port)
            before = assigned(fleet)
            late = fleet.worker(*(arg for arg in TIMES if "assign-wait" not in arg),
                                "--assign-wait=2m")
            meta = lib.wait_until(lambda: frozen(fleet), 20, "the leader freezes")
            lib.check("came after" in meta["reason"], meta["reason"])
            lib.never(lambda: set(assigned(fleet)) - set(before), 3, "something is assigned", 0.2)
            # The alarm: once, and for as long as it lasts.
            lib.equal(len(alarmed(coordinator)), 1)
            lib.equal(metric(coordinator, "rollback"), ["1"])
            lib.check("history went back" in coordinator.status()["self"]["trouble"], "status")
            lib.equal(coordinator.get("/readyz").status, 503)
            thawed = fleet.ctl_raw("thaw")
            lib.check(thawed.returncode == 1 and "recover" in thawed.stderr, thawed.stderr)
            lib.check(frozen(fleet), "it stays frozen")
            floor_ms = int(recover(rig, "--yes", "--force")["floor_ms"])
            for worker in [*workers, late]:
                lib.wait_until(lambda worker=worker: load.parts(worker.ids(1)[0])[0] > floor_ms, 30,
                               f"{worker.name} issues above the floor")
            lib.check(f"assign/{late.instance}" in " ".join(assigned(fleet)), "assigned by the leader")
            lib.equal(metric(coordinator, "rollback"), ["0"])
            lib.equal(coordinator.get("/readyz").status, 200)
            clients.wait_more()
            ids = clients.stop() + late.ids(100)
        load.no_duplicates(ids)


def test_a_lost_meta_is_an_alarm_and_one_that_comes_back_is_frozen():
    with lib.Fleet() as fleet:
        fleet.init(*INIT)
        coordinator = fleet.coordinator(*COORDINATOR)
        fleet.leader([coordinator])
        good = fleet.get("meta").value
        lib.wait_until(lambda: coordinator.get("/readyz").status == 200, 10, "it is ready")
        fleet.etcd.delete(fleet.key("meta"))
        lib.wait_until(lambda: alarmed(coordinator), 10, "it alarms")
        fleet.etcd.put(fleet.key("meta"), good)
        lib.wait_until(lambda: frozen(fleet), 10, "what comes back is frozen")


def test_a_foreign_era_is_frozen():
    with lib.Fleet() as fleet:
        fleet.init(*INIT)
        coordinator = fleet.coordinator(*COORDINATOR)
        fleet.leader([coordinator])
        lib.wait_until(lambda: coordinator.get("/readyz").status == 200, 10, "it is ready")
        meta = fleet.get("meta")
        fleet.etcd.put(fleet.key("meta"), meta.value.replace(meta.json()["era"], "e" * 32))
        lib.check("e" * 32 in lib.wait_until(lambda: frozen(fleet), 10, "frozen")["reason"], "named")


if __name__ == "__main__":
    lib.main()
