//! Shortest time left first, greedily.

use super::{Allocation, Ground, RoundJob, RoundPolicy};

/// Jobs in the order of the GPU-time that they still need where they are fastest, of equals the elder;
/// each takes the fastest kind that has room. What is left of each is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ShortestLeft;

impl RoundPolicy for ShortestLeft {
    fn allocate(&mut self, _now_s: f64, jobs: &[RoundJob], ground: &Ground<'_>) -> Vec<Allocation> {
        let needs = |job: &RoundJob| {
            f64::from(ground.speeds.gpus(job.class)) * job.left.unwrap_or(f64::INFINITY)
                / ground.speeds.best(job.class).max(1e-12)
        };
        let mut order: Vec<(f64, usize)> = (jobs.iter().enumerate())
            .map(|(at, job)| (needs(job), at))
            .collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut free = ground.supply.to_vec();
        let mut allocations = Vec::new();
        for (_, job) in order {
            let class = jobs[job].class;
            let gpus = ground.speeds.gpus(class);
            let speed = |kind: &usize| ground.speeds.alone(class, *kind);
            let kinds = (0..free.len()).filter(|kind| free[*kind] >= gpus && speed(kind) > 0.0);
            // Of equally fast kinds the first.
            let best = kinds.rev().max_by(|a, b| speed(a).total_cmp(&speed(b)));
            if let Some(kind) = best {
                free[kind] -= gpus;
                allocations.push(Allocation {
                    job,
                    partner: None,
                    kind,
                });
            }
        }
        allocations
    }
}
