"""What a worker makes of chronyd: its word, its silence, and what is no word of its."""

import json
import os
import time

import grpc_lib
import lib
from chronyd import ITSELF, UNSYNCHRONISED, Chronyd, answer
from clock_page import SECOND, WALL, Clock

GOOD = {"correction_s": -0.0015, "dispersion_s": 0.004, "delay_s": 0.02, "frequency_ppm": -12.5}
GOOD_MS = 15.5  # |correction| + dispersion + delay / 2, as in chronyc(1)
UNKNOWN = 2**63 - 1


def good(sequence):
    return answer(sequence, **GOOD)


def start(fleet, chronyd, *options):
    """A worker on a page that vouches for 30 ms through the kernel."""
    fleet.init("--new")
    clock = Clock(fleet)
    clock.say(True, 0.03)
    worker = fleet.worker("--assign-wait=0s", f"--clock-file={clock.path}",
                          f"--chrony-port={chronyd.port}", *options, name="node")
    worker.wait_ready()
    return clock, worker


def clock_of(worker):
    return worker.status()["clock"]


def wait_for(worker, **expected):
    """Waits until its status has those facts of its clock, and returns them all."""
    def there():
        clock = clock_of(worker)
        lib.equal({name: clock[name] for name in expected}, expected)
        return clock
    return lib.wait_until(there, 20, f"{expected}")


def asked_again(clock, chronyd):
    """Two more questions: then the answer to the first of them has been looked at.  Moving boot time on
    saves the two seconds between questions."""
    for _ in range(2):
        before = chronyd.asked
        clock.suspend(3)
        lib.wait_until(lambda: chronyd.asked > before, 10, "it asks again")


def other_daemon():
    """Who left a mark on this very machine: timesyncd's word of the kernel does not count."""
    if os.path.exists("/run/systemd/timesync/synchronized"):
        return "systemd-timesyncd"
    return "ntpd" if os.path.exists("/run/ntpd.pid") else ""


def on_all_ways(fleet, worker):
    """What status, both probes, metrics and the skew report say of the bound, None for unknown:
    milliseconds."""
    channel = grpc_lib.channel(worker.grpc_address)
    over_grpc = grpc_lib.ClockService(channel).Probe(grpc_lib.clock.ProbeRequest(), timeout=20).max_error_ns
    channel.close()
    over_http = worker.get("/v1/clock").json()["max_error_ns"]
    metric = [float(line.split()[1]) * 1000 for line in worker.get("/metrics").body.splitlines()
              if line.startswith("snowfleet_clock_max_error_seconds ")]
    node = json.loads(fleet.ctl_raw("skew", "--output=json").stdout)["nodes"][0]
    return {"status": clock_of(worker)["max_error_ms"],
            "http": over_http and int(over_http) / 1e6,
            "grpc": None if over_grpc == UNKNOWN else over_grpc / 1e6,
            "metrics": metric[0] if metric else None, "skew": node["claimed_error_ms"]}


def is_unknown(fleet, worker):
    """Everywhere, and zero nowhere."""
    lib.equal(on_all_ways(fleet, worker), dict.fromkeys(("status", "http", "grpc", "metrics", "skew")))
    probe = worker.get("/v1/clock").json()
    lib.equal((probe["trusted"], probe["reason"] != ""), (False, True))


def test_its_bound_counts_and_is_named():
    with lib.Fleet() as fleet, Chronyd(good) as chronyd:
        _, worker = start(fleet, chronyd, "--clock-strategy=bounded")
        clock = wait_for(worker, source="chrony", daemon="chronyd", synchronized=True, trusted=True,
                         distrust_reason="")
        for way, value_ms in on_all_ways(fleet, worker).items():
            # It grows by --clock-drift (200 ppm) until it is told anew: 2 ms in its last ten seconds.
            lib.check(GOOD_MS <= value_ms <= GOOD_MS + 2.5, f"{way}: {value_ms} ms of {clock}")
        probe = worker.get("/v1/clock").json()
        lib.equal((probe["source"], probe["frequency_ppb"]), ("chrony", -12500))
        node = json.loads(fleet.ctl_raw("skew", "--output=json").stdout)["nodes"][0]
        lib.equal((node["source"], node["synchronized"]), ("chrony", True))
        earliest, latest = map(int, worker.get("/v1/ids").json()["interval_ms"])
        lib.check(2 * GOOD_MS - 1 <= latest - earliest <= 2 * GOOD_MS + 8, f"{latest - earliest} ms")
        lib.equal(chronyd.bad_questions, [])


def test_without_it_the_kernel_is_asked():
    """Silence, and what is no answer: the last good word counts for ten seconds, then the kernel's."""
    bad = {
        "silence": lambda sequence: None,
        "garbage": lambda sequence: os.urandom(104),
        "another question's answer": lambda sequence: answer(sequence ^ 1, **GOOD),
        "a short packet": lambda sequence: good(sequence)[:103],
        "a refusal": lambda sequence: good(sequence)[:8] + b"\0\x02" + good(sequence)[10:],
    }
    with lib.Fleet() as fleet, Chronyd(good) as chronyd:
        clock, worker = start(fleet, chronyd)
        for name, reply in bad.items():
            wait_for(worker, source="chrony", daemon="chronyd")
            chronyd.reply = reply
            clock.suspend(11)
            wait_for(worker, source="kernel", synchronized=True)
            asked_again(clock, chronyd)
            state = clock_of(worker)
            lib.equal((state["source"], state["daemon"]), ("kernel", other_daemon()), name)
            lib.equal(state["trusted"], other_daemon() != "systemd-timesyncd", name)
            if state["trusted"]:
                lib.check(30 <= state["max_error_ms"] < 35, f"{name}: {state}")
            chronyd.reply = good
            clock.suspend(3)
        # The kernel does not know either, and chronyd is gone for good: unknown.
        wait_for(worker, source="chrony")
        chronyd.close()
        clock.say(False, 16)
        clock.suspend(11)
        state = wait_for(worker, source="kernel", daemon=other_daemon(), synchronized=False, trusted=False)
        lib.check("no daemon runs, or it is chronyd without rtcsync" in state["distrust_reason"], state)
        is_unknown(fleet, worker)
        lib.check(worker.ready(), "strategy wait serves all the same")


def test_a_chronyd_that_follows_nobody_vouches_for_nothing():
    with lib.Fleet() as fleet, Chronyd(good) as chronyd:
        clock, worker = start(fleet, chronyd, "--clock-strategy=bounded")
        for reason, parts in (("no source that it follows", {"stratum": 0, "leap": UNSYNCHRONISED}),
                              ("nothing but this machine's own clock", {"reference": ITSELF}),
                              ("no error at all", {"correction_s": 0, "dispersion_s": 0, "delay_s": 0})):
            wait_for(worker, source="chrony", trusted=True, state="normal")
            chronyd.reply = lambda sequence, parts=parts: answer(sequence, **{**GOOD, **parts})
            clock.suspend(3)
            state = wait_for(worker, source="chrony", daemon="chronyd", trusted=False, state="refusing")
            lib.check(reason in state["distrust_reason"] and reason in state["reason"], state)
            lib.equal(state["synchronized"], "leap" not in parts)
            is_unknown(fleet, worker)
            lib.wait_until(lambda reason=reason: reason in worker.get("/readyz").body, 10, "/readyz says why")
            chronyd.reply = good
            clock.suspend(3)
        worker.wait_ready()


def test_its_word_from_before_a_step_is_of_another_clock():
    with lib.Fleet() as fleet, Chronyd(good) as chronyd:
        clock, worker = start(fleet, chronyd)
        # Its word would count for ten seconds: that it does not must show well before they are over, which
        # a busy machine may need several tries for.
        for _ in range(5):
            wait_for(worker, source="chrony")
            chronyd.reply = lambda sequence: None
            before, begun = chronyd.asked, time.monotonic()
            clock.set(clock.fields[WALL] / SECOND + 0.5)
            wait_for(worker, source="kernel")
            took = time.monotonic() - begun
            lib.wait_until(lambda before=before: chronyd.asked > before, 10, "it is asked again")
            chronyd.reply = good
            clock.suspend(3)
            if took < 7:
                break
        lib.check(took < 7, f"the kernel is asked {took:.1f} s after the step")
        wait_for(worker, source="chrony")


if __name__ == "__main__":
    lib.main()
