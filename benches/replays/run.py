#!/usr/bin/env python3
"""Measured runs of vLLM replayed with `gpuwise simulate`, and how far it is off.

usage: run.py PROGRAM [--data FOLDER] [--seed N]

For each run of `serving/runs/cases.csv` in the sample data (GPUWISE_DATA): its launch command becomes a
deployment (`gpuwise plan --from`), its requests are written by `serving/runs/expand.py` at equal gaps,
and the simulated latencies are put beside the measured ones. One trace replay tests the order in which
requests end. Prints Markdown.
"""
import argparse
import csv
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

METRICS = {
    "e2e_mean": ("end_to_end", "mean"),
    "e2e_p90": ("end_to_end", "p90"),
    "itl_mean": ("inter_token", "mean"),
    "ttft_mean": ("ttft", "mean"),
    "ttft_p90": ("ttft", "p90"),
    "ttft_p99": ("ttft", "p99"),
}
TO_MILLISECONDS = {"s": 1e3, "ms": 1.0}


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode == 2:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def deployment(program, case, folder):
    """The deployment that a case describes, saved."""
    path = folder / f"{case['exp_id']}.json"
    launch = (
        f"vllm serve {case['model']} -tp {case['tp']} --max-model-len {case['max_model_len']} "
        f"--max-num-seqs {case['max_num_seqs']} --max-num-batched-tokens {case['max_num_batched_tokens']} "
        f"--gpu-memory-utilization {case['gpu_memory_utilization']}"
    )
    run(program, "plan", "--from", launch, "--gpu", "H100 SXM5 80GB", "--engine", "vllm@0.15.1", "--rate", "1",
        "--isl", "566", "--osl", "250", "--no-slices", "--offline", "--save", path)
    return path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--data", default=os.environ.get("GPUWISE_DATA", "../shared/data"))
    parser.add_argument("--seed", default="0")
    options = parser.parse_args()
    data = pathlib.Path(options.data)
    runs = data / "serving" / "runs"
    measured = {}
    for row in csv.DictReader(open(data / "questions" / "vllm_open_loop_runs.csv")):
        extra = dict(part.strip().split("=", 1) for part in row["extra"].split(";") if "=" in part)
        if extra.get("stage") == "all":
            measured[extra["run"], row["metric"]] = float(row["value"])
    errors = {metric: [] for metric in METRICS}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        print("| run | model | TP | " + " | ".join(METRICS) + " |")
        print("|---|---|--:|" + "--:|" * len(METRICS))
        for case in csv.DictReader(open(runs / "cases.csv")):
            trace = folder / "trace.csv"
            trace.write_text(run(sys.executable, runs / "expand.py", case["workload"], "--arrivals", "constant"))
            saved = deployment(options.program, case, folder)
            text = run(options.program, "simulate", saved, "--trace", trace, "--seed", options.seed, "--offline",
                       "--format", "csv")
            figures = {
                (row["metric"], row["statistic"]): row
                for row in csv.DictReader(text.splitlines())
                if row["group"] == "all"
            }
            cells = []
            for metric, (key, statistic) in METRICS.items():
                value = measured.get((case["exp_id"], metric))
                row = figures.get((key, statistic))
                if value is None or row is None:
                    cells.append("–")
                    continue
                error = float(row["value"]) * TO_MILLISECONDS[row["unit"]] / value - 1.0
                errors[metric].append(abs(error) * 100)
                cells.append(f"{error * 100:+.0f} %")
            print(f"| {case['exp_id']} | {case['model'].split('/')[-1]} | {case['tp']} | " + " | ".join(cells) + " |")
        print()
        for metric, values in errors.items():
            if values:
                print(f"{metric}: median {statistics.median(values):.1f} %, mean {statistics.mean(values):.1f} %")


if __name__ == "__main__":
    main()
