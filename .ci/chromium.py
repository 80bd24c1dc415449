"""Drives Chromium over its debugging pipe: no driver, no library, no port."""
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ["chromium", "chromium-browser", "google-chrome"]
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--mute-audio",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
]


def found():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Chromium:
    """A browser with one page."""

    def __init__(self, path):
        self.profile = tempfile.mkdtemp(prefix="gpuwise-chromium-")
        read, self.out = os.pipe()
        self.incoming, write = os.pipe()

        def ends():
            # The browser reads what we say on 3 and answers on 4.
            saved = os.dup(read), os.dup(write)
            os.dup2(saved[0], 3)
            os.dup2(saved[1], 4)

        self.process = subprocess.Popen(
            [path, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"],
            preexec_fn=ends, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        self.number, self.buffer, self.events, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def message(self, until):
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.incoming], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            chunk = os.read(self.incoming, 1 << 20)
            if not chunk:
                raise EOFError("the browser ended")
            self.buffer += chunk
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, limit=60, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + limit
        while True:
            answer = self.message(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def evaluate(self, script, limit=60):
        result = self.call("Runtime.evaluate", limit=limit, expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    def wait(self, script, limit=30):
        until = time.monotonic() + limit
        while not self.evaluate(script):
            if time.monotonic() > until:
                raise TimeoutError(f"never true: {script}")
            time.sleep(0.05)

    def open(self, url, width=1280, height=900, dark=False, scale=1):
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def errors(self):
        """What went wrong on the page: exceptions, refused scripts, requests that left it."""
        self.evaluate("1")
        out = []
        for event in self.events:
            method, details = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                thrown = details["exceptionDetails"]
                out.append(thrown.get("exception", {}).get("description") or thrown["text"])
            elif method == "Log.entryAdded" and details["entry"]["level"] == "error":
                out.append(details["entry"]["text"])
            elif method == "Network.requestWillBeSent" and not details["request"]["url"].startswith(("file:", "data:", "about:", "blob:")):
                out.append(f"request to {details['request']['url']}")
        return out

    def picture(self, path, whole=True):
        import base64
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole, format="png")
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" and len(key) == 1 else "")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def close(self):
        self.session = None
        try:
            self.call("Browser.close", limit=10)
        except (EOFError, OSError, TimeoutError, RuntimeError):
            pass
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        shutil.rmtree(self.profile, ignore_errors=True)
