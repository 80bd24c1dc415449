//! The precision that a row or a user names: weights and cache.

use crate::setup::{Weights, exported};
use alloc::{format, string::String, vec::Vec};
use gpuwise_domain::{
    model::Architecture,
    precision::{CacheFormat, Quantization, WeightFormat},
    question::Question,
};

pub(crate) fn weights(
    question: &Question,
    architecture: &Architecture,
    notes: &mut Vec<String>,
) -> Weights {
    let published = Weights::published(architecture);
    let gemm = question.extra("gemm").unwrap_or("");
    let experts = question.extra("moe").unwrap_or("");
    let written = if architecture.has_experts() && !experts.is_empty() {
        experts
    } else {
        gemm
    };
    let precision = if written.is_empty() {
        question.precision.as_str()
    } else {
        written
    };
    let wanted = precision_name(precision);
    let same = |name: &str| {
        published.quantization.as_ref().is_some_and(|own| {
            own.assignments
                .iter()
                .any(|a| class(a.format.name) == class(name))
        })
    };
    match wanted {
        None => published,
        Some("bf16" | "fp16" | "fp32") if published.quantization.is_none() => published,
        Some(name) if same(name) => published,
        // A model released with four-bit experts is served with them, whatever the label of the kernel.
        Some("nvfp4") if same("mxfp4") => published,
        Some("int4") if same("int4-g32") => published,
        Some("bf16" | "fp16" | "fp32") => {
            notes.push("weights dequantized to 16 bits, as the row says".into());
            Weights {
                native: published.native,
                quantization: None,
            }
        }
        Some(name) => {
            if let Some(quantization) = named(name) {
                exported(architecture, quantization)
            } else {
                notes.push(format!(
                    "precision {precision:?} was not understood: weights as published"
                ));
                published
            }
        }
    }
}

/// The weights of a published export in this precision; `None` where the name is not one.
pub fn weights_named(architecture: &Architecture, written: &str) -> Option<Weights> {
    match precision_name(written)? {
        "bf16" => Some(plain(WeightFormat::BF16)),
        "fp16" => Some(plain(WeightFormat::F16)),
        "fp32" => Some(plain(WeightFormat::F32)),
        name => Some(exported(architecture, named(name)?)),
    }
}

/// Nothing quantized.
fn plain(native: WeightFormat) -> Weights {
    Weights {
        native,
        quantization: None,
    }
}

fn named(name: &str) -> Option<Quantization> {
    use gpuwise_domain::precision::{Compute, WeightFormat as F};
    let (format, compute) = match name {
        "fp8" => (F::FP8, Compute::Fp8),
        "fp8-block" => (F::FP8_BLOCK, Compute::Fp8),
        "int8" => (F::INT8, Compute::Int8),
        "int8-w8a16" => (F::INT8_WEIGHT, Compute::Half),
        "nvfp4" => (F::NVFP4, Compute::Fp4),
        "mxfp4" => (F::MXFP4, Compute::Fp4),
        "int4" => (F::INT4, Compute::Half),
        "int4-zp" => (F::INT4_ZERO, Compute::Half),
        "nf4" => (F::NF4, Compute::Half),
        other => (F::by_name(other)?, Compute::Half),
    };
    Some(Quantization::uniform(name, format, compute))
}

/// Formats that tables do not tell apart.
fn class(name: &str) -> &str {
    match name {
        "fp8" | "fp8-block" | "mxfp8" => "fp8",
        "int4" | "int4-g32" | "int4-zp" => "int4",
        other => other,
    }
}

/// The scheme that a precision cell names.
fn precision_name(written: &str) -> Option<&'static str> {
    let lower = written.to_ascii_lowercase();
    let weights = lower
        .split([',', ';'])
        .find(|part| !part.contains("kv"))
        .unwrap_or(&lower)
        .trim();
    let has = |part: &str| weights.contains(part);
    Some(if weights.is_empty() || has("unset") {
        return None;
    } else if has("nvfp4") || weights == "fp4" || has("float4") {
        "nvfp4"
    } else if has("mxfp4") {
        "mxfp4"
    } else if has("q4_k") {
        "q4_k"
    } else if has("q4_0") {
        "q4_0"
    } else if has("q8_0") {
        "q8_0"
    } else if has("q5_k") {
        "q5_k"
    } else if has("q6_k") {
        "q6_k"
    } else if has("fp8_block") {
        "fp8-block"
    } else if has("fp8") || has("float8") || has("w8a8-fp8") {
        "fp8"
    } else if has("w8a16") {
        "int8-w8a16"
    } else if has("int8") || has("w8a8") {
        "int8"
    } else if has("int4") || has("w4a16") || has("awq") || has("gptq") || has("uint4") {
        "int4"
    } else if has("nf4") || has("bnb") {
        "nf4"
    } else if has("bf16") || has("bfloat16") {
        "bf16"
    } else if has("fp16") || has("f16") || has("float16") {
        "fp16"
    } else if has("fp32") || has("f32") {
        "fp32"
    } else {
        return None;
    })
}

pub(crate) fn cache(question: &Question) -> CacheFormat {
    let lower = question.precision.to_ascii_lowercase();
    let part = lower
        .split(',')
        .find(|part| part.contains("kv"))
        .unwrap_or("");
    if part.contains("fp8") {
        CacheFormat::FP8
    } else if part.contains("int8") {
        CacheFormat::INT8
    } else {
        CacheFormat::HALF
    }
}
