//! When time alone changes a decision.
//!
//! Between two events a decision that was carried out stays the same until one of a few moments: somebody
//! has waited too long, a reservation begins or ends, a budget's period ends, a holder has been idle for
//! long enough, a wait after a failure is over, or one who was expected to end has not. Where something
//! changes with every moment (past use that fades, a job that is overdue behind which others fit more and
//! more, what is left of a budget's period) the next look is after [`QUANTUM`].

use super::{Order, Policy};
use crate::world::World;
use gpuwise_units::Nanoseconds;

/// How long is waited where something changes with every moment: 1 s.
pub const QUANTUM: Nanoseconds = Nanoseconds(1_000_000_000);

/// The earliest of some moments after now.
struct Earliest {
    now: Nanoseconds,
    found: Option<Nanoseconds>,
    /// Whether something changes with every moment.
    drifts: bool,
}

impl Earliest {
    const fn after(now: Nanoseconds) -> Self {
        Self {
            now,
            found: None,
            drifts: false,
        }
    }

    fn offer(&mut self, moment: Nanoseconds) {
        if moment > self.now && self.found.is_none_or(|found| moment < found) {
            self.found = Some(moment);
        }
    }

    fn offer_some(&mut self, moment: Option<Nanoseconds>) {
        if let Some(moment) = moment {
            self.offer(moment);
        }
    }
}

/// When a decision can come out otherwise than now though nothing happens; `None`: it cannot.
///
/// To be asked of a world for which a decision was made at `now`, and carried out. What it depends on of jobs is kept in
/// [`Policy::moments`]: it takes as long as jobs have changed since it was asked last.
pub fn wake_at(world: &World, policy: &mut Policy, now: Nanoseconds) -> Option<Nanoseconds> {
    let mut next = next(world, policy, now);
    if next.drifts {
        next.offer(now + QUANTUM);
    }
    next.found
}

/// The same for simulated time, which would stand still where something changes with every moment: of moments
/// those alone that are known beforehand.
pub fn moment_at(world: &World, policy: &mut Policy, now: Nanoseconds) -> Option<Nanoseconds> {
    next(world, policy, now).found
}

fn next(world: &World, policy: &mut Policy, now: Nanoseconds) -> Earliest {
    follow(world, policy);
    let policy = &*policy;
    let moments = &policy.moments;
    let mut next = Earliest::after(now);
    next.offer_some(moments.sought(now));
    if let Some(rounds) = policy.rounds
        && (moments.seekers > 0 || world.kinds().len() > 1)
        && moments.takes_turns > 0
    {
        next.offer(rounds.next(now));
    }
    if moments.seekers == 0 {
        return next;
    }
    for (until, _) in world.closed() {
        next.offer(*until);
    }
    for reserved in world.reservations() {
        next.offer(reserved.from);
        next.offer(reserved.until);
    }
    // When somebody can be disrupted who cannot be now.
    next.offer_some(moments.stays_over(now));
    next.offer_some(moments.idle(now));
    of_queues(world, policy, moments.endless > 0, &mut next);
    // When somebody was expected to end: behind one whose start is reserved, others find room by that. Whoever is
    // overdue is expected to be so for as long again, which moves reserved starts on with every moment.
    let (end, overdue) = moments.ends(now);
    next.offer_some(end);
    next.drifts |= overdue;
    next
}

/// Brings what is kept of jobs up to a world.
fn follow(world: &World, policy: &mut Policy) {
    let mut moments = std::mem::take(&mut policy.moments);
    moments.follow(world, policy);
    policy.moments = moments;
}

fn of_queues(world: &World, policy: &Policy, endless: bool, next: &mut Earliest) {
    let rates = world.shares().rates();
    let budgets = world.queues().iter().any(|queue| queue.budget.is_some());
    if budgets && let Some(end) = rates.period_end(next.now) {
        next.offer(end);
        next.drifts |= endless;
    }
    let sharing = world.shares().sharing();
    let fades = match policy.order {
        Order::Share => sharing.half_life.is_some() && sharing.past_milli > 0,
        // Who holds something uses more with every moment.
        Order::FairTree => true,
        _ => false,
    };
    next.drifts |= fades;
}

/// When what is tidied up can come out otherwise than now though nothing happens; `None`: it cannot.
pub fn tidy_wake_at(world: &World, policy: &mut Policy, now: Nanoseconds) -> Option<Nanoseconds> {
    let what = policy.upkeep?;
    follow(world, policy);
    let mut next = Earliest::after(now);
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
        next.offer_some(policy.moments.stays_over(now));
        for reserved in world.reservations() {
            next.offer(reserved.from);
            next.offer(reserved.until);
        }
    }
    next.found
}
