"""The page of common/clock.h, which bends the clocks of a worker in a test build."""

import mmap
import struct

SEQUENCE, WALL, BOOT, ANCHOR, RATE, GIVEN, SYNCHRONIZED, MAX_ERROR, EST_ERROR = range(9)
SECOND = 1_000_000_000


class Clock:
    """A page of its own for each worker that is to have its own clock.

    set() gives the wall clock's offset from this machine's, in seconds; say() what the kernel is to
    think of it.  Without say() the kernel is asked.
    """

    def __init__(self, fleet, name="clock", offset_s=0):
        self.path = fleet.folder / name
        self.path.write_bytes(bytes(72))
        self.fields = [0] * 9
        self.set(offset_s)

    def _write(self):
        """One write, so that it shows as one event, with the sequence odd meanwhile: the reader maps
        the file and must not take half of it."""
        with open(self.path, "r+b", buffering=0) as file:
            self.fields[SEQUENCE] += 1
            with mmap.mmap(file.fileno(), 72) as page:
                page[0:8] = struct.pack("=q", self.fields[SEQUENCE])
                page[8:72] = struct.pack("=8q", *self.fields[1:])
            self.fields[SEQUENCE] += 1
            file.write(struct.pack("=q", self.fields[SEQUENCE]))  # inotify sees writes, not maps

    def set(self, offset_s):
        self.fields[WALL] = int(offset_s * SECOND)
        self._write()

    def say(self, synchronized, max_error_s, est_error_s=0.0001):
        self.fields[GIVEN:] = [1, int(synchronized), int(max_error_s * SECOND),
                               int(est_error_s * SECOND)]
        self._write()

    def suspend(self, seconds):
        """Both clocks jump ahead, as after a suspend."""
        self.fields[WALL] += int(seconds * SECOND)
        self.fields[BOOT] += int(seconds * SECOND)
        self._write()
