"""A real control plane runs what a broker leases: `gpuwise serve --executor kubernetes`.

    python3 .ci/check_executor.py GPUWISE START_KUBE [COMMAND...]

The command is run at the end with a kubeconfig in GPUWISE_KUBERNETES_TEST, the name of a node of that cluster in
GPUWISE_KUBERNETES_NODE, and namespaces in GPUWISE_KUBERNETES_NAMESPACES.

Three nodes of eight GPUs that are not there, whose pods are processes of this machine (kubelet.py). What is checked
is what the API server says: which pods run where, with how many GPUs, under which identity; the broker has the
rights of deploy/kubernetes/executor.yaml and no more.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from check_slurm import SERVICE
import executor_parts
from cluster import Cluster, broker_answers, free_port, until
from kubelet import Kubelet

SPACE = "gpuwise"
HERE = pathlib.Path(__file__).resolve().parent.parent


class Check:
    hosts, gpus = [f"host-{one}" for one in range(3)], 8

    def __init__(self, gpuwise, start, folder):
        self.gpuwise, self.folder, self.broker, self.kubelets = gpuwise, folder, None, []
        self.cluster = Cluster(start, folder, ())
        self.port, self.service_port = free_port(), free_port()
        admin = (folder / "kube" / "kubeconfig").read_text()
        self.kubectl("apply", "--server-side", "--validate=strict", "-f", str(HERE / "deploy/kubernetes/executor.yaml"))
        until("the account is there", 60, lambda: "default" in self.kubectl("get", "serviceaccounts", "-n", SPACE, "-o", "name") or "none")
        token = self.kubectl("create", "token", "gpuwise-executor", "-n", SPACE, "--duration", "4h").strip()
        self.config = folder / "executor.kubeconfig"
        self.config.write_text(re.sub(r'token: "[^"]*"', f'token: "{token}"', admin))
        self.kubelets = [Kubelet(self.cluster, folder, name, self.gpus) for name in self.hosts]
        self.kubelets += executor_parts.nodes(self.cluster, folder)
        self.environment = {
            **os.environ,
            "GPUWISE_OFFLINE": "1",
            "HOME": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }

    def kubectl(self, *words, given=None):
        return self.cluster.kubectl(*words, given=given)

    def ask(self, *words, offline=True):
        environment = self.environment if offline else {key: value for key, value in self.environment.items() if key != "GPUWISE_OFFLINE"}
        done = subprocess.run([self.gpuwise, *words], capture_output=True, text=True, env=environment, timeout=60)
        if done.returncode != 0:
            raise SystemExit(f"gpuwise {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def refused(self, *words):
        done = subprocess.run([self.gpuwise, *words], capture_output=True, text=True, env=self.environment, timeout=60)
        if done.returncode == 0:
            raise SystemExit(f"gpuwise {' '.join(words)}: is not refused\n{done.stdout}")
        return done.stdout + done.stderr

    def pods(self, lease=None):
        """Pods of leases by name: node, GPUs, phase, whether it is told to end, identity."""
        label = f"gpuwise.dev/lease={lease}" if lease else "gpuwise.dev/lease"
        found = json.loads(self.kubectl("get", "pods", "-n", SPACE, "-l", label, "-o", "json"))["items"]
        of = lambda pod: {
            "node": pod["spec"].get("nodeName"),
            "gpus": pod["spec"]["containers"][0]["resources"].get("limits", {}).get("nvidia.com/gpu"),
            "phase": pod["status"]["phase"],
            "leaving": "deletionTimestamp" in pod["metadata"],
            "uid": pod["metadata"]["uid"],
        }
        return {pod["metadata"]["name"]: of(pod) for pod in found}

    def begin(self, *more):
        words = [self.gpuwise, "serve", "--executor", "kubernetes", "--kubeconfig", str(self.config)]
        words += ["--fleet", str(self.folder / "fleet.toml"), "--listen", f"127.0.0.1:{self.port}", "--preempt"]
        words += ["--kubernetes-pull-secret", executor_parts.SECRET]
        words += ["--kubernetes-image", "none", "--kubernetes-patience", "15s", "--kubernetes-port", str(self.service_port), *more]
        errors = open(self.folder / "serve.log", "a")
        self.broker = subprocess.Popen(words, env=self.environment, stdout=errors, stderr=errors)
        self.environment["GPUWISE_URL"] = f"http://127.0.0.1:{self.port}"
        broker_answers(self.broker, self.port, self.folder / "serve.log")

    def dies(self):
        self.broker.send_signal(signal.SIGKILL)
        self.broker.wait()

    def lease(self, *words):
        return json.loads(self.ask("lease", "request", "--tenant", "vision", "--format", "json", *words))["id"]

    def state(self, lease):
        return json.loads(self.ask("lease", "show", lease, "--format", "json"))

    def runs(self, lease, seconds=40):
        until(f"{lease} is active", seconds, lambda: self.state(lease)["state"] == "active" or (self.state(lease), self.pods(lease)))
        return {name: pod for name, pod in self.pods(lease).items() if pod["phase"] == "Running" and not pod["leaving"]}

    def ends(self, lease, seconds=60):
        over = lambda: self.state(lease)["state"] in ("ended", "failed") or self.state(lease)["state"]
        until(f"{lease} is over", seconds, over)
        return self.state(lease)

    def release(self, *leases):
        for lease in leases:
            self.ask("lease", "release", lease)
        for lease in leases:
            self.ends(lease)

    def fleet(self):
        admin = str(self.folder / "kube" / "kubeconfig")
        self.ask("fleet", "import", "--kubeconfig", admin, "-o", str(self.folder / "fleet.toml"), offline=False)
        self.begin()
        self.ask("tenant", "create", "vision")

    def health(self, name):
        """How the broker takes a node to be."""
        token = self.folder / "state" / "gpuwise" / f"127.0.0.1_{self.port}.token"
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/fleet")
        request.add_header("Authorization", f"Bearer {token.read_text().strip()}")
        fleet = json.loads(urllib.request.urlopen(request, timeout=10).read())
        return next(node["health"] for node in fleet["nodes"] if node["name"] == name)

    def places(self):
        """A pod, its GPUs, its output and its end."""
        began = time.monotonic()
        lease = self.lease("--gpu", "2xH200", "--env", "WORD=a $(PATH) $$ b", "--", "sh", "-c", 'echo "sees $WORD"; sleep 6; exit 3')
        pods = self.runs(lease)
        took = time.monotonic() - began
        if [pod["gpus"] for pod in pods.values()] != ["2"]:
            raise SystemExit(f"one pod of 2 GPUs: {pods}")
        over = self.ends(lease)
        if over.get("exit_code") != 3:
            raise SystemExit(f"exit code 3: {over}")
        # Its pod goes with the next order, when its end is in the log.
        self.release(self.lease("--gpu", "1xH200", "--", "sleep", "1000"))
        until("its pod is deleted", 20, lambda: not self.pods(lease) or self.pods(lease))
        output = self.ask("lease", "logs", lease)
        if output.strip() != "sees a $(PATH) $$ b":
            raise SystemExit(f"what it wrote: {output!r}")
        print(f"{lease}: a pod of 2 GPUs after {took:.1f} s, exit code 3 comes back, what it wrote outlives the pod", flush=True)

    def gang(self):
        """A pod on each of two whole nodes."""
        lease = self.lease("--gpu", "8xH200", "--workers", "2", "--", "sh", "-c", "echo worker $GPUWISE_WORKER; sleep 1000")
        pods = self.runs(lease)
        if [pod["gpus"] for pod in pods.values()] != ["8", "8"] or len({pod["node"] for pod in pods.values()}) != 2:
            raise SystemExit(f"16 GPUs on two nodes: {pods}")
        said = lambda one: f"worker {one}" in self.ask("lease", "logs", lease, "--worker", str(one))
        until("both workers say so", 30, lambda: all(map(said, (0, 1))) or "not yet")
        print(f"{lease}: 8 GPUs on each of {sorted(pod['node'] for pod in pods.values())}", flush=True)
        return lease, pods

    def restart(self, lease, pods):
        """Either side goes and comes back."""
        self.dies()
        self.begin()
        if self.runs(lease) != pods:
            raise SystemExit(f"a broker that began again started it anew: {pods}, {self.pods(lease)}")
        server = int((self.folder / "kube" / "run" / "kube-apiserver.pid").read_text())
        os.kill(server, signal.SIGSTOP)
        late = self.lease("--gpu", "2xH200", "--", "sleep", "1000")
        time.sleep(12)
        os.kill(server, signal.SIGCONT)
        if self.runs(lease, 60) != pods:
            raise SystemExit("a server that did not answer cost it its pods")
        self.runs(late, 60)
        print(f"{lease}: the same pods after the broker was killed, and after the API server was silent for 12 s; {late}, leased meanwhile, runs", flush=True)
        self.release(late, lease)
        until("no pod is left", 60, lambda: not self.pods() or self.pods())

    def pending(self):
        """A pod whose start the log does not have yet is kept by a broker that begins again, and starts once."""
        lease = self.lease("--gpu", "1xH200", "--image", "registry.example/gone", "--", "sleep", "1000")
        until("its pod is there", 20, lambda: bool(self.pods(lease)) or self.state(lease))
        pods = self.pods(lease)
        for _ in range(3):
            self.dies()
            self.begin()
            time.sleep(1)
            if self.pods(lease) != pods:
                raise SystemExit(f"a broker that began again made its pod anew: {pods}, {self.pods(lease)}")
        print(f"{lease}: the same pod, which waits for its image, after three kills of the broker", flush=True)
        self.release(lease)

    def preempts(self):
        """Who may be stopped is deleted, and starts elsewhere later."""
        low = self.lease("--gpu", "8xH200", "--preemptible", "--", "sh", "-c", "echo begins; sleep 1000")
        first = self.runs(low)
        others = [self.lease("--gpu", "8xH200", "--priority", "100", "--", "sleep", "1000") for _ in range(3)]
        for other in others:
            self.runs(other, 120)
        if self.pods(low):
            raise SystemExit(f"{low} has pods still: {self.pods(low)}")
        self.release(others[0])
        again = self.runs(low, 120)
        until("it has begun twice", 30, lambda: self.ask("lease", "logs", low).count("begins") == 2 or self.ask("lease", "logs", low))
        print(f"{low}: from {first} its pod went for three others, and came again as {list(again)}", flush=True)
        self.release(low, *others[1:])

    def nodes(self):
        """A cordoned node takes nothing; who was on a lost one starts again; a node that is back is used."""
        self.kubectl("cordon", "host-0")
        until("the broker knows", 40, lambda: self.health("host-0") == "draining" or self.health("host-0"))
        lease = self.lease("--gpu", "8xH200", "--", "sleep", "1000")
        (before,) = self.runs(lease).values()
        if before["node"] == "host-0":
            raise SystemExit("it started on a node that is cordoned")
        self.kubectl("uncordon", "host-0")
        until("the broker knows", 40, lambda: self.health("host-0") == "up" or self.health("host-0"))
        lost = self.kubelets[int(before["node"][-1])]
        lost.silent = True
        began = time.monotonic()
        until("the broker doubts it", 90, lambda: self.health(lost.name) != "up" or "up")
        self.kubectl("taint", "node", lost.name, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
        elsewhere = lambda: [pod for pod in self.runs(lease, 90).values() if pod["node"] != before["node"]]
        until("it runs elsewhere", 90, lambda: bool(elsewhere()) or self.pods(lease))
        took = time.monotonic() - began
        lost.silent = False
        self.kubectl("taint", "node", lost.name, "node.kubernetes.io/out-of-service-")
        until("all nodes are up", 90, lambda: all(self.health(one.name) == "up" for one in self.kubelets) or "not yet")
        print(f"{lease}: from {before['node']}, which was lost, to {elsewhere()[0]['node']} after {took:.0f} s, beside a node that was cordoned", flush=True)
        self.release(lease)
        back = [self.lease("--gpu", "8xH200", "--", "sleep", "1000") for _ in range(3)]
        for one in back:
            self.runs(one, 60)
        self.release(*back)
        print("all three nodes are used again", flush=True)

    def crowded(self):
        """Where somebody else has the GPUs, a gang starts nowhere: all of its pods go."""
        spec = {"nodeName": "host-0", "containers": [{"name": "c", "image": "none", "command": ["sleep", "1000"], "resources": {"limits": {"nvidia.com/gpu": "8"}}}]}
        self.kubectl("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "foreign", "namespace": "default"}, "spec": spec}))
        lease = self.lease("--gpu", "8xH200", "--workers", "3", "--", "sleep", "1000")
        failed = lambda: "did not start it within" in json.dumps(self.state(lease)) or self.state(lease)
        until("it says why", 90, failed)
        self.kubectl("delete", "pod", "foreign", "-n", "default", "--grace-period=1")
        if len(self.runs(lease, 120)) != 3:
            raise SystemExit(f"three pods: {self.pods(lease)}")
        print(f"{lease}: no pod of three while somebody has one node's GPUs; then all", flush=True)
        self.release(lease)

    def service(self):
        """A service answers where its pod is."""
        program = self.folder / "service.py"
        program.write_text(SERVICE)
        lease = self.lease("--gpu", "1xH200", "--serve", "tiny", "--health", "/", "--", sys.executable, str(program), "{port}")
        self.runs(lease)
        token = self.ask("token", "create", "client", "--tenant", "vision", "--format", "json", "--role", "member")
        key = {"Authorization": f"Bearer {json.loads(token)['token']}"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/models", headers=key)
        models = urllib.request.urlopen(request, timeout=10).read().decode()
        if "tiny" not in models:
            raise SystemExit(f"the gateway does not know it: {models}")
        print(f"{lease}: a service is ready and known to the gateway", flush=True)
        self.release(lease)

    def images(self):
        executor_parts.images(self)

    def slices(self):
        executor_parts.slices(self)

    def turns(self):
        executor_parts.turns(self)

    def suite(self, command):
        names = [f"suite-{one}" for one in range(20)]
        objects = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
        self.kubectl("create", "-f", "-", given="\n---\n".join(map(json.dumps, objects)))
        ready = lambda: self.kubectl("get", "serviceaccounts", "-A", "--field-selector", "metadata.name=default", "-o", "name").count("\n") > 20
        until("accounts are there", 60, lambda: ready() or "not yet")
        self.kubelets.append(Kubelet(self.cluster, self.folder, "suite", gpus=200))
        given = {"GPUWISE_KUBERNETES_TEST": str(self.folder / "kube" / "kubeconfig"), "GPUWISE_KUBERNETES_NODE": "suite"}
        subprocess.run(command, env={**os.environ, **given, "GPUWISE_KUBERNETES_NAMESPACES": " ".join(names)}, check=True, timeout=600)

    def stop(self):
        if self.broker:
            self.broker.terminate()
        for kubelet in self.kubelets:
            kubelet.stop()
        self.cluster.stop()


def main(gpuwise, start, command, folder):
    check = Check(gpuwise, start, folder)
    try:
        check.fleet()
        parts = os.environ.get("GPUWISE_PARTS", "places service images slices turns gang pending preempts nodes crowded").split()
        for part in parts:
            began = time.monotonic()
            found = getattr(check, part)()
            part == "gang" and check.restart(*found)
            print(f"-- {part}: {time.monotonic() - began:.0f} s", flush=True)
        command and check.suite(command)
    except BaseException:
        for log in ["serve.log", "start-kube.log"]:
            text = (folder / log).read_text(errors="replace")[-3000:] if (folder / log).exists() else "is not there"
            print(f"{log}:\n{text}", flush=True)
        raise
    finally:
        check.stop()


if __name__ == "__main__":
    given = [shutil.which(sys.argv[1]) or sys.argv[1], sys.argv[2], sys.argv[3:]]
    with tempfile.TemporaryDirectory(prefix="gpuwise-executor-") as made:
        main(*given, pathlib.Path(made))
