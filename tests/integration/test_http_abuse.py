"""Clients that are slow, greedy or rude, and too few descriptors: the worker serves everybody else."""

import errno
import os
import resource
import socket
import struct
import threading
import time

import lib
import load

REQUEST_LIMIT_S = 10  # for a whole request, as documented
SERVED_S = 3.0 if lib.SANITIZED else 1.0  # what a normal client may wait
MB = 1 << 20


def start(fleet, *args):
    fleet.init("--new")
    worker = fleet.worker("--assign-wait=0s", *args)
    worker.wait_ready()
    return worker


def connect(worker, timeout=10):
    host, port = worker.address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout * lib.SLOW)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return connection


def resident_bytes(process):
    with open(f"/proc/{process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def cpu_seconds(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def open_descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def metric(worker, name):
    return [float(line.split()[1]) for line in worker.get("/metrics").body.splitlines()
            if line.startswith(name + " ")][0]


def receive_now(connection, size):
    """What is here already: None when nothing is, b"" at the end."""
    timeout = connection.gettimeout()
    connection.settimeout(0)
    try:
        return connection.recv(size)
    except BlockingIOError:
        return None
    finally:
        connection.settimeout(timeout)


def has_ended(connection):
    """Has the server closed or reset it?  What it sent is dropped."""
    try:
        while (piece := receive_now(connection, 65536)) is not None:
            if not piece:
                return True
    except OSError:
        return True
    return False


class Normal:
    """A client that asks for one ID 20 times a second, each time over a new connection."""

    def __init__(self, worker):
        self.worker, self.longest, self.times, self.problem = worker, 0.0, 0, None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(0.05):
            begun = time.monotonic()
            try:
                reply = self.worker.get("/v1/ids")
                if reply.status != 200:
                    self.problem = repr(reply)
            except OSError as err:
                self.problem = repr(err)
            self.longest = max(self.longest, time.monotonic() - begun)
            self.times += 1

    def end(self):
        self._stop.set()
        self._thread.join()
        lib.check(self.problem is None, f"a normal client: {self.problem}")
        lib.check(self.times > 0 and self.longest < SERVED_S,
                  f"a normal client waited {self.longest:.2f} s, asking {self.times} times")


# ---- slow ----

HEAD = b"GET /v1/ids HTTP/1.1\r\nHost: a\r\nX-Slow: "
BODY = b"POST /v1/ids HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
KEPT = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"


def slow_clients_are_cut_and_others_served(count):
    # Both ends of every connection are on this machine, and each has a limit of its own.
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    with lib.Fleet() as fleet:
        worker = start(fleet)
        before = resident_bytes(worker)
        normal = Normal(worker)
        heads, bodies, kept = [], [], []
        for number in range(count):
            connection = connect(worker)
            for kind, first, group in ((0, HEAD[:1], heads), (1, BODY, bodies), (2, KEPT, kept)):
                if number % 3 == kind:
                    connection.sendall(first)
                    group.append((connection, time.monotonic()))
        lengths, at, deadline = [], 1, time.monotonic() + REQUEST_LIMIT_S + 2 * lib.SLOW
        while heads + bodies and time.monotonic() < deadline:
            for group in (heads, bodies):
                for entry in list(group):
                    connection, begun = entry
                    try:
                        connection.send(HEAD[at:at + 1] or b"x" if group is heads else b" ")
                        ended = has_ended(connection)
                    except OSError:
                        ended = True
                    if ended:
                        lengths.append(time.monotonic() - begun)
                        group.remove(entry)
                        connection.close()
            at += 1
            time.sleep(1)
        grown = resident_bytes(worker) - before
        lib.equal(len(heads) + len(bodies), 0, "slow connections that are still open")
        lib.check(min(lengths) > REQUEST_LIMIT_S - 2, f"one was cut after {min(lengths):.1f} s")
        lib.check(not any(has_ended(connection) for connection, _ in kept), "idle ones are kept")
        for connection, _ in kept[:10]:
            connection.sendall(KEPT)
            lib.check(connection.recv(1000).startswith(b"HTTP/1.1 200"), "and answered")
        normal.end()
        lib.check(metric(worker, "snowfleet_http_timeouts_total") >= len(lengths), "they are counted")
        if not lib.SANITIZED:
            lib.check(grown < count * MB, f"{grown} bytes for {count} connections")
        for connection, _ in kept:
            connection.close()
        lib.wait_until(lambda: metric(worker, "snowfleet_http_connections") <= 2, 5,
                       "all are gone")


def test_slow_clients_are_cut_and_others_served():
    slow_clients_are_cut_and_others_served(200)


# ---- greedy ----

def pour(connection, first, piece, total, result):
    """Sends first, then piece again and again, until total bytes or until the server ends it."""
    sent, answer = 0, b""
    piece *= max(1, 65536 // len(piece))
    try:
        connection.sendall(first)
        while sent < total:
            sent += connection.send(piece)
            piece_of_answer = receive_now(connection, 200)
            if piece_of_answer == b"":
                break
            answer = answer or piece_of_answer or b""
    except OSError as err:
        if err.errno not in (errno.ECONNRESET, errno.EPIPE):
            result.append((repr(err), sent, answer))
            return
    try:
        answer = answer or connection.recv(200)
    except OSError:
        pass
    connection.close()
    result.append((None, sent, answer))


GREEDY = {
    "a header line of 100 MB": (b"GET /livez HTTP/1.1\r\nHost: a\r\nX: ", b"x", 100 * MB, b"431"),
    "a million header lines": (b"GET /livez HTTP/1.1\r\nHost: a\r\n", b"A: b\r\n", 6 * MB, b"431"),
    "a URL of 10 MB": (b"GET /livez?", b"x", 10 * MB, b"414"),
    "a body of 1 GB to what takes none": (
        b"GET /livez HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"10000\r\n" + b"x" * 65536 + b"\r\n", 1024 * MB, b"413"),
    "a body of 1 GB to what takes one": (
        b"POST /v1/ids HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"10000\r\n" + b"x" * 65536 + b"\r\n", 1024 * MB, b"413"),
    "a body announced with 1 GB": (
        b"POST /v1/ids HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741824\r\n\r\n", b"x", 1024 * MB,
        b"413"),
}


def test_greedy_clients_are_stopped_early_and_cost_little():
    with lib.Fleet() as fleet:
        worker = start(fleet)
        normal = Normal(worker)
        many = 10
        for row, (first, piece, total, status) in GREEDY.items():
            before, result, peak = resident_bytes(worker), [], 0
            threads = [threading.Thread(target=pour, daemon=True,
                                        args=(connect(worker, 60), first, piece, total, result))
                       for _ in range(many)]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                peak = max(peak, resident_bytes(worker))
                time.sleep(0.005)
            lib.equal(len(result), many, row)
            for problem, sent, answer in result:
                lib.check(problem is None, f"{row}: {problem} after {sent} bytes")
                # What the two kernels hold of it is not the worker's.
                lib.check(sent < min(total, 24 * MB), f"{row}: {sent} bytes were taken")
                lib.check(not answer or answer.startswith(b"HTTP/1.1 " + status),
                          f"{row}: {answer!r}")
            if not lib.SANITIZED:
                lib.check(peak - before < many * MB, f"{row}: {peak - before} bytes for {many}")
        normal.end()


# ---- rude ----

def leave_early(worker, number, received, lock):
    """Asks for the largest batch, reads nothing, a little, or much of it, and resets."""
    connection = connect(worker, 60)
    connection.sendall(b"GET /v1/ids?count=10000 HTTP/1.1\r\nHost: a\r\nAccept: text/plain\r\n\r\n")
    wanted, text = (0, 1, 5000, 150000)[number % 4], b""
    while len(text) < wanted:
        piece = connection.recv(wanted - len(text))
        if not piece:
            break
        text += piece
    connection.close()  # a reset, as SO_LINGER says
    lines = text.partition(b"\r\n\r\n")[2].split(b"\n")[:-1]
    with lock:
        received.extend(map(int, lines))


def test_ids_of_broken_answers_are_never_handed_to_others():
    with lib.Fleet() as fleet:
        worker = start(fleet, "--machine-ids=2")
        received, lock, problems = [], threading.Lock(), []

        def client(first):
            try:
                for number in range(first, 1000, 20):
                    leave_early(worker, number, received, lock)
            except OSError as err:
                problems.append(repr(err))
        with load.Load(worker.address, clients=2, count=100) as clients:
            threads = [threading.Thread(target=client, args=(first,), daemon=True)
                       for first in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            clients.wait_more(1000)
            others = clients.stop()
        lib.equal(problems, [])
        lib.check(worker.alive(), "it lives")
        lib.check(len(received) > 100000, f"{len(received)} IDs of broken answers")
        load.no_duplicates(received + others)
        lib.equal(clients.refusals, [])
        lib.equal(clients.broken, 0, "connections of others that broke")


# ---- out of descriptors ----

def hold_open(worker, count):
    """Connections that may be served, refused, or left waiting."""
    held = []
    for _ in range(count):
        connection = connect(worker, 5)
        connection.sendall(KEPT)
        held.append(connection)
    return held


def stays_calm(worker, seconds):
    begun = cpu_seconds(worker)
    time.sleep(seconds)
    used = cpu_seconds(worker) - begun
    lib.check(used < 0.2 * seconds * (3 if lib.SANITIZED else 1),
              f"{used:.2f} s of CPU time in {seconds} s")


def kept_is_answered(kept):
    kept.sendall(KEPT)
    lib.check(kept.recv(1000).startswith(b"HTTP/1.1 200"), "the connection from before is served")


def extensions(worker):
    """Over a connection of its own, which has to get one."""
    lines = worker.get("/metrics").body.splitlines()
    return sum(float(line.split()[1]) for line in lines
               if line.startswith("snowfleet_hold_extensions_total{"))


def test_without_descriptors_it_waits_and_keeps_its_machine_id():
    with lib.Fleet() as fleet:
        worker = start(fleet, "--window=3s")
        kept = connect(worker)
        kept_is_answered(kept)
        before = extensions(worker)
        failures = metric(worker, "snowfleet_http_accept_failures_total")
        room = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
        few = open_descriptors(worker) + 10
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (few, room[1]))
        held = hold_open(worker, 50)
        stays_calm(worker, 3)
        kept_is_answered(kept)
        for connection in held:
            connection.close()
        lib.wait_until(worker.ready, 10, "it is ready, and has room again")
        lib.check(metric(worker, "snowfleet_http_accept_failures_total") > failures, "it was out")
        lib.check(extensions(worker) > before, "extended meanwhile")
        lib.equal(worker.logged("hold", "moved", to="lost"), [])
        kept.close()


def test_with_few_descriptors_it_takes_fewer_clients_and_finds_etcd_again():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = lib.Daemon("few", [
            "prlimit", "--nofile=64:64", lib.BIN / "snowfleet-worker", "--http-listen=127.0.0.1:0",
            "--grpc-listen=", "--etcd-endpoints", fleet.etcd.url, "--assign-wait=0s", "--window=3s"], fleet.folder)
        fleet.processes.append(worker)
        worker.wait_ready()
        told = worker.logged("http", "descriptors are too few: fewer clients are taken")
        lib.equal([(entry["descriptors"], entry["max_connections"]) for entry in told], [(64, 24)])
        kept = connect(worker)
        kept_is_answered(kept)
        held = hold_open(worker, 100)
        answers = [connection.recv(20) for connection in held]
        lib.equal(sum(answer.startswith(b"HTTP/1.1 503") for answer in answers), 100 - 23)
        lib.equal(sum(answer.startswith(b"HTTP/1.1 200") for answer in answers), 23)
        fleet.etcd.kill()
        stays_calm(worker, 3)
        fleet.etcd.start()
        kept_is_answered(kept)

        def serves():
            kept.sendall(b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n")
            return kept.recv(2000).startswith(b"HTTP/1.1 200")
        lib.wait_until(serves, 20, "etcd is found again while all connections are taken")
        for connection in [*held, kept]:
            connection.close()


if __name__ == "__main__":
    lib.main()
