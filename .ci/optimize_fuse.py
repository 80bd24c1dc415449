"""What `gpuwise optimize --lora` and `--fuse` write, beside what PEFT and transformers compute: for `check_optimize.py`.

Adapters are PEFT's own, with random numbers; its merge_and_unload in F32, rounded once, is what ours is held to.
"""
import json
import subprocess

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import (AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM,
                          MistralConfig, MistralForCausalLM)

F32 = torch.float32
TOKENS = torch.arange(48).reshape(2, 24) % 100
SMALL = {"vocab_size": 100, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None}


def optimize(hold, binary, *arguments):
    done = subprocess.run([binary, "optimize", *map(str, arguments)], capture_output=True, text=True)
    hold(done.returncode == 0, "optimize %s: %s" % (" ".join(map(str, arguments)), done.stderr))
    return done.returncode == 0


def loaded(directory, dtype=F32):
    return AutoModelForCausalLM.from_pretrained(directory, dtype=dtype)


def logits(model):
    with torch.no_grad():
        return model.eval()(TOKENS).logits


def adapted(model, out, draw, config, dtype):
    """An adapter of a model, with numbers as training may leave them, as PEFT saves it."""
    model = get_peft_model(loaded(model, dtype), config)
    for name, one in model.named_parameters():
        if one.requires_grad:
            noise = torch.randn(one.shape, generator=draw) * 0.02
            one.data = (noise if "lora_" in name else one.data + noise).to(one.dtype)
    model.save_pretrained(out)


def check_merged(hold, binary, model, folder, what, config, dtype):
    draw = torch.Generator().manual_seed(20)
    adapter, merged = folder / ("%s-adapter" % what), folder / ("%s-merged" % what)
    adapted(model, adapter, draw, config, dtype)
    if not optimize(hold, binary, model, "--lora", adapter, "-o", merged):
        return
    beside = PeftModel.from_pretrained(loaded(model), adapter).float()
    expected = logits(beside)
    theirs = beside.merge_and_unload().state_dict()
    ours, before = loaded(merged, dtype).state_dict(), loaded(model, dtype).state_dict()
    step = torch.finfo(dtype).eps
    changed, same, all_of_them = 0, 0, 0
    for name, exact in theirs.items():
        one = exact.to(dtype)
        off = (ours[name].float() - one.float()).abs().max().item()
        # The sums of a product run in another order, so that some of what lies between two numbers goes the other way.
        hold(off <= 2 * step * one.float().abs().max().item(), "%s: %s is off by %g" % (what, name, off))
        if not torch.equal(ours[name], before[name]):
            changed += 1
            same += (ours[name] == one).sum().item()
            all_of_them += one.numel()
    hold(changed > 0, "%s: nothing changed" % what)
    if dtype == F32:
        off = ((logits(loaded(merged)) - expected).abs().max() / expected.abs().max()).item()
        hold(off < 1e-5, "%s: logits are off by %g" % (what, off))
        print("lora %s: %d tensors, logits off by %.1e" % (what, changed, off), flush=True)
    else:
        hold(same > 0.999 * all_of_them, "%s: %d of %d numbers are PEFT's" % (what, same, all_of_them))
        print("lora %s: %d tensors, %.4f %% of numbers bit for bit" % (what, changed, 100 * same / all_of_them), flush=True)


def check_fused(hold, binary, model, folder, what):
    fused = folder / ("%s-fused" % what)
    if not optimize(hold, binary, model, "--fuse", "qkv,gate-up", "-o", fused):
        return
    ours, theirs = loaded(fused), loaded(model)
    hold(type(ours).__name__ == "Phi3ForCausalLM", "%s: %s" % (what, type(ours).__name__))
    expected = logits(theirs)
    off = ((logits(ours) - expected).abs().max() / expected.abs().max()).item()
    hold(off < 1e-5, "fused %s: logits are off by %g" % (what, off))
    answers = [one.generate(TOKENS, max_new_tokens=16, do_sample=False) for one in (ours, theirs)]
    hold(torch.equal(*answers), "fused %s: answers differ" % what)
    print("fused %s: logits off by %.1e" % (what, off), flush=True)


def check(binary, trained, folder, hold):
    """`trained` is a Llama in BF16, of several files."""
    folder.mkdir()
    torch.manual_seed(20)
    models = {
        "llama": LlamaForCausalLM(LlamaConfig(**SMALL, tie_word_embeddings=False)),
        "mistral": MistralForCausalLM(MistralConfig(**SMALL, head_dim=24, sliding_window=8)),
        "gpt2": GPT2LMHeadModel(GPT2Config(vocab_size=100, n_embd=48, n_layer=2, n_head=4, n_positions=64)),
    }
    for name, model in models.items():
        model.save_pretrained(folder / name)
    loaded(trained).save_pretrained(folder / "trained")
    layers = ["q_proj", "v_proj", "down_proj"]
    plain = LoraConfig(r=8, lora_alpha=16, target_modules=layers)
    check_merged(hold, binary, trained, folder, "trained-bf16", plain, torch.bfloat16)
    check_merged(hold, binary, folder / "trained", folder, "trained-f32", plain, F32)
    patterns = LoraConfig(r=4, lora_alpha=8, use_rslora=True, target_modules=[*layers, "embed_tokens"],
                          modules_to_save=["lm_head"], rank_pattern={r".*\.1\..*down_proj": 6}, alpha_pattern={"q_proj": 3})
    check_merged(hold, binary, folder / "llama", folder, "patterns", patterns, F32)
    check_merged(hold, binary, folder / "gpt2", folder, "gpt2", LoraConfig(r=4, target_modules=["c_attn", "c_proj"]), F32)
    for name in ("trained", "llama", "mistral"):
        check_fused(hold, binary, folder / name, folder, name)
    both = folder / "both"
    if optimize(hold, binary, folder / "llama", "--lora", folder / "patterns-adapter", "--fuse", "qkv,gate-up",
                "--to", "fp8", "-o", both):
        config = json.loads((both / "config.json").read_text())
        hold(config["architectures"] == ["Phi3ForCausalLM"], "lora, fuse and fp8: %s" % config["architectures"])
        expected = logits(PeftModel.from_pretrained(loaded(folder / "llama"), folder / "patterns-adapter").float())
        off = ((logits(loaded(both)) - expected).norm() / expected.norm()).item()
        hold(off < 0.1, "lora, fuse and fp8: logits are off by %g" % off)
        print("lora, fuse and fp8: logits off by %.3f" % off, flush=True)
