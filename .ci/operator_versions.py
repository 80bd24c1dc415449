"""Definitions of an older version, and clocks that differ: what an operator says of them, and what it leaves alone."""

import copy
import glob
import json
import signal
import time

from cluster import until
from operator_parts import bound, create, listed

SPACE = "bad"
NODES = [f"bad-{i}" for i in range(3)]
L4 = "bad-l4"


class Versions:
    """Of `Bad`, which has the cluster and the operators."""

    def workload(self, **more):
        spec = {"model": "meta-llama/Llama-3.1-8B", "gpus": ["H200"], "engine": "vllm", "replicas": 1, **more}
        spec |= {"traffic": {"rate": "1/s", "inputTokens": 500, "outputTokens": 100}, "slo": {"ttft": "p95:2s", "tpot": "p95:70ms"}}
        return {"apiVersion": "gpuwise.dev/v1alpha1", "kind": "GpuWorkload", "metadata": {"name": "chat", "namespace": SPACE}, "spec": spec}

    def definitions(self):
        text = self.check.run("operator", "manifests", "--mode", "act")
        found = json.loads(self.cluster.kubectl("create", "--dry-run=client", "-o", "json", "-f", "-", given=text))
        return [one for one in found["items"] if one["kind"] == "CustomResourceDefinition"]

    def older(self, process):
        """A definition that drops what we need: said, workloads left as they are, quotas that cannot be read named."""
        create(self.cluster, [self.workload(), {"apiVersion": "gpuwise.dev/v1alpha1", "kind": "GpuQuota", "metadata": {"name": "bad"}, "spec": {"namespaces": [SPACE], "gpus": 24}}])
        applied = lambda: self.message("gpuworkload", "chat", "Applied", "-n", SPACE)
        until("it is applied", 60, lambda: applied().get("status") == "True" or applied())
        until("it runs", 60, lambda: len(bound(self.cluster, SPACE)) == 1 or "it waits")
        self.operator.kill(process, signal.SIGTERM)
        for one in self.definitions():
            old = copy.deepcopy(one)
            fields = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
            if old["spec"]["names"]["kind"] == "GpuWorkload":
                for name in ("change", "previous", "avoided"):
                    del fields["status"]["properties"][name]
            elif old["spec"]["names"]["kind"] == "GpuQuota":
                del fields["spec"]["properties"]["gpus"]
                fields["spec"]["required"] = ["namespaces"]
                fields["spec"].pop("x-kubernetes-validations", None)
            elif old["spec"]["names"]["kind"] == "GpuPriceBook":
                other = copy.deepcopy(old["spec"]["versions"][0])
                other |= {"name": "v1alpha0", "served": True, "storage": False}
                old["spec"]["versions"][0]["served"] = False
                old["spec"]["versions"].append(other)
            self.cluster.kubectl("replace", "-f", "-", given=json.dumps(old | {"metadata": one["metadata"]}))
        # What is dropped is gone once the object is written again.
        time.sleep(2)
        self.cluster.kubectl("annotate", "gpuquota", "bad", "touched=yes")
        process = self.operator.start(name="older")
        until("it leads", 30, lambda: self.operator.leads(process))
        until("the workload says so", 60, lambda: applied().get("reason") == "OldDefinition" or applied())
        quota = lambda: self.message("gpuquota", "bad", "Accepted")
        until("the quota says so", 60, lambda: quota().get("reason") == "Unreadable" or quota())
        figures = self.operator.figures(process)
        lacking = figures['gpuwise_operator_definition_fields_missing{kind="GpuWorkload"}']
        unread, failing = figures['gpuwise_operator_objects_unreadable{kind="GpuQuota"}'], figures['gpuwise_operator_watch_failing{resource="gpupricebooks"}']
        for words in ["definition of GpuWorkload is an older one", "GpuQuota bad", "no gpupricebooks", "gpuwise operator manifests"]:
            if words not in self.log(process):
                raise SystemExit(f"{words!r} is not said: {self.log(process)}")
        if (lacking, unread, failing) != (3, 1, 1):
            raise SystemExit(f"{lacking} fields, {unread} objects, {failing} watches")
        print(f"older definitions: {applied()['message']}", flush=True)
        print(f"older definitions: GpuQuota: {quota()['message']}", flush=True)
        # Another GPU is asked for meanwhile: nothing is changed, nobody spins.
        self.cluster.kubectl("patch", "gpuworkload", "chat", "-n", SPACE, "--type=merge", "-p", json.dumps({"spec": {"gpus": ["L4"]}}))
        self.calm(process)
        pods = listed(self.cluster, SPACE)
        if len(pods) != 1 or not bound(self.cluster, SPACE)[next(iter(pods))].startswith(tuple(NODES + ["more-", "kwok", "node"])):
            raise SystemExit(f"it was changed, though what is to be remembered of that is dropped: {list(pods)}")
        # The definitions of this version, as it was told.
        for one in self.definitions():
            there = json.loads(self.cluster.kubectl("get", "crd", one["metadata"]["name"], "-o", "json"))
            there["spec"] = one["spec"] | {"conversion": there["spec"].get("conversion")}
            self.cluster.kubectl("replace", "-f", "-", given=json.dumps(there))
        self.cluster.kubectl("patch", "gpuquota", "bad", "--type=merge", "-p", json.dumps({"spec": {"gpus": 24}}))
        until("the quota counts again", 90, lambda: quota().get("status") == "True" or quota())
        until("the workload is applied again, on what it asks for now", 120, lambda: applied().get("status") == "True" or applied())
        until("its pod is on an L4", 120, lambda: list(bound(self.cluster, SPACE).values()) == [L4] or bound(self.cluster, SPACE))
        print("older definitions: with those of this version it goes on where it was", flush=True)
        self.cluster.kubectl("delete", "gpuworkload", "chat", "-n", SPACE)
        self.cluster.kubectl("delete", "gpuquota", "bad")
        until("its pods are gone", 60, lambda: not listed(self.cluster, SPACE) or "some are left")
        self.operator.kill(process, signal.SIGTERM)

    # Clocks that differ.

    def clocks(self):
        """Operators whose clocks are ten minutes off: one leads, and what is under way ends when it is to, by whoever."""
        library = next(iter(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")), None)
        if not library:
            print("SKIPPED: no libfaketime (apt-get install libfaketime): clocks that differ are tried by unit tests alone", flush=True)
            return
        off = lambda seconds: {"LD_PRELOAD": library, "FAKETIME": f"{seconds:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        first = self.operator.start(name="ahead", webhook=False, environment=off(600))
        until("it leads", 30, lambda: self.operator.leads(first))
        second = self.operator.start(name="behind", webhook=False, environment=off(-600))
        skew = lambda process: self.operator.figures(process)["gpuwise_operator_clock_skew_seconds"]
        lease = lambda: self.cluster.kubectl("get", "lease", "gpuwise-operator", "-n", "gpuwise-system", "-o", "jsonpath={.spec.holderIdentity} {.spec.leaseTransitions}")
        before = lease()
        time.sleep(10)
        if lease() != before or self.operator.leads(second):
            raise SystemExit(f"the lease went from {before} to {lease()}")
        print(f"clocks: skews of {skew(first):.0f} s and {skew(second):.0f} s are seen; one leads, and the lease stays", flush=True)
        if not (590 < -skew(first) < 610 and 590 < skew(second) < 610):
            raise SystemExit("the skew is not seen")
        for process, words in [(first, "600 s ahead of"), (second, "600 s behind")]:
            if self.log(process).count(words) != 1:
                raise SystemExit(f"{words!r} is not said once: {self.log(process)}")
        tiering = {"mode": "off", "verifySeconds": 1, "rolloutSeconds": 20}
        create(self.cluster, [self.workload(tiering=tiering)])
        applied = lambda: self.message("gpuworkload", "chat", "Applied", "-n", SPACE)
        ready = lambda: sum(any(c["type"] == "Ready" and c["status"] == "True" for c in one["status"].get("conditions", [])) for one in listed(self.cluster, SPACE).values())
        until("it runs", 60, lambda: (applied().get("status") == "True" and ready() == 1) or applied())
        self.cluster.kubectl("cordon", L4)
        self.cluster.kubectl("patch", "gpuworkload", "chat", "-n", SPACE, "--type=merge", "-p", json.dumps({"spec": {"gpus": ["L4"]}}))
        status = lambda: json.loads(self.cluster.kubectl("get", "gpuworkload", "chat", "-n", SPACE, "-o", "json")).get("status", {})
        until("the change begins", 30, lambda: bool(status().get("change")) or status())
        began = time.monotonic()
        # The other goes on in the middle of it, with a clock of twenty minutes before.
        time.sleep(4)
        self.operator.kill(first)
        until("the other leads", 60, lambda: self.operator.leads(second))
        until("it is taken back", 90, lambda: bool(status().get("avoided")) or status().get("change"))
        took = time.monotonic() - began
        print(f"clocks: a change that may take 20 s is taken back after {took:.1f} s, by an operator with a clock of 20 minutes before", flush=True)
        if not 17 <= took <= 45:
            raise SystemExit("it was taken back at once, or late")
        self.cluster.kubectl("uncordon", L4)
        self.cluster.kubectl("delete", "gpuworkload", "chat", "-n", SPACE)
        self.operator.kill(second, signal.SIGTERM)
        until("its pods are gone", 60, lambda: not listed(self.cluster, SPACE) or "some are left")
