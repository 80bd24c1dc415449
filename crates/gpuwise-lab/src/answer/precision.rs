//! The precision that a row or a user names: weights and cache.

use gpuwise_domain::{model::Architecture, precision::CacheFormat, question::Question};
use gpuwise_size::{
    formats::{format_named, quantization_named},
    setup::{Weights, exported},
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
    let wanted = format_named(precision);
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
            if let Some(quantization) = quantization_named(name) {
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

/// Formats that tables do not tell apart.
fn class(name: &str) -> &str {
    match name {
        "fp8" | "fp8-block" | "mxfp8" => "fp8",
        "int4" | "int4-g32" | "int4-zp" => "int4",
        other => other,
    }
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
