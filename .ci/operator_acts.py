"""What the operator disrupts, on a real control plane: evictions, moves, nodes cut anew, suspect nodes; and chaos.

Every scenario of the chaos is drawn from a seed: what happens, before which write the operator is killed, which
requests are refused, lost or cut, whether a second operator stands by. What must hold is read from the API alone.
`GPUWISE_SCENARIOS=N` says how many there are.
"""

import http.client
import http.server
import json
import os
import random
import re
import signal
import ssl
import threading
import time
import urllib.parse

from cluster import free_port, until
from operator_chaos import SMALL, Workloads
from operator_parts import GATE, create, node
from operator_sets import Sets

SPACE = "acts"
PRODUCT = "NVIDIA-H100-80GB-HBM3"
NODES = [f"act-{i}" for i in range(4)]
LEAVING, PLACED = "gpuwise.dev/Leaving", "gpuwise.dev/Placed"
SETTLED = 60


class Api:
    """The API server, as an administrator asks it."""

    def __init__(self, config):
        text = config.read_text()
        self.server = urllib.parse.urlsplit(re.search(r"server: \"?(https://[^\s\",}]+)", text).group(1))
        self.token = re.search(r'token: "?([^"\s]+)', text).group(1)
        self.trust = ssl._create_unverified_context()

    def connect(self, seconds=30):
        return http.client.HTTPSConnection(self.server.hostname, self.server.port, timeout=seconds, context=self.trust)

    def ask(self, method, path, body=None, kind="application/json"):
        one = self.connect()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        one.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = one.getresponse()
        text = answer.read()
        one.close()
        return answer.status, json.loads(text) if text else {}

    def get(self, path):
        status, found = self.ask("GET", path)
        if status != 200:
            raise SystemExit(f"GET {path}: {found}")
        return found

    def merge(self, path, body):
        status, found = self.ask("PATCH", path, body, "application/merge-patch+json")
        if status >= 300:
            raise SystemExit(f"PATCH {path}: {found}")

    def pods(self):
        return self.get(f"/api/v1/namespaces/{SPACE}/pods")["items"]


class Proxy:
    """Stands before the API server: refuses, loses answers, cuts watches, and says when the operator is to die."""

    def __init__(self, api):
        self.api, self.random, self.faults = api, random.Random(0), 0.0
        self.writes, self.kill_at, self.killed, self.kill = 0, None, threading.Event(), None
        self.lock = threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                outer.handle(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def arm(self, seed, faults, kill_at, kill):
        with self.lock:
            self.random, self.faults = random.Random(seed), faults
            self.writes, self.kill_at, self.kill = 0, kill_at, kill
            self.killed.clear()

    def fate(self, asked, path):
        """What becomes of a request: `go`, `refuse`, `conflict`, `lose`, `die` or `die after`."""
        with self.lock:
            if asked == "GET" or "/leases" in path:
                return "go"
            self.writes += 1
            if self.kill_at is not None and self.writes == self.kill_at:
                return self.random.choice(["die", "die after"])
            if self.random.random() < self.faults:
                return self.random.choice(["refuse", "conflict", "lose"])
            return "go"

    def handle(self, one):
        size = int(one.headers.get("Content-Length") or 0)
        body = one.rfile.read(size) if size else None
        fate = self.fate(one.command, one.path)
        if fate == "die":
            self.die()
            return one.connection.close()
        if fate in ("refuse", "conflict"):
            code = 500 if fate == "refuse" else 409
            said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "by seed", "reason": "InternalError" if code == 500 else "Conflict", "code": code}
            return self.reply(one, code, [("Content-Type", "application/json")], json.dumps(said).encode())
        watch = "watch=true" in one.path or "watch=1" in one.path
        try:
            up = self.api.connect(600)
            headers = {key: value for key, value in one.headers.items() if key.lower() not in ("host", "connection", "accept-encoding")}
            up.request(one.command, one.path, body, headers)
            answer = up.getresponse()
            if watch:
                return self.stream(one, answer)
            text = answer.read()
            up.close()
        except (OSError, http.client.HTTPException):
            return one.connection.close()
        if fate == "die after":
            self.die()
        if fate in ("lose", "die after"):
            return one.connection.close()
        self.reply(one, answer.status, [("Content-Type", answer.headers.get("Content-Type", "application/json"))], text)

    def die(self):
        if self.kill:
            self.kill()
        self.killed.set()

    def reply(self, one, code, headers, text):
        try:
            one.send_response(code)
            for key, value in headers:
                one.send_header(key, value)
            one.send_header("Content-Length", str(len(text)))
            one.end_headers()
            one.wfile.write(text)
        except OSError:
            pass

    def stream(self, one, answer):
        ends = time.monotonic() + (self.random.uniform(0.5, 6) if self.faults else 300)
        try:
            one.send_response(answer.status)
            one.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
            one.end_headers()
            while time.monotonic() < ends:
                part = answer.read1(65536)
                if not part:
                    break
                one.wfile.write(part)
                one.wfile.flush()
        except (OSError, http.client.HTTPException):
            pass
        one.connection.close()


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


class Acts(Workloads, Sets):
    is_ready = staticmethod(is_ready)
    budget_of = staticmethod(budget)

    def __init__(self, check, operator):
        self.check, self.operator, self.cluster = check, operator, check.cluster
        self.api = Api(check.folder / "kube" / "kubeconfig")
        self.proxy = Proxy(self.api)
        self.started = 0

    # What there is.

    def prepare(self):
        self.cluster.kubectl("create", "namespace", SPACE)
        high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "acts-high"}, "value": 100}
        nodes = [node(name, acts="yes", **{"nvidia.com/gpu.product": PRODUCT}) for name in NODES]
        create(self.cluster, [high, *nodes])
        self.cluster.kubectl("wait", "--for=condition=Ready", *[f"node/{name}" for name in NODES], "--timeout=60s")

    def policy(self, **spec):
        made = {"apiVersion": "gpuwise.dev/v1alpha1", "kind": "GpuPolicy", "metadata": {"name": "default"}, "spec": spec}
        self.cluster.kubectl("delete", "gpupolicy", "default", "--ignore-not-found")
        create(self.cluster, [made])

    def clear(self):
        for path in ("/apis/apps/v1/namespaces/{}/deployments", "/apis/apps/v1/namespaces/{}/statefulsets", "/apis/apps/v1/namespaces/{}/replicasets", "/apis/policy/v1/namespaces/{}/poddisruptionbudgets", "/api/v1/namespaces/{}/pods"):
            self.api.ask("DELETE", path.format(SPACE) + "?gracePeriodSeconds=0&propagationPolicy=Background")

        def gone():
            left = self.api.pods()
            for one in left:
                self.api.ask("DELETE", f"/api/v1/namespaces/{SPACE}/pods/{one['metadata']['name']}?gracePeriodSeconds=0")
            return not left or f"{len(left)} pods"

        until("pods are gone", 60, gone)

    def start(self, name, kind="", proxied=True):
        words = self.prometheus.words() if kind == "scale" else []
        if proxied:
            text = self.operator.config.read_text()
            config = self.check.folder / "operator-chaos.kubeconfig"
            config.write_text(re.sub(r"https://[^\s\",}]+", f"http://127.0.0.1:{self.proxy.port}", text))
            plain, self.operator.config = self.operator.config, config
            try:
                return self.operator.start(*words, name=name, webhook=False)
            finally:
                self.operator.config = plain
        return self.operator.start(*words, name=name, webhook=False)

    def make(self, *objects):
        create(self.cluster, list(objects))

    def filler(self, i, gpus=4, name=None, anywhere=False):
        """A pod that takes half of a node, or so."""
        where = {} if anywhere else {"nodeSelector": {"kubernetes.io/hostname": NODES[i]}}
        return gated(name or f"fill-{i}", gpus, **where)

    def ready(self, app, wanted):
        """Whether so many pods are ready, of an app or of all."""
        mine = [one for one in self.api.pods() if not app or one["metadata"].get("labels", {}).get("app") == app]
        count = sum(map(is_ready, mine))
        return count == wanted or count

    def full(self, spec):
        """A Deployment's pods run everywhere."""
        self.make(spec)
        wanted = spec["spec"]["replicas"]
        until(f"{wanted} pods run", SETTLED, lambda: sum(map(is_ready, self.api.pods())) == wanted or sum(map(is_ready, self.api.pods())))

    # One after the other, without chaos.

    def preempts(self):
        """A pod of higher priority gets the room of two; a budget is waited for, and said; nobody is evicted for more."""
        self.policy(preemption="annotated")
        low = deployment("low", 8, 4, {"gpuwise.dev/preemptible": "true"})
        self.full(low)
        before = {one["metadata"]["uid"]: one for one in self.api.pods()}
        figures = lambda: self.operator.figures(self.process)
        count = lambda now: sum(value for name, value in now.items() if name.startswith("rest_client_requests_total"))
        written = count(figures())
        # One may be gone at a time, and two must be.
        self.make(budget("low", 7))
        until("the budget counts", 30, lambda: self.api.get(f"/apis/policy/v1/namespaces/{SPACE}/poddisruptionbudgets/low").get("status", {}).get("disruptionsAllowed") == 1 or "no")
        self.make(gated("big", 8, priorityClassName="acts-high"))
        pods = lambda: {one["metadata"]["name"]: one for one in self.api.pods()}
        big = lambda: pods()["big"]
        until("a place is kept for the pod", 30, lambda: bool(big()["status"].get("nominatedNodeName")) or condition(big(), PLACED))
        until("the budget is said", 30, lambda: condition(big(), PLACED).get("reason") == "EvictionRefused" or condition(big(), PLACED))
        print(f"preempt: {condition(big(), PLACED)['reason']}: {condition(big(), PLACED)['message']}", flush=True)
        self.api.merge(f"/apis/policy/v1/namespaces/{SPACE}/poddisruptionbudgets/low", {"spec": {"minAvailable": 6}})
        began = time.monotonic()
        until("the pod runs where room was kept", 90, lambda: is_ready(big()) or condition(big(), PLACED))
        if big()["spec"]["nodeName"] != big()["metadata"]["annotations"]["gpuwise.dev/node"]:
            raise SystemExit("it runs elsewhere")
        gone = [one for uid, one in before.items() if uid not in {one["metadata"]["uid"] for one in self.api.pods()}]
        until("those who left are made again, and wait", 30, lambda: len(self.api.pods()) == 9 or len(self.api.pods()))
        events = [e for e in self.api.get(f"/api/v1/namespaces/{SPACE}/events")["items"] if e["reason"] == "Preempted"]
        print(f"preempt: {len(gone)} evicted, {time.monotonic() - began:.1f} s after the budget allowed it; {events[0]['message'] if events else 'no event'}", flush=True)
        if len(gone) != 2 or not events:
            raise SystemExit("two were to be evicted, each with an event")
        # Three pods were decided of, and the two that were made again wait with a condition each.
        print(f"preempt: {count(figures()) - written:.0f} writes for 3 pods decided of and 2 that wait anew, refusals among them", flush=True)
        self.clear()

    def moves(self):
        """A pod of 8 GPUs finds room as one of four moves: one more first, and never fewer than four ready."""
        self.policy(moves={"perHour": 100})
        fillers = [gated(f"fill-{i}", 4, nodeSelector={"kubernetes.io/hostname": name}) for i, name in enumerate(NODES)]
        self.make(*fillers)
        until("fillers run", SETTLED, lambda: sum(map(is_ready, self.api.pods())) == 4 or sum(map(is_ready, self.api.pods())))
        self.make(deployment("web", 4, 4), budget("web", 4))
        until("all run", SETTLED, lambda: sum(map(is_ready, self.api.pods())) == 8 or sum(map(is_ready, self.api.pods())))
        self.cluster.kubectl("delete", "pod", "-n", SPACE, "fill-0", "fill-1", "--grace-period=0", "--force")
        self.make(gated("large", 8))
        least, began = self.watched("web", lambda pods: is_ready(pods["large"]), 90)
        replicas = self.api.get(f"/apis/apps/v1/namespaces/{SPACE}/deployments/web")
        until("four are left", 30, lambda: len(self.api.pods()) == 7 or len(self.api.pods()))
        print(f"move: a pod of 8 GPUs runs after {began:.1f} s, as one of four pods moved; never fewer than {least} of 4 ready; {replicas['spec']['replicas']} replicas", flush=True)
        if least < 4 or replicas["spec"]["replicas"] != 4 or "gpuwise.dev/surge" in replicas["metadata"].get("labels", {}):
            raise SystemExit("the Deployment lost a pod, or kept one more")
        self.clear()

    def watched(self, app, done, seconds):
        """The fewest ready pods of an app until something is so, and the time."""
        began, least = time.monotonic(), 10**6
        while True:
            pods = self.api.pods()
            ready = sum(is_ready(one) for one in pods if one["metadata"].get("labels", {}).get("app") == app)
            least = min(least, ready)
            if done({one["metadata"]["name"]: one for one in pods}):
                return least, time.monotonic() - began
            if time.monotonic() - began > seconds:
                raise SystemExit(f"not within {seconds} s: {[(one['metadata']['name'], condition(one, PLACED).get('message')) for one in pods]}")
            time.sleep(0.2)

    def cuts(self):
        """A node is cut into MIG instances for pods that ask for them, and joined again for one that asks for GPUs."""
        self.policy(repartition=True)
        name = "act-mig"
        labels = {"nvidia.com/gpu.product": PRODUCT, "nvidia.com/gpu.count": "8", "nvidia.com/mig.strategy": "mixed"}
        labels |= {"nvidia.com/mig.config": "all-disabled", "nvidia.com/mig.config.state": "success"}
        create(self.cluster, [node(name, acts="mig", **labels)])
        self.cluster.kubectl("wait", "--for=condition=Ready", f"node/{name}", "--timeout=60s")
        manager = MigManager(self.api, name)
        slices = [gated(f"slice-{i}", 1, "nvidia.com/mig-1g.10gb", nodeSelector={"acts": "mig"}) for i in range(9)]
        began = time.monotonic()
        self.make(*slices)
        until("slices run", SETTLED, lambda: sum(map(is_ready, self.api.pods())) == 9 or [condition(one, PLACED).get("message") for one in self.api.pods()][:2])
        print(f"repartition: 9 pods that ask for nvidia.com/mig-1g.10gb run after {time.monotonic() - began:.1f} s; the node was cut {manager.cuts} time", flush=True)
        taints = lambda: [t["key"] for t in self.api.get(f"/api/v1/nodes/{name}")["spec"].get("taints", [])]
        until("the node is open again", 30, lambda: not taints() or taints())
        self.clear()
        manager.ends.set()
        self.cluster.kubectl("delete", "node", name)

    def suspects(self):
        """A node whose GPUs are fewer takes no more pods, a second stays open, and the first is open again when well."""
        self.policy(cordon={"afterSeconds": 1, "wellSeconds": 2, "mostPercent": 20})
        count = len(self.api.get("/api/v1/nodes")["items"])
        allowed = count * 20 // 100
        sick = NODES[: allowed + 1] if allowed < 4 else NODES[:1]
        for name in sick:
            self.api.merge(f"/api/v1/nodes/{name}/status", {"status": {"allocatable": {"nvidia.com/gpu": "7"}}})
        tainted = lambda: sorted(n["metadata"]["name"] for n in self.api.get("/api/v1/nodes")["items"] if any(t["key"] == "gpuwise.dev/suspect" for t in n["spec"].get("taints", [])))
        wanted = min(allowed, len(sick))
        until("suspect nodes are closed", 30, lambda: len(tainted()) == wanted or tainted())
        time.sleep(2)
        closed = tainted()
        why = self.api.get(f"/api/v1/nodes/{closed[0]}")["metadata"]["annotations"]["gpuwise.dev/reason"]
        for name in sick:
            self.api.merge(f"/api/v1/nodes/{name}/status", {"status": {"allocatable": {"nvidia.com/gpu": "8"}}})
        until("nodes that are well are open", 30, lambda: not tainted() or tainted())
        print(f"cordon: of {len(sick)} suspect nodes of {count} {len(closed)} closed ({why}), open again when well", flush=True)
        if len(closed) != wanted:
            raise SystemExit("more nodes were closed than may be")

    def starves(self):
        """Who has waited for long enough goes first, though nothing changes: the moment itself is looked at."""
        self.policy(starvationSeconds=4)
        self.make(gated("wide", 9))
        looks = lambda: self.operator.figures(self.process)["controller_runtime_reconcile_time_seconds_count"]
        time.sleep(1.5)
        before, began = looks(), time.monotonic()
        until("a look at the moment", 8, lambda: looks() > before or looks())
        took = time.monotonic() - began
        time.sleep(4)
        print(f"starvation of 4 s: looked at {took:.1f} s after nothing changed any more, {looks() - before:.0f} looks in {time.monotonic() - began:.0f} s", flush=True)
        if looks() - before > 6:
            raise SystemExit("the operator polls")
        self.clear()

    def idles(self, seconds):
        """Nothing changes: what the operator takes of a core."""
        def ticks():
            fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
            return int(fields[11]) + int(fields[12])
        time.sleep(2)
        before, began = ticks(), time.monotonic()
        time.sleep(seconds)
        cores = (ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - began)
        print(f"idle: {cores:.4f} of a core over {seconds} s", flush=True)
        if cores > 0.02:
            raise SystemExit("an idle operator takes more than 0.02 of a core")

    # Chaos.

    def place(self, rng):
        self.make(*[gated(f"p-{i}", 4) for i in range(8)])
        return lambda pods: sum(map(is_ready, pods)) == 8

    def gang(self, rng):
        note = lambda g: {"gpuwise.dev/gang": f"g{g}", "gpuwise.dev/gang-size": "2"}
        self.make(*[gated(f"g{g}-{i}", 8, annotations=note(g)) for g in range(3) for i in range(2)])

        def done(pods):
            held = {}
            for one in pods:
                if one["spec"].get("nodeName"):
                    gang = one["metadata"]["annotations"]["gpuwise.dev/gang"]
                    held[gang] = held.get(gang, 0) + 1
            return sorted(held.values()) == [2, 2] and sum(not one["spec"].get("schedulingGates") for one in pods) == 4

        return done

    def move(self, rng):
        self.make(*[self.filler(i) for i in range(4)])
        until("fillers run", SETTLED, lambda: self.ready("", 4))
        kind = rng.choice(["deployments", "statefulsets"])
        if kind == "deployments":
            app, mark = "web", "gpuwise.dev/surge"
            self.make(deployment(app, 4, 4), budget(app, 4))
            self.least = (app, 4)
        else:
            app, mark = "db", "gpuwise.dev/turn"
            self.statefulset(self.filler(0, anywhere=True)["spec"], 4)
            self.make(budget(app, 3))
            self.least = (app, 3)
        until("all run", SETTLED, lambda: self.ready("", 8))
        path = f"/apis/policy/v1/namespaces/{SPACE}/poddisruptionbudgets/{app}"
        until("the budget counts", 30, lambda: self.api.get(path).get("status", {}).get("disruptionsAllowed") == 4 - self.least[1] or "no")
        gone = rng.sample(range(4), 2)
        self.cluster.kubectl("delete", "pod", "-n", SPACE, *[f"fill-{i}" for i in gone], "--grace-period=0", "--force")
        self.how = f"of {kind}"
        self.arm()
        self.make(gated("large", 8))

        def done(pods):
            spec = self.api.get(f"/apis/apps/v1/namespaces/{SPACE}/{kind}/{app}")
            calm = mark not in spec["metadata"].get("labels", {}) and spec["spec"]["replicas"] == 4
            return calm and len(pods) == 7 and sum(map(is_ready, pods)) == 7

        return done

    def preempt(self, rng):
        self.full(deployment("low", 8, 4, {"gpuwise.dev/preemptible": "true"}))
        self.make(budget("low", 6))
        path = f"/apis/policy/v1/namespaces/{SPACE}/poddisruptionbudgets/low"
        until("the budget counts", 30, lambda: self.api.get(path).get("status", {}).get("disruptionsAllowed") == 2 or "no")
        before = {one["metadata"]["uid"] for one in self.api.pods()}
        self.least = ("low", 6)
        self.arm()
        self.make(gated("big", 8, priorityClassName="acts-high"))

        def done(pods):
            left = len(before & {one["metadata"]["uid"] for one in pods})
            if left < 6:
                raise SystemExit(f"{8 - left} were evicted where two make room")
            return len(pods) == 9 and sum(map(is_ready, pods)) == 7 and left == 6

        return done

    def repartition(self, rng):
        name, config = "act-mig", rng.choice(["1g.10gb", "2g.20gb", "3g.40gb"])
        labels = {"nvidia.com/gpu.product": PRODUCT, "nvidia.com/gpu.count": "8", "nvidia.com/mig.strategy": "mixed"}
        labels |= {"nvidia.com/mig.config": "all-disabled", "nvidia.com/mig.config.state": "success"}
        create(self.cluster, [node(name, acts="mig", **labels)])
        self.cluster.kubectl("wait", "--for=condition=Ready", f"node/{name}", "--timeout=60s")
        self.manager = MigManager(self.api, name)
        self.arm()
        self.make(*[gated(f"s-{i}", 1, f"nvidia.com/mig-{config}", nodeSelector={"acts": "mig"}) for i in range(8)])

        def done(pods):
            found = self.api.get(f"/api/v1/nodes/{name}")
            if self.manager.cuts > 1:
                raise SystemExit("the node was cut twice")
            return sum(map(is_ready, pods)) == 8 and not found["spec"].get("taints")

        return done

    def arm(self):
        self.proxy.arm(self.seed, self.rate, self.kill_at, lambda: self.process.kill())

    def scenario(self, kind, seed):
        """One scenario; seconds until all was as it must be, counted from the operator's death where it died."""
        rng = random.Random(seed)
        self.seed, self.rate = seed, rng.choice([0.0, 0.1, 0.25])
        self.kill_at = rng.randint(1, 12) if rng.random() < 0.8 else None
        second = rng.random() < 0.3
        self.least, self.manager, self.looks, self.fence, self.how, died = None, None, None, None, "", None
        self.proxy.arm(seed, 0.0, None, None)
        # Who measures looks again and again: whether it looks where nothing tells it to is tried without.
        measures = kind == "scale"
        if measures != self.measures:
            for one in (self.process, self.other):
                if one and one.poll() is None:
                    self.operator.kill(one, signal.SIGTERM)
            self.measures = measures
        if self.process.poll() is not None:
            self.process = self.start("chaos", kind)
        if second and (self.other is None or self.other.poll() is not None):
            self.other = self.start("other", kind)
        if kind in ("place", "gang"):
            self.arm()
        began = time.monotonic()
        done = getattr(self, kind)(rng)
        began = time.monotonic()
        fewest = None
        while True:
            if self.process.poll() is not None:
                died = died or time.monotonic()
                # Whoever stands by leads when the lease is over; else the same comes back.
                if not second or (self.other and self.other.poll() is not None):
                    self.process.wait()
                    self.process = self.start("chaos", kind)
                elif self.other:
                    self.process, self.other = self.other, None
            pods = self.api.pods()
            self.holds(kind, seed, pods)
            if self.least:
                app, least = self.least
                ready = sum(is_ready(one) for one in pods if one["metadata"].get("labels", {}).get("app") == app)
                fewest = ready if fewest is None else min(fewest, ready)
                if ready < least:
                    raise SystemExit(f"{kind} {seed}: {ready} of {app} are ready, of {least} at least")
            wrong = self.looks(pods) if self.looks else ""
            if wrong:
                raise SystemExit(f"{kind} {seed} ({self.how}): {wrong}")
            if done(pods):
                break
            if time.monotonic() - (died or began) > SETTLED:
                waits = [(one["metadata"]["name"], one["spec"].get("nodeName"), one["status"].get("nominatedNodeName"), condition(one, PLACED).get("message"), condition(one, LEAVING).get("status"), bool(one["spec"].get("schedulingGates")), one["metadata"].get("annotations", {}).get("gpuwise.dev/node"), condition(one, "PodScheduled").get("message")) for one in pods]
                node = self.api.get("/api/v1/nodes/act-mig") if self.manager else {}
                found = {part: node.get(part) for part in ("metadata", "spec", "status")} if node else ""
                raise SystemExit(f"{kind} {seed}: not settled after {SETTLED} s ({self.how}; faults {self.rate}, killed before write {self.kill_at}, second {second}): {self.lacks if self.looks else waits} {found}")
            time.sleep(0.15)
        took = time.monotonic() - (died or began)
        self.proxy.arm(seed, 0.0, None, None)
        if self.looks:
            self.unmake()
        self.clear()
        if self.manager:
            self.manager.ends.set()
            self.cluster.kubectl("delete", "node", "act-mig")
        return took, died is not None

    def holds(self, kind, seed, pods):
        """No node holds more than it has; each pod is where it was sent."""
        held = {}
        for one in pods:
            where = one["spec"].get("nodeName")
            said = one["metadata"].get("annotations", {}).get("gpuwise.dev/node")
            # Pods of workloads have no gate where there is no webhook: kube-scheduler has them.
            if where and said != where and not self.looks:
                raise SystemExit(f"{kind} {seed}: {one['metadata']['name']} was sent to {said} and is on {where}")
            if where and "deletionTimestamp" not in one["metadata"]:
                limits = one["spec"]["containers"][0]["resources"]["limits"]
                held[where] = held.get(where, 0) + int(limits.get("nvidia.com/gpu", 0))
        over = {name: gpus for name, gpus in held.items() if gpus > 8}
        if over:
            raise SystemExit(f"{kind} {seed}: more GPUs are held than there are: {over}")

    def chaos(self, count):
        self.policy(preemption="annotated", moves={"perHour": 100000}, repartition=True)
        kinds, took, killed = ["place", "preempt", "gang", "move", "repartition", "resize", "scale"], {}, 0
        kinds = os.environ.get("GPUWISE_KINDS", " ".join(kinds)).split()
        self.pools()
        self.process, self.other, self.measures = self.start("chaos"), None, False
        until("it leads", 30, lambda: self.operator.leads(self.process))
        first = int(os.environ.get("GPUWISE_SEED", "1"))
        began = time.monotonic()
        for seed in range(first, first + count):
            kind = kinds[seed % len(kinds)]
            seconds, died = self.scenario(kind, seed)
            killed += died
            took.setdefault(kind, []).append(seconds)
            print(f"scenario {seed}: {kind}{f' ({self.how})' if self.how else ''}, settled in {seconds:.1f} s{', killed' if died else ''}", flush=True)
        for kind, all in took.items():
            print(f"chaos: {kind}: {len(all)} scenarios, settled within {max(all):.1f} s, {sum(all) / len(all):.1f} s on average", flush=True)
        print(f"chaos: {count} scenarios in {time.monotonic() - began:.0f} s, the operator killed in {killed}; no pod lost or doubled, no fewer ready than budgets want, gangs whole", flush=True)

    def finish(self):
        self.operator.stop()
        self.cluster.kubectl("delete", "gpupolicy", "default", "--ignore-not-found")
        self.cluster.kubectl("delete", "namespace", SPACE, "--wait=false")
        self.cluster.kubectl("delete", "node", "--ignore-not-found", *NODES, *SMALL)


def part(check, operator):
    """All of it, on nodes of its own."""
    if operator.mode != "act":
        operator.install("act")
    acts = Acts(check, operator)
    acts.prepare()
    only = os.environ.get("GPUWISE_ACTS", "preempts moves sets cuts suspects starves idles chaos").split()
    acts.process = operator.start(name="acts", webhook=False)
    until("it leads", 30, lambda: operator.leads(acts.process))
    for one in only:
        if one == "chaos":
            operator.kill(acts.process, signal.SIGTERM)
            acts.chaos(int(os.environ.get("GPUWISE_SCENARIOS", "15")))
        elif one == "idles":
            acts.idles(int(os.environ.get("GPUWISE_IDLE", "10")))
        else:
            getattr(acts, one)()
    acts.finish()
