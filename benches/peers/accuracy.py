#!/usr/bin/env python3
"""Our serving figures beside aiconfigurator's, on the same measured questions, in one run.

    benches/peers/accuracy.py GPUWISE QUESTIONS.csv [--sample 200] [--seed 14]

Aggregated runs with a stated number of concurrent requests are drawn by a seed; both tools are asked for
TTFT and TPOT of each. Printed are how many each answers, errors where both do, errors of ours on all,
processor seconds and peak memory. aiconfigurator is installed under target/peers, where it is missing,
and asked through its documented function `cli_estimate`; it is given everything that a row states.
"""

import argparse
import contextlib
import csv
import io
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "aiconfigurator==0.12.0"
SYSTEMS = {
    "NVIDIA H100 SXM5 80GB": "h100_sxm",
    "NVIDIA H200 SXM 141GB": "h200_sxm",
    "NVIDIA A100 SXM4 80GB": "a100_sxm",
    "NVIDIA B200 SXM 180GB": "b200_sxm",
    "NVIDIA B300 SXM 288GB": "b300_sxm",
    "NVIDIA GB200 186GB": "gb200",
    "NVIDIA GB300 288GB": "gb300",
    "NVIDIA L40S": "l40s",
}
# Names that the tool carries the same shapes under.
MODELS = {
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Meta-Llama-3.1-8B",
    "nvidia/DeepSeek-R1-NVFP4": "deepseek-ai/DeepSeek-R1",
    "nvidia/Qwen3-32B-NVFP4": "Qwen/Qwen3-32B",
}
BOTH = ("ttft_mean", "tpot_mean")


def extra(row):
    pairs = (part.split("=", 1) for part in row["extra"].split(";") if "=" in part)
    return {key.strip(): value.strip() for key, value in pairs}


def runs(path):
    """Rows of one run by what they ask: {key: {metric: [rows]}}."""
    found = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            more = extra(row)
            if row["metric"] not in BOTH or more.get("mode", "agg") != "agg":
                continue
            if not row["batch_or_concurrency"].isdigit() or not row["isl"] or not row["osl"]:
                continue
            key = tuple(row[c] for c in row if c not in ("id", "metric", "unit", "value"))
            found.setdefault(key, {}).setdefault(row["metric"], []).append(row)
    return found


def arguments(row):
    """What `cli_estimate` is told of a row; None where the tool has no such GPU or engine."""
    more = extra(row)
    engine = row["engine"].split()[0]
    if row["gpu"] not in SYSTEMS or engine not in ("vllm", "sglang", "trtllm"):
        return None
    # An empty degree and 0 both mean that a row does not say.
    number = lambda text, other: int(text or 0) or other
    dp = number(row["dp"], 1)
    return {
        "model_path": MODELS.get(row["model"], row["model"]),
        "system_name": SYSTEMS[row["gpu"]],
        "backend_name": engine,
        "database_mode": "HYBRID",
        "isl": int(row["isl"]),
        "osl": int(row["osl"]),
        "batch_size": max(1, round(int(row["batch_or_concurrency"]) / dp)),
        "tp_size": number(row["tp"], number(row["num_gpus"], 1)),
        "pp_size": number(row["pp"], 1),
        "attention_dp_size": dp,
        "moe_tp_size": number(more.get("moe_tp"), None),
        "moe_ep_size": number(more.get("moe_ep"), None),
        "gemm_quant_mode": more.get("gemm"),
        "moe_quant_mode": more.get("moe"),
    }


def peer(asked):
    """Runs in the peer's own interpreter: answers of a list of arguments, one JSON line each."""
    from aiconfigurator.cli import api

    for one in asked:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                told = api.cli_estimate(**one)
            print(json.dumps([told.ttft, told.tpot]), flush=True)
        except Exception:  # a refusal of any kind is no answer
            print(json.dumps(None), flush=True)


def interpreter():
    folder = ROOT / "target" / "peers" / "aiconfigurator"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    have = subprocess.run([python, "-c", "import aiconfigurator"], capture_output=True)
    if have.returncode:
        subprocess.run([python, "-m", "pip", "install", "-q", PACKAGE], check=True)
    return python


def cost(command, **how):
    """Standard output, processor seconds and peak MB of a child."""
    with tempfile.NamedTemporaryFile() as peak:
        timed = ["/usr/bin/time", "-f", "%U %S %M", "-o", peak.name] if Path("/usr/bin/time").exists() else []
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        ran = subprocess.run([*timed, *command], capture_output=True, text=True, **how)
        wall = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        words = Path(peak.name).read_text().split()
        megabytes = int(words[-1]) / 1000 if words else after.ru_maxrss / 1000
    return ran.stdout, seconds, megabytes, wall


def errors(pairs):
    """Median and mean error in percent of (predicted, measured)."""
    each = [abs(p / m - 1) * 100 for p, m in pairs]
    if not each:
        return "no row"
    return f"{statistics.median(each):.1f} / {statistics.fmean(each):.1f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gpuwise")
    parser.add_argument("questions")
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=14)
    args = parser.parse_args()
    found = runs(args.questions)
    keys = sorted(found)
    random.Random(args.seed).shuffle(keys)
    keys = keys[: args.sample]
    rows = [next(iter(found[key].values()))[0] for key in keys]
    asked = [arguments(row) for row in rows]

    told = [one for one in asked if one]
    quiet = {**os.environ, "OMP_NUM_THREADS": "1", "AICONFIGURATOR_LOG_LEVEL": "CRITICAL"}
    out, seconds, megabytes, wall = cost([interpreter(), __file__, "--peer"], input=json.dumps(told), env=quiet)
    answers = iter([json.loads(line) for line in out.splitlines()])
    theirs = [next(answers, None) if one else None for one in asked]

    with tempfile.NamedTemporaryFile("w", suffix=".csv", newline="") as file:
        flat = [row for key in keys for of in found[key].values() for row in of]
        writer = csv.DictWriter(file, fieldnames=list(flat[0]))
        writer.writeheader()
        writer.writerows({**row, "value": ""} for row in flat)
        file.flush()
        out, own_seconds, own_megabytes, own_wall = cost([args.gpuwise, "predict", file.name])
    ours = {row["id"]: float(row["value"]) for row in csv.DictReader(out.splitlines()) if row["value"]}

    print(f"{len(keys)} runs of {Path(args.questions).name}, drawn with seed {args.seed}")
    print("| metric | asked | gpuwise answers | aiconfigurator answers | both: gpuwise % | both: aiconfigurator % | all: gpuwise % |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for at, metric in enumerate(BOTH):
        own, shared, peers, asks = [], [], [], 0
        for key, answer in zip(keys, theirs):
            of = found[key].get(metric)
            if not of:
                continue
            asks += 1
            measured = statistics.geometric_mean(float(row["value"]) for row in of)
            mine = ours.get(of[0]["id"])
            if mine:
                own.append((mine, measured))
            if answer and answer[at]:
                peers.append((answer[at], measured))
                if mine:
                    shared.append((mine, measured))
        print(f"| {metric} | {asks} | {len(own)} | {len(peers)} | {errors(shared)} | {errors(peers)} | {errors(own)} |")
    print("\nmedian / mean of |predicted − measured| / measured")
    print(f"gpuwise: {own_seconds:.2f} s of processor, {own_wall:.2f} s, {own_megabytes:.0f} MB; "
          f"aiconfigurator: {seconds:.1f} s of processor, {wall:.1f} s, {megabytes:.0f} MB")


if sys.argv[1:2] == ["--peer"]:
    peer(json.load(sys.stdin))
else:
    main()
