"""Chaos of GpuWorkloads: their pods become others, and their replicas follow what comes, while operators die.

What must hold at every look is read from pods, Deployments and GpuWorkloads of the API; nothing of it is asked of
the operator.
"""

import http.server
import json
import random
import threading
import time
import urllib.parse

from cluster import until
from operator_parts import create, node

SPACE = "acts"
H100, L4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4"
SMALL = ["act-l4-0", "act-l4-1"]
NAME = "chat"
# Looks in a row in which there may be more pods than a Deployment's surge allows: its own controller lags a little.
LAG = 8


class Prometheus:
    """Answers the query API: one series, `demand`; now and then it fails, as often as is said."""

    def __init__(self):
        self.demand, self.faults, self.random = 0.0, 0.0, random.Random(0)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                size = int(self.headers.get("Content-Length") or 0)
                given = self.rfile.read(size).decode() if size else ""
                query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query + "&" + given).get("query", [""])[0]
                if outer.random.random() < outer.faults:
                    return self.reply(503, {"status": "error", "errorType": "unavailable", "error": "by seed"})
                found = [{"metric": {}, "value": [time.time(), str(outer.demand)]}] if query == "demand" else []
                self.reply(200, {"status": "success", "data": {"resultType": "vector", "result": found}})

            do_GET = do_POST = answer

            def reply(self, code, body):
                text = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def words(self):
        address = f"http://127.0.0.1:{self.server.server_address[1]}"
        return ["--prometheus", address, "--measure-every", "1s", "--audit-every", "1h", "--slo-window", "10s"]


def is_ready(one):
    conditions = one["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions) and "deletionTimestamp" not in one["metadata"]


def gpu_of(one):
    """Products that will do for a pod."""
    return one["metadata"].get("annotations", {}).get("gpuwise.dev/gpu")


class Workloads:
    """Scenarios of GpuWorkloads; of `Acts`, which has the API, the proxy and the operators."""

    def pools(self):
        """Nodes with small GPUs beside the large ones, and a Prometheus."""
        self.prometheus = Prometheus()
        create(self.cluster, [node(name, acts="small", **{"nvidia.com/gpu.product": L4}) for name in SMALL])
        self.cluster.kubectl("wait", "--for=condition=Ready", *[f"node/{name}" for name in SMALL], "--timeout=60s")

    def workload(self, gpu, **more):
        spec = {"model": "meta-llama/Llama-3.1-8B", "gpus": [gpu], "engine": "vllm", **more}
        spec["traffic"] = {"rate": "1/s", "inputTokens": 500, "outputTokens": 100}
        spec["slo"] = {"ttft": "p95:2s", "tpot": "p95:70ms"}
        self.make({"apiVersion": "gpuwise.dev/v1alpha1", "kind": "GpuWorkload", "metadata": {"name": NAME, "namespace": SPACE}, "spec": spec})

    def patch(self, **spec):
        self.api.merge(f"/apis/gpuwise.dev/v1alpha1/namespaces/{SPACE}/gpuworkloads/{NAME}", {"spec": spec})

    def status(self):
        """The workload's status; empty where it is not that of its spec."""
        one = self.api.get(f"/apis/gpuwise.dev/v1alpha1/namespaces/{SPACE}/gpuworkloads/{NAME}")
        status = one.get("status", {})
        return status if status.get("observedGeneration") == one["metadata"]["generation"] else {}

    def deployment(self, name=NAME):
        status, found = self.api.ask("GET", f"/apis/apps/v1/namespaces/{SPACE}/deployments/{name}")
        return found if status == 200 else None

    def of(self, pods, app=NAME):
        mine = [one for one in pods if one["metadata"].get("labels", {}).get("app") == app]
        return [one for one in mine if "deletionTimestamp" not in one["metadata"]]

    def settled(self, pods, product, replicas):
        """Whether the workload is as a whole on GPUs of a product, with so many replicas, and says so."""
        status, one, mine = self.status(), self.deployment(), self.of(pods)
        decided = status.get("decision") or {}
        says = {c["type"]: c["status"] for c in status.get("conditions", [])}
        self.lacks = (decided.get("product"), decided.get("replicas"), status.get("change"), says, one and one["spec"]["replicas"], [(p["metadata"]["name"], gpu_of(p), is_ready(p)) for p in mine])
        if not one or status.get("change") or decided.get("product") != product or says.get("Applied") != "True":
            return False
        there = len(mine) == replicas == one["spec"]["replicas"]
        return there and all(is_ready(p) and gpu_of(p) == product for p in mine)

    def bounds(self, least, most):
        """Never fewer ready pods of the workload, nor more pods for longer than its Deployment's controller lags."""
        self.over = 0

        def look(pods):
            mine = self.of(pods)
            ready = sum(map(is_ready, mine))
            if ready < least():
                return f"{ready} pods of {NAME} are ready, of {least()} at least: {self.lacks}"
            self.over = self.over + 1 if len(mine) > most() else 0
            return f"{len(mine)} pods of {NAME} are there, of {most()} at most: {self.lacks}" if self.over > LAG else ""

        self.looks, self.lacks = look, None

    def resize(self, rng):
        """Its pods become others: surge, verify, roll back."""
        self.fence = [f"/api/v1/nodes/{name}" for name in SMALL]
        before, after = rng.randint(1, 3), rng.randint(1, 3)
        how = rng.choice(["gpu", "both", "count", "returns", "fails"])
        limit = 3 if how == "fails" else 60
        self.workload("H100", replicas=before, tiering={"mode": "off", "verifySeconds": 1, "rolloutSeconds": limit})
        until("it runs", 60, lambda: self.settled(self.api.pods(), H100, before) or self.lacks)
        other = rng.choice([one for one in (1, 2, 3) if one != before])
        after = {"both": after, "count": other}.get(how, before)
        self.bounds(lambda: min(before, after), lambda: max(before, after) + 1)
        if how == "fails":
            for path in self.fence:
                self.api.merge(path, {"spec": {"unschedulable": True}})
        self.arm()
        product = H100 if how in ("count", "returns", "fails") else L4
        self.patch(**({} if how == "count" else {"gpus": ["L4"]}), replicas=after)
        if how == "returns":
            time.sleep(rng.uniform(0, 2))
            self.patch(gpus=["H100"])
        self.how = f"{how}, {before} to {after}"

        def done(pods):
            if not self.settled(pods, product, after):
                return False
            # What could not be rolled out is not tried again for a while, and that is said.
            return how != "fails" or [one["gpu"] for one in self.status().get("avoided", [])] == ["L4"]

        return done

    def scale(self, rng):
        """Its replicas follow what comes: up, down, to none and back. Under so many requests it has as many as it may."""
        warm, how = rng.randint(0, 2), rng.choice(["follows", "follows", "begins", "ends", "becomes"])
        some = lambda: rng.randint(2, 5)
        stages = {"follows": [some(), some(), 0, some()], "begins": [3, some()], "becomes": [3], "ends": [2]}[how]
        first, product = 0 if how == "follows" else 3, H100 if how == "becomes" else L4
        self.prometheus.demand, self.prometheus.faults = 0.0, 0.0
        scaling = {"maxReplicas": 3, "query": "demand", "idleSeconds": 1, "holdSeconds": 1, "warm": warm}
        tiering = {"mode": "off", "verifySeconds": 1, "rolloutSeconds": 60}
        self.workload("L4", tiering=tiering, **({"replicas": 3} if how == "begins" else {"scaling": scaling}))
        until("it is sized", 30, lambda: bool(self.status().get("decision")) or "no decision")
        # Of a larger GPU, too.
        busy = 2000 * float(self.status()["decision"]["ratePerReplica"])
        self.prometheus.demand = busy if first else 0.0
        until("its pods are there", 60, lambda: self.follows(self.api.pods(), first, 0 if how == "begins" else warm) or self.lacks)
        # Ready pods may be as few as there were, or are to be, and no fewer; with warm ones beside those that its
        # Deployment makes there are more for a moment.
        stage, now, calm = iter(stages), [first, next(iter(stages))], [0]
        self.bounds(lambda: min(now), lambda: max(now) + max(warm, 1))
        next(stage)
        self.arm()
        self.prometheus.faults, self.prometheus.random = self.rate, random.Random(self.seed)
        left, self.how = 0 if how == "ends" else warm, f"{how}, {warm} warm, {first} to {stages}"

        def ask(wanted):
            self.prometheus.demand = busy if wanted else 0.0
            if wanted and how != "ends":
                self.patch(scaling={**scaling, "maxReplicas": wanted})

        if how == "begins":
            self.patch(replicas=None, scaling=scaling)
        elif how == "becomes":
            self.patch(gpus=["H100"])
        elif how == "ends":
            self.patch(replicas=2, scaling=None)
        else:
            ask(now[1])

        def done(pods):
            whole = self.settled(pods, product, 2) if how == "ends" else not self.status().get("change")
            reached = self.follows(pods, now[1], left, product) and whole
            calm[0] = calm[0] + 1 if reached else 0
            if calm[0] < 4:
                return False
            wanted = next(stage, None)
            if wanted is None:
                return True
            now[:], calm[0] = [now[1], wanted], 0
            ask(wanted)
            return False

        return done

    def follows(self, pods, wanted, warm, product=L4):
        """Whether as many replicas as are wanted are ready, and so many pods are warm, all on GPUs of a product."""
        one, mine, kept = self.deployment(), self.of(pods), self.of(pods, f"{NAME}-warm")
        there = one["spec"]["replicas"] if one else None
        self.lacks = (there, len(mine), len(kept), wanted, warm, [(p["metadata"]["name"], gpu_of(p), is_ready(p)) for p in mine + kept])
        whole = all(is_ready(p) and gpu_of(p) == product for p in mine + kept)
        return there == wanted == len(mine) and whole and len(kept) == warm

    def unmake(self):
        """The workload goes, and all that it was served by; nothing holds a GPU for it."""
        for path in self.fence or []:
            self.api.merge(path, {"spec": {"unschedulable": None}})
        self.api.ask("DELETE", f"/apis/gpuwise.dev/v1alpha1/namespaces/{SPACE}/gpuworkloads/{NAME}")
        paths = [f"/apis/apps/v1/namespaces/{SPACE}/deployments", f"/api/v1/namespaces/{SPACE}/services"]

        def gone():
            left = [one["metadata"]["name"] for path in paths for one in self.api.get(path)["items"]]
            return not left or left

        until("what it was served by goes with it", 30, gone)
