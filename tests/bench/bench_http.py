#!/usr/bin/env python3
"""IDs over HTTP beside redis-server, in one run: interleaved rounds, medians, ratios and server CPU.

    deploy/install-packages.sh bench
    SNOWFLEET_BIN=build/bin python3 tests/bench/bench_http.py [--rounds 5] [--seconds 2]

Needs a test build (bench_http_server, one serving thread without etcd).  The servers run on core 0, the
load generators on core 1.

  single   wrk, 50 connections, one ID a request, beside redis-benchmark -c 50 -P 1 of INCR
  batch    wrk, 4 connections, 4,096 IDs a request: share of the format's 4,096,000 IDs a second
"""

import argparse
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import lib  # pylint: disable=wrong-import-position

LIMIT = 4_096_000
CORES = sorted(os.sched_getaffinity(0))
SERVER = ["taskset", "-c", str(CORES[0])]
CLIENT = ["taskset", "-c", str(CORES[-1])]


def cpu_ns(pid):
    """On-CPU time of all threads."""
    return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"))


def run(command):
    done = subprocess.run(CLIENT + command, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def wrk(url, connections, seconds):
    text = run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", url])
    if "Non-2xx" in text:
        raise SystemExit(f"wrk: {text}")
    requests = int(re.search(r"(\d+) requests in", text).group(1))
    took = float(re.search(r"requests in ([\d.]+)s", text).group(1))
    return requests, took


def measured(pid, load):
    """load() gives (requests, seconds); adds the server's CPU in ns."""
    before = cpu_ns(pid)
    requests, took = load()
    return requests / took, (cpu_ns(pid) - before) / requests, (cpu_ns(pid) - before) / took / 1e9


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=int, default=2)
    args = arguments.parse_args()
    folder = tempfile.TemporaryDirectory(prefix="snowfleet-bench-")
    redis_port = lib.free_port()
    redis = subprocess.Popen(SERVER + ["redis-server", "--port", str(redis_port), "--bind", "127.0.0.1", "--save", "",
                                       "--appendonly", "no", "--dir", folder.name], stdout=subprocess.DEVNULL)
    ours = subprocess.Popen(SERVER + [str(lib.BIN / "bench_http_server"), "127.0.0.1:0"], stdout=subprocess.PIPE,
                            text=True)
    try:
        url = f"http://{ours.stdout.readline().strip()}/v1/ids"
        lib.wait_until(lambda: socket.create_connection(("127.0.0.1", redis_port), 1).close() is None, 5,
                       "redis-server listens")

        def incr():
            began = time.monotonic()
            count = 45000 * args.seconds
            run(["redis-benchmark", "-p", str(redis_port), "-c", "50", "-P", "1", "-n", str(count), "-q", "INCR", "a"])
            return count, time.monotonic() - began

        rows = []
        for number in range(args.rounds):
            single = measured(ours.pid, lambda: wrk(url, 50, args.seconds))
            unit = measured(redis.pid, incr)
            batch = measured(ours.pid, lambda: wrk(url + "?count=4096", 4, args.seconds))
            rows.append((single, unit, batch))
            print(f"round {number + 1}: single {single[0]:,.0f}/s {single[1] / 1000:.1f} us, redis INCR {unit[0]:,.0f}/s "
                  f"{unit[1] / 1000:.1f} us, ratio {single[0] / unit[0]:.2f}; batches {batch[0] * 4096 / LIMIT:.2%} "
                  f"of the limit, {batch[2]:.1%} of a core", flush=True)

        def spread(values, form):
            return f"{statistics.median(values):{form}} ({min(values):{form}}..{max(values):{form}})"
        print(f"medians of {args.rounds} rounds:")
        print("  single IDs, ratio to redis INCR      ", spread([s[0] / u[0] for s, u, _ in rows], ".2f"))
        print("  server CPU a request, us             ", spread([s[1] / 1000 for s, _, _ in rows], ".1f"))
        print("  redis-server's CPU an INCR, us       ", spread([u[1] / 1000 for _, u, _ in rows], ".1f"))
        print("  batches of 4,096, share of the limit ", spread([b[0] * 4096 / LIMIT for *_, b in rows], ".2%"))
        print("  share of a core for that             ", spread([b[2] for *_, b in rows], ".1%"))
    finally:
        for process in (ours, redis):
            process.send_signal(signal.SIGTERM)
            process.wait(10)
        folder.cleanup()


if __name__ == "__main__":
    main()
