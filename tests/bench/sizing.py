#!/usr/bin/env python3
"""What a worker and a coordinator take of memory, what a worker writes to etcd, how large a cluster's keys are
and what a login to etcd costs: figures of deploy/README.md, "Sizing" most of all.

    SNOWFLEET_BIN=build/bin python3 tests/bench/sizing.py [--seconds 60]

Memory is VmRSS, in MiB, of programs of a plain build (not of one with sanitizers).  A connection asks for
batches of 1,000 IDs, over and over for two seconds, and is still open when memory is read.  Writes are etcd's
revisions while nothing but one worker and one coordinator runs.
"""

import argparse
import http.client
import os
import pathlib
import re
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "integration"))
import lib  # pylint: disable=wrong-import-position


LOGINS = 20


def cpu_s(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mib(process):
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"^VmRSS:\s+(\d+) kB$", text, re.MULTILINE)[1]) / 1024


def with_connections(worker, number):
    """Its memory with that many connections, all of which have asked for batches."""
    connections = []
    host, port = worker.address.split(":")
    for _ in range(number):
        connections.append(http.client.HTTPConnection(host, int(port), timeout=60))
    end = time.monotonic() + 2
    while True:
        for connection in connections:
            connection.request("GET", "/v1/ids?count=1000")
        for connection in connections:
            answer = connection.getresponse()
            lib.equal((answer.status, answer.read().count(b'"') > 2000), (200, True), "a batch")
        if time.monotonic() >= end:
            break
    memory = rss_mib(worker)
    for connection in connections:
        connection.close()
    return memory


def workers():
    for machine_ids in (1, 4):
        with lib.Fleet() as fleet:
            fleet.init("--new")
            worker = fleet.worker("--assign-wait=0s", f"--machine-ids={machine_ids}")
            lib.wait_until(lambda: [each["state"] for each in worker.status()["machines"]] == ["SERVING"] * machine_ids,
                           30, "all of its machine IDs serve")
            print(f"worker, {machine_ids} machine ID(s), no clients: {rss_mib(worker):.1f} MiB", flush=True)
            for number in (100, 1000) if machine_ids == 1 else ():
                print(f"worker, {machine_ids} machine ID(s), {number} connections: "
                      f"{with_connections(worker, number):.1f} MiB", flush=True)


def coordinator_and_writes(seconds):
    with lib.Fleet() as fleet:
        fleet.init("--new")
        coordinator = fleet.coordinator()
        fleet.leader([coordinator])
        worker = fleet.worker()
        worker.wait_ready()
        revision, begun = fleet.etcd.revision(), time.monotonic()
        time.sleep(seconds)
        writes = fleet.etcd.revision() - revision
        print(f"coordinator that leads: {rss_mib(coordinator):.1f} MiB")
        print(f"etcd, one worker and the leader: {writes / (time.monotonic() - begun) * 60:.1f} revisions a minute")


def keys():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        found = fleet.etcd.prefix(fleet.key(""))
        size = sum(len(key.name) + len(key.value) for key in found)
        print(f"keys of a new cluster: {len(found)}, {size / 1e3:.0f} kB")


def login():
    with lib.Fleet() as fleet:
        user = {"name": "root", "password": "secret"}
        fleet.etcd.call("/v3/auth/user/add", user)
        fleet.etcd.call("/v3/auth/role/add", {"name": "root"})
        fleet.etcd.call("/v3/auth/user/grant", {"user": "root", "role": "root"})
        fleet.etcd.call("/v3/auth/enable", {})
        before = cpu_s(fleet.etcd.process)
        for _ in range(LOGINS):
            lib.check(fleet.etcd.call("/v3/auth/authenticate", user)["token"], "a token")
        print(f"a login to etcd: {(cpu_s(fleet.etcd.process) - before) / LOGINS * 1000:.0f} ms of computing")


def history():
    """The day of offsets is allocated whole for each worker that is heard: skew_history.h."""
    text = (ROOT / "coordinator" / "skew_history.h").read_text()
    each, most = (int(re.search(rf"#define {name} (\d+)u", text)[1])
                  for name in ("SKEW_HISTORY_NODE_BYTES", "SKEW_HISTORY_NODES_MAX"))
    for number in (500, 1024, most):
        print(f"coordinator, clock history of {number} workers: {each * number / 1e6:.1f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="how long writes are counted")
    arguments = parser.parse_args()
    workers()
    coordinator_and_writes(arguments.seconds)
    history()
    keys()
    login()


if __name__ == "__main__":
    main()
