"""Bad input of the operator, on a real control plane: rights that are missing, a webhook that does not answer, nodes that
flap, device plugins that make up counts, quantities that overflow. What must hold: it is said, nothing is lost, nothing
is spun. `GPUWISE_BAD` names what is tried, in place of all of it.
"""

import json
import os
import re
import signal
import socket
import subprocess
import time

from cluster import until
from operator_parts import GATE, bound, create, listed, node, pod
from operator_versions import NODES, L4, SPACE, Versions


class Bad(Versions):
    def __init__(self, check, operator):
        self.check, self.operator, self.cluster = check, operator, check.cluster

    # What there is.

    def prepare(self):
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE, "labels": {"gpuwise.dev/managed": "true"}}}
        self.cluster.apply(json.dumps(made))
        small = node(L4, **{"nvidia.com/gpu.product": "NVIDIA-L4"})
        create(self.cluster, [*map(node, NODES), small])
        self.cluster.kubectl("wait", "--for=condition=Ready", *[f"node/{name}" for name in [*NODES, L4]], "--timeout=60s")
        self.operator.install("act")

    def finish(self):
        self.operator.stop()
        self.cluster.kubectl("delete", "namespace", SPACE, "--wait=false")
        self.cluster.kubectl("delete", "node", "--ignore-not-found", *NODES, L4)

    def clear(self):
        self.cluster.kubectl("delete", "pods", "-n", SPACE, "--all", "--force", "--grace-period=0")
        until("pods are gone", 60, lambda: not listed(self.cluster, SPACE) or "some are left")

    def log(self, process):
        return (self.check.folder / f"operator-{self.operator.running.index(process)}.log").read_text()

    def looks(self, process):
        return self.operator.figures(process)["controller_runtime_reconcile_time_seconds_count"]

    def calm(self, process, seconds=5, most=20):
        """Nobody spins: looks within some seconds in which nothing changes."""
        before = self.looks(process)
        time.sleep(seconds)
        found = self.looks(process) - before
        if found > most:
            raise SystemExit(f"the operator spins: {found} looks in {seconds} s")
        return found

    def patch(self, name, body, *more):
        self.cluster.kubectl("patch", "node", name, "--type=merge", *more, "-p", json.dumps(body))

    def offers(self, name, gpus):
        self.patch(name, {"status": {"allocatable": {"nvidia.com/gpu": gpus}, "capacity": {"nvidia.com/gpu": gpus}}}, "--subresource=status")

    def policy(self, **spec):
        made = {"apiVersion": "gpuwise.dev/v1alpha1", "kind": "GpuPolicy", "metadata": {"name": "default"}, "spec": spec}
        self.cluster.apply(json.dumps(made))

    def message(self, kind, name, condition, *more):
        found = json.loads(self.cluster.kubectl("get", kind, name, *more, "-o", "json"))
        all = found.get("status", {}).get("conditions", [])
        return next(({key: one.get(key) for key in ("status", "reason", "message")} for one in all if one["type"] == condition), {})

    # Rights that are missing.

    def account(self, name, resources):
        """A kubeconfig of an account that may list these of the core, and all that is beside it."""
        rules = [{"apiGroups": [""], "resources": resources, "verbs": ["get", "list", "watch"]}]
        groups = ["apps", "policy", "resource.k8s.io", "scheduling.k8s.io", "gpuwise.dev"]
        rules.append({"apiGroups": groups, "resources": ["*"], "verbs": ["get", "list", "watch"]})
        rbac = "rbac.authorization.k8s.io"
        create(self.cluster, [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": SPACE}},
            {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
            {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
             "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
             "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": SPACE}]},
        ])
        token = self.cluster.kubectl("create", "token", name, "-n", SPACE).strip()
        admin = (self.check.folder / "kube" / "kubeconfig").read_text()
        config = self.check.folder / f"{name}.kubeconfig"
        config.write_text(re.sub(r'token: "[^"]*"', f'token: "{token}"', admin))
        return config

    def rights(self):
        """Who may not list nodes, or pods, is told which rule is missing, at once; an operator says it and goes on."""
        create(self.cluster, [pod("alone", 64, SPACE)])
        workload = self.check.folder / "workload.json"
        workload.write_text(json.dumps(self.workload()))
        readers = {"why": [f"{SPACE}/alone"], "top": [], "plan": ["-f", str(workload)]}
        for lacking, has, asks in [("nodes", "pods", ["why", "top", "plan"]), ("pods", "nodes", ["why", "top"])]:
            config = self.account(f"no-{lacking}", [has])
            for ask in asks:
                began = time.monotonic()
                words = [self.check.gpuwise, "operator", ask, *readers[ask], "--kubeconfig", str(config)]
                done = subprocess.run(words, capture_output=True, text=True, timeout=60)
                took = time.monotonic() - began
                if done.returncode != 2 or f'resources: ["{lacking}"]' not in done.stderr or took > 20:
                    raise SystemExit(f"operator {ask} without {lacking}: exit {done.returncode} after {took:.1f} s: {done.stderr}")
            print(f"without {lacking}: {', '.join(asks)} end with 2: {done.stderr.strip().splitlines()[0]}", flush=True)
        words = [self.check.gpuwise, "operator", "run", "--kubeconfig", str(config), "--listen", "127.0.0.1:0"]
        log = self.check.folder / "operator-few.log"
        with open(log, "w") as file:
            process = subprocess.Popen(words, stdout=file, stderr=file)
            until("the operator says what it may not read", 30, lambda: 'resources: ["pods"]' in log.read_text() or log.read_text())
            time.sleep(3)
            self.operator.kill(process, signal.SIGTERM)
        said = [line for line in log.read_text().splitlines() if "pods may not be read" in line]
        print(f"an operator that may not read pods says so in {len(said)} line", flush=True)
        if len(said) != 1:
            raise SystemExit(f"it is said again and again: {log.read_text()}")
        self.clear()

    # A webhook that does not answer.

    def timeouts(self):
        """Pods are made without it, after no more than its time, and gated again once it answers."""
        process = self.operator.start(name="answers")
        self.operator.webhook_answers()
        self.operator.kill(process)
        silent = socket.create_server(("127.0.0.1", self.operator.port))
        began = time.monotonic()
        create(self.cluster, [pod("unasked", 1, SPACE)])
        took = time.monotonic() - began
        gates = listed(self.cluster, SPACE)["unasked"]["spec"].get("schedulingGates")
        silent.close()
        if gates or took > 10:
            raise SystemExit(f"a pod took {took:.1f} s, and has gates {gates}")
        until("kube-scheduler has it", 60, lambda: "unasked" in bound(self.cluster, SPACE) or "it waits")
        process = self.operator.start(name="again")
        until("it leads", 30, lambda: self.operator.leads(process))
        self.operator.webhook_answers()
        create(self.cluster, [pod("asked", 1, SPACE)])
        until("the next is placed by us", 60, lambda: "asked" in bound(self.cluster, SPACE) or "it waits")
        if "gpuwise.dev/node" not in listed(self.cluster, SPACE)["asked"]["metadata"]["annotations"]:
            raise SystemExit("the next pod was not gated")
        print(f"a webhook that does not answer: a pod is made after {took:.1f} s and left to kube-scheduler; the next is placed", flush=True)
        self.clear()
        return process

    # What nodes say.

    def flaps(self, process):
        """A node that is sick and well by turns is neither closed nor opened, and nobody spins."""
        self.policy(cordon={"afterSeconds": 3, "wellSeconds": 3, "mostPercent": 100})
        acts = lambda: self.operator.figures(process)['gpuwise_operator_acts_total{act="cordon"}']
        before, seen, turns = acts(), self.looks(process), 16
        for turn in range(turns):
            self.patch(NODES[0], {"status": {"allocatable": {"nvidia.com/gpu": "7" if turn % 2 == 0 else "8"}}}, "--subresource=status")
            time.sleep(0.5)
        looks = self.looks(process) - seen
        closed = acts() - before
        print(f"a node that flaps {turns} times in {turns * 0.5:.0f} s: closed {closed:.0f} times, {looks:.0f} looks", flush=True)
        if closed or looks > 8 * turns:
            raise SystemExit("a node that flaps is closed, or the operator spins")
        self.calm(process)

    def counts(self, process):
        """More GPUs than a node can have are not believed; fewer than are held are said; nothing else is held up."""
        self.policy()
        self.offers(NODES[0], "4000000000")
        where = {"nodeSelector": {"kubernetes.io/hostname": NODES[0]}}
        create(self.cluster, [pod("lied", 1, SPACE, **where), pod("other", 8, SPACE)])
        until("another is placed", 60, lambda: "other" in bound(self.cluster, SPACE) or "it waits")
        said = lambda: self.message("gpupolicy", "default", "Accepted").get("message", "")
        until("the count is said", 30, lambda: "4000000000" in said() or said())
        print(f"counts: {said()}", flush=True)
        if "lied" in bound(self.cluster, SPACE):
            raise SystemExit("a count that cannot be was believed")
        memory = int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{process.pid}/status").read()).group(1)) >> 10
        self.offers(NODES[0], "8")
        until("who waited is placed", 60, lambda: "lied" in bound(self.cluster, SPACE) or "it waits")
        # Fewer than are held.
        held = bound(self.cluster, SPACE)["other"]
        self.patch(held, {"status": {"allocatable": {"nvidia.com/gpu": "2"}}}, "--subresource=status")
        until("what does not add up is said", 30, lambda: held in said() or said())
        print(f"counts: {said()}; at most {memory} MB", flush=True)
        self.calm(process)
        if len(bound(self.cluster, SPACE)) != 2:
            raise SystemExit("a pod was lost")
        self.offers(held, "8")
        self.clear()

    def overflows(self, process):
        """Numbers that no GPU count can be are said on the pod, and its gate does not stay on for ever."""
        gate = {"schedulingGates": [{"name": GATE}]}
        vast = {"by-webhook": pod("by-webhook", 4294967296, SPACE), "by-template": pod("by-template", 9223372036854775807, SPACE, **gate)}
        create(self.cluster, [*vast.values(), pod("usual", 1, SPACE)])
        until("the usual one is placed", 60, lambda: "usual" in bound(self.cluster, SPACE) or "it waits")
        def left():
            all = listed(self.cluster, SPACE)
            notes = [all[name]["metadata"].get("annotations", {}) for name in vast]
            gated = [name for name in vast if all[name]["spec"].get("schedulingGates")]
            said = [note.get("gpuwise.dev/warning") or note.get("gpuwise.dev/reason") for note in notes]
            return (not gated and all and [bool(one and "whole number of GPUs" in one) for one in said] == [True, True]) or (gated, said)
        until("quantities that overflow are left to kube-scheduler, and that is said", 30, left)
        print("quantities that overflow: two pods are left to kube-scheduler, each told why", flush=True)
        self.calm(process)
        self.clear()


def part(check, operator):
    """All of it, on nodes of its own."""
    bad = Bad(check, operator)
    bad.prepare()
    only = os.environ.get("GPUWISE_BAD", "rights timeouts flaps counts overflows older clocks").split()
    process = None
    for one in only:
        if one in ("rights", "clocks"):
            getattr(bad, one)()
            continue
        if one == "timeouts":
            process = bad.timeouts()
            continue
        if process is None or process.poll() is not None:
            process = operator.start(name="bad")
            until("it leads", 30, lambda: operator.leads(process))
            operator.webhook_answers()
        getattr(bad, one)(process)
    bad.finish()
