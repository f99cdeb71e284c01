"""/metrics of both programs as Prometheus sees it: promtool, the content type, and the values."""

import re
import subprocess

import lib

TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
SHORT = ["--lease-ttl=2s", "--ceiling-interval=500ms", "--probe-interval=500ms"]


class Scrape:
    """values: {name with labels: number}; types and helps: {name: text}."""

    def __init__(self, daemon, headers=None):
        reply = daemon.get("/metrics", headers=headers or {})
        lib.equal(reply.status, 200, f"{daemon.name} /metrics")
        lib.equal(reply.headers["content-type"], TYPE)
        self.text = reply.body
        self.values, self.types, self.helps = {}, {}, {}
        for line in self.text.splitlines():
            word = line.split(" ", 3)
            if word[:2] == ["#", "HELP"]:
                self.helps[word[2]] = word[3]
            elif word[:2] == ["#", "TYPE"]:
                self.types[word[2]] = word[3]
            else:
                name, value = line.rsplit(" ", 1)
                lib.check(name not in self.values, f"{name} comes twice")
                self.values[name] = float(value)

    def family(self, sample):
        return sample.split("{")[0]

    def counters(self):
        return {name: value for name, value in self.values.items()
                if self.types[self.family(name)] == "counter"}


def check_scrape(daemon):
    """What promtool says, and what it does not look at."""
    scrape = Scrape(daemon)
    done = subprocess.run(["promtool", "check", "metrics"], input=scrape.text, text=True,
                          capture_output=True, check=False)
    lib.equal((done.returncode, done.stdout + done.stderr), (0, ""), "promtool check metrics")
    lib.check(scrape.text.endswith("\n"), "the last line ends")
    for sample in scrape.values:
        name = scrape.family(sample)
        lib.check(name.startswith("snowfleet_"), f"{name} is ours")
        lib.check(scrape.helps.get(name, "").endswith("."), f"{name} has a HELP")
        lib.check(scrape.types.get(name) in ("counter", "gauge"), f"{name} has a TYPE")
        lib.equal(scrape.types[name] == "counter", name.endswith("_total"), f"{name}'s TYPE")
        lib.check(not re.search(r"_(ms|ns|us|millis\w*|minutes|kb|kib|percent)(_total)?$", name),
                  f"{name} is in base units")
    lib.equal(set(scrape.types), set(scrape.helps), "TYPE and HELP come together")
    return scrape


def test_promtool_has_nothing_to_say():
    with lib.Fleet() as fleet:
        coordinator = fleet.coordinator(*SHORT)
        worker = fleet.worker("--machine-ids=3")
        for daemon in (coordinator, worker):  # before anything is there to be shown
            check_scrape(daemon)
        fleet.init("--new")
        fleet.leader([coordinator])
        worker.wait_ready()
        for daemon in (coordinator, worker):
            check_scrape(daemon)
        fleet.etcd.kill()
        lib.wait_until(lambda: Scrape(coordinator).values["snowfleet_etcd_reachable"] == 0, 15,
                       "the coordinator misses etcd")
        for daemon in (coordinator, worker):
            check_scrape(daemon)


def test_a_standalone_worker_shows_no_etcd():
    with lib.Fleet(start_etcd=False) as fleet:
        worker = lib.Daemon("alone", [
            lib.BIN / "snowfleet-worker", "--standalone", "--init", "--http-listen=127.0.0.1:0",
            "--grpc-listen=127.0.0.1:0", "--identity=alone", f"--state-file={fleet.folder}/state"], fleet.folder)
        fleet.processes.append(worker)
        worker.wait_ready()
        scrape = check_scrape(worker)
        lib.check(not any("etcd" in name for name in scrape.values), "no etcd")


def test_the_content_type_is_one_that_prometheus_3_takes():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        for daemon in (fleet.coordinator(*SHORT), fleet.worker()):
            for accept in (None, OPENMETRICS, "application/openmetrics-text", "*/*", "text/plain",
                           "application/json"):
                headers = {"Accept": accept} if accept else {}
                got = daemon.get("/metrics", headers=headers)
                lib.equal((got.status, got.headers["content-type"]), (200, TYPE), f"GET {accept}")
                head = daemon.request("HEAD", "/metrics", headers=headers)
                lib.equal((head.status, head.headers["content-type"], head.body), (200, TYPE, ""),
                          f"HEAD {accept}")
            lib.equal(daemon.get("/metrics?name[]=up").status, 200, "arguments do no harm")


def agrees(worker, count):
    """Metrics and status say the same of what does not move by itself."""
    status, values = worker.status(), Scrape(worker).values
    machines = status["machines"]
    for loop, machine in enumerate(machines):
        issued = values[f'snowfleet_ids_issued_total{{kind="snowflake",loop="{loop}"}}']
        lib.equal(str(int(issued)), machine["issued_total"], f"IDs issued by loop {loop}")
        runway = values["snowfleet_machine_runway_seconds"
                        f'{{loop="{loop}",machine_id="{machine["machine_id"]}"}}']
        lib.check(abs(runway - machine["runway_ms"] / 1000) < 2 * lib.SLOW, f"runway of {loop}")
    lib.equal(sum(int(machine["issued_total"]) for machine in machines), count, "all IDs")
    lib.equal(values['snowfleet_worker_state{state="SERVING"}'], 1)
    lib.equal(sum(value for name, value in values.items()
                  if name.startswith("snowfleet_worker_state")), 1, "one state at a time")
    for name in ("requests_total", "failures_total", "unknown_total"):
        lib.check(values[f"snowfleet_etcd_{name}"] >= int(status["etcd"][name]), name)
    lib.equal(values["snowfleet_clock_steps_total"], int(status["clock"]["steps_total"]))
    lib.equal(f'snowfleet_build_info{{version="{status["version"]}"}}' in values, True)


def test_values_agree_with_the_status():
    with lib.Fleet() as fleet:
        fleet.init("--new", "--machine-id-range=0-9")
        coordinator = fleet.coordinator(*SHORT)
        fleet.leader([coordinator])
        worker = fleet.worker("--machine-ids=2")
        worker.wait_ready()
        lib.wait_until(lambda: all(machine["state"] == "SERVING"
                                   for machine in worker.status()["machines"]), 10, "both serve")
        taken = 0
        for count in (1, 10, 5000, 10000, 7):
            taken += len(worker.ids(count))
        # A loop publishes its numbers in its next turn.
        lib.wait_until(lambda: agrees(worker, taken) or True, 5, "they agree")
        requests = Scrape(worker).values["snowfleet_http_requests_total"]
        for _ in range(20):
            worker.get("/livez")
        lib.wait_until(lambda: Scrape(worker).values["snowfleet_http_requests_total"] >= requests + 20,
                       5, "requests are counted")

        def slots_agree():
            values, slots = Scrape(coordinator).values, coordinator.status()["slots"]
            shown = {name: values[f'snowfleet_slots{{state="{name}"}}'] for name in slots}
            lib.equal(shown, slots)
            lib.equal(slots["held"], 2)
            lib.equal(values["snowfleet_cluster_workers"], 1)
            lib.equal((values["snowfleet_leader"], values["snowfleet_cluster_open"]), (1, 1))
            return True
        lib.wait_until(slots_agree, 10, "the coordinator's numbers agree")


def grown(before, after):
    for name, value in before.counters().items():
        lib.check(name in after.values, f"{name} is still there")
        lib.check(after.values[name] >= value, f"{name} fell from {value} to {after.values[name]}")


def test_counters_only_grow_also_over_a_restart_of_etcd():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        coordinator = fleet.coordinator(*SHORT)
        fleet.leader([coordinator])
        worker = fleet.worker("--window=3s", "--lease-ttl=2s", "--keepalive-interval=500ms")
        worker.wait_ready()
        last = {daemon: Scrape(daemon) for daemon in (worker, coordinator)}
        first = dict(last)

        def look():
            for daemon in last:
                scrape = Scrape(daemon)
                grown(last[daemon], scrape)
                last[daemon] = scrape
        worker.ids(100)
        look()
        fleet.etcd.kill()
        lib.wait_until(lambda: look() or last[worker].values['snowfleet_worker_state{state="STARVED"}'],
                       15, "it has used up its time")
        lib.equal(last[worker].values["snowfleet_runway_seconds"], 0)
        lib.equal(last[worker].values["snowfleet_etcd_reachable"], 0)
        fleet.etcd.start()
        lib.wait_until(lambda: look() or worker.ready(), 30, "it serves again")
        lib.wait_until(lambda: look() or coordinator.leads(), 30, "the coordinator leads again")
        worker.ids(100)
        lib.wait_until(lambda: look() or last[worker].values["snowfleet_etcd_reachable"], 10,
                       "etcd is reached")
        for name in ("snowfleet_etcd_failures_total",
                     'snowfleet_ids_issued_total{kind="snowflake",loop="0"}'):
            lib.check(last[worker].values[name] > first[worker].values[name], f"{name} grew")
        raises = "snowfleet_ceiling_raises_total"
        lib.wait_until(lambda: look() or
                       last[coordinator].values[raises] > first[coordinator].values[raises],
                       10, "the ceiling is raised again")


if __name__ == "__main__":
    lib.main()
