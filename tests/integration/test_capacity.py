"""1,024 machine IDs and no more: all are handed out, the next worker waits with the reason and takes
the first that comes free."""

import re
import time

import holders
import lib
import load

TIMES = ["--window=8s", "--lease-ttl=2s", "--keepalive-interval=500ms"]
FREED = 517


def etcd_requests(worker):
    return float(re.search(r"^snowfleet_etcd_requests_total (\S+)$", worker.get("/metrics").body,
                           re.MULTILINE).group(1))


def all_are_held_once(fleet):
    """own/ holds each machine ID 0..1023, each under a claim of its own, and hor/ names that claim."""
    own = {key.name.rsplit("/", 1)[1]: key.json()["claim"]
           for key in fleet.etcd.prefix(fleet.key("own/"))}
    hor = {key.name.rsplit("/", 1)[1]: key.value.split(":")[1]
           for key in fleet.etcd.prefix(fleet.key("hor/"))}
    lib.equal(sorted(own), [f"{number:04}" for number in range(1024)], "own/")
    lib.equal(len(set(own.values())), 1024, "claims")
    lib.equal(hor, own, "the claims in hor/")


def waits_with_the_reason(worker, reason):
    """For three seconds it lives, is not ready, says why, and is easy on etcd."""
    lib.wait_until(lambda: re.search(reason, worker.status()["reason"]), 30,
                   f"the reason is {reason!r}; it is {worker.status()['reason']!r}")
    before, began = etcd_requests(worker), time.monotonic()
    for _ in range(15):
        status = worker.status()
        lib.equal(status["state"], "CLAIMING")
        lib.check("no machine ID free" in status["reason"], f"the reason is {status['reason']!r}")
        reply = worker.get("/v1/ids")
        error = reply.json()["error"]
        lib.equal((reply.status, error["code"]), (503, "UNAVAILABLE"))
        lib.check("no machine ID free" in error["message"], reply.body)
        lib.check(error["retry_after_ms"] > 0 and int(reply.headers["retry-after"]) > 0,
                  f"{reply} says when to come again")
        lib.equal(worker.get("/readyz").status, 503)
        lib.equal(worker.get("/livez").status, 200)
        time.sleep(0.2)
    a_second = (etcd_requests(worker) - before) / (time.monotonic() - began)
    lib.check(a_second < 10, f"{a_second:.1f} requests a second to etcd while it waits")
    lib.check(worker.alive() and worker.starts == 1, "it is the same process")
    return a_second


def takes_the_freed_one(fleet, stubs, worker):
    stubs.hand_back_one()
    began = time.monotonic()
    worker.wait_ready(30)
    took = time.monotonic() - began
    ids = worker.ids(10000)
    lib.equal({load.parts(number)[1] for number in ids}, {FREED}, "machine IDs")
    load.no_duplicates(ids)
    all_are_held_once(fleet)
    return took


def test_1024_claims_and_the_1025th_waits_for_the_first_that_is_freed():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        stubs = holders.start(fleet, f"--release={FREED}")
        held = stubs.wait_held(60)
        all_are_held_once(fleet)
        worker = fleet.worker(*TIMES, "--assign-wait=0s")
        a_second = waits_with_the_reason(worker, "no machine ID free: 1024 held")
        took = takes_the_freed_one(fleet, stubs, worker)
        print(f"       1024 claims in {held['took_ms']} ms; {a_second:.1f} requests a second while the "
              f"1025th waits; it has the freed one after {took:.1f} s")
        # After a crash its window has to pass first: whoever waits is told so.
        worker.kill()
        lib.wait_until(lambda: fleet.get(f"own/{FREED:04}") is None, 20, "its lease ends")
        late = fleet.worker(*TIMES, "--assign-wait=0s", "--claim-ahead=0s")
        lib.wait_until(lambda: re.search(r"no machine ID free: 1023 held, next in \d+ ms",
                                         late.status()["reason"]),
                       10, "the reason says when one comes free")
        late.wait_ready(30)
        lib.equal({load.parts(number)[1] for number in late.ids(1000)}, {FREED}, "machine IDs")
        lib.equal(stubs.terminate(20), 0, "the stubs hand everything back")
        lib.equal([key.name for key in fleet.etcd.prefix(fleet.key("own/"))],
                  [fleet.key(f"own/{FREED:04}")], "what is left of own/")


def test_the_same_when_a_coordinator_assigns():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        stubs = holders.start(fleet, f"--release={FREED}")
        fleet.leader([fleet.coordinator()])
        stubs.wait_held(60)
        all_are_held_once(fleet)
        worker = fleet.worker(*TIMES, "--assign-wait=120s")
        a_second = waits_with_the_reason(worker, r"no machine ID free: 1024 held, next at 20\d\d-")
        took = takes_the_freed_one(fleet, stubs, worker)
        print(f"       {a_second:.1f} requests a second while the 1025th waits; it has the freed one "
              f"after {took:.1f} s")
        stubs.kill()  # no need to wait until it has handed back all the others


def test_the_last_machine_id_and_a_full_millisecond_decode_back():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker("--machine-id=1023", "--assign-wait=0s")
        worker.wait_ready()
        ids = [number for _ in range(5) for number in worker.ids(10000)]
        by_ms = {}
        for number in ids:
            timestamp_ms, machine_id, sequence = load.parts(number)
            lib.equal(machine_id, 1023)
            by_ms.setdefault(timestamp_ms, []).append(sequence)
        full = [timestamp_ms for timestamp_ms, sequences in by_ms.items()
                if sequences == list(range(4096))]
        lib.check(full, "one millisecond gave all of 0..4095, in order")
        last = next(number for number in ids if load.parts(number) == (full[0], 1023, 4095))
        lib.check(last < 2**63, "it is a positive int64")
        for decoded in (worker.get(f"/v1/decode/{last}").json(), fleet.ctl_json("decode", last)):
            lib.equal((decoded["timestamp_ms"], decoded["machine_id"], decoded["sequence"]),
                      (str(full[0]), 1023, 4095))
            lib.equal(decoded["holder"], worker.status()["identity"])
        lib.equal(load.no_duplicates(ids), 50000)


if __name__ == "__main__":
    lib.main()
