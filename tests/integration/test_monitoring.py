#!/usr/bin/env python3
"""deploy/monitoring: the rules say what they are meant to, every metric that rules and dashboard
name is really there, and Grafana would take the dashboard."""

import json
import pathlib
import re
import subprocess

import yaml

import lib

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/monitoring"
SHORT = ["--lease-ttl=2s", "--ceiling-interval=500ms", "--probe-interval=500ms"]
NAME = re.compile(r"\b((?:snowfleet|etcd)_[a-z0-9_]+)\b")


def rules():
    groups = yaml.safe_load((FOLDER / "rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard():
    return json.loads((FOLDER / "dashboard.json").read_text())


def panels():
    return dashboard()["panels"]


def promtool(*args):
    done = subprocess.run(["promtool", *args], capture_output=True, text=True, check=False)
    lib.equal(done.returncode, 0, done.stdout + done.stderr)


def test_the_rules_fire_when_they_should_and_else_do_not():
    promtool("check", "rules", "--lint-fatal", str(FOLDER / "rules.yml"))
    promtool("test", "rules", str(FOLDER / "rules_test.yml"))
    tested = yaml.safe_load((FOLDER / "rules_test.yml").read_text())["tests"]
    for rule in rules():
        alerts = [case for test in tested for case in test["alert_rule_test"]
                  if case["alertname"] == rule["alert"]]
        lib.check(any(case["exp_alerts"] for case in alerts), f"{rule['alert']} is seen to fire")
        lib.check(any(not case["exp_alerts"] for case in alerts), f"{rule['alert']} is seen not to")


def anchor(heading):
    """As GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-")


def test_every_alert_says_what_to_do():
    page = (ROOT / "deploy/README.md").read_text()
    anchors = {anchor(heading) for heading in re.findall(r"^#+ (.*)$", page, re.MULTILINE)}
    for rule in rules():
        notes = rule["annotations"]
        for name in ("summary", "description"):
            lib.check(notes[name].strip(), f"{rule['alert']}: {name}")
        where, target = notes["runbook"].split("#")
        lib.equal(where, "deploy/README.md", rule["alert"])
        lib.check(target in anchors, f"{rule['alert']}: deploy/README.md has no {target}")
        lib.check(rule["labels"]["severity"] in ("warning", "critical"), rule["alert"])


def metric_names(text):
    """Of a scrape: a histogram's series too."""
    return {re.split(r"[{ ]", line)[0] for line in text.splitlines() if line and line[0] != "#"}


def test_every_metric_that_is_named_is_there():
    named = {}
    for rule in rules():
        for name in NAME.findall(rule["expr"]):
            named.setdefault(name, rule["alert"])
    for panel in panels():
        for target in panel["targets"]:
            for name in NAME.findall(target["expr"]):
                named.setdefault(name, panel["title"])
    lib.check(len(named) > 20, "they were found")
    with lib.Fleet() as fleet:
        fleet.init("--new")
        coordinator = fleet.coordinator(*SHORT)
        fleet.leader([coordinator])
        workers = [fleet.worker() for _ in range(3)]
        for worker in workers:
            worker.wait_ready()

        def all_there():
            texts = [daemon.get("/metrics").body for daemon in (coordinator, workers[0])]
            texts.append(lib.request(fleet.etcd.address, "GET", "/metrics").body)
            missing = set(named) - set().union(*map(metric_names, texts))
            lib.check(not missing, {name: named[name] for name in missing})
            return True
        # Drift and the like take two probes.
        lib.wait_until(all_there, 20, "all metrics are there")


def test_labels_of_rules_are_those_of_the_metrics():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        coordinator = fleet.coordinator(*SHORT)
        fleet.leader([coordinator])
        fleet.worker(name="pod-7").wait_ready()

        def labelled():
            text = coordinator.get("/metrics").body
            lib.check(re.search(r'^snowfleet_node_verdict\{machine_id="\d+",node="pod-7"\} [0-3]$', text,
                                re.MULTILINE), text)
            for verdict in ("OK", "WARN", "CRIT", "UNKNOWN"):
                lib.check(f'snowfleet_skew_nodes{{verdict="{verdict}"}}' in text, verdict)
            lib.check('snowfleet_slots{state="free"}' in text, "slots")
            lib.check("claim=" not in text and "lease=" not in text, "no label for claims or leases")
            return True
        lib.wait_until(labelled, 15, "labels")


def test_grafana_would_take_the_dashboard():
    board = dashboard()
    lib.check(board["schemaVersion"] >= 30 and board["title"] and board["uid"], "what it is")
    variables = {each["name"]: each for each in board["templating"]["list"]}
    lib.equal(variables["datasource"]["type"], "datasource")
    lib.equal(variables["datasource"]["query"], "prometheus")
    ids, taken, read = [], set(), []
    for panel in board["panels"]:
        ids.append(panel["id"])
        lib.check(panel["type"] in ("timeseries", "stat"), panel["title"])
        lib.check(panel["description"], f"{panel['title']} says what it shows")
        lib.equal(panel["datasource"]["uid"], "${datasource}", panel["title"])
        place = panel["gridPos"]
        lib.check(place["x"] + place["w"] <= 24, panel["title"])
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        lib.check(not cells & taken, f"{panel['title']} lies on another panel")
        taken |= cells
        for target in panel["targets"]:
            used = set(re.findall(r"\$(?:\{)?([a-zA-Z_]+)", target["expr"]))
            lib.check(used <= set(variables) | {"__rate_interval"}, used)
            # As Prometheus reads it, with the variables filled in.
            expr = target["expr"].replace("$job", ".*").replace("$__rate_interval", "1m")
            read.append({"record": f"panel:{panel['id']}_{target['refId']}", "expr": expr})
    done = subprocess.run(["promtool", "check", "rules", "/dev/stdin"], capture_output=True, text=True,
                          input=yaml.safe_dump({"groups": [{"name": "a", "rules": read}]}), check=False)
    lib.equal(done.returncode, 0, done.stdout + done.stderr)
    lib.equal(len(ids), len(set(ids)), "panel ids differ")
    titles = " ".join(panel["title"].lower() for panel in board["panels"])
    for shown in ("runway", "ids issued", "offsets", "bounds", "machine ids", "ceiling", "etcd requests",
                  "database", "errors"):
        lib.check(shown in titles, shown)


if __name__ == "__main__":
    lib.main()
