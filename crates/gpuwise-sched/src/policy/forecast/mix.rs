//! What is usually asked for, as the policy uses it: rows of imagined arrivals, and rates.

use super::{
    builds::Builds,
    rows::{LENGTH, ROWS, Rows, Step},
};
use crate::{fit, world::World};
use gpuwise_domain::placement::{GpuAsk, Need, WorkerAsk};
use gpuwise_units::RandomStream;
use std::collections::BTreeMap;

/// Numbers of GPUs for which places are counted: one, and the three that are asked for most.
pub(super) const WIDTHS: usize = 4;
/// Sets of builds whose scarcity is watched: those asked for most.
const SETS: usize = 24;
/// An ask for more thousandths of a GPU than this cannot share it with its like.
const HALF: u32 = 500;

/// Processor time, memory and how often.
type Wide = (u64, u64, u64);

/// Asks for one number of whole GPUs, or, where that is 1, for more than half of a GPU.
#[derive(Debug, Clone, Default)]
pub(super) struct Width {
    pub(super) gpus: u32,
    /// Processor time, memory and how often; none: GPUs alone are counted.
    pub(super) asks: Vec<Wide>,
}

/// What those ask for whom no builds but these can hold, per arrival.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    pub(super) builds: u64,
    /// GPUs' time, then places of each width: mean and mean square.
    pub(super) rates: [(f64, f64); WIDTHS + 1],
}

#[derive(Debug, Clone, Default)]
pub(super) struct Mix {
    /// Imagined arrivals that ask for GPUs.
    pub(super) rows: Rows,
    /// Thousandths of GPUs that an arrival asks for on average, those that ask for none included.
    pub(super) mean_milli: f64,
    /// The smallest ask in thousandths of a GPU.
    pub(super) least_milli: u32,
    /// Processor time and memory that any ask needs at most for each GPU of its own.
    pub(super) most_per_gpu: (u64, u64),
    pub(super) widths: Vec<Width>,
    pub(super) wanted: Vec<Demand>,
}

impl Mix {
    /// From asks and how often each was made.
    pub(super) fn new(world: &World, builds: &Builds, asks: &[(WorkerAsk, u64)]) -> Self {
        let steps: Vec<(Step, u64)> = asks
            .iter()
            .filter(|(_, count)| *count > 0)
            .filter_map(|(ask, count)| Some((step(world, builds, ask)?, *count)))
            .collect();
        let arrivals: u64 = asks.iter().map(|(_, count)| *count).sum();
        let milli = |step: &Step| u64::from(step.count) * u64::from(step.milli);
        let total: u64 = steps.iter().map(|(step, count)| milli(step) * count).sum();
        if total == 0 {
            return Self::default();
        }
        let least = steps.iter().map(|(step, _)| milli(step)).min();
        let widths = widths(&steps);
        let each = |of: fn(&Step) -> u64| {
            let per_gpu = steps.iter().map(|(step, _)| {
                (u128::from(of(step)) * 1000).div_ceil(u128::from(milli(step).max(1)))
            });
            u64::try_from(per_gpu.max().unwrap_or(0)).unwrap_or(u64::MAX)
        };
        Self {
            most_per_gpu: (each(|step| step.cpu), each(|step| step.memory)),
            rows: Rows::new(
                (0..ROWS as u64)
                    .flat_map(|row| self::row(&steps, row))
                    .collect(),
            ),
            mean_milli: total as f64 / arrivals as f64,
            least_milli: least.map_or(0, |least| least.min(u64::from(u32::MAX)) as u32),
            wanted: wanted(&steps, &widths, arrivals),
            widths,
        }
    }
}

/// An ask that holds GPUs by time; `None` for others, and for those that no node can hold.
fn step(world: &World, builds: &Builds, ask: &WorkerAsk) -> Option<Step> {
    let (count, milli, kinds) = match ask.gpu {
        GpuAsk::Whole { count, kinds, need } => (count, 1000, fit::kinds_with(world, kinds, need)),
        GpuAsk::Fraction { milli, kinds, .. } => {
            (1, milli, fit::kinds_with(world, kinds, Need::default()))
        }
        GpuAsk::None | GpuAsk::Slice { .. } => return None,
    };
    let builds = builds.that_hold(kinds, count, ask.cpu_milli, ask.memory_mib);
    (count > 0 && milli > 0 && builds != 0).then_some(Step {
        cpu: ask.cpu_milli,
        memory: ask.memory_mib,
        builds,
        count,
        milli: milli.min(1000) as u16,
    })
}

/// A row in which every ask comes as often as it should, to within one, in an order of its own.
fn row(steps: &[(Step, u64)], number: u64) -> Vec<Step> {
    let mut stream = RandomStream::new(0, "imagined arrivals", number);
    let total: u64 = steps.iter().map(|(_, count)| count).sum();
    let mut strata: Vec<u64> = (0..LENGTH as u64).collect();
    for last in (1..strata.len()).rev() {
        let other = stream.below(last as u64 + 1) as usize;
        strata.swap(last, other);
    }
    let mut row = Vec::with_capacity(LENGTH);
    for stratum in strata {
        let at = (stratum as f64 + stream.uniform()) / LENGTH as f64 * total as f64;
        let mut until = 0;
        let found = steps.iter().find(|(_, count)| {
            until += count;
            at < until as f64
        });
        row.extend(found.or(steps.last()).map(|(step, _)| *step));
    }
    row
}

fn widths(steps: &[(Step, u64)]) -> Vec<Width> {
    let mut by_gpus: BTreeMap<u32, (u64, Vec<Wide>)> = BTreeMap::new();
    for (step, count) in steps {
        if step.count > 1 || u32::from(step.milli) > HALF {
            let entry = by_gpus.entry(step.count).or_default();
            entry.0 += u64::from(step.count) * count;
            if step.count > 1 {
                entry.1.push((step.cpu, step.memory, *count));
            }
        }
    }
    let mut found: Vec<_> = by_gpus.into_iter().collect();
    // One GPU first, then what is asked for most.
    found.sort_by_key(|(gpus, (time, _))| (*gpus != 1, core::cmp::Reverse(*time), *gpus));
    found.truncate(WIDTHS);
    let width = |(gpus, (_, asks))| Width { gpus, asks };
    found.into_iter().map(width).collect()
}

/// For every set of builds that asks are bound to: what must be placed within it.
fn wanted(steps: &[(Step, u64)], widths: &[Width], arrivals: u64) -> Vec<Demand> {
    let mut sets: BTreeMap<u64, u64> = BTreeMap::new();
    for (step, count) in steps {
        *sets.entry(step.builds).or_default() += count;
    }
    let mut sets: Vec<(u64, u64)> = sets.into_iter().collect();
    sets.sort_by_key(|(builds, count)| (core::cmp::Reverse(*count), *builds));
    sets.truncate(SETS);
    let rates = |builds: u64| {
        let mut rates = [(0.0, 0.0); WIDTHS + 1];
        for (step, count) in steps.iter().filter(|(step, _)| step.builds & !builds == 0) {
            let share = *count as f64 / arrivals as f64;
            let mut add = |at: usize, amount: f64| {
                if let Some((mean, square)) = rates.get_mut(at) {
                    *mean += share * amount;
                    *square += share * amount * amount;
                }
            };
            add(0, f64::from(step.count) * f64::from(step.milli) / 1000.0);
            for (width, at) in widths.iter().zip(1..) {
                if step.count > 1 || u32::from(step.milli) > HALF {
                    add(at, f64::from(step.count / width.gpus));
                }
            }
        }
        rates
    };
    sets.into_iter()
        .map(|(builds, _)| Demand {
            builds,
            rates: rates(builds),
        })
        .collect()
}
