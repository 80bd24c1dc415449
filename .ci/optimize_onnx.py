"""What `gpuwise optimize model.onnx --fuse` leaves of a graph with batch norms and dead branches: for `check_optimize.py`.

Weights that PyTorch has are written as a graph by hand; what PyTorch computes is what the simpler graph is held to.
"""
import os
import pathlib
import subprocess
import sys

import numpy
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper


def network():
    torch.manual_seed(5)
    layers = [torch.nn.Conv2d(3, 8, 3, padding=1, bias=False), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
              torch.nn.Conv2d(8, 4, 3, stride=2, groups=2), torch.nn.BatchNorm2d(4), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers).eval()
    for one in layers:
        if isinstance(one, torch.nn.BatchNorm2d):
            for part in (one.weight, one.bias, one.running_mean):
                part.data = torch.randn(part.shape)
            one.running_var.data = torch.rand(one.running_var.shape) + 0.1
    return model


def graph(model, batch):
    """The same as ONNX, with a product of constants, and a branch that no output depends on."""
    nodes, values, last = [], [], "x"
    for at, one in enumerate(model):
        out, parts = "y%d" % at, []
        names = ("weight", "bias") if isinstance(one, torch.nn.Conv2d) else ("weight", "bias", "running_mean", "running_var")
        for name in names if not isinstance(one, torch.nn.ReLU) else ():
            if (part := getattr(one, name)) is not None:
                parts.append("%s%d" % (name, at))
                values.append(numpy_helper.from_array(part.detach().numpy(), parts[-1]))
        if isinstance(one, torch.nn.Conv2d):
            pads = [*one.padding, *one.padding]
            nodes.append(helper.make_node("Conv", [last, *parts], [out], pads=pads, strides=one.stride, group=one.groups))
        elif isinstance(one, torch.nn.BatchNorm2d):
            nodes.append(helper.make_node("BatchNormalization", [last, *parts], [out], epsilon=one.eps))
        else:
            nodes.append(helper.make_node("Relu", [last], [out]))
        last = out
    values += [numpy_helper.from_array(numpy.float32(number), name) for name, number in (("two", 2), ("half", 0.5))]
    nodes.append(helper.make_node("Mul", ["two", "half"], ["one"]))
    nodes.append(helper.make_node("Mul", [last, "one"], ["y"]))
    nodes.append(helper.make_node("Sigmoid", ["y0"], ["nobody"]))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 12, 12])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 4, 5, 5])]
    made = helper.make_graph(nodes, "g", inputs, outputs, values)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def check(binary, folder, hold):
    folder.mkdir()
    model = network()
    here = {**os.environ, "PATH": "%s:%s" % (pathlib.Path(sys.executable).parent, os.environ["PATH"])}
    for batch in (2, "batch"):
        path, out = folder / ("%s.onnx" % batch), folder / ("%s-fused.onnx" % batch)
        onnx.save(graph(model, batch), path)
        done = subprocess.run([binary, "optimize", str(path), "--fuse", "batchnorm,dead", "-o", str(out)], capture_output=True,
                              text=True, env=here)
        hold(done.returncode == 0, "optimize of an ONNX graph: %s" % done.stderr)
        if done.returncode != 0:
            continue
        kinds = [node.op_type for node in onnx.load(out).graph.node]
        hold(sorted(kinds) == ["Conv", "Conv", "Relu", "Relu"], "of the graph are left: %s" % kinds)
        x = torch.randn(2, 3, 12, 12)
        ran = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"]).run(None, {"x": x.numpy()})[0]
        with torch.no_grad():
            wanted = model(x).numpy()
        off = float(abs(ran - wanted).max() / abs(wanted).max())
        hold(off < 1e-5, "the simpler graph is off by %g" % off)
        print("ONNX graph of %s: %s, off by %.1e beside PyTorch" % (batch, ", ".join(kinds), off), flush=True)
    broken = folder / "broken.onnx"
    broken.write_bytes((folder / "2.onnx").read_bytes()[:900])
    done = subprocess.run([binary, "optimize", str(broken), "--fuse", "dead", "-o", str(folder / "none.onnx")],
                          capture_output=True, text=True, env=here)
    hold(done.returncode == 2 and "broken.onnx" in done.stderr, "a broken graph: %d, %s" % (done.returncode, done.stderr))
    left = [path.name for path in folder.glob("none*")]
    hold(not left, "a broken graph leaves %s" % left)
