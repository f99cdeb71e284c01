"""A worker with several serving loops, some of which have nothing to issue from: whichever loop a
client's connection came to, it is served while any loop can."""

import threading
import time

import lib
import load

TIMES = ["--window=4s", "--lease-ttl=2s", "--keepalive-interval=500ms", "--assign-wait=300ms"]
READERS = 12  # connections, so that each of three loops has some


def serving(worker):
    return [machine["machine_id"] for machine in worker.status()["machines"]
            if machine["state"] == "SERVING"]


class Probe:
    """Asks /readyz on connections of its own and keeps every answer that is not 200."""

    def __init__(self, worker):
        self.bad, self.asked, self._stop = [], 0, False
        self._threads = [threading.Thread(target=self._run, args=(worker,)) for _ in range(3)]
        for thread in self._threads:
            thread.start()

    def _run(self, worker):
        while not self._stop:
            reply = worker.get("/readyz")
            self.asked += 1
            if reply.status != 200:
                self.bad.append(reply.body)
            time.sleep(0.01)

    def stop(self):
        self._stop = True
        for thread in self._threads:
            thread.join()
        return self.bad


def test_a_loop_without_a_machine_id_serves_by_way_of_another():
    with lib.Fleet() as fleet:
        # Two machine IDs for three loops: one has nothing, from the start.
        fleet.init("--new", "--quiet-time=1s", "--machine-id-range=0-1")
        worker = fleet.worker("--machine-ids=3", *TIMES)
        lib.wait_until(lambda: len(serving(worker)) == 2, 20, "two loops serve")
        probe = Probe(worker)
        with load.Load(worker.address, clients=READERS, count=3, pause=0.005) as clients:
            clients.wait_more(300)
            # One is taken over: its loop has none for as long as that machine ID is not free again.
            lost = serving(worker)[0]
            fleet.ctl("reclaim", str(lost), "--force", "--yes")
            lib.wait_until(lambda: lost not in serving(worker), 10, "it is given up")
            clients.wait_more(300)
            # And a lease that is killed is resumed.
            other = serving(worker)[0]
            fleet.etcd.revoke(fleet.get(f"own/{other:04}").lease)
            lib.wait_until(lambda: fleet.get(f"own/{other:04}"), 10, "it is taken again")
            clients.wait_more(300)
            ids = clients.stop()
        lib.equal(clients.refusals, [], "refusals")
        lib.equal(probe.stop(), [], "/readyz")
        lib.check(probe.asked > 20, "it was asked")
        load.no_duplicates(ids)
        lib.equal({load.parts(number)[1] for number in ids}, {0, 1})
        # Only when nobody can serve it says so.
        worker.terminate(10)


def test_when_no_loop_serves_each_says_so():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--quiet-time=1s", "--machine-id-range=0-1")
        worker = fleet.worker("--machine-ids=3", *TIMES)
        lib.wait_until(lambda: len(serving(worker)) == 2, 20, "two loops serve")
        fleet.etcd.pause()
        lib.wait_until(lambda: not serving(worker), 20, "the windows pass")
        for _ in range(READERS):
            lib.equal((worker.get("/readyz").status, worker.get("/v1/ids").status), (503, 503))
        fleet.etcd.resume()
        worker.wait_ready()
        lib.equal(worker.get("/v1/ids?count=5").status, 200)


if __name__ == "__main__":
    lib.main()
