"""The API server as an administrator asks it, and a proxy before it that refuses, loses answers and cuts watches."""

import http.client
import http.server
import json
import random
import re
import ssl
import threading
import time
import urllib.parse

SPACE = "acts"


class Api:
    """The API server, as an administrator asks it."""

    def __init__(self, config):
        text = config.read_text()
        self.server = urllib.parse.urlsplit(re.search(r"server: \"?(https://[^\s\",}]+)", text).group(1))
        self.token = re.search(r'token: "?([^"\s]+)', text).group(1)
        self.trust = ssl._create_unverified_context()

    def connect(self, seconds=30):
        return http.client.HTTPSConnection(self.server.hostname, self.server.port, timeout=seconds, context=self.trust)

    def ask(self, method, path, body=None, kind="application/json"):
        one = self.connect()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        one.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = one.getresponse()
        text = answer.read()
        one.close()
        return answer.status, json.loads(text) if text else {}

    def get(self, path):
        status, found = self.ask("GET", path)
        if status != 200:
            raise SystemExit(f"GET {path}: {found}")
        return found

    def merge(self, path, body):
        status, found = self.ask("PATCH", path, body, "application/merge-patch+json")
        if status >= 300:
            raise SystemExit(f"PATCH {path}: {found}")

    def pods(self):
        return self.get(f"/api/v1/namespaces/{SPACE}/pods")["items"]


class Proxy:
    """Stands before the API server: refuses, loses answers, cuts watches, and says when the operator is to die."""

    def __init__(self, api):
        self.api, self.random, self.faults = api, random.Random(0), 0.0
        self.writes, self.kill_at, self.killed, self.kill = 0, None, threading.Event(), None
        self.lock = threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                outer.handle(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def arm(self, seed, faults, kill_at, kill):
        with self.lock:
            self.random, self.faults = random.Random(seed), faults
            self.writes, self.kill_at, self.kill = 0, kill_at, kill
            self.killed.clear()

    def fate(self, asked, path):
        """What becomes of a request: `go`, `refuse`, `conflict`, `lose`, `die` or `die after`."""
        with self.lock:
            if asked == "GET" or "/leases" in path:
                return "go"
            self.writes += 1
            if self.kill_at is not None and self.writes == self.kill_at:
                return self.random.choice(["die", "die after"])
            if self.random.random() < self.faults:
                return self.random.choice(["refuse", "conflict", "lose"])
            return "go"

    def handle(self, one):
        size = int(one.headers.get("Content-Length") or 0)
        body = one.rfile.read(size) if size else None
        fate = self.fate(one.command, one.path)
        if fate == "die":
            self.die()
            return one.connection.close()
        if fate in ("refuse", "conflict"):
            code = 500 if fate == "refuse" else 409
            said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "by seed", "reason": "InternalError" if code == 500 else "Conflict", "code": code}
            return self.reply(one, code, [("Content-Type", "application/json")], json.dumps(said).encode())
        watch = "watch=true" in one.path or "watch=1" in one.path
        try:
            up = self.api.connect(600)
            headers = {key: value for key, value in one.headers.items() if key.lower() not in ("host", "connection", "accept-encoding")}
            up.request(one.command, one.path, body, headers)
            answer = up.getresponse()
            if watch:
                return self.stream(one, answer)
            text = answer.read()
            up.close()
        except (OSError, http.client.HTTPException):
            return one.connection.close()
        if fate == "die after":
            self.die()
        if fate in ("lose", "die after"):
            return one.connection.close()
        self.reply(one, answer.status, [("Content-Type", answer.headers.get("Content-Type", "application/json"))], text)

    def die(self):
        if self.kill:
            self.kill()
        self.killed.set()

    def reply(self, one, code, headers, text):
        try:
            one.send_response(code)
            for key, value in headers:
                one.send_header(key, value)
            one.send_header("Content-Length", str(len(text)))
            one.end_headers()
            one.wfile.write(text)
        except OSError:
            pass

    def stream(self, one, answer):
        ends = time.monotonic() + (self.random.uniform(0.5, 6) if self.faults else 300)
        try:
            one.send_response(answer.status)
            one.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
            one.end_headers()
            while time.monotonic() < ends:
                part = answer.read1(65536)
                if not part:
                    break
                one.wfile.write(part)
                one.wfile.flush()
        except (OSError, http.client.HTTPException):
            pass
        one.connection.close()
