"""/v1/openapi.json against the running programs: what it documents is what they do, and no more."""

import http.client
import json
import re
import subprocess

import jsonschema

import lib
from clock_page import Clock

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW", "get")
ID = 187354526515220487


class Document:
    """An OpenAPI document with its references resolved."""

    def __init__(self, text):
        self.raw = json.loads(text)
        self.used = set()
        self.paths = self._resolve(self.raw["paths"])

    def _resolve(self, node):
        if isinstance(node, list):
            return [self._resolve(each) for each in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            lib.equal(set(node), {"$ref"}, "what stands beside a $ref is lost")
            self.used.add(node["$ref"])
            target = self.raw
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            return self._resolve(target)
        return {name: self._resolve(value) for name, value in node.items()}

    def operations(self):
        """(path, METHOD, operation, parameters) of each."""
        for path, item in self.paths.items():
            for method, operation in item.items():
                if method != "parameters":
                    yield (path, method.upper(), operation,
                           item.get("parameters", []) + operation.get("parameters", []))

    def methods(self, path):
        return {method.upper() for method in self.paths[path] if method != "parameters"}

    def knows(self, path):
        return any(re.fullmatch(self._pattern(known), path) for known in self.paths)

    def _pattern(self, path):
        """A path's argument is one of those listed, if there is a list."""
        for parameter in self.paths[path].get("parameters", []):
            listed = "|".join(map(re.escape, parameter["schema"].get("enum", []))) or "[^/]*"
            path = path.replace(f"{{{parameter['name']}}}", f"(?:{listed})")
        return re.sub(r"\{\w+\}", "[^/]*", path)


def strict(schema):
    """As JSON Schema, and closed: a field that is sent and not documented is an error."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: strict(value) for name, value in schema.items() if name != "nullable"}
    if schema.get("type") == "object" and "properties" in schema:
        made.setdefault("additionalProperties", False)
    return {"anyOf": [made, {"type": "null"}]} if schema.get("nullable") else made


def validates(value, schema, what):
    problems = list(jsonschema.Draft7Validator(strict(schema)).iter_errors(value))
    lib.check(not problems, f"{what}: {problems[0].message if problems else ''} in {value!r:.300}")


def ask(address, method, target, headers=(), body=None):
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=10 * lib.SLOW)
    try:
        connection.putrequest(method, target)
        for name, value in headers:
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        try:
            connection.endheaders(None if body is None else body.encode())
        except BrokenPipeError:
            pass  # refused before all of it was sent; the answer is there
        answer = connection.getresponse()
        return lib.Reply(answer.status, answer.getheaders(),
                         answer.read().decode(errors="replace"))
    finally:
        connection.close()


def conforms(reply, operation, what):
    """The answer is one of those that the operation documents, in every detail."""
    what = f"{what}: {reply.status}"
    documented = operation["responses"].get(str(reply.status))
    lib.check(documented, f"{what} is not documented: {reply}")
    for name, header in documented.get("headers", {}).items():
        value = reply.headers.get(name.lower())
        lib.check(value is not None or not header["required"], f"{what}: no {name}")
        if header["schema"]["type"] == "integer":
            value = int(value)
        validates(value, header["schema"], f"{what}: {name}")
    if "content" not in documented:
        lib.equal(reply.body, "", what)
        return
    media = documented["content"].get(reply.headers["content-type"])
    lib.check(media, f"{what}: {reply.headers['content-type']} is not documented")
    is_json = reply.headers["content-type"] == "application/json"
    validates(reply.json() if is_json else reply.body, media["schema"], what)


def document_of(daemon):
    reply = daemon.get("/v1/openapi.json")
    lib.equal(reply.status, 200)
    return Document(reply.body)


def target(path):
    return path.replace("{id}", str(ID)).replace("{file}", "fleet.js")


def good_body(path, method):
    """A body for whatever needs one."""
    return json.dumps({"id": str(ID)}) if path in ("/v1/decode", "/v1/encode") and method == "POST" else None


def every_operation(daemon, document, expected=None, **kwargs):
    """Asks each once; the answer is as documented, and has the status expected(path, operation)."""
    for path, method, operation, _ in document.operations():
        reply = ask(daemon.address, method, target(path),
                    **{"body": good_body(path, method), **kwargs})
        conforms(reply, operation, f"{method} {path}")
        if expected:
            lib.equal(reply.status, expected(path, operation), f"{method} {path}")


def other_methods_are_refused(daemon, document):
    error = strict(document._resolve(document.raw["components"]["schemas"]["Error"]))
    for path in document.paths:
        documented = document.methods(path)
        for method in METHODS:
            if method in documented:
                continue
            reply = ask(daemon.address, method, target(path))
            lib.equal(reply.status, 405, f"{method} {path}")
            lib.equal(set(reply.headers["allow"].split(", ")), documented, f"{method} {path}: Allow")
            if method != "HEAD":
                validates(reply.json(), error, f"{method} {path}")


def no_other_path_is_known(daemon, document, program):
    """Asks for everything in the program's file that could be a path."""
    data = (lib.BIN / program).read_bytes()
    found = {text.decode() for text in re.findall(rb"(?=(/[a-z0-9_/.-]{1,40})\0)", data)}
    lib.check({path for path in document.paths if "{" not in path} - {"/"} <= found,
              "the documented ones are among them")
    error = strict(document._resolve(document.raw["components"]["schemas"]["Error"]))
    host, port = daemon.address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=10 * lib.SLOW)
    for path in sorted(found | {"/", "/page/", "/page/x.js", "/v1", "/v1/", "/v1/ids/", "/V1/ids", "/metrics/x", "//livez"}):
        connection.request("GET", path)
        reply = connection.getresponse()
        body = reply.read()
        if document.knows(path):
            lib.check(reply.status != 404, f"{path} is documented")
            continue
        lib.equal(reply.status, 404, f"{path} is not documented")
        validates(json.loads(body), error, path)
    connection.close()


def is_sound(daemon, document, program):
    raw = document.raw
    lib.equal(raw["openapi"], "3.0.3")
    version = subprocess.run([lib.BIN / program, "--version"], capture_output=True, text=True,
                             check=True, env=lib.clean_env()).stdout.split()[1]
    lib.equal(raw["info"]["version"], version)
    lib.equal(daemon.get("/v1/openapi.json").headers["content-type"], "application/json")
    names = []
    for path, method, operation, parameters in document.operations():
        names.append(operation["operationId"])
        in_path = {each["name"] for each in parameters if each["in"] == "path"}
        lib.equal(in_path, set(re.findall(r"\{(\w+)\}", path)), path)
        lib.check("200" in operation["responses"], f"{method} {path} can succeed")
        for response in operation["responses"].values():
            lib.check(response["description"], f"{method} {path}")
            for media in response.get("content", {}).values():
                jsonschema.Draft7Validator.check_schema(strict(media["schema"]))
    lib.equal(len(names), len(set(names)), "operationIds differ")
    for kind, entries in raw["components"].items():
        for name in entries:
            lib.check(kind == "securitySchemes" or f"#/components/{kind}/{name}" in document.used,
                      f"{kind}/{name} is used")


# ---- the worker ----

def bounded_worker(fleet):
    """One that takes every documented argument: commit_wait needs a clock that is vouched for."""
    clock = Clock(fleet)
    clock.say(True, 0.02)
    worker = fleet.worker("--assign-wait=0s", "--clock-strategy=bounded", f"--clock-file={clock.path}",
                          f"--public-key-file={fleet.public_key_file()}")
    worker.wait_ready()
    return worker


def test_a_worker_does_what_it_documents():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--reserved=5,7-9")
        worker = fleet.worker("--assign-wait=0s", f"--public-key-file={fleet.public_key_file()}")
        worker.wait_ready()
        document = document_of(worker)
        is_sound(worker, document, "snowfleet-worker")
        every_operation(worker, document, lambda *_: 200)
        every_operation(worker, document, lambda *_: 400,
                        headers=[("Authorization", "Bearer a"), ("Authorization", "Bearer b")])
        other_methods_are_refused(worker, document)
        no_other_path_is_known(worker, document, "snowfleet-worker")
        text = ask(worker.address, "GET", "/v1/ids?count=3", [("Accept", "text/plain")])
        conforms(text, document.paths["/v1/ids"]["get"], "text")
        lib.equal(text.headers["content-type"], "text/plain; charset=utf-8")


def test_documented_bounds_of_arguments_are_the_real_ones():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        fleet.ctl("sequence", "create", LONGEST, "--mode=stride", "--shards=64")
        worker = bounded_worker(fleet)
        document = document_of(worker)
        checked = 0
        for path, method, operation, parameters in document.operations():
            for parameter in parameters:
                # What kind= of /v1/decode takes rests on the ID: test_kinds.py.
                if parameter["in"] == "query" and path == "/v1/ids":
                    check_argument(worker, path, method, operation, parameter)
                    checked += 1
        lib.check(checked >= 12, "kind, count, claim, commit_wait, name and shard of GET and of POST")
        get, post = document.paths["/v1/ids"]["get"], document.paths["/v1/ids"]["post"]
        lib.equal(document.paths["/v1/ids"]["parameters"][1]["schema"]["maximum"], 10000)
        refused(worker, "GET", "/v1/ids?other=1", get, None)
        refused(worker, "GET", "/v1/ids?count=1&count=1", get, "count")
        refused(worker, "POST", "/v1/ids?count=1", post, "count", '{"count":1}')


def test_commit_wait_is_documented_to_need_a_bounded_clock():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker("--assign-wait=0s")
        worker.wait_ready()
        document = document_of(worker)
        parameter = document.raw["components"]["parameters"]["CommitWait"]
        lib.check("--clock-strategy=bounded" in parameter["description"], parameter)
        for method, where, body in (("GET", "/v1/ids?commit_wait=1", None),
                                    ("POST", "/v1/ids", '{"commit_wait":true}')):
            operation = document.paths["/v1/ids"][method.lower()]
            refused(worker, method, where, operation, "commit_wait", body)
            reply = ask(worker.address, method, where, body=body)
            lib.equal(reply.json()["error"]["code"], "FAILED_PRECONDITION")
        lib.equal(ask(worker.address, "GET", "/v1/ids?commit_wait=0").status, 200, "asks for nothing")


def values_of(schema):
    """(those that are good, those that are not), as text."""
    if "enum" in schema:
        return schema["enum"], ["", "x", schema["enum"][0] + "x"]
    if "pattern" in schema:  # of a sequence's name
        return [LONGEST], ["", "a%20b", LONGEST + "n"]
    low, high = schema["minimum"], schema["maximum"]
    return ([str(low), str(high)], [str(low - 1), str(high + 1), "", "x", f"0{low}", f"+{low}", f"{low}.0"])


LONGEST = "n" * 64  # the name of a sequence of as many shards as there may be


def beside(name, value):
    """What an argument of sequences needs beside it."""
    if name == "shard" or (name, value) == ("kind", "sequence"):
        return f"&name={LONGEST}" + ("&kind=sequence" if name == "shard" else "&shard=0")
    return "&kind=sequence&shard=0" if name == "name" else ""


def check_argument(worker, path, method, operation, parameter):
    name, schema = parameter["name"], parameter["schema"]
    good, bad = values_of(schema)
    for value in good:
        reply = ask(worker.address, method, f"{target(path)}?{name}={value}{beside(name, value)}")
        lib.equal(reply.status, 200, f"{method} {path} {name}={value}: {reply}")
        conforms(reply, operation, f"{name}={value}")
        if name == "count":
            lib.equal(reply.json()["count"], int(value))
            lib.equal(len(reply.json()["ids"]), int(value))
        lib.equal("claim" in reply.json(), (name, value) == ("claim", "1"))
    for value in bad:
        refused(worker, method, f"{target(path)}?{name}={value.replace('+', '%2B')}"
                + beside(name, value), operation, name)
    reply = ask(worker.address, method, target(path))
    if name == "count":
        lib.equal(reply.json()["count"], schema["default"])


def refused(worker, method, where, operation, field, body=None):
    reply = ask(worker.address, method, where, body=body)
    lib.equal(reply.status, 400, f"{method} {where} {body}: {reply}")
    conforms(reply, operation, f"{method} {where}")
    lib.equal(reply.json()["error"].get("field"), field, f"{method} {where} {body}")


def test_documented_bodies_are_taken_and_others_refused():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = bounded_worker(fleet)
        document = document_of(worker)
        rows = {
            "/v1/ids": [{}, {"count": 1}, {"count": 10000}, {"count": "10000"}, {"count": 0},
                        {"count": 10001}, {"count": "10001"}, {"count": "0"}, {"count": "01"},
                        {"count": 1.5}, {"count": True}, {"count": None}, {"claim": True},
                        {"claim": 1}, {"claim": "0"}, {"claim": 2}, {"claim": "x"}, {"claim": None},
                        {"commit_wait": True}, {"commit_wait": 1}, {"commit_wait": "0"},
                        {"commit_wait": 2}, {"commit_wait": "x"}, {"commit_wait": None},
                        {"kind": "snowflake"}, {"kind": "uuid"}, {"kind": 1}, {"other": 1}, [], 1],
            "/v1/decode": [{"id": "0"}, {"id": ID}, {"id": "9223372036854775807"},
                           {"id": 9223372036854775807}, {"id": "9223372036854775808"},
                           {"id": 9223372036854775808}, {"id": "-1"}, {"id": -1}, {"id": "01"},
                           {"id": ""}, {"id": 1.5}, {"id": True}, {}, {"id": "1", "x": 1}, [],
                           {"id": "5", "kind": "sequence"}, {"id": "5", "kind": "other"}],
            "/v1/encode": [{"id": "0"}, {"id": ID}, {"id": 9223372036854775807}, {"id": "-1"}, {"id": ""},
                           {"id": "01"}, {"id": "5", "kind": "sequence"}, {"id": "5", "kind": "snowflake"},
                           {"id": "5", "kind": "ulid"}, {"id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, {}, []],
        }
        for path, bodies in rows.items():
            operation = document.paths[path]["post"]
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            validator = jsonschema.Draft7Validator(strict(schema))
            for body in bodies:
                # What text can be too large for is said by words, not by the pattern.
                good = validator.is_valid(body) and body not in (
                    {"count": "10001"}, {"id": "9223372036854775808"})
                reply = ask(worker.address, "POST", path, body=json.dumps(body))
                lib.equal(reply.status, 200 if good else 400, f"POST {path} {body}: {reply}")
                conforms(reply, operation, f"POST {path} {body}")
        empty = ask(worker.address, "POST", "/v1/ids", body="")
        lib.equal(empty.status, 200, "the body is not required")
        for value in ("0", str(2 ** 63 - 1)):
            lib.equal(ask(worker.address, "GET", f"/v1/decode/{value}").status, 200, value)
        for value in (str(2 ** 63), "-1", "01", "%2B1", "1.0", "0x1", "", "1/", "9" * 100):
            refused(worker, "GET", f"/v1/decode/{value}", document.paths["/v1/decode/{id}"]["get"],
                    "id")


def test_bodies_above_the_limit_are_refused_as_documented():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker("--assign-wait=0s")
        document = document_of(worker)
        asked = 0
        for path, method, operation, _ in document.operations():
            if "413" in operation["responses"]:
                for size, status in ((65536, 400), (65537, 413)):
                    reply = ask(worker.address, method, target(path), body="x" * size)
                    lib.equal(reply.status, status, f"{method} {path} of {size} bytes")
                    conforms(reply, operation, f"{method} {path}")
                asked += 1
        lib.equal(asked, 3)


def test_without_a_machine_id_the_answers_are_documented():
    with lib.Fleet() as fleet:  # and never initialised
        worker = fleet.worker(f"--public-key-file={fleet.public_key_file()}")
        needs_one = ("/v1/ids", "/v1/decode", "/v1/decode/{id}", "/readyz")
        lib.wait_until(lambda: worker.status()["etcd"]["requests_total"] != "0", 10, "it asked etcd")
        every_operation(worker, document_of(worker),
                        lambda path, _: 503 if path in needs_one else 200)


def test_with_tokens_what_is_documented_to_need_one_needs_one():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        tokens = lib.write_secret(fleet.folder / "tokens", "0123456789abcdef\n")
        known = [("Authorization", "Bearer 0123456789abcdef")]
        worker = fleet.worker("--assign-wait=0s", f"--client-token-file={tokens}",
                              f"--public-key-file={fleet.public_key_file()}")
        worker.wait_ready()
        document = Document(ask(worker.address, "GET", "/v1/openapi.json", known).body)
        lib.equal(document.raw["components"]["securitySchemes"]["bearer"],
                  {"type": "http", "scheme": "bearer"})

        def expected(path, operation):
            lib.equal(operation.get("security") == [], "401" not in operation["responses"], path)
            return 401 if "401" in operation["responses"] else 200
        every_operation(worker, document, expected)
        every_operation(worker, document, lambda *_: 200, headers=known)
        lib.equal(ask(worker.address, "GET", "/nothing").status, 401)


def test_above_the_connection_limit_the_answer_is_documented():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker("--assign-wait=0s", "--max-connections=1")
        worker.wait_ready()
        host, port = worker.address.rsplit(":", 1)

        def fetched():
            # The connection before this one may not be over yet.
            reply = worker.get("/v1/openapi.json")
            return reply.status == 200 and Document(reply.body)
        document = lib.wait_until(fetched, 5, "it has room")
        holder = http.client.HTTPConnection(host, int(port), timeout=10 * lib.SLOW)

        def taken():
            holder.close()
            holder.request("GET", "/livez")
            answer = holder.getresponse()
            answer.read()
            return answer.status == 200
        lib.wait_until(taken, 5, "the one connection is ours")
        every_operation(worker, document, lambda *_: 503)
        holder.close()


def test_a_standalone_worker_is_documented_too():
    with lib.Fleet(start_etcd=False) as fleet:
        worker = lib.Daemon("alone", [
            lib.BIN / "snowfleet-worker", "--standalone", "--init", "--http-listen=127.0.0.1:0",
            "--grpc-listen=127.0.0.1:0", "--identity=alone", f"--state-file={fleet.folder}/state",
            f"--public-key-file={fleet.public_key_file()}"], fleet.folder)
        fleet.processes.append(worker)
        worker.wait_ready()
        every_operation(worker, document_of(worker), lambda *_: 200)


# ---- the coordinator ----

def test_a_coordinator_does_what_it_documents():
    with lib.Fleet() as fleet:
        coordinator = fleet.coordinator("--lease-ttl=2s")
        document = document_of(coordinator)
        is_sound(coordinator, document, "snowfleet-coordinator")
        needs_meta = ("/readyz", "/v1/skew")
        every_operation(coordinator, document, lambda path, _: 503 if path in needs_meta else 200)
        fleet.init("--new")
        fleet.worker("--assign-wait=0s").wait_ready()
        fleet.leader([coordinator])
        every_operation(coordinator, document, lambda *_: 200)
        every_operation(coordinator, document, lambda *_: 400,
                        headers=[("Authorization", "Bearer a"), ("Authorization", "Bearer b")])
        other_methods_are_refused(coordinator, document)
        no_other_path_is_known(coordinator, document, "snowfleet-coordinator")
        fleet.ctl("freeze", "--reason=a test", "--yes", code=None)
        every_operation(coordinator, document)


if __name__ == "__main__":
    lib.main()
