"""What a worker makes of keys in etcd that are missing, strange or changed under it."""

import json
import time

import lib
import load

FACTS = ("era", "earlier_eras", "epoch_ms", "machine_id_range", "reserved")
TIMES = ["--window=3s", "--lease-ttl=2s", "--keepalive-interval=500ms", "--assign-wait=0s"]


def rewrite(fleet, **changes):
    meta = fleet.get("meta").json()
    meta.update(changes, serial=str(int(meta["serial"]) + 1))
    fleet.etcd.put(fleet.key("meta"), json.dumps(meta))


def waits(worker, *words):
    """It is alive, serves nothing and says why."""
    def says():
        reason = worker.status()["reason"]
        return all(word in reason for word in words)
    lib.wait_until(says, 10, f"the reason names {words}; it is {worker.status()['reason']!r}")
    lib.equal(worker.get("/livez").status, 200)
    lib.equal(worker.get("/readyz").status, 503)
    reply = worker.get("/v1/ids")
    lib.equal((reply.status, reply.json()["error"]["code"]), (503, "UNAVAILABLE"))


def test_no_meta_means_no_service_and_a_clear_message():
    with lib.Fleet() as fleet:
        worker = fleet.worker(*TIMES)
        waits(worker, "meta")
        fleet.init("--new")
        worker.wait_ready()


def test_a_meta_that_cannot_be_read():
    for value, words in (("", ["meta"]), ("{", ["meta"]), ("[]", ["meta"]), ('{"format":1}', ["serial"]),
                         ("[" * 100000, ["meta"]), ("\0\0", ["meta"])):
        with lib.Fleet() as fleet:
            fleet.init("--new")
            good = fleet.get("meta").value
            fleet.etcd.put(fleet.key("meta"), value)
            worker = fleet.worker(*TIMES)
            waits(worker, *words)
            fleet.etcd.put(fleet.key("meta"), good)
            worker.wait_ready()


def test_single_fields_of_meta():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        good = fleet.get("meta").value
        worker = fleet.worker(*TIMES)
        worker.wait_ready()
        worker.kill()
        for changes, words in (({"format": 2}, ["meta: format 2 is newer"]),
                               ({"epoch_ms": 1704067200000}, ["epoch_ms"]),
                               ({"machine_id_range": "0-1024"}, ["machine_id_range"]),
                               ({"mode": "SOMETIMES"}, ["mode"]),
                               ({"era": "7"}, ["era"]),
                               ({"max_window_ms": -1}, ["max_window_ms"]),
                               ({"max_window_ms": 2000}, ["window", "3000", "2000"])):
            rewrite(fleet, **changes)
            worker.start()
            waits(worker, *words)
            lib.check("missing" not in worker.status()["reason"], worker.status()["reason"])
            lib.equal(worker.logged("hold", "etcd does not answer as asked"), [])
            fleet.etcd.put(fleet.key("meta"), good)
            worker.wait_ready(20)
            worker.kill()


def test_horizons_that_cannot_be_read_are_never_claimed():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-5")
        for machine_id, value in enumerate(("", "0", "x" * 70, "-0000000000000000001:" + "0" * 32 + ":1",
                                            "00000000000000000001:" + "G" * 32 + ":1")):
            fleet.etcd.put(fleet.key(f"hor/{machine_id:04}"), value)
        workers = [fleet.worker(*TIMES) for _ in range(2)]
        lib.wait_until(lambda: [each.ready() for each in workers].count(True) == 1, 10, "one serves")
        one = next(each for each in workers if each.ready())
        other = next(each for each in workers if each is not one)
        lib.equal(load.parts(one.ids()[0])[1], 5)
        waits(other, "no machine ID free", "1 held")
        fleet.etcd.delete(fleet.key("hor/0000"))
        waits(other, "no machine ID free")


def test_a_horizon_ahead_is_passed_over_and_never_reset():
    now_ms = int(time.time() * 1000)
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-1", "--quiet-time=1s")
        ahead = f"{now_ms + 3600000:020}:{'a' * 32}:7"
        fleet.etcd.put(fleet.key("hor/0000"), ahead)
        workers = [fleet.worker(*TIMES) for _ in range(2)]
        lib.wait_until(lambda: [each.ready() for each in workers].count(True) == 1, 10, "one serves")
        lib.equal(fleet.get("hor/0000").value, ahead)
        state = {each["machine_id"]: each["state"] for each in fleet.ctl_json("machines")}
        lib.equal(state[0], "AHEAD")


def test_an_own_key_that_cannot_be_read_holds_its_slot():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-0")
        fleet.etcd.put(fleet.key("own/0000"), "\xff{")
        worker = fleet.worker(*TIMES)
        waits(worker, "no machine ID free", "1 held")
        fleet.etcd.delete(fleet.key("own/0000"))
        worker.wait_ready()


def test_assignments_that_cannot_be_read_are_ignored():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker("--assign-wait=2s")
        for value in ("", "{", '{"attempt":"1","machine_ids":[1024]}', '{"attempt":1}',
                      '{"attempt":"99","machine_ids":[3]}'):
            fleet.etcd.put(fleet.key(f"assign/{worker.instance}"), value)
        worker.wait_ready()
        lib.check(worker.alive(), "it lives")


def test_frozen_serves_to_the_limit_and_thaws_by_itself():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--quiet-time=1s")
        worker = fleet.worker(*TIMES)
        worker.wait_ready()
        with load.Load(worker.address, clients=2) as clients:
            clients.wait_more()
            rewrite(fleet, mode="FROZEN", reason="for the test")
            stored = int(lib.wait_until(
                lambda: fleet.get(f"hor/{load.parts(clients.ids[0])[1]:04}"), 5, "hor").value[:20])
            lib.wait_until(lambda: worker.status()["state"] == "STARVED", 10, "it starves")
            lib.check("frozen" in worker.status()["reason"], worker.status()["reason"])
            newcomer = fleet.worker(*TIMES)
            waits(newcomer, "frozen", "for the test")
            last_ms = max(load.parts(number)[0] for number in clients.ids)
            lib.check(last_ms <= stored + 3000, "no extension while frozen")
            rewrite(fleet, mode="OPEN", reason="")
            worker.wait_ready()
            newcomer.wait_ready()
            clients.wait_more()
            load.no_duplicates(clients.stop() + newcomer.ids(100))


def test_meta_rewritten_under_load_does_not_disturb():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker(*TIMES)
        worker.wait_ready()
        with load.Load(worker.address, clients=2) as clients:
            for _ in range(20):
                rewrite(fleet, something_new={"a": 1})
                clients.wait_more()
            ids = clients.stop()
        lib.equal(len(clients.refusals), 0, "refusals")
        load.no_duplicates(ids)


def test_meta_or_horizon_gone_serves_to_the_limit():
    for name in ("meta", "hor"):
        with lib.Fleet() as fleet:
            fleet.init("--new", "--machine-id-range=0-0")
            worker = fleet.worker(*TIMES)
            worker.wait_ready()
            key = fleet.key("meta" if name == "meta" else "hor/0000")
            value = fleet.etcd.get(key).value
            known = [worker.status()[field] for field in FACTS]
            lib.check(all(fact not in (None, "") for fact in known), f"it knows meta: {known}")
            fleet.etcd.delete(key)
            lib.wait_until(lambda: worker.status()["state"] == "STARVED", 10, "it starves")
            lib.equal([worker.status()[field] for field in FACTS], known, "what recovery asks for")
            lib.check("missing" in worker.status()["reason"], worker.status()["reason"])
            lib.equal(fleet.etcd.get(key), None)
            fleet.etcd.put(key, value)
            worker.wait_ready()


def test_a_ceiling_that_is_gone_or_cannot_be_read_is_no_licence():
    for value in (None, "abc", "99999999999999999999999", ""):
        with lib.Fleet() as fleet:
            fleet.init("--new", "--quiet-time=1s")
            worker = fleet.worker(*TIMES)
            worker.wait_ready()
            good = fleet.get("ceil").value
            if value is None:
                fleet.etcd.delete(fleet.key("ceil"))
            else:
                fleet.etcd.put(fleet.key("ceil"), value)
            lib.wait_until(lambda: worker.status()["state"] == "STARVED", 10, "it starves")
            newcomer = fleet.worker(*TIMES)
            waits(newcomer, "ceil")
            lib.check(len(newcomer.logged("hold", "moved")) < 10, "it does not try again and again")
            fleet.etcd.put(fleet.key("ceil"), good)
            worker.wait_ready()
            newcomer.wait_ready()


def test_another_era_halts_and_its_successor_goes_on():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--quiet-time=1s")
        worker = fleet.worker(*TIMES)
        worker.wait_ready()
        ids = worker.ids(100)
        era = fleet.get("meta").json()["era"]
        rewrite(fleet, era="f" * 32)
        lib.wait_until(lambda: worker.status()["state"] == "HALTED", 5, "it halts")
        lib.equal(worker.get("/livez").status, 200)
        lib.equal(worker.get("/v1/ids").status, 503)
        floor_ms = int(time.time() * 1000) + 2000
        rewrite(fleet, era="e" * 32, earlier_eras=[era], floor_ms=str(floor_ms))
        worker.wait_ready()
        lib.check(all(load.parts(number)[0] > floor_ms for number in worker.ids(10)), "above the floor")
        load.no_duplicates(ids + worker.ids(100))


if __name__ == "__main__":
    lib.main()
