"""InferencePools on a real API server: what `plan --emit inference-pool` writes, and who `gpuwise epp` finds in one."""

import json
import pathlib
import re
import subprocess
import urllib.request

from cluster import free_port, until

MODULES = [
    ("sigs.k8s.io/gateway-api-inference-extension@v1.0.0", "config/crd/bases/inference.networking.k8s.io_inferencepools.yaml"),
    ("sigs.k8s.io/gateway-api-inference-extension@v1.0.0", "config/crd/bases/inference.networking.x-k8s.io_inferenceobjectives.yaml"),
    ("sigs.k8s.io/gateway-api@v1.4.0", "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"),
]
POOL = "llama-3-1-8b"


def definitions():
    """Files of the definitions, as their projects publish them."""
    for module, file in MODULES:
        done = subprocess.run(["go", "mod", "download", "-json", module], capture_output=True, text=True, timeout=300)
        try:
            yield pathlib.Path(json.loads(done.stdout)["Dir"]) / file
        except (ValueError, KeyError):
            print(f"SKIPPED: {module} cannot be had", flush=True)


def pools(check):
    cluster = check.cluster
    files = list(definitions())
    if len(files) < len(MODULES):
        return
    for file in files:
        cluster.kubectl("apply", "--server-side", "-f", str(file))
    for name in ["inferencepools.inference.networking.k8s.io", "inferenceobjectives.inference.networking.x-k8s.io", "httproutes.gateway.networking.k8s.io"]:
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")
    text = check.run(
        "plan", "meta-llama/Llama-3.1-8B", "--gpu", "H200", "--rate", "8/s", "--ttft", "p95:1s", "--tpot", "p95:50ms",
        "--offline", "--engine", "vllm", "--emit", "inference-pool",
    )
    cluster.kubectl("create", "namespace", "pools")
    cluster.apply(text, "-n", "pools")
    # No container runs here, so the picker runs outside, with the rights that its account has in the cluster.
    cluster.kubectl("scale", "deployment", f"{POOL}-epp", "-n", "pools", "--replicas", "0")
    token = cluster.kubectl("create", "token", f"{POOL}-epp", "-n", "pools").strip()
    admin = (check.folder / "kube" / "kubeconfig").read_text()
    config = check.folder / "picker.kubeconfig"
    config.write_text(re.sub(r'token: "[^"]*"', f'token: "{token}"', admin))
    figures = free_port()
    words = [check.gpuwise, "epp", "--pool", f"pools/{POOL}", "--kubeconfig", str(config), "--every", "30s"]
    words += ["--listen", f"127.0.0.1:{free_port()}", "--metrics", f"127.0.0.1:{figures}"]
    log = open(check.folder / "picker.log", "w")
    picker = subprocess.Popen(words, stdout=log, stderr=log)
    check.scalers.append(picker)

    def page():
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{figures}/metrics", timeout=5).read().decode()
        except OSError as error:
            return str(error)

    found = lambda: set(re.findall(r'endpoint_up\{endpoint="([^"]+)"', page()))

    def there():
        pods = json.loads(cluster.kubectl("get", "pods", "-n", "pools", "-l", f"app={POOL}", "-o", "json"))["items"]
        ready = [one for one in pods if any(c["type"] == "Ready" and c["status"] == "True" for c in one["status"].get("conditions", []))]
        return {f"{one['status']['podIP']}:8000" for one in ready if not one["metadata"].get("deletionTimestamp")}

    for replicas in [1, 4, 2, 0]:
        cluster.kubectl("scale", "deployment", POOL, "-n", "pools", "--replicas", str(replicas))
        until(f"{replicas} pods are ready", 60, lambda: len(there()) == replicas or there())
        until(f"the picker knows {replicas}", 10, lambda: found() == there() or (found(), (check.folder / "picker.log").read_text()[-500:]))
    # Priorities of this pool's objectives, as somebody changes them.
    priorities = lambda: dict(re.findall(r'objective_priority\{objective="([^"]+)"\} (\S+)', page()))
    for wanted in [{"chat": 100, "batch": -10}, {"chat": 50}, {}]:
        for name, priority in {**wanted, "elsewhere": 7}.items():
            pool = "other" if name == "elsewhere" else POOL
            spec = {"poolRef": {"name": pool}, "priority": priority}
            cluster.apply(json.dumps({"apiVersion": "inference.networking.x-k8s.io/v1alpha2", "kind": "InferenceObjective", "metadata": {"name": name}, "spec": spec}), "-n", "pools")
        for name in {"chat", "batch"} - set(wanted):
            cluster.kubectl("delete", "inferenceobjective", name, "-n", "pools", "--ignore-not-found")
        text = {name: str(priority) for name, priority in wanted.items()}
        until(f"the picker knows {wanted}", 10, lambda: priorities() == text or (priorities(), (check.folder / "picker.log").read_text()[-500:]))
    cluster.kubectl("delete", "namespace", "pools", "--wait=false")
    picker.terminate()
    if picker.wait(10) != 0:
        raise SystemExit("the picker does not end well")
    print("objects of --emit inference-pool are as the API has them; a picker under their account knows 1, 4, 2 and 0 ready pods, and its objectives", flush=True)
