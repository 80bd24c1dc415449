"""Measures a real server, llama.cpp's own with a tiny model, at several loads; corrects gpuwise by half of
them, and says how far formulas and simulation are from the other half, before and after. The error is
printed, whatever it is: only what cannot be fails.

Usage: check_calibration.py GPUWISE SERVE.py MODEL.gguf    (run by the Python that has xllamacpp)
"""

import csv
import io
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from check_bench import Checks, Server

ISL, OSL, SLOTS = 96, 48, 16
# In turns one load corrects and the next is predicted: both halves span the range, and what other jobs
# do to this machine meanwhile meets both.
LEARNT, HELD = (1, 3, 6, 12), (2, 4, 8, 16)
REQUESTS = 160
# Where the middle of all calibrated figures is further off than so many times, nothing was predicted.
ABSURD = 10.0
# Errors that calibration makes so many times as large are no noise of the machine.
LED_AWAY = 3.0
# What a processor core with ordinary memory does; the measured points correct it.
HOST = """
[[gpu]]
name = "CPU host"
vendor = "CPU"
generation = "host"
units = 1
memory_kind = "DDR"
memory_gb = 16
bandwidth = 20
peak = { fp32 = 0.1, fp16 = 0.1, bf16 = 0.1, int8 = 0.1 }
host_bandwidth = 20
form_factor = "host"
launch = "2023-01"
source = "a processor core, roughly; what is measured corrects it"
"""


class Place:
    """A folder of its own with a catalogue, and without this user's own measurements."""

    def __init__(self, gpuwise, folder, model):
        self.gpuwise, self.folder = gpuwise, pathlib.Path(folder)
        (self.folder / "gpus-host.toml").write_text(HOST)
        shutil.copy(model, self.folder / "served.gguf")
        self.environment = {
            **os.environ,
            "HOME": folder,
            "XDG_CONFIG_HOME": os.path.join(folder, "config"),
            "GPUWISE_CATALOGUE": os.path.join(folder, "gpus-host.toml"),
        }

    def run(self, *arguments):
        command = [self.gpuwise, *map(str, arguments)]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}{done.stdout}")
        return done.stdout


def files(half, loads):
    return [f"{half}-{load}.json" for load in loads]


def compared(place):
    """Rows of the comparison with the half that was held back."""
    text = place.run("compare", "deployment.json", *files("held", HELD), "--offline", "--format", "csv")
    return list(csv.DictReader(io.StringIO(text)))


def error(rows, source, name):
    """Median and largest error of figures whose name ends so, in percent."""
    errors = [
        abs(float(row[f"{source}_over_measured"]) - 1) * 100
        for row in rows
        if row["figure"].endswith(name) and row[f"{source}_over_measured"]
    ]
    if not errors:
        sys.exit(f"nothing {source} of {name}: {rows}")
    return statistics.median(errors), max(errors)


def figures(rows):
    return sorted({row["figure"].split(": ")[-1] for row in rows})


def report(check, before, after):
    """The errors, and that they are no absurdity."""
    print(f"\nerror on the half held back ({', '.join(map(str, HELD))} in flight), median and largest, in percent")
    print(f"{'figure':24} {'source':10} {'before':>18} {'calibrated':>18}")
    overall = {}
    for name in figures(before):
        for source in ("predicted", "simulated"):
            old, new = error(before, source, name), error(after, source, name)
            print(f"{name:24} {source:10} {old[0]:9.1f} {old[1]:8.1f} {new[0]:9.1f} {new[1]:8.1f}")
            overall.setdefault(source, []).append((old[0], new[0]))
    print()
    for source, pairs in overall.items():
        old, new = (statistics.median(column) for column in zip(*pairs))
        check.that(math.isfinite(new), f"{source}: median of medians {old:.1f} % before, {new:.1f} % calibrated")
        # Noise of the machine is forgiven, a correction that leads away is not.
        check.that(new <= max(old, 25.0) * LED_AWAY, f"{source}: calibration does not lead away")
        ratios = [float(row[f"{source}_over_measured"]) for row in after if row[f"{source}_over_measured"]]
        middle = statistics.median(ratios)
        check.that(1 / ABSURD < middle < ABSURD, f"{source}: calibrated figures are {middle:.2f} × those measured")


def main():
    gpuwise, script, model = sys.argv[1:]
    check = Checks()
    with tempfile.TemporaryDirectory() as folder:
        place = Place(gpuwise, folder, model)
        place.run(
            "plan", "./served.gguf", "--engine", "llamacpp", "--gpu", "CPU host", "--owned", "CPU host:1",
            "--concurrency", SLOTS, "--isl", f"constant:{ISL}", "--osl", f"constant:{OSL}", "--offline", "--save", "deployment.json",
        )
        with Server(script, model, SLOTS) as server:
            for pair in zip(LEARNT, HELD):
                for half, load in zip(("learnt", "held"), pair):
                    place.run(
                        "bench", f"{server.address}/v1", "--concurrency", load, "--isl", f"constant:{ISL}", "--osl", f"constant:{OSL}",
                        "--requests", REQUESTS, "--save", f"{half}-{load}.json",
                    )
        before = compared(place)
        print(place.run("calibrate", *files("learnt", LEARNT), "--deployment", "deployment.json", "--offline"))
        after = compared(place)
        print(place.run("compare", "deployment.json", *files("held", HELD), "--offline"))
        check.that(len(before) == len(after) > 0, f"{len(after)} figures are compared")
        measured = [float(row["measured"]) for row in after]
        check.that(all(value > 0 for value in measured), "what was measured is above 0")
        report(check, before, after)
        print(place.run("simulate", "deployment.json", "--offline", "--requests", 200))
    if check.failed:
        sys.exit(f"{len(check.failed)} relations do not hold")


if __name__ == "__main__":
    main()
