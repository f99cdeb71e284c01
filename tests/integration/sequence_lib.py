"""Sequences in tests: clients that take values over many connections, and an oracle that reads every version
of the record from etcd's history."""

import json
import re
import selectors
import socket

import lib

MAX = 9223372036854775807
VALUES = re.compile(rb'"ids":\[([^\]]*)\]')
STATUS = re.compile(rb"^HTTP/1.1 (\d+)", re.M)


def path(name, count=1, shard=None):
    return (f"/v1/ids?kind=sequence&name={name}&count={count}"
            + ("" if shard is None else f"&shard={shard}"))


def take(worker, name, count=1, shard=None):
    reply = worker.get(path(name, count, shard), timeout=20)
    lib.equal(reply.status, 200, reply)
    answer = reply.json()
    lib.equal((answer["kind"], answer["count"]), ("sequence", count))
    return [int(text) for text in answer["ids"]]


def refused(worker, status, code, *words, **kwargs):
    """The error that is answered to a request for values."""
    reply = worker.get(path(**kwargs), timeout=20)
    lib.equal(reply.status, status, reply)
    error = reply.json()["error"]
    lib.equal(error["code"], code)
    for word in words:
        lib.check(word in error["message"], f"{word!r} is in {error['message']!r}")
    return error


class _Connection:
    """Sends its requests one after the other."""

    def __init__(self, address, request, n):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.request, self.left, self.buffer, self.values = request, n, b"", []
        self.send()

    def send(self):
        self.socket.sendall(self.request)

    def on_readable(self):
        """True when all are answered."""
        chunk = self.socket.recv(65536)
        lib.check(chunk, "the worker keeps the connection")
        self.buffer += chunk
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        if not found or len(body) < int(length[1]):
            return False
        lib.check(head.startswith(b"HTTP/1.1 200"), self.buffer)
        self.values.extend(json.loads(body)["ids"])
        self.buffer = b""
        self.left -= 1
        if self.left:
            self.send()
        return self.left == 0


def take_many(targets, timeout=120):
    """targets: (worker, name, count, shard, connections, requests on each), all at once.  What each got, as a
    list of lists of values, one for each connection."""
    selector = selectors.DefaultSelector()
    all_of_them = []
    for worker, name, count, shard, connections, requests in targets:
        request = (f"GET {path(name, count, shard)} HTTP/1.1\r\nHost: x\r\n\r\n").encode()
        made = [_Connection(worker.address, request, requests) for _ in range(connections)]
        all_of_them.append(made)
        for connection in made:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
    while selector.get_map():
        ready = selector.select(timeout * lib.SLOW)
        lib.check(ready, "values come")
        for key, _ in ready:
            if key.data.on_readable():
                selector.unregister(key.data.socket)
                key.data.socket.close()
    return [[[int(text) for text in connection.values] for connection in made]
            for made in all_of_them]


def record(fleet, name):
    return fleet.get(f"seq/{name}").json()


def history(fleet, name):
    """Every version of the record, the oldest first."""
    revision, found = 0, []
    while True:
        answer = fleet.etcd.call("/v3/kv/range", {"key": lib._b64(fleet.key(f"seq/{name}")),
                                                  "revision": str(revision)})
        if not answer.get("kvs"):
            return found[::-1]
        key = lib.Key(answer["kvs"][0])
        found.append(key.json())
        revision = int(answer["kvs"][0]["mod_revision"]) - 1
        if revision == 0:
            return found[::-1]


def granted(fleet, name):
    """All values that were granted, as ranges."""
    versions, ranges = history(fleet, name), []
    for before, after in zip(versions, versions[1:]):
        lib.check(int(after["serial"]) == int(before["serial"]) + 1, "each write counts")
        top = [max(int(text) for text in version["next"]) for version in (before, after)]
        lib.check(top[1] >= top[0], f"the counter never falls: {before} {after}")
        if before["layout"] == after["layout"]:
            step = len(after["next"])
            ranges += [range(int(a), int(b), step)
                       for a, b in zip(before["next"], after["next"]) if a != b]
    return ranges


def check_all(fleet, name, values):
    """No value twice, and all of them granted; returns how many were granted."""
    lib.equal(len(set(values)), len(values), f"{name}: no value twice")
    ranges = granted(fleet, name)
    lib.equal(len(set().union(*map(set, ranges))), sum(map(len, ranges)), "no grant overlaps another")
    lost = set(values).difference(*ranges)
    lib.check(not lost, f"{name}: all inside granted blocks, but {sorted(lost)[:5]}")
    return sum(map(len, ranges))


def of_worker(worker, name):
    """What it says of the sequence."""
    return next(entry for entry in worker.status()["sequences"] if entry["name"] == name)
