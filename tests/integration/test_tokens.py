"""Bearer tokens: who gets in, how they change under way, and that nobody else gets to see them."""

import http.client
import os
import threading
import time

import lib
import load

A = "token-a-0123456789abcdef"
B = "token-b-0123456789abcdef"
C = "token-c-0123456789abcdef"
CHANGE_S = 3  # the file is looked at once a second
UNUSABLE = "the file cannot be used, what was read last stays"
PROTECTED = ("/v1/ids", "/v1/decode/1", "/v1/status", "/v1/clock", "/v1/openapi.json", "/metrics",
             "/nothing", "/")


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def replace(path, text):
    """As careful programs do."""
    fresh = path.with_suffix(".new")
    lib.write_secret(fresh, text)
    os.replace(fresh, path)


def start(fleet, *args, text=f"# clients\n{A}\n"):
    """(worker, its file of tokens), the worker ready."""
    fleet.init("--new")
    path = lib.write_secret(fleet.folder / "tokens", text)
    worker = fleet.worker("--assign-wait=0s", f"--client-token-file={path}", *args)
    worker.wait_ready()
    # Ready means that one loop serves; a connection may land on any of them.
    token = next((line for line in text.splitlines() if line and not line.startswith("#")), A)
    lib.wait_until(lambda: all(machine["state"] == "SERVING" for machine in worker.get(
        "/v1/status", headers=bearer(token)).json()["machines"]), 20, "every loop serves")
    return worker, path


def status_of(worker, token):
    return worker.get("/v1/ids", headers=bearer(token)).status


def wait_known(worker, **expected):
    """Until each token is let in or not, as expected."""
    tokens = {"a": A, "b": B, "c": C}
    lib.wait_until(lambda: all((status_of(worker, tokens[name]) == 200) == known
                               for name, known in expected.items()), CHANGE_S, f"{expected}")


def nothing_leaked(fleet):
    for path in [*fleet.folder.glob("*.out"), *fleet.folder.glob("*.err")]:
        text = path.read_text(errors="replace")
        for token in (A, B, C):
            lib.check(token not in text, f"{path.name} holds a token")


def issued(worker):
    return worker.get("/v1/status", headers=bearer(A)).json()["machines"][0]["issued_total"]


def refused(reply, what):
    lib.equal(reply.status, 401, what)
    lib.equal(reply.headers["www-authenticate"], "Bearer", what)
    error = reply.json()["error"]
    lib.equal(error["code"], "UNAUTHENTICATED", what)
    for token in (A, B, C):
        lib.check(token not in reply.body, f"{what}: the token is repeated")


def test_without_a_known_token_nothing_is_told_and_nothing_issued():
    with lib.Fleet() as fleet:
        worker, _ = start(fleet)
        before = issued(worker)
        for path in PROTECTED:
            refused(worker.get(path), f"none for {path}")
            refused(worker.get(path, headers=bearer(B)), f"a wrong one for {path}")
            reply = worker.request("HEAD", path)
            lib.equal((reply.status, reply.body), (401, ""), f"HEAD {path}")
        for method in ("POST", "PUT", "DELETE"):
            refused(worker.request(method, "/v1/ids"), method)
        for value in ("", "Bearer", "Bearer ", A, f"Basic {A}", f"Bearer {A[:-1]}", f"Bearer {A}x",
                      f"Bearer {A.upper()}", f"Bearer {A} x", f"Bearer {A},Bearer {A}",
                      f"Bearer {A} " + "x" * 300, "Bearer " + "x" * 8000, f"Bearer\t{A}",
                      f"Bearer \"{A}\""):
            refused(worker.get("/v1/ids?count=100", headers={"Authorization": value}), value[:40])
        refused(worker.get(f"/v1/ids?token={A}&access_token={A}"), "in the query")
        refused(worker.get("/v1/ids", headers={"Cookie": f"Bearer {A}"}), "in a cookie")
        lib.equal(issued(worker), before, "issued meanwhile")
        metrics = worker.get("/metrics", headers=bearer(A)).body
        counted = [line for line in metrics.splitlines()
                   if line.startswith("snowfleet_http_unauthenticated_total ")]
        lib.check(int(counted[0].split()[1]) >= 3 * len(PROTECTED), f"{counted}")
        nothing_leaked(fleet)


def test_a_known_token_gets_in_however_the_scheme_is_spelt():
    with lib.Fleet() as fleet:
        worker, _ = start(fleet, text=f"{A}\r\n\n# next\n  {B}")
        for scheme in ("Bearer", "bearer", "BEARER", "bEaReR", "Bearer "):
            for token in (A, B):
                reply = worker.get("/v1/ids", headers={"Authorization": f"{scheme} {token}"})
                lib.equal(reply.status, 200, f"{scheme} {reply}")
        for path in PROTECTED[:6]:
            lib.equal(worker.get(path, headers=bearer(A)).status, 200, path)
        lib.equal(worker.get("/nothing", headers=bearer(A)).status, 404)


def test_two_authorizations_are_ambiguous_and_refused():
    with lib.Fleet() as fleet:
        worker, _ = start(fleet)
        host, port = worker.address.rsplit(":", 1)
        before = issued(worker)
        for pair in ((A, A), (A, B), (B, A)):
            connection = http.client.HTTPConnection(host, int(port), timeout=5 * lib.SLOW)
            connection.putrequest("GET", "/v1/ids")
            for token in pair:
                connection.putheader("Authorization", f"Bearer {token}")
            connection.endheaders()
            reply = connection.getresponse()
            lib.equal(reply.status, 400)
            lib.check("Authorization" in reply.read().decode(), "it says why")
            connection.close()
        lib.equal(issued(worker), before, "issued meanwhile")


def test_a_token_beyond_the_header_limit_ends_the_request():
    with lib.Fleet() as fleet:
        worker, _ = start(fleet)
        lib.equal(worker.get("/v1/ids", headers=bearer("x" * 60000)).status, 431)
        lib.equal(status_of(worker, A), 200)


def test_health_is_told_without_one():
    with lib.Fleet() as fleet:
        worker, _ = start(fleet)
        for headers in ({}, bearer(B)):
            lib.equal(worker.get("/livez", headers=headers).status, 200)
            lib.equal(worker.get("/readyz", headers=headers).status, 200)
        lib.equal(worker.request("POST", "/livez").status, 405)


def test_tokens_are_added_and_taken_away_under_way():
    with lib.Fleet() as fleet:
        worker, path = start(fleet, "--machine-ids=2")
        host, port = worker.address.rsplit(":", 1)
        kept = http.client.HTTPConnection(host, int(port), timeout=5 * lib.SLOW)

        def status_on_kept():
            kept.request("GET", "/v1/ids", headers=bearer(A))
            reply = kept.getresponse()
            reply.read()
            return reply.status
        lib.equal(status_on_kept(), 200)
        replace(path, f"{A}\n{B}\n")
        wait_known(worker, a=True, b=True, c=False)
        replace(path, f"{B}\n")
        wait_known(worker, a=False, b=True, c=False)
        lib.wait_until(lambda: status_on_kept() == 401, CHANGE_S, "refused on a kept connection too")
        path.write_text(f"{C}\n")  # in place
        wait_known(worker, a=False, b=False, c=True)
        lib.equal(len(worker.logged("tokens", "changed", file=str(path))), 3)
        nothing_leaked(fleet)


def test_a_secret_of_kubernetes_is_followed():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        mount = fleet.folder / "mount"
        for version, token in (("..v1", A), ("..v2", B)):
            (mount / version).mkdir(parents=True)
            lib.write_secret(mount / version / "tokens", token).chmod(0o440)
        (mount / "..data").symlink_to("..v1")
        (mount / "tokens").symlink_to("..data/tokens")
        worker = fleet.worker("--assign-wait=0s", f"--client-token-file={mount}/tokens")
        worker.wait_ready()
        wait_known(worker, a=True, b=False)
        (mount / "..new").symlink_to("..v2")
        os.replace(mount / "..new", mount / "..data")
        (mount / "..v1" / "tokens").unlink()
        (mount / "..v1").rmdir()
        wait_known(worker, a=False, b=True)


def test_a_file_that_cannot_be_used_changes_nothing_and_is_logged_once():
    with lib.Fleet() as fleet:
        worker, path = start(fleet)
        for row, text in enumerate(("", f"{A}\nshort\n", None)):
            if text is None:
                path.unlink()
            else:
                replace(path, text)
            lib.wait_until(lambda: len(worker.logged("tokens", UNUSABLE)) == row + 1, CHANGE_S,
                           f"{text!r} is logged")
            time.sleep(1.2 if row == 0 else 0)
            lib.equal(len(worker.logged("tokens", UNUSABLE)), row + 1, f"{text!r} is logged once")
            lib.check(str(path) in worker.logged("tokens", UNUSABLE)[-1]["reason"], "and named")
            wait_known(worker, a=True)
            replace(path, f"{A}\n")
            lib.wait_until(lambda: len(worker.logged("tokens", "the file can be used again")) == row + 1,
                           CHANGE_S, "and its end")
        lib.check(any("line 2" in entry["reason"] for entry in worker.logged("tokens", UNUSABLE)),
                  "the line is named")
        nothing_leaked(fleet)


def test_it_does_not_start_with_a_file_that_cannot_be_used():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        path = fleet.folder / "tokens"
        for text, mode, words in ((f"# x\n{A}\nshort\n", 0o600, "line 3"), ("", 0o600, "no token"),
                                  (None, 0, "No such file"), (A + "\x07", 0o600, "line 1"),
                                  ("x" * 257, 0o600, "line 1"),
                                  (A, 0o644, "its mode is 0644, and must be 0640 or stricter"),
                                  (A, 0o660, "its mode is 0660, and must be 0640 or stricter")):
            path.unlink(missing_ok=True)
            if text is not None:
                lib.write_secret(path, text).chmod(mode)
            for program, option in ((fleet.worker, "--client-token-file"),
                                    (fleet.coordinator, "--worker-token-file")):
                daemon = program(f"{option}={path}")
                lib.equal(daemon.wait(10), 1, f"{option} {text!r:.20}")
                for word in (option, str(path), words):
                    lib.check(word in daemon.errors(), f"{word} is in {daemon.errors()}")
            done = fleet.ctl_raw("next", f"--worker-token-file={path}")
            lib.equal(done.returncode, 64, done.stderr)
            lib.check(str(path) in done.stderr and words in done.stderr, done.stderr)
            lib.check(A not in done.stderr, "no token in the message")
        nothing_leaked(fleet)


def skew_node(fleet, *args):
    return fleet.ctl_json("skew", *args, code=None)["nodes"][0]


def test_coordinator_and_tool_show_their_token():
    with lib.Fleet() as fleet:
        worker, path = start(fleet)
        mine = lib.write_secret(fleet.folder / "mine", f"# the first counts\n{A}\n{C}\n")
        coordinator = fleet.coordinator("--lease-ttl=2s", "--probe-interval=500ms",
                                        f"--worker-token-file={mine}")
        fleet.leader([coordinator])

        def clocks():
            lines = coordinator.get("/metrics").body.splitlines()
            return [int(line.split()[1]) for line in lines
                    if line.startswith("snowfleet_consensus_clocks ")] == [2]
        lib.wait_until(clocks, 10, "the worker's clock is heard")
        token = f"--worker-token-file={mine}"
        lib.equal(skew_node(fleet, token)["reason"], None)
        lib.check("token" in skew_node(fleet)["reason"], "without one the tool says why")
        lib.equal(fleet.ctl_raw("skew").returncode, 3, "incomplete")
        lib.equal(len(fleet.ctl("next", "--count=3", token).split()), 3)
        lib.equal(len(fleet.ctl("next", f"--worker={worker.url}", token).split()), 1)
        by_env = fleet.ctl("next", env={"SNOWFLEET_WORKER_TOKEN_FILE": str(mine)})
        lib.equal(len(by_env.split()), 1)
        for arguments in ([], [f"--worker={worker.url}"]):
            done = fleet.ctl_raw("next", *arguments)
            lib.equal((done.returncode, done.stdout), (1, ""))
            lib.check("bearer token" in done.stderr, done.stderr)

        # Both sides change theirs: first the worker knows both, then only the new one.
        replace(path, f"{A}\n{B}\n")
        wait_known(worker, a=True, b=True)
        replace(mine, f"{B}\n")
        lib.wait_until(lambda: coordinator.logged("tokens", "changed"), CHANGE_S, "read again")
        replace(path, f"{B}\n")
        wait_known(worker, a=False, b=True)
        # What was heard before counts for 30 s, so look at what is asked now.
        unauthenticated = worker.get("/metrics", headers=bearer(B)).body
        time.sleep(1.5)
        again = worker.get("/metrics", headers=bearer(B)).body

        def count(text):
            return [line for line in text.splitlines() if "unauthenticated_total " in line]
        lib.equal(count(again), count(unauthenticated), "the coordinator's probes are let in")
        lib.check(clocks(), "and the clock is still heard")
        nothing_leaked(fleet)


def test_the_effective_settings_name_the_file_and_no_token():
    with lib.Fleet() as fleet:
        worker, path = start(fleet)
        lib.equal([entry["value"] for entry in
                   worker.logged("options", "effective", name="client-token-file")], [str(path)])
        lib.check(A not in worker.get("/v1/status", headers=bearer(A)).body, "not in the status")
        nothing_leaked(fleet)


def test_tokens_change_under_load_without_a_hitch():
    with lib.Fleet() as fleet:
        worker, path = start(fleet, "--machine-ids=2")
        host, port = worker.address.rsplit(":", 1)
        lib.wait_until(lambda: all(machine["state"] == "SERVING" for machine in
                                   worker.get("/v1/status", headers=bearer(A)).json()["machines"]),
                       10, "both loops serve")
        stop = threading.Event()
        lock = threading.Lock()
        statuses, ids = {A: set(), B: set()}, []

        def client(token):
            connection = http.client.HTTPConnection(host, int(port), timeout=10 * lib.SLOW)
            while not stop.is_set():
                connection.request("GET", "/v1/ids?count=10",
                                   headers={**bearer(token), "Accept": "text/plain"})
                reply = connection.getresponse()
                body = reply.read().decode()
                with lock:
                    statuses[token].add(reply.status)
                    if reply.status == 200:
                        ids.extend(map(int, body.split()))
            connection.close()
        threads = [threading.Thread(target=client, args=(token,), daemon=True)
                   for token in (A, A, A, B)]
        for thread in threads:
            thread.start()
        for number in range(6):
            replace(path, f"{A}\n{B}\n" if number % 2 else f"{A}\n")
            time.sleep(1.1)
        stop.set()
        for thread in threads:
            thread.join(20 * lib.SLOW)
        lib.equal(statuses[A], {200}, "the token that stays")
        lib.equal(statuses[B], {200, 401}, "the token that comes and goes")
        load.no_duplicates(ids)
        lib.check(len(worker.logged("tokens", "changed")) >= 4, "the file was read again")


if __name__ == "__main__":
    lib.main()
