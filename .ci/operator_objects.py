"""Objects that are disrupted, what is read of them, and a MIG manager without a GPU."""

import threading
import time

from operator_faults import SPACE
from operator_parts import GATE

PRODUCT = "NVIDIA-H100-80GB-HBM3"
NODES = [f"act-{i}" for i in range(4)]
LEAVING, PLACED = "gpuwise.dev/Leaving", "gpuwise.dev/Placed"
SETTLED = 60


class MigManager:
    """Does what NVIDIA's does to the labels and what a device plugin then offers, without a GPU."""

    def __init__(self, api, name):
        self.api, self.name, self.ends, self.cuts = api, name, threading.Event(), 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        path, applied = f"/api/v1/nodes/{self.name}", "all-disabled"
        each = {"1g.10gb": 7, "2g.20gb": 3, "3g.40gb": 2, "7g.80gb": 1}
        while not self.ends.wait(0.3):
            status, found = self.api.ask("GET", path)
            wanted = found.get("metadata", {}).get("labels", {}).get("nvidia.com/mig.config")
            if status != 200 or wanted in (applied, None):
                continue
            self.api.merge(path, {"metadata": {"labels": {"nvidia.com/mig.config.state": "pending"}}})
            gives = {"nvidia.com/gpu": "8"} if wanted == "all-disabled" else {f"nvidia.com/mig-{wanted[4:]}": str(8 * each[wanted[4:]])}
            none = {key: None for key in found["status"]["allocatable"] if key.startswith("nvidia.com/") and key not in gives}
            time.sleep(0.3)
            self.api.merge(path + "/status", {"status": {"capacity": {**none, **gives}, "allocatable": {**none, **gives}}})
            self.api.merge(path, {"metadata": {"labels": {"nvidia.com/mig.config.state": "success"}}})
            applied, self.cuts = wanted, self.cuts + 1


def gated(name, gpus=1, resource="nvidia.com/gpu", annotations=None, **more):
    spec = {"schedulingGates": [{"name": GATE}], "nodeSelector": {"acts": "yes"}, "terminationGracePeriodSeconds": 1, **more}
    spec["containers"] = [{"name": "c", "image": "none", "resources": {"limits": {resource: str(gpus)}}}]
    metadata = {"name": name, "namespace": SPACE, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def deployment(name, replicas, gpus, annotations=None):
    one = gated(name, gpus, annotations=annotations)
    template = {"metadata": {"labels": {"app": name}, "annotations": annotations or {}}, "spec": one["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": SPACE}, "spec": spec}


def budget(name, least):
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": name}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": SPACE}, "spec": spec}


def condition(one, kind):
    return next((c for c in one["status"].get("conditions", []) if c["type"] == kind), {})


def is_ready(one):
    return condition(one, "Ready").get("status") == "True" and "deletionTimestamp" not in one["metadata"]
