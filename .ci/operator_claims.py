"""Pods that ask for GPUs by claims alone (Dynamic Resource Allocation), under the operator on a real control plane."""

import json
import pathlib
import time

from cluster import until
from operator_parts import GATE, bound, clear, create, listed, node

CLASS = "mig.gpuwise.test"
# The example's node with one GPU, as two such nodes.
NODES = ["claims-0", "claims-1"]


def claims(name, template=None, claim=None, **annotations):
    one = {"name": "gpu", "resourceClaimTemplateName": template, "resourceClaimName": claim}
    one = {key: value for key, value in one.items() if value}
    spec = {"containers": [{"name": "c", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}], "resourceClaims": [one]}
    notes = {f"gpuwise.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team", "annotations": notes}, "spec": spec}


def template(name, count=1, profile=None, of=CLASS):
    exact = {"deviceClassName": of, "count": count}
    if profile:
        exact["selectors"] = [{"cel": {"expression": f'device.attributes["gpuwise.test"].profile == "{profile}"'}}]
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exact}]}}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name, "namespace": "team"}, "spec": spec}


def offered(check):
    """Nodes without a device plugin, whose driver offers a GPU each, whole and in partitions."""
    text = (pathlib.Path(check.start).parent / "examples" / "dra-mig.yaml").read_text()
    parts = text.split("\n---\n")
    check.cluster.apply(parts[0])
    # What names a product is a GPU, whatever its driver is called.
    slices = [one.replace("profile: {string: full}", "profile: {string: full}, productName: {string: NVIDIA H200}") for one in parts[1:3]]
    slices = [one.replace("profile: {string: 3g.71gb}", "profile: {string: 3g.71gb}, productName: {string: NVIDIA H200}") for one in slices]
    made = []
    for name in NODES:
        one = node(name, 0)
        for key in ("capacity", "allocatable"):
            one["status"][key].pop("nvidia.com/gpu", None)
        made.append(json.dumps(one))
        made += [two.replace("gpu-0", name) for two in slices]
    check.cluster.apply("\n---\n".join(made))
    check.cluster.kubectl("wait", "--for=condition=Ready", *(f"node/{name}" for name in NODES), "--timeout=60s")


def allocated(cluster):
    """Devices that claims of the namespace have, as the API server has it."""
    all = json.loads(cluster.kubectl("get", "resourceclaims", "-n", "team", "-o", "json"))["items"]
    results = [one.get("status", {}).get("allocation", {}).get("devices", {}).get("results", []) for one in all]
    return sorted(f"{one['pool']}/{one['device']}" for some in results for one in some)


def condition(cluster, name):
    found = [one for one in listed(cluster)[name]["status"].get("conditions", []) if one["type"] == "gpuwise.dev/Placed"]
    return f"{found[0]['reason']}: {found[0]['message']}" if found else "nothing"


def part(check, operator, then):
    """What claims are given by themselves, and `then` beside others, in the same cluster."""
    cluster = check.cluster
    if not cluster.kubectl("get", "namespace", "team", "--ignore-not-found"):
        cluster.kubectl("create", "namespace", "team")
    operator.install("act")
    cluster.kubectl("label", "namespace", "team", "gpuwise.dev/managed=true", "--overwrite")
    offered(check)
    process = operator.start(name="claims")
    operator.webhook_answers()
    create(cluster, [template("whole", profile="full"), template("half", profile="3g.71gb"), template("many", 9, profile="full"), template("pair", 2, profile="3g.71gb"), template("odd", of="nobody.example")])
    counters(cluster)
    quota(cluster)
    gang(cluster)
    then(cluster)
    wrong(cluster, operator, process)
    operator.stop()


def counters(cluster):
    """A whole GPU and two halves on two GPUs: the third half waits until the whole is given back."""
    create(cluster, [claims("whole", "whole")])
    until("the whole GPU is bound", 60, lambda: "whole" in bound(cluster) or condition(cluster, "whole"))
    create(cluster, [claims(f"half-{at}", "half") for at in range(3)])
    until("two halves are bound", 60, lambda: len(bound(cluster)) == 3 or bound(cluster))
    placed = bound(cluster)
    halves = [name for name in placed if name.startswith("half")]
    where = {placed[name] for name in halves}
    if len(where) != 1 or placed["whole"] in where:
        raise SystemExit(f"who is where: {placed}")
    for name, one in listed(cluster).items():
        said = one["metadata"].get("annotations", {}).get("gpuwise.dev/node")
        if name in placed and said != placed[name]:
            raise SystemExit(f"{name} was sent to {said} and is on {placed[name]}")
    rest = next(name for name in listed(cluster) if name not in placed)
    until("who waits is told", 30, lambda: condition(cluster, rest).startswith("TooFewGpus") or condition(cluster, rest))
    print(f"claims: {allocated(cluster)} by {placed}; {rest} waits: {condition(cluster, rest)}", flush=True)
    cluster.kubectl("delete", "pod", "-n", "team", "whole", "--force", "--grace-period=0")
    began = time.monotonic()
    until("the third half follows", 60, lambda: rest in bound(cluster) or condition(cluster, rest))
    print(f"claims: the whole GPU is given back, and the third half is bound after {time.monotonic() - began:.1f} s", flush=True)
    clear(cluster)
    until("claims are released", 60, lambda: not allocated(cluster) or allocated(cluster))


def quota(cluster):
    """Claims on whole GPUs count in a GpuQuota."""
    spec = {"namespaces": ["team"], "gpus": 1, "borrowing": 0}
    given = json.dumps({"apiVersion": "gpuwise.dev/v1alpha1", "kind": "GpuQuota", "metadata": {"name": "team"}, "spec": spec})
    # What another part left says nothing, and pods that the operator hears of before the quota would be placed without it.
    cluster.kubectl("delete", "gpuquota", "team", "--ignore-not-found")
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=given)
    until("the quota is seen", 30, lambda: cluster.field("gpuquota", "team", ".status.used") == "0" or cluster.field("gpuquota", "team", ".status"))
    # Several times, as the second pod may come at any step of the first: while its claim is allocated, before it is bound.
    for turn in range(6):
        if turn:
            clear(cluster)
            until("claims are released", 60, lambda: not allocated(cluster) or allocated(cluster))
        create(cluster, [claims(f"whole-{at}", "whole") for at in range(2)])
        until("one is bound", 60, lambda: len(bound(cluster)) == 1 or bound(cluster))
        rest = next(name for name in listed(cluster) if name not in bound(cluster))
        until("the quota keeps the other", 30, lambda: condition(cluster, rest).startswith("Quota") or condition(cluster, rest))
    until("the quota counts it", 30, lambda: cluster.field("gpuquota", "team", ".status.used") == "1" or cluster.field("gpuquota", "team", ".status"))
    print(f"claims: a quota of 1 GPU: {rest} waits: {condition(cluster, rest)}", flush=True)
    cluster.kubectl("delete", "gpuquota", "team")
    until("without a quota both are bound", 60, lambda: len(bound(cluster)) == 2 or bound(cluster))
    clear(cluster)
    until("claims are released", 60, lambda: not allocated(cluster) or allocated(cluster))


def gang(cluster):
    """Three that start together on two GPUs wait all of them; two start together."""
    create(cluster, [claims(f"three-{at}", "whole", gang="three", gang_size="3") for at in range(3)])
    until("a gang that does not fit waits", 30, lambda: all(condition(cluster, f"three-{at}") != "nothing" for at in range(3)) or "nothing is said")
    if bound(cluster):
        raise SystemExit(f"a gang is bound in part: {bound(cluster)}")
    create(cluster, [claims(f"two-{at}", "whole", gang="two", gang_size="2") for at in range(2)])
    until("a gang that fits is bound", 60, lambda: set(bound(cluster)) == {"two-0", "two-1"} or bound(cluster))
    print("claims: of two GPUs a gang of three gets none, a gang of two both", flush=True)
    clear(cluster)
    until("claims are released", 60, lambda: not allocated(cluster) or allocated(cluster))


def wrong(cluster, operator, process):
    """What is missing or too much is said and nothing spins; what is no GPU is let go; what comes later is taken."""
    create(cluster, [claims("nothing", "not-there"), claims("class", "odd"), claims("many", "many"), claims("late", claim="comes-later")])
    wanted = {"nothing": "NoSuchClaim", "class": "NoSuchClass", "many": "LargerThanCluster", "late": "NoSuchClaim"}
    said = lambda: {name: condition(cluster, name) for name in wanted}
    until("what is wrong is said", 60, lambda: all(said()[name].startswith(reason) for name, reason in wanted.items()) or said())
    print(f"claims: {said()}", flush=True)
    looks = lambda: operator.figures(process)["controller_runtime_reconcile_time_seconds_count"]
    before = looks()
    time.sleep(5)
    if looks() - before > 20:
        raise SystemExit(f"the operator spins: {looks() - before} looks in 5 s")
    one = template("comes-later", profile="full")
    one["kind"], one["spec"] = "ResourceClaim", one["spec"]["spec"]
    create(cluster, [one])
    until("the claim that came later is followed", 60, lambda: "late" in bound(cluster) or condition(cluster, "late"))
    create(cluster, [claims("shares", claim="comes-later")])
    until("who shares it goes where it is", 60, lambda: bound(cluster).get("shares") == bound(cluster)["late"] or (bound(cluster), listed(cluster)["shares"]["spec"].get("schedulingGates")))
    gates = [name for name, one in listed(cluster).items() if any(gate["name"] == GATE for gate in one["spec"].get("schedulingGates", []))]
    print(f"claims: a claim that came later is followed, and who shares it is with it; behind gates are {sorted(gates)}", flush=True)
    clear(cluster)
