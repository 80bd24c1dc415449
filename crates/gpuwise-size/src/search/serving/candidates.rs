//! What there is to choose from: devices, layouts, formats.

use super::{
    drafts,
    quality::{quality_of, quality_of_own},
    request::{LayoutWish, Request},
};
use crate::search::Failure;
use crate::{
    engines,
    formats::weights_named,
    knowledge::Corrections,
    setup::{Setup, Weights},
    support::castable,
};
use alloc::{string::String, vec, vec::Vec};
use gpuwise_domain::{
    catalogue::Catalogue,
    deployment::{Quality, Test},
    facts,
    gpu::{Device, Gpu, MigProfile},
    layout::Layout,
    precision::CacheFormat,
    reason::Reason,
    workload::Limits,
};

/// GPUs that a host joins without a switched link.
const HOST_GPUS: u32 = 8;
/// Replicas larger than this are not tried: nobody rents them by an instance.
const LARGEST_REPLICA: u32 = 16;

/// The name of the format that a checkpoint is published in, whichever it is.
pub(crate) const PUBLISHED: &str = "published";

/// Weights as they may be stored.
#[derive(Debug, Clone)]
pub(crate) struct WeightChoice {
    pub(crate) name: String,
    pub(crate) weights: Weights,
    pub(crate) published: bool,
    /// Whether what is stored in BF16 may be cast where the engine has none: not where it was asked for.
    pub(crate) castable: bool,
    pub(crate) quality: Quality,
}

/// GPUs and slices that the limits allow. GPUs that are announced only are left out unless named.
pub(crate) fn devices<'a>(request: &Request<'a>) -> Vec<Device<'a>> {
    let limits = &request.workload.limits;
    devices_within(request.catalogue, limits, request.choices.slices)
}

/// GPUs, and slices where they are tried or named, that limits allow.
pub(crate) fn devices_within<'a>(
    catalogue: &'a Catalogue,
    limits: &Limits,
    slices: bool,
) -> Vec<Device<'a>> {
    let mut out = Vec::new();
    for gpu in &catalogue.gpus {
        let named = limits.gpus.contains(&gpu.name)
            || limits.owned.iter().any(|(name, _)| *name == gpu.name);
        let any = limits.gpus.is_empty() && limits.owned.is_empty();
        let allowed = named || any && !gpu.announced;
        if allowed {
            out.push(Device::whole(gpu));
        }
        // Profiles with media engines (`+me`, `.gfx`) have the same memory and compute, and one that
        // takes the whole board is the GPU itself.
        let tried = |slice: &MigProfile| {
            let part = slice.compute_slices < slice.board_compute_slices;
            allowed && slices && part && !slice.profile.contains('+')
        };
        let devices = catalogue.mig_profiles(gpu).map(|slice| {
            (
                slice,
                Device {
                    gpu,
                    slice: Some(slice),
                },
            )
        });
        let devices =
            devices.filter(|(slice, device)| tried(slice) || limits.gpus.contains(&device.name()));
        out.extend(devices.map(|(_, device)| device));
    }
    out
}

/// The formats that are tried: as published, and lower ones to choose.
pub(crate) fn weight_choices(request: &Request<'_>) -> Vec<WeightChoice> {
    let architecture = request.architecture;
    let published = Weights::published(architecture);
    let own = published.name();
    let mut out = Vec::new();
    let asked = &request.choices.weights;
    let unasked = asked.is_empty() || asked.iter().any(|name| name == PUBLISHED);
    if unasked || asked.contains(&own) {
        out.push(WeightChoice {
            name: own.clone(),
            weights: published.clone(),
            published: true,
            castable: unasked || published.quantization.is_some(),
            quality: quality_of_own(request),
        });
    }
    let lower: Vec<String> = if !asked.is_empty() {
        asked.clone()
    } else if published.quantization.is_none() {
        vec!["fp8".into(), "int4".into(), "nvfp4".into()]
    } else {
        Vec::new()
    };
    for name in lower {
        if name == own {
            continue;
        }
        let Some(weights) = weights_named(architecture, &name) else {
            continue;
        };
        if weights == published {
            continue;
        }
        let plain = weights.quantization.is_none();
        out.push(WeightChoice {
            // Another 16-bit format holds the same values but for their last bits.
            quality: if plain && published.quantization.is_none() {
                Quality::Published
            } else {
                quality_of(request, &name)
            },
            name,
            weights,
            published: false,
            castable: !plain,
        });
    }
    out
}

pub(crate) fn cache_choices(
    request: &Request<'_>,
    weights: &Weights,
    gpu: &Gpu,
) -> Vec<CacheFormat> {
    let named: Vec<CacheFormat> = request
        .choices
        .cache
        .iter()
        .filter_map(|name| CacheFormat::by_name(name))
        .collect();
    if named.is_empty() {
        vec![weights.cache(&request.choices.engine, request.architecture, gpu)]
    } else {
        named
    }
}

pub(crate) fn layouts(request: &Request<'_>, device: &Device<'_>) -> Vec<Layout> {
    if let Some(layout) = request
        .choices
        .fixed
        .as_ref()
        .and_then(|fixed| fixed.layout)
    {
        return vec![Layout {
            replicas: 1,
            ..layout
        }];
    }
    let wish = request.choices.layout;
    if device.slice.is_some() {
        return if wish.allows(&Layout::SINGLE) {
            vec![Layout::SINGLE]
        } else {
            Vec::new()
        };
    }
    let (joined, host) = reach(request, device);
    let own = device.gpu.scale_up.as_ref();
    let composed = own.is_some_and(|link| link.fabric.is_some());
    let mut out = vec![Layout::SINGLE];
    let mut ranks = 2;
    while ranks <= host {
        out.extend(spread(request, ranks, joined));
        // Stages pass little: they join what no fast link does.
        let mut stages = 2;
        while stages <= ranks && stages <= 4 {
            let tensor = ranks / stages;
            let slow_link = own.is_none() || composed || tensor <= joined && ranks > joined;
            if tensor >= 1 && (slow_link || request.choices.hosts) {
                out.push(Layout {
                    pipeline: stages,
                    ..Layout::tensor(tensor)
                });
            }
            stages *= 2;
        }
        ranks *= 2;
    }
    let most = request.choices.replica_gpus.unwrap_or(u32::MAX);
    out.retain(|layout| layout.replica_gpus() <= most);
    if wish != LayoutWish::default() {
        out.retain(|layout| wish.allows(layout));
        out.extend(wished(request, &wish, host));
    }
    out.sort_by_key(|layout| (layout.replica_gpus(), *layout));
    out.dedup();
    out
}

/// Ways to spread a stage over so many ranks of one link.
fn spread(request: &Request<'_>, ranks: u32, joined: u32) -> Vec<Layout> {
    let mut out = Vec::new();
    if ranks > joined {
        return out;
    }
    out.push(Layout::tensor(ranks));
    if request.architecture.has_experts() {
        out.push(Layout {
            expert: ranks,
            ..Layout::tensor(ranks)
        });
        out.push(Layout {
            attention_data: ranks,
            expert: ranks,
            ..Layout::SINGLE
        });
    }
    out
}

/// Layouts as stated, with every power of two for what is not; the smallest of those that no host
/// holds where no other is left.
fn wished(request: &Request<'_>, wish: &LayoutWish, host: u32) -> Vec<Layout> {
    let powers = |stated: Option<u32>, most: u32| -> Vec<u32> {
        let free = (0..6)
            .map(|power| 1 << power)
            .take_while(move |n| *n <= most);
        stated.map_or_else(|| free.collect(), |ranks| vec![ranks])
    };
    let experts = request.architecture.has_experts();
    let groups = if wish.expert.is_some() && experts {
        host
    } else {
        1
    };
    let mut out = Vec::new();
    for tensor in powers(wish.tensor, host) {
        for attention_data in powers(wish.attention_data, groups) {
            for pipeline in powers(wish.pipeline, 1) {
                for expert in powers(wish.expert, 1) {
                    let layout = Layout {
                        pipeline,
                        attention_data,
                        expert,
                        ..Layout::tensor(tensor)
                    };
                    if layout.stage_gpus().is_multiple_of(expert) {
                        out.push(layout);
                    }
                }
            }
        }
    }
    let smallest = out.iter().map(Layout::replica_gpus).min().unwrap_or(0);
    out.retain(|layout| layout.replica_gpus() <= host.max(smallest));
    out
}

/// Whether a layout that was asked for stays on what one host joins.
pub(crate) fn joined(
    request: &Request<'_>,
    device: &Device<'_>,
    layout: &Layout,
) -> Result<(), Failure> {
    let (_, host) = reach(request, device);
    let wanted = layout.replica_gpus();
    if request.choices.layout == LayoutWish::default() || request.choices.hosts || wanted <= host {
        return Ok(());
    }
    let what = Reason::SpansHosts {
        replica: wanted,
        host,
    };
    let ratio = f64::from(wanted) / f64::from(host);
    Err(Failure::new(Test::Support, what, ratio))
}

/// GPUs that one fast link joins for tensor parallelism, and GPUs of a host.
fn reach(request: &Request<'_>, device: &Device<'_>) -> (u32, u32) {
    let domain = device
        .gpu
        .scale_up
        .as_ref()
        .map_or(HOST_GPUS, |link| link.domain.max(1));
    // A fabric joins as many as a host of it can have, and nothing beyond.
    let own = device.gpu.scale_up.as_ref();
    let composed = own.is_some_and(|link| link.fabric.is_some());
    let most = if composed { LARGEST_REPLICA } else { HOST_GPUS };
    let joined = if request.choices.hosts {
        LARGEST_REPLICA
    } else {
        domain.clamp(1, most)
    };
    let host = if composed {
        joined
    } else {
        joined.clamp(HOST_GPUS, LARGEST_REPLICA)
    };
    (joined, host)
}

/// One replica under one choice of each.
pub(crate) fn setup<'a>(
    request: &Request<'a>,
    device: Device<'a>,
    layout: Layout,
    choice: &WeightChoice,
    cache: CacheFormat,
    max_context: u64,
) -> Setup<'a> {
    let engine = request.choices.engine.clone();
    let fixed = request.choices.fixed.as_ref();
    let stated = fixed.and_then(|fixed| fixed.batched_tokens);
    let mut settings = match request.facts {
        Some(facts) => {
            let context = facts::Context {
                max_context: Some(max_context),
                batched_tokens: stated,
                ..facts::Context::of(&device, &layout)
            };
            facts::default_settings(facts, engine.release, &context)
        }
        None => engines::model(engine.kind).settings(&engine, &device, layout, stated),
    };
    settings.max_context = max_context;
    // The cache is split evenly among slots.
    settings.sequences = engines::model(engine.kind)
        .slots()
        .unwrap_or(settings.sequences);
    if let Some(fixed) = fixed {
        settings.memory_fraction = fixed.memory_fraction.unwrap_or(settings.memory_fraction);
        settings.batched_tokens = fixed.batched_tokens.unwrap_or(settings.batched_tokens);
        settings.sequences = fixed.sequences.unwrap_or(settings.sequences);
        settings.block = fixed.block.unwrap_or(settings.block);
        settings.eager = fixed.eager.unwrap_or(settings.eager);
    }
    let setup = Setup {
        architecture: request.architecture,
        bucket: engines::model(engine.kind).bucket(&engine, device.gpu),
        engine,
        device,
        layout,
        weights: choice.weights.clone(),
        cache,
        settings,
        draft: Some(drafts::draft(request)),
        adapters: request.choices.adapters,
        corrections: Corrections::default(),
    };
    if choice.castable {
        castable(setup, request.facts)
    } else {
        setup
    }
}

/// Share of drafted tokens that prediction layers and draft models usually get right.
pub(crate) const USUAL_ACCEPTANCE: f64 = 0.7;
