//! How the weights of a checkpoint are stored, read from what `quantization_config` says, as `compressed-tensors` has
//! it.

use crate::error::Problem;
use gpuwise_compress::{PartKind, Scheme, SparseAs, Stored, Strategy};
use gpuwise_read::safetensors::Place;
use serde_json::Value;
use std::path::Path;

/// The one scheme of a configuration.
///
/// # Errors
/// When weights are not quantized, or in a way that is not read here: names what is not known.
pub(super) fn scheme(config: &Value, path: &Path) -> anyhow::Result<Scheme> {
    let named = path.display();
    let said = config.get("quantization_config").ok_or_else(|| {
        Problem::new(format!("{named}: its weights are not quantized"))
            .hint("there is nothing to undo: name fp8, int8, int8-w8a16, int4, nvfp4, mxfp4 or 2:4")
    })?;
    let unknown = |what: String| {
        Problem::new(format!("{named}: {what}"))
            .hint("only compressed-tensors with one way for all layers are read here")
    };
    if said["quant_method"] != "compressed-tensors" {
        return Err(unknown(format!("`quant_method` is {}", said["quant_method"])).into());
    }
    let groups = said["config_groups"].as_object();
    match said["sparsity_config"]["format"].as_str() {
        None | Some("dense") => {}
        Some("sparse-24-bitmask") if groups.is_none() => {
            return Ok(Scheme::TwoFour(SparseAs::Bitmask));
        }
        Some(format) => {
            let also = if groups.is_some() {
                " of quantized weights"
            } else {
                ""
            };
            return Err(unknown(format!("`sparsity_config` is {format}{also}")).into());
        }
    }
    let group = match groups.map(|groups| groups.values().collect::<Vec<_>>()) {
        Some(groups) if groups.len() == 1 => groups[0],
        _ => return Err(unknown("`config_groups` are not one".into()).into()),
    };
    let format = group.get("format").unwrap_or(&said["format"]);
    let weights = &group["weights"];
    let found = of(format.as_str().unwrap_or_default(), weights);
    let what = || format!("`format` {format} with `weights` {weights} is not known");
    Ok(found.ok_or_else(|| unknown(what()))?)
}

fn of(format: &str, weights: &Value) -> Option<Scheme> {
    let whole = |value: &Value| u32::try_from(value.as_u64()?).ok().filter(|one| *one > 0);
    let strategy = || match weights["strategy"].as_str()? {
        "tensor" => Some(Strategy::Tensor),
        "channel" => Some(Strategy::Channel),
        "group" => Some(Strategy::Group(whole(&weights["group_size"])?)),
        "block" => {
            let [height, width] = weights["block_structure"].as_array()?.as_slice() else {
                return None;
            };
            Some(Strategy::Block(whole(height)?, whole(width)?))
        }
        _ => None,
    };
    match format {
        "float-quantized" => Some(Scheme::Fp8(strategy()?)),
        "int-quantized" => Some(Scheme::Int8(strategy()?)),
        "pack-quantized" => Some(Scheme::Packed {
            bits: whole(&weights["num_bits"]).filter(|bits| matches!(bits, 4 | 8))?,
            strategy: strategy()?,
            symmetric: weights["symmetric"].as_bool()?,
        }),
        "nvfp4-pack-quantized" => Some(Scheme::Nvfp4),
        "mxfp4-pack-quantized" => Some(Scheme::Mxfp4),
        _ => None,
    }
}

/// The layer of a tensor and which part of its weight that is, where it may be one in this scheme.
pub(super) fn part(scheme: Scheme, tensor: &str) -> Option<(&str, PartKind)> {
    use PartKind as Kind;
    const SCALED: [Kind; 6] = [
        Kind::Weight,
        Kind::Packed,
        Kind::Scale,
        Kind::GlobalScale,
        Kind::ZeroPoint,
        Kind::Shape,
    ];
    const SPARSE: [Kind; 3] = [Kind::Compressed, Kind::Bitmask, Kind::SparseShape];
    let kinds = match scheme {
        Scheme::TwoFour(_) => SPARSE.as_slice(),
        _ => SCALED.as_slice(),
    };
    kinds.iter().find_map(|kind| {
        let layer = tensor.strip_suffix(kind.suffix())?.strip_suffix('.')?;
        Some((layer, *kind))
    })
}

/// Rows and columns of what `codes` hold.
pub(super) fn shape(scheme: Scheme, codes: &Place, stated: Option<[u64; 2]>) -> Option<(u64, u64)> {
    let &[rows, across] = codes.shape.as_slice() else {
        return None;
    };
    match scheme {
        Scheme::Fp8(_) | Scheme::Int8(_) | Scheme::TwoFour(SparseAs::Dense) => Some((rows, across)),
        Scheme::Nvfp4 | Scheme::Mxfp4 => Some((rows, across.checked_mul(2)?)),
        Scheme::Packed { bits, .. } => {
            let [stated_rows, columns] = stated?;
            let words = columns.checked_mul(u64::from(bits))?.div_ceil(32);
            ((stated_rows, words) == (rows, across)).then_some((rows, columns))
        }
        Scheme::TwoFour(SparseAs::Bitmask) => {
            let columns = across.checked_mul(2)?;
            (stated? == [rows, columns]).then_some((rows, columns))
        }
    }
}

/// The numbers of the scales, and of what the product is rounded to; of weights that have none, their own.
pub(super) fn numbers(tensor: &Place) -> Stored {
    Stored::named(&tensor.dtype).unwrap_or(Stored::F32)
}

/// The name that `transformers` gives plain numbers.
pub(super) fn dtype(stored: Stored) -> &'static str {
    match stored {
        Stored::Bf16 => "bfloat16",
        Stored::F16 => "float16",
        Stored::F32 => "float32",
    }
}
