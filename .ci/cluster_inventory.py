"""`gpuwise fleet import` of a live cluster, held against what kubectl says of the same."""

import json
import pathlib
import signal
import subprocess
import time
import tomllib

from cluster import until

NODES = """
apiVersion: v1
kind: Node
metadata:
  name: NAME
  annotations: {kwok.x-k8s.io/node: fake}
  labels: {kubernetes.io/hostname: NAME, type: kwok, LABELS}
spec: {taints: []}
status:
  capacity: &c {cpu: "64", memory: 512Gi, pods: "110", RESOURCES}
  allocatable: *c
"""
ADDED = {
    "shared": ('nvidia.com/gpu.product: NVIDIA-L4-SHARED, nvidia.com/gpu.count: "2", nvidia.com/gpu.replicas: "4"', 'nvidia.com/gpu: "8"'),
    "cut": ('nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, nvidia.com/gpu.count: "2", nvidia.com/mig.strategy: mixed', 'nvidia.com/mig-3g.40gb: "4"'),
    "dra": ("kind: dra", 'example.com/nic: "1"'),
    "drained": ('nvidia.com/gpu.product: NVIDIA-H200, nvidia.com/gpu.count: "8"', 'nvidia.com/gpu: "8"'),
    "plain": ("kind: plain", 'example.com/nic: "2"'),
}
# GPUs that a node has: boards, not turns or instances.
BOARDS = {"shared": 2, "cut": 2, "dra": 1, "drained": 8, "plain": 0}


def pod(name, resources, more=""):
    limits = ", ".join(f'{key}: "{value}"' for key, value in resources.items())
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default}}
spec:
  {more}
  containers: [{{name: c, image: none, resources: {{requests: {{cpu: "2", memory: 8Gi}}, limits: {{{limits}}}}}}}]
"""


def objects():
    nodes = [NODES.replace("NAME", name).replace("LABELS", labels).replace("RESOURCES", amounts) for name, (labels, amounts) in ADDED.items()]
    pods = [
        pod("four", {"nvidia.com/gpu": 4}, "nodeSelector: {nvidia.com/gpu.product: NVIDIA-H200}"),
        pod("turn", {"nvidia.com/gpu": 1}, "nodeSelector: {kubernetes.io/hostname: shared}"),
        pod("part", {"nvidia.com/mig-3g.40gb": 1}),
        pod("vast", {"nvidia.com/gpu": 64}),
        pod("gated", {"nvidia.com/gpu": 1}, "schedulingGates: [{name: example.com/hold}]"),
        pod("plain", {}, "nodeSelector: {kubernetes.io/hostname: gpu-1}"),
    ]
    return "---".join(nodes), "---".join(pods)


class Inventory:
    def __init__(self, check):
        self.check, self.cluster, self.folder = check, check.cluster, check.folder
        self.config = str(self.folder / "kube" / "kubeconfig")

    def run(self):
        nodes, pods = objects()
        self.cluster.kubectl("create", "-f", "-", given=nodes)
        self.cluster.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=60s")
        self.cluster.kubectl("cordon", "drained")
        examples = pathlib.Path(self.check.start).parent / "examples"
        devices = (examples / "dra-mig.yaml").read_text().replace("gpu-0", "dra")
        # Of what no product is said nobody knows how it is cut.
        devices = devices.replace("profile: {string: full}", "profile: {string: full}, productName: {string: NVIDIA H200}")
        self.cluster.apply(devices)
        self.cluster.kubectl("create", "-f", "-", given=pods)
        held = lambda: self.phases(["four", "turn", "part", "plain", "mig-a", "mig-b"])
        until("pods run", 120, lambda: held() == {"Running"} or held())
        said = self.imported()
        self.against_kubectl(said)
        self.follows()
        self.refused()
        # Other parts count GPUs.
        for given in (devices, pods, nodes):
            self.cluster.kubectl("delete", "--wait=false", "--ignore-not-found", "-f", "-", given=given)
        gone = lambda: self.cluster.kubectl("get", "pods", "--ignore-not-found", "four", "vast", "gated")
        until("the pods of this part are gone", 60, lambda: not gone() or gone())

    def phases(self, names):
        listed = json.loads(self.cluster.kubectl("get", "pods", "-o", "json"))["items"]
        return {one["status"]["phase"] for one in listed if one["metadata"]["name"] in names}

    def imported(self):
        began = time.monotonic()
        words = ["fleet", "import", "--kubeconfig", self.config, "-o", str(self.folder / "fleet.toml"), "--jobs", str(self.folder / "jobs.toml")]
        done = self.called(*words)
        if done.returncode != 0:
            raise SystemExit(f"fleet import: {done.stderr}")
        print(f"fleet import: {time.monotonic() - began:.1f} s; said {done.stderr.strip() or 'nothing'}", flush=True)
        # What is written is read by the same program, and by one that is not ours.
        self.check.run("fleet", "check", str(self.folder / "fleet.toml"), "--jobs", str(self.folder / "jobs.toml"))
        return done.stderr

    def called(self, *words):
        return subprocess.run([self.check.gpuwise, *words], capture_output=True, text=True, timeout=120)

    def fleet(self):
        """GPUs and health by node, as the file has it."""
        file = tomllib.loads((self.folder / "fleet.toml").read_text())
        out = {}
        for table in file["node"]:
            gpus = table.get("gpus", [])
            gpus = [gpus] if isinstance(gpus, str) else gpus
            count = sum(int(text.split("x")[0]) for text in gpus)
            for name in ranged(table["name"]):
                out[name] = (count, table.get("health", "up"))
        return out

    def against_kubectl(self, said):
        nodes = json.loads(self.cluster.kubectl("get", "nodes", "-o", "json"))["items"]
        expected = {}
        for node in nodes:
            name = node["metadata"]["name"]
            count = BOARDS.get(name, int(node["status"]["allocatable"].get("nvidia.com/gpu", 0)))
            expected[name] = (count, "draining" if node["spec"].get("unschedulable") else "up")
        same("nodes, GPUs and health", self.fleet(), expected)
        jobs = tomllib.loads((self.folder / "jobs.toml").read_text())["job"]
        running = {job["name"]: job["running"] for job in jobs if "running" in job}
        waiting = {job["name"] for job in jobs if "running" not in job}
        pods = json.loads(self.cluster.kubectl("get", "pods", "-A", "-o", "json"))["items"]
        placed = {}
        for one in pods:
            name = f"{one['metadata']['namespace']}/{one['metadata']['name']}"
            asks = any("nvidia.com/" in key for c in one["spec"]["containers"] for key in c["resources"].get("limits", {}))
            if asks or one["spec"].get("resourceClaims"):
                placed[name] = one["spec"].get("nodeName")
        same("who runs where", {name: where.split(":")[0] for name, where in running.items() if "/" in name}, {name: node for name, node in placed.items() if node})
        same("who waits", waiting, {name for name, node in placed.items() if not node})
        # Of claims it is known which GPU it is.
        if not running["default/mig-a"].startswith("dra:0@") or running["default/mig-a"] == running["default/mig-b"]:
            raise SystemExit(f"partitions: {running}")
        if "offered-twice" in said or "held-beyond" in said:
            raise SystemExit(f"findings where nothing is wrong: {said}")
        print(f"{len(expected)} nodes, {len(running)} jobs that run, {len(waiting)} that wait: as kubectl says", flush=True)

    def follows(self):
        """A change is in the file soon; an interrupt ends it cleanly."""
        path = self.folder / "fleet.toml"
        words = [self.check.gpuwise, "fleet", "import", "--kubeconfig", self.config, "--watch", "-o", str(path)]
        path.unlink()
        follower = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        try:
            until("the first file", 60, path.exists)
            took = []
            for verb, health in [("uncordon", "up"), ("cordon", "draining"), ("uncordon", "up"), ("cordon", "draining")]:
                began = time.monotonic()
                self.cluster.kubectl(verb, "drained")
                called = time.monotonic()
                while self.fleet()["drained"][1] != health:
                    if time.monotonic() - called > 10:
                        raise SystemExit(f"{verb}: not in the file after 10 s")
                    time.sleep(0.01)
                took.append(time.monotonic() - called)
            print(f"changes of a node in the file after {', '.join(f'{t * 1000:.0f} ms' for t in took)} (kubectl itself: {called - began:.2f} s)", flush=True)
            if max(took) > 1:
                raise SystemExit("a change took more than a second")
            follower.send_signal(signal.SIGINT)
            if follower.wait(20) != 0:
                raise SystemExit(f"SIGINT: exit code {follower.returncode}: {follower.stderr.read()}")
        finally:
            follower.kill()

    def refused(self):
        """What is wrong and what to do is said: contexts, addresses, rights."""
        done = self.called("fleet", "import", "--kubeconfig", self.config, "--context", "nowhere")
        expect(done, "has no context \"nowhere\"", "get-contexts")
        text = pathlib.Path(self.config).read_text()
        closed = self.folder / "closed"
        server = self.cluster.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
        closed.write_text(text.replace(server, "https://127.0.0.1:1"))
        expect(self.called("fleet", "import", "--kubeconfig", str(closed)), "cannot reach the API server", "kubectl version")
        self.cluster.kubectl("create", "serviceaccount", "reader")
        token = self.cluster.kubectl("create", "token", "reader").strip()
        limited = self.folder / "limited"
        bare = {
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": self.cluster.variables["KUBE_CA"]}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        limited.write_text(json.dumps(bare))
        expect(self.called("fleet", "import", "--kubeconfig", str(limited)), "may not be read", 'verbs: ["list", "watch"]')
        self.cluster.kubectl("create", "clusterrole", "reader", "--verb=list,watch", "--resource=nodes,pods")
        self.cluster.kubectl("create", "clusterrolebinding", "reader", "--clusterrole=reader", "--serviceaccount=default:reader")
        done = self.called("fleet", "import", "--kubeconfig", str(limited))
        if done.returncode != 0 or "resourceslices (not-seen)" not in done.stderr:
            raise SystemExit(f"with nodes and pods alone: {done.returncode}: {done.stderr}")
        bare["users"][0]["user"]["token"] = token[:-4] + "AAAA"
        limited.write_text(json.dumps(bare))
        expect(self.called("fleet", "import", "--kubeconfig", str(limited)), "does not know who asks", "kubectl auth whoami")
        print("contexts, addresses, rights and tokens that are wrong: said, with what to do", flush=True)


def ranged(name):
    """gpu-{0..3} as its names."""
    if "{" not in name:
        return [name]
    head, rest = name.split("{", 1)
    bounds, tail = rest.split("}", 1)
    low, high = bounds.split("..")
    return [f"{head}{at:0{len(low)}}{tail}" for at in range(int(low), int(high) + 1)]


def same(what, found, expected):
    if isinstance(found, dict):
        # Of hundreds of nodes those that differ.
        found, expected = dict(found.items() - expected.items()), dict(expected.items() - found.items())
    if found != expected:
        raise SystemExit(f"{what}: {found}; kubectl says {expected}")


def expect(done, problem, hint):
    if done.returncode != 2 or problem not in done.stderr or hint not in done.stderr:
        raise SystemExit(f"expected {problem!r} and {hint!r}: {done.returncode}: {done.stderr}")
