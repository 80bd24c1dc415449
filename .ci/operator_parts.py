"""The operator on a real control plane: what is installed, gates, gangs, who leads, what is written, how fast."""

import json
import os
import re
import signal
import subprocess
import time
import urllib.request

from cluster import free_port, until
from operator_faults import Api, Proxy

SYSTEM = "gpuwise-system"
GATE = "gpuwise.dev/placement"


def pod(name, gpus=1, namespace="team", **more):
    """A pod that asks for GPUs; `labels`, `annotations` and fields of its spec beside that."""
    metadata = {"name": name, "namespace": namespace}
    metadata.update({key: more.pop(key) for key in ("labels", "annotations") if key in more})
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    spec = {"containers": [{"name": "c", "image": "none", "resources": {"limits": limits}}], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def node(name, gpus=8, **labels):
    labels = {"kubernetes.io/hostname": name, "type": "kwok", "nvidia.com/gpu.product": "NVIDIA-H200", **labels}
    room = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(gpus)}
    metadata = {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": room, "allocatable": room}}


class Operator:
    """Operators that run outside the cluster under the account that the manifests make."""

    def __init__(self, check):
        self.check, self.cluster = check, check.cluster
        self.running, self.port, self.mode = [], free_port(), None

    def install(self, mode):
        words = ["operator", "manifests", "--mode", mode]
        if mode == "act":
            words += ["--webhook-url", f"https://127.0.0.1:{self.port}"]
        text = self.check.run(*words)
        # What needs the namespace is tried once that is there.
        self.cluster.kubectl("apply", "-f", "-", given=text.split("\n---\n")[0] + "\n")
        wanted = ["apply", "--server-side", "--validate=strict", "-f", "-"]
        self.cluster.kubectl(*wanted, "--dry-run=server", given=text)
        self.cluster.kubectl(*wanted, "--force-conflicts", given=text)
        # No container runs here: the operator runs outside, under the same account.
        self.cluster.kubectl("scale", "deployment", "gpuwise-operator", "-n", SYSTEM, "--replicas", "0")
        self.mode = mode
        token = self.cluster.kubectl("create", "token", "gpuwise-operator", "-n", SYSTEM, "--duration", "4h").strip()
        admin = (self.check.folder / "kube" / "kubeconfig").read_text()
        self.config = self.check.folder / f"operator-{mode}.kubeconfig"
        self.config.write_text(re.sub(r'token: "[^"]*"', f'token: "{token}"', admin))

    def start(self, *more, name=None, webhook=True, lease=3, environment=None):
        listen = free_port()
        words = [self.check.gpuwise, "operator", "run", "--kubeconfig", str(self.config), "--mode", self.mode]
        words += ["--listen", f"127.0.0.1:{listen}", "--lease", str(lease), *more]
        if self.mode == "act" and webhook:
            words += ["--webhook", f"127.0.0.1:{self.port}"]
        words += ["--identity", name or f"operator-{len(self.running)}"]
        log = open(self.check.folder / f"operator-{len(self.running)}.log", "w")
        process = subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, **(environment or {})})
        process.metrics_port = listen
        self.running.append(process)

        def ready():
            if process.poll() is not None:
                raise SystemExit(f"the operator ended: {open(log.name).read()}")
            try:
                return urllib.request.urlopen(f"http://127.0.0.1:{listen}/readyz").status == 200
            except OSError as error:
                return str(error)

        until("the operator is ready", 60, ready)
        return process

    def figures(self, process):
        text = urllib.request.urlopen(f"http://127.0.0.1:{process.metrics_port}/metrics").read().decode()
        lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in lines}

    def leads(self, process):
        return self.figures(process)['leader_election_master_status{name="gpuwise-operator"}'] == 1

    def webhook_answers(self):
        """The API server knows the authority, and the webhook gates."""
        def check():
            made = self.cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", given=json.dumps(pod("probe")))
            return any(gate["name"] == GATE for gate in json.loads(made)["spec"].get("schedulingGates", [])) or "no gate"
        until("the webhook gates", 60, check)

    def kill(self, process, how=signal.SIGKILL):
        process.send_signal(how)
        process.wait(20)

    def stop(self):
        for process in self.running:
            if process.poll() is None:
                self.kill(process)


def listed(cluster, namespace="team"):
    return {one["metadata"]["name"]: one for one in json.loads(cluster.kubectl("get", "pods", "-n", namespace, "-o", "json"))["items"]}


def bound(cluster, namespace="team"):
    return {name: one["spec"]["nodeName"] for name, one in listed(cluster, namespace).items() if one["spec"].get("nodeName")}


def placed(cluster, namespace="team"):
    """How many have lost their gates."""
    return sum(not one["spec"].get("schedulingGates") for one in listed(cluster, namespace).values())


def create(cluster, objects):
    cluster.kubectl("create", "-f", "-", given="\n---\n".join(json.dumps(one) for one in objects))


def clear(cluster, namespace="team"):
    cluster.kubectl("delete", "--raw", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
    until("pods are gone", 120, lambda: not listed(cluster, namespace))


def where_we_said(cluster, namespace="team"):
    """kube-scheduler bound every pod where the operator said, and no node holds more than it has."""
    held = {}
    for name, one in listed(cluster, namespace).items():
        said, node = one["metadata"].get("annotations", {}).get("gpuwise.dev/node"), one["spec"].get("nodeName")
        if node and said != node:
            raise SystemExit(f"{name} was sent to {said} and is on {node}")
        limits = one["spec"]["containers"][0]["resources"].get("limits", {})
        held[node] = held.get(node, 0) + int(limits.get("nvidia.com/gpu", 0))
    over = {node: gpus for node, gpus in held.items() if node and gpus > 8}
    if over:
        raise SystemExit(f"more GPUs are held than there are: {over}")


def part(check, operator):
    """All of it, one after the other, in one cluster."""
    cluster = check.cluster
    cluster.kubectl("apply", "-f", "-", given="\n---\n".join(json.dumps(node(f"more-{i}")) for i in range(12)))
    cluster.kubectl("create", "namespace", "team")
    observes(check, operator)
    resources(check, operator)
    places(check, operator)
    gangs(check, operator)
    restarts(check, operator)
    certificates(check, operator)
    workloads(check, operator)
    namespaces(check, operator)
    lost_answers(check, operator)
    speed(check, operator)
    operator.stop()


def observes(check, operator):
    """Without the webhook nothing is gated; observe writes nothing to pods, propose says where and why."""
    cluster = check.cluster
    for mode in ["observe", "propose"]:
        operator.install(mode)
        text = cluster.kubectl("auth", "can-i", "--list", "--as", f"system:serviceaccount:{SYSTEM}:gpuwise-operator")
        if re.search(r"^pods +.*(patch|update|delete)", text, re.M) or "secrets" in text:
            raise SystemExit(f"mode {mode} may do too much:\n{text}")
        process = operator.start(name=mode)
        until(f"{mode} leads", 30, lambda: operator.leads(process))
        create(cluster, [pod("huge", 64)])
        if mode == "propose":
            said = lambda: [c for c in listed(cluster)["huge"]["status"].get("conditions", []) if c["type"] == "gpuwise.dev/Placed"]
            until("propose says why a pod waits", 30, lambda: bool(said()) or "nothing is said")
            print(f"propose: {said()[0]['reason']}: {said()[0]['message']}", flush=True)
        else:
            time.sleep(2)
            if any(c["type"].startswith("gpuwise") for c in listed(cluster)["huge"]["status"].get("conditions", [])):
                raise SystemExit("mode observe wrote to a pod")
        figures = operator.figures(process)
        writes = {name: value for name, value in figures.items() if name.startswith("rest_client_requests_total")}
        print(f"{mode}: writes {writes}", flush=True)
        clear(cluster)
        operator.kill(process, signal.SIGTERM)
    operator.install("act")
    cluster.kubectl("label", "namespace", "team", "gpuwise.dev/managed=true")


def resources(check, operator):
    """Definitions refuse what is wrong, and say why."""
    cluster = check.cluster
    until("definitions stand", 30, lambda: "True" in cluster.kubectl("get", "crd", "gpuquotas.gpuwise.dev", "-o", "jsonpath={.status.conditions[*].status}"))
    bad = [
        ({"kind": "GpuPolicy", "metadata": {"name": "other"}, "spec": {}}, "named `default`"),
        ({"kind": "GpuPolicy", "metadata": {"name": "default"}, "spec": {"order": "random"}}, "Unsupported value"),
        ({"kind": "GpuQuota", "metadata": {"name": "q"}, "spec": {"namespaces": ["a"], "gpus": 1, "lending": 2}}, "no more can be lent"),
        ({"kind": "GpuQuota", "metadata": {"name": "q"}, "spec": {"namespaces": ["a"], "gpus": 99999999999}}, "less than or equal"),
        ({"kind": "GpuPriceBook", "metadata": {"name": "default"}, "spec": {"currency": "usd", "prices": [{"product": "a", "perHour": "1"}]}}, "should match"),
        ({"kind": "GpuWorkload", "metadata": {"name": "w", "namespace": "team"}, "spec": {"model": "m", "traffic": {"rate": "much"}}}, "should match"),
    ]
    for object, words in bad:
        given = json.dumps({"apiVersion": "gpuwise.dev/v1alpha1", **object})
        program = str(cluster.variables["KUBE_BIN"]) + "/kubectl"
        command = [program, "--kubeconfig", str(check.folder / "kube" / "kubeconfig"), "create", "--dry-run=server", "-f", "-"]
        done = subprocess.run(command, input=given, capture_output=True, text=True)
        if done.returncode == 0 or words not in done.stderr:
            raise SystemExit(f"{given} was to be refused with {words!r}: {done.stderr or done.stdout}")
    print(f"{len(bad)} wrong objects are refused by the definitions, each with its reason", flush=True)


def places(check, operator):
    """Pods are gated, placed where there is room, bound where we said; statuses say what counts."""
    cluster = check.cluster
    operator.start(name="first")
    operator.webhook_answers()
    quota = {"kind": "GpuQuota", "metadata": {"name": "team"}, "spec": {"namespaces": ["team"], "gpus": 500}}
    policy = {"kind": "GpuPolicy", "metadata": {"name": "default"}, "spec": {"order": "priority"}}
    prices = {"kind": "GpuPriceBook", "metadata": {"name": "default"}, "spec": {"currency": "USD", "prices": [{"product": "NVIDIA-H200", "perHour": "3.29"}]}}
    create(cluster, [{"apiVersion": "gpuwise.dev/v1alpha1", **one} for one in (quota, policy, prices)])
    create(cluster, [pod(f"p-{i}", 1 + i % 4) for i in range(64)])
    begun = time.monotonic()
    until("those who fit are bound", 60, lambda: sum(1 + int(name[2:]) % 4 for name in bound(cluster)) >= 16 * 8 - 3 or len(bound(cluster)))
    where_we_said(cluster)
    waits = [one for one in listed(cluster).values() if not one["spec"].get("nodeName")]
    print(f"{len(bound(cluster))} of 64 pods are bound where we said after {time.monotonic() - begun:.1f} s; {len(waits)} wait", flush=True)
    name = waits[0]["metadata"]["name"]
    plugin = check.folder / "kubectl-gpuwise"
    if not plugin.exists():
        plugin.symlink_to(os.path.abspath(check.gpuwise))
    asked = [str(plugin), "why", f"team/{name}", "--kubeconfig", str(check.folder / "kube" / "kubeconfig")]
    done = subprocess.run(asked, capture_output=True, text=True)
    print(f"kubectl gpuwise why {name}: exit {done.returncode}: {done.stdout.strip()} {done.stderr.strip()}", flush=True)
    if done.returncode != 1 or "GPU" not in done.stdout:
        raise SystemExit("why a pod waits is not said")
    for kind, name in [("gpuquota", "team"), ("gpupolicy", "default"), ("gpupricebook", "default")]:
        status = lambda: cluster.field(kind, name, ".status.conditions[?(@.type=='Accepted')].status")
        until(f"{kind} is accepted", 30, lambda: status() == "True" or status())
    until("the quota counts", 30, lambda: int(cluster.field("gpuquota", "team", ".status.used") or 0) > 100)
    warned = cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", given=json.dumps(pod("odd", 1, annotations={"gpuwise.dev/gang-size": "many"})))
    if "schedulingGates" in json.loads(warned)["spec"] or "gpuwise.dev/warning" not in warned:
        raise SystemExit("contradictory annotations are to be let through with a warning")
    clear(cluster)


def gangs(check, operator):
    """Gangs of four on a full cluster: four or none, by annotation and by in-tree PodGroup."""
    cluster = check.cluster
    group = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "tree", "namespace": "team"}}
    group["spec"] = {"schedulingPolicy": {"gang": {"minCount": 4}}}
    create(cluster, [group])
    pods = []
    for gang in range(5):
        note = {"gpuwise.dev/gang": f"g{gang}", "gpuwise.dev/gang-size": "4"}
        pods += [pod(f"g{gang}-{i}", 8, annotations=note) for i in range(4)]
    pods += [pod(f"tree-{i}", 8, schedulingGroup={"podGroupName": "tree"}) for i in range(4)]
    create(cluster, pods)
    until("16 nodes hold four gangs", 60, lambda: len(bound(cluster)) == 16 or len(bound(cluster)))
    time.sleep(1)
    counts = {}
    for name in bound(cluster):
        counts[name.split("-")[0]] = counts.get(name.split("-")[0], 0) + 1
    if set(counts.values()) != {4}:
        raise SystemExit(f"gangs are bound in part: {counts}")
    where_we_said(cluster)
    gone = next(iter(counts))
    cluster.kubectl("delete", "pods", "-n", "team", "--force", "--grace-period=0", *[f"{gone}-{i}" for i in range(4)])
    until("the next gang follows", 60, lambda: len(bound(cluster)) == 16 or len(bound(cluster)))
    print(f"six gangs of four 8-GPU pods on 16 nodes: four whole gangs bound, {sorted(counts)}; when {gone} ends the next follows", flush=True)
    clear(cluster)
    cluster.kubectl("delete", "podgroup", "tree", "-n", "team")


def restarts(check, operator):
    """Two operators: one leads; it is killed in the middle of it, and the other goes on."""
    cluster = check.cluster
    first = next((one for one in operator.running if one.poll() is None), None) or operator.start(name="first")
    until("the first leads", 30, lambda: operator.leads(first))
    second = operator.start(name="second", webhook=False)
    if operator.leads(second) or not operator.leads(first):
        raise SystemExit("two lead, or none")
    note = lambda gang: {"gpuwise.dev/gang": f"k{gang}", "gpuwise.dev/gang-size": "4"}
    # Wherever it is killed: before it saw a pod, between two of a gang, after the last.
    for round, wait in enumerate([0.0, 0.1, 0.2, 0.35]):
        create(cluster, [pod(f"k{gang}-{i}", 8, annotations=note(gang), schedulingGates=[{"name": GATE}]) for gang in range(4) for i in range(4)])
        time.sleep(wait)
        operator.kill(first)
        killed, begun = placed(cluster), time.monotonic()
        until("the other leads", 30, lambda: operator.leads(second))
        until("all are bound", 60, lambda: len(bound(cluster)) == 16 or len(bound(cluster)))
        where_we_said(cluster)
        took = time.monotonic() - begun
        print(f"killed with {killed} of 16 gates off: the other leads and all are bound after {took:.1f} s", flush=True)
        clear(cluster)
        first, second = second, operator.start(name=f"round-{round}", webhook=False)
    operator.kill(first, signal.SIGTERM)
    operator.kill(second, signal.SIGTERM)


def certificates(check, operator):
    """A certificate of some seconds is renewed before it ends, and no pod goes ungated."""
    cluster = check.cluster
    process = operator.start("--certificate-days", "0.0003", name="short")
    operator.webhook_answers()
    ends = lambda: operator.figures(process)["gpuwise_operator_certificate_end_seconds"]
    first, made = ends(), 0
    began = time.monotonic()
    while ends() < first + 40:
        if time.monotonic() - began > 120:
            raise SystemExit("the certificate is not renewed")
        out = cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", given=json.dumps(pod("probe")))
        if GATE not in out:
            raise SystemExit("a pod got no gate while the certificate was renewed")
        made += 1
    print(f"certificates of 26 s: renewed for {time.monotonic() - began:.0f} s, {made} pods all gated", flush=True)
    operator.kill(process, signal.SIGTERM)


def workloads(check, operator):
    """A model with its SLO and traffic gets GPUs, a Deployment and a Service; they go with it."""
    cluster = check.cluster
    process = operator.start(name="sizes")
    operator.webhook_answers()
    object = {"apiVersion": "gpuwise.dev/v1alpha1", "kind": "GpuWorkload", "metadata": {"name": "chat", "namespace": "team"}}
    object["spec"] = {"model": "meta-llama/Llama-3.1-8B", "traffic": {"rate": "8/s"}, "slo": {"ttft": "p95:1s", "tpot": "p95:50ms"}}
    create(cluster, [object])
    get = lambda path: cluster.kubectl("get", "gpuworkload", "chat", "-n", "team", "-o", "jsonpath={" + path + "}")
    until("it is sized", 60, lambda: get('.status.conditions[?(@.type=="Applied")].status') == "True" or get(".status"))
    replicas = int(get(".status.replicas"))
    until("its pods run where we said", 60, lambda: len(bound(cluster)) == replicas or len(bound(cluster)))
    where_we_said(cluster)
    print(f"GpuWorkload chat: {get('.status.decision.why')}; {get('.status.decision.costPerHour')}/h", flush=True)
    cluster.kubectl("scale", "gpuworkload", "chat", "-n", "team", "--replicas", "3")
    until("it is scaled", 60, lambda: len(bound(cluster)) == 3 or len(bound(cluster)))
    wrong = json.loads(json.dumps(object))
    wrong["metadata"]["name"], wrong["spec"]["model"] = "nobody", "no-such/model"
    create(cluster, [wrong])
    said = lambda: cluster.kubectl("get", "gpuworkload", "nobody", "-n", "team", "-o", 'jsonpath={.status.conditions[?(@.type=="Sized")].message}')
    until("what is wrong is said", 60, lambda: bool(said()) or "nothing")
    print(f"GpuWorkload nobody: {said()}", flush=True)
    cluster.kubectl("delete", "gpuworkload", "chat", "nobody", "-n", "team")
    until("what was made goes with it", 60, lambda: not cluster.kubectl("get", "deployments,services", "-n", "team", "-o", "name"))
    clear(cluster)
    operator.kill(process, signal.SIGTERM)


def namespaces(check, operator):
    """A namespace that goes in the middle loses nothing else, and nothing is spun."""
    cluster = check.cluster
    process = operator.start(name="third")
    operator.webhook_answers()
    until("the third leads", 30, lambda: operator.leads(process))
    cluster.kubectl("create", "namespace", "going")
    cluster.kubectl("label", "namespace", "going", "gpuwise.dev/managed=true")
    create(cluster, [pod(f"x-{i}", 1, namespace="going") for i in range(60)])
    cluster.kubectl("delete", "namespace", "going", "--wait=false")
    create(cluster, [pod(f"y-{i}", 1) for i in range(20)])
    until("others are bound meanwhile", 60, lambda: len(bound(cluster)) == 20 or len(bound(cluster)))
    looks = lambda: operator.figures(process)["controller_runtime_reconcile_time_seconds_count"]
    until("the namespace is gone", 90, lambda: not cluster.kubectl("get", "namespace", "going", "--ignore-not-found"))
    before = looks()
    time.sleep(5)
    print(f"a namespace deleted in the middle: 20 others bound; {looks() - before:.0f} looks in 5 s afterwards", flush=True)
    if looks() - before > 50:
        raise SystemExit("the operator spins")
    clear(cluster)
    operator.kill(process, signal.SIGTERM)


def lost_answers(check, operator, pods=60):
    """Gates whose writes were taken and not answered are counted like the others, and no GPU is given twice."""
    cluster = check.cluster
    proxy = Proxy(Api(check.folder / "kube" / "kubeconfig"))
    plain, operator.config = operator.config, check.folder / "operator-lossy.kubeconfig"
    operator.config.write_text(re.sub(r"https://[^\s\",}]+", f"http://127.0.0.1:{proxy.port}", plain.read_text()))
    process = operator.start(name="lossy")
    operator.config = plain
    operator.webhook_answers()
    until("the one that loses answers leads", 30, lambda: operator.leads(process))
    proxy.arm(1, 0.3, None, None)
    create(cluster, [pod(f"l-{i}", 1) for i in range(pods)])
    until("all are bound", 120, lambda: len(bound(cluster)) == pods or len(bound(cluster)))
    counted = lambda: operator.figures(process)["gpuwise_operator_pods_placed_total"]
    until("gates off without an answer are counted", 30, lambda: counted() == pods or counted())
    where_we_said(cluster)
    print(f"{pods} pods, of three writes in ten the answer is lost, refused or a conflict: all counted once", flush=True)
    clear(cluster)
    operator.kill(process, signal.SIGTERM)


def speed(check, operator, nodes=500, pods=1000):
    """From the gate to its end, for many pods on many nodes."""
    cluster = check.cluster
    cluster.kubectl("apply", "--server-side", "-f", "-", given="\n---\n".join(json.dumps(node(f"wide-{i}")) for i in range(nodes)))
    cluster.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=60s")
    process = operator.start(name="fast")
    operator.webhook_answers()
    until("it leads", 30, lambda: operator.leads(process))
    before = operator.figures(process)
    begun = time.monotonic()
    lists = [{"apiVersion": "v1", "kind": "List", "items": [pod(f"s{k}-{i}", 1 + i % 4) for i in range(pods // 4)]} for k in range(4)]
    program = str(cluster.variables["KUBE_BIN"]) + "/kubectl"
    command = [program, "--kubeconfig", str(check.folder / "kube" / "kubeconfig"), "create", "-f", "-"]
    makers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) for _ in lists]
    for maker, one in zip(makers, lists):
        maker.stdin.write(json.dumps(one))
        maker.stdin.close()
    for maker in makers:
        maker.wait()
    created = time.monotonic() - begun
    placed = lambda: operator.figures(process)["gpuwise_operator_pods_placed_total"] - before["gpuwise_operator_pods_placed_total"]
    until("all gates are off", 180, lambda: placed() >= pods or placed())
    whole = time.monotonic() - begun
    until("all events are written", 60, lambda: operator.figures(process).get('rest_client_requests_total{method="POST",code="200"}', 0) >= pods - 5)
    figures = operator.figures(process)
    def quantile(name, q):
        count = figures[f"{name}_count"] - before.get(f"{name}_count", 0)
        rows = [(float(re.search(r'le="([^"]+)"', key).group(1)), value - before.get(key, 0)) for key, value in figures.items() if key.startswith(f"{name}_bucket")]
        return next((bound for bound, seen in sorted(rows) if seen >= q * count), float("inf"))
    def mean(name):
        count = figures[f"{name}_count"] - before.get(f"{name}_count", 0)
        return (figures[f"{name}_sum"] - before.get(f"{name}_sum", 0)) / max(count, 1)
    writes = sum(value - before.get(name, 0) for name, value in figures.items() if name.startswith("rest_client_requests_total"))
    print(
        f"{pods} pods on {nodes} more nodes: created in {created:.1f} s, gates off after {whole:.1f} s ({pods / whole:.0f} pods/s); "
        f"from a watch's word to our write p50 <= {quantile('gpuwise_operator_place_seconds', 0.5)} s, p99 <= {quantile('gpuwise_operator_place_seconds', 0.99)} s; "
        f"gated for p50 <= {quantile('gpuwise_operator_gated_seconds', 0.5)} s, p99 <= {quantile('gpuwise_operator_gated_seconds', 0.99)} s, "
        f"mean {mean('gpuwise_operator_gated_seconds'):.3f} s; decisions mean {mean('gpuwise_operator_decision_seconds'):.3f} s; "
        f"a write takes {mean('rest_client_request_duration_seconds'):.3f} s of the API server; {writes / pods:.2f} writes a pod; "
        f"webhook mean {1000 * mean('controller_runtime_webhook_latency_seconds'):.2f} ms",
        flush=True,
    )
    until("all are bound", 240, lambda: len(bound(cluster)) == pods or len(bound(cluster)))
    where_we_said(cluster)
    if writes / pods > 3:
        raise SystemExit("more than three writes a pod")
    clear(cluster)
    operator.kill(process, signal.SIGTERM)
