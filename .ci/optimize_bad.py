"""Input that is bad in one way or another, for `check_optimize.py`: how `gpuwise optimize` ends, which file or tensor
it names, what is left behind, and whether a second run goes on."""
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess

import torch
from safetensors.torch import load_file, save_file

FILE = "model-00003-of-00006.safetensors"
INDEX = "model.safetensors.index.json"
HEAD = 8


def optimize(binary, model, out, *flags, **options):
    return subprocess.run([binary, "optimize", model, "-o", out, *(flags or ("--to", "fp8"))],
                          capture_output=True, text=True, **options)


def content(directory):
    return {one.name: one.read_bytes() for one in sorted(directory.iterdir())}


# Ways to spoil a copy of the model, each with words that the message must have.

def missing_file(model):
    (model / FILE).unlink()
    return [FILE]


def index_of_what_is_not_there(model):
    index = json.loads((model / INDEX).read_text())
    index["weight_map"]["model.layers.9.mlp.up_proj.weight"] = FILE
    (model / INDEX).write_text(json.dumps(index))
    return ["model.layers.9.mlp.up_proj.weight"]


def index_that_leaves(model):
    index = json.loads((model / INDEX).read_text())
    index["weight_map"]["model.norm.weight"] = "../elsewhere.safetensors"
    (model / INDEX).write_text(json.dumps(index))
    return [INDEX]


def index_no_json(model):
    (model / INDEX).write_text('{"weight_map": ')
    return [INDEX]


def twice(model):
    other = load_file(model / "model-00004-of-00006.safetensors")
    name = next(iter(other))
    save_file({**load_file(model / FILE), name: other[name]}, model / FILE)
    return [name]


def header(model, change):
    """Changes the header of a file, whose tensors stay where they are."""
    raw = (model / FILE).read_bytes()
    length = int.from_bytes(raw[:HEAD], "little")
    said = json.loads(raw[HEAD:HEAD + length])
    name = next(name for name in said if name.endswith(".weight") and len(said[name]["shape"]) == 2)
    change(said[name])
    text = json.dumps(said).encode()
    (model / FILE).write_bytes(len(text).to_bytes(HEAD, "little") + text + raw[HEAD + length:])
    return [FILE]


def beyond_the_file(model):
    return header(model, lambda one: one["data_offsets"].__setitem__(1, 1 << 40))


def other_shape(model):
    return header(model, lambda one: one["shape"].__setitem__(0, one["shape"][0] + 1))


def huge_shape(model):
    return header(model, lambda one: one.__setitem__("shape", [1 << 62, 1 << 62]))


def backwards(model):
    return header(model, lambda one: one["data_offsets"].reverse())


def unknown_numbers(model):
    return header(model, lambda one: one.__setitem__("dtype", "BF17"))


def long_header(model):
    raw = (model / FILE).read_bytes()
    (model / FILE).write_bytes((1 << 50).to_bytes(HEAD, "little") + raw[HEAD:])
    return [FILE]


def cut(model):
    raw = (model / FILE).read_bytes()
    (model / FILE).write_bytes(raw[:len(raw) // 2])
    return [FILE]


def empty(model):
    (model / FILE).write_bytes(b"")
    return [FILE]


def no_config(model):
    (model / "config.json").unlink()
    return ["config.json"]


def config_no_json(model):
    (model / "config.json").write_text("{")
    return ["config.json"]


def quantized_before(model):
    config = json.loads((model / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4}
    (model / "config.json").write_text(json.dumps(config))
    return ["config.json", "gptq", "already"]


SPOILED = [missing_file, index_of_what_is_not_there, index_that_leaves, index_no_json, twice, beyond_the_file,
           other_shape, huge_shape, backwards, unknown_numbers, long_header, cut, empty, no_config, config_no_json,
           quantized_before]


def ended_as_it_should(hold, name, done, words, out):
    hold(done.returncode == 2, "%s: ended with %d" % (name, done.returncode))
    for word in words:
        hold(word in done.stderr, "%s: %r is not in %r" % (name, word, done.stderr))
    hold("panicked" not in done.stderr, "%s: %s" % (name, done.stderr))
    hold(not out.exists(), "%s: %s is there" % (name, out.name))


def partial(out):
    return out.with_name(out.name + ".partial")


def check_spoiled(binary, model, folder, hold):
    for spoil in SPOILED:
        name, bad, out = spoil.__name__, folder / spoil.__name__, folder / (spoil.__name__ + "-out")
        shutil.copytree(model, bad)
        words = spoil(bad)
        done = optimize(binary, bad, out)
        ended_as_it_should(hold, name, done, words, out)
        # All of this is known before anything is written.
        hold(not partial(out).exists(), "%s: %s is left" % (name, partial(out).name))


def check_not_finite(binary, model, folder, clean, hold):
    """NaN and infinite weights are named; when they are put right the second run goes on, and is as the first would."""
    for value in ("nan", "inf", "-inf"):
        for flags in (("--to", "fp8"), ("--to", "nvfp4"), ("--to", "int4", "--scales", "32")):
            bad, out = folder / "not-finite", folder / "not-finite-out"
            shutil.copytree(model, bad)
            file = load_file(bad / FILE)
            name = next(name for name, one in file.items() if one.dim() == 2)
            file[name][5, 7] = float(value)
            save_file(file, bad / FILE, metadata={"format": "pt"})
            done = optimize(binary, bad, out, *flags)
            ended_as_it_should(hold, "%s, %s" % (value, flags[1]), done, [name, "row 5", "column 7", FILE], out)
            # Kept as it is, it is for whoever computes with it.
            done = optimize(binary, bad, folder / "not-finite-kept", *flags, "--keep", name)
            hold(done.returncode == 0, "%s, kept: %s" % (value, done.stderr))
            shutil.copy(model / FILE, bad / FILE)
            done = optimize(binary, bad, out, *flags)
            hold(done.returncode == 0, "%s, put right: %s" % (value, done.stderr))
            if flags[1] == "fp8" and done.returncode == 0:
                hold(content(out) == clean, "%s, put right: the result is another one" % value)
            for one in (bad, out, partial(out), folder / "not-finite-kept"):
                shutil.rmtree(one, ignore_errors=True)


def check_odd_shapes(binary, model, folder, hold):
    """What does not divide by a group stays and is said; what is of other numbers too."""
    bad, out = folder / "odd", folder / "odd-out"
    bad.mkdir()
    shutil.copy(model / "config.json", bad)
    torch.manual_seed(1)
    weights = {"a.up_proj.weight": torch.randn(96, 256, dtype=torch.bfloat16), "a.odd.weight": torch.randn(64, 200),
               "a.half.weight": torch.randn(48, 128, dtype=torch.float16), "a.codes.weight": torch.ones(8, 128, dtype=torch.int64),
               "a.none.weight": torch.zeros(0, 128), "a.norm.weight": torch.ones(256), "a.mlp.gate.weight": torch.randn(8, 256)}
    save_file(weights, bad / "model.safetensors")
    done = optimize(binary, bad, out, "--to", "int4")
    hold(done.returncode == 0, "odd shapes: %s" % done.stderr)
    for word in ("200", "128", "I64", "routers"):
        hold(word in done.stdout, "odd shapes: %r is not said in %s" % (word, done.stdout))
    if done.returncode == 0:
        written = load_file(out / "model.safetensors")
        kept = {name for name in weights if name in written}
        hold(kept == set(weights) - {"a.up_proj.weight", "a.half.weight"}, "odd shapes: %s stay" % sorted(kept))
        hold(all(torch.equal(weights[name], written[name]) for name in kept), "odd shapes: what stays is as it was")
        ignored = set(json.loads((out / "config.json").read_text())["quantization_config"]["ignore"])
        hold({"a.odd", "a.mlp.gate", "a.codes"} <= ignored and not {"a.up_proj", "a.half"} & ignored,
             "odd shapes: ignored are %s" % sorted(ignored))
    save_file({"a.odd.weight": torch.randn(64, 200)}, bad / "model.safetensors")
    done = optimize(binary, bad, folder / "nothing", "--to", "int4")
    ended_as_it_should(hold, "nothing to do", done, ["odd"], folder / "nothing")


def check_room(binary, model, folder, clean, hold):
    """No room in the middle: finished files stay, and the second run is as if nothing had been."""
    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    out = folder / "limited"
    done = optimize(binary, model, out, preexec_fn=limited, restore_signals=False)
    ended_as_it_should(hold, "a limit of file sizes", done, [partial(out).name], out)
    done = optimize(binary, model, out)
    hold(done.returncode == 0 and content(out) == clean, "after a limit of file sizes: %s" % done.stderr)

    disk = folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True)
    if mounted.returncode != 0:
        print("SKIPPED: a full disk, as this user may not mount one")
        return
    try:
        out = disk / "out"
        done = optimize(binary, model, out)
        ended_as_it_should(hold, "a full disk", done, [partial(out).name, "make room"], out)
        hold(any(one.name.endswith(".safetensors") for one in partial(out).iterdir()), "a full disk: what was done is kept")
        subprocess.run(["mount", "-o", "remount,size=32m", disk], check=True)
        done = optimize(binary, model, out)
        hold(done.returncode == 0 and content(out) == clean, "after a full disk: %s" % done.stderr)
    finally:
        subprocess.run(["umount", disk], check=True)


def check_interrupted(binary, model, folder, clean, hold):
    """Killed at any time; and another model of the same sizes in the same place is not mixed with the first."""
    out = folder / "killed"
    left = False
    for wait in (0.02, 0.04, 0.06, 0.08, 0.1, 0.15):
        shutil.rmtree(out, ignore_errors=True)
        process = subprocess.Popen([binary, "optimize", model, "-o", out, "--to", "fp8"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        left |= partial(out).exists()
        if not out.exists():
            done = optimize(binary, model, out)
            hold(done.returncode == 0, "after a kill: %s" % done.stderr)
        hold(out.exists() and content(out) == clean, "after a kill at %.2f s: the result is another one" % wait)
        hold(not partial(out).exists(), "after a kill: nothing else is left")
    print("killed with something left: %s" % left)

    first, out = folder / "first", folder / "first-out"
    shutil.copytree(model, first)
    file = load_file(first / FILE)
    name = next(name for name, one in file.items() if one.dim() == 2)
    file[name][0, 0] = float("nan")
    save_file(file, first / FILE, metadata={"format": "pt"})
    optimize(binary, first, out)
    for path in first.glob("*.safetensors"):
        source = load_file(model / path.name)
        save_file({name: -one for name, one in source.items()}, path, metadata={"format": "pt"})
    done = optimize(binary, first, out)
    other = optimize(binary, first, folder / "second-out")
    hold(other.returncode == 0, "another model: %s" % other.stderr)
    if done.returncode == 0:
        hold(content(out) == content(folder / "second-out"), "another model in the same place: two are mixed")
    else:
        ended_as_it_should(hold, "another model in the same place", done, [partial(out).name], out)


def check_places(binary, model, folder, clean, hold):
    """Where models lie and where they go."""
    linked, out = folder / "linked", folder / "linked-out"
    linked.mkdir()
    for one in model.iterdir():
        (linked / one.name).symlink_to(one)
    # Some models lie there twice, in other files that the index does not name.
    (linked / "consolidated.safetensors").write_bytes(b"something else")
    (linked / "tokenizer.json").write_text("{}")
    done = optimize(binary, linked, out)
    hold(done.returncode == 0, "links: %s" % done.stderr)
    if done.returncode == 0:
        there = content(out)
        hold(there.pop("tokenizer.json", None) == b"{}" and there == clean, "links: %s" % sorted(there))
    hold(not any(one.is_symlink() for one in out.iterdir()), "links: what is written is no link")
    done = optimize(binary, linked, out)
    hold(done.returncode == 2 and out.name in done.stderr, "a directory that is there: %s" % done.stderr)
    done = optimize(binary, out, folder / "again")
    ended_as_it_should(hold, "quantized by ourselves", done, ["config.json", "already"], folder / "again")
    for wrong in (folder / "nowhere", model / FILE):
        done = optimize(binary, wrong, folder / "from-nowhere")
        ended_as_it_should(hold, "%s as a model" % wrong.name, done, [wrong.name], folder / "from-nowhere")
    one_core = optimize(binary, model, folder / "one-core", preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}))
    hold(one_core.returncode == 0 and content(folder / "one-core") == clean, "one core gives other bytes")


def check_back(binary, model, folder, hold):
    """Decompression of what was changed since."""
    hold(optimize(binary, model, folder / "plain", "--to", "bf16").returncode == 2, "plain numbers of a model that has them")
    packed = folder / "packed"
    hold(optimize(binary, model, packed, "--to", "int4", "--scales", "32").returncode == 0, "int4")
    config = json.loads((packed / "config.json").read_text())
    raw = load_file(packed / FILE)
    name = next(name for name in raw if name.endswith(".weight_shape"))
    for what, value in (("larger", [1 << 61, 1 << 61]), ("negative", [-1, 256]), ("other", [3, 5])):
        save_file({**raw, name: torch.tensor(value)}, packed / FILE)
        done = optimize(binary, packed, folder / "back", "--to", "bf16")
        ended_as_it_should(hold, "a shape that is %s" % what, done, [name.rsplit(".", 1)[0]], folder / "back")
        shutil.rmtree(partial(folder / "back"), ignore_errors=True)
    scale = name.replace("_shape", "_scale")
    save_file({key: one for key, one in raw.items() if key != scale}, packed / FILE)
    done = optimize(binary, packed, folder / "back", "--to", "bf16")
    ended_as_it_should(hold, "no scale", done, [scale.rsplit(".", 1)[0]], folder / "back")
    shutil.rmtree(partial(folder / "back"), ignore_errors=True)
    save_file(raw, packed / FILE)
    config["quantization_config"]["config_groups"]["group_0"]["weights"]["num_bits"] = 3
    (packed / "config.json").write_text(json.dumps(config))
    done = optimize(binary, packed, folder / "back", "--to", "bf16")
    ended_as_it_should(hold, "3 bits", done, ["config.json"], folder / "back")


def check(binary, model, folder, hold):
    folder.mkdir()
    model = pathlib.Path(model)
    done = optimize(binary, model, folder / "clean")
    hold(done.returncode == 0, "clean: %s" % done.stderr)
    clean = content(folder / "clean")
    check_spoiled(binary, model, folder, hold)
    check_not_finite(binary, model, folder, clean, hold)
    check_odd_shapes(binary, model, folder, hold)
    check_room(binary, model, folder, clean, hold)
    check_interrupted(binary, model, folder, clean, hold)
    check_places(binary, model, folder, clean, hold)
    check_back(binary, model, folder, hold)
