"""What an operator orders: freeze, thaw, range-set, release, clock accept; and what is only looked up:
range, machines, history.  Also two at once, and bad input."""

import json
import time

import lib
import load

WORKER = ["--window=4s", "--lease-ttl=4s", "--keepalive-interval=1s", "--assign-wait=0s"]
LEADER = ["--lease-ttl=2s", "--ceiling-interval=500ms", "--probe-interval=1s"]
EPOCH = 1704067200000
ZEROS = "0" * 32


def now_ms():
    return int(time.time() * 1000)


def meta(fleet):
    return fleet.get("meta").json()


def refused(done, *fragments, code=1):
    lib.equal(done.returncode, code, f"{done.args}: {done.stdout}{done.stderr}")
    lib.equal(done.stderr.rstrip("\n").count("\n"), 0, f"one line: {done.stderr!r}")
    for fragment in fragments:
        lib.check(fragment in done.stderr, f"{done.args}: {fragment!r} is not in {done.stderr!r}")


# ---- freeze and thaw ----

def test_a_freeze_stops_claims_and_extensions_until_the_thaw():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--quiet-time=1s")
        worker = fleet.worker(*WORKER)
        worker.wait_ready()
        with load.Load(worker.address, clients=2, count=5) as clients:
            clients.wait_more()
            answer = fleet.ctl_json("freeze", "--reason", "etcd moves house")
            lib.equal((answer["mode"], answer["reason"], answer["serial"], answer["changed"]),
                      ("FROZEN", "etcd moves house", "2", True))
            lib.equal(fleet.ctl_json("status")["reason"], "etcd moves house")
            late = fleet.worker(*WORKER)
            lib.wait_until(lambda: worker.status()["state"] == "STARVED", 15, "its window ends")
            lib.check(worker.status()["reason"].startswith("frozen"), worker.status())
            lib.check(not late.ready(), "nobody claims")
            answer = fleet.ctl_json("freeze", "--reason", "another")
            lib.equal((answer["reason"], answer["changed"], answer["serial"]),
                      ("etcd moves house", False, "2"))
            lib.equal(fleet.ctl_json("thaw")["changed"], True)
            for each in (worker, late):
                lib.wait_until(each.ready, 15, "it serves again")
            answer = fleet.ctl_json("thaw")
            lib.equal((answer["mode"], answer["changed"], answer["serial"]), ("OPEN", False, "3"))
            lib.check("nothing done" in fleet.ctl("thaw"), "said in words")
            ids = clients.stop()
        load.no_duplicates(ids)


def test_a_freeze_after_a_rollback_is_not_thawed():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-3")
        record = meta(fleet)
        record.update(mode="FROZEN", reason="rollback: revision 5 after 900", later={"a": [1]})
        fleet.etcd.put(fleet.key("meta"), json.dumps(record))
        before = fleet.get("meta").value
        refused(fleet.ctl_raw("thaw"), "recover")
        refused(fleet.ctl_raw("range-set", "0-7"), "recover")
        lib.check("already" in fleet.ctl("freeze", "--reason=x"), "its reason stays")
        lib.equal(fleet.get("meta").value, before)
        record.update(reason="something else")
        fleet.etcd.put(fleet.key("meta"), json.dumps(record))
        fleet.ctl("thaw")
        lib.equal((meta(fleet)["mode"], meta(fleet)["later"]), ("OPEN", {"a": [1]}),
                  "fields of a later version are kept")


def test_of_many_freezes_at_once_one_is_written():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-3")
        answers = lib.in_parallel([
            lambda n=n: fleet.ctl_json("freeze", f"--reason=number {n}") for n in range(6)])
        changed = [answer for answer in answers if answer["changed"]]
        lib.equal(len(changed), 1)
        lib.equal(meta(fleet)["reason"], changed[0]["reason"])
        lib.equal(meta(fleet)["serial"], "2")


# ---- range-set ----

def test_a_range_is_widened_and_narrowed_and_no_key_is_ever_deleted():
    with lib.Fleet() as fleet:
        floor = now_ms() - 1000
        fleet.init("--new", "--machine-id-range=10-12", f"--floor={floor}")
        answer = fleet.ctl_json("range-set", "8-300", "--reserved=9,20-29")
        lib.equal((answer["added"], answer["taken_out"], answer["created"], answer["changed"]),
                  (279, 0, 279, True))
        lib.equal((answer["machine_id_range"], answer["reserved"]), ("8-300", [9, "20-29"]))
        record = meta(fleet)
        lib.equal((record["serial"], record["machine_id_range"], record["reserved"]),
                  ("2", "8-300", [9, "20-29"]))
        keys = {int(key.name[-4:]): key.value for key in fleet.etcd.prefix(fleet.key("hor/"))}
        lib.equal(sorted(keys), [8, *range(10, 20), *range(30, 301)])
        lib.equal(keys[10], f"{EPOCH:020}:{ZEROS}:0", "what was there stays")
        lib.equal(keys[300], f"{floor:020}:{ZEROS}:0", "a new one starts at the floor")

        stub = fleet.stub("one")
        stub.hold(200, now_ms() + 30_000)
        before = fleet.get("meta").value
        refused(fleet.ctl_raw("range-set", "8-150"), "200")
        refused(fleet.ctl_raw("range-set", "8-300", "--reserved=200"), "200")
        lib.equal(fleet.get("meta").value, before)
        stub.let_go(200)
        answer = fleet.ctl_json("range-set", "8-150")
        lib.equal((answer["taken_out"], answer["created"]), (150, 0))
        lib.equal(answer["reserved"], [9, "20-29"], "without --reserved they stay")
        lib.check(int(answer["taken_out_until_ms"]) > now_ms(), "somebody may still issue there")
        stub.hold(150, now_ms() + 30_000)
        stub.let_go(150)
        lib.check("use them nowhere" in fleet.ctl("range-set", "8-149"), "said in words")
        lib.equal(len(fleet.etcd.prefix(fleet.key("hor/"))), 282, "keys are never deleted")
        state = {slot["machine_id"] for slot in fleet.ctl_json("machines")}
        lib.equal(state, set(range(8, 150)))
        answer = fleet.ctl_json("range-set", "8-149")
        lib.equal((answer["changed"], answer["created"]), (False, 0))
        answer = fleet.ctl_json("range-set", "8-149", "--reserved=none")
        lib.equal((answer["added"], answer["created"], meta(fleet)["reserved"]), (11, 11, []))
        answer = fleet.ctl_json("range-set", "0-1023", "--reserved=none")
        lib.equal(answer["created"], 1024 - 282 - 11)
        slots = fleet.ctl_json("status")["slots"]
        lib.equal((slots["free"] + slots["cooling"], slots["absent"]), (1024, 0))


def test_a_worker_uses_what_was_added():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0")
        first, second = fleet.worker(*WORKER), fleet.worker(*WORKER)
        lib.wait_until(lambda: first.ready() or second.ready(), 20, "one holds the only one")
        fleet.ctl("range-set", "0-1")
        for worker in (first, second):
            worker.wait_ready()
        load.no_duplicates(first.ids(200) + second.ids(200))


def test_of_two_range_sets_at_once_both_are_whole():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-9")
        for _ in range(4):
            codes = [done.returncode for done in lib.in_parallel([
                lambda: fleet.ctl_raw("range-set", "0-400"),
                lambda: fleet.ctl_raw("range-set", "0-399", "--reserved=7"),
                lambda: fleet.ctl_raw("freeze", "--reason=x"),
                lambda: fleet.ctl_raw("thaw")])]
            lib.equal(codes, [0, 0, 0, 0])
            record = meta(fleet)
            lib.check((record["machine_id_range"], record["reserved"]) in (
                ("0-400", []), ("0-399", [7]), ("0-400", [7])), record)
            lib.equal(fleet.ctl_json("status")["slots"]["absent"], 0)
            fleet.ctl("thaw")


def test_a_machine_id_that_is_being_claimed_is_not_taken_out():
    """The claim or the new range, whichever comes first: nobody held it when the range was written."""
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-1", "--quiet-time=0s")
        outcomes = set()
        for number in range(8):
            def narrow(wait=number * 0.008):
                time.sleep(wait)
                return fleet.ctl_raw("range-set", "0-0")
            worker, done = lib.in_parallel([
                lambda: fleet.worker("--window=1s", *WORKER[1:], "--machine-id=1"), narrow])
            worker.wait_ready()
            written = fleet.get("meta").mod_revision
            own = fleet.etcd.call("/v3/kv/range", {
                "key": lib._b64(fleet.key("own/0001")), "revision": str(written)}).get("kvs")
            outcomes.add((done.returncode, worker.status()["machines"][0]["machine_id"]))
            lib.check(done.returncode == 1 or not own, f"{done}")
            lib.check((0, 1) not in outcomes, f"{done}: claimed after it was taken out")
            lib.equal(worker.terminate(), 0)
            fleet.ctl("range-set", "0-1")
        print(f"       (exit code, machine ID): {sorted(outcomes)}")


# ---- orders ----

def test_a_worker_is_released_by_identity_and_by_instance():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-9")
        fleet.leader([fleet.coordinator(*LEADER)])
        workers = [fleet.worker(*WORKER, f"--identity={name}")
                   for name in ("prod/a", "prod/b", "prod/b")]
        for worker in workers:
            worker.wait_ready()
        done = fleet.ctl_raw("release", "prod/b")
        refused(done, "2 workers are called prod/b", workers[1].instance, workers[2].instance)
        refused(fleet.ctl_raw("release", "prod/c"), "no worker has the identity or instance prod/c")
        lib.check(all(worker.ready() for worker in workers), "all serve")
        with load.Load(workers[0].address, count=5) as clients:
            clients.wait_more()
            held = workers[0].status()["machines"][0]["machine_id"]
            answer = fleet.ctl_json("release", "prod/a")
            lib.equal((answer["instance"], answer["machine_ids"], answer["changed"]),
                      (workers[0].instance, [held], True))
            lib.equal(workers[0].wait(10), 0, "it ends as on SIGTERM")
            ids = clients.stop()
        load.no_duplicates(ids)
        lib.equal(workers[0].logged("worker", "draining")[0]["reason"],
                  "ordered by snowfleetctl release")
        lib.equal(fleet.get(f"own/{held:04}"), None, "handed back")
        last = int(fleet.get(f"hor/{held:04}").value.split(":")[0])
        lib.check(last <= now_ms() and last >= max(load.parts(each)[0] for each in ids), "and so is "
                  "the window")
        for name in (f"node/{workers[0].instance}", f"assign/{workers[0].instance}"):
            lib.equal(fleet.get(name), None)
        refused(fleet.ctl_raw("release", workers[0].instance), "no worker")
        fleet.ctl("release", workers[1].instance)
        lib.equal(workers[1].wait(10), 0)
        lib.check(workers[2].ready(), "its namesake serves on")


def test_an_order_stands_beside_assignments_and_goes_with_its_worker():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-9")
        fleet.leader([fleet.coordinator(*LEADER)])
        stub = fleet.stub("prod/stub", missing=1)
        stub.wait_assignment()
        before = now_ms()
        answer = fleet.ctl_json("clock", "accept", "prod/stub")
        until = int(answer["clock_ok_until_ms"])
        lib.check(before + 60_000 <= until <= now_ms() + 60_000, answer)
        order = fleet.get(f"assign/{stub.instance}")
        lib.equal((order.json()["clock_ok_until_ms"], order.lease), (str(until), stub.lease))
        stub.ask()
        lib.equal(stub.wait_assignment()["clock_ok_until_ms"], str(until), "the leader keeps it")
        longer = fleet.ctl_json("clock", "accept", stub.instance, "--for=10m")
        fleet.ctl("clock", "accept", "prod/stub", "--for=1s")
        lib.equal(fleet.get(f"assign/{stub.instance}").json()["clock_ok_until_ms"],
                  longer["clock_ok_until_ms"], "the later one counts")
        lib.equal(fleet.ctl_json("release", "prod/stub")["changed"], True)
        lib.equal(fleet.ctl_json("release", "prod/stub")["changed"], False)
        order = fleet.get(f"assign/{stub.instance}").json()
        lib.equal((order["drain"], order["clock_ok_until_ms"]),
                  (True, longer["clock_ok_until_ms"]))
        stub.gone()
        refused(fleet.ctl_raw("clock", "accept", stub.instance), "no worker")
        # A record that outlived its lease: there is nobody to read the order.
        record = {"identity": "ghost", "addresses": {}, "attempt": "0", "missing": 0, "wanted": [],
                  "held": [], "refused": [], "synchronized": True, "max_error_ns": "0"}
        fleet.etcd.put(fleet.key(f"node/{'ab' * 16}"), json.dumps(record))
        refused(fleet.ctl_raw("release", "ghost"), "lease")
        lib.equal(fleet.get(f"assign/{'ab' * 16}"), None, "nothing is left behind")


def test_orders_at_once_are_all_kept():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-9")
        fleet.leader([fleet.coordinator(*LEADER)])
        stub = fleet.stub("stub", missing=0)
        for number in range(3):
            stub.hold(number)
        lib.in_parallel([lambda: fleet.ctl("clock", "accept", "stub"),
                         lambda: fleet.ctl("release", "stub"),
                         lambda: fleet.ctl("reclaim", 0, "--yes", "--force"),
                         lambda: fleet.ctl("reclaim", 1, 2, "--yes", "--force"),
                         stub.ask])
        order = fleet.get(f"assign/{stub.instance}").json()
        lib.equal(sorted(each["machine_id"] for each in order["give_up"]), [0, 1, 2])
        lib.check(order["drain"] and order["clock_ok_until_ms"] != "0", order)


# ---- looking things up ----

def test_the_range_of_a_span_of_time():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--epoch=2020-01-01T00:00:00Z", "--machine-id-range=0-1")
        moment = "2025-06-01T00:00:00Z"
        answer = fleet.ctl_json("range", "--from", moment, "--to", moment,
                                "--epoch=2024-01-01T00:00:00Z")
        lib.equal((answer["smallest"], answer["largest"]),
                  (str(1748736000000 - EPOCH << 22), str((1748736000000 - EPOCH << 22) + 4194303)))
        answer = fleet.ctl_json("range", "--from=2020-01-01T00:00:00Z",
                                "--to=2020-01-01T00:00:00.001Z")
        lib.equal((answer["smallest"], answer["largest"]), ("0", str((2 << 22) - 1)))
        last = "2093-09-06T15:47:35.551Z"
        answer = fleet.ctl_json("range", f"--from={last}", f"--to={last}",
                                "--epoch=2024-01-01T00:00:00Z")
        lib.equal(answer["largest"], "9223372036854775807")
        fleet.etcd.kill()
        done = fleet.ctl_raw("range", "--from", moment, "--to", moment, "--etcd-timeout=500ms")
        lib.equal(done.returncode, 0)
        lib.check("2024-01-01" in done.stderr, done.stderr)


def test_machines_are_filtered_and_sorted():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-5", "--reserved=5")
        a, b = fleet.stub("prod/a"), fleet.stub("dev/b")
        a.hold(3, now_ms() + 50_000)
        b.hold(1, now_ms() + 40_000)
        b.hold(2, now_ms() + 20_000)
        b.let_go(2)

        def ids(*args):
            return [slot["machine_id"] for slot in fleet.ctl_json("machines", *args)]
        lib.equal(ids("--state=HELD"), [1, 3])
        lib.equal(ids("--state=cooling,FREE"), [0, 2, 4])
        lib.equal(ids("--identity=prod/*"), [3])
        lib.equal(ids("--identity=*b", "--state=FREE"), [])
        lib.equal(ids("--sort=usable"), [0, 4, 2, 1, 3, 5])
        lib.equal(ids("--sort=horizon", "--state=HELD,COOLING"), [2, 1, 3])
        lib.equal(ids("--sort=state"), [0, 4, 1, 3, 2, 5])
        lib.check("HORIZON" in fleet.ctl("machines", "--state=HELD"), "a table too")


def test_the_history_of_a_machine_id():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0", "--quiet-time=0s", "--max-window=4s")
        begun = now_ms()
        first = fleet.worker(*WORKER, "--identity=prod/first")
        first.wait_ready()
        lib.wait_until(lambda: int(fleet.get("hor/0000").value.split(":")[2]) > 2, 20, "extensions")
        last_id = first.ids(1)[0]
        lib.equal(first.terminate(), 0)
        second = fleet.worker(*WORKER, "--identity=prod/second")
        second.wait_ready()
        second.kill()
        lib.wait_until(lambda: fleet.get("own/0000") is None, 20, "its lease ends")
        second_last = int(fleet.get("hor/0000").value.split(":")[0])
        third = fleet.worker(*WORKER, "--identity=prod/third")
        third.wait_ready()
        answer = fleet.ctl_json("machines", "--history=0")
        claims = answer["claims"]
        lib.equal([(claim["identity"], claim["ended"]) for claim in claims],
                  [("prod/third", "held"), ("prod/second", "gone"), ("prod/first", "released")])
        lib.equal([claim["instance"] for claim in claims],
                  [third.instance, second.instance, first.instance])
        lib.equal(answer["complete"], True)
        lib.equal(claims[2]["until_ms"], str(load.parts(last_id)[0]), "exact after a release")
        lib.equal(claims[1]["until_ms"], str(second_last))
        lib.check(begun - 100 <= int(claims[2]["from_ms"]) <= begun + 10_000 * lib.SLOW, claims[2])
        lib.check(int(claims[1]["from_ms"]) >= int(claims[2]["until_ms"]), claims)
        lib.check("that is all" in fleet.ctl("machines", "--history=0"), "in words")
        fleet.etcd.compact()
        answer = fleet.ctl_json("machines", "--history=0")
        lib.equal((answer["complete"], [claim["identity"] for claim in answer["claims"]]),
                  (False, ["prod/third"]))
        lib.check("compacted" in fleet.ctl("machines", "--history=0"), "in words")
        lib.equal(fleet.ctl_json("machines", "--history=7")["claims"], [])


# ---- bad input ----

def test_bad_input_is_refused_and_changes_nothing():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-9")
        before = [(key.name, key.value, key.mod_revision)
                  for key in fleet.etcd.prefix(fleet.key(""))]
        for args, fragment in [
                (["reclaim", "x"], "ID"), (["reclaim", "1024"], "0..1023"), (["reclaim", "01"], "ID"),
                (["reclaim", "1", ""], "ID"), (["reclaim", "--", "-1"], "ID"),
                (["reclaim", "--force"], "name the machine IDs"),
                (["reclaim", "--yes=maybe"], "--yes"),
                (["release"], "WORKER"), (["release", "a", "b"], "WORKER"),
                (["freeze"], "--reason"), (["freeze", "--reason="], "reason"),
                (["freeze", "--reason", "x" * 128], "--reason"),
                (["freeze", "--reason", "a\x1b[2J"], "--reason"),
                (["freeze", "--reason=rollback: I say"], "recover"), (["freeze", "now"], "arguments"),
                (["thaw", "now"], "no arguments"),
                (["range-set"], "A-B"), (["range-set", "5"], "A-B"), (["range-set", "9-3"], "9-3"),
                (["range-set", "0-1024"], "1023"), (["range-set", "0 - 5"], "A-B"),
                (["range-set", "0-5", "--reserved=6-"], "--reserved"),
                (["range-set", "0-5", "--reserved=0-5"], "no machine ID of the range is left"),
                (["range-set", "0-5", "--reserved=,"], "--reserved"),
                (["clock", "accept"], "WORKER"), (["clock", "refuse", "w"], "clock accept"),
                (["clock", "accept", "w", "--for=5"], "--for"),
                (["clock", "accept", "w", "--for=2h"], "--for"),
                (["range"], "--from"), (["range", "--from=0"], "--to"),
                (["range", "--from=2025-01-02T00:00:00Z", "--to=2025-01-01T00:00:00Z"], "later"),
                (["range", "--from=2025-02-30T00:00:00Z", "--to=2025-03-01T00:00:00Z"], "--from"),
                (["range", "--from=2020-01-01T00:00:00Z", "--to=2025-01-01T00:00:00Z",
                  "--epoch=2024-01-01T00:00:00Z"], "--from"),
                (["range", "--from=2025-01-01T00:00:00Z", "--to=2094-01-01T00:00:00Z",
                  "--epoch=2024-01-01T00:00:00Z"], "--to"),
                (["machines", "--state=BUSY"], "--state=BUSY"), (["machines", "--state=HELD,"], "state"),
                (["machines", "--sort=name"], "--sort"), (["machines", "--history=1024"], "--history"),
                (["machines", "--history=1", "--state=HELD"], "--history"),
        ]:
            done = fleet.ctl_raw(*args)
            refused(done, fragment, code=64)
            lib.equal(done.stdout, "", str(args))
        for args in (["release", "\u00e9\x1b"], ["clock", "accept", "x" * 500]):
            refused(fleet.ctl_raw(*args), "no worker")
        refused(fleet.ctl_raw("range-set", "5-6", "--reserved=9"), code=0)
        fleet.ctl("range-set", "0-9", "--reserved=none")
        refused(fleet.ctl_raw("reclaim", 900, "--yes"), "out of range")
        after = {key.name: (key.name, key.value, key.mod_revision)
                 for key in fleet.etcd.prefix(fleet.key(""))}
        lib.equal([row for row in before if after[row[0]] != row][1:], [], "only meta changed")


def test_each_command_explains_itself():
    with lib.Fleet(start_etcd=False) as fleet:
        text = fleet.ctl("help")
        for command, word in [("reclaim", "--force"), ("release", "WORKER"), ("freeze", "--reason"),
                              ("thaw", "recover"), ("range-set", "--reserved"), ("range", "--from"),
                              ("clock", "comes after the step"), ("machines", "--history")]:
            lib.check(f"  {command}" in text, text)
            lib.check(word in fleet.ctl(command, "--help"), command)


def test_without_a_cluster_each_says_so():
    with lib.Fleet() as fleet:
        for args in (["reclaim"], ["release", "x"], ["freeze", "--reason=x"], ["thaw"],
                     ["range-set", "0-5"], ["clock", "accept", "x"], ["machines", "--history=1"]):
            refused(fleet.ctl_raw(*args), "init")
        lib.equal(fleet.etcd.prefix(fleet.key("")), [], "nothing was written")
        fleet.etcd.kill()
        for args in (["reclaim"], ["release", "x"], ["freeze", "--reason=x"], ["thaw"]):
            refused(fleet.ctl_raw(*args, "--etcd-timeout=300ms"), "etcd")


if __name__ == "__main__":
    lib.main()
