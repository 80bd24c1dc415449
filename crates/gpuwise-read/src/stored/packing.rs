//! What the tensors of a quantized weight stand for together.

use super::{
    StoredTensor,
    module::{Kind, Names, SPARSE_WEIGHT},
};
use gpuwise_domain::{model::Architecture, precision::WeightFormat};

/// Endings of the scale of a weight, by the tools that write them.
const SCALES: [&str; 8] = [
    ".weight_scale_inv",
    ".weight_scale",
    ".scales",
    "_scales",
    "_scale_inv",
    "_weight_scale",
    ".scale",
    "_scale",
];

/// Elements that a tensor stands for: none for scales, and what packed integers hold for weights.
pub(super) fn elements(
    tensor: &StoredTensor,
    kind: Kind,
    names: &Names<'_>,
    architecture: &Architecture,
) -> u64 {
    match kind {
        Kind::Scale => 0,
        Kind::Bias => tensor.elements(),
        Kind::Weight => {
            let packed = weight_of(tensor, names, architecture).map_or(1, |one| one.per_item);
            tensor.elements().saturating_mul(packed)
        }
    }
}

fn states_8_bit(architecture: &Architecture) -> bool {
    let assignments = architecture
        .quantization
        .iter()
        .flat_map(|q| &q.assignments);
    let mut formats = assignments.map(|assignment| assignment.format).peekable();
    formats.peek().is_some()
        && formats.all(|format| format == WeightFormat::INT8_WEIGHT || format == WeightFormat::INT8)
}

/// How a weight is stored, its scales considered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Weight {
    pub(super) format: WeightFormat,
    /// Elements in one item of the tensor.
    pub(super) per_item: u64,
    /// Whether activations are quantized too, where tensors show it.
    pub(super) activations: bool,
}

/// The same with what the architecture states: a header alone does not tell 4-bit from 8-bit integers without zero
/// points.
pub(super) fn weight_of(
    tensor: &StoredTensor,
    names: &Names<'_>,
    architecture: &Architecture,
) -> Option<Weight> {
    let found = weight(tensor, names)?;
    let either = found.per_item == 8 && !tensor.name.ends_with(".qweight");
    if either && states_8_bit(architecture) {
        return Some(Weight {
            format: WeightFormat::INT8_WEIGHT,
            per_item: 4,
            ..found
        });
    }
    Some(found)
}

/// How a weight is stored; `None` for tensors that are no matrices of weights.
pub(super) fn weight(tensor: &StoredTensor, names: &Names<'_>) -> Option<Weight> {
    let (module, kind) = names.split(&tensor.name);
    if kind != Kind::Weight || tensor.shape.len() < 2 {
        return None;
    }
    let scale = names.of_module(module, &SCALES);
    let scale_name = scale.map_or("", |scale| scale.format.name);
    let activations = [".input_scale", ".input_global_scale", "_input_scale"];
    let activations = names.of_module(module, &activations).is_some();
    let one = |format, per_item| {
        Some(Weight {
            format,
            per_item,
            activations,
        })
    };
    if names.get(&format!("{module}{SPARSE_WEIGHT}")) == Some(tensor) {
        let half = matches!(tensor.format.name, "bf16" | "fp16");
        let format = if half {
            WeightFormat::SPARSE_2_4
        } else {
            tensor.format
        };
        return one(format, 2);
    }
    match tensor.format.name {
        "fp8" => one(fp8(tensor, scale), 1),
        "fp4" if scale_name == "fp8" => one(WeightFormat::NVFP4, 1),
        "fp4" => one(WeightFormat::MXFP4, 1),
        "u8" | "i8" => bytes(tensor, module, scale_name, names)
            .and_then(|(format, per_item)| one(format, per_item)),
        "i32" => integers(tensor, module, scale, names)
            .and_then(|(format, per_item)| one(format, per_item)),
        "u16" | "u32" | "u64" | "i16" | "i64" | "bool" | "e8m0" | "complex64" => None,
        _ => one(tensor.format, 1),
    }
}

fn fp8(tensor: &StoredTensor, scale: Option<&StoredTensor>) -> WeightFormat {
    let Some(scale) = scale else {
        return WeightFormat::FP8;
    };
    if matches!(scale.format.name, "e8m0" | "u8") {
        return WeightFormat::MXFP8;
    }
    // A scale a row has as many rows as the weight; one for all has one element.
    let rows = |tensor: &StoredTensor| tensor.shape.iter().rev().nth(1).copied().unwrap_or(1);
    let blocks = scale.shape.len() >= 2 && scale.elements() > 1 && rows(scale) < rows(tensor);
    if blocks {
        WeightFormat::FP8_BLOCK
    } else {
        WeightFormat::FP8
    }
}

/// Weights in bytes: one element each, or two.
fn bytes(
    tensor: &StoredTensor,
    module: &str,
    scale: &str,
    names: &Names<'_>,
) -> Option<(WeightFormat, u64)> {
    if names
        .of_module(module, &[".weight.absmax", ".absmax"])
        .is_some()
    {
        return Some((WeightFormat::NF4, 2));
    }
    match (tensor.format.name, scale) {
        (_, "fp8") => Some((WeightFormat::NVFP4, 2)),
        (_, "e8m0") | ("u8", "u8") => Some((WeightFormat::MXFP4, 2)),
        ("i8", _) => Some((WeightFormat::INT8, 1)),
        // Bytes without a scale that says otherwise are bytes.
        _ => None,
    }
}

/// Weights in 32-bit integers, four or eight in each.
fn integers(
    tensor: &StoredTensor,
    module: &str,
    scale: Option<&StoredTensor>,
    names: &Names<'_>,
) -> Option<(WeightFormat, u64)> {
    let rows = tensor.shape.first().copied().unwrap_or(1);
    let columns = tensor.last();
    let Some(scale) = scale else {
        return tensor
            .name
            .ends_with("weight")
            .then_some((WeightFormat::INT4, 8));
    };
    let zeros = names.of_module(module, &[".qzeros", ".weight_zero_point"]);
    let (bits, inputs, groups) = if tensor.name.ends_with(".qweight") {
        // Inputs are rows here. AWQ packs outputs, GPTQ inputs.
        let outputs = scale.last();
        let groups = scale.shape.first().copied().unwrap_or(1);
        if columns < outputs {
            (32 * columns / outputs.max(1), rows, groups)
        } else {
            let bits = zeros.map_or(4, |zeros| 32 * zeros.last() / outputs.max(1));
            (bits, rows.saturating_mul(32 / bits.max(1)), groups)
        }
    } else {
        // compressed-tensors packs inputs along columns, and zero points along rows.
        let packed = zeros.and_then(|zeros| zeros.shape.first().copied());
        let eight = packed.is_some_and(|packed| packed.saturating_mul(4) >= rows);
        let bits = if eight { 8 } else { 4 };
        (bits, columns.saturating_mul(32 / bits), scale.last())
    };
    if bits == 8 {
        return Some((WeightFormat::INT8_WEIGHT, 4));
    }
    let format = match (inputs / groups.max(1), zeros.is_some()) {
        (32, _) => WeightFormat::INT4_G32,
        (_, true) => WeightFormat::INT4_ZERO,
        (_, false) => WeightFormat::INT4,
    };
    // Other widths (2 and 3 bits) exist; what they stand for follows from their bits.
    let per_item = if (1..=32).contains(&bits) {
        32 / bits
    } else {
        8
    };
    Some((format, per_item))
}
