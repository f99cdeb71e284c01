#!/usr/bin/env python3
"""IDs over gRPC beside gRPC C++ and redis-server, in one run: interleaved rounds, medians and server CPU.

    deploy/install-packages.sh build bench
    SNOWFLEET_BIN=build/gcc/bin python3 tests/bench/bench_grpc.py [--rounds 5] [--seconds 2] [--fifo]

The servers run on core 0, the load generators on core 1; CPU is the server's own, from /proc, since h2load
itself costs some 5 us a call.

  streams     h2load, 4 connections x 100 streams of Next: server CPU a call, beside grpc_peer.cc
  one         h2load, 50 connections x 1 stream of Next: calls a second, beside redis-benchmark -c 50 -P 1 INCR
  batch N     h2load, 4 connections x 2 streams of NextBatch: share of the format's 4,096,000 IDs a second, and of
              a core; beside batch_floor.c, which only waits for the milliseconds and writes as many bytes
  memory      1,000 connections that do nothing
  latency     10,000 calls a second of Next on 10 connections: p50, p99, p99.9 as h2load logs them

--fifo runs the last of these, and the batches, under the real-time scheduler, clients and floor too (it needs
CAP_SYS_NICE): who has to be awake when a millisecond begins does not wait for what else the machine does then.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import lib  # pylint: disable=wrong-import-position

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 4_096_000
CORES = sorted(os.sched_getaffinity(0))
SERVER = ["taskset", "-c", str(CORES[0])]
CLIENT = ["taskset", "-c", str(CORES[-1])]
NEXT, BATCH = "/snowfleet.v1.IdService/Next", "/snowfleet.v1.IdService/NextBatch"


def cpu_ns(pid):
    """On-CPU time of all threads, ended ones too as far as the kernel tells."""
    return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"))


def resident_kib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1))


def schedule(policy, priority, *pids):
    """All threads of the processes, and what these will start."""
    for pid in pids:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            os.sched_setscheduler(int(task.name), policy, os.sched_param(priority))


def run(command, where=CLIENT):
    done = subprocess.run(where + command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def build_peer(folder):
    """grpc_peer.cc against Debian's gRPC C++."""
    proto = ROOT / "proto"
    subprocess.run(["protoc", f"--proto_path={proto}", f"--cpp_out={folder}", f"--grpc_out={folder}",
                    "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin", "snowfleet/v1/ids.proto"], check=True)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "grpc++", "protobuf"], capture_output=True, text=True,
                           check=True).stdout.split()
    subprocess.run(["g++", "-O2", "-std=c++17", f"-I{folder}", "-o", f"{folder}/grpc_peer",
                    ROOT / "tests/bench/grpc_peer.cc", f"{folder}/snowfleet/v1/ids.pb.cc",
                    f"{folder}/snowfleet/v1/ids.grpc.pb.cc", *flags, "-pthread"], check=True)
    return f"{folder}/grpc_peer"


def build_floor(folder):
    subprocess.run(["cc", "-O2", "-std=gnu17", "-D_GNU_SOURCE", "-o", f"{folder}/batch_floor",
                    ROOT / "tests/bench/batch_floor.c"], check=True)
    return f"{folder}/batch_floor"


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


class Load:
    """h2load against one address."""

    def __init__(self, folder, address):
        self.folder, self.address = folder, address

    def body(self, count):
        """A file with Next's request (count 0), or NextBatch's."""
        message = b"\x10" + varint(count) if count else b""
        path = pathlib.Path(self.folder) / f"body-{count}"
        path.write_bytes(struct.pack(">BI", 0, len(message)) + message)
        return path

    def run(self, clients, streams, seconds, count=0, more=()):
        """(calls, seconds)"""
        text = run(["h2load", "-c", str(clients), "-m", str(streams), "-D", str(seconds), "-d", str(self.body(count)),
                    "-H", "content-type: application/grpc", "-H", "te: trailers", *more,
                    f"http://{self.address}{BATCH if count else NEXT}"])
        done, failed = re.search(r"(\d+) succeeded, (\d+) failed", text).groups()
        if int(failed) or not int(done):
            raise SystemExit(f"h2load: {text}")
        return int(done), seconds


def measured(pid, load):
    """load() gives (calls, seconds): calls a second, server CPU a call in us, share of a core."""
    before = cpu_ns(pid)
    calls, took = load()
    cpu = cpu_ns(pid) - before
    return calls / took, cpu / calls / 1000, cpu / took / 1e9


def idle_connections(pid, address, count):
    """KiB for each connection that has greeted and been greeted."""
    host, port = address.rsplit(":", 1)
    before, kept = resident_kib(pid), []
    for _ in range(count):
        connection = socket.create_connection((host, int(port)), timeout=10)
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\0\4\1\0\0\0\0")
        kept.append(connection)
    for connection in kept:
        connection.recv(64)
    time.sleep(0.2)
    grown = resident_kib(pid) - before
    for connection in kept:
        connection.close()
    return grown / count


def latency(load, seconds, folder):
    """(calls a second, p50, p99, p99.9 in ms) of 10,000 calls a second."""
    log = pathlib.Path(folder) / "latency"
    log.unlink(missing_ok=True)
    calls, took = load.run(10, 10, seconds, more=("--rps=1000", f"--log-file={log}"))
    micros = sorted(int(line.split()[2]) for line in log.read_text().splitlines())
    return (calls / took, *(micros[min(len(micros) - 1, int(len(micros) * share))] / 1000
                            for share in (0.5, 0.99, 0.999)))


def start(folder, *args):
    """A standalone worker on core 0: (process, its gRPC address)."""
    process = subprocess.Popen(SERVER + [
        str(lib.BIN / "snowfleet-worker"), "--standalone", "--init", f"--state-file={folder}/state",
        "--http-listen=127.0.0.1:0", "--grpc-listen=127.0.0.1:0", "--log-format=json", *args],
        stdout=subprocess.PIPE, text=True, env=lib.clean_env())
    grpc = http = None
    while not (grpc and http):
        entry = json.loads(process.stdout.readline())
        if entry.get("message") == "listening":
            grpc = entry["address"] if entry["subject"] == "grpc" else grpc
            http = entry["address"] if entry["subject"] == "http" else http
    lib.wait_until(lambda: lib.request(http, "GET", "/readyz").status == 200, 10, "the worker is ready")
    return process, grpc


def spread(values, form):
    return f"{statistics.median(values):{form}} ({min(values):{form}}..{max(values):{form}})"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=int, default=2)
    arguments.add_argument("--fifo", action="store_true")
    args = arguments.parse_args()
    folder = tempfile.TemporaryDirectory(prefix="snowfleet-bench-")
    peer_program, floor_program = build_peer(folder.name), build_floor(folder.name)
    redis_port, peer_port = lib.free_port(), lib.free_port()
    redis = subprocess.Popen(SERVER + ["redis-server", "--port", str(redis_port), "--bind", "127.0.0.1", "--save", "",
                                       "--appendonly", "no", "--dir", folder.name], stdout=subprocess.DEVNULL)
    peer = subprocess.Popen(SERVER + [peer_program, str(peer_port)], stdout=subprocess.PIPE, text=True)
    ours, address = start(folder.name)
    try:
        peer.stdout.readline()
        lib.wait_until(lambda: socket.create_connection(("127.0.0.1", redis_port), 1).close() is None, 5,
                       "redis-server listens")
        load, peer_load = Load(folder.name, address), Load(folder.name, f"127.0.0.1:{peer_port}")

        def incr():
            began = time.monotonic()
            count = 45000 * args.seconds
            run(["redis-benchmark", "-p", str(redis_port), "-c", "50", "-P", "1", "-n", str(count), "-q", "INCR", "a"])
            return count, time.monotonic() - began

        def floor(count):
            """As measured(): the bytes of such an answer, and as many of them as a millisecond has IDs for."""
            answer = 9 + 9 * 3 + 5 + 3 + 8 * count  # frames, the prefix, the field
            each_s, core = map(float, run([floor_program, str(answer), str(min(4, 4096 // count)), str(args.seconds),
                                           str(CORES[-1])], where=SERVER).split())
            return each_s, core / each_s * 1e4, core / 100

        memory = idle_connections(ours.pid, address, 1000)
        rows = []
        for number in range(args.rounds):
            row = {
                "streams": measured(ours.pid, lambda: load.run(4, 100, args.seconds)),
                "peer": measured(peer.pid, lambda: peer_load.run(4, 100, args.seconds)),
                "one": measured(ours.pid, lambda: load.run(50, 1, args.seconds)),
                "redis": measured(redis.pid, incr),
            }
            if args.fifo:
                schedule(os.SCHED_FIFO, 10, ours.pid, os.getpid())
            for count in (4096, 1000):
                row[f"{count}"] = measured(ours.pid, lambda count=count: load.run(4, 2, args.seconds, count))
                row[f"floor {count}"] = floor(count)
            row["latency"] = latency(load, args.seconds, folder.name)
            schedule(os.SCHED_OTHER, 0, ours.pid, os.getpid())
            rows.append(row)
            print(f"round {number + 1}: " + "; ".join(
                f"{name} {', '.join(f'{value:,.2f}' for value in values)}" for name, values in row.items()), flush=True)

        def of(name, at):
            return [row[name][at] for row in rows]
        print(f"medians of {args.rounds} rounds (smallest..largest):")
        print("  4 x 100 streams, server CPU a call, us  ", spread(of("streams", 1), ".2f"))
        print("    gRPC C++ (callback API)               ", spread(of("peer", 1), ".2f"))
        print("    calls a second                        ", spread(of("streams", 0), ",.0f"))
        print("    gRPC C++                              ", spread(of("peer", 0), ",.0f"))
        print("  50 x 1 stream, ratio to redis INCR      ", spread(
            [one / unit for one, unit in zip(of("one", 0), of("redis", 0))], ".2f"))
        print("    server CPU a call, us                 ", spread(of("one", 1), ".1f"))
        for count in (4096, 1000):
            print(f"  batches of {count:,}, share of the limit   ", spread(
                [calls * count / LIMIT for calls in of(str(count), 0)], ".2%"))
            print("    share of a core                       ", spread(of(str(count), 2), ".1%"))
            print("    the floor: answers a millisecond      ", spread(
                [each_s / 1000 for each_s in of(f"floor {count}", 0)], ".3f"))
            print("    the floor: share of a core            ", spread(of(f"floor {count}", 2), ".1%"))
        print("  KiB for an idle connection              ", f"{memory:.1f}")
        for at, name in ((1, "p50"), (2, "p99"), (3, "p99.9")):
            print(f"  {name} at 10,000 calls a second, ms".ljust(42), spread(of("latency", at), ".2f"))
    finally:
        for process in (ours, peer, redis):
            process.send_signal(signal.SIGTERM)
            process.wait(10)
        folder.cleanup()


if __name__ == "__main__":
    main()
