//! What the holder of a GPU showed in the window, as an audit looks at days, and what its judge says.

use super::{Look, Neighbours, Sizing, fit::allocated, places};
use crate::{
    audit::judge,
    telemetry::{facts::Facts, state::State},
};
use gpuwise_domain::{
    telemetry::{Quantity, Subject},
    usage::{
        ComputeMeasure, ComputeUse, EngineUse, Holder, IdleUse, ResourceRequest, Usage, Window,
        proposal::{Judgement, Proposal},
        rules::Rules,
    },
};
use gpuwise_units::Bytes;
use std::collections::BTreeMap;

/// Share of the window that samples must stand for before a holder is judged; the rest is their jitter.
const COVERED: f64 = 0.95;

/// Measures of compute, the best first.
const MEASURES: [(ComputeMeasure, Quantity); 3] = [
    (ComputeMeasure::SmActive, Quantity::SmActive),
    (ComputeMeasure::EngineActive, Quantity::EngineActive),
    (ComputeMeasure::Utilisation, Quantity::GpuUtil),
];

/// A holder with its rows, what it showed, and what is said of it.
pub(super) struct Shown<'l, 'a> {
    pub(super) looks: Vec<&'l Look<'a>>,
    pub(super) usage: Usage,
    pub(super) said: Judgement,
    pub(super) sizing: &'a Sizing<'a>,
}

impl Shown<'_, '_> {
    /// Whether a row of it did nothing.
    pub(super) fn is_idle(&self, look: &Look<'_>) -> bool {
        is_idle(look, self.sizing.rules)
    }

    /// Share of its cost that a proposal saves.
    pub(super) fn saved(&self, proposal: &Proposal) -> f64 {
        let portion = self.sizing.market.portion(&self.usage.asked);
        let held = portion.low * f64::from(self.usage.devices());
        let part = match (proposal.saving.hourly, portion.price) {
            (Some(saved), Some(price)) => saved.as_f64() / (price.0.as_f64() * held),
            _ => proposal.saving.gpus / held,
        };
        if part.is_finite() {
            part.clamp(0.0, 1.0)
        } else {
            0.0
        }
    }
}

/// Every holder that was seen for the whole window, and every GPU that somebody has whom nobody names.
pub(super) fn all<'l, 'a>(
    looks: &'l [Look<'a>],
    state: &State,
    neighbours: &Neighbours<'_>,
    facts: &Facts,
) -> Vec<Shown<'l, 'a>> {
    let mut groups: BTreeMap<(usize, Option<_>), Vec<&Look<'_>>> = BTreeMap::new();
    for (place, look) in looks.iter().enumerate() {
        let subject = &look.row.subject;
        // A whole GPU that is divided is judged by its slices.
        let divided = look.last(Quantity::MigMode) == Some(1.0) || look.around.instances > 0;
        if subject.instance.is_none() && divided || allocated(look).is_none() {
            continue;
        }
        let key = match super::holder_of(subject) {
            Some(holder) => (usize::MAX, Some(holder)),
            None => (place, None),
        };
        groups.entry(key).or_default().push(look);
    }
    let shown = groups.into_values().filter_map(|looks| {
        let sizing = looks.first()?.sizing?;
        let usage = usage(&looks, state, neighbours, facts, sizing.rules)?;
        let rules = Rules {
            least_hours: COVERED * state.window() / 3600.0,
            ..*sizing.rules
        };
        // Hours of the clock say nothing over minutes.
        let said = judge(&usage, Window { start: 0, end: 0 }, &rules, sizing.market);
        Some(Shown {
            looks,
            usage,
            said,
            sizing,
        })
    });
    shown.collect()
}

/// By which quantity its compute is told, with enough samples.
pub(super) fn compute(look: &Look<'_>) -> Option<(ComputeMeasure, Quantity)> {
    let mut measures = MEASURES.into_iter();
    measures.find(|(_, quantity)| look.track(*quantity).is_some())
}

/// Share of samples in which it did nothing.
fn idle_share(look: &Look<'_>, rules: &Rules) -> Option<f64> {
    let track = look.track(compute(look)?.1)?;
    let idle = track.iter().filter(|(_, share)| *share < rules.idle_below);
    Some(idle.count() as f64 / track.len() as f64)
}

fn is_idle(look: &Look<'_>, rules: &Rules) -> bool {
    idle_share(look, rules).is_some_and(|share| share >= rules.idle_share)
}

/// Seconds that samples of a row stand for: each for the time to the next.
fn covered(look: &Look<'_>) -> f64 {
    let quantities = [
        compute(look).map(|(_, quantity)| quantity),
        Some(Quantity::MemoryUsed),
    ];
    let tracks = quantities
        .into_iter()
        .flatten()
        .filter_map(|one| look.track(one));
    let seconds = tracks.filter(|track| track.len() > 1).map(|track| {
        let samples = track.len() as f64;
        track.span() * samples / (samples - 1.0)
    });
    seconds.reduce(f64::max).unwrap_or(0.0)
}

fn usage(
    looks: &[&Look<'_>],
    state: &State,
    neighbours: &Neighbours<'_>,
    facts: &Facts,
    rules: &Rules,
) -> Option<Usage> {
    let first = looks.first()?;
    let subject = &first.row.subject;
    let most = |of: &dyn Fn(&Look<'_>) -> Option<f64>| {
        let known = looks.iter().filter_map(|look| of(look));
        known.reduce(f64::max)
    };
    let hours = looks.iter().map(|look| covered(look)).fold(0.0, f64::max) / 3600.0;
    let idle = looks.iter().map(|look| idle_share(look, rules));
    let idle = idle.collect::<Option<Vec<f64>>>();
    let idle_rows = looks.iter().filter(|look| is_idle(look, rules)).count();
    let used = |look: &Look<'_>| look.track(Quantity::MemoryUsed)?.max();
    let full = |look: &Look<'_>| {
        let edge = look.memory_total()? * rules.memory_full;
        let track = look.track(Quantity::MemoryUsed)?;
        let full = track.iter().filter(|(_, bytes)| *bytes >= edge).count();
        Some(full as f64 / track.len() as f64)
    };
    let measure = looks.iter().filter_map(|look| Some(compute(look)?.0)).max();
    let p95 = most(&|look| look.track(compute(look)?.1)?.quantile(0.95));
    let holder = holder(subject, super::label(first.row));
    Some(Usage {
        tenant: holder.namespace.clone(),
        holder,
        asked: asked(looks, neighbours),
        hours,
        spanned_hours: hours,
        device_hours: hours * looks.len() as f64,
        device_hours_seen: hours * looks.len() as f64,
        present: true,
        memory_peak: most(&used).map(Bytes::from_f64),
        memory_average: None,
        memory_hourly: Vec::new(),
        memory_full_share: most(&full),
        compute: measure.map(|measure| ComputeUse {
            measure,
            average: most(&|look| look.track(compute(look)?.1)?.mean()),
            p95,
            p95_sum: p95,
            of_hours: false,
        }),
        compute_hourly: Vec::new(),
        // It is idle as a whole while none of its devices does anything.
        idle: idle
            .and_then(|shares| shares.into_iter().reduce(f64::min))
            .map(|share| IdleUse {
                hours: share * hours,
                ..IdleUse::default()
            }),
        idle_devices: if idle_rows < looks.len() {
            idle_rows as u32
        } else {
            0
        },
        tensor_average: None,
        dram_p95: most(&|look| look.track(Quantity::DramActive)?.quantile(0.95)),
        cpu_share: None,
        throttled_share: None,
        engine: engine(state, subject, facts),
        missing: Vec::new(),
    })
}

fn holder(subject: &Subject, label: String) -> Holder {
    let known = &subject.holder;
    let (kind, name) = match (&known.pod, &known.job) {
        (Some(pod), _) => ("Pod", pod.clone()),
        (None, Some(job)) => ("SlurmJob", job.clone()),
        (None, None) => ("Device", label),
    };
    Holder {
        namespace: known.namespace.clone().unwrap_or_default(),
        kind: kind.into(),
        name,
    }
}

fn asked(looks: &[&Look<'_>], neighbours: &Neighbours<'_>) -> ResourceRequest {
    let subjects = || looks.iter().map(|look| &look.row.subject);
    let instances = || subjects().filter_map(|subject| subject.instance.as_ref());
    let slice = instances().find_map(|instance| instance.profile.clone());
    ResourceRequest {
        gpu: subjects().find_map(|subject| subject.gpu.product.clone()),
        slice_untold: slice.is_none() && instances().next().is_some(),
        slice,
        shared_by: subjects()
            .map(|subject| neighbours.holders_of(subject))
            .max()
            .unwrap_or(1),
        devices: looks.len() as u32,
        replicas: 1,
        ..ResourceRequest::default()
    }
}

/// Engines that speak from where it runs: by the pod where that is named, else by the host; where neither
/// is, any engine may be on it.
fn engine(state: &State, subject: &Subject, facts: &Facts) -> Option<EngineUse> {
    let place = subject.holder.pod.as_ref().or(subject.gpu.host.as_ref());
    let here = |replica: &str| place.is_none_or(|place| places(replica).any(|one| one == place));
    let mut found: Option<EngineUse> = None;
    for ((engine, model, replica), track) in state.replicas() {
        if !here(replica) {
            continue;
        }
        let seen = found.get_or_insert_default();
        seen.engine.clone_from(engine);
        seen.model = model.clone().or(seen.model.take());
        // By name alone, where several models are there nothing is known of the weights.
        seen.weights = model.as_ref().and_then(|model| *facts.weights.get(model)?);
        let larger = |known: Option<f64>, new: Option<f64>| match (known, new) {
            (Some(known), Some(new)) => Some(known.max(new)),
            (known, new) => known.or(new),
        };
        seen.waiting = larger(seen.waiting, track.waiting.mean());
        seen.cache_peak = larger(seen.cache_peak, track.cache_use.max());
    }
    found
}
