"""snowfleetctl recover: etcd restored from a backup, or lost, under workers that still live.  Restored
with the same token, name and URLs, so with the same cluster_id and revisions used twice.  The commands
are those of the page for operators, deploy/README.md."""

import json
import pathlib
import re
import subprocess
import time

import lib
import load
import state

PAGE = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "README.md"
WINDOW_S = 4
UNLEASED = [f"--window={WINDOW_S}s", "--keepalive-interval=500ms", "--assign-wait=300ms",
            "--claim-ahead=500ms"]
TIMES = [*UNLEASED, "--lease-ttl=2s"]
LIMITS = ["--max-window=4s", "--quiet-time=1s", "--max-offset=100ms"]
INIT = ["--new", "--machine-id-range=0-63", "--reserved=60-63", *LIMITS]


# ---- the page ----

def page_commands(heading):
    """The blocks of commands under a heading of the page."""
    text = PAGE.read_text()
    part = re.split(r"^###? ", text.split(f"\n### {heading}\n", 1)[1], maxsplit=1, flags=re.M)[0]
    blocks = re.findall(r"^( *)```sh\n(.*?)^ *```$", part, flags=re.M | re.S)
    lib.check(blocks, f"commands under {heading}")
    return [re.sub(f"^{indent}", "", block, flags=re.M) for indent, block in blocks]


class Rig:
    """A fleet whose etcd can be put behind another port and given other data."""

    def __init__(self, fleet):
        self.fleet = fleet
        self.etcd = fleet.etcd
        self.old_port, self.hidden_port = self.etcd.client_port, lib.free_port()
        self.restores = 0
        self.settings = {
            "NAME": self.etcd.name, "PEER": f"http://127.0.0.1:{self.etcd.peer_port}",
            "ETCD": f"http://127.0.0.1:{self.old_port}",
            "HIDDEN": f"http://127.0.0.1:{self.hidden_port}",
            "BACKUP": str(fleet.folder / "backup.db"), "MAX_WINDOW": "4s", "QUIET_TIME": "1s",
            "MAX_OFFSET": "100ms", "PATH": f"{lib.BIN}:/usr/local/bin:/usr/bin:/bin",
            "ETCD_UNSUPPORTED_ARCH": "arm64"}

    def run(self, commands, code=0):
        """Runs a block of the page."""
        done = subprocess.run(["bash", "-euc", commands], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, env=lib.clean_env(self.settings),
                              timeout=60, check=False)
        lib._refuse_reports("snowfleetctl", done.returncode, done.stderr)
        lib.equal(done.returncode, code, f"{commands}: {done.stdout}{done.stderr}")
        return done

    def back_up(self):
        for block in page_commands("Back up"):
            self.run(block)

    def new_data(self):
        self.restores += 1
        self.settings["DATA"] = str(self.fleet.folder / f"restored{self.restores}.data")

    def listen(self, port):
        """Starts etcd with the data of the settings and a client port."""
        self.etcd.kill()
        argv = self.etcd.process.argv
        argv[argv.index("--listen-client-urls") + 1] = f"http://127.0.0.1:{port}"
        argv[argv.index("--data-dir") + 1] = self.settings["DATA"]
        self.etcd.client_port = port
        self.etcd.start()

    def restore(self, port=None):
        """Behind the closed port."""
        self.etcd.kill()
        self.new_data()
        self.run(page_commands("Restore")[0])
        self.listen(port or self.hidden_port)

    def lose(self, port):
        """An empty etcd."""
        self.etcd.kill()
        self.new_data()
        self.listen(port)

    def content(self):
        """All that is under no lease: what is ends by itself, soon after a restore."""
        return [(key.name, key.value) for key in self.etcd.prefix("/snowfleet/") if not key.lease]


def rigged(fleet, n_workers=2, files=False, times=TIMES):
    fleet.init(*INIT)
    workers = []
    for i in range(n_workers):
        args = [f"--state-file={fleet.folder}/state{i}"] if files else []
        workers.append(fleet.worker(*times, *args))
    for worker in workers:
        worker.wait_ready()
    return Rig(fleet), workers


def recover(rig, *args, code=0):
    done = rig.fleet.ctl_raw("recover", *args, "--output", "json")
    lib.equal(done.returncode, code, f"{args}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout) if code == 0 else done.stderr


def claims_above(fleet, workers, floor_ms):
    """Sooner or later all serve in the present era, and from then on above its floor."""
    era = fleet.get("meta").json()["era"]
    for worker in workers:
        lib.wait_until(lambda worker=worker: worker.status()["era"] == era, 20,
                       f"{worker.name} sees the new era")
        worker.wait_ready()
        lib.check(load.parts(worker.ids(1)[0])[0] > floor_ms, f"{worker.name} is above the floor")


# ---- a backup ----

def test_the_page_as_written():
    with lib.Fleet() as fleet:
        # What the restored etcd says of a former instance is to outlast the steps of the page.
        rig, workers = rigged(fleet, times=[*UNLEASED, "--lease-ttl=60s"])
        with load.Load([w.address for w in workers], clients=4, pause=0.002) as clients:
            clients.wait_more()
            cluster_id = fleet.etcd.call("/v3/kv/range", {"key": "eA=="})["header"]["cluster_id"]
            old = fleet.get("meta").json()
            rig.back_up()
            # After the backup: a worker that it does not name, and machine IDs that changed hands.
            workers.append(fleet.worker(*TIMES))
            workers[-1].wait_ready()
            late = load.Load(workers[-1].address, clients=1, pause=0.002)
            workers[0].terminate()
            workers[0].start()
            again = load.Load(workers[0].address, clients=1, pause=0.002)
            clients.wait_more(500)
            _, dry_run, carry_out, status = page_commands("Restore")
            rig.restore()
            lib.equal(fleet.etcd.call("/v3/kv/range", {"key": "eA=="})["header"]["cluster_id"],
                      cluster_id)
            before = rig.content()
            # The old instance of the worker that was started again cannot be heard any more.
            done = rig.run(dry_run, code=1)
            lib.check(f"not heard: {workers[0].name}" in done.stderr, done.stderr)
            lib.check("--force" in done.stderr, done.stderr)
            rig.run(carry_out, code=1)
            # A dry run and a refusal change nothing.
            rig.run(dry_run.replace("--dry-run", "--dry-run --force"))
            lib.equal(rig.content(), before, "nothing was written")
            done = rig.run(carry_out.replace("--yes", "--yes --force"))
            lib.check("the first IDs can be issued in" in done.stdout, done.stdout)
            meta = fleet.get("meta").json()
            lib.equal((meta["mode"], meta["reason"], meta["earlier_eras"]),
                      ("OPEN", "", [old["era"]]))
            lib.check(meta["era"] != old["era"], "a new era")
            lib.check(int(meta["floor_ms"]) > int(old["floor_ms"]), "a floor")
            rig.listen(rig.old_port)
            claims_above(fleet, workers, int(meta["floor_ms"]))
            clients.wait_more(200)
            ids = clients.stop() + late.stop() + again.stop()
            rig.run(status)
        load.no_duplicates(ids)


def test_each_slot_is_raised_to_what_is_known_of_it():
    with lib.Fleet() as fleet:
        rig, workers = rigged(fleet, 1)
        rig.back_up()
        worker = workers[0]
        machine_id = worker.status()["machines"][0]["machine_id"]
        snapshot = fleet.get(f"hor/{machine_id:04}").value
        lib.wait_until(lambda: fleet.get(f"hor/{machine_id:04}").value != snapshot, 10, "extended")
        rig.restore()
        known = worker.status()["machines"][0]
        done = recover(rig, "--yes")
        lib.equal((done["raised"], done["created"], done["heard"], done["unheard"]), (1, 0, 1, []))
        horizon, claim, n = fleet.get(f"hor/{machine_id:04}").value.split(":")
        lib.check(int(horizon) >= int(known["limit_ms"]), "up to the worker's limit")
        # No chain that lives can take it for its own.
        lib.check(claim not in (known["claim"], snapshot.split(":")[1], "0" * 32), claim)
        lib.equal(n, "1")
        # Again from the same backup: the worker is heard all the same, and follows.
        rig.restore()
        floor_ms = int(recover(rig, "--yes")["floor_ms"])
        rig.listen(rig.old_port)
        claims_above(fleet, workers, floor_ms)


def test_a_state_file_stands_for_a_worker_that_died():
    with lib.Fleet() as fleet:
        rig, workers = rigged(fleet, 1, files=True)
        rig.back_up()
        machine_id = workers[0].status()["machines"][0]["machine_id"]
        time.sleep(WINDOW_S / 2)
        file = state.File(fleet.folder / "state0")
        ids = workers[0].ids(100)
        workers[0].kill()
        rig.restore()
        lib.check("have not been heard" in recover(rig, "--yes", code=1), "nobody heard it")
        recover(rig, "--dry-run", f"--floor={int(time.time() * 1000) + 10000}")
        done = recover(rig, "--yes", f"--state-file={file}")
        lib.equal((done["unheard"], done["raised"]), ([], 1))
        lib.equal(int(fleet.get(f"hor/{machine_id:04}").value.split(":")[0]),
                  max(file.newest().machines[0][name] for name in ("granted_ms", "pending_ms")))
        rig.listen(rig.old_port)
        workers[0].start()
        claims_above(fleet, workers, int(done["floor_ms"]))
        load.no_duplicates(ids + workers[0].ids(100))


def test_of_two_at_a_time_one_wins():
    with lib.Fleet() as fleet:
        rig, _ = rigged(fleet, 1)
        rig.back_up()
        rig.restore()
        done = lib.in_parallel([
            lambda: fleet.ctl_raw("recover", "--yes", "--output", "json")] * 3)
        won = [json.loads(each.stdout)["new_era"] for each in done if each.returncode == 0]
        meta = fleet.get("meta").json()
        # One that began only when another was through is no loser.
        lib.check(won and meta["era"] in won, [each.stderr for each in done])
        lib.equal(meta["mode"], "OPEN")
        lib.equal(set(won) - {meta["era"]} - set(meta["earlier_eras"]), set())
        for each in done:
            lib.check(each.returncode == 0 or "somebody else changed" in each.stderr,
                      each.stderr)


def test_what_is_left_half_way_is_only_ended_by_recover():
    with lib.Fleet() as fleet:
        rig, _ = rigged(fleet, 0)
        meta = fleet.get("meta").json()
        meta.update(mode="FROZEN", reason="rollback: recover 01234567 is at work", serial="9")
        fleet.etcd.put(fleet.key("meta"), json.dumps(meta))
        lib.check("recover" in fleet.ctl_raw("thaw").stderr, "thaw names it")
        lib.equal(fleet.get("meta").json()["mode"], "FROZEN")
        recover(rig, "--yes")
        lib.equal((fleet.get("meta").json()["mode"], fleet.get("meta").json()["serial"]),
                  ("OPEN", "11"))


# ---- nothing left ----

def test_total_loss_with_live_workers():
    with lib.Fleet() as fleet:
        rig, workers = rigged(fleet)
        old = fleet.get("meta").json()
        with load.Load([w.address for w in workers], clients=2, pause=0.002) as clients:
            clients.wait_more()
            rig.lose(rig.old_port)
            lib.wait_until(lambda: len(fleet.etcd.prefix(fleet.key("node/"))) == 2, 20,
                           "they register")
            # What it said is still to be had from those who read it.
            for worker in workers:
                lib.wait_until(lambda: "meta missing" in worker.status()["reason"], 40,
                               "meta is noticed to be gone")
            refusal = recover(rig, "--yes", code=1)
            lib.check("--max-window" in refusal and "--epoch" not in refusal, refusal)
            lib.check(not fleet.get("meta"), "and nothing was written")
            rig.run(page_commands("When everything is lost")[0])
            meta = fleet.get("meta").json()
            lib.equal([meta[name] for name in ("epoch_ms", "machine_id_range", "reserved",
                                               "earlier_eras", "max_window_ms")],
                      [old["epoch_ms"], "0-63", ["60-63"], [old["era"]], 4000])
            lib.equal(len(fleet.etcd.prefix(fleet.key("hor/"))), 60)
            claims_above(fleet, workers, int(meta["floor_ms"]))
            clients.wait_more()
            ids = clients.stop()
        load.no_duplicates(ids)


def test_total_loss_with_state_files_only():
    with lib.Fleet() as fleet:
        rig, workers = rigged(fleet, 2, files=True)
        old = fleet.get("meta").json()
        ids = workers[0].ids(100) + workers[1].ids(100)
        files = [state.File(fleet.folder / f"state{i}") for i in range(2)]
        for file in files:
            lib.wait_until(lambda file=file: file.newest().machines, 5, "the file is written")
        for worker in workers:
            worker.kill()
        rig.lose(rig.hidden_port)
        refusal = recover(rig, "--yes", *LIMITS, code=1)
        for name in ("--epoch", "--machine-id-range", "--reserved", "--earlier-era"):
            lib.check(name in refusal, refusal)
        rig.settings["STATE_FILES"] = ",".join(map(str, files))
        rig.run(page_commands("When everything is lost")[1])
        meta = fleet.get("meta").json()
        lib.equal([meta[name] for name in ("epoch_ms", "machine_id_range", "reserved",
                                           "earlier_eras")],
                  [old["epoch_ms"], "0-63", ["60-63"], [old["era"]]])
        for file in files:
            told = file.newest().machines[0]
            horizon = int(fleet.get(f"hor/{told['machine_id']:04}").value.split(":")[0])
            lib.check(horizon >= told["granted_ms"], "the slot's own evidence")
        rig.listen(rig.old_port)
        for worker in workers:
            worker.start()
        claims_above(fleet, workers, int(meta["floor_ms"]))
        load.no_duplicates(ids + workers[0].ids(100) + workers[1].ids(100))


def test_total_loss_with_nothing_but_what_somebody_remembers():
    with lib.Fleet() as fleet:
        rig = Rig(fleet)
        told = ["--epoch=2024-01-01T00:00:00Z", "--machine-id-range=0-9", "--reserved=none",
                "--earlier-era=" + "e" * 32, *LIMITS]
        for missing in range(4):
            some = told[:missing] + told[missing + 1:]
            lib.check(told[missing].split("=")[0] in recover(rig, "--yes", *some, code=1), some)
        lib.equal(rig.content(), [])
        recover(rig, "--yes", *told)
        meta = fleet.get("meta").json()
        lib.equal((meta["machine_id_range"], meta["earlier_eras"]), ("0-9", ["e" * 32]))


# ---- contradictions ----

def test_contradictions_are_named_and_refused():
    with lib.Fleet() as fleet:
        rig, workers = rigged(fleet, 1)
        rig.back_up()
        fleet.ctl("range-set", "0-99")
        lib.wait_until(lambda: workers[0].status()["machine_id_range"] == "0-99", 10, "it is told")
        rig.restore()
        refusal = recover(rig, "--yes", code=1)
        lib.check("0-63" in refusal and "0-99" in refusal and workers[0].name in refusal, refusal)
        lib.check("--epoch" in recover(rig, "--yes", "--epoch=2024-01-02T00:00:00Z", code=1), "epoch")
        done = recover(rig, "--yes", "--machine-id-range=0-99")
        lib.equal(done["created"], 36)
        lib.equal(fleet.get("meta").json()["machine_id_range"], "0-99")


def test_wrong_words():
    with lib.Fleet() as fleet:
        for args in ([], ["--yes", "--dry-run"], ["--yes", "--earlier-era=x"],
                     ["--yes", "--max-window=4s"], ["--yes", "--reserved=1024"]):
            lib.equal(fleet.ctl_raw("recover", *args).returncode, 64, args)


if __name__ == "__main__":
    lib.main()
