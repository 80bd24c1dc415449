//! The best setup on one cluster.
//!
//! Two facts about memory and time prune the space without losing the best: a larger micro-batch
//! never needs less memory, and computing less again is never slower. A test holds the search
//! against brute force.

use super::{
    Cluster, Physics,
    request::TrainChoices,
    shape::Shape,
    space::{self, Placement},
};
use alloc::{collections::BTreeMap, string::String, vec::Vec};
use gpuwise_domain::training::{Framework, Sharding, StepTime, TrainingMemory, TrainingSetup};

/// A setup that fits, with its figures.
#[derive(Debug, Clone)]
pub struct Best {
    /// The upper end of its memory's range over bytes usable: beyond 1 it may run out.
    pub filled: f64,
    pub setup: TrainingSetup,
    pub memory: TrainingMemory,
    pub step: StepTime,
}

impl Best {
    /// Whether it fits with the whole range of its memory.
    pub fn roomy(&self) -> bool {
        self.filled <= 1.0
    }

    /// Whether it is better: by room for its range, as far as that goes, then by time.
    fn precedes(&self, other: &Self) -> bool {
        let beyond = |best: &Self| best.filled.max(1.0);
        let by_room = beyond(self).total_cmp(&beyond(other));
        let by_time = self.step.step.value.total_cmp(&other.step.step.value);
        by_room.then(by_time).is_lt()
    }
}

/// What became of the placements of one kind.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The fastest of those whose memory fits with its whole range: its setup and seconds a step.
    Fits(TrainingSetup, f64),
    /// Where none does, the one that comes nearest to it of those that fit without their range: its
    /// setup, and the upper end of its range over bytes usable.
    Tight(TrainingSetup, f64),
    /// The nearest of those that do not: its setup, bytes needed over bytes usable.
    Short(TrainingSetup, f64),
}

impl Outcome {
    /// The more the better it fits.
    const fn room(&self) -> u8 {
        match self {
            Self::Short(..) => 0,
            Self::Tight(..) => 1,
            Self::Fits(..) => 2,
        }
    }

    /// The less the better, among those that fit equally well.
    const fn figure(&self) -> f64 {
        match self {
            Self::Fits(_, figure) | Self::Tight(_, figure) | Self::Short(_, figure) => *figure,
        }
    }
}

/// How placements are told apart in an answer: framework, TP, PP, CP, EP, sharding.
pub type Kind = (Framework, u32, u32, u32, u32, Sharding);

/// What a search found.
#[derive(Debug, Clone, Default)]
pub struct SearchResult {
    /// The fastest setup that fits with the whole range of its memory; where there is none, the
    /// one that comes nearest to it.
    pub best: Option<Best>,
    /// What became of each kind.
    pub kinds: BTreeMap<Kind, Outcome>,
    /// Why setups could not be judged, each once.
    pub refused: Vec<String>,
    /// Setups that were looked at.
    pub considered: u64,
}

impl SearchResult {
    fn refuse(&mut self, why: String) {
        if !self.refused.contains(&why) {
            self.refused.push(why);
        }
    }

    fn note(&mut self, kind: Kind, new: Outcome) {
        let better = self.kinds.get(&kind).is_none_or(|old| {
            let by_room = new.room().cmp(&old.room());
            by_room.then(old.figure().total_cmp(&new.figure())).is_gt()
        });
        if better {
            self.kinds.insert(kind, new);
        }
    }

    /// The setup that came nearest where none fits, and bytes needed over bytes usable.
    pub fn nearest(&self) -> Option<(&TrainingSetup, f64)> {
        self.kinds
            .values()
            .filter_map(|outcome| match outcome {
                Outcome::Short(setup, ratio) => Some((setup, *ratio)),
                Outcome::Fits(..) | Outcome::Tight(..) => None,
            })
            .min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// How a setup is told apart.
pub(crate) fn kind(setup: &TrainingSetup) -> Kind {
    let layout = &setup.layout;
    (
        setup.framework,
        layout.tensor,
        layout.pipeline,
        layout.context,
        layout.expert,
        setup.sharding,
    )
}

/// The fastest setup that fits, one with room for the range of its memory before any other; of equally fast ones the first, and the simplest come first.
pub fn best(
    shape: &Shape,
    choices: &TrainChoices,
    cluster: &Cluster<'_>,
    physics: &dyn Physics,
) -> SearchResult {
    let mut found = SearchResult::default();
    let choices = &choices.on(cluster);
    let Some(cluster) = &choices.trainers(cluster) else {
        return found;
    };
    let batch = space::global_batch(choices, cluster.gpus);
    let usable = physics.usable(cluster).count() as f64;
    for placement in space::placements(shape, choices, cluster) {
        for micro in space::micro_batches(choices, &placement, batch) {
            let fits = micro_batch(
                choices, cluster, physics, &placement, micro, batch, usable, &mut found,
            );
            if !fits {
                break;
            }
        }
    }
    found
}

/// Judges one micro-batch with as little recomputation as fits; whether any does.
#[expect(clippy::too_many_arguments, reason = "one step of the loops above")]
fn micro_batch(
    choices: &TrainChoices,
    cluster: &Cluster<'_>,
    physics: &dyn Physics,
    placement: &Placement,
    micro: u64,
    batch: u64,
    usable: f64,
    found: &mut SearchResult,
) -> bool {
    let mut fits = false;
    for recompute in space::recomputes(choices, placement.framework) {
        let setup = space::setup(choices, placement, micro, batch, recompute);
        found.considered += 1;
        let memory = match physics.memory(&setup, cluster) {
            Ok(memory) => memory,
            Err(why) => {
                found.refuse(why);
                return false;
            }
        };
        let (needed, most) = memory
            .fullest()
            .map_or((0.0, 0.0), |rank| (rank.reserved.value, rank.reserved.high));
        if needed > usable {
            let ratio = needed / usable.max(1.0);
            found.note(kind(&setup), Outcome::Short(setup, ratio));
            continue;
        }
        let over = most / usable.max(1.0);
        match physics.step(&setup, cluster) {
            Ok(step) => take(found, setup, memory, step, over),
            Err(why) => {
                found.refuse(why);
                return false;
            }
        }
        fits = true;
        if over <= 1.0 {
            return true;
        }
    }
    fits
}

fn take(
    found: &mut SearchResult,
    setup: TrainingSetup,
    memory: TrainingMemory,
    step: StepTime,
    filled: f64,
) {
    let seconds = step.step.value;
    let outcome = if filled <= 1.0 {
        Outcome::Fits(setup.clone(), seconds)
    } else {
        Outcome::Tight(setup.clone(), filled)
    };
    found.note(kind(&setup), outcome);
    let new = Best {
        filled,
        setup,
        memory,
        step,
    };
    if found.best.as_ref().is_none_or(|best| new.precedes(best)) {
        found.best = Some(new);
    }
}
