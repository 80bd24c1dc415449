//! Engines, formats and adapters as flags write them.

use crate::error::Problem;
use gpuwise_domain::{
    deployment::Adapters,
    engine::{Channel, Engine, EngineKind},
    facts::release_of,
    model::Architecture,
    precision::CacheFormat,
};
use gpuwise_size::{formats::weights_named, setup::Weights};

/// Formats that are named where an unknown one was asked for.
const WEIGHTS: &str = "bf16, fp8, fp8-block, int8, int8-w8a16, int4, int4-zp (AWQ, GPTQ), nvfp4, mxfp4, nf4, or one of GGUF such as q4_k";

/// Reads `vllm`, `vllm@0.20`, `llama.cpp@b4567`.
///
/// # Errors
/// When there is no such engine, or what stands behind `@` is no release.
pub fn engine(text: &str) -> anyhow::Result<Engine> {
    let (name, release) = match text.split_once('@') {
        Some((name, release)) => (name, Some(release)),
        None => (text, None),
    };
    let kind = EngineKind::by_name(name.trim()).ok_or_else(|| {
        let names: Vec<&str> = EngineKind::ALL.iter().map(|kind| kind.name()).collect();
        Problem::new(format!("--engine {text}: no engine {name:?} is known"))
            .hint(format!("engines are {}", names.join(", ")))
    })?;
    let release = match release {
        None => None,
        Some(release) => Some(release_of(kind, release).ok_or_else(|| {
            Problem::new(format!(
                "--engine {text}: {release:?} is no release of {}",
                kind.title()
            ))
            .hint("write it as the engine does, such as vllm@0.20 or llamacpp@b4567")
        })?),
    };
    Ok(Engine {
        kind,
        release,
        month: None,
        channel: Channel::of(text),
        written: text.into(),
    })
}

/// The weights of a model in a format.
///
/// # Errors
/// When there is no such format.
pub fn weights(architecture: &Architecture, format: &str) -> anyhow::Result<Weights> {
    if format.eq_ignore_ascii_case("published") {
        return Ok(Weights::published(architecture));
    }
    let known = weights_named(architecture, &format.to_ascii_lowercase());
    known.ok_or_else(|| {
        Problem::new(format!(
            "--precision {format}: no such weight format is known"
        ))
        .hint(format!("formats are {WEIGHTS}"))
        .into()
    })
}

/// A format of the key-value cache.
///
/// # Errors
/// When there is no such format.
pub fn cache(format: &str) -> anyhow::Result<CacheFormat> {
    CacheFormat::by_name(&format.to_ascii_lowercase()).ok_or_else(|| {
        let names: Vec<&str> = CacheFormat::ALL.iter().map(|format| format.name).collect();
        Problem::new(format!(
            "--kv {format}: no such format of the key-value cache is known"
        ))
        .hint(format!("formats are fp16, {}", names.join(", ")))
        .into()
    })
}

/// Reads `4@16`: four adapters of rank 16 at most.
///
/// # Errors
/// When it is not of this form, or has no adapters or no rank.
pub fn adapters(text: &str) -> anyhow::Result<Adapters> {
    let read =
        |(count, rank): (&str, &str)| Some((count.trim().parse().ok()?, rank.trim().parse().ok()?));
    match text.split_once('@').and_then(read) {
        Some((count @ 1..=10_000, rank @ 1..=4096)) => Ok(Adapters { count, rank }),
        _ => Err(Problem::new(format!(
            "--lora {text}: expected how many adapters and their largest rank, such as 4@16"
        ))
        .into()),
    }
}
