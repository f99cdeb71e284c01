#!/usr/bin/python3
"""A TCP proxy that understands HTTP/1.1 and spoils it by rules, for tests.

One process carries any number of links.  A link is an address that it listens on, in front of one server;
give each client program its own link to each server, and single programs can be cut off from single servers.
Rules come and go while it runs:

    with fault_proxy.FaultProxy(seed=7) as proxy:
        address = proxy.link("worker1>etcd0", "127.0.0.1:2379")     # point worker1 there
        rule = proxy.rule("eat", link="worker1>*", path="/v3/kv/txn", p=0.5)
        ...
        proxy.remove(rule)

What a rule may do (kind) to a request that it meets (link and path are globs, body a regular expression that
is searched for, p a probability, limit how often at most):

    cut         the connection is reset, the request not delivered
    delay       held for ms=(least, most); way="request" or "answer"
    reorder     held until another one under the same rule has overtaken it, or for ms=(_, most); way as above
    repeat      delivered, and a second time ms=(least, most) later; the second answer is thrown away
    eat         delivered, the answer thrown away; then="cut" resets the connection, "hang" leaves it open
    lose_up     nothing gets from the client to the server while the rule stands
    lose_down   nothing gets from the server to the client while the rule stands, on streams neither
    black_hole  both: it accepts and never answers

What a rule holds back outlives the client that sent it: a request lands although its client has given up.
That is what networks do, and what a protocol has to bear.  When a lose rule goes, what it held goes on with
probability late, as TCP would repeat it; else the connection is reset.

Chance comes from one generator, seeded; what it decides depends on the order in which requests arrive, so
only the rules repeat with the seed, not each verdict.  Every request is delivered on a connection of its own.
No TLS.
"""

import argparse
import asyncio
import fnmatch
import json
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

KINDS = ("cut", "delay", "reorder", "repeat", "eat", "lose_up", "lose_down", "black_hole")
HEAD_MAX = 65536
ANSWER_WAIT_S = 60  # for the answer to a request whose client has gone
UP = ("lose_up", "black_hole")
DOWN = ("lose_down", "black_hole")


class Broken(Exception):
    """The connection ended in the middle, or what came is not HTTP."""


# ---- reading ----

class Inbound:
    """What comes in on a connection, read ahead, so that its end is noticed at once."""

    def __init__(self, reader):
        self.buffer = bytearray()
        self.ended = asyncio.Event()
        self._more = asyncio.Event()
        self._task = asyncio.ensure_future(self._pump(reader))

    async def _pump(self, reader):
        try:
            while data := await reader.read(65536):
                self.buffer += data
                self._more.set()
        except OSError:
            pass
        self.ended.set()
        self._more.set()

    def close(self):
        self._task.cancel()

    async def more(self):
        """Waits for new bytes; False at the end."""
        if self.ended.is_set():
            return False
        self._more.clear()
        await self._more.wait()
        return True

    async def take(self, n):
        while len(self.buffer) < n:
            if not await self.more():
                raise Broken
        data = bytes(self.buffer[:n])
        del self.buffer[:n]
        return data

    async def through(self, mark):
        """All up to mark and with it; b"" when the connection ended before anything came."""
        while (at := self.buffer.find(mark)) < 0:
            if len(self.buffer) > HEAD_MAX:
                raise Broken
            if not await self.more() and self.buffer.find(mark) < 0:
                if self.buffer:
                    raise Broken
                return b""
        return await self.take(at + len(mark))

    async def some(self):
        """Whatever there is, b"" at the end."""
        while not self.buffer:
            if not await self.more() and not self.buffer:
                return b""
        return await self.take(len(self.buffer))


class Head:
    """The first line and the headers of a message, as they came."""

    def __init__(self, raw):
        self.raw = raw
        lines = raw.decode("latin-1").split("\r\n")
        self.first = lines[0].split(" ", 2)
        if len(self.first) < 2:
            raise Broken
        self.headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self.chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        length = self.headers.get("content-length")
        if length is not None and not length.isdecimal():
            raise Broken
        self.length = int(length) if length is not None else None


async def chunks(source):
    """The pieces of a chunked body, with their framing, trailer included."""
    while True:
        line = await source.through(b"\r\n")
        try:
            size = int(line.split(b";")[0], 16)
        except ValueError:
            raise Broken from None
        if size == 0:
            break
        yield line + await source.take(size + 2)
    while True:
        tail = await source.through(b"\r\n")
        line += tail
        if tail in (b"\r\n", b""):
            break
    yield line


async def read_request(source):
    """(Head, body) or None at the end of the connection."""
    raw = await source.through(b"\r\n\r\n")
    if not raw:
        return None
    head = Head(raw)
    body = b""
    if head.chunked:
        async for piece in chunks(source):
            body += piece
    elif head.length:
        body = await source.take(head.length)
    return head, body


async def answer_pieces(source, method):
    """The pieces of an answer, the first one being its Head."""
    while True:
        raw = await source.through(b"\r\n\r\n")
        if not raw:
            raise Broken
        head = Head(raw)
        if not head.first[1].startswith("1"):
            break
    yield head
    if method == "HEAD" or head.first[1] in ("204", "304"):
        return
    if head.chunked:
        async for piece in chunks(source):
            yield piece
    elif head.length is not None:
        if head.length:
            yield await source.take(head.length)
    else:
        while piece := await source.some():
            yield piece


# ---- rules ----

class Rule:
    """One rule, see above."""

    def __init__(self, number, kind, link="*", path="*", body=None, p=1.0, way="request", ms=(0, 0),
                 then="cut", late=0.5, limit=None):
        if kind not in KINDS:
            raise ValueError(f"kind {kind!r}: must be one of {', '.join(KINDS)}")
        if way not in ("request", "answer"):
            raise ValueError(f"way {way!r}: must be request or answer")
        if then not in ("cut", "hang"):
            raise ValueError(f"then {then!r}: must be cut or hang")
        if not 0 <= p <= 1 or not 0 <= late <= 1:
            raise ValueError(f"p {p}, late {late}: must be 0..1")
        if not 0 <= ms[0] <= ms[1]:
            raise ValueError(f"ms {ms}: must be (least, most)")
        self.number, self.kind, self.link, self.path = number, kind, link, path
        self.body = re.compile(body.encode()) if body else None
        self.p, self.way, self.ms, self.then, self.late = p, way, ms, then, late
        self.limit = limit
        self.hits = 0
        self.gone = asyncio.Event()
        self.held = None  # of reorder: set when another one has passed

    def meets(self, link, path, body):
        return (not self.gone.is_set() and (self.limit is None or self.hits < self.limit)
                and fnmatch.fnmatchcase(link, self.link) and fnmatch.fnmatchcase(path, self.path)
                and (self.body is None or self.body.search(body) is not None))


class Rules:
    """Those that stand, and chance."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.rules = {}
        self.last = 0

    def add(self, **fields):
        rule = Rule(self.last + 1, **fields)
        self.last += 1
        self.rules[rule.number] = rule
        return rule

    def remove(self, number):
        rule = self.rules.pop(number, None)
        if rule is None:
            return 0
        rule.gone.set()
        if rule.held:
            rule.held.set()
        return rule.hits

    def struck(self, link, path, body):
        """The rules that this request falls under, by their conditions and by chance."""
        met = []
        for rule in self.rules.values():
            if rule.meets(link, path, body) and self.random.random() < rule.p:
                rule.hits += 1
                met.append(rule)
        return met

    def pause(self, rule):
        return self.random.uniform(*rule.ms) / 1000


# ---- links ----

def reset(writer):
    """Ends a connection as a break does: what is on its way is gone, and the other side gets a reset."""
    end = writer.get_extra_info("socket")
    if end is not None:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Link:
    """One listening address in front of one server."""

    def __init__(self, rules, name, target):
        self.rules, self.name = rules, name
        host, _, port = target.rpartition(":")
        self.target = host.strip("[]"), int(port)
        self.requests = 0
        self.tasks = set()
        self.server = None

    async def listen(self, host, port):
        self.server = await asyncio.start_server(self._connected, host, port)
        return "{}:{}".format(*self.server.sockets[0].getsockname()[:2])

    async def _connected(self, reader, writer):
        client = Inbound(reader)
        try:
            while (request := await read_request(client)) is not None:
                if not await self._exchange(client, writer, *request):
                    break
            writer.close()
        except (Broken, OSError):
            reset(writer)
        finally:
            client.close()

    async def _exchange(self, client, writer, head, body):
        """One request and its answer.  False: the connection is of no more use."""
        self.requests += 1
        path = head.first[1].split("?")[0]
        struck = self.rules.struck(self.name, path, body)
        done = asyncio.get_running_loop().create_future()
        # A task of its own: it goes on when the client has left.
        task = self._start(self._carry(client, writer, head, body, path, struck))

        def finished(task):
            result = not task.cancelled() and not task.exception() and task.result()
            if not done.done():
                done.set_result(result)
        task.add_done_callback(finished)
        left = asyncio.ensure_future(client.ended.wait())
        await asyncio.wait({done, left}, return_when=asyncio.FIRST_COMPLETED)
        left.cancel()
        if done.done():
            if not done.result():
                reset(writer)
            return done.result()
        done.cancel()
        return False

    def _start(self, work):
        task = asyncio.ensure_future(work)
        self.tasks.add(task)  # asyncio itself keeps no strong reference
        task.add_done_callback(self.tasks.discard)
        return task

    async def _lost(self, struck, kinds):
        """Waits while something is lost.  False: what was held does not arrive any more."""
        for rule in struck:
            if rule.kind in kinds:
                await rule.gone.wait()
                if self.rules.random.random() >= rule.late:
                    return False
        return True

    async def _held(self, struck, way):
        """Delays; returns what to call when this one has passed."""
        passed = []
        for rule in struck:
            if rule.way != way:
                continue
            if rule.kind == "delay":
                await asyncio.sleep(self.rules.pause(rule))
            elif rule.kind == "reorder" and rule.held:
                passed.append(rule.held)
                rule.held = None
            elif rule.kind == "reorder":
                rule.held = mine = asyncio.Event()
                try:
                    await asyncio.wait_for(mine.wait(), rule.ms[1] / 1000)
                except asyncio.TimeoutError:
                    if rule.held is mine:
                        rule.held = None
        return passed

    async def _carry(self, client, writer, head, body, path, struck):
        kinds = {rule.kind: rule for rule in struck}
        if "cut" in kinds or not await self._lost(struck, UP):
            return False
        passed = await self._held(struck, "request")
        try:
            if "repeat" in kinds:
                self._start(self._again(self.rules.pause(kinds["repeat"]), head, body))
            return await self._deliver(client, writer, head, body, path, struck, passed)
        except (Broken, OSError):
            return False
        finally:
            for event in passed:
                event.set()

    async def _again(self, pause_s, head, body):
        await asyncio.sleep(pause_s)
        try:
            server, up = await self._send(head, body)
        except OSError:
            return
        try:
            async with asyncio.timeout(ANSWER_WAIT_S):
                async for _ in answer_pieces(server, head.first[0]):
                    pass
        except (Broken, OSError, asyncio.TimeoutError):
            pass
        finally:
            server.close()
            up.transport.abort()

    async def _send(self, head, body):
        reader, up = await asyncio.open_connection(*self.target)
        up.write(head.raw + body)
        return Inbound(reader), up

    async def _deliver(self, client, writer, head, body, path, struck, passed):
        kinds = {rule.kind: rule for rule in struck}
        server, up = await self._send(head, body)
        pieces = answer_pieces(server, head.first[0])
        begun = False
        try:
            while True:
                piece = await self._piece(pieces, client, begun)
                if piece is None:
                    break
                if isinstance(piece, Head):
                    begun = piece.length is None  # a stream, which is of no use without its client
                    for event in passed:
                        event.set()
                    passed.clear()
                    if "eat" not in kinds:
                        passed += await self._held(struck, "answer")
                    piece = piece.raw
                if "eat" in kinds:
                    if begun:
                        break
                    continue
                if not await self._down(path, body, struck):
                    return False
                if not client.ended.is_set():
                    writer.write(piece)
                    await writer.drain()
        finally:
            server.close()
            up.transport.abort()
        if "eat" in kinds:
            if kinds["eat"].then == "hang":
                await client.ended.wait()
            return False
        return not client.ended.is_set()

    async def _piece(self, pieces, client, stream):
        """The next piece of an answer; None at its end, or when nobody wants it any more."""
        following = asyncio.ensure_future(anext(pieces, None))
        if not stream:
            return await asyncio.wait_for(following, None if not client.ended.is_set() else ANSWER_WAIT_S)
        left = asyncio.ensure_future(client.ended.wait())
        await asyncio.wait({following, left}, return_when=asyncio.FIRST_COMPLETED)
        left.cancel()
        if following.done():
            return following.result()
        following.cancel()
        return None

    async def _down(self, path, body, struck):
        """Holds an answer, or a piece of one, while the way back is lost.  A stream meets rules that are
        younger than its request."""
        if not await self._lost([rule for rule in struck if not rule.gone.is_set()], DOWN):
            return False
        while True:
            rule = next((rule for rule in self.rules.rules.values()
                         if rule.kind in DOWN and rule.p == 1.0
                         and rule.meets(self.name, path, body)), None)
            if rule is None:
                return True
            if not await self._lost([rule], DOWN):
                return False


class Server:
    """The process: links and rules, and the socket by which it is told."""

    def __init__(self, seed):
        self.rules = Rules(seed)
        self.links = {}

    async def command(self, order):
        name = order.pop("order")
        if name == "link":
            link = Link(self.rules, order["name"], order["target"])
            address = await link.listen(order["host"], order["port"])
            self.links[link.name] = link
            return address
        if name == "rule":
            return self.rules.add(**order).number
        if name == "remove":
            return self.rules.remove(order["number"])
        if name == "clear":
            return {number: self.rules.remove(number) for number in list(self.rules.rules)}
        if name == "hits":
            return self.rules.rules[order["number"]].hits
        if name == "requests":
            return {name: link.requests for name, link in self.links.items()}
        raise ValueError(f"order {name!r}")

    async def talk(self, reader, writer):
        while line := await reader.readline():
            try:
                answer = {"ok": await self.command(json.loads(line))}
            except Exception as err:  # pylint: disable=broad-except
                answer = {"error": f"{type(err).__name__}: {err}"}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        # Nobody is left to tell it anything.
        asyncio.get_running_loop().stop()


def serve(control, seed):
    """Runs until whoever started it hangs up."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.set_exception_handler(lambda loop, context: None if isinstance(
        context.get("exception"), (OSError, Broken)) else loop.default_exception_handler(context))
    server = Server(seed)
    loop.run_until_complete(asyncio.start_unix_server(server.talk, control))
    loop.run_forever()


# ---- the other side ----

class FaultProxy:
    """Starts the process, and tells it what to do.  Thread-safe."""

    def __init__(self, seed, folder=None):
        self.own_folder = None if folder else tempfile.mkdtemp(prefix="fault-proxy-")
        self.errors = pathlib.Path(folder or self.own_folder) / "fault_proxy.err"
        # The path of a socket is short; a test's folder need not be.
        self.socket_folder = tempfile.mkdtemp(prefix="fault-proxy-")
        control = f"{self.socket_folder}/control"
        with open(self.errors, "wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, __file__, "--control", control, "--seed", str(seed)],
                stdin=subprocess.DEVNULL, stdout=err, stderr=err)
        self.lock = threading.Lock()
        self.socket = socket.socket(socket.AF_UNIX)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.socket.connect(control)
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.process.kill()  # nobody would ever hang up on it
                    self.process.wait()
                    raise RuntimeError(f"the fault proxy does not start: {self.errors.read_text()}") from None
                time.sleep(0.05)
        self.socket.settimeout(60)
        self.file = self.socket.makefile("rwb")

    def _order(self, order, **fields):
        with self.lock:
            self.file.write(json.dumps({"order": order, **fields}).encode() + b"\n")
            self.file.flush()
            answer = json.loads(self.file.readline() or b'{"error": "the proxy has ended"}')
        if "error" in answer:
            raise RuntimeError(f"fault proxy: {answer['error']} {self.errors.read_text()[-2000:]}")
        return answer["ok"]

    def link(self, name, target, host="127.0.0.1", port=0):
        """Listens in front of target (HOST:PORT); returns the address."""
        return self._order("link", name=name, target=target, host=host, port=port)

    def rule(self, kind, **fields):
        """Sets a rule up; returns its number."""
        return self._order("rule", kind=kind, **fields)

    def remove(self, number):
        """Takes it away; returns how many requests it met."""
        return self._order("remove", number=number)

    def clear(self):
        """Takes all away."""
        return self._order("clear")

    def hits(self, number):
        return self._order("hits", number=number)

    def requests(self):
        """How many requests came on each link."""
        return self._order("requests")

    def close(self):
        self.file.close()
        self.socket.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for path in (f"{self.socket_folder}/control", self.errors if self.own_folder else None):
            if path and os.path.exists(path):
                os.unlink(path)
        for folder in filter(None, (self.socket_folder, self.own_folder)):
            os.rmdir(folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A proxy that spoils HTTP by rules; started by class FaultProxy.")
    parser.add_argument("--control", required=True)
    parser.add_argument("--seed", required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends when the one who started it does
    serve(options.control, options.seed)
