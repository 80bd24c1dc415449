"""A node of a real control plane whose pods are processes of this machine: what a kubelet does, as far as tests need it.

The command of a pod's only container runs with its environment; how it ends, and whether it is ready, is said in the
pod's status; a deletion is SIGTERM, and SIGKILL when its grace is over; the API server reads here what it writes.
"""

import base64
import http.client
import http.server
import json
import os
import re
import signal
import ssl
import subprocess
import threading
import time
import urllib.parse
import urllib.request


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def expanded(text, environment):
    """`$(NAME)` is a variable, `$$` is `$`, as Kubernetes has it."""
    given = lambda found: "$" if found[0] == "$$" else environment.get(found[1], found[0])
    return re.sub(r"\$\$|\$\((\w+)\)", given, text)


class Process:
    """A pod that runs, or ran."""

    def __init__(self, kubelet, pod):
        self.kubelet, self.pod = kubelet, pod
        self.path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        self.log = kubelet.folder / f"{pod['metadata']['name']}.log"
        self.child, self.ended, self.stopping = None, False, False
        # Who is told that it runs may read at once.
        kubelet.pods[pod["metadata"]["uid"]] = self
        container = pod["spec"]["containers"][0]
        self.probe = container.get("readinessProbe", {}).get("httpGet")
        if why := self.pull(container["image"]):
            # Nothing runs until it is deleted.
            self.ended = True
            for reason in ("ErrImagePull", "ImagePullBackOff"):
                self.says("Pending", {"waiting": {"reason": reason, "message": why}}, False)
            return
        given = {one["name"]: one.get("value", "") for one in container.get("env", [])}
        words = [expanded(word, given) for word in container.get("command", []) + container.get("args", [])]
        given = {name: expanded(value, given) for name, value in given.items()}
        output = open(self.log, "ab")
        try:
            environment = {"PATH": os.environ["PATH"], **given}
            self.child = subprocess.Popen(words, env=environment, stdout=output, stderr=output, start_new_session=True)
        except OSError as error:
            message = f"failed to create containerd task: exec: {words[0]!r}: {error.strerror}"
            self.over({"exitCode": 128, "reason": "StartError", "message": message})
            return
        self.says("Running", {"running": {"startedAt": now()}}, not self.probe)
        threading.Thread(target=self.wait, daemon=True).start()
        if self.probe:
            threading.Thread(target=self.asks, daemon=True).start()

    def pull(self, image):
        """Why an image cannot be had: registries here have all but `gone`, and `locked.example` asks who comes."""
        host, _, name = image.partition("/")
        if name == "gone":
            return f'failed to pull and unpack image "{image}": not found'
        if host != "locked.example":
            return None
        for secret in self.pod["spec"].get("imagePullSecrets", []):
            path = self.path.rsplit("/", 2)[0] + f"/secrets/{secret['name']}"
            data = self.kubelet.ask("GET", path, None).get("data", {}).get(".dockerconfigjson", "")
            if host in json.loads(base64.b64decode(data) or "{}").get("auths", {}):
                return None
        return f'failed to pull image "{image}": pull access denied, authorization failed'

    def says(self, phase, state, ready):
        container = self.pod["spec"]["containers"][0]
        one = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0, "ready": ready, "state": state}
        condition = lambda kind: {"type": kind, "status": "True" if ready else "False", "lastTransitionTime": now()}
        status = {"phase": phase, "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}], "containerStatuses": [one]}
        status["conditions"] = [condition("Ready"), condition("ContainersReady")]
        self.kubelet.ask("PATCH", self.path + "/status", {"status": status})

    def over(self, end):
        phase = "Succeeded" if end["exitCode"] == 0 else "Failed"
        self.ended = True
        self.says(phase, {"terminated": {"startedAt": now(), "finishedAt": now(), **end}}, False)

    def wait(self):
        code = self.child.wait()
        code = 128 - code if code < 0 else code
        self.over({"exitCode": code, "reason": "Error" if code else "Completed"})

    def asks(self):
        while not self.ended:
            try:
                where = f"http://127.0.0.1:{self.probe['port']}{self.probe['path']}"
                if urllib.request.urlopen(where, timeout=2).status == 200:
                    self.says("Running", {"running": {"startedAt": now()}}, True)
                    return
            except OSError:
                time.sleep(0.2)

    def stop(self, grace):
        if self.stopping:
            return
        self.stopping = True
        threading.Thread(target=self.stops, args=[grace], daemon=True).start()

    def kill(self, number):
        try:
            os.killpg(self.child.pid, number)
        except (OSError, AttributeError):
            pass

    def stops(self, grace):
        self.kill(signal.SIGTERM)
        end = time.monotonic() + grace
        while not self.ended and time.monotonic() < end:
            time.sleep(0.02)
        self.kill(signal.SIGKILL)
        while not self.ended:
            time.sleep(0.02)
        own = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.pod["metadata"]["uid"]}}
        self.kubelet.ask("DELETE", self.path, own)


class Kubelet:
    def __init__(self, cluster, folder, name, gpus=8, room=None, labels=None):
        """With so many H200, or the resources and labels that are given."""
        self.name, self.folder = name, folder / name
        self.folder.mkdir()
        given = cluster.variables
        self.api = urllib.parse.urlsplit(given["KUBE_API"])
        self.token = given["KUBE_TOKEN"]
        self.tls = ssl.create_default_context(cafile=given["KUBE_CA"])
        self.pods, self.silent, self.over = {}, False, False
        self.listen(given["WEBHOOK_CERT"], given["WEBHOOK_KEY"])
        self.gpus, self.room, self.labels = gpus, room or {}, labels or {}
        self.joins()
        threading.Thread(target=self.beats, daemon=True).start()
        threading.Thread(target=self.watches, daemon=True).start()

    def joins(self):
        room = {"cpu": "96", "memory": "1Ti", "pods": "250"}
        labels = {"kubernetes.io/hostname": self.name}
        if self.gpus:
            room["nvidia.com/gpu"] = str(self.gpus)
            labels["nvidia.com/gpu.product"] = "NVIDIA-H200"
        room |= self.room
        labels |= self.labels
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now(), "lastTransitionTime": now()}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        status["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self.port}}
        node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": self.name, "labels": labels}, "status": status}
        self.ask("POST", "/api/v1/nodes", node)
        self.ask("PATCH", f"/api/v1/nodes/{self.name}/status", {"status": status})

    def ask(self, method, path, body):
        """What the server answers; a node that is silent says nothing."""
        while not self.over:
            if self.silent:
                time.sleep(0.2)
                continue
            kind = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
            try:
                server = http.client.HTTPSConnection(self.api.hostname, self.api.port, context=self.tls, timeout=10)
                server.request(method, path, json.dumps(body) if body else None, headers)
                answer = server.getresponse()
                text = answer.read().decode()
                server.close()
            except OSError:
                time.sleep(0.2)
                continue
            if answer.status >= 400 and answer.status not in (404, 409):
                print(f"{self.name}: {method} {path}: {answer.status} {text[:300]}", flush=True)
            return json.loads(text) if answer.status < 400 else {}
        return {}

    def beats(self):
        where = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        spec = lambda: {"holderIdentity": self.name, "leaseDurationSeconds": 40, "renewTime": time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())}
        lease = {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": self.name}}
        self.ask("POST", where, {**lease, "spec": spec()})
        was = False
        while not self.over:
            time.sleep(1)
            if self.silent:
                was = True
                continue
            self.ask("PATCH", f"{where}/{self.name}", {"spec": spec()})
            if was:
                was = False
                ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now(), "lastTransitionTime": now()}
                self.ask("PATCH", f"/api/v1/nodes/{self.name}/status", {"status": {"conditions": [ready]}})

    def watches(self):
        ours = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self.name}"
        while not self.over:
            listed = self.ask("GET", ours, None)
            there = {pod["metadata"]["uid"] for pod in listed.get("items", [])}
            for uid, process in list(self.pods.items()):
                listed and uid not in there and process.kill(signal.SIGKILL)
            for pod in listed.get("items", []):
                self.sees(pod)
            try:
                server = http.client.HTTPSConnection(self.api.hostname, self.api.port, context=self.tls, timeout=30)
                server.request("GET", ours + "&watch=1&timeoutSeconds=20", headers={"Authorization": f"Bearer {self.token}"})
                for line in server.getresponse():
                    event = json.loads(line)
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self.sees(event["object"])
                    elif event["object"]["metadata"].get("uid") in self.pods:
                        self.pods[event["object"]["metadata"]["uid"]].kill(signal.SIGKILL)
            except (OSError, ValueError, KeyError, http.client.HTTPException):
                time.sleep(0.2)

    def sees(self, pod):
        while self.silent and not self.over:
            time.sleep(0.2)
        data = pod["metadata"]
        known = self.pods.get(data["uid"])
        if known is None and not data.get("deletionTimestamp"):
            known = Process(self, pod)
        if data.get("deletionTimestamp") and known:
            known.stop(data.get("deletionGracePeriodSeconds") or 0)
        elif data.get("deletionTimestamp"):
            # It was bound and never began.
            path = f"/api/v1/namespaces/{data['namespace']}/pods/{data['name']}"
            self.ask("DELETE", path, {"gracePeriodSeconds": 0})

    def listen(self, certificate, key):
        kubelet = self

        class Answer(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                parts = urllib.parse.urlsplit(self.path)
                name = parts.path.split("/")[3]
                follow = "follow=true" in parts.query
                found = next((one for one in list(kubelet.pods.values()) if one.pod["metadata"]["name"] == name), None)
                if found is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                with open(found.log, "rb") as file:
                    while True:
                        over = found.ended or not follow
                        piece = file.read(65536)
                        if piece:
                            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                            self.wfile.flush()
                        elif over:
                            break
                        else:
                            time.sleep(0.05)
                self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        self.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def stop(self):
        self.over = True
        for process in list(self.pods.values()):
            if process.child and not process.ended:
                process.kill(signal.SIGKILL)
