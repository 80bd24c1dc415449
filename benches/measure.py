#!/usr/bin/env python3
"""Whole-command figures of gpuwise: wall time, processor time, peak memory, size of the report.

Usage: benches/measure.py [GPUWISE]        (default: target/release/gpuwise)

Each command runs several times; the median is printed as a Markdown table, beside its bound. The
exit code is 1 where a bound is missed.
"""

import csv
import os
import statistics
import subprocess
import sys
import tempfile
import time

RUNS = 7
MODEL = "meta-llama/Llama-3.1-70B-Instruct"
TRAFFIC = ["--rate", "8", "--isl", "2000", "--osl", "300", "--ttft", "p95:1s", "--tpot", "p95:40ms"]


def timed(command, folder):
    """Wall seconds, processor seconds and peak MB of a command that must succeed."""
    started = time.perf_counter()
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - started
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{' '.join(command)} failed")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def questions(path, rows):
    """A table of so many different questions: models, GPUs, layouts, lengths, loads, metrics."""
    models = [
        ("meta-llama/Llama-3.1-8B-Instruct", "bf16"),
        ("meta-llama/Llama-3.1-70B-Instruct", "fp8"),
        ("Qwen/Qwen2.5-32B-Instruct", "bf16"),
        ("deepseek-ai/DeepSeek-V3", "fp8"),
        ("openai/gpt-oss-120b", "mxfp4"),
    ]
    gpus = ["H100 SXM5 80GB", "H200 SXM5 141GB", "A100 SXM4 80GB", "B200 SXM 180GB"]
    metrics = [("tpot_mean", "ms"), ("ttft_mean", "ms"), ("output_throughput", "tokens/s"), ("e2e_mean", "ms")]
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow("id,model,gpu,num_gpus,tp,precision,engine,isl,osl,batch_or_concurrency,metric,unit".split(","))
        for at in range(rows):
            model, precision = models[at % 5]
            metric, unit = metrics[at // 5 % 4]
            gpu = gpus[at // 20 % 4]
            tensor = [1, 2, 4, 8][at // 80 % 4] if at % 5 < 3 else 8
            input_tokens = 100 + at // 320 % 40 * 100
            concurrency = 1 + at // 12800 * 7 + at % 97
            out.writerow([at, model, gpu, tensor, tensor, precision, "vllm", input_tokens, 200, concurrency, metric, unit])


def main():
    binary = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/gpuwise")
    missed = False
    print("| command | wall, s | processor, s | peak, MB | bound | |")
    print("|---|--:|--:|--:|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        questions(os.path.join(folder, "one.csv"), 1)
        questions(os.path.join(folder, "many.csv"), 10_000)
        plan = [binary, "plan", MODEL, *TRAFFIC, "--offline"]
        cases = [
            ("one question about one GPU", [binary, "predict", "one.csv", "--offline"], 0.1, 60),
            ("memory of one model on one GPU", [binary, "memory", MODEL, "--gpu", "H100", "--tp", "4", "--context", "8192", "--concurrency", "16", "--offline"], 0.1, 60),
            ("a plan on one kind of GPU", [*plan, "--gpu", "H100 SXM5 80GB"], 0.1, 60),
            ("a plan over the whole catalogue", plan, 1.0, None),
            ("10,000 rows of predict", [binary, "predict", "many.csv", "--offline"], 5.0, None),
            ("a plan with its HTML report", [*plan, "--html", "report.html"], 1.0, None),
        ]
        for name, command, seconds, megabytes in cases:
            runs = [timed(command, folder) for _ in range(RUNS)]
            wall, processor, peak = (statistics.median(column) for column in zip(*runs))
            kept = wall <= seconds and (megabytes is None or peak <= megabytes)
            missed |= not kept
            bound = f"≤ {seconds:g} s" + (f", {megabytes} MB" if megabytes else "")
            print(f"| {name} | {wall:.3f} | {processor:.3f} | {peak:.0f} | {bound} | {'kept' if kept else 'MISSED'} |")
        size = os.path.getsize(os.path.join(folder, "report.html")) / 1000
        missed |= size > 300
        print(f"| size of that report: {size:.0f} kB | | | | ≤ 300 kB | {'kept' if size <= 300 else 'MISSED'} |")
    sys.exit(missed)


if __name__ == "__main__":
    main()
