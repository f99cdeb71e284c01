"""etcd out of space (its NOSPACE alarm): workers serve to their limit and say why, and all go on
once an operator has made room, without a restart."""

import os

import lib
import load

os.environ["ETCD_QUOTA_BACKEND_BYTES"] = "2097152"  # etcd takes its flags from here too

TIMES = ["--window=4s", "--lease-ttl=2s", "--keepalive-interval=500ms", "--assign-wait=1s"]
REASON = "etcd out of space"


class SmallEtcd(lib.Etcd):
    """Of 2 MiB."""

    def fill(self):
        for number in range(100):
            try:
                self.put(f"/junk/{number}", "x" * 100000)
            except lib.Failure as full:
                lib.check("database space exceeded" in str(full), str(full))
                return
        raise lib.Failure("it does not fill up")

    def make_room(self):
        """What an operator does: delete, compact, defragment, disarm."""
        self.delete_prefix("/junk/")
        self.compact()
        self.call("/v3/maintenance/defragment", {}, timeout=20)
        alarms = self.call("/v3/maintenance/alarm", {"action": "GET"}).get("alarms", [])
        lib.check(alarms, "no alarm")
        for alarm in alarms:
            self.call("/v3/maintenance/alarm", {"action": "DEACTIVATE", "alarm": "NOSPACE",
                                                "memberID": alarm["memberID"]})


class SmallFleet(lib.Fleet):
    def start_etcd(self):
        self.etcd = SmallEtcd(self)
        return self.etcd


def test_workers_outlast_an_etcd_that_is_full():
    with SmallFleet() as fleet:
        fleet.init("--new", "--quiet-time=1s")
        workers = [fleet.worker(*TIMES) for _ in range(2)]
        for worker in workers:
            worker.wait_ready()
        with load.Load([worker.address for worker in workers], clients=4, pause=0.01) as clients:
            clients.wait_more()
            fleet.etcd.fill()
            for worker in workers:
                lib.wait_until(lambda w=worker: w.status()["reason"] == REASON, 10, "it says why")
            lib.equal(clients.refusals, [], "refusals while the window lasted")
            for worker in workers:
                lib.wait_until(lambda w=worker: w.get("/v1/ids").status == 503, 10, "the window ends")
                status = worker.status()
                lib.equal((status["state"], status["reason"]), ("STARVED", REASON))
                lib.equal(worker.get("/livez").status, 200)
            newcomer = fleet.worker(*TIMES)
            lib.wait_until(lambda: "out of space" in newcomer.status()["reason"]
                           or "space exceeded" in newcomer.status()["reason"], 10,
                           "a new worker says why it waits")
            lib.equal(newcomer.get("/readyz").status, 503)
            pids = [worker.pid for worker in (*workers, newcomer)]
            fleet.etcd.make_room()
            for worker in (*workers, newcomer):
                worker.wait_ready(20)
            lib.equal([worker.pid for worker in (*workers, newcomer)], pids, "no restart")
            clients.wait_more()
            load.no_duplicates(clients.stop())


if __name__ == "__main__":
    lib.main()
