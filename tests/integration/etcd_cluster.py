"""Three real etcd members on loopback, in place of a Fleet's one etcd.

    with ClusterFleet() as fleet:
        fleet.etcd.leader().pause()

Calls of lib.Etcd go to the first member that runs.  With tls every client port wants a certificate of
a private CA, and those calls are not to be used.
"""

import subprocess

import lib

CERTIFICATES = """
printf 'subjectAltName=IP:127.0.0.1\\nextendedKeyUsage=serverAuth,clientAuth\\n' >ext
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ca \
    -keyout ca.key -out ca.pem
for c in server client; do
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /O=$c -keyout $c.key -out $c.csr
    openssl x509 -req -in $c.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out $c.pem
done
"""


class Member(lib.Process):
    """One of the members; url is what clients connect to."""

    def __init__(self, cluster, number):
        self.cluster = cluster
        self.address = f"127.0.0.1:{cluster.ports[number][0]}"
        self.url = f"{cluster.scheme}://{self.address}"
        peers = [f"http://127.0.0.1:{ports[1]}" for ports in cluster.ports]
        self.health = f"127.0.0.1:{cluster.ports[number][2]}"
        tls = ["--cert-file=server.pem", "--key-file=server.key", "--trusted-ca-file=ca.pem",
               "--client-cert-auth"] if cluster.tls else []
        super().__init__(f"etcd{number}", [
            "etcd", "--name", f"m{number}", "--data-dir", cluster.folder / f"m{number}.data",
            "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
            "--listen-peer-urls", peers[number], "--initial-advertise-peer-urls", peers[number],
            "--initial-cluster", ",".join(f"m{i}={peer}" for i, peer in enumerate(peers)),
            "--listen-metrics-urls", f"http://{self.health}", "--unsafe-no-fsync",
            "--heartbeat-interval", "100", "--election-timeout", "1000", *tls,
        ], cluster.folder, {"ETCD_UNSUPPORTED_ARCH": "arm64"})

    def healthy(self):
        return lib.request(self.health, "GET", "/health", timeout=1).json()["health"] == "true"

    def reachable(self):
        """It answers, healthy or not (which it is not without space)."""
        return lib.request(self.health, "GET", "/health", timeout=1).status in (200, 503)

    def status(self):
        return lib.request(self.address, "POST", "/v3/maintenance/status", "{}").json()

    def id(self):
        return int(self.status()["header"]["member_id"])

    def option(self, name):
        return self.argv[self.argv.index(name) + 1]

    def set_option(self, name, value):
        """For its next start."""
        self.argv[self.argv.index(name) + 1] = value

    def is_leader(self):
        status = self.status()
        return status.get("leader") == status["header"]["member_id"]


class EtcdCluster(lib.Etcd):
    """Instead of lib.Etcd; url names all members."""

    def __init__(self, fleet, tls=False):  # pylint: disable=super-init-not-called
        self.folder = fleet.folder
        self.tls = tls
        self.scheme = "https" if tls else "http"
        if tls:
            subprocess.run(["sh", "-ec", CERTIFICATES], cwd=self.folder, capture_output=True,
                           check=True)
        self.members = []
        ports = set()
        while len(ports) < 9:
            ports.add(lib.free_port())
        ports = list(ports)
        self.ports = [ports[i * 3:i * 3 + 3] for i in range(3)]
        try:
            for number in range(3):
                self.members.append(Member(self, number))
            lib.wait_until(lambda: all(member.healthy() for member in self.members), 20,
                           "three members are healthy")
        except BaseException:
            self.kill()
            raise

    @property
    def url(self):
        return ",".join(member.url for member in self.members)

    @property
    def address(self):
        return next(member.address for member in self.members
                    if member.alive() and not member.stopped)

    def leader(self):
        return lib.wait_until(lambda: next((member for member in self.members
                                            if member.alive() and member.is_leader()), None),
                              10, "a member leads")

    def follower(self):
        leader = self.leader()
        return next(member for member in self.members if member is not leader)

    def kill(self):
        for member in self.members:
            member.kill()


class ClusterFleet(lib.Fleet):
    """A Fleet on three members."""

    def __init__(self, tls=False, **kwargs):
        self.tls = tls
        super().__init__(**kwargs)

    def start_etcd(self):
        self.etcd = EtcdCluster(self, self.tls)
        return self.etcd

    def _common(self):
        tls = [f"--etcd-{name}-file={self.folder / file}" for name, file in (
            ("ca", "ca.pem"), ("cert", "client.pem"), ("key", "client.key"))] if self.tls else []
        return [*super()._common(), *tls]
