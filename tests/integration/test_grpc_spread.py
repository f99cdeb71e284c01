"""B103: one client's calls spread over the workers behind a name, over new ones too."""

import concurrent.futures
import json
import socket
import struct
import threading
import time

import grpc

import grpc_lib
import lib


def start(fleet, *args):
    worker = fleet.worker("--assign-wait=0s", *args)
    worker.wait_ready()
    return worker


class Names:
    """A DNS server for one name, as a headless Service has it: the addresses of all its pods."""

    def __init__(self, addresses):
        self.addresses = addresses
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            query, client = self.socket.recvfrom(512)
            end = query.index(b"\0", 12) + 5  # the name, its type and class
            wanted = query[end - 4:end - 2] == b"\0\1"  # A
            addresses = self.addresses if wanted else []
            records = b"".join(struct.pack(">HHHIH", 0xc00c, 1, 1, 1, 4) + socket.inet_aton(address)
                               for address in addresses)
            counts = struct.pack(">HHHHH", 0x8580, 1, len(addresses), 0, 0)
            self.socket.sendto(query[:2] + counts + query[12:end] + records, client)


def round_robin(workers, *options):
    """One channel to all of them, as to a headless Service."""
    addresses = ",".join(worker.grpc_address for worker in workers)
    return grpc_lib.channel(f"ipv4:{addresses}", ("grpc.service_config", json.dumps(
        {"loadBalancingConfig": [{"round_robin": {}}],
         "healthCheckConfig": {"serviceName": "snowfleet.v1.IdService"}})), *options)


def machine_of(number):
    return number >> 12 & 1023


def test_calls_spread_over_workers_and_a_drained_one_is_not_missed():
    # A rolling restart as clients see it.
    with lib.Fleet() as fleet:
        fleet.init("--new")
        workers = [start(fleet) for _ in range(3)]
        machines = [worker.status()["machines"][0]["machine_id"] for worker in workers]
        with round_robin(workers) as channel:
            service = grpc_lib.IdService(channel)

            def next_id():
                return service.Next(grpc_lib.ids.NextRequest(), timeout=20, wait_for_ready=True).id
            lib.wait_until(lambda: {machine_of(next_id()) for _ in range(20)} == set(machines), 20, "all are used")
            counts = [machine_of(next_id()) for _ in range(300)]
            for machine in machines:
                lib.check(counts.count(machine) >= 30, f"{machine}: {counts.count(machine)} of 300")
            stop, failures = threading.Event(), []

            def call_on():
                n = 0
                while not stop.is_set():
                    try:
                        next_id()
                        n += 1
                    except grpc.RpcError as err:
                        failures.append((err.code(), err.details()))
                return n
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                callers = [pool.submit(call_on) for _ in range(4)]
                for worker in workers[:2]:
                    lib.equal(worker.terminate(15), 0)
                    time.sleep(0.5)
                stop.set()
                lib.check(sum(caller.result() for caller in callers) > 100, "calls went on")
            # Documented: calls in the very moment between the hand-back and the end may fail so.
            for code, _ in failures:
                lib.equal(code, grpc_lib.Code.UNAVAILABLE)
            lib.check(len(failures) <= 8, f"{len(failures)}: {failures[:8]}")


def test_new_workers_get_calls_within_the_age_of_a_connection():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        port = lib.free_port()
        hosts = [f"127.0.0.{number}" for number in range(11, 17)]

        def pods(some):
            return [start(fleet, f"--grpc-listen={host}:{port}", "--max-connection-age=3s") for host in some]
        workers = pods(hosts[:3])
        names = Names(hosts[:3])
        with grpc_lib.channel(f"dns://127.0.0.1:{names.port}/workers.test:{port}",
                              ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
                              ("grpc.dns_min_time_between_resolutions_ms", 500)) as channel:
            service = grpc_lib.IdService(channel)

            def machines(count):
                return [machine_of(service.Next(grpc_lib.ids.NextRequest(), timeout=20 * lib.SLOW,
                                                wait_for_ready=True).id) for _ in range(count)]

            def all_have_a_tenth():
                wanted = [worker.status()["machines"][0]["machine_id"] for worker in workers]
                seen = machines(60)
                return all(seen.count(machine) >= 6 for machine in wanted)
            lib.wait_until(all_have_a_tenth, 20, "each of three gets calls")
            workers += pods(hosts[3:])
            names.addresses = hosts
            lib.wait_until(all_have_a_tenth, 20, "each of six gets calls")


if __name__ == "__main__":
    lib.main()
