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
pub use fixes::{fixes, is_fixed_by};
pub use room::{Domains, Room, best_domain, spread_room, workers_free, workers_in_all};
pub use words::{shortage_words, span};

use crate::{
    decide::{Effort, Policy, shortage},
    queues::admit,
    world::World,
};
use gpuwise_domain::placement::{JobId, Outcome, Remedy, Report, Shortage};

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
    let mut told: Vec<(JobId, Shortage)> = Vec::new();
    let mut left = most;
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
            let alike = told.iter().find(|(other, _)| {
                let other = world.job(*other).map(|other| &other.job);
                other.is_some_and(|other| asks_alike(other, &state.job))
            });
            *short = match alike {
                Some((_, short)) => *short,
                None => shortage(world, &state.job),
            };
            if alike.is_none() && told.len() < 64 {
                told.push((decision.job, *short));
            }
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
            *found = fixes(world, decision.job, policy, effort);
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

/// Whether what is short for one is short for the other.
fn asks_alike(
    one: &gpuwise_domain::placement::Job,
    other: &gpuwise_domain::placement::Job,
) -> bool {
    one.worker == other.worker
        && one.gang == other.gang
        && one.topology == other.topology
        && one.spread == other.spread
        && one.queue == other.queue
}
