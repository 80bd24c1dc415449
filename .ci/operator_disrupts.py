"""What the operator disrupts, one after the other and without chaos: evictions, moves, nodes cut anew, suspect nodes."""

import os
import time

from cluster import until
from operator_faults import SPACE
from operator_objects import MigManager, NODES, PLACED, PRODUCT, SETTLED, budget, condition, deployment, gated, is_ready
from operator_parts import create, node


class Disrupts:
    """Of `Acts`, which has the API and the operators."""

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
