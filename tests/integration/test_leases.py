"""Leases prove nothing: losing them costs neither IDs nor the machine ID."""

import time

import lib
import load

TIMES = ["--window=6s", "--assign-wait=1s"]


def resumes(worker):
    return next(int(line.split()[1]) for line in worker.get("/metrics").body.splitlines()
                if line.startswith("snowfleet_hold_resumes_total{"))


def test_a_lease_revoked_under_load():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker(*TIMES, "--lease-ttl=3s", "--keepalive-interval=1s")
        worker.wait_ready()
        machine_id = worker.status()["machines"][0]["machine_id"]
        with load.Load(worker.address, clients=4, count=3) as clients:
            for number in range(1, 6):
                own = lib.wait_until(lambda: fleet.get(f"own/{machine_id:04}"), 10, "it holds on")
                if number % 2:
                    fleet.etcd.revoke(own.lease)
                else:
                    fleet.etcd.delete(own.name)
                lib.wait_until(lambda: resumes(worker) == number, 10, "it resumed")
                again = fleet.get(f"own/{machine_id:04}").json()
                lib.equal(again["instance"], worker.instance, "the same machine ID again")
                clients.wait_more()
            ids = clients.stop()
        lib.equal((len(clients.refusals), clients.broken), (0, 0), "a gap in service")
        lib.check({load.parts(each)[1] for each in ids} == {machine_id}, "one machine ID")
        load.no_duplicates(ids)


def test_all_leases_of_20_workers_at_once():
    ttl = 5
    with lib.Fleet() as fleet:
        fleet.init("--new")
        workers = [fleet.worker(*TIMES, f"--lease-ttl={ttl}s", "--keepalive-interval=1s")
                   for _ in range(20)]
        for worker in workers:
            worker.wait_ready(60)

        def machines():
            return [worker.status()["machines"][0]["machine_id"] for worker in workers]

        def requests():
            return sum(int(worker.status()["etcd"]["requests_total"]) for worker in workers)

        before = machines()
        with load.Load([worker.address for worker in workers], clients=20, pause=0.02) as clients:
            clients.wait_more()
            asked, revision, began = requests(), fleet.etcd.revision(), time.monotonic()
            for lease in fleet.etcd.leases():
                try:
                    fleet.etcd.revoke(lease)
                except lib.Failure as gone:  # ended by itself, or by its owner
                    lib.check("404" in str(gone), str(gone))

            def all_back():
                owns = fleet.etcd.prefix(fleet.key("own/"))
                nodes = fleet.etcd.prefix(fleet.key("node/"))
                return len(owns) == 20 and len(nodes) == 20 and all(key.lease for key in owns)
            lib.wait_until(all_back, 2 * ttl, "all are back within twice the TTL", 0.1,
                           promised=True)
            took = time.monotonic() - began
            rate = (requests() - asked) / 20 / took
            clients.wait_more()
            ids = clients.stop()
        lib.equal(machines(), before, "the same machine IDs")
        lib.equal(len(clients.refusals), 0, "a gap in service")
        # At rest a worker sends some 2 requests a second with these times.
        lib.check(rate < 20, f"etcd is flooded: {rate:.1f} requests a second and worker")
        lib.check(fleet.etcd.revision() - revision < 20 * 15, "etcd is flooded with writes")
        load.no_duplicates(ids)
        print(f"       back after {took:.1f} s, {rate:.1f} requests a second and worker")


def test_a_node_record_that_somebody_deleted_or_changed_is_written_again():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--quiet-time=1s")
        worker = fleet.worker(*TIMES)
        worker.wait_ready()
        name = fleet.key(f"node/{worker.instance}")
        good = lib.wait_until(lambda: (lambda key: key if key and key.json()["held"] else None)(
            fleet.etcd.get(name)), 5, "it says what it holds")
        for spoil in (lambda: fleet.etcd.delete(name),
                      lambda: fleet.etcd.put(name, "{}"),  # and without its lease
                      lambda: fleet.etcd.put(name, "", good.lease)):
            spoil()
            again = lib.wait_until(lambda: (lambda key: key if key and key.value not in ("", "{}")
                                            else None)(fleet.etcd.get(name)), 3, "it is there again")
            lib.equal((again.json()["held"], again.lease), (good.json()["held"], good.lease))
        # So what rests on it is true of a live holder.
        fleet.etcd.delete(name)
        lib.wait_until(lambda: fleet.etcd.get(name), 3, "it is there again")
        lib.equal(len(fleet.ctl("next", "--count=5").split()), 5)
        machine_id = good.json()["held"][0]
        taken = fleet.ctl_json("reclaim", str(machine_id), "--force", "--yes")
        lib.check("not registered" not in str(taken) and "gave it up" in str(taken), taken)
        worker.wait_ready()
        lib.check(fleet.etcd.get(name), "it goes on")


if __name__ == "__main__":
    lib.main()
