"""A chronyd that says what a test wants, on a UDP port of its own of 127.0.0.1: --chrony-port=PORT.

It speaks as much of chronyd's command protocol (version 6) as the question "tracking" needs.
"""

import math
import socket
import struct
import threading

BYTES = 104
SERVER = 0x7f000001  # the reference: an IPv4 address
ITSELF = 0x7f7f0101
NORMAL, UNSYNCHRONISED = 0, 3


def number(value):
    """chronyd's floats: 7 bits of exponent, 25 of coefficient, both in two's complement."""
    if value == 0:
        return 0
    exponent = math.frexp(value)[1] + 1
    return (exponent & 0x7f) << 25 | round(math.ldexp(value, 25 - exponent)) & 0x1ffffff


def answer(sequence, stratum=3, leap=NORMAL, reference=SERVER, correction_s=0.0, dispersion_s=0.0,
           delay_s=0.0, frequency_ppm=0.0):
    """The answer to a question with that sequence number."""
    packet = bytearray(BYTES)
    struct.pack_into(">BBBBHHH", packet, 0, 6, 2, 0, 0, 33, 5, 0)
    struct.pack_into(">I", packet, 16, sequence)
    struct.pack_into(">II", packet, 28, reference, reference)
    struct.pack_into(">H", packet, 48, 1)  # the kind of address: IPv4
    struct.pack_into(">HH", packet, 52, stratum, leap)
    struct.pack_into(">I", packet, 68, number(correction_s))
    struct.pack_into(">I", packet, 80, number(frequency_ppm))
    struct.pack_into(">II", packet, 92, number(delay_s), number(dispersion_s))
    return bytes(packet)


class Chronyd:
    """reply(sequence) makes what it answers to a question of that sequence number; None: nothing.
    It may be changed at any time.  asked counts the questions so far, after whatever was answered."""

    def __init__(self, reply):
        self.reply, self.asked, self.bad_questions, self.over = reply, 0, [], False
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.1)
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.over:
            try:
                question, asker = self.socket.recvfrom(2048)
            except TimeoutError:
                continue
            version, kind = question[0], question[1]
            command, = struct.unpack_from(">H", question, 4)
            if (version, kind, command, len(question)) != (6, 1, 33, BYTES):
                self.bad_questions.append(question)
                continue
            packet = self.reply(struct.unpack_from(">I", question, 8)[0])
            if packet is not None:
                self.socket.sendto(packet, asker)
            self.asked += 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """From now on nobody listens on its port."""
        self.over = True
        self.thread.join()
        self.socket.close()
