"""A real KEDA on a real Kubernetes scales a plan as `gpuwise scale serve` says.

    python3 .ci/check_keda.py GPUWISE START_KUBE [OTHER_FOLDER]

A fake Prometheus says what comes; the objects are those that `gpuwise plan --emit k8s` and `gpuwise scale emit --as
keda` write, and pods are faked by KWOK.
"""

import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

MODEL = "meta-llama/Llama-3.1-8B"
NAME = "llama-3-1-8b"
# Requests a second that a replica serves, by --rate.
EACH = 10


class Prometheus(http.server.BaseHTTPRequestHandler):
    """Answers every query with one value, or is dead."""

    rate, dead, asked = 0.0, False, 0

    def answer(self):
        Prometheus.asked += 1
        size = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(size)
        if Prometheus.dead:
            self.send_error(503)
            return
        sample = {"metric": {}, "value": [time.time(), str(Prometheus.rate)]}
        body = {"status": "success", "data": {"resultType": "vector", "result": [sample]}}
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def until(what, seconds, check):
    end = time.monotonic() + seconds
    seen = None
    while time.monotonic() < end:
        seen = check()
        if seen is True:
            return
        time.sleep(0.5)
    raise SystemExit(f"{what}: not within {seconds} s; last: {seen}")


class Cluster:
    def __init__(self, start, folder):
        self.folder = folder
        self.log = open(folder / "start-kube.log", "w")
        command = [start, str(folder / "kube"), "--nodes", "4", "--keda"]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        until("Kubernetes and KEDA are ready", 600, self.ready)
        text = (folder / "kube" / "env").read_text()
        self.variables = dict(re.findall(r"(\w+)=(\S+)", text))

    def ready(self):
        text = (self.folder / "start-kube.log").read_text()
        if self.process.poll() is not None:
            raise SystemExit(f"start-kube ended: {text[-2000:]}")
        return "ready" in text.split("\n") or text[-200:]

    def kubectl(self, *words, given=None):
        program = pathlib.Path(self.variables["KUBE_BIN"]) / "kubectl"
        command = [str(program), "--kubeconfig", str(self.folder / "kube" / "kubeconfig"), *words]
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise SystemExit(f"kubectl {' '.join(words)}: {done.stderr}\n{given or ''}")
        return done.stdout

    def replicas(self, name=NAME):
        return int(self.kubectl("get", "deployment", name, "-o", "jsonpath={.spec.replicas}") or 0)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()


def reaches(cluster, rate, wanted, seconds=120):
    began = time.monotonic()
    Prometheus.rate = rate

    def check():
        found = cluster.replicas()
        return True if found == wanted else found

    until(f"{rate} requests/s: {wanted} replicas", seconds, check)
    print(f"{rate:6} requests/s: {wanted:2} replicas after {time.monotonic() - began:.1f} s", flush=True)


def stays(cluster, wanted, seconds, why):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = cluster.replicas()
        if found != wanted:
            raise SystemExit(f"{why}: {found} replicas; expected that {wanted} stay")
        time.sleep(1)
    print(f"{why}: {wanted} replicas stay for {seconds} s", flush=True)


def main(gpuwise, start, folder):
    def run(*words):
        environment = {**os.environ, "GPUWISE_OFFLINE": "1"}
        done = subprocess.run([gpuwise, *words], capture_output=True, text=True, env=environment)
        if done.returncode != 0:
            raise SystemExit(f"gpuwise {' '.join(words)}: {done.stderr}")
        return done.stdout

    port, metrics = free_port(), free_port()
    plan = folder / "deployment.json"
    asked = ["plan", MODEL, "--gpu", "H200", "--rate", "8/s", "--ttft", "p95:1s", "--tpot", "p95:50ms", "--offline"]
    run(*asked, "--engine", "vllm", "--save", str(plan))
    pods = run(*asked, "--engine", "vllm", "--emit", "k8s")
    emit = ["scale", "emit", str(plan), "--max", "30", "--rate", str(EACH), "--query", "sum(rate(requests_total[1m]))"]
    emit += ["--scaler", f"127.0.0.1:{port}", "--hold", "2s", "--idle", "4s", "--controller", "rate"]
    keda = run(*emit, "--as", "keda")
    hpa = run(*emit, "--as", "hpa", "--min", "1")

    server = http.server.ThreadingHTTPServer(("127.0.0.1", metrics), Prometheus)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    log = folder / "decisions.jsonl"
    serve = [gpuwise, "scale", "serve", "--listen", f"127.0.0.1:{port}", "--prometheus", f"http://127.0.0.1:{metrics}"]
    serve += ["--period", "1s", "--log", str(log)]
    scaler = subprocess.Popen(serve, stderr=subprocess.PIPE, text=True)
    cluster = None
    try:
        print(scaler.stderr.readline().strip(), flush=True)
        cluster = Cluster(start, folder)
        strict = ["apply", "--server-side", "--validate=strict", "-f", "-"]
        cluster.kubectl(*strict, "--dry-run=server", given=hpa)
        cluster.kubectl(*strict, given=pods)
        cluster.kubectl(*strict, given=keda)
        reaches(cluster, 0.0, 0)
        reaches(cluster, 3.0, 1)
        reaches(cluster, 47.0, 5)
        reaches(cluster, 110.0, 11)
        reaches(cluster, 111.0, 12)
        Prometheus.dead = True
        stays(cluster, 12, 30, "Prometheus is dead")
        Prometheus.dead = False
        reaches(cluster, 200.0, 20)
        reaches(cluster, 190.0, 19)
        scaler.kill()
        scaler.wait()
        stays(cluster, 19, 40, "the scaler is dead")
        scaler = subprocess.Popen(serve, stderr=subprocess.PIPE, text=True)
        reaches(cluster, 25.0, 3, 240)
        reaches(cluster, 0.0, 0)
        # With the usual tolerance 11 never become 12: what the comments say.
        stock = re.sub(r"\n *tolerance: .*", "", keda)
        cluster.kubectl("delete", "scaledobject", NAME)
        cluster.kubectl("apply", "-f", "-", given=stock)
        reaches(cluster, 110.0, 11)
        Prometheus.rate = 111.0
        stays(cluster, 11, 40, "stock tolerance, 111 requests/s")
    finally:
        scaler.kill()
        if cluster:
            cluster.stop()
    print(run("scale", "serve", "--replay", str(log)).strip())


if __name__ == "__main__":
    given = [shutil.which(sys.argv[1]) or sys.argv[1], sys.argv[2]]
    with tempfile.TemporaryDirectory(prefix="gpuwise-keda-") as made:
        main(*given, pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else made))
