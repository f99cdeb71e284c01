"""The container image, built and run by podman, and a fleet of pods made of it: three members of etcd, two
coordinators, four workers, started, probed and stopped as deploy/kubernetes says.  --all runs it."""

import atexit
import contextlib
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile
import threading

import lib
import load

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "kubernetes"))

import containers  # noqa: E402
import kubectl  # noqa: E402
import kubelet  # noqa: E402
import pod  # noqa: E402

PROGRAMS = ("snowfleet-worker", "snowfleet-coordinator", "snowfleetctl")
HERE = "http://127.0.0.1:8080"  # seen from inside of a pod
USER = 65532
SIZE_MB = 30  # deploy/Containerfile says 25
OVERLAY = """apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: snowfleet-dev
resources: [{dev}]
components: [{components}]
configMapGenerator:
  - name: snowfleet-worker
    behavior: merge
    literals: [SNOWFLEET_WINDOW=60s]
  - name: snowfleet-init
    behavior: merge
    literals: [SNOWFLEET_MAX_WINDOW=60s]
"""
PUBLIC_KEY = "1:000102030405060708090a0b0c0d0e0f\n"
ETCD_COMPLAINS = "took too long|lost leader|no leader|heartbeat on time|sync duration|overloaded"
# etcd's own image cannot be had here; the manifests' command and flags are the same for Debian's.
ETCD = f"""FROM {containers.BASE}
RUN apt-get update && apt-get install --yes --no-install-recommends etcd-server
"""


def rendered(*components):
    """The overlay dev with these components, and with the window that the base has: where other work takes the
    whole machine, etcd has been seen to answer nobody for longer than dev's window of 15 s."""
    tool = kubectl.find(lib.BIN.parent / "kubectl")
    deploy = ROOT / "deploy" / "kubernetes"
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "kustomization.yaml").write_text(OVERLAY.format(
            dev=os.path.relpath(deploy / "overlays" / "dev", folder),
            components=", ".join(os.path.relpath(deploy / "components" / name, folder) for name in components)))
        return pod.Pods(kubectl.kustomize(tool, folder))


def images(podman, pods):
    """Builds what the manifests name; returns why podman cannot work here, or None."""
    podman.make_base()
    problem = podman.works()
    if problem:
        return problem
    podman.build(ROOT / "deploy" / "Containerfile", pods.image("StatefulSet", "snowfleet-worker"), ROOT)
    context = podman.folder / "etcd"
    context.mkdir(exist_ok=True)
    (context / "Containerfile").write_text(ETCD)
    podman.build(context / "Containerfile", pods.image("StatefulSet", "etcd"), context)
    return None


def running(podman, image, program, *arguments):
    return podman("run", "--rm", "--pull=never", "--network=none", "--read-only", "--cap-drop=all", "--entrypoint",
                  f"/usr/bin/{program}", image, *arguments)


# ---- the image ----

def test_image_is_what_the_containerfile_says():
    image = PLAIN.image("StatefulSet", "snowfleet-worker")
    about = PODMAN.inspect("image", image)
    print(f"{image}: {about['Size'] / 1e6:.1f} MB")
    lib.check(about["Size"] < SIZE_MB * 1e6, f"{about['Size']} bytes")
    config = about["Config"]
    lib.equal(config["User"], "65532:65532", "user")
    lib.equal(config["Entrypoint"], ["/usr/bin/snowfleet-worker"], "entry point, in exec form")
    labels = {name.removeprefix("org.opencontainers.image."): text for name, text in config["Labels"].items()
              if name.startswith("org.opencontainers.image.")}
    lib.equal((labels["title"], labels["licenses"]), ("snowfleet", "Apache-2.0"), "labels")
    lib.check(labels["description"], "a description")
    for program in PROGRAMS:
        said = running(PODMAN, image, program, *(["version"] if program == "snowfleetctl" else ["--version"]))
        lib.equal(re.search(r"\d+\.\d+\.\d+", said)[0], labels["version"], program)
    root = pathlib.Path(PODMAN("image", "mount", image))
    try:
        files = {str(path.relative_to(root)): path for path in root.rglob("*") if not path.is_dir()}
        lib.equal({name for name in files if "/bin/" in f"/{name}" or "/sbin/" in f"/{name}"},
                  {f"usr/bin/{program}" for program in PROGRAMS}, "programs: no shell, no package manager")
        others = [name for name in files if not name.startswith("usr/bin/") and ".so" not in name]
        lib.equal(sorted(others), ["LICENSE", "etc/ssl/certs/ca-certificates.crt"], "and their libraries")
        lib.equal([name for name, path in files.items() if path.lstat().st_mode & 0o6000], [], "no setuid program")
        state = (root / "var/lib/snowfleet").stat()
        lib.equal((state.st_uid, state.st_gid), (65532, 65532), "its folder")
    finally:
        PODMAN("image", "unmount", image)


def test_no_probe_or_hook_needs_more_than_the_image_has():
    image = PLAIN.image("StatefulSet", "snowfleet-worker")
    for shell in ("/bin/sh", "/bin/sleep"):
        code, _, err = PODMAN.try_to("run", "--rm", "--pull=never", "--network=none", "--entrypoint", shell, image)
        lib.check(code in (126, 127), f"{shell}: {code} {err}")
    found = 0
    for document in STATEFUL.documents:
        template = document.get("spec", {}).get("template", {}).get("spec")
        for container in template["containers"] if template else []:
            for name in ("startupProbe", "livenessProbe", "readinessProbe"):
                if name in container:
                    lib.check("httpGet" in container[name], f"{name} of {container['name']} runs nothing in the image")
                    found += 1
            for name, hook in container.get("lifecycle", {}).items():
                lib.equal(list(hook), ["sleep"], f"{name} of {container['name']} is Kubernetes' own")
                found += 1
    lib.check(found >= 8, f"{found} probes and hooks")


# ---- pods ----

class Fleet:
    """The overlay, applied."""

    def __init__(self):
        self.cluster = kubelet.Cluster(PODMAN, PLAIN)
        self.made, self.etcd = 0, []
        try:
            self.etcd = [kubelet.Pod(self.cluster, "StatefulSet", "etcd", f"etcd-{number}",
                                     {"data": self.cluster.volume(f"data-etcd-{number}", USER)}) for number in range(3)]
            for each in self.etcd:
                each.wait_ready()
            print(self.cluster.tool("init", "--if-needed"))
            self.coordinators = [self.coordinator() for _ in range(2)]
            self.workers = [self.worker(f"snowfleet-worker-{number}") for number in range(4)]
            for each in self.coordinators + self.workers:
                each.wait_started()
                each.wait_ready()
            lib.equal(len({each.machine() for each in self.workers}), 4, "machine IDs")
        except BaseException:
            self.close()
            raise

    def coordinator(self):
        self.made += 1
        return kubelet.Pod(self.cluster, "Deployment", "snowfleet-coordinator", f"snowfleet-coordinator-{self.made}")

    def worker(self, name, volumes=None):
        return kubelet.Pod(self.cluster, "StatefulSet", "snowfleet-worker", name, volumes)

    @contextlib.contextmanager
    def manifests(self, pods):
        """Workers are started as these say, for a while."""
        plain, self.cluster.pods = self.cluster.pods, pods
        try:
            yield
        finally:
            self.cluster.pods = plain

    def slot(self, machine):
        """What snowfleetctl says of a machine ID."""
        return next(each for each in json.loads(self.cluster.tool("machines", "--output", "json"))
                    if each["machine_id"] == machine)

    def close(self):
        self.cluster.close()
        if sys.exc_info()[0] is not None:
            for each in self.cluster.all:
                print(f"--- {each.id}\n{each.logs()[-1500:]}")
            for each in self.etcd:
                slow = [line for line in each.logs().splitlines() if re.search(ETCD_COMPLAINS, line)]
                print(f"--- {each.id} complains in {len(slow)} lines", *slow[-20:], sep="\n")
        PODMAN("rm", "--force", "--all", "--time=0")
        PODMAN("network", "rm", "--force", kubelet.NETWORK)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def taken(worker, count=500):
    """IDs, asked for inside of the pod: whatever the network is up to."""
    said = PODMAN("exec", worker.id, "/usr/bin/snowfleetctl", "next", "--worker", HERE, "--count", count)
    return [int(line) for line in said.split()]


def until_refused(worker):
    """IDs, until there are none any more."""
    ids = []

    def refused():
        code, out, err = PODMAN.try_to("exec", worker.id, "/usr/bin/snowfleetctl", "next", "--worker", HERE)
        ids.extend(int(line) for line in out.split())
        lib.check(code == 0 or "no more was granted" in err, err)
        return code != 0
    lib.wait_until(refused, 90, f"{worker.id} has no window left", 0.5)
    return ids


def first_in_its_container(worker):
    status = pathlib.Path(f"/proc/{worker.state()['Pid']}/status").read_text()
    return int(re.search(r"^NSpid:.*\s(\d+)$", status, re.MULTILINE)[1]) == 1


def rolling_restart(fleet, clients):
    """The highest ordinal first, and the next only when that one is ready, as a StatefulSet does it.  Each ends by
    itself within its grace period (SIGKILL would be another code); that it takes below 5 s is asked of the median,
    since a machine that is full for a moment adds to any of them."""
    times = []
    for number in reversed(range(4)):
        old = fleet.workers[number]
        lib.check(first_in_its_container(old), "the worker is PID 1")
        machine = old.machine()
        instance = old.status()["instance"]
        code, took_s = old.stop()
        print(f"{old.id}: code {code}, {took_s:.2f} s after SIGTERM")
        lib.equal(code, 0, f"{old.id}: {old.logs()[-500:]}")
        times.append(took_s)
        lib.check(fleet.slot(machine).get("instance") != instance, "its machine ID is handed back")
        fleet.workers[number] = fleet.worker(old.name).wait_ready()
        clients.wait_more(1000)
    for number in range(2):
        new = fleet.coordinator().wait_ready()  # maxSurge: the new one first
        code, took_s = fleet.coordinators[number].stop()
        print(f"{fleet.coordinators[number].id}: code {code}, {took_s:.2f} s after SIGTERM")
        lib.equal(code, 0, fleet.coordinators[number].id)
        times.append(took_s)
        fleet.coordinators[number] = new
        clients.wait_more(1000)
    lib.check(statistics.median(times) < 5, f"seconds from SIGTERM to the end: {times}")


def twins_at_once(fleet):
    made = [None] * 2

    def start(place):
        made[place] = fleet.worker("snowfleet-worker-4")
    threads = [threading.Thread(target=start, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for twin in made:
        twin.wait_ready()
    lib.equal({twin.status()["identity"] for twin in made}, {"snowfleet-dev/snowfleet-worker-4"}, "one identity")
    held = [each.machine() for each in fleet.workers + made]
    lib.equal(len(set(held)), 6, f"machine IDs {held}")
    return made


def a_lost_node(fleet, clients):
    """Gives the IDs that were taken on both sides."""
    lost = fleet.workers[1]
    machine, instance = lost.machine(), lost.status()["instance"]
    lost.silent, lost.ready = True, False
    PODMAN("network", "disconnect", kubelet.NETWORK, lost.id)
    ids = taken(lost)  # its window goes on
    twin = fleet.worker(lost.name).wait_ready()
    lib.check(twin.machine() != machine, "the twin has another machine ID")
    lib.wait_until(lambda: fleet.slot(machine).get("instance") != instance, 60, "the lease of the lost one ends", 1)
    clients.wait_more(1000)
    ids += until_refused(lost)  # its window ends, and it says so
    PODMAN("network", "connect", "--ip", lost.address, kubelet.NETWORK, lost.id)
    lost.silent = False
    lost.wait_ready()  # by itself, and by the process that was there before
    lib.equal(lost.status()["instance"], instance, "the same process")
    lib.check(lost.machine() != twin.machine(), "two machine IDs")
    return ids + taken(lost) + taken(twin), twin


def a_state_file(fleet):
    """A volume that another pod comes back to: it asks for the machine ID that it finds there."""
    volume = {"state": fleet.cluster.volume("state-snowfleet-worker-0", USER)}
    with fleet.manifests(STATEFUL):
        first = fleet.worker("snowfleet-worker-5", volume).wait_ready()
        machine, ids = first.machine(), taken(first)
        lib.equal(first.stop()[0], 0, "exit code")
        lib.wait_until(lambda: fleet.slot(machine)["state"] == "FREE", 180, "the machine ID has rested", 1)
        again = fleet.worker("snowfleet-worker-6", volume).wait_ready()
        lib.equal(again.machine(), machine, "the machine ID on the volume")
        lib.equal(again.status()["identity"], "snowfleet-dev/snowfleet-worker-6", "another pod")
        more = taken(again)
        lib.check(min(more) > max(ids), "IDs go on above those of the first pod")
        return ids + more


def keys_of_public_ids(fleet):
    """From a Secret, with the mode and the group that the manifests say."""
    with fleet.manifests(PUBLIC):
        spec = PUBLIC.template("StatefulSet", "snowfleet-worker")
        keys = fleet.cluster.secret(spec, "public-keys", {"keys": PUBLIC_KEY})
        worker = fleet.worker("snowfleet-worker-7", {"public-keys": keys}).wait_ready()
    texts = PODMAN("exec", worker.id, "/usr/bin/snowfleetctl", "next", "--worker", HERE, "--kind", "public",
                   "--count", 10).split()
    lib.check(len(texts) == 10 and all(re.fullmatch("P1[0-9A-Z]{26}", text) for text in texts), f"{texts}")
    return [int(worker.http("GET", f"/v1/decode/{text}").json()["number"]) for text in texts]


def test_a_fleet_of_pods():
    with Fleet() as fleet:
        with kubelet.Service(fleet.cluster) as clients:
            clients.wait_more(1000)
            rolling_restart(fleet, clients)
            print(f"rolling restart: {clients.requests} requests, {clients.again} tried again")
            lib.equal(clients.failed, [], "requests that failed in a rolling restart")
            made = twins_at_once(fleet)
            clients.wait_more(1000)
            ids = [number for twin in made for number in taken(twin)]
            more, _ = a_lost_node(fleet, clients)
            ids += more
            ids += keys_of_public_ids(fleet)
            ids += a_state_file(fleet)
            clients.wait_more(1000)
        print(f"in all: {clients.requests} requests, {clients.again} tried again, {len(clients.ids)} IDs")
        lib.equal(clients.failed, [], "requests that failed")
        load.no_duplicates(clients.ids + ids)
        lib.equal(fleet.cluster.dead, [], "pods that liveness would have started again")


if __name__ == "__main__":
    REASON = containers.isolate()
    if REASON:
        print(f"skipped: {REASON}")
        sys.exit(0)
    PODMAN = containers.Podman(tempfile.mkdtemp(prefix="sfpod-"))
    atexit.register(PODMAN.remove)
    PLAIN, STATEFUL, PUBLIC = rendered(), rendered("state-file"), rendered("public-ids")
    REASON = images(PODMAN, PLAIN)
    if REASON:
        print(f"skipped: podman cannot run containers here: {REASON}")
        sys.exit(0)
    containers.leave_network()
    lib.main()
