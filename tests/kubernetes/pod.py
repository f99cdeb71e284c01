"""How the manifests start a program: its arguments and its environment, as the kubelet would give them."""

import re

import yaml

import manifests


class Pods:
    """What a rendered overlay says of its pods."""

    def __init__(self, text):
        self.documents = [document for document in yaml.load_all(text, Loader=manifests.UniqueKeys) if document]
        self.checker = manifests.Checker(self.documents, {})

    def workload(self, kind, name):
        for document in self.documents:
            if document["kind"] == kind and document["metadata"]["name"] == name:
                return document
        raise LookupError(f"no {kind} {name}")

    def template(self, kind, name):
        return self.workload(kind, name)["spec"]["template"]["spec"]

    def image(self, kind, name):
        return self.template(kind, name)["containers"][0]["image"]

    def start(self, kind, name, pod, address, namespace="snowfleet"):
        """(command and arguments, environment) of the first container of a pod with that name and IP."""
        container = self.template(kind, name)["containers"][0]
        fields = {"metadata.name": pod, "metadata.namespace": namespace, "status.podIP": address}
        environment = self.checker.environment(container)
        for variable in container.get("env", []):
            if "valueFrom" in variable:
                environment[variable["name"]] = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        args = [re.sub(r"\$\(([A-Z_]+)\)", lambda match: environment[match.group(1)], argument)
                for argument in container.get("args", [])]
        return container["command"] + args, environment
