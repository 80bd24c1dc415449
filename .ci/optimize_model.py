"""A small model that is shaped as large ones are, trained on the spot: `optimize_model.py OUT`.

Llama's architecture with fewer keys than queries and embeddings that are the head too, on bytes of this
repository's documentation. Written in BF16 as model hubs do, in several files with an index. One seed, one model,
on one machine.
"""
import pathlib
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

ROOT = pathlib.Path(__file__).resolve().parent.parent
SEED = 20
STEPS = 240
BATCH = 16
LENGTH = 192
# Every tenth run of so many bytes is held back.
RUN = 6144


def text():
    """Bytes to train on, and those held back."""
    pages = sorted((ROOT / "docs").glob("*/*.md"))
    whole = b"\n".join(page.read_bytes() for page in pages)
    runs = [whole[at:at + RUN] for at in range(0, len(whole) - RUN, RUN)]
    train = b"".join(run for at, run in enumerate(runs) if at % 10 != 9)
    held = b"".join(run for at, run in enumerate(runs) if at % 10 == 9)
    return train, held


def tokens(data):
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).long()


def config():
    return LlamaConfig(
        vocab_size=256, hidden_size=256, intermediate_size=768, num_hidden_layers=3, num_attention_heads=8,
        num_key_value_heads=4, head_dim=32, max_position_embeddings=1024, tie_word_embeddings=True,
        bos_token_id=0, eos_token_id=0, pad_token_id=0)


def trained(steps=STEPS):
    torch.manual_seed(SEED)
    model = LlamaForCausalLM(config())
    model.train()
    data = tokens(text()[0])
    # Matrices are held small and norms are not, as usual.
    shrink = [one for one in model.parameters() if one.dim() > 1]
    rest = [one for one in model.parameters() if one.dim() <= 1]
    groups = [{"params": shrink, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps, pct_start=0.1)
    draw = torch.Generator().manual_seed(SEED)
    for step in range(steps):
        at = torch.randint(len(data) - LENGTH - 1, (BATCH,), generator=draw)
        batch = torch.stack([data[one:one + LENGTH] for one in at])
        # In FP32: processors without BF16 instructions take thirty times as long for BF16.
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 40 == 39:
            print("step %d: loss %.3f" % (step + 1, loss.item()), flush=True)
    model.eval()
    return model


def tokenizer(out):
    """Writes a tokenizer beside a model: each byte is a token, of its own number."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    # How byte-level tokenizers write bytes: what can be seen as it is, the rest by letters from 256 on.
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in seen]
    letters = {byte: chr(byte) for byte in seen} | {byte: chr(256 + at) for at, byte in enumerate(rest)}
    made = Tokenizer(models.BPE({letters[byte]: byte for byte in range(256)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=1024).save_pretrained(out)


def make(out):
    """Trains it and writes it to `out`."""
    started = time.monotonic()
    model = trained().to(torch.bfloat16)
    model.save_pretrained(out, max_shard_size="1MB")
    count = sum(one.numel() for one in model.parameters())
    print("%d parameters, trained in %.0f s" % (count, time.monotonic() - started))


if __name__ == "__main__":
    make(sys.argv[1])
