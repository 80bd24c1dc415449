//! Floating-point work that operators' shapes tell, against the peak of the device.
//!
//! Only operators that launched a kernel themselves are counted, so that an operator within
//! another is counted once.

use super::{Settings, host::HostTimes, ordered::Ordered};
use gpuwise_domain::{
    gpu::PeakRates,
    profile::{
        figures::{FlopFigures, FlopsOfPrecision, TensorCores},
        timeline::{Operands, Timeline},
    },
};
use std::collections::BTreeMap;

/// A utilisation is stated where operators that were counted cover so much of the kernel time that could
/// have countable work; below, what was counted is a lower bound.
const COVERED: f64 = 0.9;

/// Figures of the floating-point work of `ordered`.
pub(super) fn figures(
    timeline: &Timeline,
    ordered: &Ordered,
    host: &HostTimes,
    settings: &Settings<'_>,
) -> FlopFigures {
    let mut found = FlopFigures::default();
    let mut counted: Vec<Option<&'static str>> = vec![None; timeline.operators.len()];
    let mut work: BTreeMap<&'static str, (f64, i64)> = BTreeMap::new();
    for piece in &ordered.pieces {
        let Some(kernel) = piece.work(timeline) else {
            continue;
        };
        let memory = super::names::is_memory(piece.traits.kind);
        if memory || piece.traits.communication {
            continue;
        }
        found.kernel_ns = found.kernel_ns.saturating_add(piece.duration());
        if piece.traits.tensor_cores != TensorCores::Ineligible {
            found.eligible_ns = found.eligible_ns.saturating_add(piece.duration());
        }
        let operator = kernel.operator.get();
        let Some(slot) = operator.and_then(|operator| counted.get_mut(operator)) else {
            continue;
        };
        if slot.is_none() && piece.traits.tensor_cores != TensorCores::Ineligible {
            let told = timeline.operator_of(kernel).and_then(|operator| {
                let operands = timeline.operands.get(operator.operands.get()?)?;
                let flops = flops(timeline.names.text(operator.name), operands)?;
                Some((flops, precision(operands, piece.traits.tensor_cores)?))
            });
            if let Some((flops, precision)) = told {
                *slot = Some(precision);
                work.entry(precision).or_default().0 += flops;
            }
        }
        if let Some(precision) = *slot {
            found.counted_kernel_ns += piece.duration();
            work.entry(precision).or_default().1 += piece.duration();
        }
    }
    let peak = peak_of(timeline, ordered, settings);
    found.by_precision = work
        .into_iter()
        .map(|(precision, (flops, kernel_ns))| FlopsOfPrecision {
            precision: precision.to_owned(),
            flops,
            peak: peak.as_ref().ok().and_then(|rates| rate(rates, precision)),
            kernel_ns,
        })
        .collect();
    found
        .by_precision
        .sort_by(|a, b| b.flops.total_cmp(&a.flops));
    utilisation(&mut found, ordered, timeline, peak.err(), host.recomputes);
    found
}

fn utilisation(
    found: &mut FlopFigures,
    ordered: &Ordered,
    timeline: &Timeline,
    no_peak: Option<String>,
    recomputes: bool,
) {
    let devices = ordered.devices(timeline).len() as f64;
    let start = ordered.pieces.first().map(|piece| piece.start);
    let end = ordered.pieces.iter().map(|piece| piece.end).max();
    let span = match (ordered.asked, start, end) {
        (Some(window), ..) => window.length(),
        (None, Some(start), Some(end)) => end.saturating_sub(start),
        _ => 0,
    };
    if found.by_precision.is_empty() {
        found.reason = Some("the file states no shapes of operators that can be counted".into());
        return;
    }
    if let Some(reason) = no_peak {
        found.reason = Some(reason);
        return;
    }
    // Seconds at peak, of all that was counted.
    let at_peak: Option<f64> = found
        .by_precision
        .iter()
        .map(|work| work.peak.map(|peak| work.flops / peak))
        .sum();
    let Some(at_peak) = at_peak else {
        found.reason = Some("the device's peak in a precision that was used is not known".into());
        return;
    };
    if span > 0 && devices > 0.0 {
        found.at_least = Some(at_peak / (span as f64 * 1e-9 * devices));
        let covered = found.counted_kernel_ns as f64 / (found.eligible_ns as f64).max(1.0);
        if covered < COVERED {
            found.reason = Some(format!(
                "operators whose work is counted cover {:.0} % of the kernel time that could have such work: utilisation_at_least_pct is a lower bound",
                covered * 100.0
            ));
            return;
        }
        found.hfu = found.at_least;
        if recomputes {
            found.reason = Some(
                "work of the forward pass is run again (activation checkpointing), and how much \
                 cannot be told"
                    .into(),
            );
        } else {
            found.mfu = found.hfu;
        }
    }
}

/// The dense peaks of the devices that worked, if they are all of one product.
fn peak_of<'a>(
    timeline: &Timeline,
    ordered: &Ordered,
    settings: &Settings<'a>,
) -> Result<&'a PeakRates, String> {
    let mut product: Option<&str> = None;
    for device in ordered.devices(timeline) {
        let device = timeline.devices.get(usize::from(device));
        let name = device
            .and_then(|device| device.name.as_deref())
            .ok_or("the file does not name the device")?;
        if product.is_some_and(|known| known != name) {
            return Err("devices of several products worked".into());
        }
        product = Some(name);
    }
    let name = product.ok_or("no device worked")?;
    settings
        .peaks
        .get(name)
        .ok_or_else(|| format!("the catalogue has no peak of {name}"))
}

fn rate(rates: &PeakRates, precision: &str) -> Option<f64> {
    let rate = match precision {
        "fp32" => rates.fp32,
        "tf32" => rates.tf32.or(rates.fp32),
        "fp16" => rates.fp16.or(rates.fp32),
        "bf16" => rates.bf16.or(rates.fp32),
        "fp8" => rates.fp8,
        "int8" => rates.int8,
        _ => None,
    };
    rate.map(gpuwise_units::FlopPerSecond::get)
        .filter(|rate| *rate > 0.0)
}

/// The precision of an operator: the type of its first matrix; FP32 runs as TF32 on tensor cores.
pub(crate) fn precision(operands: &Operands, used: TensorCores) -> Option<&'static str> {
    let types = operands.shapes.iter().zip(&operands.types);
    let (_, name) = types.into_iter().find(|(shape, _)| shape.len() >= 2)?;
    Some(match name.as_str() {
        "float" if used == TensorCores::Used => "tf32",
        "float" => "fp32",
        "c10::Half" => "fp16",
        "c10::BFloat16" => "bf16",
        "signed char" | "unsigned char" => "int8",
        name if name.contains("Float8") => "fp8",
        _ => return None,
    })
}

/// Operations of one run of an operator: a multiplication and an addition are two. After
/// torch/utils/flop_counter.py of PyTorch 2.7.
pub fn flops(operator: &str, operands: &Operands) -> Option<f64> {
    let shape = |index: usize| operands.shapes.get(index).filter(|shape| !shape.is_empty());
    match operator.strip_prefix("aten::").unwrap_or(operator) {
        "mm" | "bmm" | "matmul" | "mv" | "_scaled_mm" | "_int_mm" => product(shape(0)?, shape(1)?),
        "addmm" | "_addmm_activation" | "addmv" | "baddbmm" => product(shape(1)?, shape(2)?),
        "linear" => {
            let (input, weight) = (shape(0)?, shape(1)?);
            Some(2.0 * size(input) * *weight.first()? as f64)
        }
        "cudnn_convolution" => convolution(operands, 3, 2, 4),
        "miopen_convolution" | "convolution" | "_convolution" | "conv2d" | "conv1d" | "conv3d" => {
            let miopen = operator.ends_with("miopen_convolution");
            let (padding, stride) = if miopen { (3, 4) } else { (4, 3) };
            convolution(operands, stride, padding, 5)
        }
        "convolution_backward" => convolution_backward(operands),
        "_flash_attention_forward" | "_efficient_attention_forward" => {
            attention(shape(0)?, shape(1)?, shape(2)?, Heads::AfterLength)
        }
        "_flash_attention_backward" | "_efficient_attention_backward" => {
            Some(2.5 * attention(shape(1)?, shape(2)?, shape(3)?, Heads::AfterLength)?)
        }
        name if name.starts_with("_scaled_dot_product_") && name.ends_with("_backward") => {
            Some(2.5 * attention(shape(1)?, shape(2)?, shape(3)?, Heads::BeforeLength)?)
        }
        name if name.starts_with("_scaled_dot_product_")
            || name == "scaled_dot_product_attention" =>
        {
            attention(shape(0)?, shape(1)?, shape(2)?, Heads::BeforeLength)
        }
        _ => None,
    }
}

fn size(shape: &[u64]) -> f64 {
    shape.iter().map(|dimension| *dimension as f64).product()
}

/// 2·(batch)·m·k·n of (batch) m × k times (batch) k × n, or × k.
fn product(left: &[u64], right: &[u64]) -> Option<f64> {
    let columns = match right {
        [_] => 1,
        [.., rows, columns] => {
            if left.last()? != rows {
                return None;
            }
            *columns
        }
        [] => return None,
    };
    Some(2.0 * size(left) * columns as f64)
}

/// 2·output·(input channels / groups)·kernel, where the arguments of these places state stride,
/// padding and dilation.
fn convolution(operands: &Operands, stride: usize, padding: usize, dilation: usize) -> Option<f64> {
    let input = operands.shapes.first()?;
    let weight = operands.shapes.get(1)?;
    let spatial = input.get(2..).filter(|spatial| !spatial.is_empty())?;
    let kernel = weight.get(2..)?;
    if kernel.len() != spatial.len() {
        return None;
    }
    let list = |place: usize| numbers(operands.values.get(place)?, spatial.len());
    let (stride, padding, dilation) = (list(stride)?, list(padding)?, list(dilation)?);
    let mut output = *input.first()? as f64 * *weight.first()? as f64;
    for place in 0..spatial.len() {
        let taken = dilation
            .get(place)?
            .checked_mul(kernel.get(place)?.checked_sub(1)?)?;
        let length = spatial
            .get(place)?
            .checked_add(padding.get(place)?.checked_mul(2)?)?
            .checked_sub(taken.checked_add(1)?)?;
        output *= (length.checked_div(*stride.get(place)?)? + 1) as f64;
    }
    Some(2.0 * output * size(weight.get(1..)?))
}

/// As much as the forward pass for each gradient that is asked for: of input and of weight.
fn convolution_backward(operands: &Operands) -> Option<f64> {
    let [gradient, _, weight, ..] = operands.shapes.as_slice() else {
        return None;
    };
    let mask = operands.values.get(10)?;
    let mut asked = mask
        .trim_matches(['[', ']'])
        .split(',')
        .map(|flag| flag.trim() == "True" || flag.trim() == "true");
    let wanted = f64::from(u8::from(asked.next()?) + u8::from(asked.next()?));
    let transposed = operands.values.get(7)?.eq_ignore_ascii_case("true");
    if transposed || gradient.len() < 3 {
        return None;
    }
    Some(2.0 * size(gradient) * size(weight.get(1..)?) * wanted)
}

/// Where the heads stand in the shapes of an attention operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heads {
    /// Batch, heads, length, size.
    BeforeLength,
    /// Batch, length, heads, size.
    AfterLength,
}

/// Two products of every head: queries by keys, and by values.
fn attention(query: &[u64], key: &[u64], value: &[u64], order: Heads) -> Option<f64> {
    let &[batch, second, third, head] = query else {
        return None;
    };
    let (heads, length, keys) = match order {
        Heads::BeforeLength => (second, third, *key.get(2)?),
        Heads::AfterLength => (third, second, *key.get(1)?),
    };
    let pairs = batch as f64 * heads as f64 * length as f64 * keys as f64;
    Some(2.0 * pairs * (head as f64 + *value.last()? as f64))
}

/// The numbers of `[1, 2]`; one number alone counts for every dimension.
fn numbers(text: &str, dimensions: usize) -> Option<Vec<u64>> {
    let list: Option<Vec<u64>> = text
        .trim_matches(['[', ']'])
        .split(',')
        .map(|number| number.trim().parse().ok())
        .collect();
    let list = list?;
    match list.as_slice() {
        [only] => Some(vec![*only; dimensions]),
        _ => (list.len() == dimensions).then_some(list),
    }
}
