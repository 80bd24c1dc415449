"""Chaos: what happens in a scenario, by its seed, and what must hold of it.

Every scenario is drawn from a seed: what happens, before which write the operator is killed, which requests are
refused, lost or cut, whether a second operator stands by. What must hold is read from the API alone.
"""

import os
import random
import signal
import time

from cluster import until
from operator_faults import SPACE
from operator_objects import LEAVING, MigManager, PLACED, PRODUCT, SETTLED, budget, condition, deployment, gated, is_ready
from operator_parts import create, node


class Scenarios:
    """Of `Acts`, which has the API, the proxy and the operators."""

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
        until("no claim is kept for who is gone", 30, lambda: not self.claims_left([]) or self.claims_left([]))
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
                limits = one["spec"]["containers"][0]["resources"].get("limits", {})
                held[where] = held.get(where, 0) + int(limits.get("nvidia.com/gpu", 0))
        over = {name: gpus for name, gpus in held.items() if gpus > 8}
        if over:
            raise SystemExit(f"{kind} {seed}: more GPUs are held than there are: {over}")

    def chaos(self, count):
        self.policy(preemption="annotated", moves={"perHour": 100000}, repartition=True)
        kinds, took, killed = ["place", "preempt", "gang", "move", "repartition", "resize", "scale", "claims"], {}, 0
        kinds = os.environ.get("GPUWISE_KINDS", " ".join(kinds)).split()
        self.pools()
        if "claims" in kinds:
            self.claim_nodes()
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
