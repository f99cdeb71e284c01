#!/usr/bin/env python3
"""Public IDs: on every way the same, one spelling, keys that change under way and keys that differ."""

import os
import random
import re

import grpc
import grpc_lib
import lib

KEY = {1: "000102030405060708090a0b0c0d0e0f", 2: "2b7e151628aed2a6abf7158809cf4f3c"}
OLD, NEW = f"1:{KEY[1]}\n", f"2:{KEY[2]}\n"
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# From unit/test_public_id.c, where they were computed with openssl and Python.
KNOWN = {("snowflake", 187354526515220487): "P12W55BXB2E1BNQBCKRPGWAPDX8H",
         ("snowflake", 0): "P12Z5J0D6MPKX3YB9BN470C8TXY8",
         ("sequence", 0): "P16X3RH9RW73KS1SDS6VCNH4SSFA",
         ("sequence", 2 ** 63 - 1): "P14CH5272TGTBDGTS49NYMN6R4WT"}


def replace(path, text, mode=0o600):
    fresh = path.with_suffix(".new")
    fresh.touch(mode=mode)
    fresh.chmod(mode)
    fresh.write_text(text)
    os.replace(fresh, path)


def start(fleet, *args, text=OLD):
    path = fleet.public_key_file(text)
    worker = fleet.worker("--assign-wait=0s", f"--public-key-file={path}", *args)
    worker.wait_ready()
    return worker, path


def encode(worker, number, kind="snowflake"):
    reply = worker.get(f"/v1/encode/{number}?kind={kind}")
    lib.equal(reply.status, 200, reply)
    return reply.json()


def decode(worker, text):
    """(kind, number) behind a public ID."""
    reply = worker.get(f"/v1/decode/{text}?kind=public")
    lib.equal(reply.status, 200, reply)
    return reply.json()["of"], int(reply.json()["number"])


def refused(reply, field, code="INVALID_ARGUMENT"):
    error = reply.json()["error"]
    lib.equal((reply.status, error["code"], error.get("field")), (400, code, field), reply)
    return error["message"]


def fingerprint(worker):
    return (worker.status()["public_keys"] or {}).get("fingerprint")


def test_every_way_makes_and_reads_the_same():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker, path = start(fleet, "--machine-ids=2", f"--unix-socket={fleet.folder}/grpc")
        option = f"--public-key-file={path}"
        with grpc_lib.channel(f"unix:{fleet.folder}/grpc") as channel:
            service = grpc_lib.IdService(channel)
            for (kind, number), text in KNOWN.items():
                told = {"kind": "public", "id": text, "key_version": 1, "of": kind, "number": str(number)}
                lib.equal(encode(worker, number, kind), told)
                lib.equal(worker.request("POST", "/v1/encode",
                                         body=f'{{"id":{number},"kind":"{kind}"}}').json(), told)
                lib.equal(fleet.ctl_json("encode", str(number), f"--kind={kind}", option), told)
                made = service.Encode(grpc_lib.ids.EncodeRequest(number=number, kind=kind))
                lib.equal((made.text, made.key_version), (text, 1))
                said = worker.get(f"/v1/decode/{text}").json()
                lib.equal({name: said.get(name) for name in told}, told)
                lib.equal("time" in said, kind == "snowflake")
                lib.equal(worker.request("POST", "/v1/decode", body=f'{{"id":"{text}"}}').json(), said)
                alone = fleet.ctl_json("decode", text, option)
                said.pop("holder", None), alone.pop("holder", None)
                lib.equal(alone, said)
                answer = service.Decode(grpc_lib.ids.DecodeRequest(text=text))
                lib.equal((answer.kind, answer.of, answer.number, answer.key_version, answer.text, answer.time),
                          ("public", kind, number, 1, text, said.get("time", "")))
            # They are Snowflakes: increasing, with a claim if asked for.
            given = worker.get("/v1/ids?kind=public&count=50&claim=1").json()
            lib.equal((given["kind"], given["count"], len(given["claim"])), ("public", 50, 32))
            lines = lib.request(worker.address, "GET", "/v1/ids?kind=public&count=50",
                                headers={"Accept": "text/plain"}).body.split()
            one = service.Next(grpc_lib.ids.NextRequest(kind="public", claim=True))
            lib.equal((one.id, len(one.claim)), (0, 32))
            batch = service.NextBatch(grpc_lib.ids.NextBatchRequest(kind="public", count=10000))
            lib.check(batch.ByteSize() < 4194304 and not batch.ids, batch.ByteSize())
            stream = [text for message in service.Stream(grpc_lib.ids.StreamRequest(
                kind="public", count=25, batch_count=10)) for text in message.texts]
            lib.equal(len(stream), 25)
            asked = fleet.ctl("next", "--kind=public", "--count=5", f"--worker=http://{worker.address}").split()
            behind = [[decode(worker, text) for text in texts]
                      for texts in (given["ids"], lines, [one.text], batch.texts[::500], stream, asked)]
            for values in behind:
                lib.equal({kind for kind, _ in values}, {"snowflake"})
                lib.equal(values, sorted(values))
            everything = [number for values in behind for _, number in values]
            lib.equal(len(set(everything)), len(everything))
            metrics = worker.get("/metrics").body
            lib.equal([sum(map(int, re.findall(rf'ids_issued_total{{kind="{kind}",loop="\d"}} (\d+)', metrics)))
                       for kind in ("public", "snowflake")], [len(lines) + 50 + 1 + 10000 + 25 + 5, 0])
            lib.equal(sum(int(machine["issued_total"]) for machine in worker.status()["machines"]), 10131)
            # Its machine ID is the worker's own.
            lib.equal(worker.get(f"/v1/decode/{given['ids'][0]}").json()["holder"], worker.name)
            try:
                service.NextBatch(grpc_lib.ids.NextBatchRequest(kind="public", count=1,
                                                                form=grpc_lib.ids.FORM_IDS))
                raise AssertionError("numbers were given")
            except grpc.RpcError as error:
                lib.check("form must be FORM_TEXT for kind public" in error.details(), error.details())


def test_only_the_one_spelling_is_read():
    """B83, over the wire; all of them in unit/test_public_id.c."""
    chance = random.Random(83)
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker, _ = start(fleet)
        for _ in range(3):
            text = encode(worker, chance.getrandbits(63))["id"]
            wrong = {text + "0" * n for n in range(1, 21)} | {text[:-1], text[1:], text.lower(), text.swapcase(),
                                                             " " + text, text + "\n", f'"{text}"', text + "-"}
            for at in range(len(text)):
                wrong.add(text[:at] + chance.choice(ALPHABET.replace(text[at], "")) + text[at + 1:])
                wrong.add(text[:at] + text[at + 1:])
                if text[at].isalpha():
                    wrong.add(text[:at] + text[at].lower() + text[at + 1:])
            for other in sorted(wrong):
                body = f'{{"id":{lib.json.dumps(other)}}}'
                refused(worker.request("POST", "/v1/decode", body=body), "id")
                refused(worker.request("POST", "/v1/decode", body=body[:-1] + ',"kind":"public"}'), "id")


def test_the_widest_numbers_go_both_ways():
    """B85"""
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker, path = start(fleet)
        seen = set()
        for kind in ("snowflake", "sequence"):
            for number in (0, 1, 2 ** 53 - 1, 2 ** 53, 2 ** 53 + 1, 2 ** 63 - 1):
                text = encode(worker, number, kind)["id"]
                lib.equal((len(text), decode(worker, text)), (28, (kind, number)))
                seen.add(text)
            for number in ("-1", str(2 ** 63), "", "01", "5 ", "1e3"):
                message = refused(worker.request(
                    "POST", "/v1/encode", body=f'{{"id":"{number}","kind":"{kind}"}}'), "id")
                lib.check("must be 0..9223372036854775807" in message, message)
                done = fleet.ctl_raw("encode", f"--kind={kind}", f"--public-key-file={path}", "--", number)
                lib.equal((done.returncode, done.stdout), (64, ""), done.stderr)
        lib.equal(len(seen), 12)


def test_keys_are_changed_without_a_gap():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker, path = start(fleet, "--machine-ids=2", f"--unix-socket={fleet.folder}/grpc")

        def everywhere(version):
            """Both serving loops encode with it, each behind some connection."""
            return all(encode(worker, 7)["key_version"] == version for _ in range(8)) and \
                worker.status()["public_keys"]["encodes"] == version
        old = encode(worker, 7)["id"]
        first = fingerprint(worker)
        replace(path, OLD + NEW)  # known, and not used
        lib.wait_until(lambda: fingerprint(worker) != first, 20, "the second key is read")
        both = fingerprint(worker)
        lib.check(everywhere(1), worker.status())
        replace(path, NEW + OLD)
        lib.wait_until(lambda: everywhere(2), 20, "the second key encodes")
        lib.equal(fingerprint(worker), both, "the same keys, in another order")
        new = encode(worker, 7)["id"]
        lib.check(new != old, new)
        for text in (old, new):
            lib.equal(decode(worker, text), ("snowflake", 7))
        with grpc_lib.channel(f"unix:{fleet.folder}/grpc") as channel:
            service = grpc_lib.IdService(channel)
            lib.equal(service.Encode(grpc_lib.ids.EncodeRequest(number=7)).text, new)
        # What cannot be used changes nothing.
        for text, mode in (("2:12\n", 0o600), (OLD, 0o644)):
            rows = len(worker.logged("public keys", "the file can be used again"))
            failed = len(worker.logged("public keys", "the file cannot be used, what was read last stays"))
            replace(path, text, mode)
            lib.wait_until(lambda: len(worker.logged(
                "public keys", "the file cannot be used, what was read last stays")) > failed, 20, "it is said")
            lib.equal((encode(worker, 7)["id"], decode(worker, old)), (new, ("snowflake", 7)))
            replace(path, NEW + OLD)
            lib.wait_until(lambda: len(worker.logged(
                "public keys", "the file can be used again")) > rows, 20, "it is said")
        replace(path, NEW)
        lib.wait_until(lambda: all(worker.get(f"/v1/decode/{old}").status == 400 for _ in range(8)), 20,
                       "the first key is gone")
        lib.check("under a key that is known here, got one of version 1" in
                  refused(worker.get(f"/v1/decode/{old}"), "id"), "it says which")
        for log in [*fleet.folder.glob("*.out"), *fleet.folder.glob("*.err")]:
            for key in KEY.values():
                lib.check(key not in log.read_text(errors="replace"), f"{log.name} holds a key")


def test_files_that_are_refused_at_the_start():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        for text, mode, reason in (("", 0o600, "it holds no key"), (f"1:{KEY[1]}x\n", 0o600, "line 1: a key is 32"),
                                   (f"{KEY[1]}\n", 0o600, "line 1: must be VERSION:KEY"),
                                   (OLD, 0o604, "its mode is 0604, and must be 0640 or stricter"),
                                   (OLD, 0o620, "its mode is 0620, and must be 0640 or stricter")):
            path = fleet.public_key_file(text)
            path.chmod(mode)
            worker = fleet.worker(f"--public-key-file={path}")
            lib.check(worker.wait(30) > 0, "it must not start")
            said = worker.errors() + worker.output()
            lib.check(f"--public-key-file: {path}: {reason}" in said and KEY[1] not in said, said)
            done = fleet.ctl_raw("encode", "1", f"--public-key-file={path}")
            lib.check(done.returncode == 64 and reason in done.stderr and KEY[1] not in done.stderr, done)
        lib.check("public IDs need --public-key-file" in fleet.ctl_raw("decode", KNOWN["sequence", 0]).stderr,
                  "the tool says so")


def test_without_keys_there_are_no_public_ids():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker("--assign-wait=0s", f"--unix-socket={fleet.folder}/grpc")
        worker.wait_ready()
        text = KNOWN["sequence", 0]
        for reply in (worker.get("/v1/ids?kind=public"), worker.get("/v1/encode/5"), worker.get(f"/v1/decode/{text}"),
                      worker.request("POST", "/v1/encode", body='{"id":5}')):
            lib.check("--public-key-file" in refused(reply, None, "FAILED_PRECONDITION"), reply)
        with grpc_lib.channel(f"unix:{fleet.folder}/grpc") as channel:
            service = grpc_lib.IdService(channel)
            for ask in (lambda: service.Next(grpc_lib.ids.NextRequest(kind="public")),
                        lambda: list(service.Stream(grpc_lib.ids.StreamRequest(kind="public", count=5))),
                        lambda: service.Encode(grpc_lib.ids.EncodeRequest(number=5)),
                        lambda: service.Decode(grpc_lib.ids.DecodeRequest(text=text))):
                try:
                    raise AssertionError(f"was answered: {ask()}")
                except grpc.RpcError as error:
                    lib.equal(error.code(), grpc_lib.Code.FAILED_PRECONDITION, error.details())
        lib.equal(worker.status()["public_keys"], None)
        lib.equal(worker.get("/v1/ids").status, 200)


def test_a_worker_with_other_keys_is_named():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        same, other = fleet.public_key_file(OLD), fleet.public_key_file(f"1:{KEY[2]}\n", "other-keys")
        workers = {name: fleet.worker("--assign-wait=0s", *([f"--public-key-file={path}"] if path else []), name=name)
                   for name, path in (("a", same), ("b", same), ("c", other), ("d", None))}
        for worker in workers.values():
            worker.wait_ready()

        def differ():
            rows = fleet.ctl_json("status")["workers"]
            return {row["identity"] for row in rows if row["public_keys_differ"]} if len(rows) == 4 else None
        lib.wait_until(lambda: differ() == {"c", "d"}, 20, "those that differ are named")
        rows = {row["identity"]: row["public_key_fingerprint"] for row in fleet.ctl_json("status")["workers"]}
        for name, worker in workers.items():
            lib.equal(rows[name], fingerprint(worker))
        lib.equal((rows["a"] == rows["b"], rows["a"] != rows["c"], rows["d"]), (True, True, None))
        said = fleet.ctl("status")
        lib.check("c has other keys for public IDs than the rest" in said and
                  "d has no keys for public IDs, and the rest has" in said, said)
        text = encode(workers["a"], 5)["id"]
        lib.equal(decode(workers["b"], text), ("snowflake", 5))
        lib.check("altered, or made under another key of version 1" in
                  refused(workers["c"].get(f"/v1/decode/{text}"), "id"), "which says what it may be")
        workers["d"].terminate()
        replace(other, OLD)
        lib.wait_until(lambda: fleet.ctl_json("status")["workers"] and not any(
            row["public_keys_differ"] for row in fleet.ctl_json("status")["workers"]), 40, "all are the same")


if __name__ == "__main__":
    lib.main()
