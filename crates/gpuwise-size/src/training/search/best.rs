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
    /// The setup.
    pub setup: TrainingSetup,
    /// Its memory.
    pub memory: TrainingMemory,
    /// Its time.
    pub step: StepTime,
}

/// What became of the placements of one kind.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The fastest of those that fit: its setup and seconds a step.
    Fits(TrainingSetup, f64),
    /// The nearest of those that do not: its setup, bytes needed over bytes usable.
    Short(TrainingSetup, f64),
}

/// How placements are told apart in an answer: framework, TP, PP, CP, EP, sharding.
pub type Kind = (Framework, u32, u32, u32, u32, Sharding);

/// What a search found.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The fastest setup that fits.
    pub best: Option<Best>,
    /// What became of each kind.
    pub kinds: BTreeMap<Kind, Outcome>,
    /// Why setups could not be judged, each once.
    pub refused: Vec<String>,
    /// Setups that were looked at.
    pub considered: u64,
}

impl Found {
    fn refuse(&mut self, why: String) {
        if !self.refused.contains(&why) {
            self.refused.push(why);
        }
    }

    fn note(&mut self, kind: Kind, new: Outcome) {
        let better = match (self.kinds.get(&kind), &new) {
            (None, _) | (Some(Outcome::Short(..)), Outcome::Fits(..)) => true,
            (Some(Outcome::Fits(..)), Outcome::Short(..)) => false,
            (Some(Outcome::Fits(_, old)), Outcome::Fits(_, seconds)) => seconds < old,
            (Some(Outcome::Short(_, old)), Outcome::Short(_, ratio)) => ratio < old,
        };
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
                Outcome::Fits(..) => None,
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

/// The fastest setup that fits; of equally fast ones the first, and the simplest come first.
pub fn best(
    shape: &Shape,
    choices: &TrainChoices,
    cluster: &Cluster<'_>,
    physics: &dyn Physics,
) -> Found {
    let mut found = Found::default();
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
    found: &mut Found,
) -> bool {
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
        let needed = memory.fullest().map_or(0.0, |rank| rank.reserved.value);
        if needed > usable {
            let ratio = needed / usable.max(1.0);
            found.note(kind(&setup), Outcome::Short(setup, ratio));
            continue;
        }
        match physics.step(&setup, cluster) {
            Ok(step) => take(found, setup, memory, step),
            Err(why) => {
                found.refuse(why);
                return false;
            }
        }
        return true;
    }
    false
}

fn take(found: &mut Found, setup: TrainingSetup, memory: TrainingMemory, step: StepTime) {
    let seconds = step.step.value;
    found.note(kind(&setup), Outcome::Fits(setup.clone(), seconds));
    let faster = found
        .best
        .as_ref()
        .is_none_or(|best| seconds < best.step.step.value);
    if faster {
        found.best = Some(Best {
            setup,
            memory,
            step,
        });
    }
}
