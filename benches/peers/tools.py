"""How each tool is installed, told what to do, and read."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from workload import BLOCK, BLOCKS, COSTS, INPUT, MAX_BATCHED_TOKENS, MAX_SEQUENCES, OUTPUT, RATE, SEED


class Unavailable(Exception):
    """A tool that cannot be installed here, and why."""


def installed(command, log, **options):
    """Runs a step of an installation; what it says goes to a log."""
    if shutil.which(command[0]) is None:
        raise Unavailable(f"{command[0]} is not here")
    print(f"installing: {' '.join(map(str, command))}", file=sys.stderr, flush=True)
    with open(log, "ab") as out:
        status = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False, **options).returncode
    if status != 0:
        raise Unavailable(f"`{' '.join(map(str, command))}` failed, see {log}")


class Ours:
    """The engine of this repository, with a recorder of everything that a report holds."""

    key, name, costs, slow = "gpuwise", "gpuwise", ["linear", "ahead", "fixed"], 1

    def __init__(self, root, program=None):
        self.root = root
        self.program = program

    def prepare(self):
        if self.program:
            return
        built = ["cargo", "build", "--quiet", "--release", "--locked", "-p", "gpuwise-sim", "--example", "peer"]
        subprocess.run(built, cwd=self.root, check=True)
        target = Path(os.environ.get("CARGO_TARGET_DIR", self.root / "target"))
        self.program = target / "release" / "examples" / "peer"

    def version(self):
        found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=self.root, capture_output=True, text=True, check=False)
        return f"this repository at {found.stdout.strip() or 'an unknown commit'}"

    def command(self, cost, count, folder):
        told = [f"{name}={value!r}" for name, value in COSTS[cost].items()]
        told += [f"overlap={str(cost == 'ahead').lower()}"]
        told += [f"max_sequences={MAX_SEQUENCES}", f"max_batched_tokens={MAX_BATCHED_TOKENS}"]
        told += [f"block_tokens={BLOCK}", f"blocks={BLOCKS}"]
        return [self.program, folder.parent / f"arrivals-{count}.csv", *told]

    def result(self, text, _folder):
        found = json.loads(text)
        return {
            "requests": found["finished"],
            "ttft": found["ttft_mean_s"],
            "e2e": found["e2e_mean_s"],
            "inside": found["simulated_s"],
        }


class InferenceLab:
    """A Rust crate. It takes no file of arrivals, so everybody else takes the arrivals that it draws."""

    key, name, costs, slow = "inference-lab", "inference-lab", ["ahead"], 1
    release = "1.0.0"

    def __init__(self, folder):
        self.folder = folder
        self.program = folder / "inference-lab" / "bin" / "inference-lab"

    def prepare(self):
        if not self.program.exists():
            installed(
                ["cargo", "install", "inference-lab", "--version", self.release, "--locked", "--quiet", "--root", self.folder / "inference-lab"],
                self.folder / "inference-lab.log",
                env={**os.environ, "CARGO_TARGET_DIR": str(self.folder / "inference-lab-build")},
            )

    def deployment(self, cost, folder):
        path = folder / f"deployment-{cost}.toml"
        text = (
            'model = "qwen3-14b-fp8"\n'
            "[scheduler]\n"
            f"max_num_batched_tokens = {MAX_BATCHED_TOKENS}\nmax_num_seqs = {MAX_SEQUENCES}\n"
            f'policy = "fcfs"\nenable_chunked_prefill = true\nblock_size = {BLOCK}\n'
            "[hardware.gh200]\ntp = 1\n"
        )
        if cost != "own":
            told = COSTS[cost]
            text += (
                f'step_cost = {{ model = "linear", t0 = {told["step"]:e}, tp = {told["token"]:e}, '
                f'td = {told["sequence"]:e}, tk = {told["context"]:e} }}\n'
            )
        path.write_text(text)
        return path

    def version(self):
        return f"crate {self.release}"

    def workload(self, count, folder):
        path = folder / f"workload-{count}.toml"
        path.write_text(
            f'arrival_pattern = "poisson"\narrival_rate = {RATE}\nnum_requests = {count}\nseed = {SEED}\n'
            f'input_len_dist = {{ type = "fixed", value = {INPUT} }}\n'
            f'output_len_dist = {{ type = "fixed", value = {OUTPUT} }}\n'
        )
        return path

    def arrivals(self, count):
        """The arrivals of its Poisson process, in seconds (told to a tenth of a millisecond)."""
        work = self.folder / "work" / self.key
        work.mkdir(parents=True, exist_ok=True)
        rows = work / f"requests-{count}.csv"
        command = [*self.command("ahead", count, work), "--request-csv", rows]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with open(rows, newline="") as file:
            return sorted(float(row["arrival"]) for row in csv.DictReader(file))

    def command(self, cost, count, folder):
        return [
            self.program, "--config", self.deployment(cost, folder), "--workload", self.workload(count, folder),
            "--quiet", "--no-color", "--output", folder / "summary.json",
        ]  # fmt: skip

    def result(self, _text, folder):
        found = json.loads((folder / "summary.json").read_text())
        latency = found["latency_metrics"]
        return {
            "requests": found["requests"]["completed"],
            "ttft": latency["ttft_ms"]["mean"] / 1e3,
            "e2e": latency["e2e_ms"]["mean"] / 1e3,
        }


class InferenceLabEngine(InferenceLab):
    """The engine of that crate as a library: optimised for speed, no summary each simulated second."""

    key, name, costs, slow = "inference-lab-engine", "inference-lab's engine alone", ["linear"], 1

    def __init__(self, folder):
        super().__init__(folder)
        self.program = folder / "driver" / "target" / "release" / "inference-lab-driver"

    def prepare(self):
        if self.program.exists():
            return
        place = self.folder / "driver"
        shutil.copytree(Path(__file__).parent / "inference_lab", place, dirs_exist_ok=True)
        installed(
            ["cargo", "build", "--release", "--quiet", "--target-dir", place / "target"],
            self.folder / "driver.log",
            cwd=place,
        )

    def command(self, cost, count, folder):
        return [self.program, self.deployment(cost, folder), folder.parent / f"arrivals-{count}.csv"]

    def result(self, text, _folder):
        found = json.loads(text)
        return {
            "requests": found["finished"],
            "ttft": found["ttft"]["mean"],
            "e2e": found["e2e"]["mean"],
            "inside": found["simulated_s"],
        }


class Aisimulate:
    """A wheel; its engine is Dynamo's mocker in Rust."""

    key, name, costs, slow = "aisimulate", "AISimulate", ["fixed"], 1
    release = "0.13.0.dev202610270000000085"
    # What a prediction with configured step times imports; the wheel asks for much more.
    needs = ["psutil>=7,<8", "pydantic>=2.5", "pyyaml>=6", "ijson>=3.4,<4", "packaging", "numpy>=2.1,<3", "pandas>=2.2.3"]

    def __init__(self, folder):
        self.folder = folder
        self.place = folder / "aisimulate"
        self.program = self.place / "bin" / "aisimulate"

    def prepare(self):
        if self.program.exists():
            return
        log = self.folder / "aisimulate.log"
        installed([sys.executable, "-m", "venv", self.place], log)
        pip = [self.place / "bin" / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
        installed([*pip, *self.needs], log)
        installed([*pip, "--no-deps", f"aisimulate=={self.release}"], log)

    def version(self):
        return f"wheel {self.release}"

    def command(self, cost, count, folder):
        timing, parallel = {"type": "default"}, {"tensor": 4}
        if cost != "own":
            told, parallel = COSTS[cost], {}
            timing = {"type": "fixed", "prefill_ms": told["prefill"] * 1e3, "decode_ms": told["decode"] * 1e3}
        config = {
            "engine": {
                "model": "Qwen/Qwen3-32B",
                "hardware": "h100_sxm",
                "backend": "vllm",
                "mode": "aggregated",
                "workers": {
                    "aggregated": {
                        "scheduler": {"max_batched_tokens": MAX_BATCHED_TOKENS, "max_sequences": MAX_SEQUENCES},
                        "kv_cache": {"block_size": BLOCK, "bytes_per_token": 262144, "capacity": {"type": "fixed", "blocks": BLOCKS}},
                        "timing": timing,
                        "parallelism": parallel,
                    }
                },
            },
            "traffic": {
                "source": {"type": "trace", "paths": [str(folder.parent / f"mooncake-{count}.jsonl")], "format": "mooncake", "block_size": 512},
                "load": {"type": "trace_timestamps"},
            },
        }
        path = folder / f"prediction-{count}.json"
        # JSON is YAML.
        path.write_text(json.dumps(config))
        return [self.program, "predict", "--config", path, "--format", "json", "--output-dir", folder / "answer", "--overwrite"]

    def result(self, text, _folder):
        found = json.loads(text)
        return {
            "requests": found["completed_requests"],
            "ttft": found["mean_ttft_ms"] / 1e3,
            "e2e": found["mean_e2e_latency_ms"] / 1e3,
            "inside": found["wall_time_ms"] / 1e3,
        }


class Blis:
    """A Go program, built from a checkout."""

    key, name, costs, slow = "blis", "BLIS", ["linear"], 5
    source, commit = "https://github.com/inference-sim/inference-sim", "f90a1e3a"

    def __init__(self, folder, checkout):
        self.folder = folder
        self.checkout = checkout or folder / "blis"
        self.program = folder / "blis-bin"

    def prepare(self):
        log = self.folder / "blis.log"
        if not self.checkout.exists():
            installed(["git", "clone", "--quiet", self.source, self.checkout], log)
            installed(["git", "-C", self.checkout, "checkout", "--quiet", self.commit], log)
        if not self.program.exists():
            installed(["go", "build", "-o", self.program, "main.go"], log, cwd=self.checkout)

    def version(self):
        found = subprocess.run(["git", "-C", self.checkout, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
        return f"inference-sim/inference-sim at {found.stdout.strip() or self.commit}"

    def command(self, cost, count, folder):
        trace = folder.parent / f"blis-{count}"
        told = [] if cost == "own" else ["--alpha-coeffs", "0,0,0", "--beta-coeffs", self.coefficients(cost)]
        return [
            self.program, "replay", "--model", "qwen/qwen3-14b", "--hardware", "H100", "--tp", "1",
            "--defaults-filepath", self.checkout / "defaults.yaml",
            "--hardware-config", self.checkout / "hardware_config.json",
            "--model-config-folder", self.checkout / "model_configs" / "qwen3-14b",
            "--trace-header", f"{trace}.yaml", "--trace-data", f"{trace}.csv",
            "--max-num-seqs", str(MAX_SEQUENCES), "--max-num-batched-tokens", str(MAX_BATCHED_TOKENS),
            "--block-size-in-tokens", str(BLOCK), "--total-kv-blocks", str(BLOCKS),
            "--latency-model", "trained-physics", *told,
        ]  # fmt: skip

    def coefficients(self, cost):
        """Its ten factors of physical terms, so that the sum is ours: all but four are 0.

        The memory terms are bytes of KV cache by memory bandwidth: of prompt tokens written (the
        ninth factor) and of context read (the tenth). The sixth and seventh are microseconds by
        sequence and by step.
        """
        model = json.loads((self.checkout / "model_configs" / "qwen3-14b" / "config.json").read_text())
        hardware = json.loads((self.checkout / "hardware_config.json").read_text())["H100"]
        width = model["num_key_value_heads"] * model["hidden_size"] // model["num_attention_heads"]
        bytes_a_token = model["num_hidden_layers"] * 2 * width * 2
        microseconds = bytes_a_token / (hardware["BwPeakTBs"] * 1e6)
        told = COSTS[cost]
        factors = [0.0] * 10
        factors[5] = told["sequence"] * 1e6
        factors[6] = told["step"] * 1e6
        factors[8] = told["token"] * 1e6 / microseconds
        factors[9] = told["context"] * 1e6 / microseconds
        return ",".join(f"{factor:.9g}" for factor in factors)

    def result(self, text, _folder):
        found = json.loads(text[text.index("{") : text.rindex("}") + 1])
        return {
            "requests": found["completed_requests"],
            "ttft": found["ttft_mean_ms"] / 1e3,
            "e2e": found["e2e_mean_ms"] / 1e3,
        }
