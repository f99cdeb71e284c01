#!/usr/bin/env python3
"""snowfleetctl audit: dumps of IDs against each other and against what etcd's history shows."""

import json
import os
import pathlib
import pty
import random
import resource
import signal
import subprocess
import time

import lib
import load

WORKER = ["--window=4s", "--lease-ttl=4s", "--keepalive-interval=1s", "--assign-wait=0s"]
INIT = ["--new", "--quiet-time=0s", "--max-window=4s"]
# What plain decimal is not (B97).
BAD_LINES = ["-1", "-2", "+5", " 5", "5 ", "05", "0x10", "1e3", "5.0", "", "5;6",
             "18446744073709551616", "9223372036854775808", "9" * 100, "\u0661\u0662", "1_000",
             "NaN", "\"7\"", "5\x00", "5\r6", "\ufeff5"]


def snowflake(wall_ms, machine_id, sequence=0):
    return (wall_ms - load.EPOCH_MS) << 22 | machine_id << 12 | sequence


def now_ms():
    return int(time.time() * 1000)


def dump(fleet, name, ids):
    path = fleet.folder / name
    path.write_text("".join(f"{number}\n" for number in ids))
    return path


def audit(fleet, *args, code=0):
    return fleet.ctl_json("audit", *args, code=code)


def run(fleet, *args, text=b"", before=None, env=None):
    """audit with something on stdin, or after before() in the child."""
    command = [str(lib.BIN / "snowfleetctl"), "audit", "--offline", "--output=json",
               *map(str, args)]
    done = subprocess.run(command, input=text, capture_output=True, env=lib.clean_env(env),
                          timeout=60 * lib.SLOW, preexec_fn=before, cwd=fleet.folder)
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode(errors="replace")
    lib._refuse_reports("snowfleetctl", done.returncode, done.stderr)
    return done


def refused(done, *fragments, code=1):
    lib.equal(done.returncode, code, f"{done.args}: {done.stdout}{done.stderr}")
    lib.equal(done.stdout, "", str(done.args))
    lib.equal(done.stderr.rstrip("\n").count("\n"), 0, f"one line: {done.stderr!r}")
    for fragment in fragments:
        lib.check(fragment in done.stderr, f"{done.args}: {fragment!r} is not in {done.stderr!r}")


# ---- with a cluster ----

def test_what_workers_issued_is_clean_and_what_they_did_not_is_found():
    with lib.Fleet() as fleet:
        fleet.init(*INIT, "--machine-id-range=0-1")
        first = fleet.worker(*WORKER, "--identity=prod/first", "--machine-id=0")
        second = fleet.worker(*WORKER, "--identity=prod/second", "--machine-id=1")
        for worker in (first, second):
            worker.wait_ready()
        mine, others = first.ids(3000), second.ids(3000)
        lib.wait_until(lambda: int(fleet.get("hor/0000").value.split(":")[2]) > 2, 20, "extensions")
        mine += first.ids(2000)
        files = [dump(fleet, "mine", mine), dump(fleet, "others", others)]
        clean = audit(fleet, *files)
        lib.equal((clean["lines"], clean["ids"]), ("8000", "8000"))
        lib.equal((clean["bad_lines"]["lines"], clean["duplicates"]["ids"], clean["outside"]["ids"],
                   clean["not_covered"]), ("0", "0", "0", "0"))
        lib.equal([(row["machine_id"], row["lines"], row["increasing"])
                   for row in clean["machines"]], [(0, "5000", True), (1, "3000", True)])
        lib.equal([(row["machine_id"], row["identity"], row["instance"], row["ids"])
                   for row in clean["holders"]],
                  [(0, "prod/first", first.instance, "5000"),
                   (1, "prod/second", second.instance, "3000")])
        text = fleet.ctl("audit", *files)
        lib.equal((clean["holders"][0]["first"], clean["holders"][0]["last"]),
                  (clean["machines"][0]["first"], clean["machines"][0]["last"]))
        lib.check("prod/first" in text and "repeated: 0 IDs" in text, text)

        # A line that comes again, in another file.
        twice = dump(fleet, "twice", [others[0], mine[17], mine[17]])
        found = audit(fleet, *files, twice, code=1)
        lib.equal((found["duplicates"]["ids"], found["duplicates"]["lines"]), ("2", "3"))
        by_id = {row["id"]: row for row in found["duplicates"]["first"]}
        lib.equal(by_id[str(mine[17])]["places"],
                  [{"file": str(files[0]), "line": "18"}, {"file": str(twice), "line": "2"},
                   {"file": str(twice), "line": "3"}])
        lib.equal((by_id[str(mine[17])]["count"], by_id[str(mine[17])]["identity"],
                   by_id[str(mine[17])]["machine_id"]), ("3", "prod/first", 0))
        lib.equal(by_id[str(others[0])]["identity"], "prod/second")
        lib.equal([row["increasing"] for row in found["machines"]], [False, False])

        # IDs that nobody can have issued.
        horizon = int(fleet.get("hor/0000").value.split(":")[0])
        above = snowflake(horizon + 60_000, 0)
        never = snowflake(horizon - 1000, 7)
        forged = dump(fleet, "forged", [above, mine[0] + 1, never])
        found = audit(fleet, files[0], forged, code=1)
        lib.equal(found["outside"]["ids"], "2")
        lib.equal({(row["id"], row["file"], row["line"], row["reason"])
                   for row in found["outside"]["first"]},
                  {(str(above), str(forged), "1", "later than all that was granted"),
                   (str(never), str(forged), "3", "nobody ever held the machine ID")})
        lib.equal([(row["machine_id"], row["outside"]) for row in found["machines"]],
                  [(0, "1"), (7, "1")])
        done = fleet.ctl_raw("audit", files[0], forged)
        lib.equal(done.returncode, 1)
        lib.check("2 outside any window" in done.stderr, done.stderr)
        lib.check(str(above) in done.stdout and f"{forged}" in done.stdout, done.stdout)


def test_each_holder_has_the_ids_of_its_own_claim():
    with lib.Fleet() as fleet:
        fleet.init(*INIT, "--machine-id-range=0")
        ids = []
        for name, end in (("prod/first", "terminate"), ("prod/second", "kill"),
                          ("prod/third", None)):
            worker = fleet.worker(*WORKER, f"--identity={name}")
            worker.wait_ready()
            ids.append(worker.ids(1000))
            if end:
                getattr(worker, end)()
                lib.wait_until(lambda: fleet.get("own/0000") is None, 20, "own is gone")
        released = load.parts(ids[0][-1])[0]
        found = audit(fleet, dump(fleet, "ids", sum(ids, [])))
        lib.equal([(row["identity"], row["ids"]) for row in found["holders"]],
                  [("prod/first", "1000"), ("prod/second", "1000"), ("prod/third", "1000")])
        lib.equal(found["not_covered"], "0")
        # After a release its window ends with its own last ID, whatever was granted.
        later = snowflake(released + 1, 0)
        second_begins = load.parts(ids[1][0])[0]
        lib.check(second_begins > released, "a gap")
        found = audit(fleet, dump(fleet, "more", ids[0] + [snowflake(released, 0, 4095)]),
                      code=0)
        lib.equal([row["ids"] for row in found["holders"]], ["1001"])
        # The next claim found the horizon at that point, so this is the second's.
        found = audit(fleet, dump(fleet, "later", [later]))
        lib.equal([row["identity"] for row in found["holders"]], ["prod/second"])


def test_a_gap_between_two_windows_is_nobodys():
    with lib.Fleet() as fleet:
        fleet.init(*INIT, "--machine-id-range=0")
        first = fleet.worker(*WORKER, "--identity=prod/first")
        first.wait_ready()
        ids = first.ids(100)
        first.terminate()
        released = int(fleet.get("hor/0000").value.split(":")[0])
        lib.equal(released, load.parts(ids[-1])[0])
        # Raised by hand, as recover does.
        raised = released + 2000
        fleet.etcd.put(fleet.key("hor/0000"), f"{raised:020}:{'f' * 32}:1")
        second = fleet.worker(*WORKER, "--identity=prod/second")
        second.wait_ready()
        ids += second.ids(100)
        found = audit(fleet, dump(fleet, "ids", ids))
        lib.equal([row["ids"] for row in found["holders"]], ["100", "100"])
        stray = [snowflake(released + 1, 0), snowflake(raised, 0)]
        found = audit(fleet, dump(fleet, "stray", ids + stray), code=1)
        lib.equal([(row["id"], row["reason"]) for row in found["outside"]["first"]],
                  [(str(number), "within nobody's window") for number in stray])


def test_what_etcd_has_forgotten_is_not_covered_and_no_finding():
    with lib.Fleet() as fleet:
        fleet.init(*INIT, "--machine-id-range=0")
        first = fleet.worker(*WORKER, "--identity=prod/first")
        first.wait_ready()
        old = first.ids(500)
        first.terminate()
        second = fleet.worker(*WORKER, "--identity=prod/second")
        second.wait_ready()
        middle = second.ids(500)
        fleet.etcd.compact()
        before = int(fleet.get("hor/0000").value.split(":")[0])
        lib.wait_until(lambda: int(fleet.get("hor/0000").value.split(":")[0]) > before, 20,
                       "an extension")
        lib.wait_until(lambda: now_ms() > before + 5, 20, "IDs of the new part")
        new = second.ids(500)
        above = snowflake(now_ms() + 3_600_000, 0)
        found = audit(fleet, dump(fleet, "ids", old + middle + new))
        lib.equal((found["outside"]["ids"], found["not_covered"]), ("0", "1000"))
        lib.equal([(row["identity"], row["ids"]) for row in found["holders"]],
                  [("prod/second", "500")])
        found = audit(fleet, dump(fleet, "more", old + new + [above]), code=1)
        lib.equal((found["outside"]["ids"], found["not_covered"]), ("1", "500"))
        lib.equal(found["outside"]["first"][0]["id"], str(above))
        # Nobody holds it and the last holder is forgotten too: the horizon still bounds it.
        second.terminate()
        fleet.etcd.compact()
        found = audit(fleet, dump(fleet, "all", old + new + [above]), code=1)
        lib.equal((found["outside"]["ids"], found["not_covered"]), ("1", "1000"))
        lib.equal(found["outside"]["first"][0]["reason"], "later than all that was granted")


def test_what_is_below_the_floor_is_not_covered():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-3", "--floor=2024-06-01T00:00:00Z")
        floor = 1717200000000
        ids = [snowflake(floor, 2), snowflake(floor + 1, 2)]
        found = audit(fleet, dump(fleet, "ids", ids), code=1)
        lib.equal((found["outside"]["ids"], found["not_covered"]), ("1", "1"))
        lib.equal(found["outside"]["first"][0]["id"], str(ids[1]))


def test_without_etcd_only_offline():
    with lib.Fleet() as fleet:
        path = dump(fleet, "ids", [5, 6])
        refused(fleet.ctl_raw("audit", path), "init")
        fleet.etcd.kill()
        refused(fleet.ctl_raw("audit", path, "--etcd-timeout=300ms"), "etcd")
        answer = audit(fleet, path, "--offline")
        lib.equal((answer["lines"], answer["outside"], answer["not_covered"], answer["holders"]),
                  ("2", None, None, None))
        lib.equal(answer["machines"][0]["first"], "2024-01-01T00:00:00.000Z")
        answer = audit(fleet, path, "--offline", "--epoch=1970-01-01T00:00:00Z")
        lib.equal(answer["machines"][0]["first"], "1970-01-01T00:00:00.000Z")
        refused(fleet.ctl_raw("audit", path, "--epoch=0"), "--offline", code=64)


# ---- the dumps ----

def test_bad_lines_are_named_and_counted():
    with lib.Fleet(start_etcd=False) as fleet:
        path = fleet.folder / "bad"
        path.write_bytes("".join(f"{i + 1}\n{text}\n" for i, text in enumerate(BAD_LINES)).encode())
        done = run(fleet, "bad", "--show=100")
        lib.equal(done.returncode, 1, done.stderr)
        answer = json.loads(done.stdout)
        lib.equal(answer["bad_lines"]["lines"], str(len(BAD_LINES)))
        lib.equal(answer["ids"], str(len(BAD_LINES)))
        for i, bad in enumerate(answer["bad_lines"]["first"]):
            lib.equal((bad["file"], bad["line"]), ("bad", str(2 * i + 2)))
            lib.check("must be 0..9223372036854775807, got" in bad["reason"], bad)
        lib.check(f"{len(BAD_LINES)} bad lines" in done.stderr, done.stderr)
        few = json.loads(run(fleet, "bad", "--show=2").stdout)["bad_lines"]
        lib.equal((few["lines"], len(few["first"])), (str(len(BAD_LINES)), 2))
        none = json.loads(run(fleet, "bad", "--show=0").stdout)["bad_lines"]
        lib.equal((none["lines"], none["first"]), (str(len(BAD_LINES)), []))


def test_lines_may_end_as_they_do_elsewhere():
    with lib.Fleet(start_etcd=False) as fleet:
        for text in (b"1\n2\n3\n", b"1\r\n2\r\n3\r\n", b"1\n2\n3"):
            done = run(fleet, text=text)
            lib.equal((done.returncode, done.stderr), (0, ""))
            lib.equal(json.loads(done.stdout)["lines"], "3")


def test_a_huge_line_is_one_bad_line():
    with lib.Fleet(start_etcd=False) as fleet:
        (fleet.folder / "huge").write_bytes(b"1\n" + b"7" * (20 << 20) + b"\n2\n" + b"\0" * 300_000)
        done = run(fleet, "huge", "--memory=4")
        answer = json.loads(done.stdout)
        lib.equal((done.returncode, answer["lines"], answer["ids"]), (1, "4", "2"))
        lib.equal([(bad["line"], bad["reason"]) for bad in answer["bad_lines"]["first"]],
                  [("2", "longer than 262144 bytes"), ("4", "longer than 262144 bytes")])


def test_empty_input_is_clean_and_said():
    with lib.Fleet(start_etcd=False) as fleet:
        (fleet.folder / "empty").write_bytes(b"")
        for done in (run(fleet, "empty"), run(fleet), run(fleet, "-")):
            lib.equal(done.returncode, 0)
            lib.equal(json.loads(done.stdout)["lines"], "0")
            lib.check("not one line" in done.stderr, done.stderr)


def test_what_cannot_be_read_is_named_before_anything_else():
    with lib.Fleet(start_etcd=False) as fleet:
        good = dump(fleet, "good", [1, 2])
        refused(run(fleet, good, "missing"), "missing: No such file or directory")
        refused(run(fleet, good, "."), ".: Is a directory")
        refused(run(fleet, good, "x\x1b[2J"), "\\x1b[2J", "No such file")
        refused(run(fleet, ""), "No such file")
        refused(run(fleet, "-", good, "-"), "stdin", code=64)
        for option in ("--memory=3", "--memory=0", "--memory=1G", "--show=-1", "--frobnicate",
                       "--tmp-dir="):
            refused(run(fleet, option, good), option.split("=")[0].lstrip("-"), code=64)


def test_stdin_and_named_pipes_and_files_together():
    with lib.Fleet(start_etcd=False) as fleet:
        dump(fleet, "a", [1, 2])
        os.mkfifo(fleet.folder / "pipe")
        feeder = subprocess.Popen(["sh", "-c", "printf '7\\n8\\n' > pipe"], cwd=fleet.folder)
        done = run(fleet, "a", "pipe", "-", text=b"3\n1\n")
        feeder.wait(10)
        answer = json.loads(done.stdout)
        lib.equal((done.returncode, answer["lines"]), (1, "6"))
        lib.equal(answer["duplicates"]["first"][0]["places"],
                  [{"file": "a", "line": "1"}, {"file": "stdin", "line": "2"}])


def test_a_number_of_times_is_counted_and_the_first_places_are_shown():
    with lib.Fleet(start_etcd=False) as fleet:
        done = run(fleet, text=b"9\n" * 1000 + b"8\n")
        row, = json.loads(done.stdout)["duplicates"]["first"]
        lib.equal((row["count"], [place["line"] for place in row["places"]]),
                  ("1000", ["1", "2", "3", "4", "5"]))


# ---- many ----

def many(fleet, n):
    """n IDs of eight machine IDs in no order; three of them come again at the end."""
    rng = random.Random(1)
    ids = [snowflake(load.EPOCH_MS + 10**9 + i // 100, i % 8, i // 8 % 4096) for i in range(n)]
    rng.shuffle(ids)
    return dump(fleet, "many", ids + ids[:3]), ids


def test_two_million_lines_in_little_memory():
    with lib.Fleet(start_etcd=False) as fleet:
        _, ids = many(fleet, 2_000_000)
        os.mkdir(fleet.folder / "tmp")
        for args, env in ((["--memory=4", "--tmp-dir=tmp"], None), (["--memory=4"], {"TMPDIR": "tmp"}),
                          (["--memory=256"], None)):
            done = run(fleet, "many", *args, env=env)
            answer = json.loads(done.stdout)
            lib.equal((done.returncode, answer["lines"], answer["ids"]),
                      (1, "2000003", "2000000"))
            lib.equal({(row["id"], row["places"][0]["line"], row["places"][1]["line"])
                       for row in answer["duplicates"]["first"]},
                      {(str(ids[i]), str(i + 1), str(2_000_001 + i)) for i in range(3)})
            lib.equal(sum(int(row["lines"]) for row in answer["machines"]), 2_000_003)
            lib.equal(os.listdir(fleet.folder / "tmp"), [], "nothing is left behind")
        if not lib.SANITIZED:
            command = ["sh", "-c", 'ulimit -v 65536; exec "$@"', "sh",
                       str(lib.BIN / "snowfleetctl"), "audit", "--offline", "--memory=4",
                       str(fleet.folder / "many")]
            done = subprocess.run(command, capture_output=True, text=True, env=lib.clean_env())
            lib.equal(done.returncode, 1, done.stderr)
            lib.check("found 3 repeated IDs" in done.stderr, done.stderr)


def test_no_room_for_the_temporary_file_is_a_failure_with_its_reason():
    with lib.Fleet(start_etcd=False) as fleet:
        many(fleet, 400_000)

        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))
        refused(run(fleet, "many", "--memory=4", "--tmp-dir=.", before=small_files),
                "cannot write a temporary file in .: File too large")
        refused(run(fleet, "many", "--memory=4", "--tmp-dir=nowhere"),
                "cannot make a temporary file in nowhere: No such file or directory")
        # A disk that is full for real, where a namespace of one's own may mount one.
        os.mkdir(fleet.folder / "small")
        command = ["unshare", "--mount", "--map-root-user", "sh", "-c",
                   'mount -t tmpfs -o size=3m none small && exec "$@"', "sh",
                   str(lib.BIN / "snowfleetctl"), "audit", "--offline", "--memory=4",
                   "--tmp-dir=small", "many"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=fleet.folder,
                              env=lib.clean_env())
        if "unshare:" in done.stderr or "mount:" in done.stderr:
            print(f"  no full disk tried: {done.stderr.strip()}")
        else:
            refused(done, "cannot write a temporary file in small: No space left on device")


def test_a_result_that_cannot_be_written_is_a_failure():
    with lib.Fleet(start_etcd=False) as fleet:
        dump(fleet, "ids", [1])
        with open("/dev/full", "wb") as full:
            done = subprocess.run([str(lib.BIN / "snowfleetctl"), "audit", "--offline", "ids"],
                                  stdout=full, stderr=subprocess.PIPE, cwd=fleet.folder,
                                  env=lib.clean_env())
        lib.equal(done.returncode, 1)
        lib.check(b"cannot write the result" in done.stderr, done.stderr)


def test_a_progress_bar_on_a_terminal_only():
    with lib.Fleet(start_etcd=False) as fleet:
        path, _ = many(fleet, 300_000)
        lib.equal(run(fleet, "many").stderr.count("\r"), 0)
        ours, theirs = pty.openpty()
        whole = pathlib.Path(path).read_bytes()
        child = subprocess.Popen([str(lib.BIN / "snowfleetctl"), "audit", "--offline", "-"],
                                 stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=theirs,
                                 env=lib.clean_env())
        os.close(theirs)
        for part in range(4):  # slowly, so that it is drawn
            child.stdin.write(whole[part * 100_000:(part + 1) * 100_000])
            child.stdin.flush()
            time.sleep(0.3)
        child.stdin.close()
        child.wait(30 * lib.SLOW)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:  # how a terminal ends
            pass
        os.close(ours)
        lib.check(b"\rreading " in shown and b"million/s" in shown, shown)
        lib.check(shown.rstrip().split(b"\033[K")[-1].count(b"\r") == 0, shown)


if __name__ == "__main__":
    lib.main()
