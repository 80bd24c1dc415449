//! Our policy for short times in the system, with and without knowing how long jobs take.
//!
//! A round is worth to a job the part of its work that it does, measured in time on a GPU drawn from the
//! fleet: who gains most from a fast GPU gets it. What is known of durations adds a preference for who
//! will end soon, the stronger the more GPUs are asked for: with much to spare it helps nobody that a
//! short job is fast. Pairs share GPUs while more is asked for than four fifths of what there is.

use super::{
    Allocation, Ground, RoundJob, RoundPolicy,
    assign::assign,
    packing::{Choice, RoundValues},
};

/// From this much asked for, in parts of what there is, jobs may share GPUs.
const CROWDED: f64 = 0.8;
/// Who has not run for so long is worth twice as much, after twice that time five times as much, and
/// so on with the square: nobody waits for ever. In seconds.
const PATIENCE_S: f64 = 86_400.0;
/// The preference for short jobs falls with the cube of what is asked for over what there is.
const CROWDING_POWER: i32 = 3;

/// Ours for the mean time from coming to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JctAssignment {
    /// Whether what is left of jobs may be used.
    pub(super) known: bool,
    /// Whether jobs may share GPUs.
    pub(super) sharing: bool,
}

impl JctAssignment {
    fn steps(self, now_s: f64, jobs: &[RoundJob], ground: &Ground<'_>, crowded: f64) -> Vec<f64> {
        let means: Vec<f64> = jobs
            .iter()
            .map(|job| ground.speeds.mean(job.class, ground.supply).max(1e-12))
            .collect();
        let left = |(job, mean): (&RoundJob, &f64)| job.left.unwrap_or(0.0) / mean;
        let total: f64 = jobs.iter().zip(&means).map(left).sum();
        let spare = total / jobs.len() as f64 / crowded.max(0.3).powi(CROWDING_POWER);
        jobs.iter()
            .zip(&means)
            .map(|(job, mean)| {
                let waited = ((now_s - job.served) / PATIENCE_S).max(0.0);
                let soon = if self.known {
                    left((job, mean)) + spare.max(1e-9)
                } else {
                    1.0
                };
                job.weight * (1.0 + waited * waited) / soon / mean
            })
            .collect()
    }
}

impl RoundPolicy for JctAssignment {
    fn shares_gpus(&self) -> bool {
        self.sharing
    }

    fn allocate(&mut self, now_s: f64, jobs: &[RoundJob], ground: &Ground<'_>) -> Vec<Allocation> {
        let crowded = asked_over_there(jobs, ground);
        let step = self.steps(now_s, jobs, ground, crowded);
        let seen: Vec<RoundJob> = (jobs.iter())
            .map(|job| RoundJob {
                left: job.left.filter(|_| self.known),
                ..*job
            })
            .collect();
        let worths = RoundValues {
            jobs: &seen,
            ground,
            step: &step,
            without: &vec![false; jobs.len()],
        };
        let mut choices = worths.alone();
        if self.sharing && crowded > CROWDED {
            worths.pairs(&mut choices);
        }
        allocations(&choices, jobs.len(), ground.supply)
    }
}

/// GPUs asked for over GPUs there.
pub(super) fn asked_over_there(jobs: &[RoundJob], ground: &Ground<'_>) -> f64 {
    let asked: f64 = (jobs.iter())
        .map(|job| f64::from(ground.speeds.gpus(job.class)))
        .sum();
    let there: f64 = ground.supply.iter().map(|count| f64::from(*count)).sum();
    asked / there.max(1.0)
}

/// The allocations of the best assignment.
pub(super) fn allocations(choices: &[Choice], jobs: usize, supply: &[u32]) -> Vec<Allocation> {
    let chosen = assign(choices, jobs, supply).into_iter();
    let allocation = |choice: &Choice| Allocation {
        job: choice.job,
        partner: choice.partner,
        kind: choice.kind,
    };
    chosen.map(|at| allocation(&choices[at])).collect()
}
