"""What Kubernetes does with the pods of rendered manifests, done with podman: addresses, names, environment,
security, probes and their thresholds, hooks, grace periods, and the endpoints that clients are given."""

import datetime
import http.client
import os
import pathlib
import shutil
import threading
import time

import lib

NETWORK = "pods"
SUBNET = "10.213.7"


def probe_of(container, which):
    """Path, port number and limits of a probe, with Kubernetes' defaults."""
    probe = container[which]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    action = probe["httpGet"]
    return {"path": action["path"], "port": ports.get(action["port"], action["port"]),
            "period": probe.get("periodSeconds", 10), "timeout": probe.get("timeoutSeconds", 1),
            "failures": probe.get("failureThreshold", 3)}


class Pod:
    """One pod, which may share its name with another."""

    def __init__(self, cluster, kind, workload, name, volumes=None):
        self.cluster, self.name = cluster, name
        self.spec = cluster.pods.template(kind, workload)
        self.container = self.spec["containers"][0]
        service = cluster.pods.workload(kind, workload)["spec"].get("serviceName")
        self.address = cluster.new_address(f"{name}.{service}" if service else name)
        self.id = f"{name}-{self.address.rpartition('.')[2]}"  # pods of one name are two containers
        self.terminating = self.ready = self.gone = False
        self.silent = False  # its node is lost: nobody probes it
        self.last_probe = "not probed"
        self.volumes = volumes or {}
        command, environment = cluster.pods.start(kind, workload, name, self.address, cluster.namespace)
        cluster.podman("run", "--detach", "--name", self.id, *self._flags(command, environment),
                       self.container["image"], *command[1:])
        cluster.add(self)

    def _flags(self, command, environment):
        pod, own = self.spec["securityContext"], self.container["securityContext"]
        flags = ["--pull=never", *self.cluster.network(), "--ip", self.address, "--hostname", self.name,
                 "--entrypoint", command[0], "--user", f"{pod['runAsUser']}:{pod['runAsGroup']}", "--memory",
                 self.container["resources"]["limits"]["memory"].removesuffix("i").lower()]
        if "fsGroup" in pod:
            flags.append(f"--group-add={pod['fsGroup']}")
        flags += [f"--cap-drop={name}" for name in own["capabilities"]["drop"]]
        if not own["allowPrivilegeEscalation"]:
            flags.append("--security-opt=no-new-privileges")
        if own["readOnlyRootFilesystem"]:
            flags += ["--read-only", "--read-only-tmpfs=false"]
        for mount in self.container.get("volumeMounts", []):
            mode = ":ro" if mount.get("readOnly") else ""
            flags += ["--volume", f"{self.volumes[mount['name']]}:{mount['mountPath']}{mode}"]
        return flags + [f"--env={name}={value}" for name, value in environment.items()]

    # ---- probes ----

    def http(self, method, path, port=None, timeout=5):
        port = port or self.container["ports"][0]["containerPort"]
        return lib.request(f"{self.address}:{port}", method, path, timeout=timeout)

    def status(self):
        return self.http("GET", "/v1/status").json()

    def probed(self, which):
        probe = probe_of(self.container, which)
        try:
            answer = self.http("GET", probe["path"], probe["port"], probe["timeout"])
            self.last_probe = f"{which}: {answer}"
            return 200 <= answer.status < 400
        except (OSError, http.client.HTTPException) as error:
            self.last_probe = f"{which}: {type(error).__name__}: {error}"
            return False

    def wait_started(self):
        """As startupProbe has it."""
        probe = probe_of(self.container, "startupProbe")
        lib.wait_until(lambda: self.probed("startupProbe"), probe["period"] * probe["failures"],
                       f"{self.id} starts", 0.2)

    def wait_ready(self, timeout=90):
        def ready():
            if not self.ready and not self.state()["Running"]:
                raise RuntimeError(f"{self.id} has ended: {self.logs()[-1000:]}")
            lib.check(self.ready, self.last_probe)
            return True
        lib.wait_until(ready, timeout, f"{self.id} is ready", 0.3)
        return self

    def logs(self):
        code, out, err = self.cluster.podman.try_to("logs", self.id)
        return out + err if code == 0 else err

    # ---- of a worker ----

    def machine(self):
        return self.status()["machines"][0]["machine_id"]

    # ---- the end ----

    def stop(self):
        """A deletion: out of the endpoints, preStop, SIGTERM, and SIGKILL when the grace period is over.
        Gives the exit code and the seconds from SIGTERM to the end."""
        grace_s = self.spec.get("terminationGracePeriodSeconds", 30)
        hook_s = self.container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        self.terminating = True
        time.sleep(hook_s)
        begun = time.time()
        self.gone = True
        self.cluster.podman("stop", "--time", grace_s - hook_s, self.id, timeout=60)
        return self.exit_code(), self.ended() - begun

    def state(self):
        return self.cluster.podman.inspect("container", self.id)["State"]

    def ended(self):
        """When it ended, in Unix time: what podman does afterwards does not count."""
        return datetime.datetime.fromisoformat(self.state()["FinishedAt"]).timestamp()

    def exit_code(self):
        state = self.state()
        lib.equal(state["Running"], False, f"{self.id} has ended")
        return state["ExitCode"]


class Cluster:
    """A network, the pods on it, and a thread that probes them all as their manifests say."""

    def __init__(self, podman, pods):
        self.podman, self.pods = podman, pods
        self.namespace = "snowfleet-dev"
        self.lock = threading.Lock()
        self.all, self.dead = [], []
        self._last = 9
        podman("network", "create", "--internal", "--subnet", f"{SUBNET}.0/24", NETWORK)
        self._hosts = podman.folder / "hosts"
        self._hosts.write_text("127.0.0.1 localhost\n")
        self._hosts.chmod(0o644)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._probe_all, daemon=True)
        self._thread.start()

    def new_address(self, name):
        """For a pod that is going to start; from now on the others find it by name."""
        with self.lock:
            self._last += 1
            address = f"{SUBNET}.{self._last}"
            with open(self._hosts, "a", encoding="ascii") as hosts:
                hosts.write(f"{address} {name}\n")
            return address

    def network(self):
        """What a container that is to be on the network is started with.  Names are in a file of hosts that all of
        them share: podman's own name server leaves lookups without an answer whenever it reads its configuration
        again (containers/aardvark-dns issue 389), which each start and end of a container makes it do.  A lookup
        took 5 to 10 s then, and a request to etcd may take 2."""
        return ["--network", NETWORK, "--no-hosts", "--volume", f"{self._hosts}:/etc/hosts:ro"]

    def add(self, pod):
        with self.lock:
            self.all.append(pod)

    def endpoints(self):
        """The addresses that the Service of the workers has."""
        with self.lock:
            return [pod for pod in self.all if pod.ready and not pod.terminating
                    and pod.container["name"] == "worker"]

    def _probe_all(self):
        due = {}
        failures = {}
        while not self._end.wait(0.2):
            with self.lock:
                living = [pod for pod in self.all if not pod.gone and not pod.silent]
            for pod in living:
                for which in ("livenessProbe", "readinessProbe"):
                    if time.monotonic() < due.get((pod.id, which), 0):
                        continue
                    probe = probe_of(pod.container, which)
                    due[pod.id, which] = time.monotonic() + probe["period"]
                    good = pod.probed(which)
                    if pod.gone or pod.silent:
                        continue
                    failed = failures[pod.id, which] = 0 if good else failures.get((pod.id, which), 0) + 1
                    if which == "livenessProbe":
                        if failed >= probe["failures"]:
                            self.dead.append(pod.id)  # Kubernetes would start it again
                    elif good != pod.ready and (good or failed >= probe["failures"]):
                        pod.ready = good

    @staticmethod
    def volume(name, owner):
        """A folder of the host's, which belongs to the user that the pods run as (fsGroup).  In memory: on a disk
        that others write to as well etcd's fsync takes seconds, and this is no test of that."""
        place = pathlib.Path("/dev/shm/volumes") / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        os.chown(place, owner, owner)
        return place

    def secret(self, pod, volume, files):
        """A folder as the kubelet mounts a Secret's {name: text}: root's, of the group that fsGroup names."""
        place = self.volume(volume, 0)
        wanted = next(each["secret"] for each in pod["volumes"] if each["name"] == volume)
        for name, text in files.items():
            (place / name).write_text(text)
            (place / name).chmod(wanted.get("defaultMode", 0o644))
            os.chown(place / name, 0, pod["securityContext"]["fsGroup"])
        return place

    def tool(self, *arguments):
        """snowfleetctl, out of the same image, with the settings that the init Job has."""
        _, environment = self.pods.start("Job", "snowfleet-init", "tool", "")
        image = self.pods.template("Job", "snowfleet-init")["containers"][0]["image"]
        return self.podman("run", "--rm", "--pull=never", *self.network(), "--entrypoint", "/usr/bin/snowfleetctl",
                           *(f"--env={name}={value}" for name, value in environment.items()), image, *arguments)

    def close(self):
        self._end.set()
        self._thread.join(60)


class Service:
    """Clients of the workers' Service.  A request that is refused with 503 or finds nobody is tried at the next
    address, and when none is left once more everywhere after a second, which is what a 503 asks for
    (retry_after_ms); one that stays without IDs has failed."""

    TRIES = 8
    ROUND = 4

    def __init__(self, cluster, clients=4, count=20):
        self.cluster, self.count = cluster, count
        self.lock = threading.Lock()
        self.ids, self.failed = [], []
        self.requests = self.again = 0
        self._stop = threading.Event()
        self.threads = [threading.Thread(target=self._client, args=(number,), daemon=True) for number in range(clients)]
        for thread in self.threads:
            thread.start()

    def _once(self, connections, pod):
        """(IDs, None) or (None, why it may be tried again)."""
        if pod.id not in connections:
            connections[pod.id] = http.client.HTTPConnection(pod.address, 8080, timeout=5 * lib.SLOW)
        try:
            connections[pod.id].request("GET", f"/v1/ids?count={self.count}", headers={"Accept": "text/plain"})
            answer = connections[pod.id].getresponse()
            body = answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            connections.pop(pod.id).close()
            return None, f"{type(error).__name__}: {error}"
        if answer.getheader("Connection", "").lower() == "close":
            connections.pop(pod.id).close()
        if answer.status == 200:
            return [int(line) for line in body.split()], None
        lib.equal(answer.status, 503, f"{pod.id}: {body}")
        return None, body

    def _client(self, turn):
        connections = {}
        while not self._stop.is_set():
            reasons = []
            for attempt in range(self.TRIES):
                if attempt == self.ROUND:
                    self._stop.wait(1)
                pods = self.cluster.endpoints()
                turn += 1
                try:
                    ids, reason = self._once(connections, pods[turn % len(pods)]) if pods else (None, "no endpoint")
                except lib.Failure as failure:
                    reasons.append(str(failure))
                    break
                if ids:
                    break
                reasons.append(reason)
            with self.lock:
                self.requests += 1
                self.again += len(reasons)
                if ids:
                    self.ids += ids
                else:
                    self.failed.append(reasons)
            self._stop.wait(0.01)
        for connection in connections.values():
            connection.close()

    def wait_more(self, more, timeout=60):
        goal = len(self.ids) + more
        lib.wait_until(lambda: len(self.ids) >= goal, timeout, f"{more} more IDs")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self.threads:
            thread.join(60)
