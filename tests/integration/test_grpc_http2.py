"""What gRPC uses of HTTP/2, frame by frame; and clients that are odd, greedy or hostile."""

import pathlib
import socket
import struct
import subprocess
import time

import grpc_lib
import grpc_raw
import lib
from grpc_raw import (ACK, BATCH, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, HEADERS,
                      NEXT, NO_ERROR, PADDED, PING, PRIORITY, PROTOCOL_ERROR, RST_STREAM, SETTINGS, STREAM,
                      WINDOW_UPDATE, Raw, message)

OK, INVALID_ARGUMENT, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = 0, 3, 4, 8, 12, 13


class Worker:
    """One standalone worker, ready; checks at the end that it is alive and well."""

    def __init__(self, *args):
        self.fleet = lib.Fleet(start_etcd=False)
        self.daemon = lib.Daemon("worker", [
            lib.BIN / "snowfleet-worker", "--standalone", "--init", f"--state-file={self.fleet.folder}/state",
            "--http-listen=127.0.0.1:0", "--grpc-listen=127.0.0.1:0", *args], self.fleet.folder)
        self.fleet.processes.append(self.daemon)
        self.daemon.wait_ready()
        self.address = self.daemon.grpc_address

    def __enter__(self):
        return self

    def __exit__(self, kind, *rest):
        try:
            if kind is None:
                self.is_well()
        finally:
            self.fleet.__exit__(kind, *rest)

    def is_well(self):
        lib.check(self.daemon.alive(), "the worker lives")
        with Raw(self.address) as raw:
            lib.equal(raw.status(raw.call())[0], OK, "another client is served")

    def resident(self):
        """KiB."""
        text = pathlib.Path(f"/proc/{self.daemon.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0])

    def issued(self):
        return int(self.daemon.status()["machines"][0]["issued_total"])

    def metric(self, name):
        return int(next(line for line in self.daemon.get("/metrics").body.splitlines()
                        if line.startswith(f"snowfleet_{name} ")).split()[1])


def test_an_answer_is_headers_data_trailers():
    with Worker() as worker, Raw(worker.address) as raw:
        answer = raw.answer(raw.call())
        lib.equal([(frame.kind, frame.ends()) for frame in answer],
                  [(HEADERS, False), (DATA, False), (HEADERS, True)])
        lib.equal(answer[0].headers, {":status": "200", "content-type": "application/grpc"})
        lib.equal(answer[2].headers, {"grpc-status": "0"})
        payload = answer[1].payload
        lib.equal(payload[:5], struct.pack(">BI", 0, 9), "prefix")
        lib.check(grpc_lib.ids.NextResponse.FromString(payload[5:]).id > 0, "an ID")
        settings = next(frame for frame in raw.frames if frame.kind == SETTINGS and not frame.flags & ACK)
        pairs = dict(struct.unpack(">HI", settings.payload[at:at + 6]) for at in range(0, len(settings.payload), 6))
        lib.equal((pairs[3], pairs[6]), (100, 16384), "streams at once; bytes of headers")


def test_a_request_may_come_in_any_pieces():
    with Worker() as worker, Raw(worker.address) as raw:
        whole = message(grpc_lib.ids.NextBatchRequest(count=3).SerializeToString())
        batch = 5 + 2 + 3 * 8
        # A byte a frame; the end in a frame of its own; padding; trailers of the client's.
        stream = raw.stream()
        raw.send(raw.headers(stream, BATCH))
        for byte in whole:
            raw.send(raw.frame(DATA, 0, stream, bytes([byte])))
        raw.send(raw.frame(DATA, END_STREAM, stream))
        lib.equal(len(raw.answer(stream)[1].payload), batch)
        stream = raw.stream()
        raw.send(raw.headers(stream, BATCH) + raw.frame(DATA, END_STREAM | PADDED, stream,
                                                        b"\x20" + whole + b"\0" * 32))
        lib.equal(len(raw.answer(stream)[1].payload), batch)
        stream = raw.stream()
        raw.send(raw.headers(stream, BATCH) + raw.frame(DATA, 0, stream, whole) + raw.frame(
            HEADERS, END_HEADERS | END_STREAM, stream, raw.encoder.encode([("x", "y")])))
        lib.equal(len(raw.answer(stream)[1].payload), batch)
        # Headers cut into CONTINUATION frames.
        stream = raw.stream()
        packed = raw.headers(stream, BATCH)[9:]
        raw.send(raw.frame(HEADERS, 0, stream, packed[:3]) + raw.frame(CONTINUATION, 0, stream, packed[3:7]) +
                 raw.frame(CONTINUATION, END_HEADERS, stream, packed[7:]) + raw.frame(DATA, END_STREAM, stream, whole))
        lib.equal(len(raw.answer(stream)[1].payload), batch)
        # Many calls in one write, the bytes of which arrive one at a time.
        streams = [raw.stream() for _ in range(5)]
        together = b"".join(raw.headers(stream, BATCH) + raw.frame(DATA, END_STREAM, stream, whole)
                            for stream in streams)
        for byte in together:
            raw.send(bytes([byte]))
        numbers = [number for stream in streams
                   for number in grpc_lib.ids.NextBatchResponse.FromString(raw.answer(stream)[1].payload[5:]).ids]
        lib.equal(numbers, sorted(set(numbers)), "in the order of the calls")


def test_what_is_no_grpc_is_told_so():
    with Worker() as worker, Raw(worker.address) as raw:
        for http, changed in (("415", {"content_type": "application/json"}), ("415", {"content_type": None}),
                              ("415", {"content_type": "application/grpc-web"}), ("405", {"method": "GET"}),
                              ("405", {"method": "PUT"}), ("431", {"x_long": "x" * 20000})):
            stream = raw.stream()
            packed = raw.headers(stream, NEXT, **changed)[9:]
            cut = 16000
            raw.send(raw.frame(HEADERS, 0 if len(packed) > cut else END_HEADERS, stream, packed[:cut]))
            if len(packed) > cut:
                raw.send(raw.frame(CONTINUATION, END_HEADERS, stream, packed[cut:]))
            last = raw.answer(stream)[0]
            lib.check(last.ends(), f"one frame: {last}")
            lib.equal(last.headers[":status"], http, f"{list(changed)}")
            lib.check(last.headers["grpc-message"], "and why")
    for text in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"POST /x HTTP/1.0\r\n\r\n"):
        with Worker() as worker:
            with socket.create_connection(worker.address.rsplit(":", 1), timeout=10) as client:
                client.sendall(text)
                answer = b""
                while more := client.recv(65536):
                    answer += more
            lib.check(answer.startswith(b"HTTP/1.1 400 ") and b"gRPC" in answer, f"{answer}")


def test_bad_messages_have_the_right_status():
    with Worker() as worker, Raw(worker.address) as raw:
        def of(data, path=NEXT, **changed):
            stream = raw.stream()
            raw.send(raw.headers(stream, path, **changed) + raw.frame(DATA, END_STREAM, stream, data))
            return raw.status(stream)
        lib.equal(of(message())[0], OK)
        lib.equal(of(b"")[0], UNIMPLEMENTED, "no message")
        lib.equal(of(message() + message())[0], UNIMPLEMENTED, "two messages")
        lib.equal(of(message()[:3])[0], INTERNAL, "half a prefix")
        lib.equal(of(message(b"abc")[:-1])[0], INTERNAL, "half a message")
        lib.equal(of(message(flag=1))[0], INTERNAL, "compressed, without an encoding")
        lib.equal(of(message(flag=1), grpc_encoding="identity")[0], INTERNAL, "compressed by identity")
        status, headers = of(message(flag=1), grpc_encoding="gzip")
        lib.equal((status, headers["grpc-accept-encoding"]), (UNIMPLEMENTED, "identity"))
        lib.equal(of(message(), grpc_encoding="gzip")[0], OK, "announced, and not used")
        lib.equal(of(message(flag=2))[0], INTERNAL, "another flag")
        lib.equal(of(b"\0\xff\xff\xff\xff")[0], RESOURCE_EXHAUSTED, "4 GiB announced")
        status, headers = of(message(), path="/no%such\u00e9".encode())
        lib.equal((status, headers["grpc-message"]), (UNIMPLEMENTED, "there is no method /no%25such%C3%A9"))
        for timeout in ("", "1", "S", "-1S", "123456789S", "1x", "1.5S"):
            lib.equal(of(message(), grpc_timeout=timeout)[0], INVALID_ARGUMENT, timeout)
        lib.equal(of(message(), grpc_timeout="99999999H")[0], OK)
        # A request that stays open is answered before its end, and need not go on.
        stream = raw.stream()
        raw.send(raw.headers(stream, "/nothing"))
        lib.equal(raw.status(stream)[0], UNIMPLEMENTED)
        last = raw.until(lambda frame: frame.kind == RST_STREAM)
        lib.equal((last.stream, last.payload), (stream, struct.pack(">I", NO_ERROR)))


def test_what_http2_says_is_to_be_ignored_is():
    with Worker() as worker, Raw(worker.address, settings=[(0xff00, 7), (4, 65535)]) as raw:  # an unknown setting
        raw.send(raw.frame(0x42, 0xff, 0, b"unknown") + raw.frame(0x42, 0, 77, b"x" * 16384) +
                 raw.frame(PING, 0xfe, 0, b"12345678") + raw.frame(PRIORITY, 0, 9, b"\0" * 4 + b"\1"))
        whole = message()
        stream = raw.stream()  # with an unknown flag, the reserved bit of the stream, padding and priority
        raw.send(raw.frame(HEADERS, END_HEADERS | PADDED | 0x20 | 0x40, stream | 1 << 31,
                           b"\4" + b"\0" * 4 + b"\x10" + raw.headers(stream)[9:] + b"\0" * 4))
        raw.send(raw.frame(0x42, 0, stream, b"between") + raw.frame(DATA, END_STREAM | 0x40, stream | 1 << 31, whole))
        lib.equal(raw.status(stream)[0], OK)
        # What may still be on its way when a stream is over.
        raw.send(raw.frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", 1)) +
                 raw.frame(RST_STREAM, 0, stream, struct.pack(">I", 8)) +
                 raw.frame(PRIORITY, 0, stream, b"\0" * 4 + b"\1"))
        lib.equal(raw.status(raw.call())[0], OK, "the connection goes on")


def test_what_http2_forbids_ends_the_stream_or_the_connection():
    flow_control, stream_closed, frame_size, compression = 3, 5, 6, 9
    with Worker() as worker:
        def headers(raw, stream=None, **changed):
            return raw.headers(stream or raw.stream(), **changed)

        for what, codes, make in (
                ("DATA of no stream", {PROTOCOL_ERROR}, lambda raw: raw.frame(DATA, 0, 0, b"x")),
                ("DATA of an idle stream", {PROTOCOL_ERROR, stream_closed}, lambda raw: raw.frame(DATA, 0, 5, b"x")),
                ("an even stream", {PROTOCOL_ERROR}, lambda raw: headers(raw, 2)),
                ("a PING of a stream", {PROTOCOL_ERROR}, lambda raw: raw.frame(PING, 0, 1, b"12345678")),
                ("a short PING", {frame_size}, lambda raw: raw.frame(PING, 0, 0, b"1234567")),
                ("SETTINGS of five bytes", {frame_size}, lambda raw: raw.frame(SETTINGS, 0, 0, b"12345")),
                ("SETTINGS with a window of 2^31", {flow_control, PROTOCOL_ERROR},
                 lambda raw: raw.frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1 << 31))),
                ("frames of 2^24 offered", {PROTOCOL_ERROR},
                 lambda raw: raw.frame(SETTINGS, 0, 0, struct.pack(">HI", 5, 1 << 24))),
                ("a frame above 16384", {frame_size}, lambda raw: raw.frame(0x42, 0, 0, b"x" * 16385)),
                ("a window that is never full", {flow_control},
                 lambda raw: raw.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", (1 << 31) - 1))),
                ("no more window", {PROTOCOL_ERROR}, lambda raw: raw.frame(WINDOW_UPDATE, 0, 0, b"\0" * 4)),
                ("more padding than frame", {PROTOCOL_ERROR},
                 lambda raw: raw.headers(raw.stream()) + raw.frame(DATA, PADDED, 1, b"\xff12")),
                ("headers that are no HPACK", {compression},
                 lambda raw: raw.frame(HEADERS, END_HEADERS, 1, b"\xff" * 20)),
                ("CONTINUATION of nothing", {PROTOCOL_ERROR}, lambda raw: raw.frame(CONTINUATION, END_HEADERS, 1)),
                ("something between two parts of headers", {PROTOCOL_ERROR},
                 lambda raw: headers(raw, flags=0) + raw.frame(PING, 0, 0, b"12345678")),
                ("PUSH_PROMISE", {PROTOCOL_ERROR}, lambda raw: raw.frame(5, END_HEADERS, 1, b"\0\0\0\2"))):
            with Raw(worker.address) as raw:
                raw.until(lambda frame: frame.kind == SETTINGS and frame.flags & ACK)
                raw.send(make(raw))
                seen = raw.closed()
                lib.check(seen and set(seen) <= codes, f"{what}: {seen}")
        with Raw(worker.address) as raw:
            for what, make in (
                    ("a large letter in a name", lambda stream: raw.headers(stream, X="y")),
                    ("no path", lambda stream: raw.headers(stream, path=None)),
                    ("two paths", lambda stream: raw.headers(stream, extra=[(":path", NEXT)])),
                    ("of HTTP/1", lambda stream: raw.headers(stream, connection="close")),
                    ("a line in a value", lambda stream: raw.headers(stream, x="a\r\nb")),
                    ("a length that is not so", lambda stream: raw.headers(stream, content_length="7") +
                     raw.frame(DATA, END_STREAM, stream, message()))):
                stream = raw.stream()
                raw.send(make(stream))
                last = raw.answer(stream)[-1]
                lib.equal((last.kind, last.payload), (RST_STREAM, struct.pack(">I", PROTOCOL_ERROR)), what)
            lib.equal(raw.status(raw.call())[0], OK, "the connection goes on")


def test_a_deadline_passes_while_the_request_is_not_whole():
    with Worker() as worker, Raw(worker.address) as raw:
        stream = raw.stream()
        begun = time.monotonic()
        raw.send(raw.headers(stream, NEXT, grpc_timeout="300m"))
        lib.equal(raw.status(stream)[0], DEADLINE_EXCEEDED)
        lib.check(time.monotonic() - begun >= 0.29, "not before")
        lib.equal(raw.status(raw.call(grpc_timeout="20S"))[0], OK)


def test_a_reset_of_a_call_that_never_began_is_let_pass():
    # As gRPC's C core sends it when a call is cancelled before its headers are written.
    with Worker() as worker, Raw(worker.address) as raw:
        reset = struct.pack(">I", 8)
        for _ in range(50):
            raw.send(raw.frame(RST_STREAM, 0, raw.stream(), reset))
            lib.equal(raw.status(raw.call())[0], OK, "the connection stays")
        flood(worker, "resets of nothing", lambda other: other.send(other.frame(RST_STREAM, 0, other.stream(), reset)),
              20000)


def test_data_waits_for_the_windows():
    with Worker() as worker, Raw(worker.address, settings=[(4, 0)]) as raw:  # INITIAL_WINDOW_SIZE
        stream = raw.call(BATCH, grpc_lib.ids.NextBatchRequest(count=10000).SerializeToString())
        raw.until(lambda frame: frame.kind == HEADERS)
        # Others are not held up, and get no more than they let come.
        other = raw.call()
        raw.until(lambda frame: frame.kind == HEADERS and frame.stream == other)
        raw.send(raw.frame(WINDOW_UPDATE, 0, other, struct.pack(">I", 14)))
        lib.equal(raw.status(other)[0], OK)
        lib.check(not any(frame.kind == DATA and frame.stream == stream for frame in raw.frames), "held back")
        got, granted = 0, 0
        while got < 80000:
            if got == granted:
                raw.send(raw.frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", 5000)) +
                         raw.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 5000)))
                granted += 5000
            got += len(raw.until(lambda frame: frame.kind == DATA).payload)
            lib.check(got <= granted, "never more than was allowed")
        raw.send(raw.frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", 5000)))
        lib.equal(raw.status(stream)[0], OK)


def test_a_stream_is_cut_into_what_the_client_lets_come():
    with Worker() as worker, Raw(worker.address) as raw:
        raw.call(STREAM, grpc_lib.ids.StreamRequest(batch_count=1000).SerializeToString())
        got = 0
        while got < 65535:  # the window that every connection begins with
            got += len(raw.until(lambda frame: frame.kind == DATA).payload)
        issued = worker.issued()
        time.sleep(0.5)
        lib.equal(worker.issued(), issued, "nothing more is issued")
        lib.check(issued <= 10 * 1000, f"{issued} issued for 8191 that could be sent")


def test_only_so_many_calls_at_once():
    with Worker() as worker, Raw(worker.address) as raw:
        raw.until(lambda frame: frame.kind == SETTINGS and frame.flags & ACK)
        held = [raw.stream() for _ in range(100)]
        for stream in held:
            raw.send(raw.headers(stream))
        for stream in held:
            raw.send(raw.frame(DATA, END_STREAM, stream, message()))
        for stream in held:
            lib.equal(raw.status(stream)[0], OK)
        for _ in range(101):
            raw.send(raw.headers(raw.stream()))
        lib.equal(raw.goaway()[1], PROTOCOL_ERROR, "it was told how many")
        raw.closed()


def test_pings_are_answered_down_to_the_documented_interval():
    with Worker() as worker, Raw(worker.address) as raw:
        # B98: many at once now and then, and one a second for as long as one likes, without a call.
        for number in range(20):
            raw.send(raw.frame(PING, 0, 0, struct.pack(">Q", number)))
        for _ in range(4):
            time.sleep(1.05)
            raw.send(raw.frame(PING, 0, 0, b"12345678"))
        for _ in range(24):
            lib.check(raw.until(lambda frame: frame.kind == PING).flags & ACK, "answered")
        # With calls between them nobody counts.
        for _ in range(100):
            lib.equal(raw.status(raw.call())[0], OK)
            raw.send(raw.frame(PING, 0, 0, b"12345678"))
        raw.send(raw.frame(PING, 0, 0, b"12345678") * 30)  # at once: it closes when it has had enough
        _, code, text = raw.goaway()
        lib.equal((code, text), (ENHANCE_YOUR_CALM, "too_many_pings"))
        raw.closed()


def flood(worker, what, send, limit=200000):
    """send(raw) until the worker ends the connection."""
    with Raw(worker.address) as raw:
        try:
            for _ in range(limit):
                send(raw)
        except (ConnectionError, TimeoutError):
            return
        try:
            codes = raw.closed()
        except lib.Failure:
            raise lib.Failure(f"{what}: the connection stays") from None
        lib.check(NO_ERROR not in codes, f"{what}: {codes}")


def test_floods_end_their_connection_and_nothing_else():
    with Worker() as worker, Raw(worker.address) as other:
        lib.equal(other.status(other.call())[0], OK)
        before = worker.resident()

        def rapid_reset(raw):
            stream = raw.stream()
            raw.send(raw.headers(stream, NEXT) + raw.frame(RST_STREAM, 0, stream, struct.pack(">I", 8)))

        def continuation(raw):
            if raw.next_stream == 1:
                raw.send(raw.headers(raw.stream(), flags=0))
            raw.send(raw.frame(CONTINUATION, 0, 1, b"\0\1x\1y"))

        def empty_data(raw):
            if raw.next_stream == 1:
                raw.send(raw.headers(raw.stream()))
            raw.send(raw.frame(DATA, 0, 1))

        for what, send, limit in (
                ("rapid reset", rapid_reset, 20000), ("CONTINUATION", continuation, 1000),
                ("PING", lambda raw: raw.send(raw.frame(PING, 0, 0, b"x" * 8)), 20000),
                ("SETTINGS", lambda raw: raw.send(raw.frame(SETTINGS, 0, 0, struct.pack(">HI", 3, 1))), 20000),
                ("PRIORITY", lambda raw: raw.send(raw.frame(PRIORITY, 0, 1, b"\0" * 4 + b"\1")), 20000),
                ("empty DATA", empty_data, 20000)):
            flood(worker, what, send, limit)
        lib.check(worker.metric("grpc_floods_total") >= 4, "they are counted")
        lib.equal(other.status(other.call())[0], OK, "who was there before is still served")
        grown = worker.resident() - before
        lib.check(lib.SANITIZED or grown < 4096, f"{grown} KiB more")


def test_memory_is_bounded_by_what_a_client_leaves_open():
    with Worker() as worker:
        before = worker.resident()
        with Raw(worker.address) as raw:  # messages that are never whole
            raw.until(lambda frame: frame.kind == SETTINGS and frame.flags & ACK)
            streams = [raw.stream() for _ in range(60)]
            for stream in streams:
                raw.send(raw.headers(stream) + raw.frame(DATA, 0, stream, struct.pack(">BI", 0, 16384) + b"x"))
            lib.equal({raw.status(stream)[0] for stream in streams[16:]}, {RESOURCE_EXHAUSTED}, "above 256 KiB")
            for stream in streams[:16]:  # one after the other, to keep within the window
                raw.send(raw.frame(DATA, END_STREAM, stream, b"\x0a\x00" * 8191 + b"\x10"))
                lib.equal(raw.status(stream)[0], INTERNAL, "no such message, but whole")
        with Raw(worker.address, settings=[(4, 0)]) as raw:  # answers that are never read
            request = grpc_lib.ids.NextBatchRequest(count=10000).SerializeToString()
            for _ in range(14):
                stream = raw.call(BATCH, request)
                raw.until(lambda frame, stream=stream: frame.stream == stream and frame.kind == HEADERS)
            status, headers = raw.status(raw.call(BATCH, request))
            lib.equal(status, RESOURCE_EXHAUSTED, headers)
            lib.check("1048576" in headers["grpc-message"], headers)
        grown = worker.resident() - before
        lib.check(lib.SANITIZED or grown < 8192, f"{grown} KiB more")


def test_a_few_bytes_that_stand_for_many_headers_end_their_connection():
    with Worker() as worker, Raw(worker.address) as raw:
        raw.until(lambda frame: frame.kind == SETTINGS and frame.flags & ACK)
        # One entry of 3,900 bytes for the table of HPACK, and a byte for each time that it is meant.
        stream = raw.stream()
        more = 3900 - 127
        packed = raw.headers(stream)[9:] + b"\x40\1x\x7f" + bytes([more & 127 | 128, more >> 7]) + b"a" * 3900
        packed += b"\xbe" * (16384 - len(packed))
        raw.send(raw.frame(HEADERS, 0, stream, packed) + raw.frame(CONTINUATION, END_HEADERS, stream, b"\xbe" * 16384))
        _, code, text = raw.goaway()
        lib.equal((code, text), (ENHANCE_YOUR_CALM, "too_many_headers"))
        raw.closed()


def test_memory_is_bounded_by_what_all_clients_leave_open():
    with Worker() as worker:
        before = worker.resident()
        # Asked for while nothing is unread yet: each connection may come to 23 MB.
        largest = grpc_lib.ids.NextBatchRequest(count=10000, form=grpc_lib.ids.FORM_TEXT).SerializeToString()
        greedy = [Raw(worker.address, settings=[(4, 0)]) for _ in range(4)]
        for raw in greedy:
            raw.until(lambda frame: frame.kind == SETTINGS and frame.flags & ACK)
            raw.send(b"".join(raw.headers(stream, BATCH) + raw.frame(DATA, END_STREAM, stream, message(largest))
                              for stream in (raw.stream() for _ in range(100))))
        refused = greedy[-1].until(lambda frame: frame.kind == HEADERS and frame.ends(), 60)
        lib.equal(int(refused.headers["grpc-status"]), RESOURCE_EXHAUSTED, refused.headers)
        lib.check("67108864" in refused.headers["grpc-message"], refused.headers)
        with Raw(worker.address) as raw:
            lib.equal(raw.status(raw.call())[0], OK, "who has read everything is answered")
        grown = worker.resident() - before
        lib.check(lib.SANITIZED or grown < 96 * 1024, f"{grown} KiB more")
        for raw in greedy:
            raw.socket.close()


def test_clients_that_leave_in_the_middle_cost_nothing():
    # B94: the largest batch asked for, and a reset at once.
    with Worker() as worker:
        request = grpc_lib.ids.NextBatchRequest(count=10000).SerializeToString()
        for _ in range(100):
            raw = Raw(worker.address)
            for _ in range(5):
                raw.call(BATCH, request)
            raw.reset()
        worker.is_well()
        lib.wait_until(lambda: worker.metric("grpc_connections") == 0 and worker.metric("parked_requests") == 0, 20,
                       "nothing is left of them")


def test_h2load_and_nghttp_are_served():
    with Worker() as worker:
        body = worker.fleet.folder / "body"
        body.write_bytes(message())
        common = ["-d", str(body), "-H", "content-type: application/grpc", "-H", "te: trailers",
                  f"http://{worker.address}{NEXT}"]
        done = subprocess.run(["h2load", "-n", "5000", "-c", "4", "-m", "100", *common], capture_output=True, text=True,
                              errors="replace", timeout=60 * lib.SLOW, check=False)
        lib.check("5000 succeeded, 0 failed" in done.stdout, done.stdout + done.stderr)
        lib.check(worker.issued() >= 5000, "each is an ID")
        done = subprocess.run(["nghttp", "-v", *common], capture_output=True, text=True, errors="replace",
                              timeout=60 * lib.SLOW, check=False)
        lib.check("grpc-status: 0" in done.stdout and ":status: 200" in done.stdout, done.stdout + done.stderr)


def test_the_slow_are_not_waited_for():
    with Worker() as worker, Raw(worker.address, greet=False) as silent, Raw(worker.address) as raw:
        half = Raw(worker.address, greet=False)
        half.send(grpc_raw.PREFACE[:10])
        stream = raw.stream()
        raw.send(raw.headers(stream) + raw.frame(DATA, 0, stream, message()))  # and never its end
        lib.equal(raw.status(stream, 25)[0], DEADLINE_EXCEEDED)
        silent.closed(25)
        half.closed(25)
        lib.equal(raw.status(raw.call())[0], OK, "the connection itself goes on")


def test_too_many_connections_are_closed():
    with Worker("--max-connections=3") as worker:
        kept = [Raw(worker.address) for _ in range(3)]
        for raw in kept:
            lib.equal(raw.status(raw.call())[0], OK)
        with Raw(worker.address) as raw:
            raw.closed()
        lib.equal(worker.metric("grpc_refused_connections_total"), 1)
        kept.pop().socket.close()

        def served():
            with Raw(worker.address) as raw:
                return raw.status(raw.call())[0] == OK
        lib.wait_until(served, 10, "there is room again")
        for raw in kept:
            raw.socket.close()
        lib.wait_until(lambda: worker.metric("grpc_connections") == 0, 10, "all are gone")


if __name__ == "__main__":
    lib.main()
