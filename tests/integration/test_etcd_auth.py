"""A fleet on an etcd with users, under the least-privilege role of deploy/README.md, made by the very
commands that stand there."""

import os
import pathlib
import re
import subprocess
import time

import lib
import load

PAGE = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "README.md"
# etcd takes its flags from here too.
os.environ.update({"ETCD_AUTH_TOKEN_TTL": "4", "ETCD_BCRYPT_COST": "4"})
TIMES = ["--window=4s", "--lease-ttl=2s", "--keepalive-interval=500ms", "--assign-wait=1s"]


class AuthEtcd(lib.Etcd):
    """An etcd whose tokens live for 4 s.  etcdctl() runs as root once auth is on."""

    def __init__(self, fleet):
        self.auth = False
        super().__init__(fleet)

    def etcdctl(self, line, user="root:root-secret", check=True):
        env = {"ETCDCTL_API": "3", "ETCDCTL_ENDPOINTS": self.url}
        if self.auth and user:
            env["ETCDCTL_USER"] = user
        done = subprocess.run(["bash", "-c", line], cwd=self.folder, capture_output=True, text=True,
                              timeout=30 * lib.SLOW, env=lib.clean_env(env))
        lib.check(not check or done.returncode == 0, f"{line}: {done.stderr}{done.stdout}")
        return done

    def set_up(self, password):
        """Runs the commands of the page."""
        lib.write_secret(self.folder / "root-password", "root-secret\n")
        lib.write_secret(self.folder / "etcd-password", password + "\n")
        section = PAGE.read_text().split("## etcd: user and role")[1].split("\n## ")[0]
        commands = re.search(r"```sh\n(etcdctl .*?)```", section, re.DOTALL).group(1)
        for line in commands.splitlines():
            self.etcdctl(line)
        self.auth = True


class AuthFleet(lib.Fleet):
    def start_etcd(self):
        self.etcd = AuthEtcd(self)
        self.etcd.set_up("first-secret")
        return self.etcd

    @property
    def password_file(self):
        return self.etcd.folder / "etcd-password"

    def _common(self):
        return [*super()._common(), "--etcd-user", "snowfleet",
                "--etcd-password-file", self.password_file]


def limit_ms(worker):
    return int(worker.status()["machines"][0]["limit_ms"])


def test_the_documented_role_runs_a_fleet_and_no_more():
    with AuthFleet() as fleet:
        fleet.init("--new", "--quiet-time=1s")
        coordinator = fleet.coordinator("--lease-ttl=2s")
        worker = fleet.worker(*TIMES)
        worker.wait_ready()
        fleet.leader([coordinator])
        with load.Load(worker.address, clients=2, count=5, pause=0.01) as clients:
            begun = time.monotonic()
            while time.monotonic() - begun < 20:  # five lives of a token
                other = fleet.worker(*TIMES)
                other.wait_ready()
                fleet.ctl("status")
                lib.equal(other.terminate(10), 0, "exit code")
                time.sleep(4.5)  # nobody claims: a token that is not used ends
            lib.equal(clients.refusals, [], "refusals")
            fleet.etcd.kill()
            fleet.etcd.start()
            was = limit_ms(worker)
            lib.wait_until(lambda: limit_ms(worker) > was, 10, "extended after a restart", promised=True)
            load.no_duplicates(clients.stop())
        lib.check(len(fleet.ctl_json("machines")) > 0, "machines")
        fleet.ctl("sequence", "create", "orders")
        lib.wait_until(lambda: worker.get("/v1/ids?kind=sequence&name=orders").status == 200, 10, "a value comes")

        # Beyond the prefix the role reaches nothing, nor does anybody without a user.
        user = "snowfleet:first-secret"
        fleet.etcd.etcdctl("etcdctl get --prefix /snowfleet/default/", user)
        for line in ("etcdctl get --prefix /snowfleet/", "etcdctl put /other 1",
                     "etcdctl get /snowfleet/default0", "etcdctl role add more"):
            lib.check(fleet.etcd.etcdctl(line, user, check=False).returncode != 0, f"done: {line}")
        done = fleet.etcd.etcdctl("etcdctl get --prefix /snowfleet/default/", None, check=False)
        lib.check(done.returncode != 0, f"without a user: {done}")
        fleet.cluster = "other"
        done = fleet.ctl_raw("status")
        lib.check(done.returncode != 0 and "permission denied" in done.stderr, f"{done}")


def test_a_wrong_password_is_said_once_and_a_new_one_needs_no_restart():
    with AuthFleet() as fleet:
        fleet.init("--new", "--quiet-time=1s")
        worker = fleet.worker(*TIMES)
        worker.wait_ready()
        fleet.etcd.etcdctl("echo second-secret | etcdctl user passwd snowfleet --interactive=false")
        lib.wait_until(lambda: "authentication failed" in worker.status()["reason"], 10, "it says why")
        lib.wait_until(lambda: worker.get("/v1/ids").status == 503, 10, "the window ends")
        lib.equal(worker.get("/livez").status, 200)
        done = fleet.ctl_raw("status")
        lib.check(done.returncode == 1 and "authentication failed" in done.stderr, f"{done}")
        lines = [line for line in worker.output().splitlines() if "authentication failed" in line]
        lib.check(1 <= len(lines) <= 4, f"{len(lines)} lines: {lines}")
        fleet.password_file.write_text("second-secret\n")
        worker.wait_ready(10)
        for text in (worker.output(), worker.errors(), done.stderr):
            lib.check("-secret" not in text, "a password in the output")


def test_options_that_cannot_be_used_are_refused_by_name():
    with AuthFleet() as fleet:
        for args, expected in (
                (["--etcd-password-file", "/nowhere"], "/nowhere: No such file"),
                (["--etcd-user", "u"], "--etcd-password-file")):
            command = [str(lib.BIN / "snowfleetctl"), "status", "--etcd-endpoints", fleet.etcd.url,
                       *(["--etcd-user", "u"] if "/nowhere" in args else []), *args]
            done = subprocess.run(command, capture_output=True, text=True, env=lib.clean_env(),
                                  timeout=30)
            lib.check(done.returncode != 0 and expected in done.stderr, f"{done}")


if __name__ == "__main__":
    lib.main()
