#!/usr/bin/env python3
"""What 1,024 held machine IDs ask of one etcd: the rate and the latency of their extensions, etcd's CPU,
and by how much its database grows in a day.

    SNOWFLEET_BIN=build/bin python3 tests/bench/holders.py [--seconds 60] [--dir DIR]

Needs a test build (stub_holders).  etcd runs alone, with its data on a real disk and with fsync.  At
the default window of 60 s every holder extends each 20 s; "x10" is the same with a window of 6 s.
"in use" is what the database really holds, "file" what it takes on disk, which never shrinks by itself.
"load" is the machine's: when others work on it too, latencies say more about them.
"""

import argparse
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import holders  # pylint: disable=wrong-import-position
import lib  # pylint: disable=wrong-import-position

# So often that a measured minute sees several; with 10m etcd keeps 60 times as much history.
COMPACTION = ["--auto-compaction-mode=periodic", "--auto-compaction-retention=10s"]


class DiskEtcd(lib.Etcd):
    """As an operator runs it."""

    def __init__(self, fleet, folder, *args):  # pylint: disable=super-init-not-called
        self.name, self.folder = "etcd", fleet.folder
        self.client_port, self.peer_port = lib.free_port(), lib.free_port()
        peer = f"http://127.0.0.1:{self.peer_port}"
        self.process = lib.Process("etcd", [
            "etcd", "--name=etcd", f"--data-dir={folder}/etcd.data", f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}", f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=etcd={peer}", *args,
        ], fleet.folder, {"ETCD_UNSUPPORTED_ARCH": "arm64"})
        lib.check(self._came_up(), f"etcd starts: {self.process.errors()[-2000:]}")

    def database(self):
        """(bytes in use, bytes of the file)"""
        metrics = lib.request(self.address, "GET", "/metrics").body
        return tuple(float(re.search(rf"^{name} (\S+)$", metrics, re.MULTILINE).group(1)) for name in (
            "etcd_mvcc_db_total_size_in_use_in_bytes", "etcd_mvcc_db_total_size_in_bytes"))

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def snapshot(etcd):
    in_use, file = etcd.database()
    return {"revision": etcd.revision(), "in_use": in_use, "file": file, "cpu_s": etcd.cpu_s(),
            "at": time.monotonic()}


def measure(name, seconds, folder, window_s, etcd_args, skip):
    """One etcd, one report of the stubs after skip others; prints a row of the table.  The claims are
    spread over a third of the window, so from the first moment extensions come at an even rate."""
    with lib.Fleet(start_etcd=False) as fleet:
        fleet.etcd = etcd = DiskEtcd(fleet, folder, *etcd_args)
        try:
            fleet.init("--new")
            stubs = holders.start(fleet, f"--window={window_s}s", f"--spread={window_s // 3}s",
                                  f"--report={seconds}s")
            stubs.wait_held(window_s + 60)
            if skip:
                lib.wait_until(lambda: len(stubs.reports()) == skip, 2 * seconds * skip, "a report", 0.01)
            before = snapshot(etcd)
            lib.wait_until(lambda: len(stubs.reports()) > skip, 2 * seconds, "a report", 0.01)
            report, after = stubs.reports()[skip], snapshot(etcd)
            lib.equal((report["held"], report["lost"]), (1024, 0), "held, lost")
            print_row(name, report, before, after)
            stubs.terminate(30)
        finally:
            etcd.kill()
            shutil.rmtree(f"{folder}/etcd.data", ignore_errors=True)


def print_row(name, report, before, after):
    took = after["at"] - before["at"]
    days = took / 86400
    revisions = after["revision"] - before["revision"]
    print(f"{name:26} {report['per_1000_s'] / 1000:8.1f} {report['p50_us'] / 1000:8.1f} "
          f"{report['p99_us'] / 1000:8.1f} {report['max_us'] / 1000:8.1f} {report['failures']:6} "
          f"{(after['cpu_s'] - before['cpu_s']) / took * 100:6.0f} {revisions / took:8.1f} "
          f"{(after['in_use'] - before['in_use']) / days / 1e6:9.0f} "
          f"{(after['file'] - before['file']) / days / 1e6:9.0f} {after['file'] / 1e6:7.1f} "
          f"{os.getloadavg()[0]:6.1f}", flush=True)


ROWS = [
    ("window 60 s", 60, [], 0),
    ("window 60 s, compacted", 60, COMPACTION, 1),
    ("x10: window 6 s", 6, [], 0),
    ("x10: window 6 s, compacted", 6, COMPACTION, 1),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="how long each row is measured")
    parser.add_argument("--dir", help="where etcd's data goes; default: a temporary folder")
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="holders-", dir=arguments.dir)
    try:
        print(f"{'':26} {'extens.':>8} {'p50':>8} {'p99':>8} {'max':>8} {'failed':>6} {'etcd':>6} "
              f"{'revis.':>8} {'in use':>9} {'file':>9} {'file':>7} {'load':>6}\n"
              f"{'1,024 holders':26} {'/s':>8} {'ms':>8} {'ms':>8} {'ms':>8} {'':>6} {'cpu %':>6} "
              f"{'/s':>8} {'MB/day':>9} {'MB/day':>9} {'MB':>7}", flush=True)
        for name, window_s, etcd_args, skip in ROWS:
            measure(name, arguments.seconds, folder, window_s, etcd_args, skip)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
