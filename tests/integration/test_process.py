"""What a process is given by the system and may run out of or lose: descriptors, the reader of its log."""

import json
import os
import resource
import signal
import socket
import subprocess
import time

import lib
import test_http_abuse as abuse


def ceiling(fleet):
    return int(fleet.get("ceil").value)


# ---- descriptors, of the coordinator; the worker's are in test_http_abuse.py ----

QUICK = ("--lease-ttl=2s", "--ceiling-interval=500ms")


def test_a_leader_without_descriptors_stays_calm_and_leads():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        leader = fleet.coordinator(*QUICK)
        fleet.leader([leader])
        kept = abuse.connect(leader)
        abuse.kept_is_answered(kept)
        room = resource.prlimit(leader.pid, resource.RLIMIT_NOFILE)
        few = abuse.open_descriptors(leader) + 5
        resource.prlimit(leader.pid, resource.RLIMIT_NOFILE, (few, room[1]))
        held = abuse.hold_open(leader, 50)
        before = ceiling(fleet)
        abuse.stays_calm(leader, 3)
        abuse.kept_is_answered(kept)
        lib.wait_until(lambda: ceiling(fleet) > before, 5, "it raises the ceiling all the while")
        lib.check(abuse.receive_now(held[-1], 20) is None, "it is out of descriptors")
        for connection in held:
            connection.close()
        lib.wait_until(leader.leads, 10, "it has room again, and leads")
        lib.equal(leader.logged("election", "moved", **{"from": "leader"}), [])
        kept.close()


def test_with_few_descriptors_a_coordinator_takes_fewer_clients_and_finds_etcd_again():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        leader = lib.Daemon("few", [
            "prlimit", "--nofile=128:128", lib.BIN / "snowfleet-coordinator", *QUICK,
            "--http-listen=127.0.0.1:0", "--etcd-endpoints", fleet.etcd.url], fleet.folder)
        fleet.processes.append(leader)
        fleet.leader([leader])
        told = leader.logged("http", "descriptors are too few: fewer clients are taken")
        lib.equal([(entry["descriptors"], entry["max_connections"]) for entry in told], [(128, 32)])
        kept = abuse.connect(leader)
        abuse.kept_is_answered(kept)
        held = abuse.hold_open(leader, 150)
        answers = [connection.recv(20) for connection in held]
        lib.equal(sum(answer.startswith(b"HTTP/1.1 503") for answer in answers), 150 - 31)
        fleet.etcd.kill()
        abuse.stays_calm(leader, 3)
        fleet.etcd.start()
        before = ceiling(fleet)
        lib.wait_until(lambda: ceiling(fleet) > before, 20,
                       "etcd is found again while all connections are taken")
        abuse.kept_is_answered(kept)
        for connection in [*held, kept]:
            connection.close()


# ---- whoever reads what they write goes away ----

class Piped(lib.Daemon):
    """Its log goes into a pipe."""

    def start(self):
        self.starts += 1
        self.stderr_path = self.folder / f"{self.name}.{self.starts}.err"
        ours, theirs = os.pipe()
        with open(self.stderr_path, "wb") as err:
            self.popen = lib.spawn(self.argv, stdout=theirs, stderr=err, env=self.env,
                                   cwd=self.folder)
        self.stopped = False
        os.close(theirs)
        self.reader = os.fdopen(ours, "rb")
        for line in self.reader:
            entry = json.loads(line)
            if (entry["subject"], entry["message"]) == ("http", "listening"):
                self._address = entry["address"]
                return
        raise lib.Failure(f"{self.name} ended: {self.errors()}")


def piped(fleet, name, *args):
    daemon = Piped(name, [lib.BIN / name, *fleet._common(), "--http-listen=127.0.0.1:0", *args],
                   fleet.folder)
    fleet.processes.append(daemon)
    return daemon


def test_without_descriptors_for_an_event_loop_each_program_says_so():
    for program, code in (("snowfleet-worker", 1), ("snowfleet-coordinator", 1),
                          ("snowfleetctl", 64)):
        done = subprocess.run(
            ["prlimit", "--nofile=7:7", lib.BIN / program,
             *(["status"] if program == "snowfleetctl" else []),
             "--etcd-endpoints=http://127.0.0.1:1"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, env=lib.clean_env(),
            timeout=30 * lib.SLOW, check=False)
        lib.equal(done.returncode, code, f"{program}: {done.stderr}")
        lib.check("event loop: too many open files" in done.stderr, f"{program}: {done.stderr}")


def test_daemons_outlive_the_reader_of_their_log():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        leader = piped(fleet, "snowfleet-coordinator", "--log-level=debug", *QUICK)
        worker = piped(fleet, "snowfleet-worker", "--log-level=debug", "--window=3s",
                       "--grpc-listen=")
        fleet.leader([leader])
        worker.wait_ready()
        for daemon in (leader, worker):
            daemon.reader.close()
        # Both have something to say from here on: etcd is away, and back.
        fleet.etcd.kill()
        lib.wait_until(lambda: not worker.ready(), 10, "the window is used up")
        fleet.etcd.start()
        worker.wait_ready()
        fleet.leader([leader])
        lib.equal([daemon.terminate() for daemon in (worker, leader)], [0, 0])


def test_the_tool_ends_when_nobody_reads_its_table():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        ours, theirs = os.pipe()
        os.close(ours)
        done = subprocess.run([lib.BIN / "snowfleetctl", "machines", *fleet._common()],
                              stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE,
                              text=True, env=lib.clean_env(), timeout=30 * lib.SLOW)
        os.close(theirs)
        lib.equal(done.returncode, 1, done.stderr)  # and by no signal
        lib.check("Broken pipe" in done.stderr, done.stderr)


def test_programs_make_no_child_that_could_go_on_from_their_state():
    """B30, B31: none of them calls fork() or its like, so no state is ever copied."""
    if lib.SANITIZED:
        return  # the sanitizer's own runtime imports some
    for name in ("snowfleet-worker", "snowfleet-coordinator", "snowfleetctl"):
        done = subprocess.run(["nm", "--dynamic", "--undefined-only", "--format=posix",
                               lib.BIN / name], capture_output=True, text=True, check=True)
        imported = {line.split()[0].split("@")[0] for line in done.stdout.splitlines()}
        lib.check("getrandom" in imported, f"{name}: nm shows what it imports")
        lib.equal(imported & {"fork", "vfork", "daemon", "clone", "posix_spawn", "system", "popen",
                              "uv_spawn"}, set(), name)


# What no plain number is: a sign, blanks, leading zeros, other bases and digits, beyond 64 bits.
ODD = ("-1", "+5", " 5", "5 ", "05", "0x10", "1e3", "5.0", "", "5;6", "18446744073709551616",
       "9" * 100, "\u0665")


def test_odd_numbers_in_the_environment_are_refused_by_name():
    """B97, for settings."""
    for odd in ODD:
        done = subprocess.run([lib.BIN / "snowfleet-worker"], capture_output=True, text=True,
                              env=lib.clean_env({"SNOWFLEET_MACHINE_IDS": odd}), check=False,
                              timeout=30 * lib.SLOW)
        lib.equal((done.returncode, done.stdout), (64, ""), repr(odd))
        lib.check("SNOWFLEET_MACHINE_IDS" in done.stderr and "must be 1..64" in done.stderr,
                  f"{odd!r}: {done.stderr}")


# ---- the end ----

def test_what_comes_due_while_a_worker_closes_its_clients_calls_none_of_them():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker(env={"LD_PRELOAD": str(lib.BIN / "libslow_end.so")})
        node = fleet.key(f"node/{worker.instance}")
        lib.wait_until(lambda: fleet.etcd.get(node), 10, "it is registered")
        began = time.monotonic()
        lib.equal(worker.terminate(30), 0)
        lib.check(time.monotonic() - began > 2.2, "it ended slowly")


def end_impatiently(daemon):
    """SIGTERM and SIGINT again and again, as of somebody who sees nothing happen; the exit code."""
    def told_again():
        for number in (signal.SIGTERM, signal.SIGINT):
            if daemon.alive():
                daemon.signal(number)
        return not daemon.alive()
    lib.wait_until(told_again, 20, f"{daemon.name} ends", 0.02)
    return daemon.wait(1)


def does_not_read(worker):
    """A client with more answers under way than fit into its connection."""
    host, port = worker.address.split(":")
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((host, int(port)))
    client.setblocking(False)
    ask = b"GET /metrics HTTP/1.1\r\nHost: w\r\n\r\n" * 100
    try:
        while client.send(ask):
            pass
    except BlockingIOError:
        return client


def test_being_told_again_does_not_cut_the_end_short():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        leader = fleet.coordinator(env={"LD_PRELOAD": str(lib.BIN / "libslow_end.so"),
                                        "SLOW_END_MS": "300"})
        worker = fleet.worker("--assign-wait=0s")
        fleet.leader([leader])
        worker.wait_ready()
        client = does_not_read(worker)
        codes = lib.in_parallel([lambda: end_impatiently(leader), lambda: end_impatiently(worker)])
        lib.equal(codes, [0, 0])
        client.close()


if __name__ == "__main__":
    lib.main()
