//! The kernel: who of those who wait gets a place now.

mod gang;
mod shortage;

pub(crate) use gang::scopes;
pub use shortage::shortage;

use crate::{
    moves::{self, Moves, Room},
    policy::Choose,
    world::{JobState, World},
};
use gpuwise_domain::placement::{
    Action, Decision, Event, Job, JobId, Outcome, Plan, Report, Shortage, Stamped,
};
use gpuwise_units::Nanoseconds;
use std::borrow::Cow;

/// In which order those who wait are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As they came.
    Arrival,
    /// By priority, then as they came.
    Priority,
}

/// How a decision is made.
pub struct Policy {
    /// Who goes first.
    pub order: Order,
    /// Which node is taken.
    pub choose: Box<dyn Choose>,
    /// Whether those behind one who finds no place are looked at.
    pub skips: bool,
    /// Who may be disturbed for whom.
    pub moves: Moves,
}

impl Policy {
    /// As they came, those behind one who finds no place looked at, nobody disturbed.
    pub fn new(choose: Box<dyn Choose>) -> Self {
        Self {
            order: Order::Arrival,
            choose,
            skips: true,
            moves: Moves::NONE,
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
    let mut report = Report::default();
    let mut plan = Plan {
        number: world.target() + 1,
        parent: world.target(),
        made: now,
        actions: Vec::new(),
    };
    // Copied only if somebody is placed while others are still to be looked at.
    let mut world = Cow::Borrowed(world);
    let order = ordered(&world, demand, policy.order);
    for (at, id) in order.iter().enumerate() {
        let Some(state) = world.job(*id) else {
            continue;
        };
        let job: &Job = &state.job;
        // Who takes back GPUs keeps what it has of its node, which only disturbances know of.
        let returns = state.wanted.is_some();
        let found = (!returns).then(|| gang::seats(&world, job, policy, effort));
        let Some(found) = found.flatten() else {
            if returns || policy.moves.any() {
                let room = moves::make_room(world.to_mut(), *id, &policy.moves, effort, now);
                if let Some(room) = room {
                    hold(world.to_mut(), now, &room.actions);
                    report.decisions.push(moved(*id, &room));
                    plan.actions.extend(room.actions);
                    continue;
                }
            }
            let Some(state) = world.job(*id) else {
                continue;
            };
            let job = &state.job;
            report.decisions.push(waits(&world, job, effort));
            let room = crate::mig::make_room(&world, &job.worker.gpu);
            if !room.is_empty() {
                hold(world.to_mut(), now, &room);
                plan.actions.extend(room);
            }
            if policy.skips {
                continue;
            }
            break;
        };
        let first = plan.actions.len();
        plan.actions.extend(found.prepare);
        plan.actions.push(Action::Place {
            job: *id,
            seats: found.seats,
        });
        report.decisions.push(Decision {
            job: *id,
            outcome: Outcome::Placed,
            candidates: found.candidates,
            weighed: found.weighed,
        });
        if at + 1 < order.len() {
            let taken = plan.actions.get(first..).unwrap_or_default();
            hold(world.to_mut(), now, taken);
        }
    }
    (plan, report)
}

/// A decision for which somebody was disturbed, or something made ready.
fn moved(job: JobId, room: &Room) -> Decision {
    // Thousandths of a GPU times nanoseconds are not for people.
    let lost = i64::try_from(room.cost / 1_000_000_000_000).unwrap_or(i64::MAX);
    let disturbed = i64::try_from(room.disturbed.len()).unwrap_or(i64::MAX);
    Decision {
        job,
        outcome: Outcome::Placed,
        candidates: 1,
        weighed: vec![("disturbed", disturbed), ("lost GPU-seconds", lost)],
    }
}

/// Begins actions in a copy of the world, so that those who are looked at next see them.
fn hold(world: &mut World, now: Nanoseconds, actions: &[Action]) {
    for action in actions {
        let event = Event::Begun(action.clone());
        // What was just found free can be taken.
        let _ = world.apply(&Stamped { at: now, event });
    }
}

fn waits(world: &World, job: &Job, effort: Effort) -> Decision {
    let shortage = if effort.explains {
        shortage(world, job)
    } else {
        Shortage::Untold
    };
    Decision {
        job: job.id,
        outcome: Outcome::Waits {
            shortage,
            start: None,
            cures: Vec::new(),
        },
        candidates: 0,
        weighed: Vec::new(),
    }
}

fn ordered(world: &World, demand: &[JobId], order: Order) -> Vec<JobId> {
    let waiting = demand
        .iter()
        .copied()
        .filter(|id| world.job(*id).is_some_and(JobState::seeks));
    let mut ids: Vec<JobId> = waiting.collect();
    if ids.len() > 1 {
        ids.sort_by_key(|id| {
            let job = world.job(*id).map(|state| &state.job);
            let priority = job.map_or(0, |job| i64::from(job.priority));
            let first = if order == Order::Priority {
                -priority
            } else {
                0
            };
            // Who lent out its GPUs gets them back before anybody else gets some.
            let returns = world.job(*id).is_some_and(|state| state.wanted.is_some());
            (!returns, first, job.map(|job| job.submitted), *id)
        });
        ids.dedup();
    }
    ids
}
