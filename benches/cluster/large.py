"""What a large cluster costs the operator and the inventory, on a real control plane with KWOK's nodes.

    python3 benches/cluster/large.py GPUWISE START_KUBE [--nodes 5000] [--pods 50000]

Makes nodes of 8 GPUs and pods on them, three fifths of which hold one; then starts `gpuwise operator run` and
`gpuwise fleet import --watch`, one after the other, and prints: time to ready, the most memory held (VmHWM), lists
that the API server was asked for, processor time until then, how soon a change is seen, the share of a core that is
taken while nothing is asked, and how soon each ends. Exit code 1: a bound is missed.
"""

import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / ".ci"))
from cluster import Cluster, free_port, until
from operator_parts import GATE, Operator, node, pod

CONNECTIONS = 16
NAMESPACES = 50
# Changes that are timed, each.
CHANGES = 20
BOUNDS = {"operator": (20.0, 500.0), "fleet import": (20.0, 300.0)}


class Api:
    """The API server by several connections at once: kubectl makes one object after the other."""

    def __init__(self, cluster):
        config = (cluster.folder / "kube" / "kubeconfig").read_text()
        self.token = re.search(r'token: "?([^"\s]+)', config).group(1)
        self.at = urllib.parse.urlsplit(re.search(r'server: "?([^"\s,]+)', config).group(1)).netloc
        self.tls = ssl.create_default_context(cafile=cluster.variables["KUBE_CA"])
        self.own = threading.local()

    def ask(self, verb, path, body=None, form="application/json"):
        if not hasattr(self.own, "connection"):
            self.own.connection = http.client.HTTPSConnection(self.at, context=self.tls, timeout=60)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": form}
        self.own.connection.request(verb, path, body and json.dumps(body), headers)
        answer = self.own.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"{verb} {path}: {answer.status}: {text[:500]}")
        return text

    def make(self, objects):
        """Pairs of a path and an object for it."""
        with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as pool:
            for _ in pool.map(lambda one: self.ask("POST", *one), objects):
                pass

    def lists(self):
        """Lists that were asked for so far, by resource."""
        counts = {}
        for line in self.ask("GET", "/metrics").decode().splitlines():
            if line.startswith("apiserver_request_total{") and 'verb="LIST"' in line:
                name = re.search(r'resource="([^"]*)"', line).group(1)
                counts[name] = counts.get(name, 0) + float(line.rsplit(" ", 1)[1])
        return counts


def running(at, nodes):
    """A pod as templates of services write it: what nobody here reads is most of it."""
    one = pod(f"pod-{at}", 1 if at // nodes % 5 < 3 else 0, f"space-{at % NAMESPACES}", labels={"app": f"app-{at % 997}", "pod-template-hash": f"{at % 997:08x}"})
    one["metadata"]["annotations"] = {"prometheus.io/scrape": "true", "example.com/checksum": f"{at % 997:064x}"}
    main = one["spec"]["containers"][0]
    main["env"] = [{"name": f"SETTING_{k}", "value": f"https://settings.example.com/{k}/{at % 997}"} for k in range(20)]
    main["resources"].setdefault("limits", {}).update({"cpu": "2", "memory": "8Gi"})
    main["readinessProbe"] = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 5}
    main["volumeMounts"] = [{"name": "scratch", "mountPath": "/scratch"}]
    one["spec"] |= {"nodeName": f"big-{at % nodes}", "volumes": [{"name": "scratch", "emptyDir": {}}]}
    return f"/api/v1/namespaces/space-{at % NAMESPACES}/pods", one


def fill(cluster, api, nodes, pods):
    began = time.monotonic()
    api.make(("/api/v1/nodes", node(f"big-{at}")) for at in range(nodes))
    print(f"{nodes} nodes after {time.monotonic() - began:.0f} s", flush=True)
    api.make(("/api/v1/namespaces", {"metadata": {"name": name}}) for name in [*(f"space-{at}" for at in range(NAMESPACES)), "team"])
    time.sleep(3)
    api.make(running(at, nodes) for at in range(pods))
    print(f"{pods} pods after {time.monotonic() - began:.0f} s", flush=True)

    def left():
        text = api.ask("GET", "/api/v1/pods?limit=1&fieldSelector=status.phase%3DPending")
        found = json.loads(text)
        return not found["items"] or "some pods do not run yet"

    until("all pods run", 1200, left)
    print(f"all run after {time.monotonic() - began:.0f} s", flush=True)

    def moves():
        """What is listed last is still written when the first pods run."""
        at = json.loads(api.ask("GET", "/api/v1/pods?limit=1"))["metadata"]["resourceVersion"]
        watch = f"/api/v1/pods?watch=1&resourceVersion={at}&timeoutSeconds=10"
        return not api.ask("GET", watch) or "pods still change"

    until("pods change no more", 900, moves)
    print(f"quiet after {time.monotonic() - began:.0f} s", flush=True)


def peak(process):
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text).group(1)) * 1024 / 1e6


def cores(process, seconds=20):
    """The share of a core that it takes while nothing is asked of it."""
    before = spent(process)
    time.sleep(seconds)
    return (spent(process) - before) / seconds


def wait(process, what, check, seconds=180, step=0.01):
    began = time.monotonic()
    while not check():
        if process.poll() is not None:
            raise SystemExit(f"{what}: the process ended with {process.returncode}")
        if time.monotonic() - began > seconds:
            raise SystemExit(f"{what}: not within {seconds} s")
        time.sleep(step)
    return time.monotonic() - began


def spent(process):
    """Seconds of processor time."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def ended(process, sign, seconds=2):
    """Tells a process to end, and whether it does so in time."""
    began = time.monotonic()
    process.send_signal(sign)
    process.wait(60)
    took = time.monotonic() - began
    print(f"it ends {took:.2f} s after it is told to", flush=True)
    return took <= seconds


def tell(name, ready, process, lists, seen):
    seen, (ready, own) = sorted(seen), ready
    most = peak(process)
    print(
        f"{name}: ready after {ready:.1f} s, of which {own:.1f} s of its processor time, {most:.0f} MB at most; lists {lists}; "
        f"a change is seen after {seen[len(seen) // 2] * 1000:.0f} ms in the median, {seen[-1] * 1000:.0f} ms at most; "
        f"{cores(process):.3f} of a core while nothing is asked",
        flush=True,
    )
    seconds, megabytes = BOUNDS[name]
    return ready <= seconds and most <= megabytes and seen[-1] <= 1


def since(api, before):
    now = api.lists()
    new = {name: int(count - before.get(name, 0)) for name, count in now.items() if count > before.get(name, 0)}
    return {name: count for name, count in sorted(new.items()) if count > 1}


def operates(check, api):
    """From its start until it has seen all, and from a gated pod until its gate is off."""
    operators = Operator(check)
    operators.install("act")
    before, listen = api.lists(), free_port()
    words = [check.gpuwise, "operator", "run", "--kubeconfig", str(operators.config), "--mode", "act", "--listen", f"127.0.0.1:{listen}"]
    log = open(check.folder / "operator.log", "w")
    process = subprocess.Popen(words, stdout=log, stderr=log)

    def ready():
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{listen}/readyz").status == 200
        except OSError:
            return False

    try:
        took = wait(process, "the operator is ready", ready), spent(process)
        seen = []
        for at in range(CHANGES):
            one = pod(f"new-{at}", 1, schedulingGates=[{"name": GATE}])
            api.ask("POST", "/api/v1/namespaces/team/pods", one)
            gone = lambda: "schedulingGates" not in json.loads(api.ask("GET", f"/api/v1/namespaces/team/pods/new-{at}"))["spec"]
            # Before the first it may have to begin to lead.
            first = wait(process, "the gate is off", gone)
            seen += [first] if at else []
        process.metrics_port = listen
        figures = operators.figures(process)
        looks = figures["gpuwise_operator_decision_seconds_sum"] / max(figures["gpuwise_operator_decision_seconds_count"], 1)
        print(f"a decision takes {looks:.3f} s", flush=True)
        kept = tell("operator", took, process, since(api, before), seen)
        # It gives its lease back, and what it has said of traces is sent.
        return ended(process, signal.SIGTERM, 5) and kept
    finally:
        process.kill()
        process.wait(20)


def imports(check, api):
    """From its start until the file is there, and from a node that is cordoned until the file says so."""
    path, before = check.folder / "fleet.toml", api.lists()
    words = [check.gpuwise, "fleet", "import", "--kubeconfig", str(check.folder / "kube" / "kubeconfig"), "--watch", "-o", str(path)]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        took = wait(process, "the file is there", path.exists), spent(process)
        seen = []
        for at in range(CHANGES):
            closed = at % 2 == 0
            api.ask("PATCH", "/api/v1/nodes/big-7", {"spec": {"unschedulable": closed or None}}, "application/merge-patch+json")
            seen.append(wait(process, "the file says so", lambda: ('"draining"' in path.read_text()) == closed))
        kept = tell("fleet import", took, process, since(api, before), seen)
        return ended(process, signal.SIGINT) and kept
    finally:
        process.kill()
        process.wait(20)


class Check:
    """What an operator's parts need of a check."""

    def __init__(self, gpuwise, folder, cluster):
        self.gpuwise, self.folder, self.cluster = gpuwise, folder, cluster

    def run(self, *words):
        return subprocess.run([self.gpuwise, *words], capture_output=True, text=True, check=True).stdout


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("gpuwise")
    flags.add_argument("start")
    flags.add_argument("--nodes", type=int, default=5000)
    flags.add_argument("--pods", type=int, default=50000)
    args = flags.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpuwise-large-") as made:
        folder = pathlib.Path(made)
        cluster = Cluster(args.start, folder, ["--kwok"])
        try:
            api = Api(cluster)
            fill(cluster, api, args.nodes, args.pods)
            check = Check(os.path.abspath(args.gpuwise), folder, cluster)
            kept = [part(check, api) for part in (operates, imports)]
        finally:
            cluster.stop()
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
