"""The life of a lease, from its request to its process, as a real OpenTelemetry collector takes it: one trace.

    python3 .ci/check_traces.py GPUWISE COLLECTOR
"""

import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "benches"))
from broker import Broker
from spans import Collector

FLEET = """
name = "traced"
[[node]]
name = "n1"
gpus = "2xH100"
cpu = 64
memory = "1TiB"
"""


def lease(gpuwise, place, address):
    """What a lease's command wrote, once it has ended."""
    flags = ["--executor", "local", "--otlp", address]
    with Broker(gpuwise, place, FLEET, *flags) as broker:
        broker.run("tenant", "create", "vision")
        broker.run("lease", "request", "--tenant", "vision", "--gpu", "H100", "--", "sh", "-c", "echo $TRACEPARENT")
        return broker.run("lease", "logs", "L-1", "--follow").strip()


def main():
    gpuwise, program = map(os.path.abspath, sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        with Collector(program, place) as collector:
            told = lease(gpuwise, place, collector.address)
            found = collector.until("lease")
    root = next(span for span in found if span["name"] == "lease")
    assert not root["parent"], root
    assert {span["trace"] for span in found} == {root["trace"]}, found
    assert all(span["parent"] == root["id"] for span in found if span is not root), found
    assert told == f"00-{root['trace']}-{root['id']}-01", (told, root)
    names = [span["name"] for span in found if span is not root]
    assert {"starting", "active"} <= set(names), names
    print(f"one trace of {len(found)} spans: lease, {', '.join(names)}; its process was told {told}")


main()
