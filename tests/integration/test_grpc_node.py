"""gRPC as a Node client (@grpc/grpc-js) uses it.  npm brings it into the build folder, once."""

import fcntl
import filecmp
import json
import pathlib
import shutil
import subprocess
import threading

import lib
import test_grpc_tls

HERE = pathlib.Path(__file__).resolve()
SOURCE = HERE.parents[1] / "node"
PROTO = HERE.parents[2] / "proto"


def install():
    """The folder that node finds the packages in: as package-lock.json says, nothing newer."""
    folder = lib.BIN.parent / "node"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done, wanted = folder / "installed.json", SOURCE / "package-lock.json"
        if not done.exists() or not filecmp.cmp(done, wanted, shallow=False):
            for name in ("package.json", "package-lock.json"):
                shutil.copy(SOURCE / name, folder)
            made = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder,
                                  capture_output=True, text=True, timeout=600, check=False)
            lib.equal(made.returncode, 0, f"npm ci: {made.stderr[-2000:]}")
            shutil.copy(wanted, done)
    return folder


class Node:
    """A Node process with channels to one address."""

    def __init__(self, address, *tls):
        folder = install()
        self.process = subprocess.Popen(
            ["node", SOURCE / "client.js", PROTO, address, *map(str, tls)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env=lib.clean_env({"NODE_PATH": str(folder / "node_modules")}))
        self.watched, self.answers = [], []
        self.changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                said = json.loads(line)
                (self.watched if "watched" in said else self.answers).append(said)
                self.changed.notify_all()

    def begin(self, action, **fields):
        self.process.stdin.write(json.dumps({"do": action, **fields}) + "\n")
        self.process.stdin.flush()

    def answer(self, action, timeout=60):
        """Waits for the answer to begin()."""
        def here():
            return next((said for said in self.answers if said["did"] == action), None)
        with self.changed:
            lib.check(self.changed.wait_for(here, timeout * lib.SLOW), f"an answer to {action}")
            said = here()
            self.answers.remove(said)
            return said

    def do(self, action, **fields):
        self.begin(action, **fields)
        return self.answer(action)


def test_ids_batches_streams():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker("--assign-wait=0s")
        worker.wait_ready()
        with Node(worker.grpc_address) as node:
            first = int(node.do("next", request={})["id"])
            batch = list(map(int, node.do("batch", request={"count": 10000})["ids"]))
            lib.equal((len(batch), batch), (10000, sorted(set(batch))))
            lib.check(first < batch[0] < worker.ids(1)[0], "in order, over whatever they come")
            texts = node.do("batch", request={"count": 3, "form": "FORM_TEXT", "claim": True})
            lib.equal((len(texts["texts"]), len(texts["claim"])), (3, 32))
            ended = node.do("stream", request={"count": 2500})
            lib.equal((ended["code"], len(ended["ids"])), ("OK", 2500))
            ended = node.do("stream", request={"batch_count": 100}, messages={"left": 5})
            lib.equal(ended["code"], "CANCELLED")
            lib.check(len(ended["ids"]) >= 500, "what it read")
            decoded = node.do("decode", request={"number": str(first)})
            lib.equal((decoded["number"], decoded["holder"]), (str(first), "worker1"))
            lib.check(int(node.do("probe")["transmit_ns"]) > 10**18, "ns since 1970")
            refused = node.do("batch", request={"count": 10001})
            lib.equal((refused["code"], refused["details"]), ("INVALID_ARGUMENT",
                                                              "count must be 1..10000, got 10001"))
            lib.equal(node.do("cancel"), {"did": "cancel", "OK": 25, "CANCELLED": 25})
            lib.check("snowfleet.v1.IdService" in node.do("services")["names"], "reflection")


def test_deadlines():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker("--assign-wait=0s")
        worker.wait_ready()
        with Node(worker.grpc_address) as node:
            node.do("next", request={})  # connected
            worker.pause()
            late = node.do("batch", request={"count": 1}, deadline_ms=300)
            worker.resume()
            lib.equal(late["code"], "DEADLINE_EXCEEDED")
            lib.check(int(node.do("next", request={})["id"]) > 0, "it goes on")


def test_health_is_watched_from_the_first_machine_id_to_the_end():
    with lib.Fleet() as fleet:
        worker = fleet.worker("--assign-wait=0s")
        with Node(worker.grpc_address) as node:
            node.do("watch", service="snowfleet.v1.IdService")
            early = node.do("batch", request={"count": 1})
            lib.equal((early["code"], early["pushback"]), ("UNAVAILABLE", "1000"))
            lib.wait_until(lambda: node.watched == [{"watched": "NOT_SERVING"}], 20, "not yet")
            fleet.init("--new")
            lib.wait_until(lambda: node.watched[1:] == [{"watched": "SERVING"}], 20, "serving")
            lib.equal(node.do("check", service="")["status"], "SERVING")
            lib.equal(node.do("check", service="nothing")["code"], "NOT_FOUND")
            lib.equal(worker.terminate(), 0)
            lib.wait_until(lambda: node.watched[2:] == [{"watched": "NOT_SERVING"}, {"watched": "UNAVAILABLE"}], 20,
                           f"and the end: {node.watched}")


def test_a_restart_is_not_noticed():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        address = f"127.0.0.1:{lib.free_port()}"
        worker = fleet.worker("--assign-wait=0s", f"--grpc-listen={address}")
        worker.wait_ready()
        with Node(address) as node:
            node.begin("keep_calling")
            lib.wait_until(lambda: int(worker.status()["machines"][0]["issued_total"]) > 50, 20, "calls")
            lib.equal(worker.terminate(15), 0)
            again = fleet.worker("--assign-wait=0s", f"--grpc-listen={address}")
            again.wait_ready()
            lib.wait_until(lambda: int(again.status()["machines"][0]["issued_total"]) > 50, 30, "calls again")
            node.do("stop")
            said = node.answer("keep_calling")
            lib.equal(said["different"], said["answered"], "each only once")
            # Documented: while nobody listens calls fail with UNAVAILABLE, and with nothing else.
            lib.check(set(said["failed"]) <= {"UNAVAILABLE"}, f"{said}")


def test_tls_with_a_client_certificate():
    with lib.Fleet() as fleet:
        ours, clients = (test_grpc_tls.Authority(fleet.folder, name) for name in ("ours", "clients"))
        known, foreign = clients.issue("known"), ours.issue("foreign")
        worker = test_grpc_tls.start(fleet, *ours.issue("server"), f"--tls-client-ca-file={clients.cert}")
        with Node(worker.grpc_address, ours.cert, *known) as node:
            lib.check(int(node.do("next", request={})["id"]) > 0, "an ID")
        with Node(worker.grpc_address, ours.cert, *foreign) as node:
            lib.equal(node.do("batch", request={"count": 1}, deadline_ms=20000)["code"], "UNAVAILABLE")


if __name__ == "__main__":
    lib.main()
