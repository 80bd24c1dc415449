"""agreement.py GPUWISE [DEPLOYMENTS] [SEED] [WITHIN APART]: does the step simulator find what `plan` promises?

Plans random deployments (dense, experts, pipelines, attention DP, disaggregated, MIG slices) and
simulates each saved plan under the load that it was planned for. Figures agree where the planned range
holds what was simulated. Plans speak of a steady state: a run is as long as twelve planned requests, one
after the other, and judged after the first four. Prints one line per kind of deployment and the worst,
and exits with 1 where fewer than 90 % agree or any differ by more than 1.5 times, or the share and factor
given.
"""

import collections
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

# What is wanted: a change may not fall behind what CI passes as reached.
WITHIN = 0.90
APART = 1.5
# Requests of a run at least, and its length and what is left out of it in planned requests end to end.
FEWEST = 1500
LIVES, FILLING = 12, 4
NAMES = {"tpot": "tpot_seconds", "ttft": "ttft_seconds"}

DENSE = ["meta-llama/Llama-3.1-8B", "Qwen/Qwen3-32B", "Qwen/Qwen2.5-7B", "mistralai/Mistral-7B-v0.1", "meta-llama/Llama-3.1-70B"]
EXPERTS = ["Qwen/Qwen3-30B-A3B", "mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen3-235B-A22B", "openai/gpt-oss-120b"]
WIDE = ["deepseek-ai/DeepSeek-V3"]
GPUS = ["H100 SXM5 80GB", "H200 SXM 141GB", "A100 SXM4 80GB", "L40S", "B200 SXM 180GB", "MI300X"]


def deployment(draw):
    """Flags of a random deployment, and its kind."""
    kind = draw.choice(["dense", "dense", "experts", "experts", "wide", "pipeline", "disaggregated", "slice"])
    engine = draw.choice(["vllm", "sglang", "trtllm"])
    gpu = draw.choice(GPUS)
    flags = ["--engine", engine]
    if kind == "dense":
        model = draw.choice(DENSE)
    elif kind == "experts":
        model = draw.choice(EXPERTS)
    elif kind == "wide":
        model, gpu = draw.choice(WIDE), draw.choice(["H200 SXM 141GB", "B200 SXM 180GB"])
        flags += draw.choice([[], ["--dp", "8", "--ep", "8"]])
    elif kind == "pipeline":
        model = draw.choice(DENSE)
        flags += ["--tp", "1", "--pp", draw.choice(["2", "4"])]
        gpu = draw.choice(GPUS[:3])
    elif kind == "disaggregated":
        model, gpu = draw.choice(DENSE + EXPERTS), draw.choice(GPUS[:2])
        flags += ["--disaggregated"]
    else:
        model, gpu = draw.choice(DENSE[2:4]), draw.choice(["H100 SXM5 80GB", "A100 SXM4 80GB"])
    rate = round(10 ** draw.uniform(-0.7, 1.3), 2)
    isl, osl = draw.choice([(200, 200), (1000, 1000), (2000, 300), (4000, 100), (8000, 50), (500, 800)])
    spread = draw.choice(["constant:", ""])
    flags += ["--gpu", gpu, "--rate", str(rate), "--isl", f"{spread}{isl}", "--osl", f"{spread}{osl}"]
    return kind, [model, *flags]


def ask(command):
    ran = subprocess.run(command, capture_output=True, text=True)
    return ran.returncode, ran.stdout, ran.stderr


def figures(gpuwise, flags, folder):
    """Planned (value, low, high) and simulated means, or why there are none."""
    saved = Path(folder) / "deployment.json"
    saved.unlink(missing_ok=True)
    slo = ["--ttft", "mean:30s", "--tpot", "mean:1s", "--offline", "--format", "json", "--save", str(saved)]
    code, out, err = ask([gpuwise, "plan", *flags, *slo])
    if code != 0 or not saved.exists():
        return None, err.strip().splitlines()[:1] or out[:80]
    planned = json.loads(out)["deployments"][0]["figures"]
    rate, life = float(flags[flags.index("--rate") + 1]), planned["end_to_end_seconds"]["value"]
    requests = int(max(FEWEST, LIVES * life * rate))
    filled = f"{max(requests / rate / 5, FILLING * life):.3f}s"
    run = ["--requests", str(requests), "--warm-up", filled, "--format", "json"]
    code, out, err = ask([gpuwise, "simulate", str(saved), *run])
    if code > 1:
        return None, err.strip().splitlines()[:1]
    found = json.loads(out)["result"]["runs"][0]["groups"][0]["distributions"]
    means = {one["metric"]: one["distribution"]["mean"] for one in found}
    pairs = {}
    for name, key in NAMES.items():
        one = planned.get(key)
        if name in means and one:
            pairs[name] = ((one["value"], one["low"], one["high"]), means[name])
    return pairs, None


def main():
    gpuwise = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 14)
    wanted, apart_at_most = map(float, sys.argv[4:6]) if len(sys.argv) > 5 else (WITHIN, APART)
    judged = collections.defaultdict(list)
    unanswered = []
    with tempfile.TemporaryDirectory() as folder:
        while sum(len(rows) for rows in judged.values()) < count and len(unanswered) < count:
            kind, flags = deployment(draw)
            pairs, why = figures(gpuwise, flags, folder)
            if pairs is None:
                unanswered.append((flags, why))
                continue
            for name, ((value, low, high), found) in pairs.items():
                apart = max(value / found, found / value)
                judged[kind, name].append((apart, low <= found <= high, value, found, " ".join(flags)))
    rows = [row for of in judged.values() for row in of]
    for (kind, name), of in sorted(judged.items()):
        inside = sum(row[1] for row in of) / len(of)
        worst = max(of)
        print(f"{kind:14} {name}: {len(of):3} deployments, {inside:4.0%} in range, worst {worst[0]:.2f}x ({worst[2]:.4g} planned, {worst[3]:.4g} simulated: {worst[4]})")
    inside = sum(row[1] for row in rows) / max(1, len(rows))
    worst = max(row[0] for row in rows)
    print(f"{len(rows)} figures: {inside:.0%} in range, worst {worst:.2f}x; {len(unanswered)} questions without a plan")
    print(f"wanted: {WITHIN:.0%} in range, none beyond {APART}x; held here: {wanted:.0%}, {apart_at_most}x")
    sys.exit(inside < wanted or worst > apart_at_most)


main()
