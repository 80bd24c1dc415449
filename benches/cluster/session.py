"""A fragmented cluster is put right, as a session of its user: what the guide shows.

    python3 benches/cluster/session.py GPUWISE START_KUBE

Four nodes of eight GPUs on a real control plane (KWOK's), gpuwise operating in mode `act` outside of the cluster. Every
command that is printed was run, and what stands below it is what it said.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / ".ci"))
from cluster import Cluster, until
from operator_parts import Operator, listed, node

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: team}
spec:
  replicas: 16
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: engine, image: registry.example/engine:1, resources: {limits: {nvidia.com/gpu: 2}}}]
"""
TRAIN = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: team}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: train, image: registry.example/train:1, resources: {limits: {nvidia.com/gpu: 8}}}]
"""
POLICY = """
apiVersion: gpuwise.dev/v1alpha1
kind: GpuPolicy
metadata: {name: default}
spec: {moves: {perHour: 12}}
"""


class Session:
    def __init__(self, gpuwise, start, folder):
        self.gpuwise, self.folder = gpuwise, folder
        self.cluster = Cluster(start, folder, ["--kwok"])
        programs = folder / "bin"
        programs.mkdir()
        (programs / "kubectl-gpuwise").symlink_to(gpuwise)
        found = pathlib.Path(self.cluster.variables["KUBE_BIN"])
        path = f"{programs}:{found}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "KUBECONFIG": str(folder / "kube" / "kubeconfig"), "COLUMNS": "100"}

    def run(self, *words):
        return subprocess.run([self.gpuwise, *words], capture_output=True, text=True, check=True).stdout

    def type(self, line, given=None):
        """A command as it is typed, and what it says."""
        shown = line if given is None else f"{line} <<'EOF'{given}EOF"
        done = subprocess.run(["sh", "-c", line], input=given, capture_output=True, text=True, env=self.environment, timeout=60)
        print(f"$ {shown}\n{done.stdout}{done.stderr}", end="", flush=True)

    def pods(self, app):
        return [one for one in listed(self.cluster).values() if one["metadata"]["labels"].get("app") == app]

    def ready(self, count):
        own = [one for one in self.pods("web") if "deletionTimestamp" not in one["metadata"]]
        is_ready = lambda one: any(said["type"] == "Ready" and said["status"] == "True" for said in one["status"].get("conditions", []))
        good = [one for one in own if is_ready(one)]
        return len(own) == len(good) == count or (len(own), len(good))


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("gpuwise")
    flags.add_argument("start")
    args = flags.parse_args()
    gpuwise = os.path.abspath(shutil.which(args.gpuwise) or args.gpuwise)
    with tempfile.TemporaryDirectory(prefix="gpuwise-session-") as made:
        session = Session(gpuwise, args.start, pathlib.Path(made))
        operator = Operator(session)
        try:
            cluster = session.cluster
            cluster.apply("\n---\n".join(json.dumps(node(f"gpu-{one}", 8)) for one in range(1, 5)))
            cluster.kubectl("create", "namespace", "team")
            operator.install("act")
            cluster.kubectl("label", "namespace", "team", "gpuwise.dev/managed=true")
            operator.start(name="session")
            operator.webhook_answers()
            cluster.apply(WEB)
            until("web runs", 60, lambda: session.ready(16))
            # One of each node goes: which of equal pods do is a controller's chance.
            first = {one["spec"]["nodeName"]: one["metadata"]["name"] for one in session.pods("web")}
            cluster.kubectl("annotate", "pods", "-n", "team", *first.values(), "controller.kubernetes.io/pod-deletion-cost=-1")
            session.type("kubectl scale deployment web -n team --replicas=12")
            until("four have left", 60, lambda: session.ready(12))
            where = "kubectl get pods -n team -o custom-columns=NODE:.spec.nodeName,GPUS:.spec.containers[0].resources.limits.nvidia\\\\.com/gpu --no-headers | sort | uniq -c"
            session.type(where)
            session.type("kubectl apply -f -", TRAIN)
            waits = lambda: any(one["spec"].get("schedulingGates") for one in listed(cluster).values() if one["metadata"]["name"].startswith("train")) or "no"
            until("it waits", 30, waits)
            name = next(name for name in listed(cluster) if name.startswith("train"))
            session.type(f"kubectl gpuwise why team/{name}")
            session.type("kubectl apply -f -", POLICY)
            # What a node of KWOK runs for a Job has ended at once.
            runs = lambda: listed(cluster)[name]["status"]["phase"] in ("Running", "Succeeded") or listed(cluster)[name]["status"]
            until("it runs", 60, runs)
            until("web is whole", 60, lambda: session.ready(12))
            session.type("kubectl get events -n team -o custom-columns=REASON:.reason,MESSAGE:.message --no-headers --sort-by=.metadata.creationTimestamp | grep -E '^Moves|was kept'")
            session.type(where)
        finally:
            operator.stop()
            session.cluster.stop()


if __name__ == "__main__":
    main()
