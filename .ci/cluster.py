"""A real Kubernetes on loopback, and a Prometheus that says what it is told to say."""

import http.server
import json
import pathlib
import random
import re
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request


class Prometheus(http.server.BaseHTTPRequestHandler):
    """Answers a query by its name in `values`, a number or a function, or is dead."""

    values, dead = {}, False

    def answer(self):
        size = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(size).decode() + "&" + urllib.parse.urlsplit(self.path).query
        query = urllib.parse.parse_qs(sent).get("query", [""])[0]
        if Prometheus.dead or query not in Prometheus.values:
            self.send_error(503)
            return
        value = Prometheus.values[query]
        value = value() if callable(value) else value
        sample = {"metric": {}, "value": [time.time(), str(value)]}
        text = json.dumps({"status": "success", "data": {"resultType": "vector", "result": [sample]}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


GIVEN = set()


def free_port(also=()):
    """A port that is free, as are those so far above it; below what the system gives to connections, and given once."""
    while True:
        port = random.randrange(12_000, 29_000)
        all = {port, *(port + more for more in also)}
        if all & GIVEN:
            continue
        try:
            for one in all:
                with socket.socket() as held:
                    held.bind(("127.0.0.1", one))
        except OSError:
            continue
        GIVEN.update(all)
        return port


def until(what, seconds, check):
    """Waits until something is so; twice as long as an idle machine may take, as others run beside."""
    seconds *= 2
    end = time.monotonic() + seconds
    seen = None
    while time.monotonic() < end:
        seen = check()
        if seen is True:
            return
        time.sleep(0.5)
    raise SystemExit(f"{what}: not within {seconds} s; last: {seen}")


def broker_answers(process, port, log):
    """Until a broker that was started answers; what it wrote where it ended."""
    def check():
        if process.poll() is not None:
            raise SystemExit(log.read_text())
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2).status == 200
        except OSError as error:
            return str(error)

    until("the broker answers", 60, check)


class Cluster:
    def __init__(self, start, folder, parts=("--nodes", "4", "--keda")):
        self.folder = folder
        self.log = open(folder / "start-kube.log", "w")
        command = [start, str(folder / "kube"), *parts]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        until("Kubernetes is ready", 600, self.ready)
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

    def apply(self, text, *more):
        return self.kubectl("apply", "--server-side", "--force-conflicts", "--validate=strict", *more, "-f", "-", given=text)

    def field(self, kind, name, path):
        return self.kubectl("get", kind, name, "-o", "jsonpath={" + path + "}")

    def replicas(self, name):
        return int(self.field("deployment", name, ".spec.replicas") or 0)

    def ready_replicas(self, name):
        return int(self.field("deployment", name, ".status.readyReplicas") or 0)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()
