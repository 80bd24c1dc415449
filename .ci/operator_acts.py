"""What the operator disrupts, on a real control plane: one after the other, and by chaos.

`GPUWISE_SCENARIOS=N` says how many scenarios of chaos there are, `GPUWISE_SEED` the first of their seeds,
`GPUWISE_KINDS` what may happen in them.
"""

import os
import re
import signal

from cluster import until
from operator_claimed import Claimed
from operator_claims import NODES as CLAIMED
from operator_chaos import SMALL, Workloads
from operator_disrupts import Disrupts
from operator_faults import Api, Proxy, SPACE
from operator_objects import NODES, PRODUCT, SETTLED, budget, gated, is_ready
from operator_parts import create, node
from operator_scenarios import Scenarios
from operator_sets import Sets


class Acts(Disrupts, Scenarios, Workloads, Sets, Claimed):
    is_ready = staticmethod(is_ready)
    budget_of = staticmethod(budget)

    def __init__(self, check, operator):
        self.check, self.operator, self.cluster = check, operator, check.cluster
        self.api = Api(check.folder / "kube" / "kubeconfig")
        self.proxy = Proxy(self.api)
        self.started = 0

    # What there is.

    def prepare(self):
        self.cluster.kubectl("create", "namespace", SPACE)
        high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "acts-high"}, "value": 100}
        nodes = [node(name, acts="yes", **{"nvidia.com/gpu.product": PRODUCT}) for name in NODES]
        create(self.cluster, [high, *nodes])
        self.cluster.kubectl("wait", "--for=condition=Ready", *[f"node/{name}" for name in NODES], "--timeout=60s")

    def policy(self, **spec):
        made = {"apiVersion": "gpuwise.dev/v1alpha1", "kind": "GpuPolicy", "metadata": {"name": "default"}, "spec": spec}
        self.cluster.kubectl("delete", "gpupolicy", "default", "--ignore-not-found")
        create(self.cluster, [made])

    def clear(self):
        for path in ("/apis/apps/v1/namespaces/{}/deployments", "/apis/apps/v1/namespaces/{}/statefulsets", "/apis/apps/v1/namespaces/{}/replicasets", "/apis/policy/v1/namespaces/{}/poddisruptionbudgets", "/api/v1/namespaces/{}/pods"):
            self.api.ask("DELETE", path.format(SPACE) + "?gracePeriodSeconds=0&propagationPolicy=Background")

        def gone():
            left = self.api.pods()
            for one in left:
                self.api.ask("DELETE", f"/api/v1/namespaces/{SPACE}/pods/{one['metadata']['name']}?gracePeriodSeconds=0")
            return not left or f"{len(left)} pods"

        until("pods are gone", 60, gone)

    def start(self, name, kind="", proxied=True):
        words = self.prometheus.words() if kind == "scale" else []
        if proxied:
            text = self.operator.config.read_text()
            config = self.check.folder / "operator-chaos.kubeconfig"
            config.write_text(re.sub(r"https://[^\s\",}]+", f"http://127.0.0.1:{self.proxy.port}", text))
            plain, self.operator.config = self.operator.config, config
            try:
                return self.operator.start(*words, name=name, webhook=False)
            finally:
                self.operator.config = plain
        return self.operator.start(*words, name=name, webhook=False)

    def make(self, *objects):
        create(self.cluster, list(objects))

    def filler(self, i, gpus=4, name=None, anywhere=False):
        """A pod that takes half of a node, or so."""
        where = {} if anywhere else {"nodeSelector": {"kubernetes.io/hostname": NODES[i]}}
        return gated(name or f"fill-{i}", gpus, **where)

    def ready(self, app, wanted):
        """Whether so many pods are ready, of an app or of all."""
        mine = [one for one in self.api.pods() if not app or one["metadata"].get("labels", {}).get("app") == app]
        count = sum(map(is_ready, mine))
        return count == wanted or count

    def full(self, spec):
        """A Deployment's pods run everywhere."""
        self.make(spec)
        wanted = spec["spec"]["replicas"]
        until(f"{wanted} pods run", SETTLED, lambda: sum(map(is_ready, self.api.pods())) == wanted or sum(map(is_ready, self.api.pods())))

    def finish(self):
        self.operator.stop()
        self.cluster.kubectl("delete", "gpupolicy", "default", "--ignore-not-found")
        self.cluster.kubectl("delete", "namespace", SPACE, "--wait=false")
        self.cluster.kubectl("delete", "node", "--ignore-not-found", *NODES, *SMALL, *CLAIMED)
        self.cluster.kubectl("delete", "resourceslices", "--ignore-not-found", *[f"{name}-{part}" for name in CLAIMED for part in ("counters", "devices")])


def part(check, operator):
    """All of it, on nodes of its own."""
    if operator.mode != "act":
        operator.install("act")
    acts = Acts(check, operator)
    acts.prepare()
    only = os.environ.get("GPUWISE_ACTS", "preempts moves sets cuts suspects starves idles chaos").split()
    acts.process = operator.start(name="acts", webhook=False)
    until("it leads", 30, lambda: operator.leads(acts.process))
    for one in only:
        if one == "chaos":
            operator.kill(acts.process, signal.SIGTERM)
            acts.chaos(int(os.environ.get("GPUWISE_SCENARIOS", "15")))
        elif one == "idles":
            acts.idles(int(os.environ.get("GPUWISE_IDLE", "10")))
        else:
            getattr(acts, one)()
    acts.finish()
