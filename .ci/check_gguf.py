"""`gpuwise optimize --gguf`, by llama.cpp's real converter and quantizer: `check_gguf.py GPUWISE`.

By a Python whose environment has the converter, with llama.cpp's tools on the PATH. A small model of random weights, with
a tokenizer that is trained on this repository's pages, becomes a GGUF file in several types:

 1. read by the package `gguf`, its tensors are the model's, within what the type rounds;
 2. llama.cpp computes with it: perplexity beside that of BF16, by `gpuwise optimize --measure`;
 3. `gpuwise plan` reads it, and counts the bytes that lie there.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import gguf
import numpy
import sentencepiece
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

ROOT = pathlib.Path(__file__).resolve().parent.parent
VOCABULARY = 384
# By type: what weights may be off by, relative, and by what share the perplexity may change.
TYPES = {"bf16": (0.0, 0.0), "q8_0": (0.006, 0.005), "q4_k_m": (0.09, 0.05), "q4_0": (0.11, 0.05)}
# As llama.cpp calls layers whose rows stay in their order.
SAME = {"mlp.down_proj": "ffn_down", "mlp.up_proj": "ffn_up", "mlp.gate_proj": "ffn_gate", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output"}
failures = []


def hold(true, what):
    if not true:
        failures.append(what)
    print(("ok      " if true else "FAILED  ") + what, flush=True)


def make(folder, text):
    """Shaped as large models are, with weights as they begin a training."""
    torch.manual_seed(20)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=256, intermediate_size=768, num_hidden_layers=2, num_attention_heads=8,
        num_key_value_heads=4, max_position_embeddings=1024, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(folder / "tokenizer"), vocab_size=VOCABULARY, model_type="bpe",
        byte_fallback=True, minloglevel=2, character_coverage=0.99)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer", "add_bos_token": True}))


def gpuwise(binary, *arguments):
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True)
    hold(done.returncode == 0, "gpuwise %s %s" % (" ".join(pathlib.Path(str(one)).name for one in arguments[:6]), done.stderr[-600:]))
    return done.stdout


def check_weights(file, model, most):
    original = load_file(model / "model.safetensors")
    worst, count = 0.0, 0
    tensors = {one.name: one for one in gguf.GGUFReader(file).tensors}
    for name, weight in original.items():
        parts = name.split(".")
        layer = SAME.get(".".join(parts[3:5]))
        if layer is None:
            continue
        one = tensors["blk.%s.%s.weight" % (parts[2], layer)]
        was = weight.float().numpy()
        now = gguf.quants.dequantize(one.data, one.tensor_type).reshape(was.shape)
        worst, count = max(worst, numpy.linalg.norm(now - was) / numpy.linalg.norm(was)), count + 1
    hold(count == 10 and worst <= most, "%s: %d layers are off by %.2f %% at most" % (file.name, count, worst * 100))
    return sum(one.n_bytes for one in tensors.values())


def main():
    binary = str(pathlib.Path(sys.argv[1]).resolve())
    # The converter is of this environment, which need not be active.
    os.environ["PATH"] = "%s:%s" % (pathlib.Path(sys.executable).parent, os.environ["PATH"])
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        text = folder / "text.txt"
        text.write_text((ROOT / "docs/guides/plan.md").read_text() + (ROOT / "docs/guides/memory.md").read_text())
        model = folder / "model"
        model.mkdir()
        make(model, text)
        files = {}
        types = TYPES
        if shutil.which("llama-quantize") is None:
            types = {kind: TYPES[kind] for kind in ("bf16", "q8_0")}
            print("SKIPPED: types that llama-quantize makes: it is not on the PATH; the converter's own are checked")
        for kind, (most, _) in types.items():
            files[kind] = folder / ("model-%s.gguf" % kind)
            told = json.loads(gpuwise(binary, "optimize", model, "--gguf", kind, "-o", files[kind], "--format", "json"))
            there = check_weights(files[kind], model, most)
            hold(told["rows"][1]["bytes"] == there, "%s: %d bytes of weights are said, %d are there" % (kind, told["rows"][1]["bytes"], there))
        for kind, (_, change) in types.items():
            if kind == "bf16":
                continue
            told = gpuwise(binary, "optimize", files[kind], "--measure", "--against", files["bf16"], "--text", text,
                           "--piece", "128", "--format", "json")
            rows = {row["measure"]: row for row in json.loads(told)["rows"]} if told else {}
            by = rows.get("perplexity", {}).get("change")
            hold(by is not None and abs(by) <= change, "%s: perplexity %s" % (kind, by))
        last = files[list(types)[-1]]
        told = json.loads(gpuwise(binary, "plan", last, "--gpu", "L4", "--rate", "1", "--isl", "50", "--osl",
                                  "20", "--offline", "--format", "json"))
        weights = told["deployments"][0]["memory"]["weight_bytes"]
        size = os.path.getsize(last)
        hold(abs(weights / size - 1) < 0.1, "plan counts %d bytes of a file of %d" % (weights, size))
    print("%d failures" % len(failures))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
