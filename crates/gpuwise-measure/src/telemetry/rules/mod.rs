//! Findings of telemetry. Each rule looks at one row or one engine, and says nothing where a quantity it
//! needs is not told or a threshold is not there.

mod definitions;
mod fit;
mod health;
mod judged;
mod limits;
mod numa;
mod serving;

pub use definitions::DEFINITIONS;
pub use numa::numa_mismatch;

use crate::audit::Market;

use super::{
    facts::Facts,
    figures::label,
    state::{Row, State},
    track::Track,
};
use gpuwise_domain::{
    profile::{
        figure::Scope,
        finding::{Evidence, Finding, Gain},
    },
    telemetry::{MigInstance, Quantity, Subject, Thresholds},
    usage::rules::Rules,
};
use std::collections::{BTreeMap, BTreeSet};

/// By what it is told whether a smaller device suffices: as an audit tells it.
#[derive(Debug, Clone, Copy)]
pub struct Sizing<'a> {
    /// Thresholds of an audit.
    pub rules: &'a Rules,
    /// What there is to hold instead.
    pub market: &'a Market<'a>,
}

/// Everything that is found now, the largest gain first; what is about safety stands before all.
pub fn findings(
    state: &State,
    limits: &Thresholds,
    facts: &Facts,
    sizing: Option<&Sizing<'_>>,
) -> Vec<Finding> {
    let neighbours = Neighbours::of(state);
    let mut out = Vec::new();
    let rows = state.rows().iter().filter(|row| !row.is_process());
    let looks: Vec<Look<'_>> = rows
        .map(|row| Look {
            row,
            limits,
            facts,
            sizing,
            around: neighbours.around(&row.subject),
        })
        .collect();
    for look in &looks {
        out.extend(
            [
                health::fault(look),
                health::application_fault(look),
                health::ecc(look),
                health::remap(look),
                health::thermal(look),
                health::power(look),
                health::link(look),
                limits::dram(look),
                limits::tensor(look),
                limits::pcie(look),
                fit::busy_low(look),
            ]
            .into_iter()
            .flatten(),
        );
    }
    let judged = judged::all(&looks, state, &neighbours, facts);
    out.extend(judged.iter().flat_map(fit::findings));
    out.extend(serving::findings(state, limits));
    out.sort_by(|a, b| finding_weight(b).total_cmp(&finding_weight(a)));
    out
}

/// For order alone: safety first, then the middle of what is gained.
pub fn finding_weight(finding: &Finding) -> f64 {
    match finding.gain {
        Gain::Safety => 2.0,
        Gain::Time { low, high } | Gain::Device { low, high } => f64::midpoint(low, high),
        Gain::Memory { .. } => 0.1,
        Gain::Unknown => 0.0,
    }
}

struct Look<'a> {
    row: &'a Row,
    limits: &'a Thresholds,
    facts: &'a Facts,
    sizing: Option<&'a Sizing<'a>>,
    around: Around,
}

/// What is known of others on the same GPU.
#[derive(Clone, Copy, Default)]
struct Around {
    processes: u32,
    instances: u32,
}

type GpuKey<'a> = (Option<&'a str>, Option<&'a str>, Option<u32>);

/// Devices by the namespace and pod, or the job, of who holds them.
type HolderKey<'a> = (Option<&'a str>, Option<&'a str>, Option<&'a str>);

struct Neighbours<'a> {
    gpus: BTreeMap<GpuKey<'a>, Around>,
    /// Who is on each GPU and instance.
    holders: BTreeMap<(GpuKey<'a>, Option<&'a MigInstance>), BTreeSet<HolderKey<'a>>>,
}

impl<'a> Neighbours<'a> {
    fn of(state: &'a State) -> Self {
        let mut gpus: BTreeMap<GpuKey<'a>, Around> = BTreeMap::new();
        let mut holders: BTreeMap<_, BTreeSet<HolderKey<'a>>> = BTreeMap::new();
        for row in state.rows() {
            let subject = &row.subject;
            let around = gpus.entry(key(subject)).or_default();
            around.processes += u32::from(row.is_process());
            around.instances += u32::from(subject.instance.is_some() && !row.is_process());
            if let Some(holder) = holder_of(subject).filter(|_| !row.is_process()) {
                let place = (key(subject), subject.instance.as_ref());
                holders.entry(place).or_default().insert(holder);
            }
        }
        Self { gpus, holders }
    }

    fn around(&self, subject: &Subject) -> Around {
        self.gpus.get(&key(subject)).copied().unwrap_or_default()
    }

    /// How many hold the same GPU or slice.
    fn holders_of(&self, subject: &Subject) -> u32 {
        let place = (key(subject), subject.instance.as_ref());
        self.holders
            .get(&place)
            .map_or(1, |holders| holders.len() as u32)
    }
}

fn holder_of(subject: &Subject) -> Option<HolderKey<'_>> {
    let holder = &subject.holder;
    let named = holder.pod.is_some() || holder.job.is_some();
    named.then_some((
        holder.namespace.as_deref(),
        holder.pod.as_deref(),
        holder.job.as_deref(),
    ))
}

/// Pods and hosts that the name of a replica holds: its words, addresses without scheme and port.
fn places(replica: &str) -> impl Iterator<Item = &str> {
    replica.split_whitespace().map(|word| {
        let word = word.split_once("://").map_or(word, |(_, rest)| rest);
        word.split([':', '/']).next().unwrap_or(word)
    })
}

fn key(subject: &Subject) -> GpuKey<'_> {
    match &subject.gpu.uuid {
        Some(uuid) => (None, Some(uuid), None),
        None => (subject.gpu.host.as_deref(), None, subject.gpu.index),
    }
}

impl Look<'_> {
    fn limit(&self, name: &str) -> Option<f64> {
        self.limits.value(name)
    }

    /// A track with enough samples to say something over time.
    fn track(&self, quantity: Quantity) -> Option<&Track> {
        let fewest = self.limit("fewest_samples")?;
        self.row
            .track(quantity)
            .filter(|track| track.len() as f64 >= fewest)
    }

    fn mean(&self, quantity: Quantity) -> Option<f64> {
        self.track(quantity)?.mean()
    }

    fn last(&self, quantity: Quantity) -> Option<f64> {
        self.row.last(quantity)
    }

    /// Which quantity says how busy it is: that of the engine, else that of the driver.
    fn busy_quantity(&self) -> Option<Quantity> {
        [
            Quantity::EngineActive,
            Quantity::SmActive,
            Quantity::GpuUtil,
        ]
        .into_iter()
        .find(|quantity| self.track(*quantity).is_some())
    }

    /// How busy it is, where that is told and it is under load.
    fn loaded(&self) -> Option<f64> {
        let busy = self.mean(self.busy_quantity()?)?;
        (busy >= self.limit("busy_util")?).then_some(busy)
    }

    /// Share of device memory in use at the most.
    fn peak_memory(&self) -> Option<(f64, f64)> {
        let total = self.memory_total()?;
        let used = self.track(Quantity::MemoryUsed)?.max()?;
        Some((used, total))
    }

    fn memory_total(&self) -> Option<f64> {
        let told = self.last(Quantity::MemoryTotal);
        let parts = || {
            let used = self.last(Quantity::MemoryUsed)?;
            let free = self.last(Quantity::MemoryFree)?;
            Some(used + free + self.last(Quantity::MemoryReserved).unwrap_or(0.0))
        };
        told.or_else(parts).filter(|total| *total > 0.0)
    }

    fn finding(&self, class: &str, statement: String, gain: Gain, advice: &[&str]) -> Finding {
        Finding {
            class: class.into(),
            scope: Scope {
                device: self.row.subject.gpu.index.map(i64::from),
                part: Some(label(self.row)),
                ..Scope::default()
            },
            statement,
            evidence: Vec::new(),
            places: Vec::new(),
            gain,
            advice: advice.iter().map(|text| (*text).to_owned()).collect(),
        }
    }
}

fn evidence(figure: &str, value: f64, unit: &str, threshold: Option<f64>) -> Evidence {
    Evidence {
        figure: figure.into(),
        value,
        unit: unit.into(),
        threshold,
    }
}

/// Whether the GPU is AMD's, as its product says.
fn is_amd(look: &Look<'_>) -> bool {
    let product = look.row.subject.gpu.product.as_deref().unwrap_or_default();
    ["AMD", "Instinct", "Radeon"]
        .iter()
        .any(|word| product.contains(word))
}

/// A share as people read it.
fn percent(share: f64) -> String {
    format!("{} %", gpuwise_units::significant(share * 100.0, 2))
}

/// Bytes as the driver counts them.
fn gib(bytes: f64) -> String {
    format!(
        "{} GiB",
        gpuwise_units::significant(bytes / 1073741824.0, 3)
    )
}
