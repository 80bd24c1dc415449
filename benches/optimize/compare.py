"""Our weights in fewer bits beside llm-compressor's data-free ones and torch: error, time and memory.

    compare.py errors CONVERT              # five kinds of matrices in every format: relative Frobenius error
    compare.py speed GPUWISE [ROWS COLS]   # a checkpoint of one matrix to another, as users do it

CONVERT is the example of gpuwise-compress, GPUWISE the program, both built in release. A Python with torch, compressed-tensors and llmcompressor
runs this. The weights that others wrote are read back by their own code, ours by ours.
"""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

OBSERVERS = ["memoryless_minmax", "memoryless_mse"]
FP8 = {"num_bits": 8, "type": "float", "symmetric": True}
INT8 = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel"}
FORMATS = {
    "fp8-tensor": FP8 | {"strategy": "tensor"},
    "fp8-channel": FP8 | {"strategy": "channel"},
    "fp8-block": FP8 | {"strategy": "block", "block_structure": [128, 128]},
    "int8-channel": INT8,
    **{
        f"int4-{kind}-g{group}": {
            "num_bits": 4,
            "type": "int",
            "symmetric": kind == "sym",
            "strategy": "group",
            "group_size": group,
        }
        for kind in ["sym", "asym"]
        for group in [32, 64, 128]
    },
    "nvfp4": "NVFP4A16",
    "mxfp4": "MXFP4A16",
}


def matrices(rows: int, columns: int) -> dict[str, torch.Tensor]:
    """Five kinds of weights, in bfloat16."""
    chance = torch.Generator().manual_seed(20)

    def normal(*shape):
        return torch.randn(*shape, generator=chance)

    gauss = normal(rows, columns) * 0.02
    # Student's t of 4 degrees: a normal number over the root of a chi-square.
    chi = sum(normal(rows, columns) ** 2 for _ in range(4)) / 4
    heavy = 0.02 * normal(rows, columns) / chi.sqrt()
    # Some inputs of a layer have weights of twenty times the size.
    outliers = normal(rows, columns) * 0.02
    outliers[:, torch.randperm(columns, generator=chance)[: columns // 128]] *= 20
    # As attention and MLP weights are after training: a low rank above noise, rows of different size.
    low = normal(rows, 32) @ normal(32, columns) * 0.004
    shaped = (low + normal(rows, columns) * 0.015) * torch.exp(normal(rows, 1) * 0.4)
    tiny = normal(rows, columns) * 1e-6
    tiny[::7] = 0
    tiny[3::11] *= 1e-4
    kinds = {"gauss": gauss, "student-t": heavy, "outliers": outliers, "low-rank": shaped, "tiny": tiny}
    return {name: one.bfloat16() for name, one in kinds.items()}


def error(was: torch.Tensor, now: torch.Tensor) -> float:
    was, now = was.double(), now.double()
    return (torch.linalg.norm(now - was) / torch.linalg.norm(was)).item()


def scheme_of(form, observer: str):
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme, preset_name_to_scheme

    if isinstance(form, str):
        scheme = preset_name_to_scheme(form, ["Linear"])
        scheme.weights = scheme.weights.model_copy(update={"observer": observer})
        return scheme
    return QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**form, observer=observer))


def theirs(weight: torch.Tensor, form, observer: str) -> float:
    """As llm-compressor's model-free path does it, tensor by tensor."""
    from compressed_tensors.compressors import compress_module, decompress_module
    from llmcompressor.entrypoints.model_free.lifecycle import calibrate_weight, initialize_quantized_linear

    module = initialize_quantized_linear(weight, scheme_of(form, observer), "cpu")
    calibrate_weight(module)
    compress_module(module)
    decompress_module(module)
    return error(weight, module.weight.data)


def convert(binary: str, name: str, weight: torch.Tensor, place: Path) -> float:
    (place / "from").write_bytes(weight.view(torch.uint8).numpy().tobytes())
    rows, columns = map(str, weight.shape)
    names = [place / "from", place / "parts", place / "again"]
    subprocess.run([binary, name, "BF16", rows, columns, *names], check=True, stdout=subprocess.DEVNULL)
    again = torch.frombuffer(bytearray((place / "again").read_bytes()), dtype=torch.float32)
    return error(weight, again.view(weight.shape))


def errors(binary: str) -> int:
    worse = 0
    print("| format | weights | ours | min-max | MSE | ours/best |\n|---|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as place:
        for form, args in FORMATS.items():
            for kind, weight in matrices(512, 2048).items():
                ours = convert(binary, form, weight, Path(place))
                them = []
                observers = OBSERVERS + ["nvfp4_expanded_mse"] * (form == "nvfp4")
                for observer in observers:
                    them.append(theirs(weight, args, observer))
                best = min(one for one in them if math.isfinite(one))
                worse += ours > best
                last = f"{min(them[1:]):.6f}"
                print(f"| {form} | {kind} | {ours:.6f} | {them[0]:.6f} | {last} | {ours / best:.4f} |", flush=True)
    print(f"\n{worse} cells are worse than the better of theirs.")
    return min(worse, 1)


# As our command asks for what is compared.
ASKED = {"fp8-channel": ["--to", "fp8"], "int4-sym-g128": ["--to", "int4"]}
# By observer: the first takes the largest value, the second searches as ours does.
LLM_COMPRESSOR = {"llm-compressor": "memoryless_minmax", "llm-compressor, MSE": "memoryless_mse"}


def peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def torch_plain(name: str, source: Path, to: Path):
    """What one writes by hand with torch: min-max and no search."""
    from safetensors.torch import load_file, save_file

    weight = next(iter(load_file(source).values()))
    if name == "fp8-channel":
        scale = weight.abs().amax(1, keepdim=True).float() / 448
        codes = (weight / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
    else:
        groups = weight.view(weight.shape[0], -1, 128)
        scale = groups.abs().amax(2, keepdim=True) / 7.5
        whole = (groups / scale).round().clamp(-8, 7).to(torch.int32).view(weight.shape) + 8
        codes = torch.zeros(weight.shape[0], weight.shape[1] // 8, dtype=torch.int32)
        for at in range(8):
            codes |= whole[:, at::8] << (4 * at)
    save_file({"codes": codes, "scale": scale}, to)


def llm_compressor(name: str, observer: str, directory: Path, to: Path):
    from compressed_tensors.quantization import QuantizationConfig
    from llmcompressor import model_free_ptq

    scheme = scheme_of(FORMATS[name], observer)
    model_free_ptq(directory, to, config=QuantizationConfig(config_groups={"all": scheme}), device="cpu")


def one(program: str, name: str, directory: str, to: str):
    """In a process of its own, whose memory is its own."""
    torch.set_num_threads(2)
    directory, to = Path(directory), Path(to)
    if program in LLM_COMPRESSOR:
        import llmcompressor  # noqa: F401  (its import is not counted)
    idle = peak()
    began = time.perf_counter()
    if program == "torch":
        torch_plain(name, directory / "model.safetensors", to)
    else:
        llm_compressor(name, LLM_COMPRESSOR[program], directory, to)
    print(json.dumps({"seconds": time.perf_counter() - began, "peak_bytes": peak(), "idle": idle}))


def gpuwise(binary: str, name: str, model: Path, to: Path) -> dict:
    """The whole command, from its start to its end with all of the model on the disk; and the most memory it had."""
    shutil.rmtree(to, ignore_errors=True)
    # By a small process: what starts another hands on the most memory that it had itself.
    starts = """if True:
        import os, resource, subprocess, sys, time
        began = time.perf_counter()
        subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
        print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)"""
    command = [sys.executable, "-c", starts, binary, "optimize", str(model), *ASKED[name], "-o", str(to)]
    seconds, peak_bytes = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return {"seconds": float(seconds), "peak_bytes": int(peak_bytes)}


def speed(binary: str, rows: int, columns: int) -> int:
    from safetensors.torch import save_file

    with tempfile.TemporaryDirectory(dir=os.environ.get("SPEED_DIR")) as place:
        place = Path(place)
        weight = (torch.randn(rows, columns) * 0.02).bfloat16()
        model = place / "model"
        model.mkdir()
        save_file({"model.layers.0.mlp.down_proj.weight": weight}, model / "model.safetensors")
        (model / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"], "model_type": "llama"}))
        (place / "from").write_bytes(weight.view(torch.uint8).numpy().tobytes())
        size = weight.numel() * 2
        data = bytearray(size)
        began = time.perf_counter()
        (place / "copy").write_bytes(Path(place / "from").read_bytes()[: size // 2])
        print(f"read, and half of it written: {size / (time.perf_counter() - began) / 1e9:.2f} GB/s")
        began = time.perf_counter()
        torch.frombuffer(data, dtype=torch.uint8).clone()
        print(f"memory copied by torch: {size / (time.perf_counter() - began) / 1e9:.2f} GB/s")
        print("| format | program | s | GB/s | peak, MB | slower by | memory by |\n|---|---|--:|--:|--:|--:|--:|")
        for name in ["fp8-channel", "int4-sym-g128"]:
            ours = None
            for program in ["ours", "torch", *LLM_COMPRESSOR]:
                told = []
                for _ in range(3):
                    if program == "ours":
                        told.append(gpuwise(binary, name, model, place / "ours"))
                        continue
                    command = [sys.executable, __file__, "one", program, name, model, place / program]
                    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                    told.append(json.loads(said.strip().splitlines()[-1]))
                best = min(told, key=lambda one: one["seconds"])
                ours = ours or best
                seconds, top = best["seconds"], best["peak_bytes"]
                print(
                    f"| {name} | {program} | {seconds:.3f} | {size / seconds / 1e9:.2f} | {top / 1e6:.0f} "
                    f"| {seconds / ours['seconds']:.1f} | {top / ours['peak_bytes']:.1f} |",
                    flush=True,
                )
    return 0


def main() -> int:
    match sys.argv[1:]:
        case ["errors", binary]:
            return errors(binary)
        case ["speed", binary, *shape]:
            return speed(binary, *(int(one) for one in shape or ["16384", "8192"]))
        case ["one", program, name, directory, to]:
            one(program, name, directory, to)
            return 0
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())
