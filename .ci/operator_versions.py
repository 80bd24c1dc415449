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

    def definition(self, kind):
        return json.loads(self.cluster.kubectl("get", "crd", f"{kind}.gpuwise.dev", "-o", "json"))

    def define(self, kind, spec):
        self.cluster.kubectl("replace", "-f", "-", given=json.dumps(self.definition(kind) | {"spec": spec}))

    def aged(self):
        """Puts definitions of an older version in place of ours; gives ours."""
        known = {kind: self.definition(kind)["spec"] for kind in ("gpuworkloads", "gpuquotas", "gpupricebooks")}
        old = copy.deepcopy(known)
        schema = lambda kind: old[kind]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        for name in ("change", "previous", "avoided"):
            del schema("gpuworkloads")["status"]["properties"][name]
        quota = schema("gpuquotas")["spec"]
        del quota["properties"]["gpus"]
        quota["required"] = ["namespaces"]
        quota.pop("x-kubernetes-validations", None)
        book = old["gpupricebooks"]["versions"]
        book.append(copy.deepcopy(book[0]) | {"name": "v1alpha0", "served": True, "storage": False})
        book[0]["served"] = False
        for kind, spec in old.items():
            self.define(kind, spec)
        return known

    def warned(self, name, reason):
        """What events of an object say."""
        found = json.loads(self.cluster.kubectl("get", "events", "-A", "-o", "json"))["items"]
        return [one["message"] for one in found if one["reason"] == reason and one["involvedObject"]["name"] == name]

    def older(self, process):
        """A definition that drops what we need: said, nothing written, workloads left as they are; what was there is
        there again with the definitions of this version."""
        create(self.cluster, [self.workload(), {"apiVersion": "gpuwise.dev/v1alpha1", "kind": "GpuQuota", "metadata": {"name": "bad"}, "spec": {"namespaces": [SPACE], "gpus": 24}}])
        applied = lambda: self.message("gpuworkload", "chat", "Applied", "-n", SPACE)
        quota = lambda: self.message("gpuquota", "bad", "Accepted")
        until("it is applied", 60, lambda: applied().get("status") == "True" or applied())
        until("it runs", 60, lambda: len(bound(self.cluster, SPACE)) == 1 or "it waits")
        until("the quota counts", 30, lambda: quota().get("status") == "True" or quota())
        before = bound(self.cluster, SPACE)
        self.operator.kill(process, signal.SIGTERM)
        known = self.aged()
        time.sleep(2)
        process = self.operator.start(name="older")
        until("it leads", 30, lambda: self.operator.leads(process))
        until("the workload's event says so", 60, lambda: bool(self.warned("chat", "OldDefinition")) or self.log(process))
        until("the quota's event says so", 60, lambda: bool(self.warned("bad", "Unreadable")) or self.log(process))
        figures = self.operator.figures(process)
        lacking = figures['gpuwise_operator_definition_fields_missing{kind="GpuWorkload"}']
        unread, failing = figures['gpuwise_operator_objects_unreadable{kind="GpuQuota"}'], figures['gpuwise_operator_watch_failing{resource="gpupricebooks"}']
        for words in ["definition of GpuWorkload is an older one", "GpuQuota bad", "no gpupricebooks", "gpuwise operator manifests"]:
            if self.log(process).count(words) == 0:
                raise SystemExit(f"{words!r} is not said: {self.log(process)}")
        # Other parts leave quotas: none can be read without its number.
        quotas = len(self.cluster.kubectl("get", "gpuquotas", "-o", "name").split())
        if (lacking, unread, failing) != (3, quotas, 1):
            raise SystemExit(f"{lacking} fields, {unread} of {quotas} quotas, {failing} watches")
        print(f"older definitions: {self.warned('chat', 'OldDefinition')[0]}", flush=True)
        print(f"older definitions: GpuQuota: {self.warned('bad', 'Unreadable')[0]}", flush=True)
        looks = self.calm(process)
        # Who begins to lead says it anew.
        now, told = bound(self.cluster, SPACE), self.warned("chat", "OldDefinition")
        if now != before or len(told) > 3:
            raise SystemExit(f"it was changed, though what is to be remembered of that is dropped, or said again and again: {before}, {now}, {told}")
        for kind, spec in known.items():
            self.define(kind, spec)
        until("what was there is there again", 30, lambda: self.cluster.field("gpuquota", "bad", ".spec.gpus") == "24" or "the quota has lost its number")
        gone = lambda: self.operator.figures(process)['gpuwise_operator_definition_fields_missing{kind="GpuWorkload"}']
        until("the operator sees that", 60, lambda: gone() == 0 or gone())
        self.cluster.kubectl("patch", "gpuworkload", "chat", "-n", SPACE, "--type=merge", "-p", json.dumps({"spec": {"gpus": ["L4"]}}))
        until("it goes on, and is moved", 120, lambda: list(bound(self.cluster, SPACE).values()) == [L4] or bound(self.cluster, SPACE))
        print(f"older definitions: {looks:.0f} looks in 5 s; with those of this version nothing is lost, and the workload moves on", flush=True)
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
        # Before the API server's certificate was made nobody trusts it.
        made = (self.check.folder / "kube" / "pki" / "server.crt").stat().st_mtime
        until("the cluster is old enough", 60, lambda: time.time() - made > 90 or time.time() - made)
        behind = int(min(600, time.time() - made - 20))
        first = self.operator.start(name="ahead", webhook=False, environment=off(600))
        until("it leads", 30, lambda: self.operator.leads(first))
        second = self.operator.start(name="behind", webhook=False, environment=off(-behind))
        skew = lambda process: self.operator.figures(process)["gpuwise_operator_clock_skew_seconds"]
        lease = lambda: self.cluster.kubectl("get", "lease", "gpuwise-operator", "-n", "gpuwise-system", "-o", "jsonpath={.spec.holderIdentity} {.spec.leaseTransitions}")
        before = lease()
        time.sleep(10)
        if lease() != before or self.operator.leads(second):
            raise SystemExit(f"the lease went from {before} to {lease()}")
        print(f"clocks: skews of {skew(first):.0f} s and {skew(second):.0f} s are seen; one leads, and the lease stays", flush=True)
        if abs(skew(first) + 600) > 3 or abs(skew(second) - behind) > 3:
            raise SystemExit("the skew is not seen")
        for process, words in [(first, " s ahead of"), (second, " s behind")]:
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
        # The other goes on in the middle of it, with a clock that is far behind.
        time.sleep(4)
        self.operator.kill(first)
        until("the other leads", 60, lambda: self.operator.leads(second))
        until("it is taken back", 90, lambda: bool(status().get("avoided")) or status().get("change"))
        took = time.monotonic() - began
        print(f"clocks: a change that may take 20 s is taken back after {took:.1f} s, by an operator whose clock is {600 + behind} s behind the one that began it", flush=True)
        if not 17 <= took <= 45:
            raise SystemExit("it was taken back at once, or late")
        self.cluster.kubectl("uncordon", L4)
        self.cluster.kubectl("delete", "gpuworkload", "chat", "-n", SPACE)
        self.operator.kill(second, signal.SIGTERM)
        until("its pods are gone", 60, lambda: not listed(self.cluster, SPACE) or "some are left")
