"""@STUDENT@ learns again from @TEACHER@: python FILE TEXT [TEXT …] (written by gpuwise).

The narrower model is trained to say the next token as likely as the model says it that it was made of, on texts that
you have: files of text, or .jsonl with "text". Needs torch and transformers, and a GPU for models of any size.
"""
import argparse
import json
import math
import pathlib

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TEACHER, STUDENT = "@TEACHER@", "@STUDENT@"

flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
flags.add_argument("texts", nargs="+", type=pathlib.Path)
flags.add_argument("-o", "--output", default=STUDENT.rstrip("/") + "-distilled")
flags.add_argument("--tokens", type=int, default=2048, help="of a sequence")
flags.add_argument("--batch", type=int, default=8, help="sequences of a step")
flags.add_argument("--steps", type=int, default=0, help="0: once over the texts")
flags.add_argument("--rate", type=float, default=1e-4, help="the highest learning rate")
flags.add_argument("--seed", type=int, default=0)
asked = flags.parse_args()

torch.manual_seed(asked.seed)
device = "cuda" if torch.cuda.is_available() else "cpu"
tokenizer = AutoTokenizer.from_pretrained(STUDENT)


def texts():
    for path in asked.texts:
        if path.suffix == ".jsonl":
            yield from (json.loads(line)["text"] for line in path.read_text().splitlines() if line.strip())
        else:
            yield path.read_text()


ends = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
ids = [one for text in texts() for one in tokenizer(text, add_special_tokens=False)["input_ids"] + ends]
rows = len(ids) // asked.tokens
if rows < asked.batch:
    raise SystemExit("%d tokens are no step of %d sequences of %d: more text, or less --batch or --tokens"
                     % (len(ids), asked.batch, asked.tokens))
data = torch.tensor(ids[:rows * asked.tokens]).view(rows, asked.tokens)
steps = asked.steps or rows // asked.batch

# The teacher as it is stored, the student in 32 bits, as steps are smaller than those of 16.
teacher = AutoModelForCausalLM.from_pretrained(TEACHER, dtype="auto").to(device).eval()
stored = teacher.dtype
# Processors without BF16 instructions take thirty times as long for BF16.
half = device != "cpu"
if not half:
    teacher.float()
student = AutoModelForCausalLM.from_pretrained(STUDENT, dtype=torch.float32).to(device).train()
student.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(student.parameters(), lr=asked.rate, betas=(0.9, 0.95), weight_decay=0.01)
warm = max(1, steps // 20)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(
    (step + 1) / warm, 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, step / steps)))))

draw = torch.Generator().manual_seed(asked.seed)
order = torch.cat([torch.randperm(rows, generator=draw) for _ in range(steps * asked.batch // rows + 1)])
for step in range(steps):
    batch = data[order[step * asked.batch:(step + 1) * asked.batch]].to(device)
    with torch.no_grad():
        wanted = teacher(batch).logits.float().log_softmax(-1)
    with torch.autocast(device, dtype=torch.bfloat16, enabled=half):
        said = student(batch).logits
    # Kullback-Leibler divergence of the student from the teacher, a token.
    loss = torch.nn.functional.kl_div(
        said.float().log_softmax(-1).flatten(0, 1), wanted.flatten(0, 1), log_target=True, reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    if step % 20 == 0 or step == steps - 1:
        print("step %d of %d: KL %.4f" % (step + 1, steps, loss.item()), flush=True)

student.to(stored).save_pretrained(asked.output)
tokenizer.save_pretrained(asked.output)
print("written: %s" % asked.output)
