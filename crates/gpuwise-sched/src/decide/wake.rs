//! When time alone changes a decision.
//!
//! Between two events a decision that was carried out stays the same until one of a few moments: somebody
//! has waited too long, a reservation begins or ends, a budget's period ends, a holder has been idle for
//! long enough, a wait after a failure is over, or one who was expected to end has not. Where something
//! changes with every moment (past use that fades, a job that is overdue behind which others fit more and
//! more, what is left of a budget's period) the next look is after [`QUANTUM`].

use super::{Order, Policy};
use crate::{
    disruption::{Tidy, restart_of},
    queues::{left, length},
    world::{JobState, Phase, World},
};
use gpuwise_units::Nanoseconds;

/// How long is waited where something changes with every moment: 1 s.
pub const QUANTUM: Nanoseconds = Nanoseconds(1_000_000_000);

/// The earliest of some moments after now.
struct Earliest {
    now: Nanoseconds,
    found: Option<Nanoseconds>,
}

impl Earliest {
    fn offer(&mut self, moment: Nanoseconds) {
        if moment > self.now && self.found.is_none_or(|found| moment < found) {
            self.found = Some(moment);
        }
    }
}

/// When a decision can come out otherwise than now though nothing happens; `None`: it cannot.
///
/// To be asked of a world for which a decision was made at `now`, and carried out.
pub fn wake_at(world: &World, policy: &Policy, now: Nanoseconds) -> Option<Nanoseconds> {
    let mut next = Earliest { now, found: None };
    let mut seekers = 0_u32;
    let mut endless = false;
    for (_, state) in world.jobs().filter(|(_, state)| state.seeks()) {
        seekers += 1;
        endless |= state.job.duration.is_none();
        if let Some(timeout) = policy.limits.starvation_timeout {
            next.offer(state.job.submitted + timeout);
        }
        waits_over(state, &mut next);
    }
    if let Some(rounds) = policy.rounds
        && (seekers > 0 || world.kinds().len() > 1)
        && world.jobs().any(|(_, state)| takes_turns(state))
    {
        next.offer(rounds.next(now));
    }
    if seekers == 0 {
        return next.found;
    }
    for (until, _) in world.closed() {
        next.offer(*until);
    }
    for reserved in world.reservations() {
        next.offer(reserved.from);
        next.offer(reserved.until);
    }
    idle_and_disrupted(world, policy, &mut next);
    of_queues(world, policy, endless, &mut next);
    backfill(world, policy, &mut next);
    next.found
}

/// Whether a round can end for it.
fn takes_turns(state: &JobState) -> bool {
    matches!(state.phase, Phase::Running { .. }) && restart_of(&state.job).is_some()
}

/// When what a job does not do after failures is over.
fn waits_over(state: &JobState, next: &mut Earliest) {
    let Some(trouble) = state.trouble() else {
        return;
    };
    next.offer(trouble.until);
    for (_, until) in &trouble.avoids {
        next.offer(*until);
    }
}

/// When somebody can be disrupted who cannot be now.
fn idle_and_disrupted(world: &World, policy: &Policy, next: &mut Earliest) {
    for (_, state) in world.jobs() {
        if let Some(trouble) = state.trouble() {
            next.offer(trouble.stays_until);
        }
        if let Some(idle) = policy.disruptions.reclaim
            && let Some(since) = state.idle_since(idle.busy_milli)
        {
            next.offer(since + idle.after);
        }
    }
}

fn of_queues(world: &World, policy: &Policy, endless: bool, next: &mut Earliest) {
    let rates = world.shares().rates();
    let budgets = world.queues().iter().any(|queue| queue.budget.is_some());
    if budgets && let Some(end) = rates.period_end(next.now) {
        next.offer(end);
        if endless {
            next.offer(next.now + QUANTUM);
        }
    }
    let sharing = world.shares().sharing();
    let fades = match policy.order {
        Order::Share => sharing.half_life.is_some() && sharing.past_milli > 0,
        // Who holds something uses more with every moment.
        Order::FairTree => true,
        _ => false,
    };
    if fades {
        next.offer(next.now + QUANTUM);
    }
}

/// When somebody was expected to end: behind one whose start is reserved, others find room by that. Whoever
/// is overdue is expected to be so for as long again, which moves reserved starts on with every moment.
fn backfill(world: &World, policy: &Policy, next: &mut Earliest) {
    let limits = policy.limits;
    let ahead = limits.reservations > 0 || limits.starvation_timeout.is_some();
    if !ahead && world.reservations().is_empty() {
        return;
    }
    for (id, state) in world.jobs() {
        if !matches!(state.phase, Phase::Running { .. }) {
            continue;
        }
        let Some(belief) = state.job.duration else {
            continue;
        };
        let planned = length(belief, limits.padding_sigmas);
        let done = world.done_by(next.now, id);
        if done >= planned {
            next.offer(next.now + QUANTUM);
            continue;
        }
        let rest = left(
            world,
            state,
            &state.assignments,
            done,
            limits.padding_sigmas,
        );
        if let Some(rest) = rest {
            next.offer(next.now + rest);
        }
    }
}

/// When what is tidied up can come out otherwise than now though nothing happens; `None`: it cannot.
pub fn tidy_wake_at(world: &World, what: &Tidy, now: Nanoseconds) -> Option<Nanoseconds> {
    let mut next = Earliest { now, found: None };
    if let Some(after) = what.detach_after {
        for (_, since) in world.upkeep().idle() {
            next.offer(since + after);
        }
    }
    if let Some(budget) = what.defragment {
        for at in world.upkeep().migrations() {
            next.offer(at + budget.per);
        }
    }
    if what.evacuate || what.grow || what.defragment.is_some() {
        for (until, _) in world.closed() {
            next.offer(*until);
        }
        for (_, state) in world.jobs() {
            if let Some(trouble) = state.trouble() {
                next.offer(trouble.stays_until);
            }
        }
        for reserved in world.reservations() {
            next.offer(reserved.from);
            next.offer(reserved.until);
        }
    }
    next.found
}
