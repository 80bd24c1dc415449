"""The requests that every tool is given: one file of arrivals, and its like in each tool's format."""

import json
import random
from pathlib import Path

RATE = 10.0
INPUT = 1024
OUTPUT = 128
SEED = 42
# Scheduling, as vLLM V1 has it by default on a large GPU; a cache that nothing is squeezed out of.
MAX_SEQUENCES = 256
MAX_BATCHED_TOKENS = 8192
BLOCK = 16
BLOCKS = 20_000
# Seconds of a step. `linear`: any step, each prompt token, each decoding sequence, each token of its
# context. `ahead`: the same, each step planned while the one before it runs, so that who arrives
# during a step is in the next but one. `fixed`: a step that computes prompts, plus one that decodes;
# no round numbers, so that no arrival falls on the end of a step, where tools may differ.
LINEAR = {"step": 8e-3, "token": 25e-6, "sequence": 20e-6, "context": 20e-9}
COSTS = {"linear": LINEAR, "ahead": LINEAR, "fixed": {"prefill": 26.0173e-3, "decode": 8.6137e-3}}


def arrivals(folder, count, source=None):
    """Writes the files of so many requests, where they are not there yet.

    `source` gives arrival times in seconds; where it is not given, a Poisson process of Python's.
    """
    folder = Path(folder)
    ours = folder / f"arrivals-{count}.csv"
    if ours.exists():
        return ours
    folder.mkdir(parents=True, exist_ok=True)
    times = source(count) if source else poisson(count)
    microseconds = [round(time * 1e6) for time in times]
    trace(folder / f"mooncake-{count}.jsonl", microseconds)
    table(folder / f"blis-{count}.csv", microseconds)
    # Last: where it is, all are.
    with open(ours, "w") as file:
        file.write("arrival_us,input,output\n")
        file.writelines(f"{time},{INPUT},{OUTPUT}\n" for time in microseconds)
    return ours


def poisson(count):
    chance, now, times = random.Random(SEED), 0.0, []
    for _ in range(count):
        now += chance.expovariate(RATE)
        times.append(now)
    return times


def trace(path, microseconds):
    """Mooncake's JSON lines: milliseconds, and a name for each 512 tokens of prompt, all different."""
    names = INPUT // 512
    with open(path, "w") as file:
        for at, time in enumerate(microseconds):
            row = {
                "timestamp": time / 1000,
                "input_length": INPUT,
                "output_length": OUTPUT,
                "hash_ids": [at * names + name for name in range(names)],
            }
            file.write(json.dumps(row) + "\n")


def table(path, microseconds):
    """BLIS's TraceV2: a table, and a header beside it."""
    columns = (
        "request_id,client_id,tenant_id,slo_class,session_id,round_index,prefix_group,prefix_length,"
        "streaming,input_tokens,output_tokens,text_tokens,image_tokens,audio_tokens,video_tokens,"
        "reason_ratio,model,deadline_us,server_input_tokens,arrival_time_us,send_time_us,"
        "first_chunk_time_us,last_chunk_time_us,num_chunks,status,error_message,finish_reason\n"
    )
    with open(path, "w") as file:
        file.write(columns)
        for at, time in enumerate(microseconds):
            file.write(f"{at},all,,,,0,,0,false,{INPUT},{OUTPUT},{INPUT},0,0,0,0,,0,0,{time},{time},0,0,0,ok,,\n")
    header = f"trace_version: 3\ntime_unit: microseconds\nmode: generated\nwarm_up_requests: 0\nworkload_seed: {SEED}\n"
    path.with_suffix(".yaml").write_text(header)
