#!/usr/bin/env python3
"""Sequences: values of named counters, each once, over every transport and whatever happens to workers and
etcd."""

import concurrent.futures
import itertools
import json
import pathlib
import sys
import threading
import time

import grpc_lib
import lib
import sequence_lib as seq

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import fault_proxy  # pylint: disable=wrong-import-position

Code = grpc_lib.Code


def settled(fleet, workers, name, issued):
    """Waits until no grant is on its way: then the counter has grown by what was issued, what is held and what
    was lost."""
    def balanced():
        views = [seq.of_worker(worker, name) for worker in workers]
        return (sum(int(view["issued_total"]) for view in views) == issued and
                issued + sum(int(view["held"]) + int(view["lost_total"]) for view in views)
                == sum(map(len, seq.granted(fleet, name))))
    lib.wait_until(balanced, 30, "the counter's growth is what was issued, what is held and what is lost")


def connections_over_blocks_of_10(each):
    """64 connections take so many values each, one by one.  Three serving loops share one table."""
    with lib.Fleet() as fleet:
        fleet.init("--new")
        fleet.ctl("sequence", "create", "orders", "--block=10")
        worker = fleet.worker("--assign-wait=0s", "--machine-ids=3")
        worker.wait_ready()
        got = seq.take_many([(worker, "orders", 1, None, 64, each)], timeout=120 + each / 25)[0]
        values = [value for taken in got for value in taken]
        lib.equal(len(values), 64 * each)
        seq.check_all(fleet, "orders", values)
        for taken in got:
            lib.check(all(a < b for a, b in zip(taken, taken[1:])), "each connection sees values that rise")
        settled(fleet, [worker], "orders", 64 * each)


def test_64_connections_over_blocks_of_10():
    # B78, B80
    connections_over_blocks_of_10(1000)


def test_three_workers_of_2000_requests_of_5():
    # B80
    with lib.Fleet() as fleet:
        fleet.init("--new")
        fleet.ctl("sequence", "create", "orders", "--block=100", "--start=0")
        workers = [fleet.worker("--assign-wait=0s") for _ in range(3)]
        for worker in workers:
            worker.wait_ready()
        got = seq.take_many([(worker, "orders", 5, None, 4, 500) for worker in workers])
        values = [value for worker in got for each in worker for value in each]
        lib.equal(len(values), 30000)
        seq.check_all(fleet, "orders", values)
        settled(fleet, workers, "orders", 30000)


def test_each_is_served_in_turn():
    # B77: whoever grants knows what the other has granted meanwhile.
    with lib.Fleet() as fleet:
        fleet.init("--new")
        names = [f"name{i}" for i in range(10)]
        for name in names:
            fleet.ctl("sequence", "create", name, "--block=3")
        workers = [fleet.worker("--assign-wait=0s") for _ in range(2)]
        for worker in workers:
            worker.wait_ready()
        got = {(name, i): [] for name in names for i in range(2)}
        for i in (0, 1, 0, 1, 0):
            for name in names:
                got[name, i] += seq.take(workers[i], name, 5)
        for name in names:
            seq.check_all(fleet, name, got[name, 0] + got[name, 1])
            for i in range(2):
                lib.equal(got[name, i], sorted(got[name, i]), "each worker's rise")


def killed_workers_lose_what_they_held(times):
    with lib.Fleet() as fleet:
        fleet.init("--new")
        fleet.ctl("sequence", "create", "orders", "--block=1000")
        values, lost = [], 0
        for i in range(times):
            worker = fleet.worker("--assign-wait=0s")
            worker.wait_ready()
            values += seq.take(worker, "orders", 10 + i % 4)
            if i == 0:
                settled(fleet, [worker], "orders", 10)
            held = int(seq.of_worker(worker, "orders")["held"])
            lib.equal(held, 1000 - 10 - i % 4)
            worker.kill()
            lost += held
        worker = fleet.worker("--assign-wait=0s")
        worker.wait_ready()
        lib.equal(seq.take(worker, "orders"), [len(values) + lost + 1])
        seq.check_all(fleet, "orders", values)


def test_a_worker_that_is_killed_loses_what_it_held():
    # B81
    killed_workers_lose_what_they_held(4)


def test_the_end_is_exact():
    # B81
    with lib.Fleet() as fleet:
        fleet.init("--new")
        fleet.ctl("sequence", "create", "end", "--start", seq.MAX - 14, "--block=4")
        worker = fleet.worker("--assign-wait=0s")
        worker.wait_ready()
        for wrong in (0, -1, 10001, 2**62, "1e3"):
            error = seq.refused(worker, 400, "INVALID_ARGUMENT", "count must be 1..10000", str(wrong),
                                name="end", count=wrong)
            lib.equal(error["field"], "count")
        lib.equal(seq.take(worker, "end", 1), [seq.MAX - 14])
        lib.equal(seq.take(worker, "end", 10), list(range(seq.MAX - 13, seq.MAX - 3)))
        seq.refused(worker, 400, "OUT_OF_RANGE", "exhausted but for 4 values", name="end", count=5)
        lib.equal(seq.take(worker, "end", 4), list(range(seq.MAX - 3, seq.MAX + 1)))
        seq.refused(worker, 400, "OUT_OF_RANGE", "sequence end is exhausted", name="end")
        with grpc_lib.channel(worker.grpc_address) as channel:
            service = grpc_lib.IdService(channel)
            grpc_lib.refused(Code.OUT_OF_RANGE, lambda: service.Next(grpc_lib.ids.NextRequest(
                kind="sequence", name="end")), "exhausted")
        shown = fleet.ctl_json("sequence", "show", "end")
        lib.equal((shown["state"], shown["left"]), ("EXHAUSTED", ["0"]))
        other = fleet.worker("--assign-wait=0s")
        other.wait_ready()
        seq.refused(other, 400, "OUT_OF_RANGE", "exhausted", name="end")
        fleet.ctl("sequence", "set", "end", f"--next={seq.MAX}", code=1)


def test_etcd_goes_away_and_comes_back():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        fleet.ctl("sequence", "create", "orders", "--block=1000")
        worker = fleet.worker("--assign-wait=0s")
        worker.wait_ready()
        values = seq.take(worker, "orders", 10)
        fleet.etcd.kill()
        values += seq.take(worker, "orders", 900)  # of which half would have asked for more
        values += seq.take(worker, "orders", 90)
        error = seq.refused(worker, 503, "UNAVAILABLE", "sequence orders", name="orders")
        lib.check(error["retry_after_ms"] > 0, error)
        seq.refused(worker, 503, "UNAVAILABLE", "sequence other", name="other")
        fleet.etcd.start()
        lib.wait_until(lambda: worker.get(seq.path("orders")).status == 200, 30, "values come again")
        values += seq.take(worker, "orders", 100)
        seq.check_all(fleet, "orders", values)


def test_shards_and_reshards_under_load():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        fleet.ctl("sequence", "create", "s", "--mode=stride", "--shards=3", "--block=20")
        workers = [fleet.worker("--assign-wait=0s") for _ in range(2)]
        for worker in workers:
            worker.wait_ready()
        got, stop, failures = [], threading.Event(), []

        def load(worker, shard):
            count = itertools.cycle((1, 7, 30))
            try:
                while not stop.is_set():
                    reply = worker.get(seq.path("s", next(count), shard), timeout=20)
                    if reply.status == 200:
                        got.append((shard, [int(text) for text in reply.json()["ids"]]))
                    else:  # a fourth shard is not there all the time
                        lib.equal((reply.status, shard), (400, 3), reply)
            except BaseException as failure:
                failures.append(failure)
        threads = [threading.Thread(target=load, args=(worker, shard))
                   for worker in workers for shard in range(4)]
        for thread in threads:
            thread.start()
        bases = []
        for shards in (4, 3, 4, 3):
            before = len(got)
            lib.wait_until(lambda: len(got) > before + 40 or failures, 30, "values flow")
            changed = fleet.ctl_json("sequence", "reshard", "s", f"--shards={shards}")
            lib.check(changed["changed"], changed)
            lib.equal(changed["shards"], shards)
            bases.append((min(int(text) for text in changed["next"]), shards))
        before = len(got)
        lib.wait_until(lambda: len(got) > before + 40 or failures, 30, "values flow")
        stop.set()
        for thread in threads:
            thread.join()
        lib.check(not failures, failures)
        seq.check_all(fleet, "s", [value for _, values in got for value in values])
        # Every value is of its shard, in the layout that it lies in.
        bases = [(1, 3), *bases]
        for shard, values in got:
            for value in values:
                base, shards = [each for each in bases if each[0] <= value][-1]
                lib.equal((value - base) % shards, shard, f"{value} of shard {shard}, {bases}")
        lib.check(any(shard == 3 for shard, _ in got), "the fourth shard was served")
        # The new layout begins above everything that was granted before.
        versions = seq.history(fleet, "s")
        for before, after in zip(versions, versions[1:]):
            if before["layout"] != after["layout"]:
                lib.equal(min(map(int, after["next"])), max(map(int, before["next"])))
        lib.equal(fleet.ctl_json("sequence", "reshard", "s", "--shards=3")["changed"], False)


def test_every_transport():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        fleet.ctl("sequence", "create", "b", "--start=0")
        fleet.ctl("sequence", "create", "s", "--mode=stride", "--shards=4")
        socket = fleet.folder / "ids.sock"
        worker = fleet.worker("--assign-wait=0s", f"--unix-socket={socket}")
        worker.wait_ready()
        ids = grpc_lib.ids
        lib.equal(seq.take(worker, "b", 2), [0, 1])
        body = '{"kind":"sequence","name":"s","shard":2,"count":3}'
        lib.equal(worker.request("POST", "/v1/ids", body=body).json()["ids"], ["3", "7", "11"])
        text = worker.get(seq.path("s", 2, 0), headers={"Accept": "text/plain"}).body
        lib.equal(text, "1\n5\n")
        lib.equal(fleet.ctl("next", "--kind=sequence", "--name=b", "--count=2"), "2\n3\n")
        lib.equal(fleet.ctl("next", "--kind=sequence", "--name=s", "--shard=3"), "4\n")
        for address in (worker.grpc_address, f"unix:{socket}"):
            with grpc_lib.channel(address) as channel:
                service = grpc_lib.IdService(channel)
                first = service.Next(ids.NextRequest(kind="sequence", name="b")).id
                batch = service.NextBatch(ids.NextBatchRequest(
                    kind="sequence", name="b", count=3, form=ids.FORM_RANGES))
                lib.equal([(each.first, each.count, each.step) for each in batch.ranges],
                          [(first + 1, 3, 0)])
                batch = service.NextBatch(ids.NextBatchRequest(
                    kind="sequence", name="s", shard=1, count=3, form=ids.FORM_RANGES))
                (only,) = batch.ranges
                lib.equal((only.count, only.step, only.first % 4), (3, 4, 2))
                numbers = service.NextBatch(ids.NextBatchRequest(
                    kind="sequence", name="s", shard=1, count=2)).ids
                lib.equal(list(numbers), [only.first + 12, only.first + 16])
                streamed = [list(message.texts) for message in service.Stream(ids.StreamRequest(
                    kind="sequence", name="b", count=25, batch_count=10, form=ids.FORM_TEXT))]
                lib.equal([len(texts) for texts in streamed], [10, 10, 5])
                lib.equal([int(text) for texts in streamed for text in texts],
                          list(range(first + 4, first + 29)))
                grpc_lib.refused(Code.NOT_FOUND, lambda: service.Next(ids.NextRequest(
                    kind="sequence", name="nobody")), "there is no sequence nobody")
                grpc_lib.refused(Code.INVALID_ARGUMENT, lambda: service.Next(ids.NextRequest(
                    kind="sequence", name="s")), "shard is missing", "0..3")
                grpc_lib.refused(Code.INVALID_ARGUMENT, lambda: service.Next(ids.NextRequest(
                    kind="sequence", name="s", shard=64)), "shard must be 0..63, got 64")
                grpc_lib.refused(Code.INVALID_ARGUMENT, lambda: service.Next(ids.NextRequest(
                    kind="sequence")), "name is missing")
        metrics = worker.get("/metrics").body
        issued = seq.of_worker(worker, "b")["issued_total"]
        lib.check(f'snowfleet_sequence_issued_values_total{{name="b"}} {issued}\n' in metrics, metrics)
        lib.check('snowfleet_ids_issued_total{kind="sequence",loop="0"} ' in metrics, metrics)


def test_bad_input_is_named():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        fleet.ctl("sequence", "create", "b")
        fleet.ctl("sequence", "create", "s", "--mode=stride", "--shards=3")
        fleet.ctl("sequence", "create", "slow", "--max-rate=1")
        worker = fleet.worker("--assign-wait=0s")
        worker.wait_ready()
        for name, words in (("", "1..64 characters"), ("a%2Fb", "got a/b"), ("n" * 65, "1..64"),
                            ("%00", "1..64")):
            lib.equal(seq.refused(worker, 400, "INVALID_ARGUMENT", words, name=name)["field"], "name")
        for shard, words in ((3, "must be 0..2, got 3"), (64, "0..63, got 64"), (-1, "got -1"),
                             ("x", "got x")):
            lib.equal(seq.refused(worker, 400, "INVALID_ARGUMENT", words, name="s", shard=shard)["field"],
                      "shard")
        seq.refused(worker, 400, "INVALID_ARGUMENT", "shard is missing", "0..2", name="s")
        seq.refused(worker, 400, "INVALID_ARGUMENT", "block mode", "got shard 0", name="b", shard=0)
        seq.refused(worker, 404, "NOT_FOUND", "there is no sequence c", name="c")
        for query, field in (("kind=sequence", "name"), ("name=b", "name"), ("shard=1", "shard"),
                             ("kind=sequence&name=b&claim=1", "claim"),
                             ("kind=ulid&name=b", "name"), ("kind=sequence&name=b&name=s", "name")):
            error = worker.get(f"/v1/ids?{query}")
            lib.equal((error.status, error.json()["error"]["field"]), (400, field), query)
        lib.equal(seq.take(worker, "b"), [1], "nothing of that was spent")
        for args, code, words in (
                (["create", "b"], 1, "is there already"),
                (["create", "a/b"], 64, "1..64 characters"),
                (["create", "x", "--shards=2"], 1, "goes with --mode=stride"),
                (["create", "x", "--mode=stride"], 64, "--shards: is missing"),
                (["create", "x", "--mode=block", "--shards=2"], 64, "goes with --mode=stride"),
                (["create", "x", "--mode=stride", "--shards=65"], 64, "1..64"),
                (["create", "x", "--block=0"], 64, "1..1000000"),
                (["create", "x", "--start=9223372036854775808"], 64, "9223372036854775807"),
                (["create", "x", "--start=-1"], 64, "must be 0..9223372036854775807"),
                (["create", "x", "--max-rate=5", "--block=51"], 1, "must be 1..50, 10 s of its max_rate, got 51"),
                (["set", "slow", "--block=11"], 1, "must be 1..10, 10 s of its max_rate, got 11"),
                (["create", "x", "--next=5"], 64, "does not go with create"),
                (["create"], 64, "needs a name"),
                (["list", "b"], 64, "takes no name"),
                (["show", "x"], 1, "there is no sequence x"),
                (["set", "b"], 64, "needs --next or --block"),
                (["set", "b", "--next=5"], 1, "must be at least 1001, got 5"),
                (["reshard", "b", "--shards=2"], 1, "block mode"),
                (["reshard", "s"], 64, "needs --shards"),
                (["drop", "x"], 1, "there is no sequence x"),
                (["make", "x"], 64, "got make")):
            done = fleet.ctl_raw("sequence", *args)
            lib.equal(done.returncode, code, f"{args}: {done.stderr}")
            lib.check(words in done.stderr, f"{args}: {done.stderr}")
        for args, words in ((["--kind=sequence"], "--name"), (["--name=b"], "--kind=sequence"),
                            (["--kind=sequence", "--name=a b"], "1..64")):
            done = fleet.ctl_raw("next", *args)
            lib.equal(done.returncode, 64, done.stderr)
            lib.check(words in done.stderr, done.stderr)


def test_set_drop_and_create_never_go_back():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        fleet.ctl("sequence", "create", "b", "--block=10")
        worker = fleet.worker("--assign-wait=0s")
        worker.wait_ready()
        values = seq.take(worker, "b", 3)
        fleet.ctl("sequence", "set", "b", "--next=500", "--block=20")
        # What it still holds of before is not given any more once it has heard.
        lib.wait_until(lambda: seq.of_worker(worker, "b")["layout"] == "2", 20, "it has heard")
        lib.equal(seq.take(worker, "b", 2), [500, 501])
        fleet.ctl("sequence", "drop", "b")
        lib.wait_until(lambda: seq.of_worker(worker, "b")["reason"] == "dropped", 20, "it has heard")
        seq.refused(worker, 404, "NOT_FOUND", "was dropped", name="b")
        lib.equal(fleet.ctl_json("sequence", "list")[0]["state"], "DROPPED")
        done = fleet.ctl_raw("sequence", "create", "b", "--start=1")
        lib.check(done.returncode == 1 and "must be at least 520, got 1" in done.stderr, done.stderr)
        fleet.ctl("sequence", "create", "b")
        lib.wait_until(lambda: worker.get(seq.path("b")).status == 200, 20, "it gives values again")
        lib.equal(seq.take(worker, "b"), [521])
        seq.check_all(fleet, "b", values + [500, 501, 521])


def test_a_freeze_stops_grants_and_a_foreign_era_everything():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        fleet.ctl("sequence", "create", "b", "--block=10")
        fleet.ctl("sequence", "create", "held", "--block=10")
        worker = fleet.worker("--assign-wait=0s")
        worker.wait_ready()
        lib.equal(seq.take(worker, "b", 1), [1])
        lib.equal(seq.take(worker, "held", 1), [1])
        fleet.ctl("freeze", "--reason=a test")
        frozen = lambda: "frozen: a test" in seq.of_worker(worker, "b")["reason"]
        lib.wait_until(frozen, 20, "it has heard")
        lib.equal(seq.take(worker, "b", 9), list(range(2, 11)), "what it holds it gives")
        seq.refused(worker, 503, "UNAVAILABLE", "frozen: a test", name="b")
        done = fleet.ctl_raw("sequence", "create", "c")
        lib.check(done.returncode == 1 and "frozen: a test" in done.stderr, done.stderr)
        fleet.ctl("thaw")
        lib.wait_until(lambda: worker.get(seq.path("b")).status == 200, 20, "values come again")
        meta = fleet.get("meta")
        foreign = dict(meta.json(), era="f" * 32, serial=str(int(meta.json()["serial"]) + 1))
        fleet.etcd.put(fleet.key("meta"), lib.json.dumps(foreign))
        lib.wait_until(lambda: worker.get(seq.path("held")).status == 503, 20, "it has heard")
        seq.refused(worker, 503, "UNAVAILABLE", "foreign era", name="held")
        fleet.etcd.put(fleet.key("meta"), meta.value)
        lib.wait_until(lambda: worker.get(seq.path("held")).status == 200, 20, "its era is back")


def go_back(fleet, records):
    """etcd as it was, as far as these keys are concerned."""
    fleet.etcd.put_all({fleet.key(key): value for key, value in records.items()})


def test_recover_fences_sequences():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--max-window=1s", "--max-offset=100ms", "--quiet-time=0s")
        names = ("heard", "unheard", "strides")
        fleet.ctl("sequence", "create", "heard", "--block=10", "--max-rate=1000")
        fleet.ctl("sequence", "create", "unheard", "--block=10", "--max-rate=1000")
        fleet.ctl("sequence", "create", "strides", "--block=10", "--max-rate=1000", "--mode=stride",
                  "--shards=3")
        options = ("--assign-wait=0s", "--window=1s")
        worker, dead = fleet.worker(*options), fleet.worker(*options)
        lib.wait_until(lambda: worker.get(seq.path("heard")).status == 200, 20, "it gives values")
        before = {f"seq/{name}": fleet.get(f"seq/{name}").value for name in names}
        # What was granted while a clock was a day ahead has no bound.
        fleet.ctl("sequence", "create", "ahead", "--block=10", "--max-rate=1000")
        day_ahead = str(int(time.time() * 1000) + 86400000)
        before["seq/ahead"] = json.dumps(dict(seq.record(fleet, "ahead"), pace_ms=day_ahead))
        started = [int(text) for name in names for text in seq.record(fleet, name)["next"]]
        # An operator's set is in no rate: only who has heard of it can tell.
        fleet.ctl("sequence", "set", "heard", "--next=5000000000000")
        lib.wait_until(lambda: seq.of_worker(worker, "heard")["layout"] == "2", 20, "it has heard")
        given = {"heard": seq.take(worker, "heard", 25)}
        given["unheard"] = seq.take(dead, "unheard", 2000)
        given["strides"] = seq.take(dead, "strides", 500, 1)
        dead.kill()
        go_back(fleet, before)
        wanted = [seq.record(fleet, name)["layout"] for name in names]
        dry = fleet.ctl_raw("recover", "--dry-run", "--force", "--output=json")
        lib.equal(json.loads(dry.stdout)["sequences"], 4)
        lib.check("sequence ahead would be dropped" in dry.stderr, dry.stderr)
        lib.equal([seq.record(fleet, name)["layout"] for name in names], wanted, "a dry run writes nothing")
        done = fleet.ctl_raw("recover", "--yes", "--force", "--output=json")
        lib.equal((done.returncode, json.loads(done.stdout)["sequences"]), (0, 4), done.stderr)
        lib.check("sequence ahead is dropped: a clock was far ahead" in done.stderr, done.stderr)
        lib.equal(fleet.ctl_json("sequence", "show", "ahead")["state"], "DROPPED")
        fleet.ctl("sequence", "create", "ahead", "--start=7000000")
        lib.wait_until(lambda: worker.get(seq.path("ahead")).status == 200, 30, "it is served again")
        lib.equal(seq.take(worker, "ahead"), [7000001])
        for name in names:
            least = min(int(text) for text in seq.record(fleet, name)["next"])
            lib.check(least > max(given[name]), f"{name}: {least} is above {max(given[name])}")
        # The bound is that of the rate, and no more.
        least = min(int(text) for text in seq.record(fleet, "unheard")["next"])
        lib.check(least < 1000 * 1000, f"{least}: started at {started}")
        third = fleet.worker(*options)
        for name, shard in (("heard", None), ("unheard", None), ("strides", 1)):
            for each in (worker, third):
                lib.wait_until(lambda: each.get(seq.path(name, 1, shard)).status == 200, 30,
                               f"{name} is served in the new era")
                given[name] += seq.take(each, name, 5, shard)
            lib.equal(len(set(given[name])), len(given[name]), f"{name}: no value twice")
        refused = fleet.ctl_raw("sequence", "create", "new")
        lib.check(refused.returncode == 1 and "--start: is required" in refused.stderr, refused.stderr)


def test_a_record_that_went_back_is_not_granted_from():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        fleet.ctl("sequence", "create", "b", "--block=10")
        worker = fleet.worker("--assign-wait=0s")
        worker.wait_ready()
        before = fleet.get("seq/b").value
        lib.equal(seq.take(worker, "b", 7), list(range(1, 8)))
        go_back(fleet, {"seq/b": before})
        lib.equal(seq.take(worker, "b", 3), [8, 9, 10], "what it holds it gives")
        lib.wait_until(lambda: worker.get(seq.path("b", 20)).status == 503, 20, "it asks, and sees")
        seq.refused(worker, 503, "UNAVAILABLE", "went back in etcd", name="b", count=20)


def test_the_number_of_names_is_limited():
    with lib.Fleet() as fleet, fault_proxy.FaultProxy(seed=1) as proxy:
        fleet.init("--if-needed", "--max-window=1s", "--max-offset=1ms")
        done = fleet.ctl_raw("sequence", "create", "first")
        lib.check(done.returncode == 1 and "--start: is required" in done.stderr, done.stderr)
        fleet.ctl("sequence", "create", "first", "--start=1")
        value = fleet.get("seq/first").value
        fleet.etcd.put_all({fleet.key(f"seq/n{i}"): value for i in range(998)})
        # One has counted 999 when another one becomes the last.
        late = ("--etcd-timeout=30s", "--etcd-endpoints", f"http://{proxy.link('ctl>etcd', fleet.etcd.address)}")
        rule = proxy.rule("lose_up", body="request_put", late=1)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            done = pool.submit(fleet.ctl_raw, "sequence", "create", "late", "--start=1", *late)
            lib.wait_until(lambda: proxy.hits(rule) == 1, 20, "it wants to write")
            fleet.ctl("sequence", "create", "last", "--start=1")
            proxy.remove(rule)
            done = done.result()
        lib.check(done.returncode == 1 and "there are 1000 sequences, and at most 1000" in done.stderr,
                  done.stderr)
        lib.equal(len(fleet.ctl_json("sequence", "list")), 1000)
        # Names that somebody makes up are forgotten again.
        worker = fleet.worker("--assign-wait=0s")  # they need no machine ID
        lib.wait_until(lambda: worker.get(seq.path("made-up")).status == 404, 20, "it has read etcd")
        for i in range(100):
            reply = worker.get(seq.path(f"made-up-{i}"))
            lib.check(reply.status == 404 or
                      (reply.status == 503 and "too many sequences" in reply.body), reply)
        lib.equal(worker.status()["sequences"], [])
        lib.wait_until(lambda: worker.get(seq.path("first")).status == 200, 20, "there is room again")
        lib.equal([entry["name"] for entry in worker.status()["sequences"]], ["first"])


def test_without_etcd_there_are_none():
    with lib.Fleet(start_etcd=False) as fleet:
        worker = lib.Daemon("alone", [lib.BIN / "snowfleet-worker", "--standalone", "--init",
                                      f"--state-file={fleet.folder}/state",
                                      "--http-listen=127.0.0.1:0"], fleet.folder)
        fleet.processes.append(worker)
        worker.wait_ready()
        error = seq.refused(worker, 400, "FAILED_PRECONDITION", "standalone", name="b")
        lib.equal(error["field"], "kind")
        lib.equal(worker.status()["sequences"], [])


if __name__ == "__main__":
    lib.main()
