"""What is wrong with Kubernetes manifests: against the schemas, and beyond what schemas can see.

check(text, programs) returns findings, one line each; none means that they are fine.  programs tells
what options our programs have: {"snowfleet-worker": {"--http-listen", "SNOWFLEET_HTTP_LISTEN", ...}}.
"""

import functools
import json
import pathlib
import re

import jsonschema
import yaml

SCHEMAS = pathlib.Path(__file__).with_name("schemas")
# Secrets that people bring along; deploy/README.md says how they are made.
BROUGHT_SECRETS = {"snowfleet-etcd-tls", "snowfleet-etcd-auth", "snowfleet-grpc-tls", "snowfleet-public-keys"}
DRAIN_DEFAULT_S = 4
WORKLOADS = ("StatefulSet", "Deployment", "Job")


class UniqueKeys(yaml.CSafeLoader):
    """YAML in which a key given twice is an error."""


def _mapping(loader, node):
    seen = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            raise yaml.YAMLError(f"key {key!r} is given twice, line {key_node.start_mark.line + 1}")
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


UniqueKeys.add_constructor("tag:yaml.org,2002:map", _mapping)


@functools.cache
def validator(path):
    return jsonschema.Draft7Validator(json.loads(path.read_text()))


def label(document):
    return f"{document.get('kind')}/{document.get('metadata', {}).get('name')}"


def seconds(duration):
    """"250ms", "4s", "2m" in seconds."""
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", duration).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit]


class Checker:
    def __init__(self, documents, programs):
        self.documents = documents
        self.programs = programs
        self.findings = []

    def complain(self, document, what):
        self.findings.append(f"{label(document)}: {what}")

    def of_kind(self, *kinds):
        return [document for document in self.documents if document.get("kind") in kinds]

    def names(self, kind):
        return {document["metadata"]["name"] for document in self.of_kind(kind)}

    # ---- schemas ----

    def schemas(self):
        for document in self.documents:
            group, _, version = document.get("apiVersion", "").rpartition("/")
            middle = group.split(".")[0] + "-" if group else ""
            path = SCHEMAS / f"{str(document.get('kind')).lower()}-{middle}{version}.json"
            if not path.exists():
                self.complain(document, f"no schema for {document.get('apiVersion')} {document.get('kind')}")
                continue
            for error in validator(path).iter_errors(document):
                where = ".".join(map(str, error.absolute_path))
                self.complain(document, f"{where}: {error.message[:200]}")

    # ---- selectors ----

    def templates(self):
        return [(workload, workload["spec"]["template"]) for workload in self.of_kind(*WORKLOADS)]

    def selected(self, selector):
        """The pod templates that a selector's labels choose; an empty one chooses nothing here."""
        return [template for _, template in self.templates()
                if selector and selector.items() <= template["metadata"].get("labels", {}).items()]

    def selectors(self):
        for workload, template in self.templates():
            labels = template["metadata"].get("labels", {})
            wanted = workload["spec"].get("selector", {}).get("matchLabels")
            if workload["kind"] != "Job" and (not wanted or not wanted.items() <= labels.items()):
                self.complain(workload, f"its selector {wanted} does not choose its own pods, {labels}")
            for spread in template["spec"].get("topologySpreadConstraints", []):
                chosen = spread.get("labelSelector", {}).get("matchLabels", {})
                if not chosen or not chosen.items() <= labels.items():
                    self.complain(workload, f"topologySpreadConstraints choose {chosen}, not its own pods")
            if workload["kind"] == "StatefulSet":
                name = workload["spec"]["serviceName"]
                services = [s for s in self.of_kind("Service") if s["metadata"]["name"] == name]
                if not services or services[0]["spec"].get("clusterIP") != "None":
                    self.complain(workload, f"serviceName {name} is no headless Service")
        for service in self.of_kind("Service"):
            if not self.selected(service["spec"].get("selector", {})):
                self.complain(service, f"selector {service['spec'].get('selector')} chooses no pods")
        for document in self.of_kind("PodDisruptionBudget"):
            if not self.selected(document["spec"]["selector"].get("matchLabels", {})):
                self.complain(document, "its selector chooses no pods")
        for document in self.of_kind("NetworkPolicy"):
            if not self.selected(document["spec"]["podSelector"].get("matchLabels", {})):
                self.complain(document, "podSelector chooses no pods")
        for document in self.of_kind("ServiceMonitor"):
            wanted = document["spec"]["selector"].get("matchLabels", {})
            services = [service for service in self.of_kind("Service")
                        if wanted and wanted.items() <= service["metadata"].get("labels", {}).items()]
            if not services:
                self.complain(document, f"selector {wanted} chooses no Service")
            for endpoint in document["spec"]["endpoints"]:
                for service in services:
                    if endpoint.get("port") not in [port.get("name") for port in service["spec"]["ports"]]:
                        self.complain(document, f"port {endpoint.get('port')} is none of {label(service)}")

    # ---- ports ----

    @staticmethod
    def ports_of(template):
        return {port["name"]: port["containerPort"]
                for container in template["spec"]["containers"] for port in container.get("ports", [])}

    def ports(self):
        for service in self.of_kind("Service"):
            for template in self.selected(service["spec"].get("selector", {})):
                ports = self.ports_of(template)
                for port in service["spec"]["ports"]:
                    target = port.get("targetPort", port["port"])
                    if target not in ports and target not in ports.values():
                        self.complain(service, f"targetPort {target} is none of its pods' ports {ports}")
        for workload, template in self.templates():
            ports = self.ports_of(template)
            for container in template["spec"]["containers"]:
                for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                    if probe in container:
                        port = container[probe].get("httpGet", {}).get("port")
                        if port not in ports:
                            self.complain(workload, f"{probe} asks port {port}, which is none of {ports}")
        for policy in self.of_kind("NetworkPolicy"):
            for template in self.selected(policy["spec"]["podSelector"].get("matchLabels", {})):
                ports = self.ports_of(template)
                for rule in policy["spec"].get("ingress", []):
                    for port in rule.get("ports", []):
                        if port["port"] not in ports and port["port"] not in ports.values():
                            self.complain(policy, f"lets in port {port['port']}, which is none of {ports}")
            for rule in policy["spec"].get("egress", []):
                for peer in rule.get("to", []):
                    for template in self.selected(peer.get("podSelector", {}).get("matchLabels", {})):
                        ports = self.ports_of(template)
                        for port in rule.get("ports", []):
                            if port["port"] not in ports.values():
                                self.complain(policy, f"lets out to port {port['port']}, which is none of {ports}")

    # ---- references ----

    def references(self):
        config_maps, secrets = self.names("ConfigMap"), self.names("Secret") | BROUGHT_SECRETS
        accounts = self.names("ServiceAccount")
        for workload, template in self.templates():
            spec = template["spec"]
            wanted_maps, wanted_secrets = set(), set()
            if "serviceAccountName" in spec and spec["serviceAccountName"] not in accounts:
                self.complain(workload, f"there is no ServiceAccount {spec['serviceAccountName']}")
            for volume in spec.get("volumes", []):
                wanted_maps.add(volume.get("configMap", {}).get("name"))
                wanted_secrets.add(volume.get("secret", {}).get("secretName"))
            volumes = {volume["name"] for volume in spec.get("volumes", [])}
            volumes |= {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
            for container in spec["containers"]:
                for source in container.get("envFrom", []):
                    wanted_maps.add(source.get("configMapRef", {}).get("name"))
                    wanted_secrets.add(source.get("secretRef", {}).get("name"))
                for variable in container.get("env", []):
                    wanted_maps.add(variable.get("valueFrom", {}).get("configMapKeyRef", {}).get("name"))
                    wanted_secrets.add(variable.get("valueFrom", {}).get("secretKeyRef", {}).get("name"))
                mounted = [mount["name"] for mount in container.get("volumeMounts", [])]
                for name in mounted:
                    if name not in volumes:
                        self.complain(workload, f"mounts {name}, which is no volume of it")
                for name in re.findall(r"\$\(([A-Z_]+)\)", " ".join(container.get("args", []))):
                    if name not in [variable["name"] for variable in container.get("env", [])]:
                        self.complain(workload, f"args use $({name}), which env does not set")
            for name in wanted_maps - config_maps - {None}:
                self.complain(workload, f"there is no ConfigMap {name}")
            for name in wanted_secrets - secrets - {None}:
                self.complain(workload, f"there is no Secret {name}, nor is it one to be brought along")

    # ---- ours ----

    def environment(self, container):
        """The variables a container starts with, as far as they are written down here."""
        values = {}
        maps = {document["metadata"]["name"]: document.get("data", {}) for document in self.of_kind("ConfigMap")}
        for source in container.get("envFrom", []):
            values |= maps.get(source.get("configMapRef", {}).get("name"), {})
        for variable in container.get("env", []):
            values[variable["name"]] = variable.get("value", "")
        return values

    def options(self):
        for workload, template in self.templates():
            for container in template["spec"]["containers"]:
                command = container.get("command") or [""]
                program = command[0].rpartition("/")[2]
                if not program.startswith("snowfleet"):
                    continue
                args = container.get("args", [])
                if program == "snowfleetctl":
                    program += " " + args[0]
                known = self.programs.get(program)
                if known is None:
                    self.complain(workload, f"there is no program {program}")
                    continue
                for argument in args:
                    if argument.startswith("--") and argument.split("=")[0] not in known:
                        self.complain(workload, f"{program} has no option {argument.split('=')[0]}")
                for name in self.environment(container):
                    if name.startswith("SNOWFLEET_") and name not in known:
                        self.complain(workload, f"{program} has no setting {name}")

    def files(self):
        """Files that settings name are mounted, and secrets with a mode that our programs take."""
        for workload, template in self.templates():
            spec = template["spec"]
            for container in spec["containers"]:
                if not (container.get("command") or [""])[0].startswith("/usr/bin/snowfleet"):
                    continue
                places = {mount["mountPath"]: mount["name"] for mount in container.get("volumeMounts", [])}
                for name, value in self.environment(container).items():
                    if re.fullmatch("SNOWFLEET_[A-Z_]+_FILE", name) and value.rpartition("/")[0] not in places:
                        self.complain(workload, f"{name} is {value}, where nothing is mounted")
                for volume in spec.get("volumes", []):
                    if volume["name"] not in places.values() or "secret" not in volume:
                        continue
                    mode = volume["secret"].get("defaultMode", 0o644)
                    if mode & 0o027:
                        self.complain(workload, f"volume {volume['name']} has mode {mode:04o}, and must have 0640 or "
                                                "stricter: it holds secrets")
                    if not spec.get("securityContext", {}).get("fsGroup"):
                        self.complain(workload, f"volume {volume['name']} cannot be read without an fsGroup")

    def grace(self):
        for workload, template in self.templates():
            grace_s = template["spec"].get("terminationGracePeriodSeconds", 30)
            for container in template["spec"]["containers"]:
                hook = container.get("lifecycle", {}).get("preStop", {})
                if hook and "sleep" not in hook:
                    self.complain(workload, "preStop must be the native sleep: the image has nothing else to run")
                drain_s = DRAIN_DEFAULT_S
                text = self.environment(container).get("SNOWFLEET_DRAIN_TIMEOUT")
                for argument in container.get("args", []):
                    if argument.startswith("--drain-timeout="):
                        text = argument.partition("=")[2]
                if text:
                    drain_s = seconds(text)
                needed_s = hook.get("sleep", {}).get("seconds", 0) + drain_s
                if grace_s <= needed_s:
                    self.complain(workload, f"terminationGracePeriodSeconds {grace_s} is not above preStop and drain, "
                                            f"{needed_s:g}")

    def probes(self):
        for workload, template in self.templates():
            for container in template["spec"]["containers"]:
                if not (container.get("command") or [""])[0].startswith("/usr/bin/snowfleet-"):
                    continue
                for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"),
                                    ("readinessProbe", "/readyz")):
                    if container.get(probe, {}).get("httpGet", {}).get("path") != path:
                        self.complain(workload, f"{probe} must get {path}: it may depend on nothing else")

    def security(self):
        for workload, template in self.templates():
            spec = template["spec"]
            pod = spec.get("securityContext", {})
            if pod.get("runAsNonRoot") is not True or not pod.get("runAsUser"):
                self.complain(workload, "must run as a user that is not root, by number")
            if pod.get("seccompProfile", {}).get("type") != "RuntimeDefault":
                self.complain(workload, "seccompProfile must be RuntimeDefault")
            if spec.get("automountServiceAccountToken") is not False:
                self.complain(workload, "automountServiceAccountToken must be false")
            if spec.get("enableServiceLinks") is not False:
                self.complain(workload, "enableServiceLinks must be false: SNOWFLEET_WORKER_PORT and its like are no "
                                        "settings, and unknown ones are refused")
            for forbidden in ("hostNetwork", "hostPID", "hostIPC"):
                if spec.get(forbidden):
                    self.complain(workload, f"{forbidden} is not restricted")
            for volume in spec.get("volumes", []):
                if "hostPath" in volume:
                    self.complain(workload, "hostPath is not restricted")
            for container in spec["containers"] + spec.get("initContainers", []):
                own = container.get("securityContext", {})
                if own.get("allowPrivilegeEscalation") is not False or own.get("privileged") or \
                        own.get("capabilities") != {"drop": ["ALL"]}:
                    self.complain(workload, f"container {container['name']} is not restricted")
                if own.get("readOnlyRootFilesystem") is not True:
                    self.complain(workload, f"container {container['name']} can write its root")
                resources = container.get("resources", {})
                if "memory" not in resources.get("limits", {}) or not {"cpu", "memory"} <= resources.get(
                        "requests", {}).keys():
                    self.complain(workload, f"container {container['name']} must request cpu and memory, and limit "
                                            "memory")
                if "cpu" in resources.get("limits", {}):
                    self.complain(workload, f"container {container['name']} has a CPU limit")
        for account in self.of_kind("ServiceAccount"):
            if account.get("automountServiceAccountToken") is not False:
                self.complain(account, "automountServiceAccountToken must be false")

    def images(self):
        for workload, template in self.templates():
            for container in template["spec"]["containers"]:
                name, _, tag = container["image"].rpartition("/")[2].partition(":")
                if tag in ("", "latest"):
                    self.complain(workload, f"image {container['image']} names no version")


def check(text, programs):
    try:
        documents = [document for document in yaml.load_all(text, Loader=UniqueKeys) if document is not None]
    except yaml.YAMLError as error:
        return [f"not YAML: {error}"]
    if not documents:
        return ["there is nothing in it"]
    checker = Checker(documents, programs)
    checker.schemas()
    if checker.findings:
        return checker.findings  # what the others would stumble over
    for rule in (checker.selectors, checker.ports, checker.references, checker.options, checker.files,
                 checker.grace, checker.probes, checker.security, checker.images):
        rule()
    return checker.findings
