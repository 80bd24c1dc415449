//! What a deployment's batch takes in every layout of so many GPUs, joined by their own link and by
//! a fabric.

use crate::{
    constants::Constants,
    memory,
    setup::Setup,
    speed::{Batch, StepModel, StepShape, StepTime},
};
use alloc::{format, sync::Arc, vec, vec::Vec};
use gpuwise_domain::{
    estimate::{Basis, Derivation, Estimate},
    fabric::FabricLink,
    gpu::{Device, Gpu},
    layout::Layout,
};
use gpuwise_units::significant;

/// Requests that decode at once, over all of the GPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    pub requests: f64,
    /// Their mean context in tokens.
    pub context: f64,
    /// Tokens that the longest of them holds in the cache.
    pub longest: f64,
    /// Tokens of a prompt, those of the prefix cache left out.
    pub prompt: f64,
    /// Tokens of an answer.
    pub answer: f64,
}

/// What a request takes in one layout over one kind of link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Taken {
    /// A decode step of all requests of a replica.
    pub step: StepTime,
    pub prompt: StepTime,
    /// Seconds of a replica for one request: its prompt, and its share of the steps of its answer.
    pub request: f64,
}

impl Taken {
    /// Seconds of it that collectives take.
    fn collectives(&self, load: &Load, batch: f64) -> f64 {
        self.prompt.communication + load.answer * self.step.communication / batch
    }
}

/// One layout over the GPUs' own link and over a fabric.
#[derive(Debug, Clone, PartialEq)]
pub struct LayoutStep {
    /// The layout, with its replicas.
    pub layout: Layout,
    /// Whether weights and the requests' cache fit.
    pub fits: bool,
    /// Over the GPUs' own link.
    pub own: Taken,
    pub fabric: Taken,
    /// Requests a second that all GPUs serve over their own link with so many at once.
    pub own_requests: f64,
    /// The same over the fabric, with the range of its collectives.
    pub requests: Estimate,
    /// On what it rests: no collective was measured on a fabric with switches of its own.
    pub basis: Basis,
}

impl LayoutStep {
    /// How many times as long a request takes over the fabric.
    pub fn factor(&self) -> f64 {
        self.fabric.request / self.own.request
    }
}

/// Every layout of the setup's GPUs (powers of two of replicas and stages, the rest tensor parallel)
/// under the load, the one that serves most over the fabric first; those that do not fit come last.
///
/// `composed` is the setup's GPU as [`gpuwise_domain::fabric::Fabric::composed`] gives it.
pub fn layouts(
    setup: &Setup<'_>,
    composed: &Gpu,
    gpus: u32,
    load: Load,
    constants: &Constants,
) -> Vec<LayoutStep> {
    let mut out: Vec<LayoutStep> = candidates(setup, composed, gpus)
        .into_iter()
        .map(|layout| step(setup, composed, layout, load, constants))
        .collect();
    out.sort_by(|a, b| {
        let serves = |one: &LayoutStep| one.requests.value;
        a.fits
            .cmp(&b.fits)
            .reverse()
            .then(serves(b).total_cmp(&serves(a)))
            .then(a.layout.cmp(&b.layout))
    });
    out
}

fn candidates(setup: &Setup<'_>, composed: &Gpu, gpus: u32) -> Vec<Layout> {
    let divides = |ranks: u32| {
        setup.architecture.attention_layers().all(|(_, mixer)| {
            let heads = mixer.attention_heads();
            heads.is_none_or(|heads| heads.is_multiple_of(u64::from(ranks)))
        })
    };
    let most = composed.scale_up.as_ref().map_or(1, |link| link.domain);
    let powers = || (0..=10).map(|power| 1_u32 << power);
    let mut out = Vec::new();
    let own = setup.layout;
    if own.attention_data > 1 && own.replica_gpus() == gpus {
        out.push(own);
    }
    for replicas in powers().filter(|count| gpus.is_multiple_of(*count)) {
        let each = gpus / replicas;
        for pipeline in powers().filter(|stages| each.is_multiple_of(*stages)) {
            let tensor = each / pipeline;
            let deep = u64::from(pipeline) <= setup.architecture.layer_count();
            if deep && divides(tensor) && each <= most {
                out.push(Layout {
                    replicas,
                    pipeline,
                    ..Layout::tensor(tensor)
                });
            }
        }
    }
    out
}

fn step(
    setup: &Setup<'_>,
    composed: &Gpu,
    layout: Layout,
    load: Load,
    constants: &Constants,
) -> LayoutStep {
    let replicas = f64::from(layout.replicas.max(1));
    let batch = Batch {
        decodes: load.requests / replicas / f64::from(layout.attention_data.max(1)),
        context: load.context,
        ..Batch::default()
    };
    let with_prompt = Batch {
        prefill: load.prompt,
        prefill_context: load.prompt / 2.0,
        finished: 1.0,
        ..batch
    };
    // Requests of a replica, over all of its attention groups.
    let all = (load.requests / replicas).max(1.0);
    let on = |gpu| {
        let setup = Setup {
            device: Device {
                gpu,
                slice: setup.device.slice,
            },
            layout: Layout {
                replicas: 1,
                ..layout
            },
            ..setup.clone()
        };
        let steps = StepModel::new(&setup, Arc::new(StepShape::new(&setup)), constants);
        let step = steps.time(&batch);
        let prompt = beyond(&steps.time(&with_prompt), &step);
        let taken = Taken {
            request: prompt.total() + load.answer * step.total() / all,
            step,
            prompt,
        };
        (taken, memory::plan(&setup))
    };
    let (own, _) = on(setup.device.gpu);
    let (fabric, plan) = on(composed);
    let fits = plan.cache > 0.0 && plan.sequences(load.longest.max(1.0)) >= batch.decodes;
    let error = composed
        .scale_up
        .as_ref()
        .and_then(|link| link.fabric)
        .map_or(0.0, |link| link.constants.error);
    let doubt = fabric.collectives(&load, all) * error;
    LayoutStep {
        layout,
        fits,
        own,
        fabric,
        own_requests: replicas / own.request,
        requests: Estimate {
            value: fabric.request,
            low: fabric.request - doubt,
            high: fabric.request + doubt,
        }
        .inverse(replicas),
        basis: Basis::Extrapolated,
    }
}

/// What a step takes beyond another, part by part.
fn beyond(step: &StepTime, other: &StepTime) -> StepTime {
    StepTime {
        dense: step.dense - other.dense,
        experts: step.experts - other.experts,
        attention: step.attention - other.attention,
        communication: step.communication - other.communication,
        overhead: step.overhead - other.overhead,
    }
}

/// How an all-reduce over a fabric came about.
pub fn explain(link: &FabricLink, gpus: u32, bytes: f64) -> Derivation {
    let n = f64::from(gpus);
    let constants = &link.constants;
    let source = "catalogue/pcie.toml, fitted to measured collectives on PCIe";
    let seconds = |value: f64| format!("{} µs", significant(value * 1e6, 3));
    let fact = |name: &str, value| Derivation::fact(name, value, source);
    Derivation::computed(
        format!("all-reduce over {gpus} GPUs"),
        seconds(super::all_reduce(link, n, bytes)),
        "start + rank × (n − 1) + 2 (n − 1) × switches + 2 (n − 1) / n × bytes / (bandwidth × share) + ramp × √(bytes × (n − 1))",
        vec![
            fact("start", seconds(constants.start)),
            fact("rank", seconds(constants.rank)),
            fact(
                "share",
                format!("{} of a port", significant(super::share(link, n), 3)),
            ),
            fact(
                "ramp",
                format!("{} ns a root byte", significant(constants.ramp * 1e9, 3)),
            ),
            Derivation::fact("switches", seconds(link.extra_latency), "the fabric file"),
            Derivation::fact(
                "bandwidth",
                format!("{} GB/s", significant(link.bandwidth.get() / 1e9, 3)),
                "the fabric file",
            ),
            Derivation::fact("bytes", format!("{bytes:.0}"), "batch × hidden × 2"),
        ],
    )
}
