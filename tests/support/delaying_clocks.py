#!/usr/bin/env python3
"""Many clocks in one process: what /v1/clock of that many workers would say whose clocks are off by known
amounts, behind paths that are slow, each way by itself.

    tests/support/delaying_clocks.py --nodes 250 --seed 7

Prints one line of JSON, a list of {"address", "offset_ns", "there_ms", "back_ms"}, and answers until it is
killed.  Each exchange takes at least the delays of its node, and up to a third more, each way 400 ms at
most.  All on loopback.
"""

import argparse
import asyncio
import json
import random
import time

CLOCK_MAX_NS = (2**63 - 1) // 2  # what the prober takes for a time
HOUR_NS = 3600 * 10**9


def offsets(chance, nodes):
    """Of both signs and all sizes; most of them within half an hour, so that a majority agrees with an
    allowed offset of an hour; the first two as far away as a clock can be."""
    now = time.time_ns()
    yield from (HOUR_NS - now, CLOCK_MAX_NS - HOUR_NS - now)
    for _ in range(nodes - 2):
        largest = 17 if chance.random() < 0.2 else 12
        yield int(chance.choice((1, -1)) * 10 ** chance.uniform(3, largest))


def delays(chance):
    """Seconds there and back: up to 400 ms the longer one, and anything below that the other."""
    longer = 10 ** chance.uniform(-5, -0.4)
    shorter = 10 ** chance.uniform(-5, 0) * longer
    return (longer, shorter) if chance.random() < 0.5 else (shorter, longer)


class Node:
    def __init__(self, chance, offset_ns, delay_s):
        self.chance, self.offset_ns = chance, offset_ns
        self.there_s, self.back_s = (delay_s, delay_s) if delay_s else delays(chance)

    def now(self):
        return time.time_ns() + self.offset_ns

    async def pause(self, seconds):
        await asyncio.sleep(max(seconds, min(0.4, seconds * self.chance.uniform(1, 4 / 3))))

    async def serve(self, reader, writer):
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await self.pause(self.there_s)
                received = self.now()
                body = json.dumps({
                    "receive_ns": str(received), "transmit_ns": str(self.now()),
                    "boot_ns": str(time.clock_gettime_ns(time.CLOCK_BOOTTIME)), "max_error_ns": None,
                    "synchronized": True, "source": "kernel", "trusted": False, "frequency_ppb": 0})
                await self.pause(self.back_s)
                writer.write((f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                              f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


async def run(args):
    chance = random.Random(args.seed)
    nodes, servers = [], []
    for offset_ns in offsets(chance, args.nodes):
        node = Node(random.Random(chance.random()), offset_ns, args.delay)
        server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        servers.append(server)
        nodes.append({"address": f"127.0.0.1:{port}", "offset_ns": offset_ns,
                      "there_ms": node.there_s * 1000, "back_ms": node.back_s * 1000})
    print(json.dumps(nodes), flush=True)
    await asyncio.Event().wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=250)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--delay", type=float, help="of all, each way, in seconds")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
