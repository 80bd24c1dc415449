"""What a release of compressed-tensors that still has sparse forms makes of them: `optimize_sparse.py MODEL WRITTEN OUT`.

WRITTEN has `sparse-24-bitmask` of MODEL. OUT gets the weights that the library reads of it, and those that it leaves of
MODEL itself by its own choice of two of each four. 0.14 is the last such release.
"""
import json
import pathlib
import sys

from compressed_tensors.compressors import ModelCompressor
from safetensors.torch import load_file, save_file


def main():
    model, written, out = map(pathlib.Path, sys.argv[1:])
    config = json.loads((written / "config.json").read_text())["quantization_config"]
    compressor = ModelCompressor.from_compression_config(config)
    assert compressor.quantization_compressor is None
    sparse = compressor.sparsity_compressor
    read = {name: one.contiguous() for name, one in sparse.decompress(str(written))}
    layers = {name for file in written.glob("*.safetensors") for name in load_file(file) if name.endswith(".compressed")}
    layers = {name.removesuffix(".compressed") for name in layers}
    plain = {name: one for file in model.glob("*.safetensors") for name, one in load_file(file).items()}
    chosen = {}
    for layer in layers:
        parts = sparse.compress_weight(layer, plain[layer + ".weight"])
        parts = {name.rsplit(".", 1)[1]: one for name, one in parts.items()}
        chosen["chosen:" + layer + ".weight"] = sparse.decompress_weight(parts).contiguous()
    save_file({**read, **chosen}, out)


main()
