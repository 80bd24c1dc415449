//! Whether engine and hardware can run a setup at all: the one answer that plans, memory, checks,
//! predictions and launch commands give.

use crate::{
    feature::{Feature, Mode},
    setup::Setup,
};
use alloc::{format, string::String, vec::Vec};
use gpuwise_domain::{
    engine::EngineKind,
    facts::{Context, EngineFacts, Verdict},
    model::{FeedForward, Mixer},
    precision::{CacheFormat, Compute, WeightFormat},
};

/// What is in the way of a setup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// What does not work.
    pub what: String,
}

const fn obstacle(what: String) -> Obstacle {
    Obstacle { what }
}

/// The first thing in the way of a setup; `None`: it starts, as far as is known.
///
/// `facts` are those of its engine (`None`: only what hardware forbids is tested); `offload`: whether
/// host memory keeps prefixes.
pub fn obstacle_of(
    setup: &Setup<'_>,
    facts: Option<&EngineFacts>,
    offload: bool,
) -> Option<Obstacle> {
    vendor(setup)
        .or_else(|| facts.and_then(|facts| device(setup, facts)))
        .or_else(|| context(setup))
        .or_else(|| halves(setup, facts))
        .or_else(|| facts.and_then(|facts| release(setup, facts, offload)))
        .or_else(|| silicon(setup, facts))
        .or_else(|| slice(setup))
        .or_else(|| divisible(setup))
        .or_else(|| {
            let drafter = setup.drafter()?;
            let obstacle = halves(&drafter, facts).or_else(|| divisible(&drafter))?;
            let what = format!("the draft model: {}", obstacle.what);
            Some(Obstacle { what })
        })
}

/// The setup with what is stored in BF16 cast to FP16 where the engine has no BF16 on this hardware,
/// as engines do on request, and what is stored in FP32 cast to 16 bits where the engine does so unasked: vLLM
/// (`_resolve_auto_dtype`) and SGLang (`_get_and_verify_dtype`).
#[must_use]
pub fn castable<'a>(mut setup: Setup<'a>, facts: Option<&EngineFacts>) -> Setup<'a> {
    let halves = matches!(setup.engine.kind, EngineKind::Vllm | EngineKind::Sglang);
    let stored = setup.weights.native;
    if stored == WeightFormat::BF16 || halves && stored == WeightFormat::F32 {
        setup.weights.native = if has_bf16(&setup, facts) {
            WeightFormat::BF16
        } else {
            WeightFormat::F16
        };
    }
    setup
}

/// The name of the cache's format: 16 bits are FP16 where the engine has no BF16 on this hardware.
pub fn cache_name(setup: &Setup<'_>, facts: Option<&EngineFacts>) -> &'static str {
    if setup.cache == CacheFormat::HALF && !has_bf16(setup, facts) {
        "fp16"
    } else {
        setup.cache.name
    }
}

/// Whether the engine multiplies in BF16 on this hardware.
fn has_bf16(setup: &Setup<'_>, facts: Option<&EngineFacts>) -> bool {
    if let Some(facts) = facts {
        let context = Context::of(&setup.device, &setup.layout);
        return facts.has_bf16(setup.engine.release, &context);
    }
    let gpu = setup.device.gpu;
    gpu.vendor != "NVIDIA" || gpu.compute_capability.is_none_or(|own| own >= (8, 0))
}

/// Whether the engine runs on this hardware at all.
fn device(setup: &Setup<'_>, facts: &EngineFacts) -> Option<Obstacle> {
    let context = Context::of(&setup.device, &setup.layout);
    let release = facts.resolve(setup.engine.release);
    let any = Feature::Any.key();
    let Verdict::Needs(needs) = facts.supports(&any, Some(release), &context) else {
        return None;
    };
    let what = format!(
        "{} {} needs {needs}{}",
        facts.title,
        facts.spelled(release),
        capability(setup)
    );
    Some(obstacle(what))
}

/// `; T4 has 7.5`.
fn capability(setup: &Setup<'_>) -> String {
    let gpu = setup.device.gpu;
    gpu.compute_capability
        .map_or_else(String::new, |(major, minor)| {
            format!("; {} has {major}.{minor}", gpu.name)
        })
}

/// The longest context that is to be served is one that the model takes.
fn context(setup: &Setup<'_>) -> Option<Obstacle> {
    let most = setup.architecture.max_context?.0;
    let asked = setup.settings.max_context;
    (asked > most).then(|| {
        obstacle(format!(
            "a context of {asked} tokens is longer than the {most} that the model takes"
        ))
    })
}

/// What is not quantized is multiplied in 16 bits that hardware and engine have, and that the model sustains.
fn halves(setup: &Setup<'_>, facts: Option<&EngineFacts>) -> Option<Obstacle> {
    let has = has_bf16(setup, facts);
    if setup.weights.native == WeightFormat::BF16 && !has {
        let what = format!(
            "{} has no BF16 on this GPU{}",
            setup.engine.kind,
            capability(setup)
        );
        return Some(obstacle(what));
    }
    if setup.weights.native != WeightFormat::F16 {
        return None;
    }
    let context = Context::of(&setup.device, &setup.layout);
    let feature = format!("fp16:{}", setup.architecture.model_type);
    let refused = facts?
        .supports(&feature, setup.engine.release, &context)
        .refused();
    refused.then(|| {
        let kind = &setup.engine.kind;
        let model = &setup.architecture.model_type;
        let what = if has {
            format!("{kind} refuses {model} models in FP16, where they overflow")
        } else {
            format!(
                "{kind} refuses {model} models in FP16, where they overflow, and has no BF16 on this GPU{}",
                capability(setup)
            )
        };
        obstacle(what)
    })
}

fn vendor(setup: &Setup<'_>) -> Option<Obstacle> {
    let vendor = setup.device.gpu.vendor.as_str();
    if setup.engine_model().runs_on(vendor) {
        return None;
    }
    let what = format!("{} does not run on {vendor} hardware", setup.engine.kind);
    Some(obstacle(what))
}

/// What the engine's release does not support on this hardware.
fn release(setup: &Setup<'_>, facts: &EngineFacts, offload: bool) -> Option<Obstacle> {
    let context = Context::of(&setup.device, &setup.layout);
    let mut features = formats(setup);
    if setup.cache != CacheFormat::HALF {
        features.push(Feature::Cache(setup.cache.name));
    }
    let layout = setup.layout;
    let modes = [
        (Mode::Tensor, layout.tensor > 1),
        (Mode::Pipeline, layout.pipeline > 1),
        (Mode::Expert, layout.expert > 1),
        (Mode::DecodeContext, layout.decode_context > 1),
        (Mode::CacheOffload, offload),
        (Mode::DraftModel, setup.drafter().is_some()),
    ];
    let used = modes.into_iter().filter(|(_, used)| *used);
    features.extend(used.map(|(mode, _)| Feature::Mode(mode)));
    let release = setup.engine.release;
    features.into_iter().find_map(|feature| {
        let what = match facts.supports(&feature.key(), release, &context) {
            Verdict::Needs(needs) => format!(
                "{} needs {needs} for {feature}{}",
                setup.engine.kind,
                capability(setup)
            ),
            Verdict::Since(since) => format!("{} has {feature} since {since}", setup.engine.kind),
            Verdict::Until(until) => format!("{} had {feature} until {until}", setup.engine.kind),
            Verdict::Supported | Verdict::Unknown => return None,
        };
        Some(obstacle(what))
    })
}

/// The features of the weight formats, each once.
fn formats(setup: &Setup<'_>) -> Vec<Feature> {
    let Some(quantization) = &setup.weights.quantization else {
        return Vec::new();
    };
    let mut out: Vec<Feature> = Vec::new();
    for assignment in &quantization.assignments {
        let feature = Feature::of_weights(quantization, assignment.format);
        if !assignment.roles.is_empty() && !out.contains(&feature) {
            out.push(feature);
        }
    }
    out
}

fn silicon(setup: &Setup<'_>, facts: Option<&EngineFacts>) -> Option<Obstacle> {
    let gpu = setup.device.gpu;
    let quantization = setup.weights.quantization.as_ref();
    let published = setup.architecture.quantization.as_ref() == quantization;
    let context = Context::of(&setup.device, &setup.layout);
    for assignment in quantization.iter().flat_map(|q| &q.assignments) {
        let wanted = assignment.compute;
        if !matches!(wanted, Compute::Fp8 | Compute::Fp4) || gpu.peak.of(wanted).is_some() {
            continue;
        }
        // Without the units, kernels of NVIDIA's GPUs unpack to 16 bits where the engine has them.
        let unpacked = gpu.vendor == "NVIDIA"
            && quantization
                .zip(facts)
                .is_some_and(|(quantization, facts)| {
                    let feature = Feature::of_weights(quantization, assignment.format);
                    facts.supports(&feature.key(), setup.engine.release, &context)
                        == Verdict::Supported
                });
        if !unpacked && (!published || gpu.vendor == "AMD" && wanted == Compute::Fp8) {
            let what = format!("{} has no {} matmuls", gpu.name, wanted.name());
            return Some(obstacle(what));
        }
    }
    // Kernels convert an FP8 cache to 16 bits where there is no FP8 unit, from compute capability 8.0 on.
    let ampere = gpu.compute_capability.is_some_and(|own| own >= (8, 0));
    let fp8 = setup.cache.name == CacheFormat::FP8.name;
    if fp8 && gpu.vendor == "NVIDIA" && gpu.peak.of(Compute::Fp8).is_none() && !ampere {
        let what = format!(
            "an FP8 key-value cache needs compute capability 8.0{}",
            capability(setup)
        );
        return Some(obstacle(what));
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
    Some(obstacle(what))
}

fn divisible(setup: &Setup<'_>) -> Option<Obstacle> {
    let layout = setup.layout;
    let tensor = u64::from(layout.tensor.max(1));
    if u64::from(layout.pipeline) > setup.architecture.layer_count() {
        return Some(obstacle(format!(
            "PP{} has more stages than layers",
            layout.pipeline
        )));
    }
    for run in &setup.architecture.layers {
        let heads = run.layer.mixer.heads().unwrap_or(tensor);
        if !heads.is_multiple_of(tensor) {
            return Some(obstacle(format!(
                "{heads} heads do not divide by TP{tensor}"
            )));
        }
        if let Mixer::Attention { kv_heads, .. } = run.layer.mixer
            && !(kv_heads.is_multiple_of(tensor) || tensor.is_multiple_of(kv_heads.max(1)))
        {
            let what =
                format!("{kv_heads} key-value heads neither divide by TP{tensor} nor divide it");
            return Some(obstacle(what));
        }
        match run.layer.feed_forward {
            FeedForward::Experts { count, width, .. } => {
                if !count.is_multiple_of(u64::from(layout.expert.max(1))) {
                    return Some(obstacle(format!(
                        "{count} experts do not divide by EP{}",
                        layout.expert
                    )));
                }
                let parts = u64::from(layout.expert_tensor());
                if !width.is_multiple_of(parts) {
                    return Some(obstacle(format!(
                        "experts {width} wide do not divide by {parts}"
                    )));
                }
                if let Some(block) = block_of(setup)
                    && !(width / parts).is_multiple_of(block)
                {
                    let what = format!(
                        "experts split to {} lie across blocks of {block}",
                        width / parts
                    );
                    return Some(obstacle(what));
                }
            }
            FeedForward::Dense { width, .. } if !width.is_multiple_of(tensor) => {
                return Some(obstacle(format!(
                    "a width of {width} does not divide by TP{tensor}"
                )));
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
