"""A real Kubernetes, with a real KEDA, scales a plan as `gpuwise scale serve` says.

    python3 .ci/check_kubernetes.py GPUWISE START_KUBE [OTHER_FOLDER]

A fake Prometheus says what comes; the objects are those that `gpuwise plan --emit k8s` and `gpuwise scale emit`
write, and pods are faked by KWOK. Definitions of objects that a cluster knows by others' controllers alone lie in
the folder that GPUWISE_CRDS names, or come as a Go module; what is not there is not checked, and that is said.
"""

import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import operator_acts
import operator_bad
import operator_claimed
import operator_claims
import operator_fragmented
import operator_parts
import operator_tiers
import operator_traces
from cluster import Cluster, Prometheus, free_port, until
from cluster_inventory import Inventory
from cluster_pools import pools

NAME = "llama-3-1-8b"
# Requests a second that a replica serves, by --rate.
EACH = 10


class Check:
    def __init__(self, gpuwise, start, folder):
        self.gpuwise, self.start, self.folder = gpuwise, start, folder
        self.plan = folder / "deployment.json"
        asked = ["plan", "meta-llama/Llama-3.1-8B", "--gpu", "H200", "--rate", "8/s", "--ttft", "p95:1s"]
        asked += ["--tpot", "p95:50ms", "--offline", "--engine", "vllm"]
        self.run(*asked, "--save", str(self.plan))
        self.pods = self.run(*asked, "--emit", "k8s")
        metrics = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Prometheus)
        threading.Thread(target=metrics.serve_forever, daemon=True).start()
        self.prometheus = f"http://127.0.0.1:{metrics.server_address[1]}"
        self.cluster = Cluster(start, folder)
        self.port, self.external, self.scalers, self.shown = free_port(), free_port(), [], []
        self.operators, self.tiered = None, None

    def run(self, *words):
        environment = {**os.environ, "GPUWISE_OFFLINE": "1"}
        done = subprocess.run([self.gpuwise, *words], capture_output=True, text=True, env=environment)
        if done.returncode != 0:
            raise SystemExit(f"gpuwise {' '.join(words)}: {done.stderr}")
        return done.stdout

    def emit(self, form, *more):
        words = ["scale", "emit", str(self.plan), "--as", form, "--max", "30", "--rate", str(EACH), *more]
        return self.run(*words, "--hold", "2s", "--idle", "4s")

    def serve(self, port, *more):
        """Starts `gpuwise scale serve`, by TLS."""
        given = self.cluster.variables
        self.log = self.folder / f"decisions-{len(self.scalers)}.jsonl"
        words = [self.gpuwise, "scale", "serve", "--listen", f"127.0.0.1:{port}", "--prometheus", self.prometheus]
        words += ["--tls-cert", given["WEBHOOK_CERT"], "--tls-key", given["WEBHOOK_KEY"]]
        words += ["--period", "1s", "--log", str(self.log), *more]
        scaler = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        self.scalers.append(scaler)
        print(scaler.stderr.readline().strip(), flush=True)
        return scaler

    def reaches(self, rate, wanted, seconds=120, name=NAME):
        """At such a rate there come to be so many replicas."""
        began = time.monotonic()
        Prometheus.values["demand"] = rate

        def check():
            found = self.cluster.replicas(name)
            return True if found == wanted else found

        until(f"{rate} requests/s: {wanted} replicas", seconds, check)
        print(f"{rate:6} requests/s: {wanted:2} replicas after {time.monotonic() - began:.1f} s", flush=True)

    def stays(self, wanted, seconds, why, name=NAME):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.cluster.replicas(name)
            if found != wanted:
                raise SystemExit(f"{why}: {found} replicas; expected that {wanted} stay")
            time.sleep(1)
        print(f"{why}: {wanted} replicas stay for {seconds} s", flush=True)

    def keda(self):
        """As many as the rate takes, by KEDA and TLS of both sides: no change is swallowed, and who is dead changes nothing."""
        ca = self.cluster.variables["KUBE_CA"]
        # Nothing tells what is ready: a replica is taken to serve once its start is over.
        ask = ["--query", "demand", "--scaler", f"127.0.0.1:{self.port}", "--ca", ca, "--start", "5s"]
        # What KEDA shows; any certificate of a client by that authority.
        keys = self.folder.rglob("front-proxy.*")
        shown = {file.suffix: str(file) for file in keys}
        self.cluster.kubectl("create", "secret", "tls", "keda-client", "--cert", shown[".crt"], "--key", shown[".key"])
        Prometheus.values["demand"] = 0.0
        scaler = self.serve(self.port, "--client-ca", ca)
        # Without a certificate nothing is answered.
        self.cluster.apply(self.emit("keda", *ask, "--controller", "rate"))
        Prometheus.values["demand"] = 30.0
        self.stays(self.cluster.replicas(NAME), 25, "KEDA shows no certificate, 30 requests/s")
        Prometheus.values["demand"] = 0.0
        self.cluster.kubectl("delete", "scaledobject", NAME)
        self.shown = ["--client-secret", "keda-client"]
        object = self.emit("keda", *ask, *self.shown, "--controller", "rate")
        self.cluster.apply(object)
        for rate, wanted in [(0.0, 0), (3.0, 1), (47.0, 5), (110.0, 11), (111.0, 12)]:
            self.reaches(rate, wanted)
        Prometheus.dead = True
        self.stays(12, 30, "Prometheus is dead")
        Prometheus.dead = False
        self.reaches(200.0, 20)
        self.reaches(190.0, 19)
        scaler.kill()
        scaler.wait()
        self.stays(19, 40, "the scaler is dead")
        self.serve(self.port, "--client-ca", ca)
        self.reaches(25.0, 3, 240)
        self.reaches(0.0, 0)
        # With the usual tolerance 11 never become 12: what the comments say.
        stock = re.sub(r"\n *tolerance: .*", "", object)
        self.cluster.kubectl("delete", "scaledobject", NAME)
        self.cluster.apply(stock)
        self.reaches(110.0, 11)
        Prometheus.values["demand"] = 111.0
        self.stays(11, 40, "stock tolerance, 111 requests/s")
        self.cluster.kubectl("delete", "scaledobject", NAME)

    def ours(self):
        """Our controller by KEDA: it learns what is ready, and stops where nothing gets ready."""
        ask = ["--query", "demand", "--scaler", f"127.0.0.1:{self.port}", "--ca", self.cluster.variables["KUBE_CA"]]
        Prometheus.values["ready"] = lambda: self.cluster.ready_replicas(NAME)
        Prometheus.values["waiting"] = 0.0
        if not self.scalers:
            self.serve(self.port)
        object = self.emit("keda", *ask, *self.shown, "--ready-query", "ready", "--queue-query", "waiting", "--start", "10s")
        Prometheus.values["demand"] = 40.0
        self.cluster.apply(object)
        least, most = 5, 8

        def enough():
            found = self.cluster.replicas(NAME)
            return True if least <= found <= most else found

        until(f"40 requests/s: {least} to {most} replicas of ours", 180, enough)
        print(f"40 requests/s by our controller: {self.cluster.replicas(NAME)} replicas", flush=True)
        # Nothing gets ready any more, and ever more comes: some are started, then no more.
        Prometheus.values["ready"] = 0.0
        Prometheus.values["waiting"] = 500.0
        for rate in range(45, 250, 5):
            Prometheus.values["demand"] = float(rate)
            time.sleep(4)
            if "do not get ready" in self.last():
                break
        held = self.cluster.replicas(NAME)
        print(f"nothing gets ready, {rate} requests/s: {self.last()}", flush=True)
        if held >= 30:
            raise SystemExit("as many were started as are allowed, though none got ready")
        Prometheus.values["demand"] = 280.0
        self.stays(held, 20, "nothing gets ready, 280 requests/s")
        Prometheus.values["ready"] = lambda: self.cluster.ready_replicas(NAME)
        Prometheus.values["waiting"] = 0.0
        self.reaches(0.0, 0, 240)
        self.cluster.kubectl("delete", "scaledobject", NAME)
        self.wakes([*ask, *self.shown, "--ready-query", "ready", "--queue-query", "waiting"])

    def wakes(self, ask):
        """A lone request, and a start of ten times the idle time: its replica stays until it serves, and idle counts from then."""
        Prometheus.values["ready"], Prometheus.values["demand"] = 0.0, 1.0
        self.cluster.apply(self.emit("keda", *ask, "--start", "40s", "--controller", "rate"))
        self.reaches(1.0, 1)
        Prometheus.values["demand"] = 0.0
        self.stays(1, 40, "a replica starts for 40 s, nothing may come for 4 s")
        if "one starts" not in self.last():
            raise SystemExit(f"a replica starts: {self.last()}")
        Prometheus.values["ready"] = lambda: self.cluster.ready_replicas(NAME)
        self.reaches(0.0, 0, 240)
        self.cluster.kubectl("delete", "scaledobject", NAME)

    def last(self):
        """The reason of the last decision."""
        return json.loads(self.log.read_text().splitlines()[-1])["wanted"]["reason"]

    def external_metrics(self):
        """Kubernetes' own autoscaler, by external metrics of ours; the API server shows its certificate."""
        ca = self.cluster.variables["KUBE_CA"]
        where = f"gpuwise-scaler.gpuwise-system.svc:{self.external}"
        Prometheus.values["demand"] = 15.0
        ask = ["--query", "demand", "--scaler", where, "--ca", ca, "--controller", "rate", "--start", "5s"]
        text = self.emit("external-metrics", *ask)
        service = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "gpuwise-scaler"}}
        service["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        # The operator's part may have made it already.
        self.cluster.apply(json.dumps({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "gpuwise-system"}}))
        self.cluster.apply(json.dumps(service), "-n", "gpuwise-system")
        # Kubernetes takes 0 that it did not make itself for switched off.
        self.cluster.kubectl("scale", "deployment", NAME, "--replicas", "1")
        self.cluster.apply(text)
        # A pod would have the file mounted.
        services = self.folder / "services"
        services.mkdir()
        held = self.cluster.field("configmap", f"{NAME}-scaling", ".data")
        for name, content in json.loads(held).items():
            (services / name).write_text(content)
        more = ["--external-metrics", f"127.0.0.1:{self.external}", "--services", str(services), "--client-ca", ca]
        scaler = self.serve(free_port(), *more)
        print(scaler.stderr.readline().strip(), flush=True)
        for rate, wanted in [(15.0, 2), (60.0, 6), (110.0, 11), (111.0, 12), (9.0, 1), (0.0, 0), (20.0, 2)]:
            self.reaches(rate, wanted)
        Prometheus.dead = True
        self.stays(2, 20, "Prometheus is dead, external metrics")
        Prometheus.dead = False

    def quota(self):
        """What nobody uses is given back: others in the namespace get its quota."""
        self.reaches(60.0, 6)
        quota = {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "gpus"}}
        quota["spec"] = {"hard": {"requests.nvidia.com/gpu": "6"}}
        self.cluster.apply(json.dumps(quota))
        used = lambda: self.cluster.field("resourcequota", "gpus", ".status.used.requests\\.nvidia\\.com/gpu")
        until("the quota counts 6 GPUs", 60, lambda: used() == "6" or used())
        template = {"metadata": {"labels": {"app": "batch"}}}
        template["spec"] = {"containers": [{"name": "train", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
        batch = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "batch"}}
        batch["spec"] = {"replicas": 4, "selector": {"matchLabels": {"app": "batch"}}, "template": template}
        self.cluster.apply(json.dumps(batch))
        until("batch work is refused by quota", 60, lambda: "exceeded quota" in self.cluster.kubectl("get", "events") or "no event")
        if self.cluster.ready_replicas("batch"):
            raise SystemExit("batch work runs beyond the quota")
        self.reaches(0.0, 0)
        until("batch work has the quota", 120, lambda: self.cluster.ready_replicas("batch") == 4 or self.cluster.ready_replicas("batch"))
        print("6 of 6 GPUs of the quota held by an idle service: 0 replicas, and batch work runs on 4", flush=True)

    def schemas(self):
        """Objects of others' controllers, by the definitions of those."""
        forms = {
            "knative": ("services.serving.knative.dev", []),
            "capacitybuffer": ("capacitybuffers.autoscaling.x-k8s.io", ["--spare", "3"]),
            "wva": ("variantautoscalings.llmd.ai", []),
        }
        found = [*pathlib.Path(os.environ.get("GPUWISE_CRDS", "/nonexistent")).glob("*.yaml"), *knative()]
        for file in found:
            self.cluster.kubectl("apply", "--server-side", "-f", str(file))
        for form, (definition, more) in forms.items():
            known = self.cluster.kubectl("get", "crd", "--ignore-not-found", "-o", "name", definition).strip()
            if not known:
                print(f"SKIPPED: {form} is not held against {definition}, which is not there", flush=True)
                continue
            wait = ["wait", "--for=condition=Established", known, "--timeout=30s"]
            self.cluster.kubectl(*wait)
            self.cluster.apply(self.emit(form, *more), "--dry-run=server")
            print(f"{form}: as {definition} says", flush=True)
        query = ["--query", "demand"]
        self.cluster.apply(self.emit("hpa", *query, "--min", "1"), "--dry-run=server")

    def inventory(self):
        """What `fleet import` says of the cluster is what kubectl says."""
        Inventory(self).run()

    def pools(self):
        """InferencePools, and who an endpoint picker finds in one."""
        pools(self)

    def operator(self):
        """Pods with gates, placed by the kernel and bound by kube-scheduler."""
        # The plan's own pod would hold a GPU of one of its nodes.
        self.cluster.kubectl("scale", "deployment", NAME, "--replicas", "0")
        until("no pod of the plan is left", 60, lambda: not self.cluster.kubectl("get", "pods", "-o", "name").strip() or "one is")
        self.operators = operator_parts.Operator(self)
        operator_parts.part(self, self.operators)

    def claims(self):
        """Pods that ask for GPUs by claims alone."""
        self.operators = self.operators or operator_parts.Operator(self)
        operator_claims.part(self, self.operators, operator_claimed.part)

    def fragmented(self):
        """A gang of 64 where others have left holes: beside kube-scheduler alone, and in-tree gangs."""
        self.operators = self.operators or operator_parts.Operator(self)
        operator_fragmented.part(self, self.operators)

    def tiers(self):
        """GpuWorkloads follow what a real Prometheus says of them."""
        if not shutil.which("prometheus") or not shutil.which("promtool"):
            print("SKIPPED: prometheus is not installed: nothing follows what it says", flush=True)
            return
        self.tiered = operator_tiers.Tiers(self)
        self.tiered.run()

    def acts(self):
        """What the operator disrupts, and chaos while it does."""
        self.operators = self.operators or operator_parts.Operator(self)
        operator_acts.part(self, self.operators)

    def bad(self):
        """What is wrong with the cluster, its clocks, definitions and nodes: said, and nothing lost."""
        self.operators = self.operators or operator_parts.Operator(self)
        operator_bad.part(self, self.operators)

    def traces(self):
        """One trace from an object to its pods' processes, in a real collector."""
        program = os.environ.get("GPUWISE_COLLECTOR")
        if not program:
            print("SKIPPED: no collector (GPUWISE_COLLECTOR): nobody takes traces of the operator", flush=True)
            return
        self.operators = self.operators or operator_parts.Operator(self)
        operator_traces.part(self, self.operators, program)

    def stop(self):
        self.operators and self.operators.stop()
        self.tiered and self.tiered.stop()
        for scaler in self.scalers:
            scaler.kill()
        self.cluster.stop()


def knative():
    """Definitions of Knative Serving, of its Go module."""
    try:
        words = ["go", "mod", "download", "-json", "knative.dev/serving@v0.51.0"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
        return [pathlib.Path(json.loads(done.stdout)["Dir"]) / "config" / "core" / "300-resources" / "service.yaml"]
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired):
        return []


def main(gpuwise, start, folder):
    check = Check(gpuwise, start, folder)
    try:
        check.cluster.apply(check.pods)
        for part in os.environ.get("GPUWISE_PARTS", "operator acts bad claims fragmented tiers inventory pools schemas keda ours external_metrics quota").split():
            began = time.monotonic()
            print(f"-- {part}", flush=True)
            getattr(check, part)()
            print(f"-- {part}: {time.monotonic() - began:.0f} s", flush=True)
    finally:
        check.stop()
    for log in sorted(folder.glob("decisions-*.jsonl")):
        print(f"{log.name}: {check.run('scale', 'serve', '--replay', str(log)).strip()}")


if __name__ == "__main__":
    given = [shutil.which(sys.argv[1]) or sys.argv[1], sys.argv[2]]
    with tempfile.TemporaryDirectory(prefix="gpuwise-kubernetes-") as made:
        main(*given, pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else made))
