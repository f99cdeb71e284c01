"""deploy/kubernetes: every overlay, and every component by itself, is what Kubernetes takes and what our
programs understand; and what would be wrong with it is found."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

import lib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "kubernetes"))

import kubectl  # noqa: E402
import manifests  # noqa: E402

DEPLOY = ROOT / "deploy" / "kubernetes"
MONITORING = ROOT / "deploy" / "monitoring"
CACHE = lib.BIN.parent / "kubectl"
PAGE = (ROOT / "deploy" / "README.md").read_text()


def settings_of(*command):
    """The options and the environment variables that a program's --help names."""
    text = subprocess.run([lib.BIN / command[0], *command[1:], "--help"], capture_output=True, text=True, timeout=30,
                          check=True, env=lib.clean_env()).stdout
    return set(re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE)) | set(re.findall(r"SNOWFLEET_[A-Z_]+", text))


PROGRAMS = {"snowfleet-worker": settings_of("snowfleet-worker"),
            "snowfleet-coordinator": settings_of("snowfleet-coordinator"),
            "snowfleetctl init": settings_of("snowfleetctl", "init")}
TOOL = kubectl.find(CACHE)


def rendered(name):
    return kubectl.kustomize(TOOL, DEPLOY / "overlays" / name)


def test_overlays_are_fine():
    overlays = sorted(folder.name for folder in (DEPLOY / "overlays").iterdir())
    lib.check({"dev", "production"} <= set(overlays), f"overlays: {overlays}")
    for name in overlays:
        lib.equal(manifests.check(rendered(name), PROGRAMS), [], name)


def with_component(name):
    """The base with one component."""
    with tempfile.TemporaryDirectory() as overlay:
        (pathlib.Path(overlay) / "kustomization.yaml").write_text(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: test\n"
            f"resources: [{os.path.relpath(DEPLOY / 'base', overlay)}]\n"
            f"components: [{os.path.relpath(DEPLOY / 'components' / name, overlay)}]\n"
            "images: [{name: snowfleet, newTag: 0.1.0}]\n")
        return kubectl.kustomize(TOOL, overlay)


def test_each_component_is_fine_by_itself():
    components = sorted(folder.name for folder in (DEPLOY / "components").iterdir())
    lib.check(len(components) >= 5, f"components: {components}")
    for name in components:
        lib.equal(manifests.check(with_component(name), PROGRAMS), [], name)
        lib.check(f"components/{name}`" in PAGE, f"deploy/README.md tells of components/{name}")


def test_alerts_and_dashboard_are_those_of_deploy_monitoring():
    objects = {document["kind"]: document for document in yaml.safe_load_all(with_component("monitoring"))
               if document["kind"] == "PrometheusRule" or document["metadata"]["name"] == "snowfleet-dashboard"}
    rules = yaml.safe_load((MONITORING / "rules.yml").read_text())
    lib.equal(objects["PrometheusRule"]["spec"], rules, "rules; deploy/monitoring/prometheus-rule.sh makes them anew")
    made = subprocess.run([MONITORING / "prometheus-rule.sh"], capture_output=True, text=True, timeout=30, check=True)
    lib.equal((DEPLOY / "components" / "monitoring" / "prometheus-rule.yaml").read_text(), made.stdout, "the file")
    dashboard = objects["ConfigMap"]
    lib.equal(dashboard["data"], {"dashboard.json": (MONITORING / "dashboard.json").read_text()}, "the dashboard")
    lib.equal(dashboard["metadata"]["labels"]["grafana_dashboard"], "1", "what Grafana's sidecar looks for")


# What is changed in the production overlay, and what must be said of it.
WRONG = [
    ("terminationGracePeriodSeconds: 20", "terminationGracePeriodSecond: 20", "terminationGracePeriodSecond"),
    ("readinessProbe:", "readynessProbe:", "readynessProbe"),
    ("replicas: 5", "replicas: five", "replicas"),
    ("podManagementPolicy: Parallel", "podManagementPolicy: Parallel\n  podManagementPolicy: Parallel", "twice"),
    ("serviceName: snowfleet-workers", "serviceName: snowfleet-worker", "no headless Service"),
    ("targetPort: http", "targetPort: htttp", "targetPort htttp"),
    ("containerPort: 8080", "containerPort: 8081", "which is none of"),
    ("path: /livez", "path: /readyz", "must get /livez"),
    ("serviceAccountName: snowfleet-worker", "serviceAccountName: snowfleet", "no ServiceAccount snowfleet"),
    (r"name: snowfleet-worker-[a-z0-9]+\n(?=kind|metadata|  namespace)", "name: snowfleet-worker-other\n",
     "no ConfigMap"),
    ("secretName: snowfleet-etcd-tls", "secretName: snowfleet-etcd", "no Secret snowfleet-etcd,"),
    (r"defaultMode: 288\n          secretName: snowfleet-etcd-auth", "secretName: snowfleet-etcd-auth",
     "etcd-auth has mode 0644, and must have 0640 or stricter"),
    ("fsGroup: 65532", "supplementalGroups: [65532]", "cannot be read without an fsGroup"),
    ("mountPath: /etc/snowfleet/etcd-auth", "mountPath: /etc/snowfleet/etcd", "where nothing is mounted"),
    ("terminationGracePeriodSeconds: 20", "terminationGracePeriodSeconds: 9", "is not above preStop and drain"),
    ("SNOWFLEET_DRAIN_TIMEOUT: 4s", "SNOWFLEET_DRAIN_TIMEOUT: 1m", "is not above preStop and drain"),
    ("SNOWFLEET_WINDOW:", "SNOWFLEET_WINDOWS:", "no setting SNOWFLEET_WINDOWS"),
    ("--http-listen=0.0.0.0:8080", "--listen=0.0.0.0:8080", "no option --listen"),
    (r"\$\(POD_IP\)", "$(POD_ID)", "env does not set"),
    (r"image: registry.example.com/snowfleet:0.1.0", "image: registry.example.com/snowfleet:latest", "no version"),
    (r"image: registry.example.com/snowfleet:0.1.0", "image: registry.example.com:5000/snowfleet", "no version"),
    ("runAsNonRoot: true", "runAsNonRoot: false", "not root"),
    ("allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true", "not restricted"),
    ("readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "can write its root"),
    ("enableServiceLinks: false", "enableServiceLinks: true", "enableServiceLinks"),
    ("type: RuntimeDefault", "type: Unconfined", "seccompProfile"),
    ("memory: 256Mi", "memory: 256Mi\n            cpu: 100m", "CPU limit"),
    (r"automountServiceAccountToken: false\nkind: ServiceAccount", "kind: ServiceAccount", "automount"),
    (r"(kind: PodDisruptionBudget\n(?:(?!---\n).*\n)*?    matchLabels:\n)      app.kubernetes.io/component: \w+\n",
     r"\1      app.kubernetes.io/component: nobody\n", "chooses no pods"),
    ("sleep:\n              seconds: 5", "exec:\n              command: [sleep, '5']", "native sleep"),
    ("port: 2379", "port: 2379\n    - port: 8090\n  - to: [{podSelector: {matchLabels: {app.kubernetes.io/component: "
     "worker}}}]\n    ports: [{port: 81}]", "lets out to port 81"),
]


def test_what_is_wrong_is_found():
    text = rendered("production")
    for before, after, said in WRONG:
        changed, n = re.subn(before, lambda match, after=after: match.expand(after), text)
        lib.check(n > 0, f"{before!r} is in the overlay")
        findings = manifests.check(changed, PROGRAMS)
        lib.check(any(said in finding for finding in findings), f"{before!r} to {after!r}: {said!r} in {findings}")


def test_nothing_is_a_finding_too():
    lib.check(manifests.check("", PROGRAMS), "an empty text is not fine")
    lib.check(manifests.check("a: [", PROGRAMS), "no YAML is not fine")
    lib.check(manifests.check("apiVersion: v2\nkind: Pod\nmetadata: {name: x}\n", PROGRAMS), "an unknown kind is not")


lib.main()
