//! The kernel: who of those who wait gets a place now.

mod decision;
mod eligible;
mod gang;
mod in_time;
mod rails;
mod repair;
mod shortage;
mod shortage_index;
mod turn;
mod verdicts;
mod wake;

pub(crate) use gang::scopes;
pub use in_time::late;
pub use repair::repair;
pub use shortage::shortage;
pub use shortage_index::ShortageIndex;
pub use wake::{QUANTUM, tidy_wake_at, wake_at};

use crate::{
    disruption::{Disruptions, Tidy},
    policy::NodeSelector,
    queues::{AdmissionGate, Limits, SchedulingOrder},
    rounds::Rounds,
    world::{JobState, NodeState, World},
};
use gpuwise_domain::placement::{JobId, NodeId, Plan, Report, Shortage};
use gpuwise_units::Nanoseconds;
use std::{borrow::Cow, collections::BTreeSet};

pub use gpuwise_domain::placement::Order;
use verdicts::Verdicts;

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
    /// What is tidied up beside the placing of jobs, by [`tidy`](crate::disruption::tidy); `None`: nothing.
    pub upkeep: Option<Tidy>,
    /// What is remembered to say what is short; a cache.
    pub shortages: ShortageIndex,
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
            upkeep: None,
            shortages: ShortageIndex::default(),
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
}

/// For how many jobs a decision may take all the steps of one.
const WHOLE: u64 = 16;

/// Decides who of `demand` gets a place now. Jobs that do not wait are passed over.
///
/// The plan's actions, applied in their order as done, give the world that the plan promises.
pub fn decide(
    now: Nanoseconds,
    world: &World,
    demand: &[JobId],
    policy: &mut Policy,
    effort: Effort,
) -> (Plan, Report) {
    let mut one = decision::Decision {
        now,
        world: Cow::Borrowed(world),
        plan: Plan {
            number: world.target() + 1,
            parent: world.target(),
            made: now,
            actions: Vec::new(),
        },
        report: Report::default(),
        gate: AdmissionGate::new(policy.disruptions.lend),
        policy,
        effort,
        verdicts: Verdicts::default(),
        left: effort.steps.saturating_mul(WHOLE),
    };
    if world
        .closed()
        .first()
        .is_some_and(|(until, _)| *until <= now)
    {
        one.world.to_mut().reopen(now);
    }
    if let Some(rounds) = one.policy.rounds {
        let seekers: BTreeSet<JobId> = demand.iter().copied().collect();
        one.turn(&rounds, &|job| seekers.contains(&job));
    }
    let (order, starvation_timeout) = (one.policy.order, one.policy.limits.starvation_timeout);
    // Who has got its turn is placed.
    let left: Vec<JobId> = demand.iter().copied().filter(|id| one.seeks(*id)).collect();
    let mut turns = SchedulingOrder::new(now, world, &left, order, starvation_timeout);
    while let Some((job, aged)) = turns.next(now, &one.world) {
        let goes_on = one.look_at(job, aged, turns.more());
        if !goes_on {
            // Nobody goes ahead of one who finds no place.
            one.behind(job, turns.rest());
            break;
        }
    }
    one.barred(demand);
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
