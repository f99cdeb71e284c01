#!/usr/bin/env python3
"""snowfleetctl and the coordinator, given bad input: refused, with what was wrong, and nothing done."""

import resource
import subprocess

import lib

# What plain decimal is not (B97).
ODD_NUMBERS = ["-1", "-2", "+5", " 5", "5 ", "05", "0x10", "1e3", "5.0", "", "5;6",
               "18446744073709551616", "9" * 100, "\u0661\u0662", "5\n", "1_000", "NaN"]


def refused(done, *fragments):
    lib.equal(done.returncode, 64, f"{done.args}: {done.stdout}{done.stderr}")
    lib.equal(done.stdout, "", str(done.args))
    lib.equal(done.stderr.rstrip("\n").count("\n"), 0, f"one line: {done.stderr!r}")
    for fragment in fragments:
        lib.check(fragment in done.stderr, f"{done.args}: {fragment!r} is not in {done.stderr!r}")


def test_usage_errors_are_64_and_name_what_is_wrong():
    with lib.Fleet(start_etcd=False) as fleet:
        for args, fragment in [
                ([], "a command is missing"),
                (["frobnicate"], "frobnicate"),
                (["--etcd-endpoints=http://x:1", "status"], "the command comes first"),
                (["status", "--frobnicate"], "frobnicate"),
                (["status", "--output=xml"], "table"),
                (["status", "--output"], "output"),
                (["status", "extra"], "no arguments"),
                (["machines", "--cluster=a/b"], "--cluster"),
                (["machines", "--cluster="], "cluster"),
                (["status", "--etcd-endpoints=nonsense"], "nonsense"),
                (["status", "--etcd-timeout=2"], "--etcd-timeout=2"),
                (["status", "--etcd-timeout=2s", "--etcd-timeout=2s"], "etcd-timeout"),
                (["status", "--etcd-cert-file=/nonexistent"], "--etcd-key-file"),
                (["status", "--config=/nonexistent"], "/nonexistent"),
                (["decode"], "ID"),
                (["decode", "1", "2"], "ID"),
                (["next", "--kind=uuid"], "snowflake"),
                (["next", "--worker=ftp://x"], "--worker=ftp://x"),
                (["next", "--worker=http://"], "--worker"),
                (["next", "--worker=http://a:1/path"], "--worker"),
                (["init"], "--new"),
                (["init", "--new", "--if-needed"], "--new"),
                (["init", "--new", "--machine-id-range=0-1024"], "--machine-id-range=0-1024"),
                (["init", "--new", "--machine-id-range=9-3"], "--machine-id-range=9-3"),
                (["init", "--new", "--reserved=1,,2"], "--reserved=1,,2"),
                (["init", "--new", "--reserved=1024"], "0..1023"),
                (["init", "--new", "--reserved=5-3"], "--reserved=5-3"),
                (["init", "--new", "--reserved=0-1023"], "no machine ID of the range is left"),
                (["init", "--new", "--epoch=2024-13-01T00:00:00Z"], "--epoch"),
                (["init", "--new", "--epoch=2999-01-01T00:00:00Z"], "got 2999-01-01T00:00:00"),
                (["init", "--new", "--epoch=0", "--floor=2999-01-01T00:00:00Z"], "past the epoch"),
                (["init", "--new", "--floor=2000-01-01T00:00:00Z"], "before the epoch"),
                (["init", "--new", "--max-window=2h"], "--max-window=2h"),
                (["init", "--new", "--max-window=60"], "--max-window=60"),
                (["init", "--new", "--max-window=-1s"], "--max-window=-1s"),
        ]:
            refused(fleet.ctl_raw(*args), fragment)


def test_odd_numbers_are_refused_with_the_field_named():
    with lib.Fleet(start_etcd=False) as fleet:
        for text in ODD_NUMBERS:
            refused(fleet.ctl_raw("next", f"--count={text}"), "--count")
            if text:  # an empty argument cannot be told from none
                refused(fleet.ctl_raw("decode", "--", text), "ID")
            refused(fleet.ctl_raw("next", env={"SNOWFLEET_COUNT": text}), "SNOWFLEET_COUNT")
            refused(fleet.ctl_raw("init", "--new", f"--reserved={text or ','}"), "--reserved")
        for text in ("0", "10001", "9223372036854775808"):
            refused(fleet.ctl_raw("next", f"--count={text}"), "1..10000")
        refused(fleet.ctl_raw("decode", "9223372036854775808"), "ID")


def test_unknown_settings_in_the_environment_are_refused():
    with lib.Fleet(start_etcd=False) as fleet:
        refused(fleet.ctl_raw("version", env={"SNOWFLEET_FROBNICATE": "1"}), "SNOWFLEET_FROBNICATE")
        # Those of the sister programs are none of the tool's business.
        fleet.ctl("version", env={"SNOWFLEET_WINDOW": "10s", "SNOWFLEET_HTTP_LISTEN": "0.0.0.0:1"})


def test_help_and_version_go_to_stdout():
    with lib.Fleet(start_etcd=False) as fleet:
        for args in (["help"], ["--help"]):
            text = fleet.ctl(*args)
            for command in ("init", "status", "machines", "next", "decode", "skew", "version"):
                lib.check(f"  {command}" in text, text)
        for command in ("init", "status", "machines", "next", "decode", "skew", "version"):
            text = fleet.ctl(command, "--help")
            lib.check(f"snowfleetctl {command}" in text and "--etcd-endpoints" in text, text)
        lib.check(fleet.ctl("version").startswith("snowfleetctl "), "version")
        lib.check(fleet.ctl("--version").startswith("snowfleetctl "), "--version")


def test_decode_is_arithmetic():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-1")
        lib.equal(fleet.ctl_json("decode", "187354526515220487", "--kind=snowflake"), {
            "kind": "snowflake", "id": "187354526515220487", "time": "2025-06-01T00:00:00.000Z",
            "timestamp_ms": "1748736000000", "machine_id": 5, "sequence": 7, "future": False})
        lib.equal(fleet.ctl_json("decode", "187354526515220487")["ambiguous"], ["snowflake", "sequence"])
        lib.equal(fleet.ctl_json("decode", "187354526515220487", "--kind=sequence"),
                  {"kind": "sequence", "id": "187354526515220487"})
        lib.equal(fleet.ctl_json("decode", "0")["time"], "2024-01-01T00:00:00.000Z")
        last = fleet.ctl_json("decode", "9223372036854775807")
        lib.equal((last["time"], last["machine_id"], last["sequence"], last["future"]),
                  ("2093-09-06T15:47:35.551Z", 1023, 4095, True))
        lib.equal(fleet.ctl_json("decode", "0", "--epoch=1970-01-01T00:00:00Z")["timestamp_ms"], "0")


def test_decode_works_without_etcd_and_says_what_it_assumes():
    with lib.Fleet() as fleet:
        fleet.etcd.kill()
        done = fleet.ctl_raw("decode", "187354526515220487", "--etcd-timeout=500ms")
        lib.equal(done.returncode, 0)
        lib.check("2025-06-01T00:00:00.000Z" in done.stdout, done.stdout)
        lib.check("2024-01-01" in done.stderr, done.stderr)
        done = fleet.ctl_raw("decode", "5", "--epoch=2024-01-01T00:00:00Z")
        lib.equal((done.returncode, done.stderr), (0, ""))


def test_the_clusters_own_epoch_counts():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--epoch=2020-01-01T00:00:00Z", "--machine-id-range=0-1")
        lib.equal(fleet.ctl_json("decode", "0")["time"], "2020-01-01T00:00:00.000Z")


def test_garbage_in_etcd_is_shown_and_survived():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-9")
        coordinator = fleet.coordinator("--lease-ttl=2s", "--ceiling-interval=500ms")
        fleet.leader([coordinator])
        instance = "ab" * 16
        for name, value in [
                ("hor/0003", "garbage"), ("hor/0004", "-0000000000000000001:" + "0" * 32 + ":0"),
                ("own/0005", "\x00\xff garbage"), ("own/0006", "{}"), ("own/9999", "{}"),
                ("hor/xxxx", "1"), ("hor/00001", "1"), (f"node/{instance}", "[1,2"),
                (f"node/{'cd' * 16}", '{"identity":"a b","attempt":"-1","missing":-1}'),
                ("node/short", "{}"), (f"assign/{instance}", "nonsense"), ("frobnicate", "1"),
                ("seq/a", "5")]:
            fleet.etcd.put(fleet.key(name), value)
        slots = fleet.ctl_json("status")["slots"]
        lib.equal((slots["free"], slots["held"], slots["absent"]), (6, 2, 2))
        states = {slot["machine_id"]: slot["state"] for slot in fleet.ctl_json("machines")}
        lib.equal([states[n] for n in (2, 3, 4, 5, 6)],
                  ["FREE", "ABSENT", "ABSENT", "HELD", "HELD"])
        stub = fleet.stub(missing=1)
        lib.equal(stub.wait_assignment()["machine_ids"], [0])
        for value in ("garbage", "1", "00000000000000000001x", "9" * 20):
            fleet.etcd.put(fleet.key("ceil"), value)
            lib.equal(fleet.ctl_json("status")["ceiling_ms"], None)
        lib.wait_until(lambda: "ceil" in coordinator.get("/readyz").body, 5, "the ceiling is missed")
        fleet.etcd.put(fleet.key("meta"), "{}")
        lib.wait_until(lambda: "meta" in coordinator.get("/readyz").body, 5, "meta is missed")
        lib.equal(fleet.ctl_raw("machines").returncode, 1)
        lib.check(coordinator.alive(), "the coordinator lives")


def test_a_result_that_cannot_be_written_is_a_failure():
    with lib.Fleet(start_etcd=False) as fleet:
        with open("/dev/full", "wb") as full:
            done = subprocess.run([lib.BIN / "snowfleetctl", "help"], stdout=full,
                                  stderr=subprocess.PIPE, env=lib.clean_env(), check=False)
        lib.equal(done.returncode, 1)
        lib.check(b"No space left" in done.stderr, done.stderr)
        lib.check(fleet.folder.exists(), "")


def test_the_coordinators_options_are_checked_too():
    with lib.Fleet(start_etcd=False) as fleet:
        for args, fragment in [
                (["--lease-ttl=1s"], "--lease-ttl=1s"), (["--lease-ttl=2500ms"], "whole seconds"),
                (["--http-listen=nowhere"], "--http-listen"), (["--http-listen="], "--http-listen"),
                (["--http-listen=127.0.0.1:65536"], "--http-listen"),
                (["--advertise=10.0.0.1:8090"], "--advertise=10.0.0.1:8090: must be a host name or an IP address"),
                (["--probe-interval=0s"], "--probe-interval"), (["extra"], "extra"),
                (["--ceiling-lead=1"], "with its unit"), (["--unknown"], "unknown"),
                (["--cluster=a/b"], "--cluster"), (["--etcd-endpoints=ftp://x"], "ftp://x")]:
            done = subprocess.run([lib.BIN / "snowfleet-coordinator", *args], text=True, timeout=20,
                                  capture_output=True, env=lib.clean_env(), check=False)
            lib.equal(done.returncode, 64, f"{args}: {done.stdout}{done.stderr}")
            lib.check(fragment in done.stderr, f"{args}: {done.stderr}")
            lib.equal(len(done.stderr.splitlines()), 1, f"one line: {done.stderr!r}")


def test_a_coordinator_takes_all_the_descriptors_that_it_may_have():
    with lib.Fleet() as fleet:
        daemon = lib.Daemon("coordinator", [
            "prlimit", "--nofile=64:512", lib.BIN / "snowfleet-coordinator",
            "--http-listen=127.0.0.1:0", "--etcd-endpoints", fleet.etcd.url], fleet.folder)
        fleet.processes.append(daemon)
        lib.check(daemon.address, "it listens")
        lib.equal(resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE), (512, 512))


if __name__ == "__main__":
    lib.main()
