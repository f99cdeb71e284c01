#!/usr/bin/env python3
"""snowfleetctl next, decode, status and skew against real workers."""

import lib

SHORT = ["--lease-ttl=2s", "--ceiling-interval=500ms", "--probe-interval=500ms"]


def start(fleet, workers):
    fleet.init("--new", "--machine-id-range=0-9")
    fleet.leader([fleet.coordinator(*SHORT)])
    daemons = [fleet.worker() for _ in range(workers)]
    for daemon in daemons:
        daemon.wait_ready()
    return daemons


def test_ids_come_from_any_ready_worker_or_from_the_one_named():
    with lib.Fleet() as fleet:
        a, b = start(fleet, 2)
        ids = [int(line) for line in fleet.ctl("next", "--count=1000").splitlines()]
        lib.equal(len(set(ids)), 1000)
        lib.equal(ids, sorted(ids), "of one worker, so they rise")
        answer = fleet.ctl_json("next", "--count=3", "--worker", b.url)
        lib.equal((answer["kind"], answer["count"], len(answer["ids"])), ("snowflake", 3, 3))
        parts = fleet.ctl_json("decode", answer["ids"][0])
        lib.equal(parts["holder"], "worker2")
        lib.equal(parts["machine_id"], b.status()["machines"][0]["machine_id"])
        lib.equal(parts["future"], False)
        # The named one is asked without etcd.
        lib.equal(len(fleet.ctl("next", "--worker", a.url + "/", "--etcd-endpoints",
                                "http://127.0.0.1:1").splitlines()), 1)
        a.pause()
        for _ in range(5):
            lib.equal(len(fleet.ctl("next").splitlines()), 1, "the stopped one is passed over")
        a.resume()


def test_nobody_ready_is_said_in_one_line():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-9")
        done = fleet.ctl_raw("next")
        lib.equal((done.returncode, done.stdout), (1, ""))
        lib.check("has no worker" in done.stderr, done.stderr)
        fleet.stub()
        done = fleet.ctl_raw("next")
        lib.equal((done.returncode, done.stdout), (1, ""))
        lib.check("none of 1 workers is ready" in done.stderr, done.stderr)
        done = fleet.ctl_raw("next", "--worker=http://127.0.0.1:1")
        lib.equal((done.returncode, done.stdout), (1, ""))
        lib.check("127.0.0.1:1" in done.stderr, done.stderr)


def test_status_machines_and_skew_show_the_fleet():
    with lib.Fleet() as fleet:
        workers = start(fleet, 3)
        status = fleet.ctl_json("status")
        lib.equal(status["slots"]["held"], 3)
        lib.equal(sorted(worker["identity"] for worker in status["workers"]),
                  ["worker1", "worker2", "worker3"])
        held = [machine for machine in fleet.ctl_json("machines") if machine["state"] == "HELD"]
        lib.equal({machine["instance"] for machine in held}, {each.instance for each in workers})
        done = fleet.ctl_raw("skew", "--output=json")
        # The machine's own clock may be unsynchronised, which warns.
        lib.check(done.returncode in (0, 1), f"{done.returncode} {done.stdout}{done.stderr}")
        table = fleet.ctl("status")
        lib.check("worker2" in table and "mode: OPEN" in table, table)


if __name__ == "__main__":
    lib.main()
