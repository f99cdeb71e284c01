"""Kubernetes can run two pods of one name: after a forced deletion, or when a lost node comes back.
Workers started as the manifests start them, all with the same name, ordinal and settings, never share
a machine ID; and a name means nothing."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys

import lib
import load

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "kubernetes"))

import kubectl  # noqa: E402
import pod  # noqa: E402

PODS = pod.Pods(kubectl.kustomize(kubectl.find(lib.BIN.parent / "kubectl"),
                                  ROOT / "deploy" / "kubernetes" / "overlays" / "dev"))


def pod_of(fleet, name, *more, wrap=()):
    """A worker with the manifests' own arguments and environment, but for where it listens and where etcd is;
    more comes after those."""
    command, environment = PODS.start("StatefulSet", "snowfleet-worker", name, "127.0.0.1")
    args = [argument for argument in command[1:] if not argument.endswith("-listen=0.0.0.0:8080")
            and not argument.startswith("--grpc-listen")]
    lib.check(len(args) < len(command) - 1, f"the manifests say where to listen: {command}")
    environment |= {"SNOWFLEET_ETCD_ENDPOINTS": fleet.etcd.url, "SNOWFLEET_CLUSTER": fleet.cluster}
    worker = lib.Daemon(fleet._name("pod"),
                        [*wrap, lib.BIN / pathlib.Path(command[0]).name, *args, "--http-listen=127.0.0.1:0",
                         "--grpc-listen=127.0.0.1:0", *more],
                        fleet.folder, environment)
    fleet.processes.append(worker)
    return worker


def machine_of(worker):
    return worker.wait_ready(60) and worker.status()["machines"][0]["machine_id"]


def test_pods_of_one_name_started_at_once():
    count = 40
    with lib.Fleet() as fleet:
        fleet.init("--new", "--max-window=15s")
        workers = [pod_of(fleet, "snowfleet-worker-0", "--assign-wait=0s") for _ in range(count)]
        machines = [machine_of(worker) for worker in workers]
        lib.equal(len(set(machines)), count, f"machine IDs {machines}")
        batches = lib.in_parallel([lambda each=each: each.ids(1000) for each in workers])
        for worker, machine, ids in zip(workers, machines, batches):
            lib.equal({load.parts(number)[1] for number in ids}, {machine}, "in the IDs")
            own = fleet.get(f"own/{machine:04}").json()
            lib.equal((own["instance"], own["identity"]), (worker.instance, "snowfleet/snowfleet-worker-0"), "in etcd")
        lib.equal(load.no_duplicates(number for ids in batches for number in ids), 1000 * count)


def test_a_lost_node_that_comes_back():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--max-window=15s", "--quiet-time=0s")
        short = ("--window=2s", "--lease-ttl=2s", "--keepalive-interval=500ms", "--assign-wait=1s")
        coordinator = fleet.coordinator("--lease-ttl=2s")
        fleet.leader([coordinator])
        lost = pod_of(fleet, "snowfleet-worker-1", *short)
        machine_of(lost)
        with load.Load(lost.address, clients=2, count=20) as before:
            before.wait_more(1000)
            lost.pause()  # its node does not answer
            # The controller gives up on it and starts another pod of the same name.
            twin = pod_of(fleet, "snowfleet-worker-1", *short)
            machine_of(twin)
            with load.Load(twin.address, clients=2, count=20) as meanwhile:
                meanwhile.wait_more(1000)
                lib.wait_until(lambda: fleet.get(f"node/{lost.instance}") is None, 20, "the lost pod's lease ends")
                lost.resume()  # the node is back, with the old pod on it
                before.wait_more(1000, 30)
                meanwhile.wait_more(1000)
                lib.check(machine_of(lost) != machine_of(twin), "two machine IDs")
        load.no_duplicates(before.ids + meanwhile.ids)


def test_an_ordinal_means_nothing():
    names = ["idgen-10", "my-id-gen-7", "idgen-1023", "idgen-1024", "idgen", "idgen-007", "node-5.example"]
    with lib.Fleet() as fleet:
        fleet.init("--new", "--max-window=15s", "--machine-id-range=500-506")
        workers = [pod_of(fleet, name, "--assign-wait=0s") for name in names]
        lib.equal(sorted(machine_of(worker) for worker in workers), list(range(500, 507)), "machine IDs")
        lib.equal([worker.status()["identity"] for worker in workers], [f"snowfleet/{name}" for name in names], "names")


def test_as_the_first_process_of_a_container():
    namespaces = ["unshare", "--pid", "--fork", "--kill-child"]
    if not shutil.which("unshare") or subprocess.run([*namespaces, "true"], capture_output=True).returncode != 0:
        print("skipped: no PID namespaces here")
        return
    with lib.Fleet() as fleet:
        fleet.init("--new", "--max-window=15s")
        worker = pod_of(fleet, "snowfleet-worker-0", "--assign-wait=0s", wrap=namespaces)
        machine = machine_of(worker)
        inner = int(pathlib.Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text())
        with load.Load(worker.address, clients=8, count=10) as clients:
            clients.wait_more(1000)
            os.kill(inner, signal.SIGTERM)
            lib.equal(worker.wait(5), 0, "exit code")
        # What is refused says so; at most the connections' last requests find nobody.
        lib.equal({status for _, status, _ in clients.refusals} - {503}, set(), "refusals")
        lib.check(fleet.get(f"own/{machine:04}") is None, "the machine ID is handed back")
        lib.check(fleet.get(f"node/{worker.instance}") is None, "the registration is gone")
        load.no_duplicates(clients.ids)


lib.main()
