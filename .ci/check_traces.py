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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "benches"))
from broker import Broker

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


def lease(gpuwise, place, port):
    """What a lease's command wrote, once it has ended."""
    flags = ["--executor", "local", "--otlp", f"http://127.0.0.1:{port}"]
    with Broker(gpuwise, place, FLEET, *flags) as broker:
        broker.run("tenant", "create", "vision")
        broker.run("lease", "request", "--tenant", "vision", "--gpu", "H100", "--", "sh", "-c", "echo $TRACEPARENT")
        return broker.run("lease", "logs", "L-1", "--follow").strip()


def main():
    gpuwise, collector = map(os.path.abspath, sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        port = free_port()
        (place / "collector.yaml").write_text(COLLECTOR.format(port=port))
        gathers = subprocess.Popen([collector, "--config", f"file:{place}/collector.yaml"], stderr=subprocess.PIPE, text=True)
        try:
            spans = Spans(gathers.stderr)
            if not spans.ready.wait(30):
                sys.exit("the collector does not start")
            told = lease(gpuwise, place, port)
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
