"""The state file of a worker with etcd: evidence for recovery and the machine IDs to ask for, and no
more than that."""

import os
import resource
import subprocess
import time

import lib
import load
import state

TIMES = ["--window=4s", "--lease-ttl=2s", "--keepalive-interval=500ms", "--assign-wait=500ms"]


def with_file(fleet, *args):
    file = state.File(fleet.folder / "state")
    return file, fleet.worker(*TIMES, f"--state-file={file}", *args)


def holds(file, machine_id):
    """The file's newest record, once it says that this machine ID was granted."""
    def granted():
        record = file.newest()
        return record if record.machines and record.machines[0]["machine_id"] == machine_id \
            and record.machines[0]["granted_ms"] > time.time() * 1000 else None
    return lib.wait_until(granted, 10, f"the file names {machine_id}")


def test_what_it_holds():
    with lib.Fleet(cluster="prod") as fleet:
        fleet.init("--new", "--machine-id-range=500-600", "--reserved=510-519")
        meta = fleet.get("meta").json()
        file, worker = with_file(fleet, "--machine-id=555")
        worker.wait_ready()
        record = holds(file, 555)
        lib.equal((record.kind, record.cluster, record.era, record.epoch_ms, record.range,
                   record.reserved, record.earlier_eras),
                  (state.CLUSTER, "prod", meta["era"], int(meta["epoch_ms"]), (500, 600),
                   list(range(510, 520)), []))
        lib.check(0 < record.revision <= fleet.get("meta").mod_revision + 100, "the revision")
        claim = worker.status()["machines"][0]["claim"]
        lib.equal(record.machines[0]["claim"], claim)
        # It follows the extensions.
        lib.wait_until(lambda: file.newest().machines[0]["granted_ms"] >
                       record.machines[0]["granted_ms"] + 2000, 10, "extensions are noted")
        lib.check(file.newest().revision > record.revision, "and the revision with them")
        stored = int(fleet.get("hor/0555").value.split(":")[0])
        lib.wait_until(lambda: file.newest().machines[0]["granted_ms"] >= stored, 5, "all of it")


def test_a_pending_value_is_on_record():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        file, worker = with_file(fleet, "--machine-id=5")
        worker.wait_ready()
        granted_ms = holds(file, 5).machines[0]["granted_ms"]
        fleet.etcd.pause()
        record = lib.wait_until(lambda: (lambda r: r if r.machines[0]["pending_ms"] else None)(
            file.newest()), 10, "an extension without an answer is noted")
        lib.check(record.machines[0]["pending_ms"] > record.machines[0]["granted_ms"] >= granted_ms,
                  record.machines)
        lib.wait_until(lambda: int(worker.status()["machines"][0]["pending_horizon_ms"]) ==
                       file.newest().machines[0]["pending_ms"], 5, "/v1/status says the same")
        fleet.etcd.resume()
        lib.wait_until(lambda: not file.newest().machines[0]["pending_ms"], 10, "and its outcome")
        lib.wait_until(lambda: worker.status()["machines"][0]["pending_horizon_ms"] == "0", 10, "none")


def test_the_last_machine_id_is_wanted_again():
    for stop in ("terminate", "kill"):
        with lib.Fleet() as fleet:
            fleet.init("--new", "--quiet-time=0s")
            file, worker = with_file(fleet, "--machine-id=777")
            worker.wait_ready()
            holds(file, 777)
            getattr(worker, stop)()
            if stop == "kill":
                lib.wait_until(lambda: not fleet.get("own/0777"), 10, "the lease ends")
                time.sleep(4)  # its window
            again = fleet.worker(*TIMES, f"--state-file={file}")
            again.wait_ready()
            lib.equal(load.parts(again.ids(1)[0])[1], 777)


def test_former_machine_ids_stay_on_record():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        file, worker = with_file(fleet, "--machine-id=5")
        worker.wait_ready()
        former = holds(file, 5).machines[0]
        worker.kill()
        with_file(fleet, "--machine-id=6")[1].wait_ready()  # 5 is still held
        record = holds(file, 6)
        lib.equal([machine["machine_id"] for machine in record.machines], [6, 5])
        lib.check(record.machines[1]["granted_ms"] >= former["granted_ms"], record.machines)


def test_it_proves_nothing():
    # B07: with etcd away a start from an old file issues nothing, whatever the file says.
    with lib.Fleet() as fleet:
        fleet.init("--new")
        file, worker = with_file(fleet, "--machine-id=5")
        worker.wait_ready()
        ids = worker.ids(100)
        holds(file, 5)
        lib.equal(worker.terminate(), 0)
        fleet.etcd.pause()
        again = fleet.worker(*TIMES, f"--state-file={file}")
        again.address
        lib.never(lambda: again.get("/v1/ids").status == 200, 3, "an ID without etcd", 0.2)
        lib.equal((again.get("/livez").status, again.get("/readyz").status), (200, 503))
        fleet.etcd.resume()
        again.wait_ready(30)
        ids += again.ids(100)
        load.no_duplicates(ids)


def test_a_disk_that_fails_does_not_stop_the_service():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        file, worker = with_file(fleet)
        worker.wait_ready()
        lib.wait_until(lambda: file.newest().machines, 5, "it is written")
        # As good as a disk that fails, for its log too, until the limit is taken away.
        resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (state.BLOCK, resource.RLIM_INFINITY))
        with load.Load(worker.address, clients=2) as clients:
            time.sleep(6)
            clients.wait_more()
            resource.prlimit(worker.pid, resource.RLIMIT_FSIZE,
                             (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            lib.wait_until(lambda: file.newest().machines[0]["granted_ms"] > time.time() * 1000,
                           10, "it is written again")
            ids = clients.stop()
        lib.equal(clients.refusals, [], "nobody was refused")
        load.no_duplicates(ids)


def test_a_failure_is_logged_once():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        file, worker = with_file(fleet)
        worker.wait_ready()
        lib.wait_until(lambda: file.newest().machines, 5, "it is written")
        os.replace(file.path, f"{file}.away")
        time.sleep(6)
        os.replace(f"{file}.away", file.path)
        lib.wait_until(lambda: worker.logged("state", "the evidence for recovery is written again"),
                       10, "it says so")
        lib.equal(len(worker.logged("state", "the evidence for recovery cannot be written")), 1)
        lib.check(worker.ready(), "and serves all the while")


def test_a_file_that_cannot_be_used_is_left_alone():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        for content in (b"", b"my own text\n", bytes(8192)):
            path = fleet.folder / "text"
            path.write_bytes(content)
            worker = fleet.worker(*TIMES, f"--state-file={path}")
            worker.wait_ready()
            lib.check(worker.logged("state", "no evidence for recovery is kept"), "it says so")
            lib.equal(path.read_bytes(), content)
            worker.terminate()
        worker = fleet.worker(*TIMES, f"--state-file={fleet.folder}/none/state")
        worker.wait_ready()
        lib.check(worker.logged("state", "no evidence for recovery is kept"), "it says so")


def refused(fleet, path, *words, args=()):
    done = subprocess.run([
        str(lib.BIN / "snowfleet-worker"), "--etcd-endpoints", fleet.etcd.url,
        "--http-listen=127.0.0.1:0", "--grpc-listen=127.0.0.1:0", f"--state-file={path}", *args], stdin=subprocess.DEVNULL,
        capture_output=True, text=True, env=lib.clean_env(), timeout=20, check=False)
    lib._refuse_reports("snowfleet-worker", done.returncode, done.stderr)
    lib.equal(done.returncode, 1, done.stderr)
    for word in (str(path), *words):
        lib.check(word in done.stderr, f"{word!r} is in {done.stderr!r}")


def test_what_belongs_to_another_worker_is_refused():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        file, worker = with_file(fleet)
        worker.wait_ready()
        refused(fleet, file, "another process has it open")
        lib.equal(worker.terminate(), 0)
        refused(fleet, file, "cluster default", "other", args=["--cluster=other"])
        alone = state.File(fleet.folder / "alone")
        standalone = lib.Daemon("alone", [
            lib.BIN / "snowfleet-worker", "--standalone", f"--state-file={alone}", "--init",
            "--http-listen=127.0.0.1:0", "--grpc-listen=127.0.0.1:0"], fleet.folder)
        fleet.processes.append(standalone)
        standalone.wait_ready()
        lib.equal(standalone.terminate(), 0)
        refused(fleet, alone, "standalone")
        done = subprocess.run([
            str(lib.BIN / "snowfleet-worker"), "--standalone", f"--state-file={file}",
            "--http-listen=127.0.0.1:0", "--grpc-listen=127.0.0.1:0"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            env=lib.clean_env(), timeout=20, check=False)
        lib.equal(done.returncode, 1)
        lib.check("belongs to a worker of cluster default" in done.stderr, done.stderr)


if __name__ == "__main__":
    lib.main()
