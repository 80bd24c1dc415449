"""What `gpuwise optimize` writes, opened by those who load it: `check_optimize.py GPUWISE [MODEL]`.

A model is trained on the spot (`optimize_model.py`), or MODEL is one that was. In each form of weights it is opened
by safetensors, compressed-tensors and transformers, on a CPU:

 1. the numbers that compressed-tensors and transformers make of the weights are ours, bit for bit;
 2. the error that was printed is the one between those numbers and the original ones;
 3. on text that was held back, perplexity, divergence from the original and the first token that is chosen stay
    within bounds: of the weights alone, and of what transformers computes with activations as the form has them;
 4. `gpuwise plan` says of the written directory what it said would come;
 5. two of each four weights are what a release of compressed-tensors that has this form reads, and no worse than
    what it leaves (`optimize_sparse.py`);
 6. adapters are merged and matrices fused as PEFT and transformers compute it (`optimize_fuse.py`);
 7. what is rotated computes the same, and loses less in four bits (`optimize_rotate.py`);
 8. what is pruned is the model without that, and learns again by its recipe (`optimize_prune.py`);
 9. an ONNX graph without its batch norms and dead branches computes what PyTorch does (`optimize_onnx.py`);
10. forms of many architectures open, or not, as the catalogue says (`optimize_loaders.py`);
11. input that is bad in one way or another ends as it should (`optimize_bad.py`).
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import torch  # noqa: E402
from compressed_tensors.compressors import BaseCompressor  # noqa: E402
from compressed_tensors.quantization import QuantizationConfig  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from transformers import AutoModelForCausalLM, CompressedTensorsConfig  # noqa: E402
from transformers.utils import logging  # noqa: E402

import optimize_bad  # noqa: E402
import optimize_fuse  # noqa: E402
import optimize_loaders  # noqa: E402
import optimize_model  # noqa: E402
import optimize_onnx  # noqa: E402
import optimize_prune  # noqa: E402
import optimize_rotate  # noqa: E402

logging.set_verbosity_error()
logging.disable_progress_bar()

F32, BF16 = torch.float32, torch.bfloat16
LENGTH = 256
ROWS = 48


class Form:
    """A form, its bounds, and in which numbers transformers computes with it as it is: it has FP4 only in BF16."""

    def __init__(self, name, *flags, perplexity, divergence, agree, served=F32, plan=None):
        self.name, self.flags = name, flags
        self.perplexity, self.divergence, self.agree = perplexity, divergence, agree
        self.served, self.plan = served, plan


EIGHT = {"perplexity": 0.005, "divergence": 0.002, "agree": 0.96}
FOUR = {"perplexity": 0.05, "divergence": 0.01, "agree": 0.92}
FORMS = [
    Form("fp8", "--to", "fp8", plan="fp8", **EIGHT),
    Form("fp8 tensor", "--to", "fp8", "--scales", "tensor", served=None, **EIGHT),
    Form("fp8 block", "--to", "fp8", "--scales", "block", served=None, **EIGHT),
    Form("int8", "--to", "int8", plan="int8", **EIGHT),
    Form("int8 tensor", "--to", "int8", "--scales", "tensor", served=None, **EIGHT),
    Form("int8-w8a16", "--to", "int8-w8a16", plan="int8-w8a16", **EIGHT),
    Form("int8-w8a16 asymmetric", "--to", "int8-w8a16", "--asymmetric", "--unchecked", served=None, **EIGHT),
    Form("int4 g128", "--to", "int4", plan="int4", **FOUR),
    Form("int4 g32", "--to", "int4", "--scales", "32", **FOUR),
    Form("int4 g32 asymmetric", "--to", "int4", "--scales", "32", "--asymmetric", served=None, **FOUR),
    Form("int4 channel", "--to", "int4", "--scales", "channel", served=None, **FOUR),
    Form("nvfp4", "--to", "nvfp4", served=BF16, plan="nvfp4", **FOUR),
    Form("mxfp4", "--to", "mxfp4", served=BF16, plan="mxfp4", **FOUR),
]

failures = []


def hold(true, what):
    if not true:
        failures.append(what)
        print("FAILED: " + what, flush=True)


def gpuwise(binary, *arguments, **options):
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit("gpuwise %s ended with %d:\n%s" % (" ".join(map(str, arguments)), done.returncode, done.stderr))
    return done.stdout


def tensors(directory):
    """All tensors of a directory, found as its index says."""
    index = json.loads((directory / "model.safetensors.index.json").read_text())
    files = {name: load_file(directory / name) for name in set(index["weight_map"].values())}
    there = {(name, file) for file, of in files.items() for name in of}
    hold(there == set(index["weight_map"].items()), "%s: the index names what is there" % directory.name)
    size = sum(one.numel() * one.element_size() for of in files.values() for one in of.values())
    hold(index["metadata"]["total_size"] == size, "%s: total_size is %d" % (directory.name, size))
    return {name: one for of in files.values() for name, one in of.items()}


def same(one, other):
    """Whether two tensors are the same numbers, zeros with their signs."""
    kinds = {4: torch.int32, 2: torch.int16, 1: torch.uint8}
    return (one.dtype == other.dtype and one.shape == other.shape
            and torch.equal(one.contiguous().view(kinds[one.element_size()]),
                            other.contiguous().view(kinds[other.element_size()])))


def decompressed(directory):
    """What compressed-tensors makes of each quantized weight."""
    config = json.loads((directory / "config.json").read_text())["quantization_config"]
    scheme = QuantizationConfig.model_validate(config).config_groups["group_0"]
    compressor = BaseCompressor.get_value_from_registry(scheme.format)
    layers = {}
    for name, one in tensors(directory).items():
        layer, part = name.rsplit(".", 1)
        layers.setdefault(layer, {})[part] = one
    return {layer + ".weight": compressor.decompress(parts, scheme)["weight"]
            for layer, parts in layers.items() if "weight_scale" in parts}


def check_numbers(binary, form, written, original):
    """Ours are those of compressed-tensors and transformers; the error that was printed is true."""
    theirs = decompressed(written)
    back = written.with_name(written.name + "-back")
    gpuwise(binary, "optimize", written, "--to", "f32", "-o", back)
    ours = tensors(back)
    hold(len(theirs) == 21, "%s: %d of 21 linear layers are quantized" % (form.name, len(theirs)))
    hold(set(ours) == set(original), "%s: names come back" % form.name)
    for name, one in ours.items():
        if name in theirs:
            hold(same(one.to(theirs[name].dtype), theirs[name]), "%s: %s is as compressed-tensors has it" % (form.name, name))
        else:
            hold(same(one, original[name]), "%s: %s stays" % (form.name, name))
    plain = written.with_name(written.name + "-bf16")
    gpuwise(binary, "optimize", written, "--to", "bf16", "-o", plain)
    loaded = AutoModelForCausalLM.from_pretrained(
        written, dtype=BF16, quantization_config=CompressedTensorsConfig(dequantize=True)).state_dict()
    for name, one in AutoModelForCausalLM.from_pretrained(plain).state_dict().items():
        hold(same(one, loaded[name]), "%s: %s is as transformers has it" % (form.name, name))
    return {name: (ours[name] - original[name].float()).double().norm() / original[name].double().norm() for name in theirs}


class Text:
    """Text that was held back, and what a model makes of it."""

    def __init__(self):
        held = optimize_model.tokens(optimize_model.text()[1])
        rows = held[:len(held) // LENGTH * LENGTH].reshape(-1, LENGTH)
        self.rows = rows[::len(rows) // ROWS][:ROWS]

    @torch.no_grad()
    def of(self, model):
        """Logarithms of what each token is given."""
        parts = [model(input_ids=some).logits[:, :-1].float() for some in self.rows.split(8)]
        return torch.log_softmax(torch.cat(parts), -1)

    def perplexity(self, logs):
        return logs.gather(-1, self.rows[:, 1:, None]).mean().neg().exp().item()


def check_quality(form, written, text, was, how):
    options = {"dtype": F32, "quantization_config": CompressedTensorsConfig(dequantize=True)}
    if how == "served":
        options = {"dtype": form.served}
    logs = text.of(AutoModelForCausalLM.from_pretrained(written, **options))
    worse = text.perplexity(logs) / text.perplexity(was) - 1
    divergence = (was.exp() * (was - logs)).sum(-1).mean().item()
    agree = (was.argmax(-1) == logs.argmax(-1)).float().mean().item()
    logit = (logs - was).square().mean().sqrt().item()
    print("%-24s %-8s perplexity %+.3f %%, KL %.5f, first token %.2f %%, logits %.3f"
          % (form.name, how, worse * 100, divergence, agree * 100, logit), flush=True)
    hold(worse <= form.perplexity, "%s, %s: perplexity %+.3f %%" % (form.name, how, worse * 100))
    hold(divergence <= form.divergence, "%s, %s: KL %.5f" % (form.name, how, divergence))
    hold(agree >= form.agree, "%s, %s: first token %.4f" % (form.name, how, agree))
    # The root of the mean square of what logarithms differ by.
    hold(logit <= (0.15 if form.perplexity < 0.01 else 0.4), "%s, %s: logits %.3f" % (form.name, how, logit))


def planned(binary, model, *flags):
    out = gpuwise(binary, "plan", model, "--gpu", "L4", "--rate", "4", "--isl", "500", "--osl", "200",
                  "--ttft", "p95:1s", "--offline", "--format", "json", *flags)
    first = json.loads(out)["deployments"][0]
    said = json.loads(out)["model"]["assumptions"]
    return first["weights"], first["memory"]["weight_bytes"], first["figures"]["tpot_seconds"]["value"], said


def check_fused(form, written):
    """vLLM takes the largest scale of layers that it makes one of: all of one must have the same."""
    scales = {}
    for name, one in tensors(written).items():
        layer, part = name.rsplit(".", 1)
        if part == "weight_global_scale":
            block, last = layer.rsplit(".", 1)
            one_of = {"q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "gate_proj": "gate_up", "up_proj": "gate_up"}
            scales.setdefault((block, one_of.get(last, last)), []).append(one.item())
    hold(len(scales) == 12, "%s: %d scales of matrices" % (form.name, len(scales)))
    for matrix, each in scales.items():
        hold(len(set(each)) == 1, "%s: %s has scales %s" % (form.name, matrix, each))


def check_plan(binary, form, written, model):
    expected, there = planned(binary, model, "--precision", form.plan), planned(binary, written)
    hold(there[0] == form.plan, "%s: plan reads %s" % (form.name, there[0]))
    hold(there[3] == [], "%s: plan assumes %s" % (form.name, there[3]))
    # Before there are any, scales of INT8 are counted as those of groups, and shapes are not counted.
    hold(abs(there[1] / expected[1] - 1) < 1e-2, "%s: %d bytes are planned, %d are there" % (form.name, expected[1], there[1]))
    hold(abs(there[2] / expected[2] - 1) < 1e-3, "%s: TPOT %g is planned, %g with what is there" % (form.name, expected[2], there[2]))


def check_sparse(binary, model, folder, original, text, was):
    """With zeros and with a bitmask, read by a library that has this form where `GPUWISE_SPARSE` names one."""
    dense, bits, back = (folder / name for name in ("sparse", "sparse-bits", "sparse-back"))
    gpuwise(binary, "optimize", model, "--to", "2:4", "-o", dense)
    gpuwise(binary, "optimize", model, "--to", "2:4", "--sparse-as", "bitmask", "-o", bits)
    gpuwise(binary, "optimize", bits, "--to", "bf16", "-o", back)
    ours, again = tensors(dense), tensors(back)
    hold(set(ours) == set(again) == set(original), "2:4: names come back")
    for name, one in ours.items():
        hold(same(one, again[name]), "2:4: %s of the bitmask is that with zeros" % name)
    out = folder / "sparse.safetensors"
    script = pathlib.Path(__file__).with_name("optimize_sparse.py")
    subprocess.run([sys.executable, script, model, bits, out], check=True,
                   env={**os.environ, "PYTHONPATH": os.environ["GPUWISE_SPARSE"]})
    theirs = load_file(out)
    chosen = {name.split(":", 1)[1]: one for name, one in theirs.items() if name.startswith("chosen:")}
    hold(len(chosen) == 21, "2:4: %d of 21 linear layers are sparse" % len(chosen))
    for name, one in ours.items():
        hold(same(one, theirs[name]), "2:4: %s is as compressed-tensors has it" % name)
    for name, one in chosen.items():
        left, expected = (some.double().square().sum().item() for some in (ours[name], one))
        hold(abs(left / expected - 1) < 1e-12, "2:4: of %s %g is left, by compressed-tensors %g" % (name, left, expected))
    logs = text.of(AutoModelForCausalLM.from_pretrained(dense, dtype=F32))
    print("%-24s %-8s perplexity %+.1f %%, without fine-tuning" % ("2:4", "weights", (text.perplexity(logs) / text.perplexity(was) - 1) * 100), flush=True)


def main():
    binary = str(pathlib.Path(sys.argv[1]).resolve())
    torch.set_num_threads(2)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = folder / "model"
        if len(sys.argv) > 2:
            model = pathlib.Path(sys.argv[2]).resolve()
        else:
            optimize_model.make(model)
        print("model: %.0f s" % (time.monotonic() - started), flush=True)
        original, text = tensors(model), Text()
        was = text.of(AutoModelForCausalLM.from_pretrained(model, dtype=F32))
        print("perplexity of the original %.3f" % text.perplexity(was))
        hold(text.perplexity(was) < 14, "the model has learned: %.3f" % text.perplexity(was))
        for form in FORMS:
            written = folder / form.name.replace(" ", "-")
            printed = json.loads(gpuwise(binary, "optimize", model, *form.flags, "-o", written, "--format", "json"))
            errors = check_numbers(binary, form, written, original)
            rows = {row["layers"]: row for row in printed["rows"]}
            for kind in {name.split(".")[-2] for name in errors}:
                worst = max(error.item() for name, error in errors.items() if name.split(".")[-2] == kind)
                said = rows[kind]["worst"]
                # Products of packed integers are rounded to BF16 by who reads them, which the printed error leaves out.
                hold(abs(said - worst) < 0.01 * worst + 3e-4, "%s: error of %s is %.5f, printed %.5f" % (form.name, kind, worst, said))
            check_quality(form, written, text, was, "weights")
            if form.served is not None:
                check_quality(form, written, text, was, "served")
            if form.name == "nvfp4":
                check_fused(form, written)
            if form.plan:
                check_plan(binary, form, written, model)
        print("forms: %.0f s" % (time.monotonic() - started), flush=True)
        check_sparse(binary, model, folder, original, text, was)
        optimize_loaders.check(binary, folder / "loaders", hold)
        optimize_fuse.check(binary, model, folder / "fuse", hold)
        optimize_rotate.check(binary, model, folder / "rotate", hold, text, was)
        optimize_prune.check(binary, model, folder / "prune", hold, text, was)
        optimize_onnx.check(binary, folder / "onnx", hold)
        optimize_bad.check(binary, model, folder / "bad", hold)
    print("%d forms in %.0f s, %d failures" % (len(FORMS), time.monotonic() - started, len(failures)))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
