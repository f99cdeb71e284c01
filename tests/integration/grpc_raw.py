"""HTTP/2 frame by frame, for what no well-behaved client does.  Headers are packed by python3-hpack,
everything else here is bytes on a socket."""

import select
import socket
import struct
import time

import hpack

import lib

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, \
    CONTINUATION = range(10)
END_STREAM = ACK = 1
END_HEADERS, PADDED = 4, 8
NO_ERROR, PROTOCOL_ERROR, ENHANCE_YOUR_CALM = 0, 1, 11
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NEXT = "/snowfleet.v1.IdService/Next"
BATCH = "/snowfleet.v1.IdService/NextBatch"
STREAM = "/snowfleet.v1.IdService/Stream"


class Frame:
    def __init__(self, kind, flags, stream, payload):
        self.kind, self.flags, self.stream, self.payload = kind, flags, stream, payload
        self.headers = None

    def ends(self):
        return bool(self.flags & END_STREAM) and self.kind in (DATA, HEADERS)

    def __repr__(self):
        return f"<{self.kind} {self.flags:#x} {self.stream} {self.headers or self.payload[:80]}>"


class Closed(lib.Failure):
    """The other side has closed the connection."""


def message(payload=b"", flag=0):
    return struct.pack(">BI", flag, len(payload)) + payload


class Raw:
    """A connection.  greet=False: nothing is sent yet."""

    def __init__(self, address, greet=True, settings=()):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=10 * lib.SLOW)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.frames = []
        self.next_stream = 1
        if greet:
            self.send(PREFACE + self.frame(SETTINGS, 0, 0, b"".join(
                struct.pack(">HI", *pair) for pair in settings)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    # ---- out ----

    def send(self, data):
        self.socket.sendall(data)

    @staticmethod
    def frame(kind, flags, stream, payload=b""):
        return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload

    def headers(self, stream, path=NEXT, flags=END_HEADERS, extra=(), **changed):
        """A HEADERS frame of a call; changed: method="GET", content_type=None and the like."""
        fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "test",
                  "content-type": "application/grpc", "te": "trailers"}
        for name, value in changed.items():
            name = {"method": ":method"}.get(name, name.replace("_", "-"))
            fields[name] = value
        packed = self.encoder.encode([(name, value) for name, value in
                                      [*fields.items(), *extra] if value is not None])
        return self.frame(HEADERS, flags, stream, packed)

    def stream(self):
        self.next_stream += 2
        return self.next_stream - 2

    def call(self, path=NEXT, payload=b"", **changed):
        """Sends a whole call and returns its stream."""
        stream = self.stream()
        self.send(self.headers(stream, path, **changed) +
                  self.frame(DATA, END_STREAM, stream, message(payload)))
        return stream

    # ---- in ----

    def read(self, timeout=10):
        """The next frame; SETTINGS are acknowledged on the way."""
        deadline = time.monotonic() + timeout * lib.SLOW
        while True:
            frame = self._take()
            if frame:
                return frame
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.socket], [], [], left)[0]:
                raise lib.Failure(f"no frame within {timeout * lib.SLOW} s")
            try:
                more = self.socket.recv(65536)
            except ConnectionError:
                more = b""
            if not more:
                raise Closed("closed")
            self.buffer += more

    def _take(self):
        if len(self.buffer) < 9:
            return None
        length = int.from_bytes(self.buffer[:3], "big")
        if len(self.buffer) < 9 + length:
            return None
        kind, flags, stream = struct.unpack(">BBI", self.buffer[3:9])
        frame = Frame(kind, flags, stream, self.buffer[9:9 + length])
        self.buffer = self.buffer[9 + length:]
        if kind == HEADERS:
            lib.check(flags & END_HEADERS, "short headers come in one frame")
            frame.headers = dict(self.decoder.decode(frame.payload))
        elif kind == SETTINGS and not flags & ACK:
            try:
                self.send(self.frame(SETTINGS, ACK, 0))
            except OSError:
                pass  # it has closed, which the next read shows
        self.frames.append(frame)
        return frame

    def until(self, wanted, timeout=10):
        """Reads up to the first frame that is wanted, which is returned."""
        deadline = time.monotonic() + timeout * lib.SLOW
        while True:
            frame = self.read(max(0.01, (deadline - time.monotonic()) / lib.SLOW))
            if wanted(frame):
                return frame

    def answer(self, stream, timeout=10):
        """Reads a call to its end: its frames."""
        def over(frame):
            return frame.stream == stream and (frame.ends() or frame.kind == RST_STREAM)
        if not any(over(frame) for frame in self.frames):
            self.until(over, timeout)
        return [frame for frame in self.frames if frame.stream == stream]

    def status(self, stream, timeout=10):
        """(grpc-status, the last headers) of a call."""
        last = self.answer(stream, timeout)[-1]
        lib.check(last.headers, f"ends in headers: {last}")
        return int(last.headers["grpc-status"]), last.headers

    def goaway(self, timeout=10):
        """Reads up to GOAWAY: (last stream, code, text)."""
        frame = self.until(lambda each: each.kind == GOAWAY, timeout)
        last, code = struct.unpack(">II", frame.payload[:8])
        return last, code, frame.payload[8:].decode()

    def closed(self, timeout=10):
        """Reads until the other side closes; the codes of GOAWAY on the way."""
        codes = []
        try:
            while True:
                frame = self.read(timeout)
                if frame.kind == GOAWAY:
                    codes.append(struct.unpack(">II", frame.payload[:8])[1])
        except Closed:
            return codes

    def reset(self):
        """RST on the TCP level."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
