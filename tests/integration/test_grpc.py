"""gRPC as a Python client (grpcio) uses it: IDs, streams, decoding, the clock; errors, deadlines,
cancellation."""

import threading
import time

import grpc

import grpc_lib
import lib
from clock_page import Clock

SECONDS = 20 * lib.SLOW  # a deadline that is not to be reached


def start(fleet, *args):
    """A worker that is ready, and a channel to it."""
    fleet.init("--new")
    worker = fleet.worker("--assign-wait=0s", *args)
    worker.wait_ready()
    return worker, grpc_lib.channel(worker.grpc_address)


def decode(number):
    """By plain arithmetic: Unix ms, machine ID, sequence."""
    return (number >> 22) + 1704067200000, number >> 12 & 1023, number & 4095


def expand(reply):
    """The IDs of a NextBatchResponse in any form."""
    return [*reply.ids, *(first.first + i for first in reply.ranges for i in range(first.count)),
            *map(int, reply.texts)]


def increasing(numbers):
    lib.check(all(a < b for a, b in zip(numbers, numbers[1:])), "strictly increasing")


def test_one_id_at_a_time():
    with lib.Fleet() as fleet:
        worker, channel = start(fleet)
        service = grpc_lib.IdService(channel)
        before_ms = time.time() * 1000
        numbers = [service.Next(grpc_lib.ids.NextRequest(), timeout=SECONDS).id
                   for _ in range(500)]
        after_ms = time.time() * 1000
        increasing(numbers)
        machine = worker.status()["machines"][0]
        for number in numbers:
            wall_ms, machine_id, _ = decode(number)
            lib.check(before_ms - 1 <= wall_ms <= after_ms + 1, f"{wall_ms} of {number}")
            lib.equal(machine_id, machine["machine_id"])
        lib.equal(service.Next(grpc_lib.ids.NextRequest()).claim, "")
        claimed = service.Next(grpc_lib.ids.NextRequest(kind="snowflake", claim=True))
        lib.equal(claimed.claim, machine["claim"])
        # Over HTTP they come from the same.
        lib.check(claimed.id < worker.ids(1)[0], "HTTP goes on where gRPC was")
        channel.close()


def test_commit_wait_and_the_interval():
    with lib.Fleet() as fleet:
        clock = Clock(fleet)
        clock.say(True, 0.1)
        _, channel = start(fleet, f"--clock-file={clock.path}", "--clock-strategy=bounded",
                           "--chrony-port=0")
        service = grpc_lib.IdService(channel)
        reply = service.Next(grpc_lib.ids.NextRequest(commit_wait=True), timeout=SECONDS)
        ended_ms = time.time() * 1000
        wall_ms = decode(reply.id)[0]
        lib.check(ended_ms >= wall_ms + 101, f"{ended_ms - wall_ms} ms are certainly past")
        lib.check(reply.interval.earliest_ms <= wall_ms - 100 <= wall_ms + 101
                  <= reply.interval.latest_ms < wall_ms + 200, reply)
        batches = service.Stream(grpc_lib.ids.StreamRequest(count=30, batch_count=10,
                                                            commit_wait=True), timeout=SECONDS)
        for batch in batches:
            lib.check(time.time() * 1000 >= decode(batch.ids[-1])[0] + 101, "of each message")
        try:  # the client's deadline is shorter: nothing is left behind
            service.Next(grpc_lib.ids.NextRequest(commit_wait=True), timeout=0.02)
            raise lib.Failure("it was answered")
        except grpc.RpcError as err:
            lib.equal(err.code(), grpc_lib.Code.DEADLINE_EXCEEDED)
        service.Next(grpc_lib.ids.NextRequest(commit_wait=True), timeout=SECONDS)
        channel.close()


def test_commit_wait_needs_the_strategy():
    with lib.Fleet() as fleet:
        _, channel = start(fleet)
        try:
            grpc_lib.IdService(channel).Next(grpc_lib.ids.NextRequest(commit_wait=True),
                                             timeout=SECONDS)
            raise lib.Failure("it was answered")
        except grpc.RpcError as err:
            lib.equal(err.code(), grpc_lib.Code.FAILED_PRECONDITION)
            lib.check("bounded" in err.details(), err.details())
        channel.close()


def test_batches_in_every_form_and_of_every_size():
    with lib.Fleet() as fleet:
        worker, channel = start(fleet)
        service = grpc_lib.IdService(channel)
        last = 0
        for form in (0, grpc_lib.ids.FORM_IDS, grpc_lib.ids.FORM_RANGES, grpc_lib.ids.FORM_TEXT):
            for count in (1, 2, 100, 4096, 4097, 10000):
                reply = service.NextBatch(grpc_lib.ids.NextBatchRequest(count=count, form=form),
                                          timeout=SECONDS)
                numbers = expand(reply)
                lib.equal(len(numbers), count, f"form {form}")
                increasing([last, *numbers])
                last = numbers[-1]
                filled = [bool(reply.ids), bool(reply.ranges), bool(reply.texts)]
                lib.equal(filled, [form in (0, 1), form == 2, form == 3], f"form {form}")
                # B99: the largest answer is far from what default clients refuse.
                lib.check(reply.ByteSize() < 4194304 / 10, f"{reply.ByteSize()} bytes")
        reply = service.NextBatch(grpc_lib.ids.NextBatchRequest(count=3, claim=True))
        lib.equal(reply.claim, worker.status()["machines"][0]["claim"])
        channel.close()


def test_what_is_wrong_is_named_as_over_http():
    with lib.Fleet() as fleet:
        worker, channel = start(fleet)
        service = grpc_lib.IdService(channel)
        before = worker.status()["machines"][0]["issued_total"]
        wrong = grpc_lib.Code.INVALID_ARGUMENT
        batch = grpc_lib.ids.NextBatchRequest
        for count in (0, 10001, 50000, 2**32 - 1):
            grpc_lib.refused(wrong, lambda count=count: service.NextBatch(batch(count=count)),
                             "count must be 1..10000", str(count))
        over_http = worker.get("/v1/ids?kind=nothing").json()["error"]["message"]
        for call in (lambda: service.Next(grpc_lib.ids.NextRequest(kind="nothing")),
                     lambda: service.NextBatch(batch(kind="nothing", count=1)),
                     lambda: next(service.Stream(grpc_lib.ids.StreamRequest(kind="nothing")))):
            grpc_lib.refused(wrong, call, over_http)
        for kind in (" snowflake", "Snowflake", "snowflake ", "x" * 1000, "\u00e9\n", "%41"):
            grpc_lib.refused(wrong, lambda kind=kind: service.Next(
                grpc_lib.ids.NextRequest(kind=kind)), "kind must be snowflake")
        grpc_lib.refused(wrong, lambda: service.NextBatch(batch(count=1, form=77)), "form", "77")
        grpc_lib.refused(wrong, lambda: next(service.Stream(
            grpc_lib.ids.StreamRequest(batch_count=10001))), "batch_count must be 1..10000")
        grpc_lib.refused(wrong, lambda: service.Decode(grpc_lib.ids.DecodeRequest()), "id is missing")
        grpc_lib.refused(wrong, lambda: service.Decode(grpc_lib.ids.DecodeRequest(number=-1)),
                         "number must be 0..9223372036854775807, got -1")
        for text in ("", "-1", "+5", " 5", "05", "0x10", "9223372036854775808", "\u0665"):
            grpc_lib.refused(wrong, lambda text=text: service.Decode(
                grpc_lib.ids.DecodeRequest(text=text)), "id ")
        lib.equal(worker.status()["machines"][0]["issued_total"], before, "nothing was issued")
        # Bytes that are no such message, and a method that is not there.
        raw = channel.unary_unary("/snowfleet.v1.IdService/NextBatch")
        grpc_lib.refused(grpc_lib.Code.INTERNAL, lambda: raw(b"\xff\xff\xff"), "NextBatchRequest")
        for path in ("/snowfleet.v1.IdService/Previous", "/nothing", "/snowfleet.v1.IdService/Next/"):
            grpc_lib.refused(grpc_lib.Code.UNIMPLEMENTED, lambda path=path: channel.unary_unary(path)(
                b""), path)
        grpc_lib.refused(grpc_lib.Code.RESOURCE_EXHAUSTED, lambda: service.Next(
            grpc_lib.ids.NextRequest(kind="x" * 20000)), "longer than 16384")
        channel.close()


def test_decode_says_what_http_says():
    with lib.Fleet() as fleet:
        worker, channel = start(fleet)
        service = grpc_lib.IdService(channel)
        own = service.Next(grpc_lib.ids.NextRequest()).id
        for number in (own, 0, 1, 187354526515220487, 2**63 - 1):
            expected = worker.get(f"/v1/decode/{number}").json()
            for request in (grpc_lib.ids.DecodeRequest(number=number),
                            grpc_lib.ids.DecodeRequest(text=str(number))):
                reply = service.Decode(request)
                lib.equal({"kind": reply.kind, "id": str(reply.number), "time": reply.time,
                           "timestamp_ms": str(reply.timestamp_ms),
                           "machine_id": reply.machine_id, "sequence": reply.sequence,
                           "future": reply.future,
                           **({"holder": reply.holder} if reply.holder else {}),
                           **({"ambiguous": list(reply.ambiguous)} if reply.ambiguous else {})}, expected)
        lib.equal(service.Decode(grpc_lib.ids.DecodeRequest(number=own)).holder, "worker1")
        channel.close()


TIMES = ("receive_ns", "transmit_ns", "boot_ns")
UNKNOWN = 2**63 - 1


def probed(service):
    """A probe as a dict with the names and values of /v1/clock; a field that is not there is None."""
    reply = service.Probe(grpc_lib.clock.ProbeRequest(), timeout=SECONDS)
    said = {field.name: getattr(reply, field.name) for field in reply.DESCRIPTOR.fields}
    if reply.WhichOneof("rate") is None:
        said["frequency_ppb"] = None
    for name in TIMES:
        said[name] = str(said[name])
    said["max_error_ns"] = None if said["max_error_ns"] == UNKNOWN else str(said["max_error_ns"])
    return said


def same_probes(worker, service):
    """Asks over HTTP, gRPC and HTTP: the same fields, the same values, and each time in its place.
    Returns what gRPC says."""
    first, said, last = (worker.get("/v1/clock").json(), probed(service), worker.get("/v1/clock").json())
    lib.equal(set(said), set(first))
    for name, value in said.items():
        if name in TIMES:
            lib.check(int(first[name]) <= int(value) <= int(last[name]), f"{name}: {first} {said} {last}")
        elif name == "max_error_ns" and value is not None:  # it grows until it is told anew
            lib.check(0 < int(value) < 10**9 and abs(int(value) - int(first[name])) < 10**7,
                      f"{first} {said}")
        elif name == "effective_minus_wall_ms":
            lib.check(abs(value - first[name]) < 100, f"{first} {said}")
        else:
            lib.equal(value, first[name], name)
    lib.check(int(said["receive_ns"]) <= int(said["transmit_ns"]), str(said))
    return said


def test_a_probe_says_the_same_as_over_http():
    with lib.Fleet() as fleet:
        clock = Clock(fleet)
        clock.say(True, 0.1)
        worker, channel = start(fleet, f"--clock-file={clock.path}", "--chrony-port=0",
                                "--clock-strategy=bounded", "--max-clock-error=200ms")
        service = grpc_lib.ClockService(channel)
        before_ns = time.time_ns()
        said = same_probes(worker, service)
        after_ns = time.time_ns()
        lib.check(before_ns <= int(said["receive_ns"]) <= int(said["transmit_ns"]) <= after_ns, f"{said}")
        lib.check(int(said["max_error_ns"]) >= 10**8 and said["frequency_ppb"] is not None, f"{said}")
        expected = {"synchronized": True, "source": "kernel", "trusted": True, "reason": "",
                    "strategy": "bounded", "clock_state": "normal", "effective_minus_wall_ms": 0,
                    "wants_confirmation": False, "state": "SERVING"}
        lib.equal({name: said[name] for name in expected}, expected)

        def settled(**expected):
            said = same_probes(worker, service)
            lib.equal({name: said[name] for name in expected}, expected)
            return said
        clock.say(False, 16)  # nobody vouches for anything: unknown, and not 0
        said = lib.wait_until(lambda: settled(trusted=False, max_error_ns=None, synchronized=False,
                                              clock_state="refusing"), 20, "it is unknown")
        lib.check("synchronised" in said["reason"], f"{said}")
        clock.say(True, 0.1)
        lib.wait_until(lambda: settled(trusted=True, clock_state="normal"), 20, "it is known again")
        for i in range(2):
            fleet.stub(f"peer/{i}")  # so that it is not alone
        clock.set(3600)
        said = lib.wait_until(lambda: settled(wants_confirmation=True), 20, "a step waits")
        lib.check(said["clock_state"] in ("coasting", "refusing"), f"{said}")
        lib.check(abs(said["effective_minus_wall_ms"] + 3600000) < 1000, f"{said}")
        channel.close()


def test_a_stream_ends_after_its_count():
    with lib.Fleet() as fleet:
        _, channel = start(fleet)
        service = grpc_lib.IdService(channel)
        for request, sizes in (
                (grpc_lib.ids.StreamRequest(count=1), [1]),
                (grpc_lib.ids.StreamRequest(count=2500), [1000, 1000, 500]),
                (grpc_lib.ids.StreamRequest(count=20000, batch_count=10000), [10000, 10000]),
                (grpc_lib.ids.StreamRequest(count=30, batch_count=10,
                                            form=grpc_lib.ids.FORM_RANGES), [10, 10, 10])):
            batches = [expand(reply) for reply in service.Stream(request, timeout=SECONDS)]
            lib.equal([len(batch) for batch in batches], sizes)
            increasing([number for batch in batches for number in batch])
        channel.close()


def test_a_stream_without_end_goes_at_the_clients_pace_until_cancelled():
    with lib.Fleet() as fleet:
        worker, channel = start(fleet)
        service = grpc_lib.IdService(channel)
        stream = service.Stream(grpc_lib.ids.StreamRequest(batch_count=10000))
        numbers = [number for _ in range(20) for number in next(stream).ids]
        increasing(numbers)

        def issued():
            return worker.status()["machines"][0]["issued_total"]

        # Nobody reads any more: what is issued stops growing.
        def stands_still():
            before = issued()
            time.sleep(0.3)
            return issued() == before
        lib.wait_until(stands_still, 30, "the issue stops when the client does not read")
        increasing([numbers[-1], *next(stream).ids])
        stream.cancel()
        lib.wait_until(lambda: "snowfleet_grpc_calls_total{code=\"CANCELLED\"} 1" in
                       worker.get("/metrics").body, 10, "the cancelled stream has ended")
        before = issued()
        time.sleep(0.3)
        lib.equal(issued(), before, "issued after the end")
        channel.close()


def test_many_callers_at_once_get_different_ids():
    with lib.Fleet() as fleet:
        worker, channel = start(fleet, "--machine-ids=2")
        seen = [[] for _ in range(8)]

        def take(mine):
            with grpc_lib.channel(worker.grpc_address) as own:
                service = grpc_lib.IdService(own)
                for _ in range(50):
                    mine.extend(expand(service.NextBatch(
                        grpc_lib.ids.NextBatchRequest(count=1000), timeout=SECONDS)))
                    mine.append(service.Next(grpc_lib.ids.NextRequest(), timeout=SECONDS).id)
        lib.in_parallel([lambda mine=mine: take(mine) for mine in seen])
        for mine in seen:
            lib.equal(len(mine), 50 * 1001)
        together = [number for mine in seen for number in mine]
        lib.equal(len(set(together)), len(together), "each only once")
        channel.close()


def test_a_deadline_ends_a_call_that_waits():
    with lib.Fleet() as fleet:
        _, channel = start(fleet, "--max-backward-wait=10s")
        service = grpc_lib.IdService(channel)
        # Parked behind others: the machine ID gives 4,096 a millisecond, and so many are asked for.
        calls = [service.NextBatch.future(grpc_lib.ids.NextBatchRequest(count=10000),
                                          timeout=SECONDS) for _ in range(90)]
        grpc_lib.refused(grpc_lib.Code.DEADLINE_EXCEEDED, lambda: service.NextBatch(
            grpc_lib.ids.NextBatchRequest(count=10000), timeout=0.001))
        for call in calls:
            lib.equal(len(call.result().ids), 10000)
        channel.close()


def test_cancelled_calls_leave_the_queue():
    with lib.Fleet() as fleet:
        worker, channel = start(fleet)
        service = grpc_lib.IdService(channel)
        for _ in range(5):
            calls = [service.NextBatch.future(grpc_lib.ids.NextBatchRequest(count=10000))
                     for _ in range(60)]
            for call in calls[::2]:
                call.cancel()
            for call in calls[1::2]:
                lib.equal(len(call.result(SECONDS).ids), 10000)
        lib.wait_until(lambda: "snowfleet_parked_requests 0" in worker.get("/metrics").body, 10,
                       "nobody waits")
        service.Next(grpc_lib.ids.NextRequest(), timeout=SECONDS)
        channel.close()


def test_without_a_machine_id_calls_are_told_when_to_try_again():
    with lib.Fleet() as fleet:
        worker = fleet.worker()  # of a cluster that nobody initialised
        with grpc_lib.channel(worker.grpc_address) as channel:
            service = grpc_lib.IdService(channel)
            metadata = grpc_lib.refused(grpc_lib.Code.UNAVAILABLE, lambda: service.Next(
                grpc_lib.ids.NextRequest(), timeout=SECONDS), "no machine ID yet")
            lib.equal(metadata["grpc-retry-pushback-ms"], "1000")
            grpc_lib.refused(grpc_lib.Code.UNAVAILABLE, lambda: next(service.Stream(
                grpc_lib.ids.StreamRequest(), timeout=SECONDS)), "no machine ID yet")


def test_tokens_are_asked_for_but_not_for_health():
    with lib.Fleet() as fleet:
        token = "token-a-0123456789abcdef"
        path = lib.write_secret(fleet.folder / "tokens", token)
        fleet.init("--new")
        worker = fleet.worker("--assign-wait=0s", f"--client-token-file={path}")
        worker.wait_ready()
        with grpc_lib.channel(worker.grpc_address) as channel:
            service = grpc_lib.IdService(channel)
            request = grpc_lib.ids.NextRequest()
            for metadata in ((), (("authorization", "Bearer " + "x" * 20),),
                             (("authorization", token),),
                             (("authorization", f"Bearer {token}"),) * 2):
                for call in (service.Next, channel.unary_unary("/nothing",
                                                               lambda _: b"")):
                    grpc_lib.refused(grpc_lib.Code.UNAUTHENTICATED, lambda metadata=metadata, call=call: call(
                        request, metadata=metadata), "token")
            reply = service.Next(request, metadata=(("authorization", f"bearer {token}"),))
            lib.check(reply.id > 0, "a known token")
            lib.equal(grpc_lib.Health(channel).Check(grpc_lib.health.HealthCheckRequest()).status,
                      grpc_lib.health.HealthCheckResponse.SERVING)
            other = "token-b-0123456789abcdef"
            path.write_text(other)
            grpc_lib.retry(grpc_lib.Code.UNAUTHENTICATED, lambda: service.Next(
                request, metadata=(("authorization", f"Bearer {other}"),)), 10, "the new token")
            grpc_lib.refused(grpc_lib.Code.UNAUTHENTICATED, lambda: service.Next(
                request, metadata=(("authorization", f"Bearer {token}"),)))


def test_a_unix_socket_serves_the_same():
    with lib.Fleet() as fleet:
        path = fleet.folder / "snowfleet.sock"
        fleet.init("--new")
        worker = fleet.worker("--assign-wait=0s", f"--unix-socket={path}", "--grpc-listen=")
        worker.wait_ready()
        with grpc_lib.channel(f"unix:{path}") as channel:
            lib.check(grpc_lib.IdService(channel).Next(grpc_lib.ids.NextRequest()).id > 0, "an ID")
            second = fleet.worker(f"--unix-socket={path}", "--grpc-listen=")
            lib.equal(second.wait(10), 1, "the path is in use")
            lib.check("in use" in second.errors() and str(path) in second.errors(), second.errors())
        worker.kill()
        lib.check(path.exists(), "a killed worker leaves it behind")
        third = fleet.worker("--assign-wait=0s", f"--unix-socket={path}", "--grpc-listen=")
        third.wait_ready()
        with grpc_lib.channel(f"unix:{path}") as channel:
            lib.check(grpc_lib.IdService(channel).Next(grpc_lib.ids.NextRequest()).id > 0, "an ID")
        lib.equal(third.terminate(), 0)
        lib.check(not path.exists(), "removed at the end")
        path.write_text("a file")
        fourth = fleet.worker(f"--unix-socket={path}", "--grpc-listen=")
        lib.equal(fourth.wait(10), 1, "a file is no socket")
        lib.equal(path.read_text(), "a file")


if __name__ == "__main__":
    lib.main()
