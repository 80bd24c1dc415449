"""A real OpenTelemetry collector, and the spans that it says it got."""

import re
import subprocess
import sys
import threading
import time

from cluster import free_port

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
FIELDS = {"Trace ID": "trace", "Parent ID": "parent", "ID": "id", "Name": "name", "Start time": "start"}
FIELDS |= {"End time": "end", "Status code": "status", "Status message": "message"}


class Collector:
    """Runs it, and holds spans as it writes them."""

    def __init__(self, program, place):
        self.port, self.found, self.ready = free_port(), [], threading.Event()
        self.address = f"http://127.0.0.1:{self.port}"
        (place / "collector.yaml").write_text(COLLECTOR.format(port=self.port))
        words = [program, "--config", f"file:{place}/collector.yaml"]
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        threading.Thread(target=self.read, args=(self.process.stderr,), daemon=True).start()
        if not self.ready.wait(30):
            self.stop()
            sys.exit("the collector does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.process.kill()
        self.process.wait()

    def read(self, stream):
        for line in stream:
            if "Everything is ready" in line:
                self.ready.set()
            if re.match(r"Span #\d+", line):
                self.found.append({"attributes": {}})
            # A field that is empty ends with its colon.
            field = re.match(r"    (\w[\w ]*?)\s*: ?(.*)$", line.rstrip("\n"))
            said = re.match(r"     -> ([\w.]+): Str\((.*)\)$", line.rstrip("\n"))
            if field and self.found and field[1] in FIELDS:
                self.found[-1].setdefault(FIELDS[field[1]], field[2].strip())
            if said and self.found:
                self.found[-1]["attributes"][said[1]] = said[2]

    def spans(self, **wanted):
        """Those that are written as a whole; of an attribute `k8s.pod.name` it is said as `pod_name`."""
        named = {"pod": "k8s.pod.name", "workload": "gpuwise.workload", "object": "k8s.object.name"}
        def fits(span):
            return all((span["attributes"].get(named[key]) if key in named else span.get(key)) == value for key, value in wanted.items())
        return [span for span in list(self.found) if "status" in span and fits(span)]

    def until(self, name, seconds=30, **wanted):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.spans(name=name, **wanted):
                return self.spans()
            time.sleep(0.1)
        sys.exit(f"the collector saw no span {name!r} {wanted} in {seconds} s, but {self.found}")
