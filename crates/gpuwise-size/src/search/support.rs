//! Whether engine and hardware can run a setup at all.

use super::request::Request;
use crate::setup::Setup;
use alloc::{format, string::String, vec::Vec};
use gpuwise_domain::{
    engine::EngineKind,
    facts::{Context, EngineFacts, Verdict},
    model::{FeedForward, Mixer},
    precision::Compute,
};

/// What is in the way, and what would cure it.
pub(crate) struct Obstacle {
    pub(crate) what: String,
    pub(crate) cure: Option<String>,
}

fn obstacle(what: String, cure: &str) -> Obstacle {
    let cure = (!cure.is_empty()).then(|| cure.into());
    Obstacle { what, cure }
}

/// The first thing in the way of a setup.
pub(crate) fn obstacle_of(setup: &Setup<'_>, request: &Request<'_>) -> Option<Obstacle> {
    vendor(setup)
        .or_else(|| {
            let offload = request.choices.offload > 0;
            request
                .facts
                .and_then(|facts| release(setup, facts, offload))
        })
        .or_else(|| silicon(setup))
        .or_else(|| slice(setup))
        .or_else(|| divisible(setup))
        .or_else(|| {
            let obstacle = divisible(&setup.drafter()?)?;
            let what = format!("the draft model: {}", obstacle.what);
            Some(Obstacle { what, ..obstacle })
        })
}

fn vendor(setup: &Setup<'_>) -> Option<Obstacle> {
    let vendor = setup.device.gpu.vendor.as_str();
    let runs = match setup.engine.kind {
        EngineKind::TensorRtLlm | EngineKind::DeepSpeedMii => vendor == "NVIDIA",
        EngineKind::Sglang => matches!(vendor, "NVIDIA" | "AMD" | "Intel"),
        EngineKind::LlamaCpp => !matches!(vendor, "Google" | "AWS"),
        EngineKind::Vllm | EngineKind::Transformers => vendor != "Apple",
    };
    if runs {
        return None;
    }
    let what = format!("{} does not run on {vendor} hardware", setup.engine.kind);
    Some(obstacle(what, "another engine (--engine)"))
}

/// What the engine's release does not support on this hardware.
fn release(setup: &Setup<'_>, facts: &EngineFacts, offload: bool) -> Option<Obstacle> {
    let context = Context::of(&setup.device, &setup.layout);
    let published = setup.architecture.quantization.as_ref() == setup.weights.quantization.as_ref();
    let mut features: Vec<String> = Vec::new();
    if !published {
        features.extend(formats(setup).map(|name| format!("weights:{name}")));
    }
    if setup.cache.name != "bf16" {
        features.push(format!("kv:{}", setup.cache.name));
    }
    let layout = setup.layout;
    let modes = [
        ("mode:tp", layout.tensor > 1),
        ("mode:pp", layout.pipeline > 1),
        ("mode:ep", layout.expert > 1),
        ("mode:dcp", layout.decode_context > 1),
        ("mode:kv_offload", offload),
        ("mode:speculative_draft_model", setup.drafter().is_some()),
    ];
    features.extend(
        modes
            .into_iter()
            .filter(|(_, used)| *used)
            .map(|(name, _)| String::from(name)),
    );
    let release = setup.engine.release;
    features.into_iter().find_map(|feature| {
        let what = match facts.supports(&feature, release, &context) {
            Verdict::Needs(needs) => format!("{} needs {needs} for {feature}", setup.engine.kind),
            Verdict::Since(since) => format!("{} has {feature} since {since}", setup.engine.kind),
            Verdict::Until(until) => format!("{} had {feature} until {until}", setup.engine.kind),
            Verdict::Supported | Verdict::Unknown => return None,
        };
        let cure = match feature.as_str() {
            "mode:kv_offload" => "no --kv-offload, or another release (--engine)",
            "mode:speculative_draft_model" => "no --draft-model, or another release (--engine)",
            _ => "another precision or layout, or another release (--engine)",
        };
        Some(obstacle(what, cure))
    })
}

/// Names of the weight formats, block formats by their plain name.
fn formats<'a>(setup: &'a Setup<'_>) -> impl Iterator<Item = &'a str> {
    let assignments = setup
        .weights
        .quantization
        .iter()
        .flat_map(|q| &q.assignments);
    assignments.map(|a| match a.format.name {
        "fp8-block" => "fp8",
        "int4-g32" | "int4-zp" => "int4",
        name => name,
    })
}

fn silicon(setup: &Setup<'_>) -> Option<Obstacle> {
    let gpu = setup.device.gpu;
    let quantization = setup.weights.quantization.as_ref();
    for assignment in quantization.iter().flat_map(|q| &q.assignments) {
        let wanted = assignment.compute;
        let published = setup.architecture.quantization.as_ref() == quantization;
        if matches!(wanted, Compute::Fp8 | Compute::Fp4)
            && !published
            && gpu.peak.of(wanted).is_none()
        {
            let what = format!("{} has no {} matmuls", gpu.name, wanted.name());
            return Some(obstacle(
                what,
                "weight-only quantization (--precision int4), or 16 bits",
            ));
        }
    }
    if setup.cache.name == "fp8" && gpu.vendor == "NVIDIA" && gpu.peak.of(Compute::Fp8).is_none() {
        let what = format!(
            "an FP8 key-value cache needs FP8 silicon, which {} has not",
            gpu.name
        );
        return Some(obstacle(what, "a 16-bit key-value cache (--kv fp16)"));
    }
    None
}

fn slice(setup: &Setup<'_>) -> Option<Obstacle> {
    let slice = setup.device.slice?;
    if setup.layout.replica_gpus() <= 1 {
        return None;
    }
    let what = format!(
        "MIG slices ({}) have no peer-to-peer, so one replica stays on one",
        slice.profile
    );
    Some(obstacle(what, "a larger slice or the whole GPU"))
}

fn divisible(setup: &Setup<'_>) -> Option<Obstacle> {
    let layout = setup.layout;
    let tensor = u64::from(layout.tensor.max(1));
    if u64::from(layout.pipeline) > setup.architecture.layer_count() {
        return Some(obstacle(
            format!("PP{} has more stages than layers", layout.pipeline),
            "fewer stages",
        ));
    }
    for run in &setup.architecture.layers {
        let heads = match run.layer.mixer {
            Mixer::Attention { heads, .. }
            | Mixer::Latent { heads, .. }
            | Mixer::Compressed { heads, .. } => heads,
            Mixer::Recurrent(state) => state.heads,
            Mixer::None => tensor,
        };
        if !heads.is_multiple_of(tensor) {
            return Some(obstacle(
                format!("{heads} heads do not divide by TP{tensor}"),
                "a TP that divides the heads",
            ));
        }
        if let Mixer::Attention { kv_heads, .. } = run.layer.mixer
            && !(kv_heads.is_multiple_of(tensor) || tensor.is_multiple_of(kv_heads.max(1)))
        {
            let what =
                format!("{kv_heads} key-value heads neither divide by TP{tensor} nor divide it");
            return Some(obstacle(what, "another TP"));
        }
        match run.layer.feed_forward {
            FeedForward::Experts { count, width, .. } => {
                if !count.is_multiple_of(u64::from(layout.expert.max(1))) {
                    return Some(obstacle(
                        format!("{count} experts do not divide by EP{}", layout.expert),
                        "another EP",
                    ));
                }
                let parts = u64::from(layout.expert_tensor());
                if !width.is_multiple_of(parts) {
                    return Some(obstacle(
                        format!("experts {width} wide do not divide by {parts}"),
                        "expert parallelism",
                    ));
                }
                if let Some(block) = block_of(setup)
                    && !(width / parts).is_multiple_of(block)
                {
                    let what = format!(
                        "experts split to {} lie across blocks of {block}",
                        width / parts
                    );
                    return Some(obstacle(what, "expert parallelism"));
                }
            }
            FeedForward::Dense { width, .. } if !width.is_multiple_of(tensor) => {
                return Some(obstacle(
                    format!("a width of {width} does not divide by TP{tensor}"),
                    "another TP",
                ));
            }
            _ => {}
        }
    }
    None
}

/// Features that share one scale in block formats.
fn block_of(setup: &Setup<'_>) -> Option<u64> {
    let quantization = setup.weights.quantization.as_ref()?;
    let block_wise = quantization
        .assignments
        .iter()
        .any(|a| a.format.name == "fp8-block");
    block_wise.then_some(128)
}
