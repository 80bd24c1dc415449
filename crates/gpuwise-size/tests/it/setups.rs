//! Setups as tests name them.

use crate::fixture::{catalogue, model};
use gpuwise_domain::{
    engine::{Channel, Engine, EngineKind, Month, VersionBucket},
    gpu::Device,
    layout::Layout,
    model::Architecture,
    precision::CacheFormat,
};
use gpuwise_size::{
    engines,
    knowledge::Corrections,
    memory::{MemoryPlan, plan},
    setup::{Setup, Weights},
};

/// `vllm 0.15.1`, `sglang@0.5.14`, `llama.cpp (2023-10)`.
pub(crate) fn engine(written: &str) -> Engine {
    let mut words = written.split([' ', '@', '(', ')']);
    let name = words.next().unwrap_or_default();
    let kind = EngineKind::ALL
        .into_iter()
        .find(|kind| kind.name() == name || kind.title() == name)
        .expect("an engine");
    let month = |word: &str| {
        let (year, month) = word.split_once('-')?;
        Some(Month {
            year: year.parse().ok()?,
            month: month.parse().ok()?,
        })
    };
    let rest: Vec<&str> = words.collect();
    Engine {
        kind,
        release: rest.iter().find_map(|word| word.parse().ok()),
        month: rest.iter().find_map(|word| month(word)),
        channel: Channel::Stable,
        written: written.into(),
    }
}

/// A setup on H100s, as published.
pub(crate) fn with_setup<R>(
    architecture: &Architecture,
    written: &str,
    layout: Layout,
    run: impl FnOnce(Setup<'_>) -> R,
) -> R {
    let catalogue = catalogue();
    let device = Device::whole(catalogue.gpu("H100 SXM5 80GB").expect("an H100"));
    let engine = engine(written);
    run(Setup {
        architecture,
        device,
        settings: engines::model(engine.kind).settings(&engine, &device, layout, None),
        engine,
        bucket: VersionBucket::new("vllm"),
        layout,
        weights: Weights::published(architecture),
        cache: CacheFormat::HALF,
        draft: None,
        adapters: None,
        corrections: Corrections::default(),
    })
}

pub(crate) fn plan_of(name: &str, written: &str, layout: Layout) -> MemoryPlan {
    with_setup(&model(name), written, layout, |setup| plan(&setup))
}
