"""GPUs of a pool come to nodes of a real Kubernetes: `gpuwise serve --executor kubernetes --compose redfish=URL`.

    START_REDFISH's python .ci/check_composed.py GPUWISE START_KUBE START_REDFISH

Nodes without a GPU of their own are hosts of the DMTF's emulator. What a driver of theirs does is done here: what the
DMTF's client sees at a host is its node's ResourceSlice. Pods claim what is leased; kube-scheduler, which knows
nothing of the pool, gives them the devices, and those must be the ones that the service has at the host.
"""

import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import threading
import time

from check_executor import SPACE, Check
from check_redfish import POLICY, Service
from cluster import until

DRIVER = "gpu.fabric.test"


def spread(name):
    """Nodes that are alike are one table: compute-{2..3}."""
    several = re.fullmatch(r"(.*)\{(\d+)\.\.(\d+)\}", name)
    if not several:
        return [name]
    stem, first, last = several.groups()
    return [f"{stem}{one}" for one in range(int(first), int(last) + 1)]


class Driver:
    """Keeps a slice for each node that has GPUs, as drivers of nodes do."""

    def __init__(self, cluster, service, nodes):
        self.cluster, self.service, self.nodes, self.over = cluster, service, nodes, False
        self.said, self.generation = {}, 0
        one = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": DRIVER}}
        cluster.apply(json.dumps({**one, "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}}))
        self.thread = threading.Thread(target=self.looks)
        self.thread.start()

    def looks(self):
        while not self.over:
            self.look()
            time.sleep(0.3)

    def look(self):
        systems = self.service.systems()
        for node in self.nodes:
            gpus = systems.get(node, [])
            if gpus == self.said.get(node, []):
                continue
            self.said[node] = gpus
            self.generation += 1
            if not gpus:
                self.cluster.kubectl("delete", "resourceslice", node)
                continue
            facts = {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA H200"}}
            devices = [{"name": gpu.lower(), "attributes": facts, "capacity": {"memory": {"value": "141Gi"}}} for gpu in gpus]
            pool = {"name": node, "generation": self.generation, "resourceSliceCount": 1}
            spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
            self.cluster.apply(json.dumps({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec}))

    def stop(self):
        self.over = True
        self.thread.join(30)


class Composed(Check):
    hosts, gpus = [f"compute-{one}" for one in range(1, 5)], 0

    def fleet(self, service):
        self.service = service
        # Nodes of Kubernetes are in small letters; what the service calls a host stays.
        path = self.folder / "fleet.toml"
        self.ask("fleet", "import", "--redfish", service.url, "-o", str(path))
        path.write_text(re.sub(r'^name = "Compute-', 'name = "compute-', path.read_text(), flags=re.M))
        (self.folder / "policy.toml").write_text(POLICY)
        self.resumes()
        self.ask("tenant", "create", "vision")

    def resumes(self):
        more = ["--compose", f"redfish={self.service.url}", "--compose-every", "1s", "--policy", str(self.folder / "policy.toml")]
        self.begin("--kubernetes-device-class", DRIVER, *more)

    def claimed(self):
        """Devices that claims have, by node."""
        found = {}
        for claim in json.loads(self.kubectl("get", "resourceclaims", "-n", SPACE, "-o", "json"))["items"]:
            for one in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", []):
                found.setdefault(one["pool"], []).append(one["device"])
        return {node: sorted(devices) for node, devices in found.items()}

    def systems(self):
        return {node: sorted(gpu.lower() for gpu in gpus) for node, gpus in self.service.systems().items()}

    def gpus_by_inventory(self):
        """What `fleet import` of the cluster says of its nodes."""
        text = self.ask("fleet", "import", "--kubeconfig", str(self.folder / "kube" / "kubeconfig"), offline=False)
        found = {}
        for table in text.split("[[node]]")[1:]:
            counts = re.findall(r'"?(\d+)xH200', table)
            for name in spread(re.search(r'name = "([^"]+)"', table).group(1)):
                found.update({name: int(counts[0])} if counts else {})
        return found


def comes_and_goes(check):
    began = time.monotonic()
    first = check.lease("--gpu", "3xH200", "--", "sleep", "1000")
    check.runs(first)
    took = time.monotonic() - began
    second = check.lease("--gpu", "1xH200", "--workers", "2", "--", "sleep", "1000")
    check.runs(second)
    claimed, systems = check.claimed(), check.systems()
    if claimed != systems or sorted(map(len, systems.values())) not in ([1, 1, 3], [2, 3]):
        raise SystemExit(f"claims have what the hosts have: {claimed}, {systems}")
    counts = {node: len(gpus) for node, gpus in systems.items()}
    until("the inventory sees it", 20, lambda: check.gpus_by_inventory() == counts or check.gpus_by_inventory())
    print(f"{first}, {second}: {systems}; claimed so, the first after {took:.1f} s; fleet import sees {counts}", flush=True)
    return first, second


def survives(check, first, second):
    before = check.runs(first)
    check.dies()
    check.resumes()
    if check.runs(first) != before or check.claimed() != check.systems():
        raise SystemExit(f"a broker that began again: {before}, {check.pods(first)}; {check.claimed()}, {check.systems()}")
    check.release(first, second)
    until("nothing is composed", 60, lambda: not check.systems() or check.systems())
    until("nothing is claimed", 60, lambda: not check.claimed() or check.claimed())
    until("no pod is left", 60, lambda: not check.pods() or check.pods())
    print("a broker that is killed finds pods and hosts; given back, no pod, no claim, no slice and no composed host is left", flush=True)


def main(gpuwise, kube, fabric, folder):
    check, service, driver = Composed(gpuwise, kube, folder), None, None
    try:
        service = Service(fabric, folder, hosts=4, gpus=16, delay=0.5)
        driver = Driver(check.cluster, service, check.hosts)
        check.fleet(service)
        survives(check, *comes_and_goes(check))
        until("no slice is left", 20, lambda: not check.kubectl("get", "resourceslices", "-o", "name") or "some")
    except BaseException:
        for log in ["serve.log", "redfish.log", "start-kube.log"]:
            text = (folder / log).read_text(errors="replace")[-3000:] if (folder / log).exists() else "is not there"
            print(f"{log}:\n{text}", flush=True)
        raise
    finally:
        driver and driver.stop()
        service and service.stop()
        check.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="gpuwise-composed-") as made:
        os.chmod(made, 0o755)
        main(shutil.which(sys.argv[1]) or sys.argv[1], sys.argv[2], sys.argv[3], pathlib.Path(made))
