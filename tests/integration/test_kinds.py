#!/usr/bin/env python3
"""UUIDv4, UUIDv7 and ULID over HTTP and gRPC, and what decode and range make of them."""

import re
import threading
import time
import uuid

import clock_page
import grpc
import grpc_lib
import lib

BACK_S = (0.001, 1.001, 3601.001)
PARTS = len(BACK_S)
WIDE = ("uuidv4", "uuidv7", "ulid")
SHAPES = {"uuidv4": re.compile("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"),
          "uuidv7": re.compile("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"),
          "ulid": re.compile("[0-7][0-9A-HJKMNP-TV-Z]{25}")}


def over_http(worker, kind, count=1):
    reply = worker.get(f"/v1/ids?kind={kind}&count={count}", timeout=60)
    lib.equal(reply.status, 200, reply)
    answer = reply.json()
    lib.equal((answer["kind"], answer["count"], len(answer["ids"])), (kind, count, count))
    return answer["ids"]


def check_shape(kind, ids):
    for text in ids:
        lib.check(SHAPES[kind].fullmatch(text), f"{kind} {text}")


def refused_call(call, *fields):
    try:
        answer = call()
    except grpc.RpcError as error:
        lib.equal(error.code(), grpc_lib.Code.INVALID_ARGUMENT, error.details())
        for field in fields:
            lib.check(field in error.details(), error.details())
        return
    raise AssertionError(f"was answered: {answer}")


def test_every_kind_has_its_shape_on_every_way():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker("--assign-wait=0s", "--grpc-listen=127.0.0.1:0")
        worker.wait_ready()
        with grpc_lib.channel(worker.grpc_address) as channel:
            service = grpc_lib.IdService(channel)
            for kind in WIDE:
                check_shape(kind, over_http(worker, kind) + over_http(worker, kind, 10000))
                reply = lib.request(worker.address, "POST", "/v1/ids",
                                 body=f'{{"kind":"{kind}","count":3}}')
                check_shape(kind, reply.json()["ids"])
                lines = lib.request(worker.address, "GET", f"/v1/ids?kind={kind}&count=3",
                                 headers={"Accept": "text/plain"}).body
                lib.equal(lines.count("\n"), 3)
                check_shape(kind, lines.split())
                one = service.Next(grpc_lib.ids.NextRequest(kind=kind))
                check_shape(kind, [one.text])
                lib.equal((one.id, one.claim), (0, ""))
                # B99: a default client takes no more than 4 MiB.
                batch = service.NextBatch(grpc_lib.ids.NextBatchRequest(kind=kind, count=10000))
                lib.equal((len(batch.texts), len(batch.ids), len(batch.ranges)), (10000, 0, 0))
                lib.check(batch.ByteSize() < 4194304, batch.ByteSize())
                check_shape(kind, batch.texts)
                stream = service.Stream(grpc_lib.ids.StreamRequest(kind=kind, count=25, batch_count=10))
                lib.equal([len(message.texts) for message in stream], [10, 10, 5])
                check_shape(kind, fleet.ctl("next", f"--kind={kind}", "--count=5",
                                            f"--worker=http://{worker.address}").split())
                for field in ("claim", "commit_wait"):
                    error = worker.get(f"/v1/ids?kind={kind}&{field}=1")
                    lib.equal((error.status, error.json()["error"]["field"]), (400, field))
                    refused_call(lambda: service.Next(grpc_lib.ids.NextRequest(kind=kind, **{field: True})),
                                 field, kind)
                refused_call(lambda: service.NextBatch(grpc_lib.ids.NextBatchRequest(
                    kind=kind, count=10001)), "count must be 1..10000, got 10001")
                refused_call(lambda: service.NextBatch(grpc_lib.ids.NextBatchRequest(
                    kind=kind, count=1, form=grpc_lib.ids.FORM_RANGES)), "form must be FORM_TEXT")
        error = worker.get("/v1/ids?kind=uuidv1").json()["error"]
        lib.equal(error["message"], "kind must be snowflake, uuidv4, uuidv7, ulid, sequence or public, got uuidv1")
        issued = worker.get("/metrics").body
        for kind in WIDE:
            lib.check(f'snowfleet_ids_issued_total{{kind="{kind}",loop="0"}} 2003' in issued, kind)


class Taker(threading.Thread):
    """Takes UUIDv7 and ULID, so many answers of each between two barriers; each answer with when it was asked
    for and had.  halfway(part) is called in the middle of each part."""

    def __init__(self, ask, rounds, barrier, halfway=None):
        super().__init__()
        self.ask, self.rounds, self.barrier, self.halfway = ask, rounds, barrier, halfway
        self.taken = {"uuidv7": [], "ulid": []}
        self.failure = None

    def run(self):
        try:
            for part in range(PARTS):
                self.barrier.wait()
                for n in range(self.rounds):
                    if self.halfway and n == self.rounds // 2:
                        self.halfway(part)
                    for kind, answers in self.taken.items():
                        asked = time.monotonic()
                        ids = self.ask(kind)
                        answers.append((asked, time.monotonic(), ids))
        except threading.BrokenBarrierError:  # another one failed
            pass
        except Exception as failure:  # shown by the test
            self.failure = failure
            self.barrier.abort()


def check_order(takers, kind):
    """Every answer rises, and is above all that anybody had when it was asked for; none comes twice."""
    answers = [answer for taker in takers for answer in taker.taken[kind]]
    for _, _, ids in answers:
        lib.check(all(a < b for a, b in zip(ids, ids[1:])), f"{kind}: an answer rises")
    had = sorted((done, ids[-1]) for _, done, ids in answers)
    highest, at = "", 0
    for asked, _, ids in sorted(answers, key=lambda answer: answer[0]):
        while at < len(had) and had[at][0] < asked:
            highest, at = max(highest, had[at][1]), at + 1
        lib.check(highest < ids[0], f"{kind}: {ids[0]} was asked for when {highest} was had")
    everything = [text for _, _, ids in answers for text in ids]
    lib.equal(len(set(everything)), len(everything), f"{kind}: none comes twice")
    check_shape(kind, everything[::101])
    return len(everything)


def test_uuidv7_and_ulid_increase_whatever_the_clock_does():
    """B43, B45, B48: two million of them through two serving threads over HTTP, gRPC in batches and streams,
    and the Unix socket, the clock going back by 1 ms, 1 s and 1 h while everybody asks."""
    # How many are taken is fixed, not how long it takes.  Sanitizers are for threads, not for bulk.
    rounds, batch_count, wanted = (4, 300, 40_000) if lib.SANITIZED else (7, 10000, 2_000_000)
    with lib.Fleet() as fleet:
        fleet.init("--new")
        clock = clock_page.Clock(fleet)
        path = fleet.folder / "ids.sock"
        worker = fleet.worker("--assign-wait=0s", "--machine-ids=2", "--grpc-listen=127.0.0.1:0",
                              f"--unix-socket={path}", f"--clock-file={clock.path}")
        worker.wait_ready()
        with grpc_lib.channel(worker.grpc_address) as first, grpc_lib.channel(worker.grpc_address) as second, \
                grpc_lib.channel(f"unix:{path}") as third:

            def http(count):
                return lambda kind: over_http(worker, kind, count)

            def batch(service):
                return lambda kind: list(service.NextBatch(grpc_lib.ids.NextBatchRequest(
                    kind=kind, count=batch_count)).texts)

            def stream(service):
                return lambda kind: [text for message in service.Stream(grpc_lib.ids.StreamRequest(
                    kind=kind, count=batch_count, batch_count=batch_count // 4)) for text in message.texts]

            services = [grpc_lib.IdService(made) for made in (first, second, third)]
            asks = [http(1), http(100), http(batch_count), *map(batch, services), *map(stream, services[1:])]
            barrier = threading.Barrier(len(asks))
            takers = [Taker(ask, rounds, barrier) for ask in asks]
            takers[0].halfway = lambda part: clock.set(-BACK_S[part])
            for taker in takers:
                taker.start()
            for taker in takers:
                taker.join()
        for taker in takers:
            if taker.failure:
                raise taker.failure
        taken = [check_order(takers, kind) for kind in ("uuidv7", "ulid")]
        lib.equal(taken, [PARTS * rounds * (1 + 100 + 6 * batch_count)] * 2)
        lib.check(sum(taken) >= wanted, f"as many as asked, not {sum(taken)}")
        ahead = re.findall(r'snowfleet_id_clock_ahead_seconds\{kind="(.*)"\} (.*)',
                           worker.get("/metrics").body)
        lib.equal([kind for kind, _ in ahead], ["uuidv7", "ulid"])
        for kind, seconds in ahead:
            lib.check(3000 < float(seconds) < 3700, f"{kind} is {seconds} s ahead")


def test_kinds_without_a_machine_id_and_without_etcd():
    """B07: what needs no machine ID is served all the while."""
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=7-7")
        holder = fleet.worker("--assign-wait=0s")
        holder.wait_ready()
        claiming = fleet.worker("--assign-wait=0s")
        lib.wait_until(lambda: claiming.status()["state"] == "CLAIMING", 30, "it looks for a machine ID")
        lib.equal(claiming.get("/v1/ids").status, 503)
        lib.equal(claiming.get("/readyz").status, 503, "which speaks of Snowflakes")
        fleet.etcd.kill()
        for worker in (holder, claiming):
            for kind in WIDE:
                check_shape(kind, over_http(worker, kind, 100))
        late = fleet.worker("--assign-wait=0s")
        lib.wait_until(lambda: late.get("/livez").status == 200, 30, "it lives without etcd")
        lib.equal(late.get("/v1/ids").status, 503)
        for kind in WIDE:
            check_shape(kind, over_http(late, kind, 100))
        lib.equal(late.get(f"/v1/decode/{uuid.UUID(int=0)}").json()["note"], "the nil UUID")


def test_decode_and_range_know_every_kind():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker("--assign-wait=0s", "--grpc-listen=127.0.0.1:0")
        worker.wait_ready()
        texts = ["01arz3ndektsv4rrffq69g5fav", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "187354526515220487",
                 "C232AB00-9414-11EC-B3C8-9F6BDECED846", "ffffffff-ffff-ffff-ffff-ffffffffffff",
                 "123e4567-e89b-12d3-c456-426614174000", over_http(worker, "uuidv7")[0]]
        with grpc_lib.channel(worker.grpc_address) as channel:
            service = grpc_lib.IdService(channel)
            for text in texts:
                told = worker.get(f"/v1/decode/{text}").json()
                lib.equal(lib.request(worker.address, "POST", "/v1/decode",
                                   body=f'{{"id":"{text}"}}').json(), told)
                lib.equal(fleet.ctl_json("decode", text), told)
                answer = service.Decode(grpc_lib.ids.DecodeRequest(text=text))
                lib.equal((answer.kind, answer.text, answer.time, answer.note, answer.version),
                          (told["kind"], told["id"], told.get("time", ""), told.get("note", ""),
                           told.get("version", 0)))
            refused_call(lambda: service.Decode(grpc_lib.ids.DecodeRequest(text=texts[0], kind="uuid")),
                         "must be a UUID")
        lib.equal(told["kind"], "uuidv7")
        lib.equal(worker.get(f"/v1/decode/{texts[1]}").json()["time"], "+10889-08-02T05:31:50.655Z")
        for query, field in (("?kind=uuidv7", "id"), ("?kind=uuidv9", "kind"), ("?kind=ulid&kind=ulid", "kind"),
                             ("?id=1", None)):
            reply = worker.get(f"/v1/decode/{texts[0]}{query}")
            lib.equal((reply.status, reply.json()["error"].get("field")), (400, field), query)
        span = ("--from=2025-06-01T00:00:00Z", "--to=2025-06-01T00:00:00.001Z")
        found = fleet.ctl_json("range", "--kind=uuidv7", *span)
        lib.equal((found["smallest"], found["largest"]),
                  ("019728c9-c000-7000-8000-000000000000", "019728c9-c001-7fff-bfff-ffffffffffff"))
        found = fleet.ctl_json("range", "--kind=ulid", *span)
        lib.equal((found["smallest"], found["largest"]),
                  ("01JWMCKG000000000000000000", "01JWMCKG01ZZZZZZZZZZZZZZZZ"))
        for bound in ("smallest", "largest"):
            lib.equal(fleet.ctl_json("decode", found[bound])["time"][:19], "2025-06-01T00:00:00")
        lib.equal(fleet.ctl_raw("range", "--kind=ulid", "--epoch=2024-01-01T00:00:00Z", *span).returncode, 64)


if __name__ == "__main__":
    lib.main()
