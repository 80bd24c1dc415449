//! Rows kept out: shapes by their hash, GPUs one by one, and all that have a chip.

use super::{Sample, Samples, known};
use crate::{
    Basis,
    lane::{GPU, MINOR},
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString as _},
    vec::Vec,
};

/// Of a hundred shapes, how many are kept out.
const HELD: u64 = 15;
/// Parts into which whole models fall.
const FOLDS: u32 = 4;

/// Errors of rows kept out together.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// What was kept out: `shapes`, `models`, a GPU, or a chip.
    pub kept_out: String,
    pub gpu: String,
    /// Engine as the table names it: `vllm`, `sglang`, `trtllm`.
    pub engine: String,
    /// Number format, with what else sets kernels apart.
    pub format: String,
    /// What the answers rest on.
    pub basis: Basis,
    /// Logarithms of measured over predicted.
    pub logs: Vec<f64>,
}

impl Group {
    /// Each error with whether it is in the range that the other groups of this basis ask for: those
    /// of other GPUs where GPUs were kept out, all where shapes were.
    pub fn judged(&self, groups: &[Self]) -> Vec<(f64, bool)> {
        let shapes = self.basis <= Basis::NewShape;
        let others = groups
            .iter()
            .filter(|group| shapes || group.gpu != self.gpu);
        let mut logs: Vec<f64> = others
            .filter(|group| group.basis == self.basis)
            .flat_map(|group| group.logs.iter().copied())
            .collect();
        logs.sort_by(f64::total_cmp);
        let low = quantile(&logs, 0.1).unwrap_or(f64::NEG_INFINITY);
        let high = quantile(&logs, 0.9).unwrap_or(f64::INFINITY);
        let within = |log: &f64| (*log, (low..=high).contains(log));
        self.logs.iter().map(within).collect()
    }
}

fn held(row: &Sample) -> bool {
    (row.shape ^ (row.shape >> 29)) % 100 < HELD
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptOut {
    /// Shapes, on every GPU.
    Shapes,
    /// All shapes of models, where the table has such.
    Models,
    /// GPUs, one by one, and chips that several have.
    Gpus,
}

impl KeptOut {
    pub const ALL: [Self; 3] = [Self::Shapes, Self::Models, Self::Gpus];
}

/// Errors of what is kept out in turn. Models and GPUs are judged on every third shape.
pub fn errors(samples: &Samples, kinds: &[KeptOut]) -> Vec<Group> {
    let mut groups = Vec::new();
    if kinds.contains(&KeptOut::Shapes) {
        let kept = known(samples, |row| !held(row));
        judge(&mut groups, samples, &kept, "shapes", held);
    }
    let thin = |row: &Sample| (row.shape ^ (row.shape >> 31)).is_multiple_of(3);
    for fold in 0..FOLDS {
        let out = |row: &Sample| {
            let named = !samples.models[row.model as usize].is_empty();
            named && row.model % FOLDS == fold
        };
        if kinds.contains(&KeptOut::Models) && samples.rows.iter().any(out) {
            let kept = known(samples, |row| thin(row) && !out(row));
            judge(&mut groups, samples, &kept, "models", |row| {
                thin(row) && out(row)
            });
        }
    }
    if kinds.contains(&KeptOut::Gpus) {
        for (level, part) in alone(samples) {
            let on = |row: &Sample| samples.lanes[row.lane as usize].part(level) == part;
            let kept = known(samples, |row| thin(row) && !on(row));
            judge(&mut groups, samples, &kept, part, |row| {
                thin(row) && on(row)
            });
        }
    }
    groups
}

/// GPUs, and chips that several of them have: of boards on one chip, one tells of the other.
fn alone(samples: &Samples) -> Vec<(usize, &str)> {
    let mut chips: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for lane in &samples.lanes {
        chips
            .entry(lane.part(MINOR))
            .or_default()
            .insert(lane.part(GPU));
    }
    let twins = chips.iter().filter(|(_, gpus)| gpus.len() > 1);
    let twins = twins.map(|(chip, _)| (MINOR, *chip));
    let gpus = chips.values().flatten().map(|gpu| (GPU, *gpu));
    gpus.chain(twins).collect()
}

fn judge(
    groups: &mut Vec<Group>,
    samples: &Samples,
    kept: &crate::functions::Known,
    what: &str,
    out: impl Fn(&Sample) -> bool,
) {
    let mut logs: BTreeMap<(u32, Basis), Vec<f64>> = BTreeMap::new();
    let mut bound = BTreeMap::new();
    for row in samples.rows.iter().filter(|row| out(row)) {
        let found = bound.entry((row.lane, row.model)).or_insert_with(|| {
            let model = &samples.models[row.model as usize];
            kept.bound(&samples.lanes[row.lane as usize], model)
        });
        if let Some(found) = found {
            let log = libm::log(row.seconds / found.seconds(&row.work));
            let key = (row.lane, found.spread.basis);
            logs.entry(key).or_default().push(log);
        }
    }
    for ((number, basis), logs) in logs {
        let lane = &samples.lanes[number as usize];
        groups.push(Group {
            kept_out: what.to_string(),
            gpu: lane.part(GPU).to_string(),
            engine: lane.part(crate::lane::ENGINE).to_string(),
            format: lane.part(0).to_string(),
            basis,
            logs,
        });
    }
}

/// Rows that a range of its own asks for.
const ENOUGH: usize = 200;

/// The middle 80 % of errors by basis and format, and by basis; a further basis is never the narrower.
pub fn ranges(groups: &[Group]) -> BTreeMap<(Basis, String), (f64, f64)> {
    let mut all: BTreeMap<(String, Basis), Vec<f64>> = BTreeMap::new();
    for group in groups {
        for format in [group.format.as_str(), "*"] {
            all.entry((format.to_string(), group.basis))
                .or_default()
                .extend(&group.logs);
        }
    }
    all.retain(|(format, _), logs| format == "*" || logs.len() >= ENOUGH);
    let mut widest: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    let mut out = BTreeMap::new();
    for ((format, basis), mut logs) in all {
        logs.sort_by(f64::total_cmp);
        let (Some(low), Some(high)) = (quantile(&logs, 0.1), quantile(&logs, 0.9)) else {
            continue;
        };
        let ends = widest.entry(format.clone()).or_insert((low, high));
        *ends = (ends.0.min(low), ends.1.max(high));
        out.insert((basis, format), *ends);
    }
    out
}

/// A quantile of sorted values.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * sorted.len().saturating_sub(1) as f64;
    sorted.get(libm::round(at) as usize).copied()
}
