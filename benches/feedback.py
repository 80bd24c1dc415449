#!/usr/bin/env python3
"""What five measured points of one's own are worth.

    benches/feedback.py GPUWISE QUESTIONS.csv [--seeds 4,5,6] [--points 5]

Rows with the same model, GPU, number of GPUs, layout, engine and precision are a deployment; those with
at least ten rows are asked. A seed draws five of a deployment's points (lengths, load and what else a row
states; TTFT and TPOT of a point are rows of it); `gpuwise calibrate` takes their rows as a user's own, in
a folder of its own; and all other points are predicted before and after. Errors are
|predicted − measured| / measured, in percent, over all seeds together.

The shipped constants were fitted on published tables: where QUESTIONS is one of them, the errors before
are in-sample, and those of a deployment never seen are larger.
"""

import argparse
import csv
import io
import os
import random
import statistics
import subprocess
import tempfile
from pathlib import Path

DEPLOYMENT = ("model", "gpu", "num_gpus", "tp", "pp", "dp", "engine", "precision")
POINT = ("isl", "osl", "batch_or_concurrency", "extra")
METRICS = ("tpot_mean", "ttft_mean")


def deployments(path):
    """Rows by deployment, of those with ten or more."""
    found = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["metric"] in METRICS and row["value"]:
                found.setdefault(tuple(row[c] for c in DEPLOYMENT), []).append(row)
    return {key: rows for key, rows in found.items() if len(rows) >= 10}


def run(home, *command):
    """Standard output of gpuwise with nothing of this user's but a folder."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "GPUWISE_"))}
    done = subprocess.run(command, capture_output=True, text=True, env={**kept, "HOME": str(home)})
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def written(path, rows, values):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(row if values else {**row, "value": ""} for row in rows)
    return path


def predicted(gpuwise, home, rows):
    """(value, low, high) by id."""
    out = run(home, gpuwise, "--offline", "predict", written(home / "ask.csv", rows, values=False))
    answers = csv.DictReader(io.StringIO(out))
    return {a["id"]: tuple(float(a[c]) for c in ("value", "low", "high")) for a in answers if a["value"]}


def told(judged, metric, when):
    """One line on errors and ranges of a metric."""
    of = [(answer, measured) for m, w, answer, measured in judged if (m, w) == (metric, when)]
    off = [abs(value / measured - 1) * 100 for (value, _, _), measured in of]
    held = sum(low <= measured <= high for (_, low, high), measured in of) / len(of) * 100
    wide = statistics.median(high / low for (_, low, high), _ in of)
    mean, median = statistics.fmean(off), statistics.median(off)
    return f"| {metric} | {when} | {len(of)} | {mean:.1f} | {median:.1f} | {held:.0f} | {wide:.2f} |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gpuwise", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--seeds", default="4,5,6")
    parser.add_argument("--points", type=int, default=5)
    args = parser.parse_args()
    gpuwise = args.gpuwise.resolve()
    judged, asked = [], set()
    found = deployments(args.questions)
    with tempfile.TemporaryDirectory() as empty:
        every = [row for rows in found.values() for row in rows]
        before = predicted(gpuwise, Path(empty), every)
    for seed in args.seeds.split(","):
        for key in sorted(found):
            points = sorted({tuple(row[c] for c in POINT) for row in found[key]})
            random.Random(f"{seed}|{key}").shuffle(points)
            own = set(points[: args.points])
            mine = [row for row in found[key] if tuple(row[c] for c in POINT) in own]
            rest = [row for row in found[key] if tuple(row[c] for c in POINT) not in own]
            # Rows that cannot be answered teach nothing, and calibrate says so.
            if not rest or not any(row["id"] in before for row in mine):
                continue
            asked.add(key)
            with tempfile.TemporaryDirectory() as folder:
                home = Path(folder)
                run(home, gpuwise, "--offline", "calibrate", written(home / "mine.csv", mine, values=True))
                after = predicted(gpuwise, home, rest)
            for row in rest:
                for when, answers in (("before", before), ("after", after)):
                    if row["id"] in before and row["id"] in after:
                        measured = float(row["value"])
                        judged.append((row["metric"], when, answers[row["id"]], measured))
    print(f"{len(asked)} deployments of {args.questions.name}, {args.points} points each, seeds {args.seeds}\n")
    print("| metric | rows of one's own | judged | mean % | median % | in range % | high/low |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for metric in METRICS:
        for when in ("before", "after"):
            print(told(judged, metric, when))


if __name__ == "__main__":
    main()
