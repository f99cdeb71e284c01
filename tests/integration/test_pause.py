"""A worker that is stopped for longer than window and TTL, while another takes over its machine ID,
answers nothing above its own limit when it wakes up."""

import socket
import threading
import time

import lib
import load

TIMES = ["--window=2s", "--lease-ttl=2s", "--keepalive-interval=500ms", "--assign-wait=1s"]


def test_a_stopped_worker_that_wakes_up():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=5-5", "--quiet-time=1s")
        a = fleet.worker(*TIMES)
        a.wait_ready()
        ids = a.ids(1000)
        host, port = a.address.rsplit(":", 1)
        waiting = [socket.create_connection((host, int(port)), 10) for _ in range(50)]
        lib.wait_until(lambda: a.get("/livez").status == 200, 5, "the connections are accepted")
        a.pause()
        limit_ms = int(fleet.get("hor/0005").value.split(":")[0])
        for connection in waiting:
            connection.sendall(b"GET /v1/ids?count=50 HTTP/1.1\r\nHost: a\r\nAccept: text/plain\r\n"
                               b"Connection: close\r\n\r\n")
        b = fleet.worker(*TIMES)
        b.wait_ready(20)
        lib.check(int(fleet.get("hor/0005").value.split(":")[0]) > limit_ms, "b is above a")
        with load.Load(b.address, clients=2, count=100) as on_b:
            on_b.wait_more(5000)
            a.resume()
            statuses = []
            for connection in waiting:
                connection.settimeout(20)
                answer = b""
                while chunk := connection.recv(65536):
                    answer += chunk
                connection.close()
                head, _, body = answer.partition(b"\r\n\r\n")
                status = int(head.split()[1])
                statuses.append(status)
                if status != 200:
                    lib.equal(status, 503, "a woken worker's answer")
                    continue
                late = [int(line) for line in body.split()]
                for number in late:
                    lib.check(load.parts(number)[0] <= limit_ms, f"{number} is above the limit")
                ids += late
            on_b.wait_more(5000)
            # a keeps asking for a machine ID, and says why it has none.
            lib.wait_until(lambda: a.status()["state"] == "CLAIMING", 20, "a has lost its generation")
            lib.check(a.get("/v1/ids").status == 503, "a refuses")
            lib.check(a.get("/livez").status == 200, "a is alive")
            lib.equal(b.terminate(10), 0)
            ids += on_b.stop()
        lib.check({load.parts(number)[1] for number in ids} == {5}, "one machine ID")
        a.wait_ready(30)
        ids += a.ids(1000)
        load.no_duplicates(ids, "the union")
        lib.equal(a.starts, 1)
        print(f"       {len(ids)} IDs; answers on waking: {sorted(set(statuses))}")


def test_a_worker_that_hardly_gets_the_cpu():
    """B55: 2 % of the time, for three times the TTL, while another waits for its machine ID."""
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=5-5", "--quiet-time=1s")
        a = fleet.worker(*TIMES)
        a.wait_ready()
        horizons, stop = [], threading.Event()

        def watch():
            while not stop.wait(0.05):
                value = fleet.get("hor/0005").value
                if not horizons or horizons[-1] != value:
                    horizons.append(value)
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        b = fleet.worker(*TIMES)
        with load.Load([a.address, b.address], clients=4, count=10) as clients:
            clients.wait_more()
            end = time.monotonic() + 6
            while time.monotonic() < end:
                a.pause()
                time.sleep(0.49)
                a.resume()
                time.sleep(0.01)
            lib.wait_until(lambda: a.ready() or b.ready(), 20, "one of them serves")
            clients.wait_more()
            ids = clients.stop()
        stop.set()
        watcher.join()
        load.no_duplicates(ids)
        last_ms = max(int(value.split(":")[0]) for value in [*horizons, fleet.get("hor/0005").value])
        lib.check(max(load.parts(number)[0] for number in ids) <= last_ms, "an ID above the horizon")
        lib.equal((a.alive(), a.get("/livez").status, a.starts), (True, 200, 1))
        print(f"       {len(ids)} IDs, {len({value.split(':')[1] for value in horizons})} claims")


if __name__ == "__main__":
    lib.main()
