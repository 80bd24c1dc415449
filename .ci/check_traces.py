"""The life of a lease, from its request to its process, as a real OpenTelemetry collector takes it: one trace.

    python3 .ci/check_traces.py GPUWISE COLLECTOR
"""

import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

FLEET = """
name = "traced"
[[node]]
name = "n1"
gpus = "2xH100"
cpu = 64
memory = "1TiB"
"""

COLLECTOR = """
receivers:
  otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}
exporters:
  debug: {{verbosity: detailed}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [debug]}}
"""

# What a span is written as, line by line.
FIELDS = {"Trace ID": "trace", "Parent ID": "parent", "ID": "id", "Name": "name", "Status code": "status"}


class Spans:
    """Spans as the collector writes them."""

    def __init__(self, stream):
        self.found, self.ready = [], threading.Event()
        threading.Thread(target=self.read, args=(stream,), daemon=True).start()

    def read(self, stream):
        for line in stream:
            if "Everything is ready" in line:
                self.ready.set()
            if re.match(r"Span #\d+", line):
                self.found.append({})
            # A field that is empty ends with its colon.
            field = re.match(r"    (\w[\w ]*?)\s*: ?(.*)$", line.rstrip("\n"))
            if field and self.found and field[1] in FIELDS:
                self.found[-1].setdefault(FIELDS[field[1]], field[2].strip())

    def until(self, name, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            spans = [span for span in self.found if "status" in span]
            if any(span.get("name") == name for span in spans):
                return spans
            time.sleep(0.1)
        sys.exit(f"the collector saw no span {name!r} in {seconds} s, but {self.found}")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def lease(gpuwise, place, environment, port):
    """What a lease's command wrote, once it has ended."""
    serve = [gpuwise, "serve", "--listen", "127.0.0.1:0", "--fleet", "fleet.toml", "--store", "sqlite://traced.db",
             "--executor", "local", "--otlp", f"http://127.0.0.1:{port}"]
    daemon = subprocess.Popen(serve, cwd=place, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        environment["GPUWISE_URL"] = next(
            found[1] for line in daemon.stderr if (found := re.search(r"Broker at (\S+),", line)))
        environment["GPUWISE_TOKEN"] = next(place.glob(".local/state/gpuwise/*.token")).read_text().strip()
        run = lambda *words: subprocess.run([gpuwise, *words], check=True, env=environment, capture_output=True, text=True).stdout
        run("tenant", "create", "vision")
        run("lease", "request", "--tenant", "vision", "--gpu", "H100", "--", "sh", "-c", "echo $TRACEPARENT")
        return run("lease", "logs", "L-1", "--follow").strip()
    finally:
        # It says what it has still to say, and ends.
        daemon.terminate()
        daemon.wait(30)


def main():
    gpuwise, collector = map(os.path.abspath, sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        port = free_port()
        (place / "fleet.toml").write_text(FLEET)
        (place / "collector.yaml").write_text(COLLECTOR.format(port=port))
        environment = {**os.environ, "HOME": folder}
        for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "GPUWISE_TOKEN", "GPUWISE_URL", "GPUWISE_STORE"):
            environment.pop(name, None)
        gathers = subprocess.Popen([collector, "--config", f"file:{place}/collector.yaml"], stderr=subprocess.PIPE, text=True)
        try:
            spans = Spans(gathers.stderr)
            if not spans.ready.wait(30):
                sys.exit("the collector does not start")
            told = lease(gpuwise, place, environment, port)
            found = spans.until("lease")
        finally:
            gathers.kill()
            gathers.wait()
    root = next(span for span in found if span["name"] == "lease")
    assert not root["parent"], root
    assert {span["trace"] for span in found} == {root["trace"]}, found
    assert all(span["parent"] == root["id"] for span in found if span is not root), found
    assert told == f"00-{root['trace']}-{root['id']}-01", (told, root)
    names = [span["name"] for span in found if span is not root]
    assert {"starting", "active"} <= set(names), names
    print(f"one trace of {len(found)} spans: lease, {', '.join(names)}; its process was told {told}")


main()
