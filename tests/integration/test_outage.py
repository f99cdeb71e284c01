"""etcd goes away: workers serve to the end of their window and not one ID beyond, and come back by
themselves."""

import os
import pathlib
import sys
import time

import lib
import load

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import fault_proxy  # pylint: disable=wrong-import-position

TIMES = ["--window=4s", "--lease-ttl=2s", "--keepalive-interval=500ms", "--assign-wait=1s"]


def horizon_ms(fleet, machine_id):
    return int(fleet.get(f"hor/{machine_id:04}").value.split(":")[0])


class Watcher:
    """Samples health of a worker."""

    def __init__(self, worker):
        self.worker = worker
        self.ready, self.runways = [], []

    def sample(self):
        status = self.worker.status()
        machine = status["machines"][0]
        lib.equal(self.worker.get("/livez").status, 200, "/livez")
        self.ready.append(self.worker.ready())
        self.runways.append(machine.get("runway_ms", 0))
        return status

    def changes(self):
        return [b for a, b in zip(self.ready, self.ready[1:]) if a != b]


def outage(stop, restart):
    """One outage, with a load on; stop(etcd) and restart(etcd) say of what kind."""
    with lib.Fleet() as fleet:
        fleet.init("--new", "--quiet-time=1s")
        worker = fleet.worker(*TIMES)
        worker.wait_ready()
        machine_id = worker.status()["machines"][0]["machine_id"]
        pid = worker.pid
        with load.Load(worker.address, clients=4, count=5) as clients:
            clients.wait_more()
            stop(fleet.etcd)
            watcher = Watcher(worker)
            lib.wait_until(lambda: watcher.sample()["state"] == "STARVED", 20, "the window ends")
            limit_ms = int(worker.status()["machines"][0]["limit_ms"])
            reply = worker.get("/v1/ids")
            lib.equal(reply.status, 503)
            error = reply.json()["error"]
            lib.equal(error["code"], "UNAVAILABLE")
            lib.check(error["retry_after_ms"] > 0, f"retry_after_ms: {error}")
            lib.check(int(reply.headers["retry-after"]) >= 1, "Retry-After")
            ended = clients.taken()
            for _ in range(20):
                watcher.sample()
                time.sleep(0.05)
            lib.equal(clients.taken(), ended, "IDs after the end of the window")
            lib.equal(watcher.changes(), [False], "/readyz turns once")
            falling = watcher.runways
            lib.check(all(a >= b for a, b in zip(falling, falling[1:])) and falling[-1] == 0
                      and falling[0] > 1000, f"runway falls: {falling}")
            last_ms = max(load.parts(number)[0] for number in clients.ids)
            lib.check(last_ms <= limit_ms, f"{last_ms} is above the limit {limit_ms}")
            restart(fleet.etcd)
            back = time.monotonic()
            lib.wait_until(worker.ready, 10, "serving within 10 s of etcd's return",
                           promised=True)
            took = time.monotonic() - back
            clients.wait_more()
            lib.check(limit_ms <= horizon_ms(fleet, machine_id), "the horizon covers the limit")
            ids = clients.stop()
        lib.equal((worker.pid, worker.alive()), (pid, True), "the same process")
        load.no_duplicates(ids)
        order = [number for number in ids if load.parts(number)[1] == machine_id]
        lib.equal(len(order), len(ids), "the same machine ID again")
        print(f"       {len(ids)} IDs, served again after {took:.1f} s")


def test_etcd_killed_and_started_again():
    outage(lambda etcd: etcd.kill(), lambda etcd: etcd.start())


def test_etcd_stopped_and_continued():
    # It accepts connections and never answers.
    outage(lambda etcd: etcd.pause(), lambda etcd: etcd.resume())


def test_an_etcd_that_takes_3_s_for_each_answer():
    """B109: longer than --etcd-timeout, so no answer ever counts, though each write lands."""
    with lib.Fleet() as fleet, fault_proxy.FaultProxy(seed=1) as proxy:
        fleet.init("--new", "--quiet-time=1s")
        address = proxy.link("worker>etcd", fleet.etcd.address)
        worker = lib.Daemon("slow", [
            lib.BIN / "snowfleet-worker", f"--etcd-endpoints=http://{address}",
            "--http-listen=127.0.0.1:0", "--grpc-listen=", *TIMES], fleet.folder)
        fleet.processes.append(worker)
        worker.wait_ready()
        watcher = Watcher(worker)
        with load.Load(worker.address, clients=2, count=5, pause=0.01) as clients:
            clients.wait_more()
            rule = proxy.rule("delay", link="worker>*", way="answer", ms=(3000, 3000))
            lib.wait_until(lambda: watcher.sample()["state"] == "STARVED", 20, "the window ends")
            limit_ms = int(worker.status()["machines"][0]["limit_ms"])
            for _ in range(20):
                watcher.sample()
                time.sleep(0.05)
            lib.equal(watcher.changes(), [False], "/readyz turns once")
            last_ms = max(load.parts(number)[0] for number in clients.ids)
            lib.check(last_ms <= limit_ms, f"{last_ms} is above the limit {limit_ms}")
            proxy.remove(rule)
            worker.wait_ready(20)
            clients.wait_more()
            ids = clients.stop()
        load.no_duplicates(ids)
        lib.equal(worker.starts, 1)


def test_ten_outages_leave_nothing_behind():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--quiet-time=1s")
        # A window that outlasts an etcd that takes seconds to come up.
        worker = fleet.worker(*TIMES[1:], "--window=8s")
        worker.wait_ready()

        def descriptors():
            return len(os.listdir(f"/proc/{worker.pid}/fd"))

        def resident_kb():
            with open(f"/proc/{worker.pid}/status", encoding="ascii") as file:
                return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))

        with load.Load(worker.address, clients=4) as clients:
            after = []
            for _ in range(3 if lib.SANITIZED else 10):
                fleet.etcd.kill()
                clients.wait_more()
                fleet.etcd.start()
                done = worker.status()["machines"][0]["limit_ms"]
                lib.wait_until(lambda: worker.status()["machines"][0]["limit_ms"] > done, 10,
                               "an extension succeeds again")
                after.append((descriptors(), resident_kb()))
            ids = clients.stop()
        lib.equal([each[1:] for each in clients.refusals][:3], [], "refusals while the window lasted")
        lib.check(after[-1][0] <= after[1][0] + 3, f"descriptors grow: {after}")
        lib.check(lib.SANITIZED or after[-1][1] <= after[1][1] * 1.2 + 2048, f"memory grows: {after}")
        load.no_duplicates(ids)


def test_a_worker_that_starts_without_etcd_waits_for_it():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--quiet-time=1s")
        fleet.etcd.kill()
        worker = fleet.worker(*TIMES)
        for _ in range(10):
            lib.equal(worker.get("/livez").status, 200)
            lib.equal(worker.get("/readyz").status, 503)
            lib.equal(worker.get("/v1/ids").status, 503)
        lib.wait_until(lambda: "connect" in worker.status()["reason"], 5, "it says why")
        fleet.etcd.start()
        worker.wait_ready(30)


def test_proxies_in_the_environment_are_ignored():
    nowhere = "http://127.0.0.1:9"
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker("--assign-wait=1s", env={
            name: nowhere for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY",
                                       "ALL_PROXY", "all_proxy", "grpc_proxy")})
        worker.wait_ready()


if __name__ == "__main__":
    lib.main()
