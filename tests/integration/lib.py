"""Harness for integration tests: the real programs and a real etcd, on loopback.

A test file holds functions test_*(), each of which makes a Fleet of its own, and ends with
lib.main().  Python 3.11's standard library is enough; the programs come from $SNOWFLEET_BIN.

    import lib

    def test_a_worker_gets_a_machine_id():
        with lib.Fleet() as fleet:
            fleet.init("--new")
            coordinator = fleet.coordinator()
            worker = fleet.worker("--window=3s")
            lib.wait_until(lambda: worker.get("/readyz").status == 200, 10, "the worker is ready")

    if __name__ == "__main__":
        lib.main()

What a Fleet starts it ends, by pid, also when the test fails or the harness itself is killed.  After
a failure the logs are printed.  Sanitizer reports fail the test.
"""

import base64
import concurrent.futures
import http.client
import http.server
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

BIN = pathlib.Path(os.environ.get("SNOWFLEET_BIN", "build/bin")).resolve()
SANITIZED = bool(os.environ.get("SNOWFLEET_SANITIZE"))
# Every time limit below is for a plain build on an idle machine; this is what it is stretched by, and
# again by PATIENCE where a test only waits for what has to come.
PATIENCE = 2
SLOW = float(os.environ.get("SNOWFLEET_TEST_SLOW", "3" if SANITIZED else "2"))


class Failure(AssertionError):
    """A condition that was to hold does not."""


def check(condition, what):
    if not condition:
        raise Failure(what)


def equal(actual, expected, what=""):
    if actual != expected:
        raise Failure(f"{what}: got {actual!r}, expected {expected!r}" if what else
                      f"got {actual!r}, expected {expected!r}")


def wait_until(condition, timeout, what, interval=0.05, promised=False):
    """Calls condition() until it returns something true, and returns that.  What it raises counts as
    false until the time is over.  promised: the limit is what is tested, and not stretched."""
    limit = timeout if promised else timeout * SLOW * PATIENCE
    deadline = time.monotonic() + limit
    problem = None
    while True:
        try:
            result = condition()
            if result:
                return result
            problem = None
        except (Failure, OSError, KeyError, TypeError, ValueError, http.client.HTTPException) as err:
            problem = err
        if time.monotonic() >= deadline:
            detail = f" ({type(problem).__name__}: {problem})" if problem else ""
            raise Failure(f"not within {limit:.1f} s: {what}{detail}")
        time.sleep(interval)


def never(condition, duration, what, interval=0.05):
    """Fails as soon as condition() is true within duration seconds."""
    end = time.monotonic() + duration
    while time.monotonic() < end:
        if condition():
            raise Failure(f"happened: {what}")
        time.sleep(interval)


# ---- processes ----

# Children get SIGKILL when the thread that made them ends, so one that lasts makes them all.  The signals
# that the harness blocks are not theirs.
_spawner = concurrent.futures.ThreadPoolExecutor(
    max_workers=1, initializer=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, []))


def spawn(argv, **kwargs):
    """subprocess.Popen of a program that ends with the harness, however that ends.  Not by a preexec_fn:
    with one Python forks, and grpcio's handlers of a fork have waited for a busy thread for ever."""
    return _spawner.submit(subprocess.Popen, ["/usr/bin/setpriv", "--pdeathsig", "KILL", *argv],
                           stdin=subprocess.DEVNULL, **kwargs).result()


def clean_env(extra=None):
    """The environment without our own settings and without proxies, but with extra."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("SNOWFLEET_") and not name.lower().endswith("_proxy")}
    env.update(extra or {})
    return env


_ports = random.Random(os.urandom(16))


def free_port():
    """A port that was free a moment ago, below those that the kernel hands out by itself."""
    for _ in range(1000):
        port = _ports.randrange(10000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise Failure("no free port")


def write_secret(path, text):
    """A file with the mode that files of secrets must have; gives path."""
    path.touch(mode=0o600)
    path.write_text(text)
    return path


class Process:
    """A running program.  Its output is in files, so that nothing ever blocks on a pipe."""

    def __init__(self, name, argv, folder, env=None):
        self.name = name
        self.argv = [str(part) for part in argv]
        self.folder = pathlib.Path(folder)
        self.env = clean_env(env)
        self.popen = None
        self.starts = 0
        self.start()

    def start(self):
        check(self.popen is None or self.popen.poll() is not None, f"{self.name} runs already")
        self.starts += 1
        self.stdout_path = self.folder / f"{self.name}.{self.starts}.out"
        self.stderr_path = self.folder / f"{self.name}.{self.starts}.err"
        with open(self.stdout_path, "wb") as out, open(self.stderr_path, "wb") as err:
            self.popen = spawn(self.argv, stdout=out, stderr=err, env=self.env, cwd=self.folder)
        self.stopped = False
        self._offset = 0
        self._entries = []

    @property
    def pid(self):
        return self.popen.pid

    def alive(self):
        return self.popen.poll() is None

    def signal(self, number):
        self.popen.send_signal(number)

    def kill(self):
        """SIGKILL, and waits for the end."""
        if self.alive():
            self.signal(signal.SIGKILL)
        self.popen.wait()

    def pause(self):
        self.signal(signal.SIGSTOP)
        self.stopped = True

    def resume(self):
        self.signal(signal.SIGCONT)
        self.stopped = False

    def wait(self, timeout):
        """The exit code (below 0: the signal)."""
        try:
            return self.popen.wait(timeout * SLOW)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} still runs after {timeout * SLOW:.1f} s") from None

    def terminate(self, timeout=5):
        """SIGTERM; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def end(self):
        """Whatever it takes."""
        if self.alive():
            if self.stopped:
                self.resume()
            self.signal(signal.SIGTERM)
            try:
                self.popen.wait(5 * SLOW)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.popen.returncode

    def output(self):
        return self.stdout_path.read_text(errors="replace")

    def errors(self):
        return self.stderr_path.read_text(errors="replace")


class Reply:
    """An HTTP answer: status, headers (lower case), body as text, json()."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:200]!r}>"


def request(address, method, path, body=None, headers=None, timeout=5):
    """One request over a connection of its own, past any proxy.  address is host:port."""
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout * SLOW)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        return Reply(answer.status, answer.getheaders(), answer.read().decode(errors="replace"))
    finally:
        connection.close()


class Daemon(Process):
    """A worker or a coordinator.  address is where it listens, once it said so."""

    def start(self):
        super().start()
        self._address = None

    def log(self):
        """All lines of its log so far, as dicts."""
        with open(self.stdout_path, "rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text[:text.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            try:
                self._entries.append(json.loads(line))
            except ValueError:
                self._entries.append({"unreadable": line.decode(errors="replace")})
        return self._entries

    def logged(self, subject, message, **fields):
        """The entries with that subject, message and fields."""
        return [entry for entry in self.log()
                if entry.get("subject") == subject and entry.get("message") == message
                and all(entry.get(name) == value for name, value in fields.items())]

    @property
    def address(self):
        if self._address is None:
            def listening():
                check(self.alive() or self.logged("http", "listening"),
                      f"{self.name} ended with {self.popen.poll()}: {self.errors()}")
                return self.logged("http", "listening")
            self._address = wait_until(listening, 10, f"{self.name} listens", 0.01)[0]["address"]
        return self._address

    @property
    def grpc_address(self):
        """Of a worker: where it speaks gRPC."""
        self.address
        return next(entry["address"] for entry in self.logged("grpc", "listening")
                    if "address" in entry)

    @property
    def url(self):
        return f"http://{self.address}"

    @property
    def instance(self):
        self.address
        return self.logged("http", "listening")[0]["instance"]

    def request(self, method, path, **kwargs):
        return request(self.address, method, path, **kwargs)

    def get(self, path, **kwargs):
        return self.request("GET", path, **kwargs)

    def status(self):
        """/v1/status as a dict."""
        return self.get("/v1/status").json()

    # -- of a coordinator --

    def leads(self):
        return self.status()["self"]["leads"]

    # -- of a worker --

    def ready(self):
        return self.get("/readyz").status == 200

    def wait_ready(self, timeout=30):
        return wait_until(self.ready, timeout, f"{self.name} is ready")

    def ids(self, count=1):
        """count Snowflakes as numbers."""
        reply = self.get(f"/v1/ids?count={count}")
        equal(reply.status, 200, f"{self.name} /v1/ids: {reply.body}")
        return [int(text) for text in reply.json()["ids"]]


# ---- etcd ----

def _b64(text):
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def _unb64(text):
    return base64.b64decode(text).decode(errors="replace")


def prefix_end(prefix):
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


class Key:
    """A key as etcd holds it."""

    def __init__(self, kv):
        self.name = _unb64(kv["key"])
        self.value = _unb64(kv.get("value", ""))
        self.lease = int(kv.get("lease", 0))
        self.create_revision = int(kv["create_revision"])
        self.mod_revision = int(kv["mod_revision"])

    def json(self):
        return json.loads(self.value)

    def __repr__(self):
        return f"<{self.name} {self.value!r}>"


class Etcd:
    """One real etcd on ports of its own, data in memory if possible.  Talks to it directly."""

    def __init__(self, fleet, name="etcd"):
        self.name = name
        self.folder = fleet.folder
        for _ in range(5):
            self.client_port, self.peer_port = free_port(), free_port()
            client = f"http://127.0.0.1:{self.client_port}"
            peer = f"http://127.0.0.1:{self.peer_port}"
            self.process = Process(name, [
                "etcd", "--name", name, "--data-dir", self.folder / f"{name}.data",
                "--listen-client-urls", client, "--advertise-client-urls", client,
                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", f"{name}={peer}", "--unsafe-no-fsync",
                # A TTL can be as short as 2 s: etcd's least one is 1.5 elections.
                "--heartbeat-interval", "100", "--election-timeout", "1000",
            ], self.folder, {"ETCD_UNSUPPORTED_ARCH": "arm64"})
            if self._came_up():
                return
            shutil.rmtree(self.folder / f"{name}.data", ignore_errors=True)
        raise Failure(f"etcd does not start: {self.process.errors()[-2000:]}")

    def _came_up(self):
        def healthy():
            return not self.process.alive() or self.healthy()
        wait_until(healthy, 20, "etcd is healthy", 0.02)
        return self.process.alive()

    @property
    def address(self):
        return f"127.0.0.1:{self.client_port}"

    @property
    def url(self):
        return f"http://{self.address}"

    def healthy(self):
        reply = request(self.address, "GET", "/health", timeout=1)
        return reply.status == 200 and reply.json()["health"] == "true"

    def kill(self):
        self.process.kill()

    def pause(self):
        self.process.pause()

    def resume(self):
        self.process.resume()

    def start(self):
        """After kill(): with the same data and ports."""
        self.process.start()
        check(self._came_up(), "etcd does not start again")

    def call(self, path, body, timeout=5):
        reply = request(self.address, "POST", path, json.dumps(body),
                        {"Content-Type": "application/json"}, timeout)
        if reply.status != 200:
            raise Failure(f"etcd {path}: {reply}")
        return reply.json()

    def get(self, name):
        """The Key, or None."""
        kvs = self.call("/v3/kv/range", {"key": _b64(name)}).get("kvs", [])
        return Key(kvs[0]) if kvs else None

    def prefix(self, prefix):
        """All Keys that begin with prefix, in order."""
        answer = self.call("/v3/kv/range",
                           {"key": _b64(prefix), "range_end": _b64(prefix_end(prefix))})
        return [Key(kv) for kv in answer.get("kvs", [])]

    def put(self, name, value, lease=0):
        self.call("/v3/kv/put", {"key": _b64(name), "value": _b64(value), "lease": str(lease)})

    def put_all(self, values, lease=0):
        """The keys of a dictionary, many in a transaction."""
        pairs = list(values.items())
        for start in range(0, len(pairs), 100):
            self.call("/v3/kv/txn", {"success": [
                {"request_put": {"key": _b64(name), "value": _b64(value), "lease": str(lease)}}
                for name, value in pairs[start:start + 100]]})

    def delete(self, name):
        """How many keys went: 0 or 1."""
        return int(self.call("/v3/kv/deleterange", {"key": _b64(name)}).get("deleted", 0))

    def delete_prefix(self, prefix):
        answer = self.call("/v3/kv/deleterange",
                           {"key": _b64(prefix), "range_end": _b64(prefix_end(prefix))})
        return int(answer.get("deleted", 0))

    def revision(self):
        return int(self.call("/v3/kv/range", {"key": _b64("x")})["header"]["revision"])

    def compact(self, revision=None):
        self.call("/v3/kv/compaction", {"revision": str(revision or self.revision()),
                                        "physical": True})

    def grant(self, ttl):
        return int(self.call("/v3/lease/grant", {"TTL": str(ttl)})["ID"])

    def keepalive(self, lease):
        self.call("/v3/lease/keepalive", {"ID": str(lease)})

    def revoke(self, lease):
        self.call("/v3/lease/revoke", {"ID": str(lease)})

    def leases(self):
        answer = self.call("/v3/lease/leases", {})
        return [int(lease["ID"]) for lease in answer.get("leases", [])]


# ---- a worker that is only a node record and a clock ----

class _ClockHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        stub = self.server.stub
        time.sleep(stub.delay_there_s)
        received = time.time_ns() + stub.offset_ns
        if self.path == "/livez":
            body = b'{"live":true}'
        elif self.path == "/v1/clock":
            time.sleep(stub.delay_s)
            body = json.dumps({
                "receive_ns": str(received), "transmit_ns": str(time.time_ns() + stub.offset_ns),
                "boot_ns": str(time.clock_gettime_ns(time.CLOCK_BOOTTIME)),
                "max_error_ns": str(stub.max_error_ns), "synchronized": stub.synchronized,
                "source": "kernel"}).encode()
        else:
            self.send_error(404)
            return
        time.sleep(stub.delay_back_s)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class StubWorker:
    """A registered worker that asks for machine IDs when told to, and whose clock can be set.

    offset_ns may be changed at any time.  Its lease lasts a minute and is not renewed.
    """

    def __init__(self, fleet, identity, offset_ns=0, missing=0, serve=True):
        self.fleet = fleet
        self.identity = identity
        self.offset_ns = offset_ns
        self.max_error_ns = 1_000_000
        self.synchronized = True
        self.delay_s = 0  # between its two timestamps ...
        self.delay_there_s = self.delay_back_s = 0  # ... and as if on the way
        self.instance = os.urandom(16).hex()
        self.attempt = 1
        self.missing = missing
        self.wanted, self.held, self.refused = [], [], []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _ClockHandler)
        self.server.daemon_threads = True
        self.server.stub = self
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        if serve:
            threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        else:
            self.server.server_close()
        self.serving = serve
        self.lease = fleet.etcd.grant(60)
        self.write()

    def write(self):
        record = {"identity": self.identity, "addresses": {"http": self.address, "grpc": ""},
                  "version": "stub", "attempt": str(self.attempt), "missing": self.missing,
                  "wanted": self.wanted, "held": self.held, "refused": self.refused,
                  "synchronized": self.synchronized, "max_error_ns": str(self.max_error_ns)}
        self.fleet.etcd.put(self.fleet.key(f"node/{self.instance}"), json.dumps(record), self.lease)

    def ask(self, missing=1):
        """A new request for machine IDs."""
        self.attempt += 1
        self.missing = missing
        self.write()

    def assignment(self):
        """The answer to the current request as a dict, or None."""
        key = self.fleet.etcd.get(self.fleet.key(f"assign/{self.instance}"))
        answer = key.json() if key else None
        return answer if answer and answer["attempt"] == str(self.attempt) else None

    def wait_assignment(self, timeout=10):
        return wait_until(self.assignment, timeout, f"{self.identity} gets an answer")

    def hold(self, machine_id, horizon_ms=None, claim=None, lease=None):
        """Writes own/ and hor/ as if it had claimed the machine ID; lease 0: own/ never ends by itself."""
        claim = claim or os.urandom(16).hex()
        if horizon_ms is None:
            horizon_ms = int(time.time() * 1000) + 60000
        self.fleet.etcd.put(self.fleet.key(f"hor/{machine_id:04}"), f"{horizon_ms:020}:{claim}:1")
        self.fleet.etcd.put(self.fleet.key(f"own/{machine_id:04}"), json.dumps({
            "claim": claim, "instance": self.instance, "identity": self.identity,
            "addresses": {"http": self.address, "grpc": ""}}), self.lease if lease is None else lease)
        self.held.append(machine_id)
        self.missing = 0
        self.write()

    def let_go(self, machine_id):
        self.fleet.etcd.delete(self.fleet.key(f"own/{machine_id:04}"))
        self.held.remove(machine_id)

    def gone(self):
        """Its lease ends: own/, node/ and assign/ go."""
        self.fleet.etcd.revoke(self.lease)
        self.close()

    def close(self):
        if self.serving:
            self.server.shutdown()
            self.server.server_close()
            self.serving = False


# ---- a whole fleet ----

class Fleet:
    """One etcd and what runs on it.  As a context manager it cleans up after itself."""

    def __init__(self, cluster="default", start_etcd=True, folder=None):
        """folder: one of the caller's, which stays, in place of a temporary one."""
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.own_folder = folder is None
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="snowfleet-", dir=base))
        self.cluster = cluster
        self.processes, self.stubs = [], []
        self.counts = {}
        self.etcd = None
        try:
            if start_etcd:
                self.start_etcd()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close(failed=kind is not None)

    def start_etcd(self):
        self.etcd = Etcd(self)
        return self.etcd

    def _name(self, kind):
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return f"{kind}{self.counts[kind]}"

    def key(self, rest):
        """The full name of one of our keys: key("hor/0007")."""
        return f"/snowfleet/{self.cluster}/{rest}"

    def get(self, rest):
        return self.etcd.get(self.key(rest))

    def _common(self):
        return ["--etcd-endpoints", self.etcd.url, "--cluster", self.cluster]

    def coordinator(self, *args, env=None, name=None):
        """Starts one, on a port of its own, with short times; args come after those."""
        daemon = Daemon(name or self._name("coordinator"), [
            BIN / "snowfleet-coordinator", *self._common(), "--http-listen=127.0.0.1:0", *args,
        ], self.folder, env)
        self.processes.append(daemon)
        return daemon

    def public_key_file(self, text="1:000102030405060708090a0b0c0d0e0f\n", name="public-keys"):
        """A file of keys for public IDs."""
        return write_secret(self.folder / name, text)

    def worker(self, *args, env=None, name=None):
        """Starts one on a port of its own; its identity is its name unless args say otherwise."""
        name = name or self._name("worker")
        identity = [] if any(str(arg).startswith("--identity") for arg in args) else [
            f"--identity={name}"]
        grpc = [] if any(str(arg).startswith("--grpc-listen") for arg in args) else [
            "--grpc-listen=127.0.0.1:0"]
        daemon = Daemon(name, [
            BIN / "snowfleet-worker", *self._common(), "--http-listen=127.0.0.1:0", *grpc, *identity,
            *args,
        ], self.folder, env)
        self.processes.append(daemon)
        return daemon

    def stub(self, identity=None, **kwargs):
        """A StubWorker."""
        stub = StubWorker(self, identity or self._name("stub"), **kwargs)
        self.stubs.append(stub)
        return stub

    def ctl(self, *args, code=0, env=None, timeout=30):
        """Runs snowfleetctl and checks its exit code (None: any).  Returns stdout; see ctl_raw."""
        done = self.ctl_raw(*args, env=env, timeout=timeout)
        if code is not None and done.returncode != code:
            raise Failure(f"snowfleetctl {' '.join(map(str, args))}: exit {done.returncode}, "
                          f"expected {code}\n{done.stdout}{done.stderr}")
        return done.stdout

    def ctl_raw(self, *args, env=None, timeout=30):
        """Runs snowfleetctl with this fleet's etcd and cluster; a subprocess.CompletedProcess."""
        command = [str(BIN / "snowfleetctl"), *map(str, args)]
        if args and self.etcd and "--etcd-endpoints" not in args:
            command[2:2] = self._common()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", env=clean_env(env), timeout=timeout * SLOW)
        _refuse_reports("snowfleetctl", done.returncode, done.stderr)
        return done

    def ctl_json(self, *args, code=0):
        """As ctl(), with --output json, read."""
        return json.loads(self.ctl(*args, "--output", "json", code=code))

    def init(self, *args):
        """snowfleetctl init, with time for an etcd that has only just begun on a busy machine."""
        return self.ctl("init", "--etcd-timeout=10s", *args)

    def leader(self, coordinators, timeout=20):
        """Waits until exactly one of them leads, and returns it."""
        def one():
            leading = [daemon for daemon in coordinators
                       if daemon.alive() and not daemon.stopped and daemon.leads()]
            return leading[0] if len(leading) == 1 else None
        return wait_until(one, timeout, "one coordinator leads")

    def close(self, failed=False):
        for stub in self.stubs:
            stub.close()
        problems = []
        for process in reversed(self.processes):
            process.end()
            try:
                _refuse_reports(process.name, process.popen.returncode, process.errors())
            except Failure as problem:
                problems.append(problem)
        if self.etcd:
            self.etcd.kill()
        if failed or problems:
            self.dump()
        if self.own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)
        if problems and not failed:
            raise problems[0]

    def dump(self, lines=60):
        """Prints the last lines of every log."""
        for path in sorted(self.folder.glob("*.out")) + sorted(self.folder.glob("*.err")):
            tail = path.read_text(errors="replace").splitlines()[-lines:]
            if tail and not path.name.startswith("etcd"):
                print(f"---- {path.name}", *tail, sep="\n    ")


def _refuse_reports(name, code, errors):
    for sign in ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:",
                 "Assertion `"):
        if sign in errors:
            raise Failure(f"{name}: {errors[-4000:]}")
    if code in (66, -signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS):
        raise Failure(f"{name} ended with {code}: {errors[-4000:]}")


def in_parallel(functions):
    """Runs them all at once, released together, and returns their results in order."""
    barrier = threading.Barrier(len(functions))

    def run(function):
        barrier.wait()
        return function()
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(functions)) as pool:
        return [future.result() for future in [pool.submit(run, each) for each in functions]]


def main():
    """Runs the calling file's test_*() in their order, or those named on the command line."""
    tests = {name: function for name, function in vars(sys.modules["__main__"]).items()
             if name.startswith("test_") and callable(function)}
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    failed = 0
    for name in sys.argv[1:] or tests:
        begun = time.monotonic()
        try:
            tests[name]()
            verdict = "ok"
        except Exception:  # pylint: disable=broad-except
            traceback.print_exc(file=sys.stdout)
            verdict = "FAILED"
            failed += 1
        print(f"{verdict:6} {name} ({time.monotonic() - begun:.1f} s)", flush=True)
    sys.exit(1 if failed else 0)
