"""B98: keep-alive pings of clients every 10 s and 30 s, for ten minutes without a call, then with calls."""

import os
import time

import grpc_lib
import lib

MINUTES = float(os.environ.get("TEST_MINUTES", "10"))


def connections(worker):
    text = worker.get("/metrics").body
    return int(text.split("\nsnowfleet_grpc_connections_total ")[1].split()[0])


def test_pings_of_ten_and_thirty_seconds_are_no_abuse():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker("--assign-wait=0s", "--max-connection-age=0s")
        worker.wait_ready()
        channels = [grpc_lib.channel(worker.grpc_address, ("grpc.keepalive_time_ms", seconds * 1000),
                                     ("grpc.keepalive_timeout_ms", 20000),
                                     ("grpc.keepalive_permit_without_calls", 1),
                                     ("grpc.http2.max_pings_without_data", 0)) for seconds in (10, 30)]
        services = [grpc_lib.IdService(channel) for channel in channels]

        def all_answer():
            for service in services:
                lib.check(service.Next(grpc_lib.ids.NextRequest(), timeout=20 * lib.SLOW).id > 0, "an ID")
        all_answer()
        lib.equal(connections(worker), 2)
        time.sleep(MINUTES * 60)  # nothing is waited for: that nothing happens is what is tested
        all_answer()
        end = time.monotonic() + MINUTES * 6
        while time.monotonic() < end:
            all_answer()
            time.sleep(0.2)
        lib.equal(connections(worker), 2, "the same connections as at first")
        for channel in channels:
            channel.close()


if __name__ == "__main__":
    lib.main()
