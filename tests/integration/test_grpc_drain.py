"""How connections end: told to stop, or too old; and that clients hardly notice."""

import concurrent.futures
import json
import struct
import threading
import time

import grpc

import grpc_lib
import grpc_raw
import lib
from grpc_raw import ACK, DATA, END_STREAM, PING, RST_STREAM, Raw, message

UNAVAILABLE = 14


def start(fleet, *args, **kwargs):
    worker = fleet.worker("--assign-wait=0s", *args, **kwargs)
    worker.wait_ready()
    return worker


def answer_ping(raw):
    ping = raw.until(lambda frame: frame.kind == PING and not frame.flags & ACK)
    raw.send(raw.frame(PING, ACK, 0, ping.payload))


def test_goaway_comes_in_two_steps_and_what_has_begun_is_answered():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = start(fleet, "--drain-timeout=10s")
        with Raw(worker.grpc_address) as raw:
            lib.equal(raw.status(raw.call())[0], 0)
            open_before, whole = raw.stream(), message(b"")
            raw.send(raw.headers(open_before))
            lib.equal(raw.status(raw.call())[0], 0, "both are with the worker")
            worker.signal(15)
            last, code, _ = raw.goaway()
            lib.equal((last, code), (2**31 - 1, 0), "nobody is refused yet")
            on_its_way = raw.stream()  # sent before the client knew
            raw.send(raw.headers(on_its_way))
            answer_ping(raw)
            last, code, _ = raw.goaway()
            lib.equal((last, code), (on_its_way, 0), "what comes later may be repeated elsewhere")
            for stream in (open_before, on_its_way):
                raw.send(raw.frame(DATA, END_STREAM, stream, whole))
                lib.equal(raw.status(stream)[0], 0)
            raw.closed()
        lib.equal(worker.wait(15), 0)


def test_a_stream_without_end_is_ended_by_a_drain_and_one_with_is_not():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = start(fleet, "--drain-timeout=10s")
        with grpc_lib.channel(worker.grpc_address) as channel:
            service = grpc_lib.IdService(channel)
            endless = service.Stream(grpc_lib.ids.StreamRequest(batch_count=10))
            next(endless)
            worker.signal(15)
            try:
                for _ in endless:
                    pass
                raise lib.Failure("it ended well")
            except grpc.RpcError as err:
                lib.equal(err.code(), grpc_lib.Code.UNAVAILABLE, err.details())
        lib.equal(worker.wait(15), 0)


def test_an_old_connection_is_ended_and_no_call_fails():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = start(fleet, "--max-connection-age=2s")
        with Raw(worker.grpc_address) as raw, grpc_lib.channel(worker.grpc_address) as channel:
            begun = time.monotonic()
            endless = raw.call(grpc_raw.STREAM, grpc_lib.ids.StreamRequest(batch_count=1).SerializeToString())
            service = grpc_lib.IdService(channel)
            numbers = []
            while time.monotonic() - begun < 7:
                numbers.append(service.Next(grpc_lib.ids.NextRequest(), timeout=20).id)
            lib.equal(numbers, sorted(set(numbers)))
            metrics = worker.get("/metrics").body
            opened = int(metrics.split("\nsnowfleet_grpc_connections_total ")[1].split()[0])
            lib.check(opened >= 3, f"{opened} connections in 7 s")
            # A stream without end has its grace, and is ended then.
            last, code, _ = raw.goaway(20)
            lib.equal((last, code), (2**31 - 1, 0))
            answer_ping(raw)
            lib.wait_until(lambda: 'snowfleet_grpc_calls_total{code="UNAVAILABLE"} 1' in worker.get("/metrics").body,
                           20, "its grace is over")
            window = struct.pack(">I", 1 << 20)
            raw.send(raw.frame(grpc_raw.WINDOW_UPDATE, 0, endless, window) +
                     raw.frame(grpc_raw.WINDOW_UPDATE, 0, 0, window))
            last = raw.until(lambda frame: frame.stream == endless and (frame.ends() or frame.kind == RST_STREAM), 40)
            lib.equal(int(last.headers["grpc-status"]), UNAVAILABLE)
            raw.closed()


def test_a_client_with_a_retry_policy_does_not_notice_a_restart():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        address = f"127.0.0.1:{lib.free_port()}"
        worker = start(fleet, f"--grpc-listen={address}")
        config = {"methodConfig": [{"name": [{"service": "snowfleet.v1.IdService"}], "waitForReady": True,
                                    "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.2s",
                                                    "maxBackoff": "2s", "backoffMultiplier": 2,
                                                    "retryableStatusCodes": ["UNAVAILABLE"]}}]}
        with grpc_lib.channel(address, ("grpc.service_config", json.dumps(config)),
                              ("grpc.initial_reconnect_backoff_ms", 200),
                              ("grpc.max_reconnect_backoff_ms", 500)) as channel:
            service = grpc_lib.IdService(channel)
            stop = threading.Event()

            def call_on():
                numbers = []
                while not stop.is_set():
                    numbers.append(service.Next(grpc_lib.ids.NextRequest(), timeout=60 * lib.SLOW).id)
                return numbers
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                caller = pool.submit(call_on)
                try:
                    lib.equal(worker.terminate(15), 0)
                    again = start(fleet, f"--grpc-listen={address}")
                    lib.wait_until(lambda: int(again.status()["machines"][0]["issued_total"]) > 0, 20,
                                   "the client is back")
                finally:
                    stop.set()
                numbers = caller.result(60)
            lib.equal(len(set(numbers)), len(numbers), "each only once")


if __name__ == "__main__":
    lib.main()
