//! What a decision weighed and what is short, deepened: exact shortages, fixes that were tried, figures
//! of a fleet.

mod bound;
mod capacity;
mod figures;
mod fixes;
mod quota_words;
mod room;
mod words;

pub use bound::most_placed;
pub use capacity::{Addition, additions, idle, repartitions, returnable};
pub use figures::{FleetFigures, Stranded, Typical, fleet_figures, typical};
use fixes::{Running, fixes_beside};
pub use fixes::{fixes, is_fixed_by, supply::node_like};
pub use room::{Domains, Room, best_domain, spread_room, workers_free, workers_in_all};
pub use words::{shortage_words, span};

use crate::{
    decide::{Effort, Policy},
    queues::admit,
    world::{StoredJob, World},
};
use gpuwise_domain::placement::{
    Gang, Outcome, Remedy, Report, Shortage, Spread, TopologyWish, WorkerAsk,
};
use rustc_hash::FxHashMap;

/// Says of jobs that wait what is short, when they are expected to start, and what would help.
///
/// `world` is the one that the plan gives. The first `most` jobs that wait get fixes, in the report's
/// order; all get their shortage. Those that ask for the same get the same, and are looked at once.
pub fn deepen(
    world: &World,
    report: &mut Report,
    policy: &mut Policy,
    effort: Effort,
    most: usize,
) {
    let mut told: FxHashMap<Asked, Shortage> = FxHashMap::default();
    let mut left = most;
    let mut running = None;
    for decision in &mut report.decisions {
        let Outcome::Waits {
            shortage: short,
            start,
            fixes: found,
        } = &mut decision.outcome
        else {
            continue;
        };
        let Some(state) = world.job(decision.job) else {
            continue;
        };
        if *short == Shortage::Untold {
            let told = told.entry(asked(&state.job));
            *short = *told.or_insert_with(|| policy.shortages.shortage(world, &state.job));
        }
        // Others may have been placed since: what is said is of the fleet as it is shown.
        if matches!(short, Shortage::Quota(_))
            && let Err(now @ Shortage::Quota(_)) = admit(world, &state.job, world.now())
        {
            *short = now;
        }
        // Nothing is short for one who may not go ahead, or not yet.
        let behind = matches!(
            short,
            Shortage::BehindHead { .. }
                | Shortage::Held
                | Shortage::BackOff { .. }
                | Shortage::Avoided { .. }
                | Shortage::Unfenced { .. }
                | Shortage::Leaving
        );
        if left > 0 && found.is_empty() && !behind {
            left -= 1;
            let running = running.get_or_insert_with(|| Running::of(world));
            *found = fixes_beside(world, decision.job, policy, effort, running);
            let wait = found.iter().find_map(|fix| match fix.remedy {
                Remedy::Wait(_) => Some(fix.after),
                _ => None,
            });
            *start = start
                .or(wait
                    .map(|wait| gpuwise_units::Nanoseconds(world.now().0.saturating_add(wait.0))));
        }
    }
}

/// What is short for one is short for all who ask so.
type Asked = (WorkerAsk, Gang, Option<TopologyWish>, Option<Spread>);

fn asked(job: &StoredJob) -> Asked {
    (job.worker, job.gang, job.topology, job.spread)
}
