#!/usr/bin/env python3
"""Reads one trace of the PyTorch profiler with gpuwise and with HolisticTraceAnalysis, one after the other.

    benches/peers/traces.py TRACE [--ours 'COMMAND…'] [--repeat N]

Each command runs alone in a process of its own; the table has the least processor time of N runs and the
peak resident memory of that process. HTA comes from the package index into target/peers/hta (or from the
Python named by HTA_PYTHON) and computes its temporal breakdown, the figure that both have.
"""

import argparse
import os
import shlex
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HTA = ["HolisticTraceAnalysis==0.5.0", "pandas==2.2.3", "numpy<2.3"]
BREAKDOWN = """
import logging, sys
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
print(analysis.get_temporal_breakdown(visualize=False).to_string())
"""


def hta_python():
    """The Python that has HTA; installs it where there is none."""
    if named := os.environ.get("HTA_PYTHON"):
        return named
    folder = ROOT / "target/peers/hta"
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *HTA], check=True)
    return str(python)


def measured(command):
    """Processor seconds, user and system, and peak memory in MB of one run."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"`{shlex.join(map(str, command))}` failed")
    return usage.ru_utime, usage.ru_stime, usage.ru_maxrss / 1000


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("trace", type=Path)
    arguments.add_argument("--ours", default=f"{ROOT}/target/release/gpuwise profile --format json")
    arguments.add_argument("--repeat", type=int, default=3)
    given = arguments.parse_args()
    commands = {
        "gpuwise": [*shlex.split(given.ours), str(given.trace)],
        "HolisticTraceAnalysis": [hta_python(), "-c", BREAKDOWN, str(given.trace.resolve())],
    }
    size = given.trace.stat().st_size / 1e6
    print(f"{given.trace.name}: {size:.0f} MB, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| tool | user, s | system, s | peak, MB |\n|---|--:|--:|--:|")
    for name, command in commands.items():
        repeats = given.repeat if name == "gpuwise" else 1
        user, system, peak = min(measured(command) for _ in range(repeats))
        print(f"| {name} | {user:.2f} | {system:.2f} | {peak:.0f} |", flush=True)


if __name__ == "__main__":
    main()
