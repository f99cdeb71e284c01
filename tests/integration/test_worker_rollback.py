"""etcd's history went back, and no coordinator lives to notice: workers notice by themselves.  And what
only looks like it: members that answer out of an old state, compaction."""

import http.client
import http.server
import re
import threading
import time

import etcd_cluster
import lib
import load
from test_recover import INIT, TIMES, Rig, recover

DOUBT = "etcd's history is in doubt: asking by way of its log"
SHORT_RANGE = ["--new", "--machine-id-range=0-0", "--max-window=4s", "--quiet-time=1s",
               "--max-offset=100ms"]


def alarms(worker):
    return worker.logged("rollback", "etcd's history went back: serving to the limit, claiming and "
                                     "extending nothing until snowfleetctl recover has run")


def metric(worker):
    return [line.split()[1] for line in worker.get("/metrics").body.splitlines()
            if line.startswith("snowfleet_rollback ")]


def alarmed(worker):
    lib.wait_until(lambda: alarms(worker), 20, f"{worker.name} alarms")
    lib.wait_until(lambda: metric(worker) == ["1"], 5, "the metric")
    reason = worker.status()["reason"]
    lib.check("rollback: revision" in reason and "snowfleetctl recover" in reason, reason)


def later_revisions(fleet, workers, n=200):
    """That the workers have seen: they read at least every 2 s, or extend every second or two."""
    for i in range(n):
        fleet.etcd.put("/other/key", str(i))
    before = [worker.status()["etcd"]["requests_total"] for worker in workers]
    for worker, was in zip(workers, before):
        lib.wait_until(lambda worker=worker, was=was:
                       int(worker.status()["etcd"]["requests_total"]) >= int(was) + 8, 20,
                       "it has asked etcd again")


def test_nothing_is_claimed_or_extended_until_recover_has_run():
    with lib.Fleet() as fleet:
        fleet.init(*SHORT_RANGE)
        holder = fleet.worker(*TIMES)
        holder.wait_ready()
        waiting = fleet.worker(*TIMES)
        lib.wait_until(lambda: "no machine ID free" in waiting.status()["reason"], 10, "it waits")
        rig = Rig(fleet)
        rig.back_up()
        later_revisions(fleet, [holder, waiting])
        lib.equal([metric(holder), metric(waiting)], [["0"], ["0"]])
        ids = holder.ids(100)
        rig.restore(rig.old_port)
        stored = fleet.get("hor/0000").value
        for worker in (holder, waiting):
            alarmed(worker)
        lib.wait_until(lambda: holder.status()["state"] == "STARVED", 10, "it serves to its limit")
        holder.kill()
        lib.wait_until(lambda: not fleet.get("own/0000"), 10, "the machine ID is free")
        lib.never(lambda: fleet.get("hor/0000").value != stored, 5, "it is claimed", 0.2)
        lib.equal((waiting.get("/readyz").status, waiting.get("/livez").status), (503, 200))
        lib.equal(len(alarms(waiting)), 1)
        floor_ms = int(recover(rig, "--yes", "--force")["floor_ms"])
        waiting.wait_ready(30)
        more = waiting.ids(100)
        lib.check(load.parts(more[0])[0] > floor_ms, "above the floor")
        lib.wait_until(lambda: metric(waiting) == ["0"], 10, "the alarm is over")
        load.no_duplicates(ids + more)


def test_a_restarted_worker_remembers_by_its_state_file():
    with lib.Fleet() as fleet:
        fleet.init(*INIT)
        rig = Rig(fleet)
        rig.back_up()
        worker = fleet.worker(*TIMES, f"--state-file={fleet.folder}/state")
        worker.wait_ready()
        ids = worker.ids(100)
        worker.kill()
        worker.start()  # with the same history: it goes on
        worker.wait_ready(20)
        lib.equal(alarms(worker), [])
        ids += worker.ids(100)
        worker.kill()
        rig.restore(rig.old_port)
        worker.start()
        alarmed(worker)
        lib.never(lambda: fleet.etcd.prefix(fleet.key("own/")), 3, "it claims", 0.2)
        worker.kill()  # nor after another start
        worker.start()
        alarmed(worker)
        recover(rig, "--yes", "--force")
        worker.wait_ready(30)
        lib.equal(metric(worker), ["0"])
        load.no_duplicates(ids + worker.ids(100))
        # The new era's own revisions count from here on.
        worker.kill()
        worker.start()
        worker.wait_ready(30)


def test_an_older_era_than_the_state_files_is_a_rollback_and_a_strange_one_is_a_start():
    with lib.Fleet() as fleet:
        fleet.init(*INIT)
        rig = Rig(fleet)
        rig.back_up()
        worker = fleet.worker(*TIMES, f"--state-file={fleet.folder}/state")
        worker.wait_ready()
        recover(rig, "--yes", "--force")
        worker.wait_ready(30)
        worker.kill()
        rig.restore(rig.old_port)  # of before recover
        worker.start()
        lib.wait_until(lambda: alarms(worker), 20, "it alarms")
        lib.check("came after" in alarms(worker)[0]["reason"], alarms(worker))
        worker.kill()
        rig.lose(rig.old_port)
        fleet.init(*INIT)
        worker.start()
        worker.wait_ready(30)
        lib.check(worker.logged("state", "the state file is of another era"), "it says so")


class BehindProxy:
    """Between a worker and etcd: passes everything on, and while behind is above 0 it lowers the revision
    of transactions that only read by so much, as a member does that was away (etcd-io/etcd#20418)."""

    def __init__(self, etcd):
        self.behind, self.lowered = 0, 0
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                upstream = http.client.HTTPConnection(etcd.address, timeout=60)
                try:
                    upstream.request("POST", self.path, body, {"Content-Type": "application/json"})
                    reply = upstream.getresponse()
                    self.send_response(reply.status)
                    if self.path.endswith("/watch"):
                        self.send_header("Connection", "close")
                        self.end_headers()
                        while chunk := reply.read1():
                            self.wfile.write(chunk)
                            self.wfile.flush()
                        self.close_connection = True
                        return
                    text = proxy.bend(self.path, body.decode(), reply.read().decode()).encode()
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                except (OSError, http.client.HTTPException):
                    self.close_connection = True
                finally:
                    upstream.close()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def bend(self, path, asked, answer):
        only_reads = "request_put" not in asked and "request_delete_range" not in asked and \
            "requestPut" not in asked and "requestDeleteRange" not in asked
        if not self.behind or not path.endswith("/kv/txn") or not only_reads:
            return answer
        self.lowered += 1
        return re.sub(r'"revision":"(\d+)"', lambda found:
                      f'"revision":"{max(1, int(found[1]) - self.behind)}"', answer, count=1)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class BehindFleet(lib.Fleet):
    """A Fleet whose programs reach etcd by a BehindProxy."""
    proxy = None

    def _common(self):
        self.proxy = self.proxy or BehindProxy(self.etcd)
        return ["--etcd-endpoints", self.proxy.url, "--cluster", self.cluster]


def test_an_answer_out_of_an_old_state_is_a_doubt_and_no_alarm():
    with BehindFleet() as fleet:
        fleet.init(*SHORT_RANGE)
        for _ in range(100):
            fleet.etcd.put("/other/key", "x")
        proxy = fleet.proxy
        holder = fleet.worker(*TIMES, "--log-level=debug")
        holder.wait_ready()
        waiting = fleet.worker(*TIMES, "--log-level=debug")  # reads all the time, since there is no slot for it
        lib.wait_until(lambda: "no machine ID free" in waiting.status()["reason"], 10, "it waits")
        with load.Load(holder.address, clients=1, pause=0.01) as clients:
            clients.wait_more()
            proxy.behind = 50
            lib.wait_until(lambda: len(waiting.logged("rollback", DOUBT)) > 1, 20, "it doubts")
            proxy.behind = 0
            lib.check(proxy.lowered > 1, "answers were bent")
            before = holder.status()["machines"][0]["limit_ms"]
            lib.wait_until(lambda: holder.status()["machines"][0]["limit_ms"] > before, 10, "extended")
            ids = clients.stop()
        lib.equal(clients.refusals, [], "refusals")
        lib.equal((alarms(holder), alarms(waiting), metric(waiting)), ([], [], ["0"]))
        holder.terminate()
        waiting.wait_ready()  # what it doubted is over
        load.no_duplicates(ids + waiting.ids(10))
        proxy.close()


def test_members_that_were_away_and_compaction_are_no_alarm():
    with etcd_cluster.ClusterFleet() as fleet:
        fleet.init("--new", "--quiet-time=1s", "--machine-id-range=0-1", "--max-window=12s")
        times = ["--window=12s", "--lease-ttl=5s", "--keepalive-interval=500ms", "--assign-wait=0s",
                 "--etcd-timeout=500ms"]
        workers = [fleet.worker(*times) for _ in range(3)]  # one of them looks for a slot for ever
        lib.wait_until(lambda: [worker.ready() for worker in workers].count(True) == 2, 20, "two serve")
        away = fleet.etcd.leader()
        away.pause()
        for _ in range(30):
            lib.wait_until(lambda: fleet.etcd.put("/other/key", "x") or True, 20, "a write")
        time.sleep(1)  # clients have gone to another member, and seen what it knows
        other = next(each for each in fleet.etcd.members if each is not away)
        other.pause()  # and must come to this one, which is behind
        away.resume()
        time.sleep(1.5)
        other.resume()
        lib.wait_until(lambda: all(each.healthy() for each in fleet.etcd.members), 20, "healthy")
        fleet.etcd.compact()
        time.sleep(2.5)  # a poll of each
        for worker in workers:
            lib.equal((alarms(worker), metric(worker)), ([], ["0"]), worker.name)
        lib.equal([worker.ready() for worker in workers].count(True), 2, "two serve")


if __name__ == "__main__":
    lib.main()
