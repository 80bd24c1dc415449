//! In what a system is too large or too small, and by how much.

use super::current::Sized;
use crate::{balance::said, memory::visible_memory, search::Request};
use alloc::{
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};
use core::fmt;
use gpuwise_domain::{
    balance::PartBalance,
    deployment::{Deployment, Dropped, Test},
    gpu::Device,
    layout::Layout,
    limit::{LimitingFactor, ServingCause},
    precision::Compute,
    verdict::{Current, Dimension, DimensionUse},
};
use gpuwise_units::significant;

/// What is short, with why.
pub(crate) struct Short {
    pub(crate) uses: Vec<DimensionUse>,
    pub(crate) reason: String,
}

/// What has too little for the SLO; `None` where it is kept.
pub(crate) fn lack(request: &Request<'_>, current: &Current, now: &Sized) -> Option<Short> {
    let Some(running) = &now.deployment else {
        return Some(cannot(request, current, now));
    };
    if now.hosts_needed <= current.hosts {
        return None;
    }
    if let Some(spread) = spread_otherwise(now) {
        let (own, other) = (spread.own, spread.other);
        return Some(Short {
            reason: spread.to_string(),
            uses: vec![DimensionUse {
                dimension: of_layout(request, current),
                factor: 1.0 / spread.more,
                words: format!("what a GPU sustains as {own} over what it sustains as {other}"),
            }],
        });
    }
    let factor = f64::from(current.hosts) / f64::from(now.hosts_needed);
    let dimension = limiting(running);
    Some(Short {
        reason: format!(
            "the load needs {} of these hosts, {} are there: {}",
            now.hosts_needed,
            current.hosts,
            running
                .bottleneck
                .map_or_else(String::new, |limit| limit.to_string())
        ),
        uses: vec![DimensionUse {
            dimension,
            factor,
            words: format!("{} of {} hosts", current.hosts, now.hosts_needed),
        }],
    })
}

/// No number of these hosts keeps the SLO.
fn cannot(request: &Request<'_>, current: &Current, now: &Sized) -> Short {
    if let Some(other) = &now.spread_otherwise {
        let layout = current
            .layout
            .map_or_else(String::new, |layout| layout.to_string());
        let why = now
            .dropped
            .first()
            .map_or_else(String::new, |dropped| format!(": {}", dropped.shortfall));
        return Short {
            reason: format!(
                "as {layout} it does not keep the SLO{why}; as {} the same GPUs do",
                other.layout
            ),
            uses: vec![DimensionUse {
                dimension: of_layout(request, current),
                factor: 0.0,
                words: layout,
            }],
        };
    }
    let nearest = now
        .dropped
        .iter()
        .filter(|dropped| dropped.test != Test::Support && dropped.test != Test::Dominated)
        .min_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let Some(nearest) = nearest.or(now.dropped.first()) else {
        return Short {
            reason: "no layout of the model fits one of these hosts".into(),
            uses: vec![DimensionUse {
                dimension: Dimension::Memory,
                factor: 0.0,
                words: String::new(),
            }],
        };
    };
    Short {
        reason: format!("{}: {}", nearest.label, nearest.shortfall),
        uses: vec![DimensionUse {
            dimension: of_test(nearest),
            factor: if nearest.ratio > 0.0 {
                1.0 / nearest.ratio
            } else {
                0.0
            },
            words: nearest.shortfall.to_string(),
        }],
    }
}

/// The same GPUs sustain more with the model spread otherwise.
pub(crate) struct BetterLayout {
    own: Layout,
    other: Layout,
    /// How many times as much each GPU sustains.
    more: f64,
}

impl fmt::Display for BetterLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = significant(self.more, 2);
        write!(
            f,
            "{} is held up by the exchange between its GPUs: as {} each sustains {times} times as much",
            self.own, self.other
        )
    }
}

pub(crate) fn spread_otherwise(now: &Sized) -> Option<BetterLayout> {
    let (running, other) = (now.deployment.as_ref()?, now.spread_otherwise.as_ref()?);
    let each = |one: &Deployment| one.headroom.rate / f64::from(one.layout.gpus().max(1));
    Some(BetterLayout {
        own: running.layout,
        other: other.layout,
        more: each(other) / each(running).max(1e-12),
    })
}

/// Latency of one request alone: its first token is computed, its others are read.
fn of_test(dropped: &Dropped) -> Dimension {
    match dropped.test {
        Test::Memory => Dimension::Memory,
        Test::Ttft => Dimension::Compute,
        Test::Tpot | Test::EndToEnd => Dimension::Bandwidth,
        Test::Throughput => Dimension::Count,
        Test::Support | Test::Layout | Test::Deadline | Test::Limits | Test::Dominated => {
            Dimension::Layout
        }
    }
}

/// A layout that is much worse than another: over PCIe it is the link that makes it so.
fn of_layout(request: &Request<'_>, current: &Current) -> Dimension {
    let gpu = request
        .catalogue
        .gpus
        .iter()
        .find(|gpu| gpu.name == current.gpu);
    let groups = current.layout.is_some_and(|layout| layout.tensor > 1);
    if groups && gpu.is_some_and(|gpu| gpu.scale_up.is_none()) {
        Dimension::Link
    } else {
        Dimension::Layout
    }
}

/// What most of the GPUs' time goes to.
fn limiting(running: &Deployment) -> Dimension {
    if running.headroom.limited_by == Some(LimitingFactor::Sequences) {
        return Dimension::Memory;
    }
    match running.bottleneck.map(|limit| limit.cause) {
        Some(ServingCause::Prompts) => Dimension::Compute,
        Some(ServingCause::Collectives) => Dimension::Link,
        _ => Dimension::Bandwidth,
    }
}

/// What what runs has beside what would take its place.
pub(crate) fn excess(
    request: &Request<'_>,
    current: &Current,
    now: &Sized,
    best: &Deployment,
) -> Vec<DimensionUse> {
    let own = request
        .catalogue
        .gpus
        .iter()
        .find(|gpu| gpu.name == current.gpu);
    let other = request
        .catalogue
        .gpus
        .iter()
        .find(|gpu| gpu.name == best.gpu);
    let (Some(own), Some(other)) = (own, other) else {
        return Vec::new();
    };
    let devices = f64::from(best.devices());
    let slice = best.slice.as_ref().and_then(|profile| {
        request
            .catalogue
            .mig_profiles(other)
            .find(|known| known.profile == *profile)
    });
    let device = Device { gpu: other, slice };
    let gpus = f64::from(current.gpus());
    let mut uses = Vec::new();
    let mut push = |dimension, has: f64, needs: f64, words: String| {
        if needs > 0.0 && has / needs > 1.0 {
            uses.push(DimensionUse {
                dimension,
                factor: has / needs,
                words,
            });
        }
    };
    let occupied = now
        .deployment
        .as_ref()
        .map_or(gpus, |running| f64::from(running.devices()));
    if own.name == other.name {
        push(
            Dimension::Count,
            gpus,
            devices,
            format!("{gpus:.0} GPUs, {devices:.0} suffice"),
        );
    } else if occupied < gpus {
        push(
            Dimension::Count,
            gpus,
            occupied,
            format!("{gpus:.0} GPUs, {occupied:.0} of them suffice"),
        );
    }
    // Of what takes the place of what runs, and said so: fewer of the same GPUs are another answer.
    let instead = format!("{devices:.0} × {} would suffice with", device.name());
    let memory = |device: &Device<'_>| visible_memory(device).0;
    let held = memory(&device) * devices;
    let has = memory(&Device::whole(own)) * gpus;
    push(
        Dimension::Memory,
        has,
        held,
        format!(
            "{} GB, {instead} {}",
            significant(has / 1e9, 3),
            significant(held / 1e9, 3)
        ),
    );
    let reads = device.bandwidth().get() * devices;
    let has = own.bandwidth.get() * gpus;
    push(
        Dimension::Bandwidth,
        has,
        reads,
        format!(
            "{} TB/s, {instead} {}",
            significant(has / 1e12, 3),
            significant(reads / 1e12, 3)
        ),
    );
    if let (Some(has), Some(needs)) = (own.peak.of(Compute::Half), device.peak(Compute::Half)) {
        let (has, needs) = (has.get() * gpus, needs.get() * devices);
        push(
            Dimension::Compute,
            has,
            needs,
            format!(
                "{} TFLOP/s, {instead} {}",
                significant(has / 1e12, 3),
                significant(needs / 1e12, 3)
            ),
        );
    }
    // GPUs that are not needed at all come before what those that are have too much of.
    uses.sort_by(|a, b| {
        let count = |of: &DimensionUse| of.dimension == Dimension::Count && of.factor >= 2.0;
        count(b).cmp(&count(a)).then(b.factor.total_cmp(&a.factor))
    });
    uses
}

/// A part of the host in words.
pub(crate) fn of_part(part: &PartBalance) -> String {
    let has = part
        .has
        .map_or_else(|| "–".to_string(), |has| said(has, part.unit));
    format!("{has}, {} keep up", said(part.needed.value, part.unit))
}
