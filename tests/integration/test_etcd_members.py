"""Three etcd members: one of them killed or stopped is no gap in service."""

import time

import etcd_cluster
import lib
import load

TIMES = ["--window=12s", "--lease-ttl=5s", "--keepalive-interval=1s", "--assign-wait=1s",
         "--etcd-timeout=1s"]


def limit_ms(worker):
    return int(worker.status()["machines"][0]["limit_ms"])


def without_a_gap(worker, *faults):
    """Under load, each fault() one after another: none is seen by clients, and within 10 s of each an
    extension succeeds."""
    with load.Load(worker.address, clients=2, count=5, pause=0.01) as clients:
        clients.wait_more()
        for fault in faults:
            fault()
            was, begun = limit_ms(worker), time.monotonic()
            lib.wait_until(lambda: limit_ms(worker) > was, 10, "an extension succeeds", promised=True)
            print(f"       extended after {time.monotonic() - begun:.1f} s")
        ids = clients.stop()
    lib.equal(clients.refusals, [], "refusals")
    lib.equal(clients.broken, 0, "broken connections")
    load.no_duplicates(ids)


def test_a_member_killed_or_stopped_is_no_gap():
    with etcd_cluster.ClusterFleet() as fleet:
        fleet.init("--new", "--quiet-time=1s")
        worker = fleet.worker(*TIMES)
        worker.wait_ready()
        touched = []

        def stop(which):
            touched.append(which())
            touched[-1].pause()

        def resume():
            touched[-1].resume()
            lib.wait_until(touched[-1].healthy, 10, "the member is back")

        def kill():
            touched.append(fleet.etcd.leader())
            touched[-1].kill()

        # The one in use may be any of them: stopping the leader and then a follower meets it often.
        without_a_gap(worker, lambda: stop(fleet.etcd.leader), resume,
                      lambda: stop(fleet.etcd.follower), resume, kill)
        # One of three stays down: workers come and go as ever.
        other = fleet.worker(*TIMES)
        other.wait_ready()
        lib.equal(len({number for daemon in (worker, other) for number in daemon.ids(50)}), 100)
        fleet.ctl("status")
        touched[-1].start()
        lib.wait_until(touched[-1].healthy, 10, "the member is back")


def test_each_member_in_turn_killed_and_started():
    with etcd_cluster.ClusterFleet() as fleet:
        fleet.init("--new", "--quiet-time=1s")
        worker = fleet.worker(*TIMES)
        worker.wait_ready()

        def restart(member):
            member.kill()
            time.sleep(1)
            member.start()
            lib.wait_until(member.healthy, 10, "the member is back")

        without_a_gap(worker, *[lambda member=member: restart(member)
                                for member in fleet.etcd.members])


def test_tls_with_a_private_ca_and_client_certificates():
    with etcd_cluster.ClusterFleet(tls=True) as fleet:
        fleet.init("--new", "--quiet-time=1s")
        worker = fleet.worker(*TIMES)
        worker.wait_ready()
        without_a_gap(worker, fleet.etcd.members[0].kill)
        fleet.ctl("status")
        done = fleet.ctl_raw("status", "--etcd-endpoints", fleet.etcd.url)  # no certificates
        lib.check(done.returncode != 0 and "certificate" in done.stderr, f"{done}")


def test_a_leader_moved_again_and_again_gives_no_machine_id_out_early():
    """B59: each new leader of etcd starts every TTL anew."""
    with etcd_cluster.ClusterFleet() as fleet:
        fleet.init("--new", "--machine-id-range=7", "--quiet-time=1s")
        short = ["--window=3s", "--lease-ttl=2s", "--keepalive-interval=500ms", "--assign-wait=1s"]
        dead = fleet.worker(*short)
        dead.wait_ready()
        ids = dead.ids(1000)
        dead.kill()
        lease, limit = fleet.get("own/0007").lease, int(fleet.get("hor/0007").value.split(":")[0])
        waiting = fleet.worker(*short)
        for _ in range(5):
            leader, follower = fleet.etcd.leader(), fleet.etcd.follower()
            follower_id = lib.request(follower.address, "POST", "/v3/maintenance/status",
                                      "{}").json()["header"]["member_id"]
            lib.request(leader.address, "POST", "/v3/maintenance/transfer-leadership",
                        f'{{"targetID":"{follower_id}"}}')
            lib.wait_until(follower.is_leader, 10, "it leads")
            key = fleet.get("own/0007")
            lib.equal(key and key.lease, lease, "the dead one's key, whose TTL starts anew")
            time.sleep(1.2)
        row = fleet.ctl_json("machines", "--state=HELD")[0]
        lib.equal((row["instance"], row["stuck"]), (dead.instance, True), "held, and stuck")
        waiting.wait_ready(20)
        others = waiting.ids(1000)
        lib.check(min(load.parts(number)[0] for number in others) > limit, "above the horizon")
        load.no_duplicates(ids + others)


if __name__ == "__main__":
    lib.main()
