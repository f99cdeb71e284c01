"""Taking machine IDs back, by hand and by the leader: from a live, a paused, a dead and a stuck
holder.  Whatever is taken from whom, no ID comes twice, and nobody starts before the horizon."""

import json
import time

import lib
import load

# A paused holder keeps its lease for the whole test; its window is short.
HOLDER = ["--window=4s", "--lease-ttl=60s", "--keepalive-interval=5s", "--assign-wait=0s"]
LEADER = ["--lease-ttl=2s", "--ceiling-interval=500ms", "--probe-interval=1s"]


def now_ms():
    return int(time.time() * 1000)


def everything(fleet):
    return [(key.name, key.value, key.lease, key.mod_revision)
            for key in fleet.etcd.prefix(fleet.key(""))]


def horizon(fleet, machine_id):
    return int(fleet.get(f"hor/{machine_id:04}").value.split(":")[0])


def own(fleet, machine_id):
    return fleet.get(f"own/{machine_id:04}")


def held_by(worker):
    return worker.status()["machines"][0]["machine_id"]


def verdict(fleet, machine_id, *args):
    return fleet.ctl_json("reclaim", machine_id, *args)[0]


def without_lease(fleet, machine_id):
    """What etcd 3.4 can do by itself: the key stays although its holder's lease is over."""
    key = own(fleet, machine_id)
    fleet.etcd.put(key.name, key.value)


def metric(coordinator, name):
    for line in coordinator.get("/metrics").body.splitlines():
        if line.startswith(f"snowfleet_{name} "):
            return int(line.split()[1])
    return None


def test_a_dry_run_changes_nothing_and_each_state_reads_differently():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-7", "--reserved=7", "--quiet-time=5s")
        worker = fleet.worker("--assign-wait=0s", "--machine-id=0")
        worker.wait_ready()
        stub, gone = fleet.stub("stub"), fleet.stub("gone", serve=False)
        gone.hold(1, now_ms() - 20_000)
        stub.hold(2, now_ms() - 20_000)
        stub.hold(3, now_ms() + 30_000)
        stub.let_go(3)
        stub.hold(4, now_ms() + 3_600_000)
        stub.let_go(4)
        before = everything(fleet)
        rows = {row["machine_id"]: row for row in fleet.ctl_json("reclaim", *range(8))}
        lib.equal([rows[n]["verdict"] for n in range(8)],
                  ["HELD", "STUCK", "HELD", "COOLING", "AHEAD", "FREE", "FREE", "RESERVED"])
        lib.equal([rows[n]["action"] for n in range(5)],
                  ["needs --force", "would take back", "needs --force", "nothing", "nothing"])
        for number, fragment in enumerate(["which serves it", "stuck: its horizon passed",
                                           "whose answer is not a worker's", "cooling: nobody",
                                           "ahead: its horizon", "free: there is nothing"]):
            lib.check(fragment in rows[number]["message"], rows[number])
        lib.check(35_000 <= rows[3]["usable_in_ms"] + 2000 <= 37_001, rows[3])
        # Without IDs: what is held, or was not long ago.
        lib.equal([row["machine_id"] for row in fleet.ctl_json("reclaim")], [0, 1, 2, 3, 4])
        text = fleet.ctl("reclaim", 0, "--force")
        lib.check("would force" in text and "nothing was changed" in text, text)
        lib.equal(everything(fleet), before, "a dry run")
        lib.equal([row["stuck"] for row in fleet.ctl_json("machines", "--state=held")],
                  [False, True, True])

        # --yes without names takes what is stuck, and only that.
        rows = fleet.ctl_json("reclaim", "--yes")
        lib.equal([row["action"] for row in rows],
                  ["needs --force", "taken back", "needs --force", "nothing", "nothing"])
        lib.equal(own(fleet, 1), None)
        after = {row[0]: row for row in everything(fleet)}
        lib.equal([row for row in before if after.get(row[0]) != row],
                  [row for row in before if row[0].endswith("own/0001")], "only that changed")
        for machine_id, fragment in [(0, "which serves it"), (4, "ahead"), (7, "reserved")]:
            done = fleet.ctl_raw("reclaim", machine_id, "--yes")
            lib.equal(done.returncode, 1, done.stdout)
            lib.check(fragment in done.stderr, done.stderr)
        for machine_id in (3, 5):  # they come free by themselves, or are free
            fleet.ctl("reclaim", machine_id, "--yes")


def test_a_live_holder_gives_up_and_takes_another():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker(*HOLDER)
        worker.wait_ready()
        with load.Load(worker.address, clients=3, count=20) as clients:
            for _ in range(3):
                machine_id = held_by(worker)
                clients.wait_more()
                done = fleet.ctl_raw("reclaim", machine_id, "--yes")
                lib.equal(done.returncode, 1)
                lib.check("--force" in done.stderr, done.stderr)
                lib.equal(own(fleet, machine_id).json()["instance"], worker.instance)
                done = fleet.ctl_raw("reclaim", machine_id, "--yes", "--force", "--output=json")
                lib.equal(done.returncode, 0, done.stderr)
                lib.check("window has passed" in done.stderr, done.stderr)
                lib.equal(json.loads(done.stdout)[0]["action"], "handed back")
                order = fleet.get(f"assign/{worker.instance}")
                lib.equal(order.json()["give_up"][-1]["machine_id"], machine_id)
                lib.equal(order.lease, fleet.get(f"node/{worker.instance}").lease)
                lib.wait_until(lambda last=machine_id: worker.ready() and held_by(worker) != last,
                               10, "it holds another")
            clients.wait_more()
            ids = clients.stop()
        lib.check(len({load.parts(each)[1] for each in ids}) == 4, "four machine IDs were used")
        load.no_duplicates(ids)


def test_a_paused_holder_is_forced_out_and_its_window_has_to_pass():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=5", "--quiet-time=1h")
        paused = fleet.worker("--window=12s", *HOLDER[1:])
        paused.wait_ready()
        first = load.Load(paused.address, clients=2, count=50)
        first.wait_more()
        paused.pause()
        done = fleet.ctl_raw("reclaim", 5, "--yes", "--output=json")
        lib.equal(done.returncode, 1, done.stderr)
        row = json.loads(done.stdout)[0]
        lib.equal((row["verdict"], row["action"]), ("HELD", "refused"), row)
        lib.check("does not answer" in row["message"], row)
        row = verdict(fleet, 5, "--yes", "--force")
        lib.equal((row["verdict"], row["action"]), ("HELD", "taken back"), row)
        limit = horizon(fleet, 5)
        lib.check(0 < row["usable_in_ms"] <= limit - now_ms() + 5000, row)
        lib.equal(own(fleet, 5), None)
        # Whoever comes next starts above its horizon, although the quiet time is an hour: there is
        # no other machine ID.
        other = fleet.worker(*HOLDER, "--claim-ahead=0s")
        second = load.Load(other.address, clients=2, count=50)
        lib.wait_until(lambda: own(fleet, 5), 20, "the machine ID is claimed")
        lib.check(now_ms() >= limit, "it was claimed before its horizon had passed")
        paused.resume()
        second.wait_more(500)
        ids, others = first.stop(), second.stop()
        lib.check(max(load.parts(each)[0] for each in ids) <= limit, "within its own window")
        lib.check(min(load.parts(each)[0] for each in others) > limit, "above the horizon")
        load.no_duplicates(ids + others)
        lib.equal(own(fleet, 5).json()["instance"], other.instance)


def test_a_dead_holder_needs_nobody():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-1", "--quiet-time=1s")
        worker = fleet.worker("--window=3s", "--lease-ttl=2s", "--keepalive-interval=1s",
                              "--assign-wait=0s", "--machine-id=0")
        worker.wait_ready()
        lib.equal(verdict(fleet, 0)["verdict"], "HELD")
        worker.kill()
        seen = ["HELD"]

        def free():
            state = verdict(fleet, 0)["verdict"]
            if state != seen[-1]:
                seen.append(state)
            return state == "FREE"
        lib.wait_until(free, 15, "it comes free by itself")
        lib.check(seen in (["HELD", "COOLING", "FREE"], ["HELD", "FREE"]), seen)
        lib.check(now_ms() > horizon(fleet, 0) + 1000, "not before the quiet time")


def test_a_stuck_holder_is_taken_back_by_hand():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-1", "--quiet-time=2s")
        worker = fleet.worker(*HOLDER, "--machine-id=0")
        worker.wait_ready()
        worker.kill()
        without_lease(fleet, 0)
        before = horizon(fleet, 0)
        row = verdict(fleet, 0)
        lib.equal(row["verdict"], "HELD", row)
        lib.check("stuck in" in row["message"], row)
        lib.equal(fleet.ctl_raw("reclaim", 0, "--yes").returncode, 1, "not yet")
        lib.wait_until(lambda: verdict(fleet, 0)["verdict"] == "STUCK", 15, "it is stuck")
        lib.check(now_ms() >= before + 2000, "not before the quiet time")
        lib.equal(verdict(fleet, 0, "--yes")["action"], "taken back")
        lib.equal((own(fleet, 0), horizon(fleet, 0)), (None, before), "the horizon stays")
        lib.equal(verdict(fleet, 0)["verdict"], "FREE")


def test_a_holder_that_went_on_is_not_taken_for_stuck():
    """Its horizon is compared: between the look and the deed it may have come back."""
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-1", "--quiet-time=0s")
        stub = fleet.stub("stub", serve=False)
        for _ in range(5):
            stub.hold(0, now_ms() - 5000)
            lib.in_parallel([lambda: stub.hold(0), lambda: fleet.ctl("reclaim", "--yes")])
            if own(fleet, 0) is None:  # it came first
                continue
            lib.equal(verdict(fleet, 0)["verdict"], "HELD")


def test_the_leader_evicts_the_stuck_one_and_leaves_the_others():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-9", "--quiet-time=2s")
        coordinator = fleet.coordinator(*LEADER)
        fleet.leader([coordinator])
        live = fleet.worker(*HOLDER, "--machine-id=0")
        paused = fleet.worker(*HOLDER, "--machine-id=1")
        dead = fleet.worker(*HOLDER, "--machine-id=2")
        for worker in (live, paused, dead):
            worker.wait_ready()
        unclear = fleet.stub("unclear")
        unclear.hold(3, now_ms() - 10_000)  # something answers there, but no worker
        moved = fleet.stub("moved")
        moved.address = live.address  # a worker answers, which does not hold it
        moved.hold(4, now_ms() - 10_000)
        dead.kill()
        without_lease(fleet, 2)
        before = {n: horizon(fleet, n) for n in (2, 4)}
        for machine_id in (2, 4):
            lib.wait_until(lambda n=machine_id: own(fleet, n) is None, 20, f"{machine_id} evicted")
        lib.equal({n: horizon(fleet, n) for n in (2, 4)}, before, "the horizon stays")
        lib.check(now_ms() > before[2], "not before its horizon has passed")
        # The paused one has the rest of its window and the quiet time; then it is stuck too.
        paused.pause()
        lib.wait_until(lambda: own(fleet, 1) is None, 20, "the paused one is evicted")
        paused.resume()
        lib.wait_until(paused.ready, 20, "it is back")
        lib.equal(own(fleet, 0).json()["instance"], live.instance)
        lib.check(own(fleet, 3) is not None, "what is not clear is left to an operator")
        message = "took a machine ID back from a stuck holder"
        lib.equal(sorted(entry["machine_id"] for entry in coordinator.logged("evict", message)),
                  [1, 2, 4])
        lib.equal(metric(coordinator, "evictions_total"), 3)
        lib.equal(fleet.ctl_raw("reclaim", 3, "--yes").returncode, 1)
        lib.equal(verdict(fleet, 3, "--yes", "--force")["action"], "taken back")


def test_under_pressure_there_is_no_quiet_time():
    """B59 in small: the lease never ends, as with an etcd whose leader changes again and again."""
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=7", "--quiet-time=1h")
        coordinator = fleet.coordinator(*LEADER)
        fleet.leader([coordinator])
        dead = fleet.worker(*HOLDER)
        dead.wait_ready()
        with load.Load(dead.address, count=10) as clients:
            clients.wait_more()
            dead.kill()
            ids = clients.stop()
        lease, limit = own(fleet, 7).lease, horizon(fleet, 7)
        dead_instance = own(fleet, 7).json()["instance"]
        waiting = fleet.worker(*HOLDER[:-1], "--assign-wait=60s")

        def taken():
            if lease in fleet.etcd.leases():
                fleet.etcd.keepalive(lease)
            key = own(fleet, 7)
            if now_ms() <= limit:
                lib.equal(key.lease, lease, "it was given out early")
            if key and key.lease == lease and now_ms() > limit:
                stuck.extend(row["stuck"] for row in fleet.ctl_json("machines", "--state=HELD")
                             if row["instance"] == dead_instance)
            return key and key.json()["instance"] == waiting.instance
        stuck = []
        lib.wait_until(taken, 25, "the one that waits gets it")
        lib.check(all(stuck), "shown as held and stuck")
        waiting.wait_ready()
        others = waiting.ids(100)
        lib.check(min(load.parts(each)[0] for each in others) > limit, "above the horizon")
        load.no_duplicates(ids + others)


def test_a_frozen_cluster_and_one_without_leader_evict_nobody():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-9", "--quiet-time=0s")
        fleet.ctl("freeze", "--reason=test")
        stub = fleet.stub("gone", serve=False)
        stub.hold(3, now_ms() - 10_000)
        coordinator = fleet.coordinator(*LEADER)
        fleet.leader([coordinator])
        lib.never(lambda: own(fleet, 3) is None, 3, "an eviction in a frozen cluster")
        fleet.ctl("thaw")
        lib.wait_until(lambda: own(fleet, 3) is None, 10, "an eviction once it is open")


if __name__ == "__main__":
    lib.main()
