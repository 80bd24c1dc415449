"""Traces of the operator in a real OpenTelemetry collector: from the object that somebody made to a pod's processes."""

import datetime
import json
import signal
import time

from cluster import until
from operator_parts import bound, create, listed, pod
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
    before, spans = version(), len(collector.spans(pod=name))
    operator.kill(process, signal.SIGTERM)
    process = operator.start("--otlp", collector.address, name="another")
    until("the other leads", 60, lambda: operator.leads(process))
    until("it looked at all", 30, lambda: len(collector.spans(name="applied", workload="chat")) == 2 or "not applied again")
    assert version() == before and len(collector.spans(pod=name)) == spans, (before, version())
    return process


def gone(cluster, operator, process):
    """Without its collector the operator places pods as before, and counts what is lost."""
    begun = time.monotonic()
    create(cluster, [pod("after", 1, SPACE)])
    until("it is bound", 30, lambda: "after" in bound(cluster, SPACE) or "it waits")
    took = time.monotonic() - begun
    lost = lambda: operator.figures(process)['gpuwise_operator_trace_spans_total{result="refused"}']
    until("spans are lost", 30, lambda: lost() >= len(STEPS) + 1 or lost())
    print(f"without a collector a pod is bound after {took:.1f} s, and {lost():.0f} spans are counted as lost", flush=True)
