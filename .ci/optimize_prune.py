"""What `gpuwise optimize --prune` leaves, beside the same model with what was taken out set to nothing, and what the
recipe that it names wins back: for `check_optimize.py`."""
import subprocess
import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen3Config,
                          Qwen3ForCausalLM)

import optimize_model
from optimize_rotate import SMALL, drawn, loaded, logits, optimize

F32 = torch.float32
STEPS = 60


def masked(model, mlp, groups):
    """The least channels and groups of each layer become zeros, by scores of our own making."""
    config = model.config
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    share = config.num_attention_heads // config.num_key_value_heads
    with torch.no_grad():
        for layer in model.model.layers:
            own, attention = layer.mlp, layer.self_attn
            gains = layer.post_attention_layernorm.weight
            score = ((own.gate_proj.weight * gains).norm(dim=1) * (own.up_proj.weight * gains).norm(dim=1)
                     * own.down_proj.weight.norm(dim=0))
            own.down_proj.weight[:, score.argsort()[:config.intermediate_size - mlp]] = 0
            values = (attention.v_proj.weight * layer.input_layernorm.weight).view(config.num_key_value_heads, -1).norm(dim=1)
            output = attention.o_proj.weight.T.reshape(config.num_key_value_heads, share, -1).norm(dim=2).sum(1)
            for group in (values * output).argsort()[:config.num_key_value_heads - groups].tolist():
                wide = share * head
                attention.o_proj.weight[:, group * wide:(group + 1) * wide] = 0
    return model


def check_masked(hold, binary, model, folder, what, asked, left):
    pruned = folder / ("%s-pruned" % what)
    if not optimize(hold, binary, model, "--prune", asked, "-o", pruned):
        return None
    ours = loaded(pruned)
    found = (ours.config.intermediate_size, ours.config.num_key_value_heads)
    hold(found == left, "pruned %s: %s, expected %s" % (what, found, left))
    expected = logits(masked(loaded(model), *left))
    off = ((logits(ours) - expected).abs().max() / expected.abs().max()).item()
    hold(off < 1e-5, "pruned %s: logits are off by %g" % (what, off))
    print("pruned %s to %s: logits off by %.1e" % (what, found, off), flush=True)
    return pruned


def byte_tokenizer(out):
    """A token for each byte, as the trained model has them; a character stands for each, as GPT-2 has them."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xa1, 0xad), *range(0xae, 0x100)]
    signs = {byte: chr(byte) for byte in plain}
    signs |= {byte: chr(256 + at) for at, byte in enumerate(byte for byte in range(256) if byte not in plain)}
    tokenizer = Tokenizer(models.BPE(vocab={sign: byte for byte, sign in signs.items()}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(out)


def check_distilled(hold, binary, trained, pruned, folder, text, was):
    byte_tokenizer(pruned)
    script, written = folder / "distill.py", folder / "distilled"
    if not optimize(hold, binary, pruned, "--recipe", "distill", "--teacher", trained, "-o", script):
        return
    page = folder / "text.txt"
    page.write_text(optimize_model.text()[0].decode(errors="ignore"))
    done = subprocess.run([sys.executable, script, page, "-o", written, "--tokens", "192", "--batch", "16", "--steps", str(STEPS),
                           "--rate", "1e-3"], capture_output=True, text=True)
    hold(done.returncode == 0, "the recipe: %s" % done.stderr[-800:])
    if done.returncode != 0:
        return
    base = text.perplexity(was)
    before, after = (text.perplexity(text.of(loaded(one))) / base - 1 for one in (pruned, written))
    print("pruned: perplexity %+.1f %%, after %d steps of the recipe %+.1f %%" % (before * 100, STEPS, after * 100), flush=True)
    hold(after < before / 4, "the recipe wins back little: %.3f became %.3f" % (before, after))
    one = AutoModelForCausalLM.from_pretrained(written, dtype="auto")
    hold(one.dtype == torch.bfloat16, "the recipe writes %s" % one.dtype)


def check(binary, trained, folder, hold, text, was):
    """`trained` is a Llama in BF16, of several files, with 768 channels and four heads of keys and values."""
    folder.mkdir()
    torch.manual_seed(20)
    small = {**SMALL, "num_attention_heads": 6, "num_key_value_heads": 3}
    both = {
        "llama": LlamaForCausalLM(LlamaConfig(**small, tie_word_embeddings=False, attention_bias=True, mlp_bias=True)),
        "qwen3": Qwen3ForCausalLM(Qwen3Config(**small, head_dim=32, tie_word_embeddings=True)),
    }
    for name, model in both.items():
        drawn(model).save_pretrained(folder / name)
        check_masked(hold, binary, folder / name, folder, name, "mlp=60%,kv-heads=2", (48, 2))
    pruned = check_masked(hold, binary, trained, folder, "trained", "mlp=75%,kv-heads=2", (512, 2))
    if pruned is not None:
        check_distilled(hold, binary, trained, pruned, folder, text, was)
