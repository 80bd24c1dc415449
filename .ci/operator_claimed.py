"""Pods that ask by claims evict others, are evicted, move and start with others: one after the other, and by chaos."""

import json
import time

from cluster import until
from operator_claims import CLASS, NODES, allocated, claims, condition, offered, template
from operator_faults import SPACE
from operator_objects import LEAVING, budget, gated, is_ready
from operator_objects import condition as of
from operator_parts import GATE, bound, clear, create, listed, node


def released(listed_claims, pods):
    """Claims that are reserved for pods that are not there."""
    there = {one["metadata"]["uid"] for one in pods}
    reserved = [(one["metadata"]["name"], user["uid"]) for one in listed_claims for user in one.get("status", {}).get("reservedFor", [])]
    return [name for name, uid in reserved if uid not in there]


def wait_released(cluster):
    all = lambda: json.loads(cluster.kubectl("get", "resourceclaims", "-n", "team", "-o", "json"))["items"]
    until("claims of who is gone are released", 60, lambda: not (left := released(all(), listed(cluster).values())) or left)


def deployment(name, replicas, asks, namespace="team", gate=False, **annotations):
    one = claims(name, asks, **annotations)
    labels = {"app": name}
    if gate:
        one["spec"] |= {"schedulingGates": [{"name": GATE}], "terminationGracePeriodSeconds": 1}
    pods = {"metadata": {"labels": labels, "annotations": one["metadata"]["annotations"]}, "spec": one["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pods}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def policy(cluster, **spec):
    cluster.kubectl("delete", "gpupolicy", "default", "--ignore-not-found")
    cluster.apply(json.dumps({"apiVersion": "gpuwise.dev/v1alpha1", "kind": "GpuPolicy", "metadata": {"name": "default"}, "spec": spec}))


def ready(cluster, app):
    mine = [one for one in listed(cluster).values() if one["metadata"].get("labels", {}).get("app") == app]
    return sum(map(is_ready, mine))


def part(cluster):
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "claims-high"}, "value": 100}
    create(cluster, [high])
    evicts(cluster)
    moves(cluster)
    both(cluster)
    several(cluster)
    cluster.kubectl("delete", "priorityclass", "claims-high")
    cluster.kubectl("delete", "gpupolicy", "default", "--ignore-not-found")


def evicts(cluster):
    """A whole GPU gets the room of two halves, within a budget, once their claims are given back."""
    policy(cluster, preemption="annotated")
    low = budget("low", 3)
    low["metadata"]["namespace"] = "team"
    create(cluster, [deployment("low", 4, "half", preemptible="true"), low])
    until("four halves run", 60, lambda: ready(cluster, "low") == 4 or condition_of_all(cluster))
    before = {one["metadata"]["uid"] for one in listed(cluster).values()}
    until("the budget counts", 30, lambda: cluster.kubectl("get", "pdb", "low", "-n", "team", "-o", "jsonpath={.status.disruptionsAllowed}") == "1" or "no")
    big = claims("big", "whole")
    big["spec"]["priorityClassName"] = "claims-high"
    create(cluster, [big])
    until("the budget is said", 60, lambda: condition(cluster, "big").startswith("EvictionRefused") or condition(cluster, "big"))
    print(f"claims: {condition(cluster, 'big')}; {listed(cluster)['big']['status'].get('nominatedNodeName')} is kept for it", flush=True)
    cluster.kubectl("patch", "pdb", "low", "-n", "team", "--type=merge", "-p", '{"spec": {"minAvailable": 2}}')
    began = time.monotonic()
    until("it runs where room was kept", 90, lambda: is_ready(listed(cluster)["big"]) or condition(cluster, "big"))
    gone = len(before - {one["metadata"]["uid"] for one in listed(cluster).values()})
    print(f"claims: a whole GPU for two halves: {gone} evicted, it runs {time.monotonic() - began:.1f} s after the budget allowed it: {allocated(cluster)}", flush=True)
    if gone != 2:
        raise SystemExit(f"{gone} were evicted where two make room")
    wait_released(cluster)
    unmake(cluster, "low")


def condition_of_all(cluster):
    return {name: condition(cluster, name) for name in listed(cluster)}


def unmake(cluster, name):
    cluster.kubectl("delete", "deployment", name, "-n", "team")
    cluster.kubectl("delete", "pdb", name, "-n", "team", "--ignore-not-found")
    clear(cluster)
    until("claims are released", 60, lambda: not allocated(cluster) or allocated(cluster))


def moves(cluster):
    """Two halves of one node are free once a pod moves: one more of its Deployment first, never fewer than two ready."""
    policy(cluster, moves={"perHour": 100})
    fillers = [claims(f"fill-{at}", "half") for at in range(2)]
    for one, name in zip(fillers, NODES):
        one["spec"]["nodeSelector"] = {"kubernetes.io/hostname": name}
    create(cluster, fillers)
    until("fillers run", 60, lambda: len(bound(cluster)) == 2 or condition_of_all(cluster))
    create(cluster, [deployment("web", 2, "half")])
    until("both run", 60, lambda: ready(cluster, "web") == 2 or condition_of_all(cluster))
    cluster.kubectl("delete", "pod", "-n", "team", "fill-0", "fill-1", "--grace-period=0", "--force")
    create(cluster, [claims("pair", "pair")])
    began, least = time.monotonic(), 2

    def moved():
        nonlocal least
        least = min(least, ready(cluster, "web"))
        return is_ready(listed(cluster)["pair"]) or condition_of_all(cluster)

    until("the pair runs", 90, moved)
    print(f"claims: two halves on one node after {time.monotonic() - began:.1f} s, as one of two pods moved; never fewer than {least} ready", flush=True)
    until("two are left", 30, lambda: len(listed(cluster)) == 3 or list(listed(cluster)))
    if least < 2 or ready(cluster, "web") < 2:
        raise SystemExit("the Deployment lost a pod")
    wait_released(cluster)
    unmake(cluster, "web")
    cluster.kubectl("delete", "gpupolicy", "default")


def both(cluster):
    """A gang of which one asks a device plugin and one by claims starts together, or not."""
    one = {"metadata": {"name": "plugin", "namespace": "team", "annotations": {"gpuwise.dev/gang": "both", "gpuwise.dev/gang-size": "2"}}}
    limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    one["spec"] = {"containers": [{"name": "c", "image": "none", **limits}], "nodeSelector": {"kubernetes.io/hostname": "claims-plugin"}}
    create(cluster, [{"apiVersion": "v1", "kind": "Pod", **one}, claims("claim", "whole", gang="both", gang_size="2")])
    until("both wait", 60, lambda: all(condition(cluster, name) != "nothing" for name in ("plugin", "claim")) or condition_of_all(cluster))
    said = condition_of_all(cluster)
    if bound(cluster):
        raise SystemExit(f"a gang is there in part: {bound(cluster)}")
    create(cluster, [node("claims-plugin", 1)])
    until("both run", 60, lambda: len(bound(cluster)) == 2 or condition_of_all(cluster))
    print(f"claims: a gang by device plugin and by claims: {said['claim']}; with a node for both it starts on {sorted(bound(cluster).values())}", flush=True)
    clear(cluster)
    cluster.kubectl("delete", "node", "claims-plugin")
    until("claims are released", 60, lambda: not allocated(cluster) or allocated(cluster))


def several(cluster):
    """Of `firstAvailable` the first of which there is one."""
    exact = [template("any", profile=profile)["spec"]["spec"]["devices"]["requests"][0]["exactly"] for profile in ("full", "3g.71gb")]
    one = template("any")
    one["spec"]["spec"]["devices"]["requests"] = [{"name": "gpu", "firstAvailable": [{"name": name, **asks} for name, asks in zip(("whole", "half"), exact)]}]
    create(cluster, [one])
    create(cluster, [claims("half", "half")])
    until("a half is bound", 60, lambda: len(bound(cluster)) == 1 or condition_of_all(cluster))
    for at in range(3):
        create(cluster, [claims(f"any-{at}", "any")])
        until("what fits is placed", 30, lambda: len(bound(cluster)) == min(at + 2, 3) or condition_of_all(cluster))
    until("who finds none waits", 30, lambda: condition(cluster, "any-2").startswith("TooFewGpus") or condition(cluster, "any-2"))
    print(f"claims: of several the first that is there: {allocated(cluster)}; then {condition(cluster, 'any-2')}", flush=True)
    clear(cluster)
    until("claims are released", 60, lambda: not allocated(cluster) or allocated(cluster))


class Claimed:
    """Scenarios of claims; of `Acts`, which has the API, the proxy and the operators."""

    def claim_nodes(self):
        offered(self.check)
        for name in NODES:
            self.api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"acts": "claims"}}})
        made = [template(name, profile=profile) for name, profile in (("whole", "full"), ("half", "3g.71gb"))]
        for one in made:
            one["metadata"]["namespace"] = SPACE
        self.make(*made)

    def claimed(self, name, asks, **more):
        one = claims(name, asks, **more)
        one["metadata"]["namespace"] = SPACE
        one["spec"] |= {"schedulingGates": [{"name": GATE}], "terminationGracePeriodSeconds": 1}
        return one

    def claims_left(self, pods):
        """Claims that are reserved for who is gone, and devices that two claims have."""
        return released(self.api.get(f"/apis/resource.k8s.io/v1/namespaces/{SPACE}/resourceclaims")["items"], pods)

    def claims(self, rng):
        """A whole GPU for two of four halves; or a gang that asks in both ways, beside one that does not fit."""
        self.how = rng.choice(["evicts", "gang"])
        if self.how == "gang":
            gang = lambda name: {"gang": name, "gang_size": "2"}
            notes = lambda name: {"gpuwise.dev/gang": name, "gpuwise.dev/gang-size": "2"}
            self.arm()
            self.make(*[gated(f"plugin-{at}", 8, annotations=notes(f"g{at}")) for at in range(3)], *[self.claimed(f"claim-{at}", "whole", **gang(f"g{at}")) for at in range(3)])

            def done(pods):
                there = sorted(one["metadata"]["name"].rsplit("-", 1)[1] for one in pods if one["spec"].get("nodeName"))
                return len(there) == 4 and there[0] == there[1] and there[2] == there[3] and not self.claims_left(pods)

            return done
        low = deployment("low", 4, "half", SPACE, True, preemptible="true")
        self.full(low)
        self.make(budget("low", 2))
        path = f"/apis/policy/v1/namespaces/{SPACE}/poddisruptionbudgets/low"
        until("the budget counts", 30, lambda: self.api.get(path).get("status", {}).get("disruptionsAllowed") == 2 or "no")
        before = {one["metadata"]["uid"] for one in self.api.pods()}
        self.least = ("low", 2)
        self.arm()
        big = self.claimed("big", "whole")
        big["spec"]["priorityClassName"] = "acts-high"
        self.make(big)

        def done(pods):
            left = len(before & {one["metadata"]["uid"] for one in pods})
            if left < 2:
                raise SystemExit(f"{4 - left} were evicted where two make room: {[(one['metadata']['name'], of(one, LEAVING).get('message')) for one in pods]}")
            return len(pods) == 5 and sum(map(is_ready, pods)) == 3 and left == 2 and not self.claims_left(pods)

        return done
