//! Weight formats by the names that people and tables give them.

use crate::setup::{Weights, exported};
use gpuwise_domain::{
    model::Architecture,
    precision::{Quantization, WeightFormat},
};

/// The weights of a published export in this precision; `None` where the name is not one.
pub fn weights_named(architecture: &Architecture, written: &str) -> Option<Weights> {
    match format_named(written)? {
        "bf16" => Some(plain(WeightFormat::BF16)),
        "fp16" => Some(plain(WeightFormat::F16)),
        "fp32" => Some(plain(WeightFormat::F32)),
        name => Some(exported(architecture, quantization_named(name)?)),
    }
}

fn plain(native: WeightFormat) -> Weights {
    Weights {
        native,
        quantization: None,
    }
}

pub fn quantization_named(name: &str) -> Option<Quantization> {
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

/// The weight format that a text names, as tables and people write it.
pub fn format_named(written: &str) -> Option<&'static str> {
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
    } else if has("w4afp8") {
        "int4"
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
