//! The kernel: who of those who wait gets a place now.

mod backlog;
mod decision;
mod eligible;
mod gang;
mod in_time;
mod moments;
mod pairing;
mod rails;
mod repair;
mod shortage;
mod shortage_index;
mod turn;
mod verdicts;
mod wake;

pub use backlog::Backlog;
pub(crate) use gang::scopes;
pub use in_time::late;
pub use moments::Moments;
pub use repair::repair;
pub use shortage::shortage;
pub use shortage_index::ShortageIndex;
pub use wake::{QUANTUM, moment_at, tidy_wake_at, wake_at};

use crate::{
    disruption::{Disruptions, Tidy},
    policy::NodeSelector,
    queues::{Limits, SchedulingOrder},
    rounds::{Pairs, Rounds},
    world::{JobState, NodeState, World},
};
use gpuwise_domain::placement::{JobId, NodeId, Plan, Report, Shortage};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeSet;

use backlog::{Rules, Turns};
pub use gpuwise_domain::placement::Order;

pub struct Policy {
    /// Who goes first.
    pub order: Order,
    pub selector: Box<dyn NodeSelector>,
    /// Whether those behind one who finds no place are looked at where nobody's start is reserved.
    pub skips: bool,
    /// Who may be disrupted for whom.
    pub disruptions: Disruptions,
    /// Whose start is reserved, and against what.
    pub limits: Limits,
    /// Whether jobs that may be stopped take turns, round by round; `None`: who runs goes on.
    pub rounds: Option<Rounds>,
    /// Which jobs may share a GPU in a round.
    pub pairs: Pairs,
    /// What is tidied up beside the placing of jobs, by [`tidy`](crate::disruption::tidy); `None`: nothing.
    pub upkeep: Option<Tidy>,
    /// What is remembered to say what is short; a cache.
    pub shortages: ShortageIndex,
    /// Who waits, kept from one decision to the next; a cache.
    pub backlog: Backlog,
    /// When time alone changes something for jobs, kept likewise; a cache.
    pub moments: Moments,
}

impl Policy {
    /// As they came, those behind one who finds no place looked at, nobody disrupted and nobody's start
    /// guaranteed.
    pub fn new(selector: Box<dyn NodeSelector>) -> Self {
        Self {
            order: Order::Arrival,
            selector,
            skips: true,
            disruptions: Disruptions::NONE,
            limits: Limits::default(),
            rounds: None,
            pairs: Pairs::default(),
            upkeep: None,
            shortages: ShortageIndex::default(),
            backlog: Backlog::default(),
            moments: Moments::default(),
        }
    }
}

/// How much a decision may take, in steps and never in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Nodes, moves and events that may be weighed for one job; of all jobs of a decision together 16 times
    /// as many. What is reclaimed, reserved and said to be short all takes of it.
    pub steps: u64,
    /// Whether it is said what is short, and what would help.
    pub explains: bool,
}

impl Effort {
    pub const ORDINARY: Self = Self {
        steps: 1_000_000,
        explains: true,
    };
    pub const BARE: Self = Self {
        steps: 1_000_000,
        explains: false,
    };

    /// Steps of all jobs of a decision together: one that has taken so many was cut short.
    pub const fn of_all(self) -> u64 {
        self.steps.saturating_mul(WHOLE)
    }
}

/// For how many jobs a decision may take all the steps of one.
const WHOLE: u64 = 16;

/// Decides who of `demand` gets a place now. Jobs that do not wait are passed over. Everybody is looked at,
/// from scratch: for all who wait in a world that goes on there is [`decide_pending`].
///
/// The plan's actions, applied in their order as done, give the world that the plan promises.
pub fn decide(
    now: Nanoseconds,
    world: &World,
    demand: &[JobId],
    policy: &mut Policy,
    effort: Effort,
) -> (Plan, Report) {
    let mut one = decision::Decision::new(now, world, policy, effort);
    if let Some(rounds) = one.policy.rounds {
        let seekers: BTreeSet<JobId> = demand.iter().copied().collect();
        one.turn(rounds, &|job| seekers.contains(&job));
        one.alone_again();
    }
    let (order, starvation_timeout) = (one.policy.order, one.policy.limits.starvation_timeout);
    // Who has got its turn is placed.
    let left: Vec<JobId> = demand.iter().copied().filter(|id| one.seeks(*id)).collect();
    let mut turns = SchedulingOrder::new(now, world, &left, order, starvation_timeout);
    while let Some((job, aged)) = turns.next(now, &one.world) {
        if one.look_at(job, aged, turns.more()).stops {
            // Nobody goes ahead of one who finds no place.
            one.behind(job, turns.rest());
            break;
        }
    }
    one.barred(demand);
    one.report.steps = effort.of_all() - one.left;
    (one.plan, one.report)
}

/// Of whom a report tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tells {
    /// Of all who seek a place.
    Everybody,
    /// Of those who were looked at: who gets something is among them.
    Changes,
    /// Of one who seeks a place, and of those who were looked at.
    Of(JobId),
}

/// Decides who of all that seek a place in a world gets one now, but for those who are left out: the plan is the
/// one of [`decide`].
///
/// Who waits is kept in [`Policy::backlog`] from one decision to the next. Where a report need not tell of
/// everybody, only those are looked at for whom something may have changed.
pub fn decide_pending(
    now: Nanoseconds,
    world: &World,
    left_out: &dyn Fn(JobId) -> bool,
    policy: &mut Policy,
    effort: Effort,
    tells: Tells,
) -> (Plan, Report) {
    if policy.rounds.is_some() {
        // Who gets a turn depends on all who want one.
        let seeking = world.jobs().filter(|(_, state)| state.seeks());
        let demand: Vec<JobId> = seeking
            .map(|(id, _)| id)
            .filter(|id| !left_out(*id))
            .collect();
        return decide(now, world, &demand, policy, effort);
    }
    let mut backlog = std::mem::take(&mut policy.backlog);
    let rules = Rules::of(policy);
    let mut one = decision::Decision::new(now, world, policy, effort);
    backlog.follow(&one.world, rules);
    let mut turns = Turns::new(&backlog, &one, (now, rules), left_out, tells);
    let mut stopped = None;
    while let Some(next) = turns.next(&backlog, &one) {
        let more = turns.more(&backlog, &one, &next);
        let looked = one.look_at(next.job, next.aged, more);
        turns.looked(&backlog, &one, &next, looked.closes, looked.no_place);
        if looked.stops {
            stopped = Some(next.job);
            break;
        }
    }
    let known = std::mem::take(&mut turns.looked);
    let told = |id: &JobId| match tells {
        Tells::Everybody => !left_out(*id),
        Tells::Changes => false,
        Tells::Of(job) => *id == job,
    };
    // Nobody goes ahead of one who finds no place.
    if let Some(head) = stopped.filter(|_| tells != Tells::Changes) {
        let mut rest = turns.rest(&backlog, &one);
        rest.retain(told);
        one.behind(head, rest);
    }
    let mut alone: Vec<JobId> = backlog.alone().filter(told).collect();
    alone.sort_unstable();
    one.barred(&alone);
    let known = known.into_iter().map(|(line, found)| {
        let stands = found.filter(|(class, _)| one.verdicts.finds_none(*class));
        (line, stands.map(|(_, kinds)| kinds))
    });
    let known: Vec<_> = known.collect();
    backlog.learns(&one.world, one.verdicts.freed() > 0, known);
    one.policy.backlog = backlog;
    one.report.steps = effort.of_all() - one.left;
    (one.plan, one.report)
}

/// Why one who seeks a place gets none now, wherever there is room: it is held back, waits after a
/// failure, or may still run where it was. `None`: it may have one.
pub(crate) fn barred(world: &World, state: &JobState, now: Nanoseconds) -> Option<Shortage> {
    if !state.may_start(now) {
        let until = state.trouble().map(|trouble| trouble.until);
        return Some(match until.filter(|_| !state.hold) {
            Some(until) => Shortage::BackOff { until },
            None => Shortage::Held,
        });
    }
    if !state.stopping {
        return None;
    }
    let mut hosts = state.leaving_hosts().iter();
    let suspected = |id: &&NodeId| world.node(**id).is_some_and(NodeState::is_suspected);
    match hosts.find(suspected) {
        Some(node) => Some(Shortage::Unfenced { node: *node }),
        None => state.stop().is_none().then_some(Shortage::Leaving),
    }
}
