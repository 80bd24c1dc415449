"""A gang of 64 on a fleet that others have fragmented: kube-scheduler alone, with in-tree gangs, and beside gpuwise.

The same pods come and go three times in the same cluster, drawn from one seed: sizes as in production (most ask for
one GPU, few for several). Then a gang of 64 pods comes that each take a whole node, as training does, then single pods of four GPUs.
"""

import json
import random

from cluster import until
from operator_parts import GATE, create, listed, node, pod

NODES = [f"frag-{i:02}" for i in range(96)]
GANG, EACH = 64, 8
GROUP = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup"}


def part(check, operator, seed=7):
    cluster = check.cluster
    if operator.mode != "act":
        operator.install("act")
    cluster.kubectl("apply", "-f", "-", given="\n---\n".join(json.dumps(node(name, 8, fragmented="yes")) for name in NODES))
    found = {}
    for way, space in [("kube-scheduler alone", "frag-a"), ("with in-tree gangs", "frag-b"), ("beside gpuwise", "frag-c")]:
        found[way] = one_way(cluster, operator, space, way, seed)
        bound, gpus = found[way]
        whole = gpus if bound == GANG else gpus - bound * EACH
        print(f"{way:21}: {bound:2} of {GANG} pods of the gang are bound; {whole} of {8 * len(NODES)} GPUs do something", flush=True)
        found[way] = (bound, whole)
        cluster.kubectl("delete", "namespace", space, "--wait=false")
        until("its pods are gone", 120, lambda: not listed(cluster, space))
    cluster.kubectl("delete", "nodes", *NODES)
    ours = found.pop("beside gpuwise")
    if ours[0] != GANG:
        raise SystemExit(f"the gang is not placed: {ours}")
    best = max(gpus for _, gpus in found.values())
    print(f"{100 * (ours[1] / best - 1):.0f} % more GPUs are used than by the best of the others", flush=True)
    if any(bound == GANG for bound, _ in found.values()) or ours[1] < 1.1 * best:
        raise SystemExit(f"others do as well: {found}, ours {ours}")


def one_way(cluster, operator, space, way, seed):
    """How many of the gang are bound at the end, and how many GPUs are held."""
    cluster.kubectl("create", "namespace", space)
    process = None
    if way == "beside gpuwise":
        cluster.kubectl("label", "namespace", space, "gpuwise.dev/managed=true")
        process = operator.start(name="fragmented")

        def gated():
            made = cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", given=json.dumps(pod("probe", 1, space)))
            return any(gate["name"] == GATE for gate in json.loads(made)["spec"].get("schedulingGates", [])) or "no gate"

        until("the webhook gates", 60, gated)
    draw, there, count = random.Random(seed), {}, 0
    for goal in [150, 130, 110]:
        new = []
        while sum(there.values()) < goal:
            size = draw.choices([1, 2, 4], [70, 20, 10])[0]
            there[f"small-{count}"] = size
            new.append(asks(f"small-{count}", size, space))
            count += 1
        create(cluster, new)
        until("small pods are bound", 120, lambda: len(bound(cluster, space)) == len(there) or len(bound(cluster, space)))
        leave = draw.sample(sorted(there), len(there) * (0 if goal == 110 else 30) // 100)
        if leave:
            cluster.kubectl("delete", "pods", "-n", space, "--force", "--grace-period=0", *leave)
            for name in leave:
                del there[name]
    more = {}
    if way == "with in-tree gangs":
        group = {**GROUP, "metadata": {"name": "big", "namespace": space}, "spec": {"schedulingPolicy": {"gang": {"minCount": GANG}}}}
        create(cluster, [group])
        more = {"schedulingGroup": {"podGroupName": "big"}}
    if way == "beside gpuwise":
        more = {"annotations": {"gpuwise.dev/gang": "big", "gpuwise.dev/gang-size": str(GANG)}}
    create(cluster, [asks(f"gang-{i}", EACH, space, **dict(more)) for i in range(GANG)])
    still(cluster, space)
    create(cluster, [asks(f"late-{i}", 4, space) for i in range(16)])
    still(cluster, space)
    held = bound(cluster, space)
    if process:
        operator.kill(process)
    gang = sum(name.startswith("gang-") for name in held)
    return gang, sum(held.values())


def asks(name, gpus, space, **more):
    """A pod that asks for its share of its node's processors and memory too, as most do."""
    made = pod(name, gpus, space, nodeSelector={"fragmented": "yes"}, **more)
    made["spec"]["containers"][0]["resources"]["requests"] = {"cpu": str(8 * gpus), "memory": f"{96 * gpus}Gi"}
    return made


def bound(cluster, space):
    """GPUs of those that have a node."""
    gpus = lambda one: int(one["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
    return {name: gpus(one) for name, one in listed(cluster, space).items() if one["spec"].get("nodeName")}


def still(cluster, space):
    """Until nobody was bound for a while."""
    seen = []

    def check():
        seen.append(len(bound(cluster, space)))
        return len(seen) > 12 and len(set(seen[-12:])) == 1 or seen[-1]

    until("nothing changes any more", 120, check)
