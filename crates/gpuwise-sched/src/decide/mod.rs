//! The kernel: who of those who wait gets a place now.

mod among;
mod gang;
mod in_time;
mod looks;
mod one;
mod rails;
mod shortage;

pub(crate) use gang::scopes;
pub use in_time::late;
pub use looks::Looks;
pub use shortage::shortage;

use crate::{
    moves::Moves,
    policy::Choose,
    queues::{Gate, Limits, Turns},
    world::World,
};
use gpuwise_domain::placement::{JobId, Plan, Report};
use gpuwise_units::Nanoseconds;
use std::borrow::Cow;

pub use gpuwise_domain::placement::Order;

/// How a decision is made.
pub struct Policy {
    /// Who goes first.
    pub order: Order,
    /// Which node is taken.
    pub choose: Box<dyn Choose>,
    /// Whether those behind one who finds no place are looked at where nobody's start is guaranteed.
    pub skips: bool,
    /// Who may be disturbed for whom.
    pub moves: Moves,
    /// Whose start is guaranteed, and against what.
    pub limits: Limits,
    /// What is remembered to say what is short; a cache.
    pub looks: Looks,
}

impl Policy {
    /// As they came, those behind one who finds no place looked at, nobody disturbed and nobody's start
    /// guaranteed.
    pub fn new(choose: Box<dyn Choose>) -> Self {
        Self {
            order: Order::Arrival,
            choose,
            skips: true,
            moves: Moves::NONE,
            limits: Limits::default(),
            looks: Looks::default(),
        }
    }
}

/// How much a decision may take, in steps and never in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Nodes and moves that may be weighed for one job.
    pub steps: u64,
    /// Whether it is said what is short, and what would help.
    pub explains: bool,
}

impl Effort {
    /// What is usual.
    pub const ORDINARY: Self = Self {
        steps: 1_000_000,
        explains: true,
    };
    /// The choice alone.
    pub const BARE: Self = Self {
        steps: 1_000_000,
        explains: false,
    };
}

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
    let mut one = one::Decision {
        now,
        world: Cow::Borrowed(world),
        plan: Plan {
            number: world.target() + 1,
            parent: world.target(),
            made: now,
            actions: Vec::new(),
        },
        report: Report::default(),
        gate: Gate::new(policy.moves.lend),
        policy,
        effort,
        failed: Vec::new(),
    };
    let (order, patience) = (one.policy.order, one.policy.limits.patience);
    let mut turns = Turns::new(now, world, demand, order, patience);
    while let Some((job, aged)) = turns.next(now, &one.world) {
        let goes_on = one.look_at(job, aged, turns.more());
        if !goes_on {
            // Nobody goes ahead of one who finds no place.
            one.behind(job, turns.rest());
            break;
        }
    }
    (one.plan, one.report)
}
