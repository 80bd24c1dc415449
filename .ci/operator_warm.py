"""Warm pods: as many as the forecast wants, lent to whoever finds no room, replicas at once whoever scales."""

import http.server
import json
import subprocess
import threading
import time

from cluster import until
from operator_parts import pod

SPACE = "tiers"
L4 = "NVIDIA-L4"


def batch(name, gpus):
    """Somebody's work on L4."""
    return json.dumps(pod(name, gpus, SPACE, annotations={"gpuwise.dev/gpu": L4}))


class Engine(http.server.BaseHTTPRequestHandler):
    """An engine that can sleep, as vLLM's endpoints have it, at the address that pods are said to have."""

    AT, asked, asleep = "127.0.0.77", [], False

    def answer(self):
        Engine.asked.append(f"{self.command} {self.path}")
        if self.command == "POST":
            Engine.asleep = self.path.startswith("/sleep")
            time.sleep(0.2)
        text = json.dumps({"is_sleeping": Engine.asleep}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


class Warm:
    def __init__(self, tiers, workload):
        self.tiers, self.cluster, self.workload = tiers, tiers.cluster, workload
        self.scaler = self.engine = None

    def get(self, kind, name, path):
        return self.cluster.kubectl("get", kind, name, "-n", SPACE, "-o", "jsonpath={" + path + "}")

    def status(self, name):
        return self.tiers.status(name).get("warm", {})

    def said(self, name, kind):
        return next((one for one in self.tiers.status(name).get("conditions", []) if one["type"] == kind), {})

    def replicas(self, name):
        return int(self.get("deployment", name, ".spec.replicas") or 0)

    def ready(self, name):
        """Pods that a Service sends to, and those of them that were warm."""
        found = self.tiers.endpoints(name)
        return len(found), sum("-warm-" in one for one in found)

    def runs(self, name):
        return bool(self.get("pod", name, ".spec.nodeName")) or self.get("pod", name, ".status.conditions[0].message")

    def events(self, name, reason):
        listed = self.cluster.kubectl("get", "events", "-n", SPACE, "--field-selector", f"involvedObject.name={name},reason={reason}", "-o", "json")
        return [one["message"] for one in json.loads(listed)["items"]]

    def run(self):
        began = time.monotonic()
        self.forecast()
        self.lent()
        self.cluster.kubectl("delete", "gpuworkload", "spare", "-n", SPACE)
        self.others()
        print(f"warm pods: {time.monotonic() - began:.0f} s", flush=True)

    def forecast(self):
        """One at least; more where demand is seen to rise, and why."""
        self.tiers.telemetry.demand = 0.0
        scaling = {"maxReplicas": 6, "query": "demand", "idleSeconds": 3, "holdSeconds": 2, "warm": "auto", "minWarm": 1}
        traffic = {"rate": "1/s", "inputTokens": 500, "outputTokens": 100}
        self.cluster.apply(json.dumps(self.workload("spare", scaling=scaling, traffic=traffic, gpus=["L4"])))
        until("one pod is warm", 60, lambda: self.status("spare").get("ready") == 1 or self.tiers.status("spare"))
        until("nothing comes", 30, lambda: self.replicas("spare") == 0 or self.replicas("spare"))
        print(f"spare: {self.status('spare')}; {self.said('spare', 'Warm')['message']}", flush=True)
        self.each = float(self.tiers.status("spare")["decision"]["ratePerReplica"])
        self.tiers.telemetry.demand = 2.2 * self.each
        until("the warm pod serves, and others beside it", 60, lambda: self.ready("spare")[1] >= 1 and self.replicas("spare") >= 3 or (self.ready("spare"), self.replicas("spare")))
        self.tiers.telemetry.demand = 0.0
        until("nothing comes any more", 60, lambda: self.replicas("spare") == 0 or self.replicas("spare"))
        until("as many are kept warm as a start would be dearer", 30, lambda: self.status("spare")["wanted"] >= 3 and self.status("spare")["ready"] >= 3 or self.status("spare"))
        print(f"spare, after {2.2 * self.each:.2f} requests/s: {self.status('spare')}", flush=True)

    def lent(self):
        """Who finds no room has the GPU of a warm pod, though no policy evicts anybody; never that of a replica."""
        until("one is warm", 60, lambda: self.status("spare").get("ready", 0) >= 1 or self.status("spare"))
        for name in ("batch-0", "batch-1"):
            self.cluster.apply(batch(name, 8))
        for name in ("batch-0", "batch-1"):
            until(f"{name} runs", 30, lambda: self.runs(name))
        until("it is said that all are lent", 30, lambda: self.said("spare", "Warm").get("reason") == "Lent" and self.status("spare")["lent"] >= 1 or self.status("spare"))
        lent = self.tiers.operator.figures(self.tiers.process)['gpuwise_operator_acts_total{act="lend"}']
        print(f"lent to batch-0, batch-1: {lent:.0f} warm pods left; {self.said('spare', 'Warm')['message']}", flush=True)
        # A replica that is wanted now has no warm pod, and evicts nobody.
        self.tiers.telemetry.demand = 0.3 * self.each
        until("a replica is wanted", 60, lambda: self.replicas("spare") >= 1 or 0)
        cold = lambda: [one for one in self.events("spare", "Scaled") if "since warm pods are lent" in one]
        until("that it starts from nothing is said", 30, lambda: bool(cold()) or self.events("spare", "Scaled"))
        print(cold()[-1], flush=True)
        self.cluster.kubectl("delete", "pod", "batch-0", "-n", SPACE, "--wait=false")
        until("it serves where there is room again, and others are warm", 60, lambda: self.ready("spare")[0] >= 1 and self.status("spare")["ready"] >= 1 or (self.ready("spare"), self.status("spare")))
        replicas = set(self.tiers.endpoints("spare"))
        self.cluster.apply(batch("batch-2", 8))
        until("it waits, as a replica is there", 30, lambda: self.get("pod", "batch-2", ".status.conditions[?(@.type==\"gpuwise.dev/Placed\")].reason") == "TooFewGpus" or self.runs("batch-2"))
        if not replicas <= set(self.tiers.endpoints("spare")):
            raise SystemExit("a replica was evicted for somebody")
        figures = self.tiers.operator.figures(self.tiers.process)
        if figures['gpuwise_operator_acts_total{act="evict"}']:
            raise SystemExit("somebody else was evicted")
        for name in ("batch-1", "batch-2"):
            self.cluster.kubectl("delete", "pod", name, "-n", SPACE, "--wait=false")

    def others(self):
        """KEDA writes the replicas; warm pods become those all the same."""
        self.tiers.telemetry.demand = 0.0
        words = [self.tiers.check.gpuwise, "scale", "serve", "--listen", f"127.0.0.1:{self.tiers.scaler_port}", "--prometheus", self.tiers.prometheus.address, "--period", "1s"]
        self.scaler = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        self.scaler.stderr.readline()
        scaling = {"maxReplicas": 3, "query": "demand", "idleSeconds": 3, "holdSeconds": 2, "warm": 1, "by": "keda", "sleep": True}
        traffic = {"rate": "1/s", "inputTokens": 500, "outputTokens": 100}
        self.cluster.apply(json.dumps(self.workload("pushed", scaling=scaling, traffic=traffic, gpus=["L4"])))
        until("it is sized", 60, lambda: bool(self.tiers.status("pushed").get("decision")) or self.tiers.status("pushed"))
        # Nothing tells the scaler what is ready: what may have been started before has the time of a start.
        start = self.tiers.status("pushed")["decision"]["startSeconds"]
        until("KEDA has none of it run", 60 + start, lambda: "apps/pushed\n" in self.cluster.kubectl("get", "deployments", "-n", SPACE, "-o", "name") and self.replicas("pushed") == 0 or "some")
        until("one is warm", 30, lambda: self.status("pushed").get("ready") == 1 or self.tiers.status("pushed"))
        self.asleep()
        # Nothing else is free: it is not given away for its own replica either.
        for name, gpus in (("batch-3", 8), ("batch-4", 7)):
            self.cluster.apply(batch(name, gpus))
            until(f"{name} runs", 30, lambda: self.runs(name))
        began = time.monotonic()
        self.tiers.telemetry.demand = 0.5 * self.each
        # A Service sends to no address of a machine's own: by labels.
        mine = lambda: self.cluster.kubectl("get", "pods", "-n", SPACE, "-l", "app=pushed", "-o", "name").split()
        until("KEDA's replica was warm", 60, lambda: any("-warm-" in one for one in mine()) or mine())
        print(f"by KEDA: {self.replicas('pushed')} replicas, 1 of them warm before, after {time.monotonic() - began:.1f} s; {self.events('pushed', 'Adopted')}", flush=True)
        if Engine.asleep or not any(one.startswith("POST /wake_up") for one in Engine.asked):
            raise SystemExit(f"a replica sleeps: {Engine.asked}")
        figures = self.tiers.operator.figures(self.tiers.process)
        print(f"engine: {Engine.asked}; woken in {figures['gpuwise_operator_wake_seconds_sum']:.2f} s", flush=True)
        self.cluster.kubectl("delete", "gpuworkload/pushed", "pod/batch-3", "pod/batch-4", "-n", SPACE, "--wait=false")

    def asleep(self):
        """The engine of the warm pod is put to sleep; one that does not answer is said to be awake."""
        label = ["-n", SPACE, "-l", "gpuwise.dev/warm=pushed", "-o"]
        name = self.cluster.kubectl("get", "pods", *label, "jsonpath={.items[0].metadata.name}")
        note = lambda key: self.get("pod", name, f".metadata.annotations.gpuwise\\.dev/{key}")
        until("nobody answers at an address that KWOK made up", 20, lambda: note("sleep-state") == "sleepless" or note("sleep-state"))
        print(f"warm, awake: {note('sleep-reason')}", flush=True)
        self.engine = http.server.ThreadingHTTPServer((Engine.AT, int(note("sleeps-at"))), Engine)
        threading.Thread(target=self.engine.serve_forever, daemon=True).start()
        status = {"status": {"podIP": Engine.AT, "podIPs": [{"ip": Engine.AT}]}}
        self.cluster.kubectl("patch", "pod", name, "-n", SPACE, "--subresource", "status", "--type", "merge", "-p", json.dumps(status))
        self.cluster.kubectl("annotate", "pod", name, "-n", SPACE, "gpuwise.dev/sleep-state-")
        until("it sleeps", 20, lambda: self.status("pushed").get("asleep") == 1 or (note("sleep-state"), note("sleep-reason")))
        print(f"warm, {note('sleep-reason')}", flush=True)

    def stop(self):
        if self.engine:
            self.engine.shutdown()
        if self.scaler:
            self.scaler.kill()
            self.scaler.wait()
