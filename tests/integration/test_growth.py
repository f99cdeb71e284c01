"""A cluster that takes over from another generator, shares the machine IDs with others, grows, and
runs programs of two versions side by side."""

import datetime
import json
import re
import time

import lib
import load

TIMES = ["--window=3s", "--lease-ttl=2s", "--keepalive-interval=500ms", "--assign-wait=0s"]
NEWER = {"newer": {"a": [1, None, "x"]}, "zone": "b"}  # fields of a version to come


def now_ms():
    return int(time.time() * 1000)


def wait_all_serve(worker):
    """All of its machine IDs, not only the first."""
    def all_serve():
        machines = worker.status()["machines"]
        return machines and all(each["state"] == "SERVING" for each in machines)
    lib.wait_until(all_serve, 20, f"all machine IDs of {worker.name} serve")


def rfc3339(ms):
    moment = datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03}Z"


# ---- coming from another generator ----

def starts_above(spelt, floor_ms):
    """The other generator has the same layout and epoch, and may have issued all of floor_ms."""
    theirs = (floor_ms - load.EPOCH_MS) << 22 | 0x3fffff
    with lib.Fleet() as fleet:
        answer = fleet.ctl_json("init", "--new", f"--floor={spelt}")
        lib.equal(answer["floor_ms"], str(floor_ms))
        workers = [fleet.worker(*TIMES, "--machine-ids=2") for _ in range(2)]
        ids = []
        for worker in workers:
            wait_all_serve(worker)
            ids += worker.ids(5000) + worker.ids(5000)
        lib.check(min(ids) > theirs, f"{min(ids)} is not above {theirs}")
        lib.equal(load.no_duplicates(ids), 20000)


def test_all_ids_are_above_a_floor_in_the_past():
    floor_ms = now_ms() - 3
    starts_above(str(floor_ms), floor_ms)
    starts_above(rfc3339(floor_ms), floor_ms)


def test_a_floor_in_the_future_is_waited_for():
    # A generator whose clock was ahead.
    floor_ms = now_ms() + 12000
    with lib.Fleet() as fleet:
        out = fleet.init("--new", f"--floor={rfc3339(floor_ms)}")
        lib.check("the first IDs can be issued in" in out, out)
        worker = fleet.worker(*TIMES)
        lib.wait_until(lambda: re.search(r"floor|next in \d+ ms", worker.status()["reason"]), 10,
                       "the reason names the wait")
        reply = worker.get("/v1/ids")
        lib.equal((reply.status, reply.json()["error"]["code"]), (503, "UNAVAILABLE"))
        worker.wait_ready(20)
        lib.check(load.parts(worker.ids(1)[0])[0] > floor_ms, "it is above the floor")


def test_a_floor_that_makes_no_sense_is_refused():
    with lib.Fleet() as fleet:
        for floor in ("yesterday", "2024-02-30T00:00:00Z", "2023-12-31T23:59:59.999Z", "-1", "1e12", "",
                      "2093-09-06T15:47:35.551Z"):
            done = fleet.ctl_raw("init", "--new", f"--floor={floor}")
            lib.equal(done.returncode, 64, f"--floor={floor}")
            lib.check("--floor" in done.stderr and done.stderr.count("\n") == 1, done.stderr)
        lib.equal(fleet.etcd.prefix(fleet.key("")), [])


def test_the_epoch_is_the_clusters_and_stays():
    epoch_ms = 1288834974657  # Twitter's
    with lib.Fleet() as fleet:
        fleet.init("--new", f"--epoch={epoch_ms}")
        worker = fleet.worker(*TIMES, "--machine-id=37")
        worker.wait_ready()
        before_ms = now_ms()
        number = worker.ids(1)[0]
        lib.check(before_ms - 50 <= (number >> 22) + epoch_ms <= now_ms() + 50, f"the time of {number}")
        lib.equal(worker.status()["epoch_ms"], str(epoch_ms))
        time_of = rfc3339((number >> 22) + epoch_ms)
        for decoded in (worker.get(f"/v1/decode/{number}").json(), fleet.ctl_json("decode", number)):
            lib.equal((decoded["time"], decoded["machine_id"]), (time_of, number >> 12 & 1023))
        # What is said later does not move it.
        meta = fleet.get("meta").value
        fleet.ctl("init", "--new", "--epoch=2024-01-01T00:00:00Z", code=1)
        answer = fleet.ctl_json("init", "--if-needed", "--epoch=2024-01-01T00:00:00Z")
        lib.equal((answer["created"], answer["epoch_ms"]), (False, str(epoch_ms)))
        lib.equal(fleet.get("meta").value, meta)
        lib.check(worker.ids(1)[0] > number, "IDs go on")


# ---- sharing the machine IDs ----

def test_two_regions_with_ranges_of_their_own_never_share_a_machine_id():
    with lib.Fleet("eu") as eu, lib.Fleet("us") as us:
        eu.init("--new", "--machine-id-range=0-3")
        us.init("--new", "--machine-id-range=4-7")
        # The first of each wants one of the other's.
        workers = [eu.worker(*TIMES, "--machine-ids=2", "--machine-id=5"),
                   us.worker(*TIMES, "--machine-ids=2", "--machine-id=1")]
        for worker in workers:
            wait_all_serve(worker)
        workers += [eu.worker(*TIMES, "--machine-ids=2"), us.worker(*TIMES, "--machine-ids=2")]
        for worker in workers:
            wait_all_serve(worker)
        held = [{each["machine_id"] for each in worker.status()["machines"]} for worker in workers]
        lib.equal(held[0] | held[2], {0, 1, 2, 3}, "machine IDs of eu")
        lib.equal(held[1] | held[3], {4, 5, 6, 7}, "machine IDs of us")
        with load.Load([worker.address for worker in workers], clients=8, count=1000) as clients:
            clients.wait_more(100000)
            ids = clients.stop()
        load.no_duplicates(ids)
        # No region helps itself from what is free next door.
        one_too_many = eu.worker(*TIMES)
        lib.wait_until(lambda: "no machine ID free: 4 held" in one_too_many.status()["reason"], 10,
                       "the fifth waits")
        for fleet in (eu, us):
            names = [key.name.rsplit("/", 1)[1] for key in fleet.etcd.prefix(fleet.key("hor/"))]
            lib.equal(len(names), 4, "hor/")


# ---- growing and shrinking ----

def horizons(fleet):
    return {key.name.rsplit("/", 1)[1]: key.value for key in fleet.etcd.prefix(fleet.key("hor/"))}


def test_a_range_is_widened_while_workers_wait():
    with lib.Fleet() as fleet:
        floor_ms = now_ms()
        fleet.init("--new", "--machine-id-range=10-11", f"--floor={floor_ms}", "--quiet-time=1s")
        fleet.etcd.put(fleet.key("meta"), json.dumps(fleet.get("meta").json() | NEWER))
        first = fleet.worker(*TIMES, "--machine-ids=2")
        wait_all_serve(first)
        second = fleet.worker(*TIMES, "--machine-ids=2")
        lib.wait_until(lambda: "no machine ID free: 2 held" in second.status()["reason"], 10, "it waits")
        with load.Load(first.address, clients=2) as clients:
            clients.wait_more()
            answer = fleet.ctl_json("range-set", "8-13")
            lib.equal((answer["machine_id_range"], answer["added"], answer["created"]), ("8-13", 4, 4))
            wait_all_serve(second)
            clients.wait_more(200, 20)
            ids = clients.stop()
        lib.equal(clients.refusals, [], "refusals meanwhile")
        lib.equal(sorted(horizons(fleet)), [f"{number:04}" for number in range(8, 14)])
        lib.check(all(int(value[:20]) >= floor_ms for value in horizons(fleet).values()),
                  "the new ones start at the floor")
        ids += second.ids(10000)
        lib.check({load.parts(number)[1] for number in ids} <= set(range(8, 14)), "machine IDs")
        load.no_duplicates(ids)
        meta = fleet.get("meta").json()
        lib.equal({name: meta.get(name) for name in NEWER}, NEWER, "what a newer program wrote in meta")


def test_a_range_is_narrowed_but_not_under_a_holder():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-9", "--quiet-time=1s")
        worker = fleet.worker(*TIMES, "--machine-id=7")
        worker.wait_ready()
        meta, before = fleet.get("meta").value, horizons(fleet)
        done = fleet.ctl_raw("range-set", "0-4")
        lib.equal(done.returncode, 1, done.stdout + done.stderr)
        lib.check("held" in done.stderr and "7" in done.stderr and done.stderr.count("\n") == 1, done.stderr)
        lib.equal(fleet.get("meta").value, meta, "meta")
        lib.equal(worker.terminate(), 0)
        answer = fleet.ctl_json("range-set", "0-4")
        lib.equal((answer["machine_id_range"], answer["taken_out"], answer["created"]), ("0-4", 5, 0))
        # The keys of those taken out stay: their horizon is what makes a return safe.
        lib.equal(sorted(horizons(fleet)), sorted(before), "hor/")
        lib.check(horizons(fleet)["0007"] != before["0007"], "its holder has used it")
        worker.start()
        worker.wait_ready(20)
        lib.check(load.parts(worker.ids(1)[0])[1] <= 4, "it has taken another one")
        # And back: above what it issued before.
        stored = int(horizons(fleet)["0007"][:20])
        lib.equal(worker.terminate(), 0)
        lib.equal(fleet.ctl_json("range-set", "0-9")["created"], 0)
        worker.start()
        worker.wait_ready(20)
        lib.wait_until(lambda: load.parts(worker.ids(1)[0])[1] == 7, 10, "7 is its own again")
        lib.check(load.parts(worker.ids(1)[0])[0] > stored, "above the old horizon")


def test_a_machine_id_moves_from_one_region_to_the_other():
    with lib.Fleet("eu") as eu, lib.Fleet("us") as us:
        eu.init("--new", "--machine-id-range=0-1", "--quiet-time=1s")
        us.init("--new", "--machine-id-range=2-3", "--quiet-time=1s")
        ours = eu.worker(*TIMES, "--machine-id=1")
        ours.wait_ready()
        ids = ours.ids(10000)
        lib.equal({load.parts(number)[1] for number in ids}, {1})
        lib.equal(ours.terminate(), 0)
        until_ms = int(eu.ctl_json("range-set", "0-0")["taken_out_until_ms"])
        lib.check(max(load.parts(number)[0] for number in ids) <= until_ms, "it names the last of its IDs")
        lib.wait_until(lambda: now_ms() > until_ms, 10, "that time is over")
        us.ctl("range-set", "1-3")
        theirs = us.worker(*TIMES, "--machine-id=1")
        theirs.wait_ready()
        more = theirs.ids(10000)
        lib.equal({load.parts(number)[1] for number in more}, {1})
        lib.check(min(more) > max(ids), "the new region's IDs are above the old one's")


# ---- two versions side by side ----

def test_a_newer_meta_is_refused_with_a_message():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--quiet-time=1s")
        coordinator = fleet.coordinator()
        worker = fleet.worker(*TIMES)
        worker.wait_ready()
        good = fleet.get("meta").value
        newer = json.loads(good) | NEWER | {"format": 2}
        fleet.etcd.put(fleet.key("meta"), json.dumps(newer))
        words = "format 2 is newer than this program"
        # The worker serves what it was granted, then says why it stops.
        lib.wait_until(lambda: worker.status()["state"] == "STARVED", 10, "it starves")
        lib.check(words in worker.status()["reason"], worker.status()["reason"])
        newcomer = fleet.worker(*TIMES)
        lib.wait_until(lambda: words in newcomer.status()["reason"], 10, "a new one says why")
        lib.equal(newcomer.get("/readyz").status, 503)
        lib.wait_until(lambda: [entry for entry in coordinator.log() if words in entry.get("reason", "")],
                       10, "the coordinator says why")
        for command in (["status"], ["machines"], ["init", "--if-needed"]):
            done = fleet.ctl_raw(*command)
            lib.equal(done.returncode, 1, f"{command}: {done.stdout}{done.stderr}")
            lib.check(words in done.stderr and done.stderr.count("\n") == 1, done.stderr)
        lib.equal(fleet.get("meta").json(), newer)
        fleet.etcd.put(fleet.key("meta"), good)
        for each in (worker, newcomer):
            each.wait_ready(20)
        load.no_duplicates(worker.ids(1000) + newcomer.ids(1000))


def add_fields(fleet, rest):
    """As a newer program would have written the key: same lease, more fields."""
    key = fleet.get(rest)
    fleet.etcd.put(key.name, json.dumps(key.json() | NEWER), key.lease)


def test_unknown_fields_of_meta_node_and_assign_disturb_nobody_who_runs():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--quiet-time=1s")
        coordinator = fleet.coordinator()
        fleet.leader([coordinator])
        worker = fleet.worker("--window=3s", "--lease-ttl=2s", "--keepalive-interval=500ms")
        worker.wait_ready()
        with load.Load(worker.address, clients=2) as clients:
            clients.wait_more()
            add_fields(fleet, "meta")
            add_fields(fleet, f"node/{worker.instance}")
            time.sleep(4)  # more than a window: it has extended since
            clients.wait_more()
            ids = clients.stop()
        lib.equal(clients.refusals, [], "refusals")
        lib.equal(fleet.ctl_json("status")["slots"]["held"], 1)
        # Ordered to give its machine ID up it writes its record anew, and gets another from the leader,
        # who leaves in assign/ what it does not know.
        before = worker.status()["machines"][0]
        assign = fleet.get(f"assign/{worker.instance}")
        order = {"machine_id": before["machine_id"], "claim": before["claim"], "because": "rebalance"}
        fleet.etcd.put(assign.name, json.dumps(assign.json() | NEWER | {"give_up": [order]}), assign.lease)
        lib.wait_until(lambda: worker.status()["machines"][0]["claim"] != before["claim"]
                       and worker.ready(), 20, "it serves under another machine ID")
        lib.check(worker.status()["machines"][0]["machine_id"] != before["machine_id"], "another one")
        answer = fleet.get(assign.name.split("/", 3)[3]).json()
        lib.equal({name: answer.get(name) for name in NEWER}, NEWER, "assign/")
        lib.equal(len(coordinator.logged("assign", "assigned")), 2, "assignments")
        load.no_duplicates(ids + worker.ids(1000))
        lib.equal(coordinator.leads(), True)


def test_a_newer_worker_under_an_older_coordinator():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-1")
        coordinator = fleet.coordinator()
        fleet.leader([coordinator])
        newer = fleet.stub("prod/newer-0", missing=1)
        add_fields(fleet, f"node/{newer.instance}")
        machine_id = newer.wait_assignment()["machine_ids"][0]
        newer.hold(machine_id)
        add_fields(fleet, f"own/{machine_id:04}")
        add_fields(fleet, f"node/{newer.instance}")
        held = {each["machine_id"]: each for each in fleet.ctl_json("machines")}[machine_id]
        lib.equal((held["state"], held["identity"]), ("HELD", "prod/newer-0"))
        lib.equal([each["identity"] for each in fleet.ctl_json("status")["workers"]], ["prod/newer-0"])
        # Its slot is its own for an older worker too.
        older = fleet.worker("--window=3s", "--assign-wait=60s")
        older.wait_ready()
        lib.equal({load.parts(number)[1] for number in older.ids(10)}, {1 - machine_id})
        # What a newer program left in assign/ stays there when the older leader answers anew.
        add_fields(fleet, f"assign/{newer.instance}")
        newer.ask()
        answer = newer.wait_assignment()
        lib.check("no machine ID free: 2 held" in answer["refused"], answer)
        lib.equal({name: answer.get(name) for name in NEWER}, NEWER)


def test_an_older_worker_under_a_newer_leader():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--quiet-time=1s")
        newer = fleet.stub("newer-leader")  # for its address, where /livez is answered, and its lease
        fleet.etcd.put(fleet.key("leader"), json.dumps({
            "instance": newer.instance, "addresses": {"http": newer.address, "grpc": "", "quic": "x:1"},
        } | NEWER), newer.lease)
        older = fleet.coordinator()
        worker = fleet.worker("--window=3s", "--lease-ttl=2s", "--keepalive-interval=500ms",
                              "--assign-wait=60s")
        node = lib.wait_until(lambda: fleet.get(f"node/{worker.instance}"), 10, "it registers")
        attempt = lib.wait_until(lambda: fleet.get(f"node/{worker.instance}").json()["missing"] == 1
                                 and fleet.get(f"node/{worker.instance}").json()["attempt"], 10,
                                 "it asks for a machine ID")
        assign = {"attempt": attempt, "machine_ids": [77], "why": "nearest"} | NEWER
        fleet.etcd.put(fleet.key(f"assign/{worker.instance}"), json.dumps(assign), node.lease)
        worker.wait_ready()
        ids = worker.ids(100)
        lib.equal({load.parts(number)[1] for number in ids}, {77})
        # An order with fields that it does not know is still an order.
        claim = worker.status()["machines"][0]["claim"]
        assign["give_up"] = [{"machine_id": 77, "claim": claim, "because": "rebalance"}]
        fleet.etcd.put(fleet.key(f"assign/{worker.instance}"), json.dumps(assign), node.lease)
        lib.wait_until(lambda: fleet.get("own/0077") is None, 10, "it hands 77 back")
        # The older coordinator leaves the newer one alone, and takes over when it is gone.
        lib.equal(older.leads(), False)
        lib.equal(fleet.ctl_json("status")["leader"], newer.instance)
        newer.gone()
        fleet.leader([older])
        worker.wait_ready()
        load.no_duplicates(ids + worker.ids(100))


if __name__ == "__main__":
    lib.main()
