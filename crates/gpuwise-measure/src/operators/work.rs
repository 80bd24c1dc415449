//! Work of an operator by the shapes of its operands, and the least time for it.

use super::{
    Sum,
    reach::{Product, Reach},
    shortfall,
};
use crate::figures::flops;
use gpuwise_domain::profile::{
    figures::{BestBasis, BestTime, OperatorWork, RooflineSide},
    timeline::{Operands, Timeline},
};
use gpuwise_size::speed::{MOST_BANDWIDTH, MOST_COMPUTE};

/// Kernels take this long whatever they do: launch, and the first access to memory.
/// Source: the floor of measured GEMM times in `catalogue/operators.csv`.
pub(crate) const LAUNCH_NS: f64 = 2000.0;

/// Tensors that are listed of an operator.
const TENSORS: usize = 3;

/// Measured products of matrices: operators that are one, with the places of their two matrices.
const PRODUCTS: &[(&str, usize, usize)] = &[
    ("aten::mm", 0, 1),
    ("aten::addmm", 1, 2),
    ("aten::_addmm_activation", 1, 2),
    ("aten::_scaled_mm", 0, 1),
    ("aten::_int_mm", 0, 1),
];

pub(super) fn of(
    timeline: &Timeline,
    name: &str,
    operands: &Operands,
    sum: &Sum,
    reach: Option<&Reach<'_>>,
) -> OperatorWork {
    let precision = flops::precision(operands, sum.longest.tensor_cores);
    let each_flops = flops::flops(name, operands);
    let each_bytes = bytes(name, operands);
    let count = sum.count as f64;
    let sizes = product(name, operands);
    let mut work = OperatorWork {
        shapes: shapes(operands),
        precision,
        flops: each_flops.map(|flops| flops * count),
        bytes: each_bytes.map(|bytes| bytes * count),
        side: None,
        best: None,
        shortfalls: Vec::new(),
    };
    let Some(reach) = reach else { return work };
    let computing = each_flops.map(|flops| Some(flops / reach.peak(precision?)?));
    // Work whose precision has no known peak has no known side.
    if computing.is_some_and(|seconds| seconds.is_none()) {
        return work;
    }
    let computing = computing.flatten();
    let moving = each_bytes.map(|bytes| bytes / reach.bandwidth());
    if computing.is_none() && moving.is_none() {
        return work;
    }
    let (computing, moving) = (computing.unwrap_or(0.0), moving.unwrap_or(0.0));
    work.side = Some(if computing.max(moving) * 1e9 < LAUNCH_NS {
        RooflineSide::Launch
    } else if computing >= moving {
        RooflineSide::Compute
    } else {
        RooflineSide::Memory
    });
    let roofline = (computing / MOST_COMPUTE).max(moving / MOST_BANDWIDTH);
    let measured = sizes
        .zip(precision)
        .and_then(|([m, n, k], precision)| reach.measured(Product { m, n, k, precision }));
    let (seconds, basis) = match measured {
        Some(seconds) => (seconds.max(roofline), BestBasis::Measured),
        None => (roofline.max(LAUNCH_NS * 1e-9), BestBasis::Roofline),
    };
    work.best = Some(BestTime {
        ns: seconds * 1e9 * count,
        basis,
    });
    let reached = seconds * 1e9 * count / sum.kernel_ns.max(1) as f64;
    if reached < super::FALLS_SHORT {
        work.shortfalls = shortfall::of(timeline, &sum.longest, sizes, precision, reach);
    }
    work
}

/// m, n and k of an operator that is one product.
pub(crate) fn product(name: &str, operands: &Operands) -> Option<[f64; 3]> {
    let (_, left, right) = PRODUCTS.iter().find(|(known, ..)| *known == name)?;
    match (
        operands.shapes.get(*left)?.as_slice(),
        operands.shapes.get(*right)?.as_slice(),
    ) {
        ([m, k], [rows, n]) if k == rows => Some([*m as f64, *n as f64, *k as f64]),
        _ => None,
    }
}

/// Bytes of an element, by the file's spelling of its type.
pub(crate) fn width(kind: &str) -> Option<f64> {
    Some(match kind {
        "double" | "long int" | "long" | "int64_t" => 8.0,
        "float" | "int" => 4.0,
        "c10::Half" | "c10::BFloat16" | "short" => 2.0,
        "signed char" | "unsigned char" | "bool" => 1.0,
        kind if kind.contains("Float8") => 1.0,
        _ => return None,
    })
}

pub(crate) fn elements(shape: &[u64]) -> f64 {
    shape.iter().map(|size| *size as f64).product()
}

/// Bytes of operands and result, each once.
pub(crate) fn bytes(name: &str, operands: &Operands) -> Option<f64> {
    let tensors = operands.shapes.iter().zip(&operands.types);
    let mut read = 0.0;
    let mut largest = (0.0, 0.0);
    for (shape, kind) in tensors.filter(|(shape, _)| !shape.is_empty()) {
        let each = width(kind)?;
        let count = elements(shape);
        read += count * each;
        if count > largest.0 {
            largest = (count, each);
        }
    }
    let (count, each) = largest;
    if count == 0.0 {
        return None;
    }
    let plain = name.strip_prefix("aten::").unwrap_or(name);
    let shape = |place: usize| operands.shapes.get(place).filter(|shape| !shape.is_empty());
    Some(match plain {
        // The target of a copy is written and not read, and stands first; a sum is small.
        "copy_" | "sum" | "mean" => read,
        "mm" | "bmm" | "_scaled_mm" | "_int_mm" => {
            read + written(shape(0)?, shape(1)?) * result_width(each)
        }
        "addmm" | "_addmm_activation" | "baddbmm" => read + written(shape(1)?, shape(2)?) * each,
        name if name.contains("attention") => read + elements(shape(0)?) * each,
        "convolution_backward" => read + (elements(shape(1)?) + elements(shape(2)?)) * each,
        name if name.contains("conv") => {
            let window = 2.0 * elements(shape(1)?.get(1..)?);
            read + flops::flops(name, operands)? / window * each
        }
        _ => read + count * each,
    })
}

/// What a product of 8-bit matrices is written in: 16 bits.
fn result_width(each: f64) -> f64 {
    each.max(2.0)
}

/// Elements of a product's result.
fn written(left: &[u64], right: &[u64]) -> f64 {
    let rows = left.split_last().map_or(0.0, |(_, rows)| elements(rows));
    rows * right.last().map_or(0.0, |columns| *columns as f64)
}

/// `4096×1024, 1024×4096`.
fn shapes(operands: &Operands) -> String {
    let tensors = operands.shapes.iter().filter(|shape| !shape.is_empty());
    let texts = tensors.take(TENSORS).map(|shape| {
        let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
        sizes.join("×")
    });
    texts.collect::<Vec<_>>().join(", ")
}
