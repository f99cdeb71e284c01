"""State files as a stranger reads and bends them: the layout of common/state_record.h."""

import pathlib
import struct
import zlib

import lib

BLOCK = 4096
CRC_AT = BLOCK - 4
STANDALONE, CLUSTER = 1, 2


class Record:
    """One block; None fields when it is not valid."""

    def __init__(self, block):
        self.valid = len(block) == BLOCK and block[:16] == b"snowfleet-state\n" and \
            struct.unpack("<I", block[CRC_AT:])[0] == zlib.crc32(block[:CRC_AT])
        if not self.valid:
            return
        self._at, self._block = 16, block
        self.format, self.kind, self.sequence = self._take("<IIQ")
        self.host = self._text()
        (self.epoch_ms,) = self._take("<Q")
        if self.kind == STANDALONE:
            self.machine_id, self.horizon_ms = self._take("<HQ")
            return
        self.cluster, self.era = self._text(), self._hex()
        self.earlier_eras = [self._hex() for _ in range(self._take("<B")[0])]
        self.range = self._take("<HH")
        bits = self._take("<128s")[0]
        self.reserved = [i for i in range(1024) if bits[i // 8] >> i % 8 & 1]
        (self.revision,) = self._take("<Q")
        self.machines = []
        for _ in range(self._take("<B")[0]):
            machine_id, claim = self._take("<H")[0], self._hex()
            granted_ms, pending_ms = self._take("<QQ")
            self.machines.append({"machine_id": machine_id, "claim": claim,
                                  "granted_ms": granted_ms, "pending_ms": pending_ms})

    def _take(self, form):
        values = struct.unpack_from(form, self._block, self._at)
        self._at += struct.calcsize(form)
        return values

    def _text(self):
        return self._take(f"<{self._take('<B')[0]}s")[0].decode()

    def _hex(self):
        return self._take("<16s")[0].hex()


class File:
    """A state file on disk."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def __str__(self):
        return str(self.path)

    def records(self):
        """Both, as they are now."""
        content = self.path.read_bytes()
        return [Record(content[i * BLOCK:(i + 1) * BLOCK]) for i in range(2)]

    def newest(self):
        valid = [record for record in self.records() if record.valid]
        lib.check(valid, f"{self.path}: no record is valid")
        return max(valid, key=lambda record: record.sequence)

    def patch(self, at, content):
        """Overwrites bytes in place."""
        with open(self.path, "r+b") as file:
            file.seek(at)
            file.write(content)

    def flip(self, at):
        self.patch(at, bytes([self.path.read_bytes()[at] ^ 0x10]))

    def move_to_host(self, host):
        """As if both records had been written on a host of that name, of the same length."""
        for i in range(2):
            block = bytearray(self.path.read_bytes()[i * BLOCK:(i + 1) * BLOCK])
            lib.equal(block[32], len(host), "the length of the host's name")
            block[33:33 + len(host)] = host.encode()
            block[CRC_AT:] = struct.pack("<I", zlib.crc32(block[:CRC_AT]))
            self.patch(i * BLOCK, block)
