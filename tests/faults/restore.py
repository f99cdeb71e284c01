"""etcd's history is lost: restored from a backup in the documented way (deploy/README.md), with the same
cluster token, names and URLs, so that cluster_id and revisions are used a second time."""

import json
import shutil
import subprocess
import time

import lib


class Failed(lib.Failure):
    """The documented way did not lead to its end."""


def _etcdctl(*args, endpoint=None):
    command = ["etcdctl", *(["--endpoints", endpoint] if endpoint else []), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                          env=lib.clean_env({"ETCDCTL_API": "3", "ETCD_UNSUPPORTED_ARCH": "arm64"}))
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: {done.stdout}{done.stderr}")


def _cluster_id(fleet):
    return lib.wait_until(lambda: fleet.etcd.call("/v3/kv/range", {"key": "eA=="})["header"]["cluster_id"], 30,
                          "etcd answers")


def _recover(fleet, hidden, state_files):
    """recover --yes, behind the closed port; with --force where workers are missing, which is right here:
    all clocks are."""
    args = ["recover", "--yes", "--etcd-endpoints", hidden, "--output", "json"]
    if state_files:
        args += ["--state-file", ",".join(map(str, state_files))]
    done = fleet.ctl_raw(*args)
    forced = done.returncode != 0
    if forced:
        done = fleet.ctl_raw(*args, "--force")
    if done.returncode != 0:
        raise Failed(f"recover: {done.stdout}{done.stderr}")
    return json.loads(done.stdout), forced


def back_up(fleet, path):
    _etcdctl("snapshot", "save", path, endpoint=fleet.etcd.members[0].url)


def lose_history(fleet, recorder, backup, number, chance):
    """All members get the backup's data, behind closed ports; recover; then the ports are opened.  Returns what
    recover said, whether it had to be forced, whether the end of the old history is known, and how many
    state files it was given."""
    members = fleet.etcd.members
    cluster_id = _cluster_id(fleet)
    if chance.random() < 0.5:
        fleet.proxy.rule("black_hole", link="*>etcd*", late=0)
        recorder.settle()
    for member in members:
        member.kill()
    hidden = [f"http://127.0.0.1:{lib.free_port()}" for _ in members]
    settled = recorder.new_segment([*hidden, *[member.url for member in members]])
    cluster = members[0].option("--initial-cluster")
    for member, port in zip(members, hidden):
        data = member.option("--data-dir")
        shutil.move(data, f"{data}.before{number}")
        _etcdctl("snapshot", "restore", backup, "--name", member.option("--name"), "--data-dir", data,
                 "--initial-cluster", cluster, "--initial-advertise-peer-urls",
                 member.option("--initial-advertise-peer-urls"))
        member.set_option("--listen-client-urls", port)
        member.start()
    lib.wait_until(lambda: all(member.healthy() for member in members), 30, "the restored members are healthy")
    files = [worker.state_file for worker in fleet.workers
             if worker.state_file.exists() and chance.random() < 0.8]
    answer, forced = _recover(fleet, hidden[0], files)
    for member in members:
        member.kill()
    for member in members:
        member.set_option("--listen-client-urls", member.url)
        member.start()
    fleet.proxy.clear()
    lib.wait_until(lambda: all(member.healthy() for member in members), 30, "the members are back")
    if _cluster_id(fleet) != cluster_id:
        raise Failed("the cluster_id is another one: this is not the case that counts")
    return answer, forced, settled, len(files)


def carry_out(carrier, fault, chance):
    """Everything is healed, clocks above all.  Returns what happened, for the report."""
    fleet, recorder = carrier.fleet, carrier.recorder
    number = len(carrier.restores) + 1
    backup = fleet.folder / f"backup{number}.db"
    back_up(fleet, backup)

    # What the backup does not know: machine IDs that change hands, and workers that die of it.
    for _ in range(chance.randrange(1, 4)):
        time.sleep(chance.uniform(0.3, 2))
        worker = chance.choice(fleet.workers)
        worker.down = True
        if chance.random() < 0.5:
            worker.kill()
        else:
            worker.signal(15)
            worker.wait(20)
        if chance.random() < 0.7:
            worker.restart()
    time.sleep(chance.uniform(0, 2))

    answer, forced, settled, files = lose_history(fleet, recorder, backup, number, chance)
    for worker in fleet.workers:
        if not worker.alive():
            worker.restart()
    return {"fault": fault.number, "settled": settled, "forced": forced, "state_files": files,
            "old_era": answer.get("old_era"), "new_era": answer.get("new_era"), "floor_ms": answer.get("floor_ms")}
