#!/usr/bin/env python3
"""The coordinator's continuous skew monitor, and its history."""

import lib

S = 1_000_000_000
MS = 1_000_000
SHORT = ["--lease-ttl=2s", "--probe-interval=500ms"]


def history(coordinator, query=""):
    reply = coordinator.get("/v1/skew/history" + query)
    lib.equal(reply.status, 200, reply.body)
    return reply.json()


def test_every_coordinator_keeps_a_history():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        coordinators = [fleet.coordinator(*SHORT) for _ in range(2)]
        fleet.leader(coordinators)
        for n in range(3):
            fleet.stub(f"good-{n}").hold(n)
        fleet.stub("ahead", offset_ns=3 * S)
        fleet.stub("dead", serve=False)

        def told(coordinator, since=""):
            """Its newest points, when it has heard all that can be heard."""
            answer = history(coordinator, since)
            lib.equal((answer["schema"], answer["interval_ms"]), (1, 10000))
            last = {node["identity"]: (node["offset_ms"][-1], node["bound_ms"][-1], node)
                    for node in answer["nodes"] if node["offset_ms"]}
            lib.equal(set(last), {"good-0", "good-1", "good-2", "ahead", "dead"})
            lib.check(all(last[f"good-{n}"][0] is not None for n in range(3)), "heard")
            return answer, last
        for coordinator in coordinators:  # whether it leads or not
            answer, last = lib.wait_until(lambda: told(coordinator), 30, "a point of each")
            lib.equal(last["dead"][:2], (None, None))
            lib.check(abs(last["ahead"][0] - 3000) <= last["ahead"][1] + 5, str(last["ahead"][:2]))
            lib.equal(last["good-1"][2]["machine_ids"], [1])
            lib.equal(last["ahead"][2]["machine_ids"], [])
            newest = answer["times_ms"][-1]
            for node in answer["nodes"]:
                lib.equal(len(node["offset_ms"]), len(answer["times_ms"]))
                lib.equal(len(node["bound_ms"]), len(answer["times_ms"]))
                lib.equal(node["present"], True)
            later = history(coordinator, f"?since={newest}")
            lib.check(newest not in later["times_ms"], "only what is new")
        for bad in ("since=", "since=-1", "since=1.5", "since=x", "since=01", "since=1&since=2",
                    "since=9223372036854775808", "until=1"):
            reply = coordinators[0].get(f"/v1/skew/history?{bad}")
            lib.equal(reply.status, 400, bad)
            lib.equal(reply.json()["error"]["field"], bad.split("=")[0], bad)


if __name__ == "__main__":
    lib.main()
