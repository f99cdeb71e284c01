"""A server that shows the coordinator's real page with a made-up fleet of any size.

    python3 tests/integration/page_stub.py 500 8099      # and look at it in a browser
"""

import http.server
import json
import math
import pathlib
import random
import re
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2] / "coordinator"
CSP = "".join(re.findall(r'"([^"\n]*)"', re.search(
    r'"Content-Security-Policy",(.*?)"X-Content', (ROOT / "page.c").read_text(), re.S)[1]))
FILES = {path: (ROOT / "page" / name, kind) for path, name, kind in re.findall(
    r"^    (/\S*) (\S+) ([a-z]+/[a-z+]+)\)?$", (ROOT / "page/CMakeLists.txt").read_text(), re.M)}
STEP_MS = 10000


class Fleet:
    """n workers, one machine ID each.  What is wrong with it is set in `wrong`, by worker."""

    def __init__(self, n, names=None, points=360):
        self.random = random.Random(n)
        self.n = n
        self.names = names or [f"prod/ids-{i}" for i in range(n)]
        self.wrong = {}
        self.gone = set()
        self.started = time.time()
        self.points = points
        self.extra_alarms = []
        self.mode = "OPEN"
        self.asked = 0

    def offset(self, i, at):
        base = (i * 7919 % 101 - 50) / 60
        return base + 0.35 * math.sin(at / 400 + i) + self.wrong.get(i, {}).get("offset_ms", 0)

    def bound(self, i, at):
        return 0.15 + (i * 31 % 17) / 60 + 0.08 * math.sin(at / 90 + 2 * i) ** 2

    def instance(self, i):
        return f"{i * 2654435761 % 2**32:08x}" * 4

    def workers(self):
        now = time.time()
        for i in range(self.n):
            if i in self.gone:
                continue
            wrong = self.wrong.get(i, {})
            heard = not wrong.get("silent")
            offset, bound = self.offset(i, now), self.bound(i, now)
            least = max(0, abs(offset) - bound)
            state = wrong.get("state", "SERVING")
            yield {
                "identity": self.names[i], "instance": self.instance(i),
                "http": f"10.0.{i // 250}.{i % 250 + 1}:8080", "version": "0.1.0",
                "machine_ids": [] if state == "CLAIMING" else [i], "missing": int(state == "CLAIMING"),
                "refused": None, "state": state if heard else None,
                "reason": wrong.get("reason") if heard else None,
                "runway_ms": wrong.get("runway_ms", int(60000 - (now * 1000 + i * 7177) % 20000)),
                "rate_per_s": round(2000 + 1500 * math.sin(now / 60 + i), 1) if heard else None,
                "issued_total": "12345678" if heard else None, "heard": heard,
                "heard_ms_ago": i * 97 % 9000 if heard else None,
                "not_heard_because": None if heard else f"10.0.0.{i}:8080: connection refused",
                "offset_ms": round(offset, 3) if heard else None,
                "bound_ms": round(bound, 3) if heard else None,
                "claimed_error_ms": 12.5 if heard else None,
                "synchronized": not wrong.get("unsynchronized") if heard else None,
                "verdict": "UNKNOWN" if not heard else "CRIT" if least > 500 else
                           "WARN" if least > 100 or wrong.get("unsynchronized") else "OK",
            }

    def machines(self):
        runs, held = [], {}
        for worker in self.workers():
            for machine_id in worker["machine_ids"]:
                held[machine_id] = worker
        for machine_id in range(1024):
            if machine_id in held:
                worker = held[machine_id]
                run = {"state": "STUCK" if worker["runway_ms"] < 0 else "HELD",
                       "identity": worker["identity"], "instance": worker["instance"],
                       "runway_ms": worker["runway_ms"]}
            elif machine_id < self.n:
                run = {"state": "COOLING", "usable_in_ms": 73000}
            elif machine_id in (700, 701, 702):
                run = {"state": "AHEAD", "usable_in_ms": 86400000}
            elif 960 <= machine_id < 992:
                run = {"state": "RESERVED"}
            elif machine_id >= 992:
                run = {"state": "OUT_OF_RANGE"}
            else:
                run = {"state": "FREE"}
            if runs and {**runs[-1], "first": 0, "last": 0} == {"first": 0, "last": 0, **run}:
                runs[-1]["last"] = machine_id
            else:
                runs.append({"first": machine_id, "last": machine_id, **run})
        return runs

    def alarms(self, workers):
        alarms = list(self.extra_alarms)
        time_service = "Look at that host's time service."
        for severity, verdict, text, meaning in (
                ("critical", "CRIT", "has a clock that is certainly more than 500 ms off", time_service),
                ("warning", "UNKNOWN", "is registered in etcd and does not answer", "It may serve all the same."),
                ("warning", "WARN", "has a clock that nothing synchronises", time_service)):
            found = [worker for worker in workers if worker["verdict"] == verdict]
            if found:
                alarms.append({"severity": severity, "meaning": meaning,
                               "text": f"{len(found)} worker {text}: " + ", ".join(
                                   worker["identity"] for worker in found[:3])})
        return alarms

    def fleet(self):
        workers = list(self.workers())
        heard = [worker for worker in workers if worker["heard"]]
        ranks = {"CRIT": 0, "UNKNOWN": 1, "WARN": 2, "OK": 3}
        workers.sort(key=lambda worker: (ranks[worker["verdict"]], worker["identity"]))
        self.asked += 1
        offsets = [worker["offset_ms"] for worker in heard]
        apart = max(offsets, default=0) - min(offsets, default=0)
        return {
            "schema": 1, "cluster": "prod", "now_ms": str(int(time.time() * 1000)),
            "era": "3cd94e2e" * 4, "mode": self.mode,
            "self": {"instance": "c0ffee00" * 4, "leads": True, "state": "leading", "version": "0.1.0"},
            "leader": {"instance": "c0ffee00" * 4, "http": "10.0.9.1:8090"},
            "etcd": {"reachable": True, "endpoint": "http://10.0.8.1:2379", "error": None},
            "ceiling_lead_s": 86373,
            "clocks": {"heard": len(heard), "agree": len(heard) + 1, "majority": True,
                       "at_least_ms": max(0, apart - 0.8), "at_most_ms": apart + 0.8},
            "alarms": self.alarms(workers), "machines": self.machines(), "workers": workers}

    def history(self, since):
        end = int(time.time() * 1000) // STEP_MS * STEP_MS
        times = [at for at in range(end - self.points * STEP_MS, end + 1, STEP_MS) if at > since]
        if len(times) * self.n > 100000:
            times = times[::-(-len(times) * self.n // 100000)]
        nodes = []
        for i in range(self.n):
            silent = self.wrong.get(i, {}).get("silent")
            nodes.append({
                "identity": self.names[i], "instance": self.instance(i), "machine_ids": [i],
                "present": i not in self.gone,
                "offset_ms": [None if silent and at > end - 120000 else round(self.offset(i, at / 1000), 3)
                              for at in times],
                "bound_ms": [None if silent and at > end - 120000 else round(self.bound(i, at / 1000), 3)
                             for at in times]})
        return {"schema": 1, "interval_ms": STEP_MS, "times_ms": [str(at) for at in times], "nodes": nodes}


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path, _, query = self.path.partition("?")
        fleet = self.server.fleet
        if path in FILES:
            file, kind = FILES[path]
            self.answer(200, kind + ("; charset=utf-8" if kind.startswith("text/") else ""),
                        file.read_bytes())
        elif path == "/v1/fleet" and not self.server.broken:
            self.answer(200, "application/json", json.dumps(fleet.fleet()).encode())
        elif path == "/v1/skew/history" and not self.server.broken:
            since = int(query.removeprefix("since=") or 0)
            self.answer(200, "application/json", json.dumps(fleet.history(since)).encode())
        else:
            self.answer(503 if path.startswith("/v1/") else 404, "application/json", b"{}")

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", CSP)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class _Http(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a page that was left
            super().handle_error(request, client_address)


class Server:
    """Serves fleet on a port of 127.0.0.1 until close()."""

    def __init__(self, fleet, port=0):
        self.http = _Http(("127.0.0.1", port), _Handler)
        self.http.fleet = fleet
        self.http.broken = False
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.http.shutdown()
        self.http.server_close()


if __name__ == "__main__":
    size = int(sys.argv[1])
    made = Fleet(size)
    if size > 20:
        made.wrong = {3: {"offset_ms": 740}, 17: {"silent": True}, 42: {"unsynchronized": True}}
    with Server(made, int(sys.argv[2])) as server:
        print(server.url, flush=True)
        threading.Event().wait()
