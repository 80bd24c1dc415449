"""Called by gpuwise: MODEL OUT skip|fuse. Makes an ONNX graph simpler by onnxsim, runs both, and prints one line of JSON."""
import json
import sys

try:
    import numpy
    import onnx
    import onnxruntime
    import onnxsim
except ImportError as error:
    print(json.dumps({"missing": error.name}))
    sys.exit()

# Sizes that a graph leaves open are tried in this order.
SIZES = (1, 8, 64)
SEEDS = 3
FLOATS = {"tensor(float)": numpy.float32, "tensor(float16)": numpy.float16, "tensor(double)": numpy.float64}
WHOLE = {"tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32, "tensor(int16)": numpy.int16, "tensor(int8)": numpy.int8,
         "tensor(uint64)": numpy.uint64, "tensor(uint32)": numpy.uint32, "tensor(uint16)": numpy.uint16, "tensor(uint8)": numpy.uint8}


def drawn(wanted, size, seed):
    """Numbers for an input: normal ones, 0 or 1 of whole ones, so that they are valid positions and tokens."""
    draw = numpy.random.default_rng(seed)
    shape = [one if isinstance(one, int) and one > 0 else size for one in wanted.shape]
    if wanted.type in FLOATS:
        return draw.standard_normal(shape).astype(FLOATS[wanted.type])
    if wanted.type in WHOLE:
        return draw.integers(0, 2, shape).astype(WHOLE[wanted.type])
    if wanted.type == "tensor(bool)":
        return draw.integers(0, 2, shape).astype(bool)
    raise ValueError("input %s is a %s" % (wanted.name, wanted.type))


def session(path):
    options = onnxruntime.SessionOptions()
    # Of ONNX Runtime's own passes none, so that what is compared is the graphs.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def compared(before, after):
    """The largest distance of an output, of its largest number; both graphs on the same inputs."""
    worst, why = 0.0, None
    for size in SIZES:
        try:
            for seed in range(SEEDS):
                inputs = {one.name: drawn(one, size, seed) for one in before.get_inputs()}
                first, second = before.run(None, inputs), after.run(None, inputs)
                for one, other in zip(first, second, strict=True):
                    one, other = numpy.asarray(one), numpy.asarray(other)
                    if one.shape != other.shape or one.dtype != other.dtype:
                        return None, "an output was %s of %s, and is %s of %s" % (one.dtype, one.shape, other.dtype, other.shape)
                    if one.size == 0:
                        continue
                    one, other = one.astype(numpy.float64), other.astype(numpy.float64)
                    if not numpy.array_equal(numpy.isfinite(one), numpy.isfinite(other)):
                        return None, "an output is finite in one of the two alone"
                    known = numpy.isfinite(one)
                    largest = numpy.abs(one[known]).max(initial=0.0)
                    off = numpy.abs(one[known] - other[known]).max(initial=0.0)
                    worst = max(worst, float(off / largest) if largest > 0 else float(off))
            return worst, None
        except Exception as error:
            why = str(error).splitlines()[0]
    return None, why


def counts(graph, into):
    for node in graph.node:
        into[node.op_type] = into.get(node.op_type, 0) + 1
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                counts(attribute.g, into)
    return into


try:
    path, out, how = sys.argv[1:]
    model = onnx.load(path)
    simpler, _ = onnxsim.simplify(model, skip_fuse_bn=how == "skip", certify=False)
    onnx.save(simpler, out)
    off, why = compared(session(path), session(out))
    answer = {"before": counts(model.graph, {}), "after": counts(simpler.graph, {}), "off": off, "why": why,
              "by": "onnxsim %s, onnxruntime %s" % (onnxsim.__version__, onnxruntime.__version__)}
except Exception as error:
    answer = {"failed": str(error).splitlines()[0] if str(error) else type(error).__name__}
print(json.dumps(answer))
