"""Each form of weights of each architecture, opened by `from_pretrained` as it is: `optimize_loaders.py GPUWISE`.

Tiny models with random weights are made smaller and opened by the `transformers` that is installed, without
`dequantize` or any other argument. A form is opened where no tensor is missing or left over and logits are near the
original's; what was seen is what `catalogue/weight_loaders.csv` says, which `gpuwise optimize` goes by: it refuses what
nothing opens, and says what opens the rest. With `GPUWISE_UPDATE_TABLE=1` the table is written instead.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers.utils import logging  # noqa: E402

import weight_table  # noqa: E402

WIDTH = 256
TEXT = {
    "vocab_size": 256, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 64, "intermediate_size": 512, "max_position_embeddings": 128, "initializer_range": 0.06,
    "tie_word_embeddings": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}
# All experts of a token are asked, so that none comes or goes by rounding.
EXPERTS = {**TEXT, "num_experts_per_tok": 4}
BERT = {key: TEXT[key] for key in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                                   "max_position_embeddings", "initializer_range")}
# Columns of a tower that divide into no group or block.
TOWER = {"hidden_size": 192, "intermediate_size": 304, "num_hidden_layers": 1, "num_attention_heads": 3, "image_size": 56,
         "patch_size": 14}
# By architecture: its configuration, and flags that it needs.
MODELS = {
    "LlamaForCausalLM": ("LlamaConfig", TEXT, []),
    "MistralForCausalLM": ("MistralConfig", TEXT, []),
    "Qwen2ForCausalLM": ("Qwen2Config", {key: value for key, value in TEXT.items() if key != "head_dim"}, []),
    "Qwen3ForCausalLM": ("Qwen3Config", TEXT, []),
    "Phi3ForCausalLM": ("Phi3Config", TEXT, []),
    "MixtralForCausalLM": ("MixtralConfig", {**EXPERTS, "num_local_experts": 4}, []),
    "Qwen3MoeForCausalLM": ("Qwen3MoeConfig", {**EXPERTS, "num_experts": 4, "moe_intermediate_size": 128, "mlp_only_layers": []}, []),
    "DeepseekV3ForCausalLM": ("DeepseekV3Config", {
        **EXPERTS, "num_key_value_heads": 4, "moe_intermediate_size": 128, "n_routed_experts": 4, "n_shared_experts": 1,
        "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "q_lora_rank": 128, "kv_lora_rank": 128,
        "qk_rope_head_dim": 64, "qk_nope_head_dim": 64, "v_head_dim": 64}, []),
    "GptOssForCausalLM": ("GptOssConfig", {**EXPERTS, "num_local_experts": 4, "sliding_window": 64}, ["--keep", "experts"]),
    "Gemma3ForConditionalGeneration": ("Gemma3Config", {
        "text_config": {key: value for key, value in TEXT.items() if key != "tie_word_embeddings"}, "vision_config": TOWER,
        "mm_tokens_per_image": 4, "image_token_index": 255, "boi_token_index": 253, "eoi_token_index": 254,
        "initializer_range": 0.06}, []),
    "BertForMaskedLM": ("BertConfig", BERT, []),
}
FORMS = [
    ["--to", "fp8"], ["--to", "fp8", "--scales", "block"], ["--to", "int8"], ["--to", "int8-w8a16"], ["--to", "int4"],
    ["--to", "int4", "--asymmetric"], ["--to", "nvfp4"], ["--to", "mxfp4"],
]
# Of relatives, which load as Llama does: those forms that differ most.
FEW = {of: [["--to", form] for form in ("fp8", "int8", "int4", "nvfp4")]
       for of in ("MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "Phi3ForCausalLM")}
# Of one architecture alone.
MORE = {
    "LlamaForCausalLM": [["--to", "fp8", "--scales", "tensor"], ["--to", "int8", "--scales", "tensor"],
                         ["--to", "int4", "--scales", "channel"], ["--to", "int8-w8a16", "--asymmetric"]],
    "Gemma3ForConditionalGeneration": [["--to", "fp8", "--towers"], ["--to", "int8", "--towers"], ["--to", "int4", "--towers"]],
}
# Of logits, relative, in four bits and in more; what computes something else is off by about their own size.
NEAR, FAR = {True: 0.6, False: 0.2}, 0.8


def gpuwise(binary, *arguments):
    return subprocess.run([binary, "optimize", *map(str, arguments)], capture_output=True, text=True)


def asked(architecture):
    random = torch.Generator().manual_seed(5)
    tokens = torch.randint(3, 250, (2, 32), generator=random)
    if architecture != "Gemma3ForConditionalGeneration":
        return {"input_ids": tokens}
    tokens[:, 4:8] = 255
    picture = torch.randn(2, 3, 56, 56, generator=random).to(torch.bfloat16)
    return {"input_ids": tokens, "pixel_values": picture, "token_type_ids": (tokens == 255).long()}


@torch.no_grad()
def logits(model, architecture):
    return model.eval()(**asked(architecture)).logits.float()


def original(architecture, folder):
    """A model with random weights, and its logits once it is written."""
    config, fields, _ = MODELS[architecture]
    of = getattr(transformers, architecture)
    torch.manual_seed(7)
    of(getattr(transformers, config)(**fields)).to(torch.bfloat16).save_pretrained(folder)
    return of.from_pretrained(folder)


def opened(architecture, written, was, four):
    """Whether `from_pretrained` opens it, and what it was if not."""
    try:
        model, told = getattr(transformers, architecture).from_pretrained(written, output_loading_info=True)
        now = logits(model, architecture)
    except Exception as error:  # noqa: BLE001  (whatever it is, it is told)
        return "fails", "%s: %s" % (type(error).__name__, str(error).strip().splitlines()[0][:120])
    off = ((now - was).square().mean() / was.var()).sqrt().item()
    wrong = ["%d tensors: %s" % (len(names), what) for what, names in told.items() if names]
    if wrong or not off < FAR:
        return "wrong", "; ".join(wrong + ["logits are off by %.0f %%" % (off * 100)])
    return ("yes" if off < NEAR[four] else "unclear"), "logits are off by %.1f %%" % (off * 100)


def check_table(binary, folder, hold, known):
    seen = {}
    for architecture, (_, _, needs) in MODELS.items():
        model = folder / architecture
        was = logits(original(architecture, model), architecture)
        for at, flags in enumerate(FEW.get(architecture, FORMS) + MORE.get(architecture, [])):
            written, form = folder / ("%s-%d" % (architecture, at)), weight_table.form(flags)
            done = gpuwise(binary, model, *flags, *needs, "-o", written)
            yes = (architecture, form) in known["yes"]
            refused = not yes and (architecture, form) in known["no"]
            if refused:
                hold(done.returncode == 2 and "opened by no loader" in done.stderr,
                     "%s in %s is refused: %s" % (architecture, form, done.stderr or done.stdout))
                done = gpuwise(binary, model, *flags, *needs, "--unchecked", "-o", written)
            hold(done.returncode == 0, "%s in %s: %s" % (architecture, form, done.stderr))
            if done.returncode == 0:
                hold(("opened by: transformers" in done.stdout or "vllm" in done.stdout) or not yes,
                     "%s in %s says what opens it: %s" % (architecture, form, done.stdout))
                seen[architecture, form] = opened(architecture, written, was, form.split()[0] in ("int4", "nvfp4", "mxfp4"))
                print("%-32s %-24s %-6s %s" % (architecture, form, *seen[architecture, form]), flush=True)
    return seen


def check_refused(binary, folder, hold):
    """What has no layers, or few, that loaders read as linear ones."""
    gpt2 = transformers.GPT2Config(vocab_size=256, n_positions=128, n_embd=WIDTH, n_layer=1, n_head=4, bos_token_id=1, eos_token_id=2)
    transformers.GPT2LMHeadModel(gpt2).to(torch.bfloat16).save_pretrained(folder / "gpt2")
    for model, said in (("gpt2", "stored transposed"), ("GptOssForCausalLM", "several matrices in one tensor")):
        for flags in FORMS:
            done = gpuwise(binary, folder / model, *flags, "-o", folder / "refused")
            hold(done.returncode == 2 and said in done.stderr, "%s %s is refused: %s" % (model, flags, done.stderr or done.stdout))


def check(binary, folder, hold):
    started = time.monotonic()
    folder.mkdir(exist_ok=True)
    logging.set_verbosity(logging.CRITICAL)
    known = {"yes": set(), "no": set()}
    for row in weight_table.rows():
        known["yes" if row["opens"] == "yes" else "no"].add((row["architecture"], row["form"]))
    seen = check_table(binary, folder, hold, known)
    check_refused(binary, folder, hold)
    weight_table.hold_to(seen, "transformers", transformers.__version__, hold)
    hold(weight_table.shown("transformers") in weight_table.GUIDE.read_text(), "the guide shows weight_loaders.csv as it is")
    print("%d forms opened in %.0f s" % (len(seen), time.monotonic() - started), flush=True)


def main():
    failures = []

    def hold(true, what):
        if not true:
            failures.append(what)
            print("FAILED: " + what, flush=True)

    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as folder:
        check(str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(folder), hold)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
