"""What `gpuwise optimize --rotate` writes, beside the model that it is of, by transformers: for `check_optimize.py`."""
import json
import subprocess

import torch
from safetensors.torch import load_file, save_file
from transformers import (AutoModelForCausalLM, CompressedTensorsConfig, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

F32 = torch.float32
TOKENS = torch.arange(48).reshape(2, 24) % 100
SMALL = {"vocab_size": 100, "hidden_size": 96, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None}
# What channels of the residual stream are larger by, in the matrices that read it; as many as one in sixteen.
LARGER = 16.0


def optimize(hold, binary, *arguments):
    done = subprocess.run([binary, "optimize", *map(str, arguments)], capture_output=True, text=True)
    hold(done.returncode == 0, "optimize %s: %s" % (" ".join(map(str, arguments)), done.stderr))
    return done.returncode == 0


def loaded(directory, **options):
    return AutoModelForCausalLM.from_pretrained(directory, **{"dtype": F32, **options})


def logits(model):
    with torch.no_grad():
        return model.eval()(TOKENS).logits


def drawn(model):
    """Norms and biases as training leaves them: new ones are all 1 and all 0."""
    draw = torch.Generator().manual_seed(7)
    for name, one in model.named_parameters():
        if "norm" in name or "bias" in name:
            one.data = one.data + torch.randn(one.shape, generator=draw) * 0.3
    return model


def check_same(hold, binary, model, folder, what):
    rotated = folder / ("%s-rotated" % what)
    if not optimize(hold, binary, model, "--rotate", "-o", rotated):
        return
    ours, theirs = loaded(rotated), loaded(model)
    hold(type(ours) is type(theirs), "%s: %s" % (what, type(ours).__name__))
    expected = logits(theirs)
    off = ((logits(ours) - expected).abs().max() / expected.abs().max()).item()
    hold(off < 1e-5, "rotated %s: logits are off by %g" % (what, off))
    before, after = theirs.state_dict(), ours.state_dict()
    moved = [name for name in after if name.endswith("_proj.weight") and torch.equal(before[name], after[name])]
    hold(not moved, "rotated %s: %s are as they were" % (what, moved))
    print("rotated %s: logits off by %.1e" % (what, off), flush=True)


def planted(model, out):
    """The same model, with channels of the stream that norms make small and matrices large: as gains often are."""
    model = loaded(model)
    out.mkdir()
    model.save_pretrained(out)
    tensors = load_file(out / "model.safetensors")
    size = model.config.hidden_size
    factors = torch.ones(size)
    factors[torch.randperm(size, generator=torch.Generator().manual_seed(3))[:size // 16]] = LARGER
    for name, one in tensors.items():
        if "layernorm" in name:
            tensors[name] = one / factors
        elif name.split(".")[-2] in ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"):
            tensors[name] = one * factors
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})


def check_worth(hold, binary, trained, folder, text, was):
    """Large channels cost much in few bits, unless they are rotated away before."""
    outliers = folder / "outliers"
    planted(trained, outliers)
    base = text.perplexity(was)
    worse = {}
    for name, flags in (("as it is", []), ("rotated", ["--rotate"])):
        out = folder / ("int4 %s" % name)
        if not optimize(hold, binary, outliers, *flags, "--to", "int4", "--scales", "32", "-o", out):
            return
        logs = text.of(loaded(out, quantization_config=CompressedTensorsConfig(dequantize=True)))
        worse[name] = text.perplexity(logs) / base - 1
        print("int4 g32 of a model with large channels, %s: perplexity %+.3f %%" % (name, worse[name] * 100), flush=True)
    hold(worse["rotated"] <= 0.05, "rotated int4: perplexity %+.3f %%" % (worse["rotated"] * 100))
    hold(worse["rotated"] < worse["as it is"] / 2, "rotated int4 loses %(rotated).4f, not rotated %(as it is).4f" % worse)


def check(binary, trained, folder, hold, text, was):
    """`trained` is a Llama in BF16, of several files."""
    folder.mkdir()
    torch.manual_seed(20)
    models = {
        "llama": LlamaForCausalLM(LlamaConfig(**SMALL, tie_word_embeddings=False, attention_bias=True, mlp_bias=True)),
        "mistral": MistralForCausalLM(MistralConfig(**SMALL, head_dim=40, sliding_window=8)),
        "qwen2": Qwen2ForCausalLM(Qwen2Config(**SMALL, tie_word_embeddings=True)),
        "qwen3": Qwen3ForCausalLM(Qwen3Config(**SMALL, head_dim=32, tie_word_embeddings=True)),
    }
    for name, model in models.items():
        drawn(model).save_pretrained(folder / name)
        check_same(hold, binary, folder / name, folder, name)
    config = json.loads((folder / "qwen2-rotated" / "config.json").read_text())
    hold(config["tie_word_embeddings"] is False, "the head of qwen2 is the embeddings again")
    check_worth(hold, binary, trained, folder, text, was)
