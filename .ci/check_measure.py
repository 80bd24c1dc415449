"""What `gpuwise optimize --measure` says of a GGUF file, beside numpy: `check_measure.py GPUWISE MODEL.gguf`.

llama-server, llama-perplexity and llama-bench must be on the PATH. The model is made milder and quantized with 8 and
4 bits by the Python package gguf; perplexity, divergence and first tokens of each are computed again in F32 from the
numbers in the file, on a text that is drawn from the model itself, so that any other must be worse. What was measured
then counts in `plan`, and llama.cpp's own server, which tells no log-probabilities of a prompt, is refused.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

# Threads for matrices of 128 rows wait for one another.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import gguf  # noqa: E402
import numpy as np  # noqa: E402

from cluster import free_port  # noqa: E402

PIECE = 128
PIECES = 12
failures = []


def hold(true, what):
    if not true:
        failures.append(what)
        print("FAILED: " + what, flush=True)


class Model:
    """A GGUF file, computed in F32 with its weights as they are."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.weights = {one.name: gguf.quants.dequantize(one.data, one.tensor_type).reshape(one.shape[::-1])
                        for one in reader.tensors}
        field = lambda name: reader.fields["llama." + name].contents()
        self.heads, self.groups = field("attention.head_count"), field("attention.head_count_kv")
        self.layers, self.epsilon = field("block_count"), field("attention.layer_norm_rms_epsilon")
        self.words = {text: at for at, text in enumerate(reader.fields["tokenizer.ggml.tokens"].contents())}

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon) * self.weights[name + ".weight"]

    def turned(self, x):
        """Rotary positions of neighbours in pairs, as llama.cpp has them for this architecture."""
        width = x.shape[-1]
        angle = np.arange(len(x))[:, None] * 10000.0 ** (-np.arange(0, width, 2) / width)
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        even, odd = x[..., ::2], x[..., 1::2]
        return np.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)

    def logs(self, tokens):
        """Logarithms of what each next token is given."""
        by = lambda x, name: x @ self.weights[name + ".weight"].T
        x = self.weights["token_embd.weight"][tokens]
        mask = np.triu(np.full((len(tokens), len(tokens)), -np.inf), 1)
        for layer in range(self.layers):
            block = "blk.%d." % layer
            h = self.norm(x, block + "attn_norm")
            split = lambda name, heads: by(h, block + name).reshape(len(tokens), heads, -1)
            q, k = self.turned(split("attn_q", self.heads)), self.turned(split("attn_k", self.groups))
            k, v = (np.repeat(one, self.heads // self.groups, 1) for one in (k, split("attn_v", self.groups)))
            scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1]) + mask
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            mixed = np.einsum("hqk,khd->qhd", scores / scores.sum(-1, keepdims=True), v)
            x = x + by(mixed.reshape(len(tokens), -1), block + "attn_output")
            h = self.norm(x, block + "ffn_norm")
            gate = by(h, block + "ffn_gate")
            x = x + by(gate / (1 + np.exp(-gate)) * by(h, block + "ffn_up"), block + "ffn_down")
        logits = by(self.norm(x, "output_norm"), "output").astype(np.float64)
        logits -= logits.max(-1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))

    def text(self, words):
        """Second halves of pieces: logarithms of all tokens, and those that came."""
        tokens = np.array([1] + [self.words["\u2581" + word] for word in words])
        out = []
        for piece in tokens[:len(tokens) // PIECE * PIECE].reshape(-1, PIECE):
            piece = np.concatenate([[1], piece[1:]])
            scored = slice(PIECE // 2, PIECE - 1)
            out.append((self.logs(piece)[scored], piece[1:][scored]))
        return np.concatenate([one[0] for one in out]), np.concatenate([one[1] for one in out])


def drawn(model):
    """Words that the model itself would say, in pieces that each begin anew."""
    draw = np.random.default_rng(20)
    known = {at: word[1:] for word, at in model.words.items() if len(word) == 3 and word[0] == "\u2581"}
    ids, words = np.array(list(known)), []
    for _ in range(PIECES):
        tokens = [1]
        while len(tokens) < PIECE:
            chance = np.exp(model.logs(np.array(tokens))[-1][ids])
            tokens.append(draw.choice(ids, p=chance / chance.sum()))
        # Of the first piece the tokenizer writes the beginning, of the others a word stands in its place.
        words += [known[one] for one in (tokens[1:] if not words else ids[:1].tolist() + tokens[1:])]
    return words


def written(path, source, kind):
    """The model with its logits halved; its matrices in another format."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, "llama")
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            inner = field.types[1] if len(field.types) > 1 else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)
    for one in reader.tensors:
        data = np.array(one.data, dtype=np.float32).reshape(one.shape[::-1])
        if one.name == "output.weight":
            data /= 2
        if kind is None or data.ndim == 1:
            writer.add_tensor(one.name, data)
        else:
            writer.add_tensor(one.name, gguf.quants.quantize(data, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def ran(folder, binary, *arguments):
    environment = {**os.environ, "XDG_CONFIG_HOME": str(folder / "config")}
    environment.pop("GPUWISE_CATALOGUE", None)
    return subprocess.run([binary, *map(str, arguments)], cwd=folder, env=environment, capture_output=True, text=True)


def measured(folder, binary, *arguments):
    done = ran(folder, binary, "optimize", *arguments, "--format", "json")
    if done.returncode != 0:
        sys.exit("optimize %s ended with %d:\n%s" % (" ".join(arguments), done.returncode, done.stderr))
    return {row["measure"]: row for row in json.loads(done.stdout)["rows"]}


def near(said, computed, bound, what):
    hold(abs(said - computed) <= bound, "%s is %.6f, computed %.6f, allowed ± %.6f" % (what, said, computed, bound))
    print("%-40s %12.6f, numpy %12.6f" % (what, said, computed), flush=True)


def check_form(folder, binary, name, logs, bounds):
    (was, came), (now, _) = logs
    at = np.arange(len(came))
    before, after = (np.exp(-one[at, came].mean()) for one in (was, now))
    rows = measured(folder, binary, name, "--measure", "--against", "f32.gguf", "--text", "words.txt", "--piece",
                    PIECE, "--save")
    lines = rows["perplexity"]
    near(lines["before"], before, 2e-3 * before, name + ": perplexity of the original")
    near(lines["after"], after, bounds[0] * after, name + ": perplexity")
    near(lines["change"] * 100, (after / before - 1) * 100, bounds[0] * 100, name + ": loss, percent")
    spread = was[at, came] - now[at, came]
    error = spread.std() / np.sqrt(len(at) - 1)
    near(lines["after_error"] / lines["after"], now[at, came].std() / np.sqrt(len(at) - 1), 2e-3, name + ": its error")
    print("%-40s %12.6f" % (name + ": error of the loss, numpy", error))
    near(rows["KL divergence"]["after"], (np.exp(was) * (was - now)).sum(-1).mean(), bounds[1], name + ": KL divergence")
    same = (was.argmax(-1) == now.argmax(-1)).mean() * 100
    near(rows["same first token"]["after"], same, bounds[2], name + ": same first token, percent")
    for speed in ("prompt, tokens/s", "answer, tokens/s"):
        hold(rows[speed]["before"] > 0 and rows[speed]["after"] > 0, name + ": " + speed)
    return (after / before - 1) * 100


def check_plan(folder, binary, name, loss):
    """What was measured is what a plan goes by."""
    for bound, offered in ((loss / 2, False), (loss * 2, True)):
        done = ran(folder, binary, "plan", name, "--gpu", "L4", "--rate", "1", "--isl", "50", "--osl", "20",
                   "--max-quality-loss", "%.4f%%" % bound, "--offline")
        hold((done.returncode == 0) == offered, "%s with %.3f %% allowed: %d" % (name, bound, done.returncode))
        hold("perplexity of words.txt" in done.stdout, "%s: the plan says what was measured:\n%s" % (name, done.stdout))


def check_server(folder, binary):
    """llama.cpp's server tells no log-probabilities of a prompt: that is said, and nothing is measured."""
    port = free_port()
    address = "http://127.0.0.1:%d" % port
    server = subprocess.Popen(["llama-server", "-m", "q8.gguf", "-c", "512", "--port", str(port)], cwd=folder,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                with urllib.request.urlopen(address + "/health", timeout=1) as answer:
                    if answer.status == 200:
                        break
            except OSError:
                time.sleep(0.2)
        done = ran(folder, binary, "optimize", address, "--measure", "--text", "words.txt", "--piece", "16")
        hold(done.returncode != 0 and "echo" in done.stderr and "vLLM" in done.stderr, "llama-server: " + done.stderr)
    finally:
        server.terminate()
        server.wait(30)


def main():
    binary, model = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        kinds = {"f32": None, "q8": gguf.GGMLQuantizationType.Q8_0, "q4": gguf.GGMLQuantizationType.Q4_0}
        for name, kind in kinds.items():
            written(folder / (name + ".gguf"), model, kind)
        first = Model(folder / "f32.gguf")
        words = drawn(first)
        (folder / "words.txt").write_text(" ".join(words))
        was = first.text(words)
        # llama.cpp keeps its cache in 16 bits and rounds what it multiplies quantized weights with to 8.
        for name, bounds in (("q8", (1e-3, 5e-4, 1.5)), ("q4", (2e-3, 1e-3, 2))):
            loss = check_form(folder, binary, name + ".gguf", (was, Model(folder / (name + ".gguf")).text(words)), bounds)
            if loss > 0.1:
                check_plan(folder, binary, name + ".gguf", loss)
        check_server(folder, binary)
    print("%d failures" % len(failures))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
