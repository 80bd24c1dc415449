//! Two jobs on one GPU: which were measured side by side, and what they are told to have of it.
//!
//! A pair is let share a GPU only where both together do more than one alone. Each is charged the part of the
//! GPU's time that its speed is of both speeds, so that each gets the same gain on what it is charged: who is
//! owed a share of time gets at least what it would have got of that time alone.

use crate::world::StoredJob;
use gpuwise_domain::placement::{GpuAsk, GpuId, GpuShare, Isolation, Part};

/// What two jobs were measured to do beside each other on a kind of GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredPair {
    /// Names of jobs; `*` stands for any letters.
    pub jobs: [String; 2],
    /// The kind of GPU, by the name that the fleet has for it.
    pub gpu: String,
    /// Speed of each beside the other, in thousandths of what it does there alone.
    pub speeds_milli: [u32; 2],
}

/// All pairs that were measured; those that were not do not share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pairs(pub Vec<MeasuredPair>);

/// How two jobs share a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Thousandths of the GPU's time that the first is charged; the second has the rest.
    pub first_milli: u32,
    /// What both do together, in thousandths of what the GPU does for one alone: above 1000.
    pub gain_milli: u32,
}

impl Pairs {
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How two jobs share a GPU of this kind; `None`: they were not measured there, or do no more than one
    /// alone.
    pub fn split(&self, first: &StoredJob, second: &StoredJob, gpu: &str) -> Option<Split> {
        let speeds = self.0.iter().find_map(|pair| {
            let [one, other] = &pair.jobs;
            if pair.gpu != gpu {
                return None;
            }
            if matches(one, &first.name) && matches(other, &second.name) {
                return Some(pair.speeds_milli);
            }
            let turned = matches(other, &first.name) && matches(one, &second.name);
            turned.then_some([pair.speeds_milli[1], pair.speeds_milli[0]])
        });
        let [first, second] = speeds?;
        let gain = u64::from(first) + u64::from(second);
        if gain <= 1000 || first == 0 || second == 0 {
            return None;
        }
        // To the nearest thousandth; each has at least one.
        let milli = (u64::from(first) * 1000 + gain / 2) / gain;
        Some(Split {
            first_milli: u32::try_from(milli.clamp(1, 999)).ok()?,
            gain_milli: u32::try_from(gain).ok()?,
        })
    }
}

/// Whether a job can share its GPU: it asks for one, whole, and may be stopped.
pub(crate) fn can_share(job: &StoredJob) -> bool {
    let one = matches!(job.worker.gpu, GpuAsk::Whole { count: 1, .. });
    one && job.gang.most <= 1 && crate::disruption::restart_of(job).is_some()
}

/// What each of a pair has of a GPU.
pub(crate) const fn share(gpu: GpuId, milli: u32, gain_milli: u32) -> GpuShare {
    GpuShare {
        gpu,
        part: Part::Fraction {
            milli,
            memory_mib: 0,
            isolation: Isolation::Pair { gain_milli },
        },
    }
}

/// The speed at which a job runs with this part of a GPU, in thousandths of what it does there alone.
pub(crate) const fn speed_milli(part: Part) -> u64 {
    match part {
        Part::Fraction {
            milli,
            isolation: Isolation::Pair { gain_milli },
            ..
        } => (milli as u64 * gain_milli as u64 + 500) / 1000,
        _ => 1000,
    }
}

/// Whether a part is one of a pair's.
pub(crate) const fn is_paired(part: Part) -> bool {
    matches!(
        part,
        Part::Fraction {
            isolation: Isolation::Pair { .. },
            ..
        }
    )
}

/// Whether a name is one of a pattern in which `*` stands for any letters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(name) = name.strip_prefix(head) else {
        return false;
    };
    let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
    rest.is_empty()
        || ends
            .into_iter()
            .any(|at| name.get(at..).is_some_and(|tail| matches(rest, tail)))
}
