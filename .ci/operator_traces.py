"""Traces of the operator in a real OpenTelemetry collector: from the object that somebody made to a pod's processes."""

import datetime
import json
import signal
import time

from cluster import until
from operator_parts import bound, create, listed, node, pod
from spans import Collector

SPACE = "traced"
# As whoever asked for it has it, by the specification's own example.
GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
STEPS = ["waiting", "decided", "gate removed", "scheduled", "containers started", "ready"]


def moment(text):
    """`2026-11-27 03:00:00.123456789 +0000 UTC` in seconds; the last three digits are left out."""
    return datetime.datetime.fromisoformat(text.split(" +")[0][:26]).timestamp()


def of_pod(collector, name):
    """The spans of a pod, which hang together and follow one another."""
    collector.until("pod", pod=name)
    found = collector.spans(pod=name)
    root = next(span for span in found if span["name"] == "pod")
    parts = [span for span in found if span is not root]
    assert all(span["parent"] == root["id"] and span["trace"] == root["trace"] for span in parts), found
    ends = [moment(span["end"]) for span in sorted(parts, key=lambda one: (one["start"], one["end"]))]
    assert ends == sorted(ends) and moment(root["start"]) <= min(ends) and ends[-1] <= moment(root["end"]), found
    return root, {span["name"]: span for span in parts}


def part(check, operator, program):
    """All of it."""
    cluster = check.cluster
    # Whether the webhook answers is tried in `team`.
    for name in (SPACE, "team"):
        metadata = {"name": name, "labels": {"gpuwise.dev/managed": "true"}}
        cluster.apply(json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
    operator.install("act")
    with Collector(program, check.folder) as collector:
        process = operator.start("--otlp", collector.address, name="traces")
        until("it leads", 30, lambda: operator.leads(process))
        operator.webhook_answers()
        pods(cluster, collector)
        process = workloads(check, operator, collector, process)
        sent = operator.figures(process)['gpuwise_operator_trace_spans_total{result="sent"}']
    with Collector(program, check.folder) as collector:
        operator.kill(process, signal.SIGTERM)
        process = operator.start("--otlp", collector.address, name="changes")
        until("it leads", 30, lambda: operator.leads(process))
        operator.webhook_answers()
        changes(cluster, collector)
        somebodys(cluster, collector)
        moves(cluster, collector)
    gone(cluster, operator, process)
    print(f"{sent:.0f} spans were taken of the last operator", flush=True)
    operator.kill(process, signal.SIGTERM)
    cluster.kubectl("delete", "namespace", SPACE, "--wait=false")


def pods(cluster, collector):
    """A pod alone is a trace, one that says a trace goes on with it, pods of a Job are in one, and who is deleted failed."""
    template = pod("t", 1, SPACE)["spec"] | {"restartPolicy": "Never"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": SPACE}}
    job["spec"] = {"completions": 2, "parallelism": 2, "template": {"metadata": {}, "spec": template}}
    create(cluster, [pod("alone", 1, SPACE), pod("given", 1, SPACE, annotations={"traceparent": GIVEN}), pod("huge", 64, SPACE), job])
    root, parts = of_pod(collector, "alone")
    assert not root["parent"] and list(map(parts.__contains__, STEPS)) == [True] * len(STEPS), (root, parts)
    said = listed(cluster, SPACE)["alone"]["metadata"]["annotations"]
    words = parts["decided"]["attributes"]
    assert words["gpuwise.plan"] == said["gpuwise.dev/plan"] and words["k8s.node.name"] == said["gpuwise.dev/node"], (words, said)
    took = {name: 1e3 * (moment(parts[name]["end"]) - moment(parts[name]["start"])) for name in STEPS}
    print("a pod: " + ", ".join(f"{name} {ms:.0f} ms" for name, ms in took.items()), flush=True)
    root, _ = of_pod(collector, "given")
    assert f"00-{root['trace']}-{root['parent']}-01" == GIVEN, root
    names = [name for name in listed(cluster, SPACE) if name.startswith("train-")]
    above = collector.until("Job", object="train") and collector.spans(name="Job", object="train")
    roots = [of_pod(collector, name)[0] for name in names]
    assert len(names) == 2 and len(above) == 1 and all(one["parent"] == above[0]["id"] and one["trace"] == above[0]["trace"] for one in roots), (above, roots)
    cluster.kubectl("delete", "pod", "huge", "-n", SPACE, "--force", "--grace-period=0")
    root, parts = of_pod(collector, "huge")
    assert root["status"] == "Error" and list(parts) == ["waiting"], (root, parts)
    print(f"two pods of a Job are one trace, and one that never had a place: {root['message']}", flush=True)


def workloads(check, operator, collector, process):
    """From a GpuWorkload to its pods' processes, in the trace of whoever made it; a restart changes no template."""
    cluster = check.cluster
    object = {"apiVersion": "gpuwise.dev/v1alpha1", "kind": "GpuWorkload"}
    object["metadata"] = {"name": "chat", "namespace": SPACE, "annotations": {"traceparent": GIVEN}}
    object["spec"] = {"model": "meta-llama/Llama-3.1-8B", "traffic": {"rate": "8/s"}, "slo": {"ttft": "p95:1s", "tpot": "p95:50ms"}}
    create(cluster, [object])
    collector.until("GpuWorkload", 60, workload="chat")
    root = collector.spans(name="GpuWorkload", workload="chat")[0]
    assert f"00-{root['trace']}-{root['parent']}-01" == GIVEN, root
    for name in ["sized", "applied"]:
        one = collector.spans(name=name, workload="chat")[0]
        assert one["parent"] == root["id"] and one["attributes"]["gpuwise.plan"], one
    name = next(name for name in bound(cluster, SPACE) if name.startswith("chat-"))
    top, parts = of_pod(collector, name)
    assert top["parent"] == root["id"] and top["trace"] == root["trace"] and set(STEPS) <= set(parts), (top, parts)
    env = listed(cluster, SPACE)[name]["spec"]["containers"][0]["env"]
    told = {one["name"]: one.get("value") for one in env}["TRACEPARENT"]
    assert told == f"00-{root['trace']}-{root['id']}-01", (told, root)
    count = sum(span["trace"] == root["trace"] and span["attributes"].get("k8s.pod.name") != "given" for span in collector.spans())
    print(f"a GpuWorkload: one trace of {count} spans, from whoever made it to its process, which is told {told}", flush=True)
    # Another operator writes the same, and says nothing twice.
    version = lambda: cluster.kubectl("get", "deployment", "chat", "-n", SPACE, "-o", "jsonpath={.metadata.generation}")
    applied = lambda: len(collector.spans(name="applied", workload="chat"))
    before, spans, times = version(), len(collector.spans(pod=name)), applied()
    operator.kill(process, signal.SIGTERM)
    process = operator.start("--otlp", collector.address, name="another")
    until("the other leads", 60, lambda: operator.leads(process))
    until("it looked at all", 30, lambda: applied() > times or f"applied {applied()} times, {times} before")
    assert version() == before and len(collector.spans(pod=name)) == spans, (before, version())
    return process


def under(collector, root, name, **wanted):
    """A span of a trace that hangs under another one, once it is there."""
    collector.until(name, 90, **wanted)
    one = collector.spans(name=name, **wanted)[0]
    assert one["parent"] == root["id"] and one["trace"] == root["trace"], (one, root)
    return one


def changes(cluster, collector):
    """The steps by which a GpuWorkload becomes another are spans of its own trace, also one that fails."""
    nodes = {"trace-h200": "NVIDIA-H200", "trace-l4": "NVIDIA-L4", "trace-l40s": "NVIDIA-L40S"}
    create(cluster, [node(name, **{"nvidia.com/gpu.product": product}) for name, product in nodes.items()])
    cluster.kubectl("wait", "--for=condition=Ready", *[f"node/{name}" for name in nodes], "--timeout=60s")
    spec = {"model": "meta-llama/Llama-3.1-8B", "gpus": ["H200"], "engine": "vllm", "replicas": 1}
    spec |= {"traffic": {"rate": "1/s", "inputTokens": 500, "outputTokens": 100}, "slo": {"ttft": "p95:2s", "tpot": "p95:70ms"}}
    spec["tiering"] = {"mode": "off", "verifySeconds": 1, "rolloutSeconds": 60}
    metadata = {"name": "turn", "namespace": SPACE, "annotations": {"traceparent": GIVEN}}
    create(cluster, [{"apiVersion": "gpuwise.dev/v1alpha1", "kind": "GpuWorkload", "metadata": metadata, "spec": spec}])
    collector.until("GpuWorkload", 60, workload="turn")
    root = collector.spans(name="GpuWorkload", workload="turn")[0]
    patch = lambda **spec: cluster.kubectl("patch", "gpuworkload", "turn", "-n", SPACE, "--type=merge", "-p", json.dumps({"spec": spec}))
    patch(gpus=["L4"])
    steps = [under(collector, root, name, workload="turn") for name in ("rolling out", "verifying")]
    plans = {step["attributes"]["gpuwise.plan"] for step in steps}
    assert len(plans) == 1 and all("L4" in step["attributes"]["gpuwise.gpu"] for step in steps), steps
    assert moment(steps[0]["start"]) <= moment(steps[0]["end"]) <= moment(steps[1]["start"]) + 1, steps
    took = [moment(step["end"]) - moment(step["start"]) for step in steps]
    # The one node that it could go to takes nobody.
    cluster.kubectl("cordon", "trace-l40s")
    patch(gpus=["L40S"], tiering={**spec["tiering"], "rolloutSeconds": 3})
    until("what fails is told", 60, lambda: any(one["status"] == "Error" for one in collector.spans(name="rolling out", workload="turn")) or collector.spans(workload="turn"))
    back = under(collector, root, "rolling back", workload="turn")
    print(f"a GpuWorkload's change: rolling out {took[0]:.1f} s, verifying {took[1]:.1f} s; one that fails, and rolling back to {back['attributes']['gpuwise.gpu']}: one trace", flush=True)
    cluster.kubectl("delete", "gpuworkload", "turn", "-n", SPACE)


def somebodys(cluster, collector):
    """A Deployment that was given another GPU is gone on with by whoever leads, and its phases are one trace."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    decided = {"gpu": "NVIDIA L4", "plan": "1.1"}
    state = {"status": {"decision": decided, "change": {"phase": "RollingOut", "since": now, "plan": "1.1", "why": "TooLarge", "told": 0}}, "undo": {}, "moved": now}
    notes = {"gpuwise.dev/tier-state": json.dumps(state), "gpuwise.dev/plan": "1.1", "gpuwise.dev/tier-verify-seconds": "1", "traceparent": GIVEN}
    metadata = {"name": "legacy", "namespace": SPACE, "labels": {"gpuwise.dev/tier": "auto"}, "annotations": notes}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "legacy"}}, "template": {"metadata": {"labels": {"app": "legacy"}}, "spec": pod("legacy", 1, SPACE)["spec"]}}
    create(cluster, [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}])
    mine = lambda: {span["name"]: span for span in collector.spans() if span["attributes"].get("k8s.deployment.name") == "legacy"}
    until("its change is told", 60, lambda: "Deployment" in mine() or (list(mine()), cluster.kubectl("get", "deployment", "legacy", "-n", SPACE, "-o", "json")))
    root = mine()["Deployment"]
    steps = [mine()[name] for name in ("rolling out", "verifying")]
    assert f"00-{root['trace']}-{root['parent']}-01" == GIVEN and all(step["parent"] == root["id"] and step["trace"] == root["trace"] for step in steps), mine()
    took = [moment(step["end"]) - moment(step["start"]) for step in steps]
    print(f"somebody's Deployment: rolling out {took[0]:.1f} s, verifying {took[1]:.1f} s, one trace", flush=True)
    cluster.kubectl("delete", "deployment", "legacy", "-n", SPACE)


def moves(cluster, collector):
    """A pod that moves for another: a span under its own, until it is gone."""
    nodes = ["trace-a", "trace-b"]
    create(cluster, [node(name, traced="yes") for name in nodes])
    cluster.kubectl("wait", "--for=condition=Ready", *[f"node/{name}" for name in nodes], "--timeout=60s")
    policy = {"apiVersion": "gpuwise.dev/v1alpha1", "kind": "GpuPolicy", "metadata": {"name": "default"}, "spec": {"moves": {"perHour": 100}}}
    cluster.apply(json.dumps(policy))
    fillers = [pod(f"fill-{name}", 4, SPACE, nodeSelector={"kubernetes.io/hostname": name}) for name in nodes]
    create(cluster, fillers)
    until("fillers run", 60, lambda: {f"fill-{name}" for name in nodes} <= set(bound(cluster, SPACE)) or bound(cluster, SPACE))
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("web", 4, SPACE, nodeSelector={"traced": "yes"})["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    create(cluster, [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": SPACE}, "spec": spec}])
    mine = lambda: [name for name in bound(cluster, SPACE) if name.startswith("web-")]
    until("they run", 60, lambda: len(mine()) == 2 or mine())
    before = {name: of_pod(collector, name)[0] for name in mine()}
    cluster.kubectl("delete", "pod", "-n", SPACE, *[f"fill-{name}" for name in nodes], "--grace-period=0", "--force")
    create(cluster, [pod("large", 8, SPACE, nodeSelector={"traced": "yes"})])
    until("a move is told", 90, lambda: bool(collector.spans(name="move")) or listed(cluster, SPACE)["large"]["status"].get("conditions"))
    move = collector.spans(name="move")[0]
    root = before[move["attributes"]["k8s.pod.name"]]
    assert move["parent"] == root["id"] and move["trace"] == root["trace"], (move, root)
    words = move["attributes"]
    assert {words["gpuwise.move.from"], words["gpuwise.move.to"]} == set(nodes) and words["gpuwise.plan"], words
    print(f"a pod that moves: {moment(move['end']) - moment(move['start']):.1f} s, in its own trace: {words['gpuwise.reason']}", flush=True)
    cluster.kubectl("delete", "gpupolicy", "default")
    cluster.kubectl("delete", "deployment", "web", "-n", SPACE)
    cluster.kubectl("delete", "node", *nodes, "trace-h200", "trace-l4", "trace-l40s")


def gone(cluster, operator, process):
    """Without its collector the operator places pods as before, and counts what is lost."""
    begun = time.monotonic()
    create(cluster, [pod("after", 1, SPACE)])
    until("it is bound", 30, lambda: "after" in bound(cluster, SPACE) or "it waits")
    took = time.monotonic() - begun
    lost = lambda: operator.figures(process)['gpuwise_operator_trace_spans_total{result="refused"}']
    until("spans are lost", 30, lambda: lost() >= len(STEPS) + 1 or lost())
    print(f"without a collector a pod is bound after {took:.1f} s, and {lost():.0f} spans are counted as lost", flush=True)
