"""A worker without etcd: no ID twice and none lower, whatever becomes of it, its disk and its clock."""

import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import lib
import load
import state
import test_clock_wait

WINDOW = "--window=1s"


class Alone:
    """One standalone worker and its file.  As a context manager it cleans up after itself."""

    def __init__(self, *args, init=True):
        self.fleet = lib.Fleet(start_etcd=False)
        self.file = state.File(self.fleet.folder / "state")
        self.args = [*args] if any("--window" in arg for arg in args) else [WINDOW, *args]
        self.newest = 0
        if init:
            self.start("--init")

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.fleet.__exit__(*problem)

    def start(self, *args):
        """A new process; args come after the usual ones."""
        self.worker = lib.Daemon(self.fleet._name("alone"), [
            lib.BIN / "snowfleet-worker", "--standalone", f"--state-file={self.file}",
            "--http-listen=127.0.0.1:0", "--grpc-listen=127.0.0.1:0", *self.args, *args], self.fleet.folder)
        self.fleet.processes.append(self.worker)
        return self.worker

    def refused(self, *words, args=(), file=None):
        """Starts one that must not start; words are in its only line on stderr."""
        done = subprocess.run([
            str(lib.BIN / "snowfleet-worker"), "--standalone", f"--state-file={file or self.file}",
            "--http-listen=127.0.0.1:0", "--grpc-listen=127.0.0.1:0", *self.args, *args], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, env=lib.clean_env(), timeout=20, check=False)
        lib._refuse_reports("snowfleet-worker", done.returncode, done.stderr)
        lib.equal(done.returncode, 1, f"exit code: {done.stderr}")
        lib.equal(len(done.stderr.splitlines()), 1, f"one line: {done.stderr!r}")
        for word in (str(file or self.file), *words):
            lib.check(word in done.stderr, f"{word!r} is in {done.stderr!r}")

    def take(self, count=5000):
        """IDs, which are above all taken before."""
        self.worker.wait_ready()
        ids = self.worker.ids(count)
        self.note(ids)
        return ids

    def note(self, ids):
        load.no_duplicates(ids)
        lib.check(min(ids) > self.newest, f"{min(ids)} is not above {self.newest}")
        self.newest = max(ids)

    def restart(self, *args):
        self.worker.kill()
        return self.start(*args)

    def ends(self, *words, timeout=10):
        """The worker ends by itself, with 1 and a reason, and issued nothing lower until then."""
        lib.equal(self.worker.wait(timeout), 1, "exit code")
        for word in words:
            lib.check(word in self.worker.errors(), f"{word!r} is in {self.worker.errors()!r}")


# ---- crashes ----

def test_30_kills_under_full_load():
    with Alone(init=False) as alone:
        issued, slowest = 0, 0.0
        for number in range(6 if lib.SANITIZED else 30):
            began = time.monotonic()
            worker = alone.start(*(["--init"] if number == 0 else []))
            worker.wait_ready()
            slowest = max(slowest, time.monotonic() - began)
            with load.Load(worker.address, clients=6, count=1000) as clients:
                clients.wait_more(20000 + number * 3001)  # never at the same point of a window
                worker.kill()
                ids = clients.stop()
            alone.note(ids)
            issued += len(ids)
            lib.equal(len({load.parts(each)[1] for each in ids}), 1, "machine IDs")
        print(f"       {issued} IDs, ready again within {slowest:.1f} s")


def test_sigterm_under_load_hands_the_rest_back():
    with Alone("--window=60s") as alone:
        for _ in range(3):
            alone.worker.wait_ready()
            with load.Load(alone.worker.address, clients=6, count=1000) as clients:
                clients.wait_more(20000)
                began = time.monotonic()
                lib.equal(alone.worker.terminate(4), 0, "exit code")
                took = time.monotonic() - began
                ids = clients.stop()
            alone.note(ids)
            lib.check(all(status == 503 for _, status, _ in clients.refusals), "only 503 meanwhile")
            last_ms = load.parts(max(ids))[0]
            for record in alone.file.records():
                lib.check(last_ms <= record.horizon_ms <= last_ms + 50,
                          f"the horizon {record.horizon_ms} is the last timestamp {last_ms}")
            began = time.monotonic()
            alone.start()
            alone.worker.wait_ready(10)
            lib.check(time.monotonic() - began < 10 * lib.SLOW, "and not after 60 s")
        print(f"       stopped in {took:.2f} s")


def test_a_start_waits_for_the_window_of_the_last_run():
    with Alone("--window=5s") as alone:
        alone.take()
        began = time.monotonic()
        worker = alone.restart()
        status = lib.wait_until(lambda: (lambda s: s if s["machines"] and
                                         s["machines"][0]["reason"] else None)(worker.status()),
                                5, "it says why it waits")
        lib.equal((status["state"], status["reason"]), ("CLAIMING", "horizon"))
        reply = worker.get("/v1/ids")
        lib.equal(reply.status, 503)
        lib.check(0 < reply.json()["error"]["retry_after_ms"] <= 5000, reply.body)
        reply = worker.get("/readyz")
        lib.equal((reply.status, reply.json()["state"]), (503, "CLAIMING"))
        lib.equal(worker.get("/livez").status, 200)
        alone.take()
        lib.check(time.monotonic() - began > 2, "it did wait")


# ---- the file ----

def test_a_file_that_was_damaged():
    # Each: what is done to the file of a dead worker, and what a start without --init says to it.
    rows = (
        ("the first record's bit", lambda a: a.file.flip(40), None),
        ("the second record's bit", lambda a: a.file.flip(state.BLOCK + 40), None),
        ("the first record's checksum", lambda a: a.file.flip(state.CRC_AT), None),
        ("the last byte", lambda a: a.file.flip(2 * state.BLOCK - 1), None),
        ("the first record gone", lambda a: a.file.patch(0, bytes(state.BLOCK)), None),
        ("cut in the second record", lambda a: os.truncate(a.file.path, state.BLOCK + 100), None),
        ("cut behind the first record", lambda a: os.truncate(a.file.path, state.BLOCK), None),
        ("both records' bits", lambda a: (a.file.flip(40), a.file.flip(state.BLOCK + 40)),
         ("neither record is valid", "damaged", "--init")),
        ("cut in the first record", lambda a: os.truncate(a.file.path, state.BLOCK - 1),
         ("neither record is valid", "cut short")),
        ("empty", lambda a: os.truncate(a.file.path, 0), ("neither record is valid",)),
        ("zeros", lambda a: a.file.patch(0, bytes(2 * state.BLOCK)), ("never written",)),
        ("noise", lambda a: a.file.patch(0, os.urandom(2 * state.BLOCK)),
         ("neither record is valid",)),
        ("missing", lambda a: a.file.path.unlink(), ("no such file", "--init")),
    )
    for row, damage, refusal in rows:
        with Alone() as alone:
            alone.take()
            alone.worker.kill()
            damage(alone)
            if refusal:
                alone.refused(*refusal)
                continue
            alone.start()
            alone.take()
            lib.check(all(record.valid for record in alone.file.records()), f"{row}: not healed")


def test_init_refuses_what_is_there():
    with Alone() as alone:
        alone.take()
        alone.worker.terminate()
        alone.refused("exists already", "--init", args=["--init"])
        os.truncate(alone.file.path, 0)
        alone.refused("exists already", args=["--init"])
        alone.refused("No such file or directory", args=["--init"],
                      file=alone.fleet.folder / "none" / "state")


def test_another_host():
    with Alone() as alone:
        alone.take()
        alone.worker.kill()
        here = alone.file.newest().host
        there = here[:-1] + ("x" if here[-1] != "x" else "y")
        alone.file.move_to_host(there)
        alone.refused(here, there, "--adopt")
        alone.start("--adopt")
        alone.take()
        lib.equal([record.host for record in alone.file.records()], [here, here])
        alone.restart()  # and now it is at home
        alone.take()


def test_another_machine_id_does_not_lower_the_horizon():
    with Alone("--machine-id=900") as alone:
        lib.equal(load.parts(alone.take(1)[0])[1], 900)
        alone.args = [WINDOW, "--machine-id=3"]
        alone.restart()
        # Above all of the other one's, though its machine ID is lower: the time is.
        lib.equal(load.parts(alone.take(1)[0])[1], 3)
        lib.equal(alone.file.newest().machine_id, 3)


def test_two_workers_on_one_file():
    with Alone() as alone:
        alone.worker.wait_ready()
        alone.refused("another process has it open")
        alone.refused("exists already", args=["--init"])
        alone.take()


def test_an_old_copy_put_back():
    # Harmless as long as the clock has not gone back.
    with Alone() as alone:
        alone.take()
        shutil.copy(alone.file.path, f"{alone.file}.old")
        alone.restart()
        alone.take()
        alone.worker.kill()
        os.replace(f"{alone.file}.old", alone.file.path)
        alone.start()
        alone.take()


def test_replaced_under_a_running_worker():
    for replace in (lambda a: os.replace(shutil.copy(a.file.path, f"{a.file}.copy"), a.file.path),
                    lambda a: a.file.path.unlink()):
        with Alone() as alone:
            alone.take()
            with load.Load(alone.worker.address, clients=2) as clients:
                clients.wait_more()
                replace(alone)
                alone.ends(str(alone.file), "the file in use" if not alone.file.path.exists()
                           else "another file")
                ids = clients.stop()
            alone.note(ids)
            lib.check(alone.worker.logged("state", "the state file cannot be written: ending"), "logged")


def test_overwritten_in_place_under_a_running_worker():
    with Alone() as alone:
        alone.take()
        os.truncate(alone.file.path, 0)
        lib.wait_until(lambda: all(record.valid for record in alone.file.records()), 5, "it is healed")
        alone.take()
        alone.restart()
        alone.take()


# ---- the disk ----

class SmallDisk:
    """A file system of 64 KiB; None in its place where mounting is not allowed."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="snowfleet-disk-")
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", self.path],
                              capture_output=True, text=True, check=False)
        self.reason = done.stderr.strip() if done.returncode else None

    def fill(self):
        with open(f"{self.path}/rest", "ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def close(self):
        if not self.reason:
            subprocess.run(["umount", "-l", self.path], check=True)
        os.rmdir(self.path)


def test_disk_full():
    disk = SmallDisk()
    try:
        if disk.reason:
            print(f"       skipped: {disk.reason}")
            return
        with Alone(init=False) as alone:
            alone.file = state.File(f"{disk.path}/state")
            disk.fill()
            alone.refused("No space left on device", args=["--init"])
            lib.check(not alone.file.path.exists(), "nothing is left of it")
            os.unlink(f"{disk.path}/rest")
            alone.start("--init")
            alone.take()
            disk.fill()  # its place is its own
            sequence = alone.file.newest().sequence
            lib.wait_until(lambda: alone.file.newest().sequence > sequence + 2, 10, "it goes on")
            alone.take()
            alone.restart()
            alone.take()
            alone.worker.kill()
            os.truncate(alone.file.path, state.BLOCK)  # now there is a place to be had again, and
            disk.fill()  # somebody else has it
            alone.refused("No space left on device")
            os.unlink(f"{disk.path}/rest")
            alone.start()
            alone.take()
            lib.equal(alone.worker.terminate(), 0)
    finally:
        disk.close()


def test_a_write_that_fails_ends_the_worker():
    # The kernel refuses the second record, or cuts it: as good as a disk that is broken.
    for allowed, words in ((state.BLOCK, "write: File too large"),
                           (state.BLOCK + 2000, "only 2000 of 4096 bytes were written")):
        with Alone() as alone:
            alone.take()
            with load.Load(alone.worker.address, clients=2) as clients:
                clients.wait_more()
                resource.prlimit(alone.worker.pid, resource.RLIMIT_FSIZE,
                                 (allowed, resource.RLIM_INFINITY))
                alone.worker.wait(10)
                ids = clients.stop()
            alone.ends(str(alone.file), words)
            alone.note(ids)
            for record in alone.file.records():
                lib.check(not record.valid or load.parts(max(ids))[0] <= record.horizon_ms,
                          "all issued lies below what is on disk")
            alone.start()
            alone.take()


def test_not_ready_as_soon_as_a_write_failed():
    with Alone("--drain-timeout=10s") as alone:
        alone.take()
        # More answers than fit on the way to a client that does not read: the drain waits for them.
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.settimeout(5 * lib.SLOW)
            reader.connect(("127.0.0.1", int(alone.worker.address.rsplit(":", 1)[1])))
            reader.sendall(b"GET /v1/ids?count=10000 HTTP/1.1\r\nHost: a\r\n\r\n" * 40)
            lib.equal(reader.recv(12), b"HTTP/1.1 200")
            resource.prlimit(alone.worker.pid, resource.RLIMIT_FSIZE,
                             (state.BLOCK, resource.RLIM_INFINITY))
            reply = lib.wait_until(lambda: (lambda r: r if r.status == 503 else None)(
                alone.worker.get("/readyz")), 5, "not ready", 0.005)
            lib.check(reply.json()["state"] in ("DRAINING", "STARVED"), reply.body)
        alone.ends("File too large")


# ---- the clock ----

def test_a_clock_that_goes_back():
    with Alone(init=False) as alone:
        clock = test_clock_wait.Clock(alone.fleet)
        alone.args.append(f"--clock-file={clock.path}")
        alone.start("--init")
        alone.take()
        clock.set(-3)  # while it runs
        lib.wait_until(lambda: alone.worker.get("/v1/ids").status == 503, 5, "it refuses")
        alone.take()
        clock.set(-6)  # while it is down
        alone.restart()
        lib.equal(alone.worker.get("/readyz").status, 503)
        alone.take()
        alone.worker.terminate()
        clock.set(-9)  # after it handed over
        alone.start()
        alone.take()
        clock.set(3600)  # an hour too far, and corrected: taken over only by a restart
        alone.take()
        lib.check(load.parts(alone.newest)[0] < (time.time() + 60) * 1000, "coasted over")
        alone.restart()
        alone.take()
        lib.check(load.parts(alone.newest)[0] > (time.time() + 3540) * 1000, "and taken over")
        clock.set(-9)
        alone.restart()
        reply = lib.wait_until(lambda: (lambda r: r if "can be used in" in r.body else None)(
            alone.worker.get("/v1/ids")), 5, "it says for how long")
        lib.check(3_500_000 < reply.json()["error"]["retry_after_ms"] < 3_700_000, reply.body)
        lib.equal(alone.worker.terminate(), 0)  # and hands nothing lower over
        clock.set(3605)
        alone.start()
        alone.take()


def test_before_the_epoch_and_past_the_end():
    with Alone(init=False) as alone:
        clock = test_clock_wait.Clock(alone.fleet)
        alone.args.append(f"--clock-file={clock.path}")
        clock.set(load.EPOCH_MS / 1000 - time.time() - 3600)
        alone.start("--init")
        lib.equal(alone.worker.get("/v1/ids").status, 503)
        clock.set(test_clock_wait.END_MS / 1000 - time.time() - 5)
        clock_of = lambda: alone.worker.status()["clock"]
        lib.wait_until(lambda: clock_of()["state"] == "coasting", 10, "nobody is there to confirm it")
        lib.check("until a restart" in clock_of()["reason"], "it says what is needed")
        lib.equal(alone.worker.get("/v1/ids").status, 503)
        clock.set(test_clock_wait.END_MS / 1000 - time.time() - 5)
        alone.restart()
        alone.take(100)
        lib.wait_until(lambda: alone.worker.get("/v1/ids").status == 503, 10, "the end is past")
        lib.equal(alone.file.newest().horizon_ms, test_clock_wait.END_MS)
        lib.equal(alone.worker.terminate(), 0)


# ---- what it looks like ----

def test_what_it_shows():
    with Alone("--machine-id=1023") as alone:
        (number,) = alone.take(1)
        status = alone.worker.status()
        machine = status["machines"][0]
        lib.equal((status["state"], status["reason"], status["cluster"], status["era"],
                   status["machine_id_range"], status["reserved"], status["lease_ttl_s"],
                   status["window_ms"], status["epoch_ms"]),
                  ("SERVING", "", "", "", "", [], 0, 1000, str(load.EPOCH_MS)))
        lib.equal((machine["machine_id"], machine["state"]), (1023, "SERVING"))
        lib.check(0 < machine["runway_ms"] <= 1000 and len(machine["claim"]) == 32, machine)
        decoded = alone.worker.get(f"/v1/decode/{number}").json()
        lib.equal((decoded["machine_id"], decoded["future"]), (1023, False))
        with_claim = alone.worker.get("/v1/ids?claim=1").json()
        lib.equal(with_claim["claim"], machine["claim"])
        metrics = alone.worker.get("/metrics").body
        lib.check("snowfleet_hold_extensions_total" in metrics, "metrics")
        lib.check("snowfleet_etcd_" not in metrics, "there is no etcd to tell of")
        records = alone.file.records()
        lib.equal([record.valid for record in records], [True, True])
        lib.equal(records[0].kind, state.STANDALONE)
        settings = {entry["name"]: entry["value"]
                    for entry in alone.worker.logged("options", "effective")}
        lib.equal((settings["standalone"], settings["window"]), ("true", "1s"))


def test_the_window_is_2_s_unless_told():
    with Alone(init=False) as alone:
        alone.args = []
        alone.start("--init")
        lib.equal(alone.worker.status()["window_ms"], 2000)


def test_a_hard_stop_while_it_begins():
    # Whatever the moment: either there is no file, or it is a whole one, or a start says what to do.
    with Alone(init=False) as alone:
        for delay in range(0, 30, 3):
            worker = alone.start("--init")
            time.sleep(delay / 1000 * lib.SLOW)
            worker.signal(signal.SIGKILL)
            worker.wait(5)
            if alone.file.path.exists():
                if any(record.valid for record in alone.file.records()):
                    alone.start()
                    alone.take(10)
                    alone.worker.kill()
                else:
                    alone.refused("neither record is valid", "--init")
                alone.file.path.unlink()


def test_options_that_make_no_sense():
    for args, words in (
            (["--standalone"], ["--standalone", "--state-file"]),
            (["--init"], ["--init", "--standalone"]),
            (["--adopt", "--state-file=x"], ["--adopt", "--standalone"]),
            (["--standalone", "--state-file="], ["--state-file"]),
            (["--standalone", "--state-file=x", "--init", "--adopt"], ["--init", "--adopt"]),
            (["--standalone", "--state-file=x", "--machine-ids=2"],
             ["--machine-ids=2", "--standalone"]),
            (["--standalone", "--state-file=x", "--machine-id=1024"],
             ["--machine-id=1024", "0..1023"]),
            (["--standalone", "--state-file=x", "--window=999ms"], ["--window=999ms", "1s..3600s"]),
            *((["--standalone", "--state-file=x", f"--{name}={value}"], [f"--{name}", "--standalone"])
              for name, value in (("etcd-endpoints", "http://127.0.0.1:1"), ("cluster", "default"),
                                  ("etcd-timeout", "2s"), ("etcd-ca-file", "y"),
                                  ("etcd-cert-file", "y"), ("etcd-key-file", "y"),
                                  ("claim-ahead", "5s"), ("assign-wait", "20s"),
                                  ("lease-ttl", "15s"), ("keepalive-interval", "5s")))):
        done = subprocess.run([str(lib.BIN / "snowfleet-worker"), *args], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, env=lib.clean_env(), timeout=20,
                              check=False)
        lib.equal(done.returncode, 64, f"{args}: {done.stderr}")
        lib.equal(len(done.stderr.splitlines()), 1, f"one line: {done.stderr!r}")
        for word in words:
            lib.check(word in done.stderr, f"{args}: {word!r} is in {done.stderr!r}")


if __name__ == "__main__":
    lib.main()
