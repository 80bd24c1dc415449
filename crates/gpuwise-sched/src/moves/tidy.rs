//! What is tidied up beside the placing of jobs: nodes that are drained are left, idle pooled GPUs go
//! back, elastic jobs grow into what nobody wants, and a few jobs move so that more of what is free can
//! be used. A decision of its own, with a plan like any other.

use super::{
    Moves,
    cost::{For, restart_of},
    grow, pieces,
    scratch::Scratch,
    search::{Site, seats},
};
use crate::{
    decide::Effort,
    fit::Scope,
    queues::milli_of,
    world::{Held, Link, Phase, World},
};
use gpuwise_domain::placement::{Action, Cause, GpuId, Health, Home, JobId, NodeId, Plan};
use gpuwise_units::Nanoseconds;
use std::collections::{BTreeMap, VecDeque};

/// What is tidied up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tidy {
    /// Whether jobs that may be stopped leave nodes that are drained.
    pub evacuate: bool,
    /// Pooled GPUs that have been idle for so long go back; `None`: none do.
    pub detach_after: Option<Nanoseconds>,
    /// Whether elastic jobs grow while nobody waits.
    pub grow: bool,
    /// How much may be disturbed to have fewer pieces; `None`: nothing.
    pub defragment: Option<Budget>,
}

/// How much disturbance a fleet bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// So many moves,
    pub moves: u32,
    /// and so much GPU-time lost by them,
    pub lost: Nanoseconds,
    /// in so long.
    pub per: Nanoseconds,
    /// For how long what a move frees is counted: it must be worth more GPU-time than the move loses.
    pub horizon: Nanoseconds,
}

/// What was seen and done before: a cache that can be begun anew, then with a fresh budget.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Since when pooled GPUs were seen idle at their nodes.
    idle: BTreeMap<GpuId, Nanoseconds>,
    /// Moves, with what each lost in thousandths of a GPU times nanoseconds.
    moved: VecDeque<(Nanoseconds, u128)>,
}

/// A move and what it is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gain {
    /// Who moves.
    pub job: JobId,
    /// Thousandths of GPUs that typical jobs can use then and could not before.
    pub usable_milli: u64,
    /// What the move loses, in thousandths of a GPU times nanoseconds.
    pub lost: u128,
}

impl Ledger {
    /// Notes what is idle now.
    fn watch(&mut self, now: Nanoseconds, world: &World) {
        let idle = |id: &GpuId| {
            world.gpu(*id).is_some_and(|gpu| {
                gpu.held == Held::Free && gpu.link == Link::Here && gpu.leaving.is_empty()
            })
        };
        self.idle.retain(|id, _| idle(id));
        if world.pools().is_empty() {
            return;
        }
        for (gpu, id) in world.gpus().iter().zip((0..).map(GpuId)) {
            if matches!(gpu.gpu.home, Home::Pool(_)) && idle(&id) {
                self.idle.entry(id).or_insert(now);
            }
        }
    }

    /// Moves and GPU-time that are left of a budget.
    pub fn left(&mut self, now: Nanoseconds, budget: &Budget) -> (u32, u128) {
        let from = now.0.saturating_sub(budget.per.0);
        while self.moved.front().is_some_and(|(at, _)| at.0 <= from) {
            self.moved.pop_front();
        }
        let lost: u128 = self.moved.iter().map(|(_, lost)| lost).sum();
        let moves = budget.moves.saturating_sub(self.moved.len() as u32);
        (
            moves,
            (u128::from(budget.lost.0) * 1000).saturating_sub(lost),
        )
    }

    pub(super) fn note(&mut self, now: Nanoseconds, lost: u128) {
        self.moved.push_back((now, lost));
    }
}

/// Decides what is tidied up now; each move to have fewer pieces comes with what it is good for. The
/// ledger takes the plan for done.
pub fn tidy(
    now: Nanoseconds,
    world: &World,
    what: &Tidy,
    ledger: &mut Ledger,
    effort: Effort,
) -> (Plan, Vec<Gain>) {
    let mut plan = Plan {
        number: world.target() + 1,
        parent: world.target(),
        made: now,
        actions: Vec::new(),
    };
    ledger.watch(now, world);
    let waiting = world.jobs().any(|(_, state)| state.seeks());
    let mut copy = world.clone();
    let mut scratch = Scratch::new(&mut copy, now);
    if what.evacuate {
        evacuate(&mut scratch, now, &mut plan.actions);
    }
    if let Some(after) = what.detach_after {
        let idle = ledger.idle.iter();
        let long = idle.filter(|(_, since)| now.0.saturating_sub(since.0) >= after.0);
        for (gpu, _) in long {
            let action = Action::Detach { gpu: *gpu };
            if scratch.begin(&action) {
                plan.actions.push(action);
            }
        }
    }
    if what.grow && !waiting {
        grow::grow(&mut scratch, now, effort, &mut plan.actions);
    }
    let mut gains = Vec::new();
    if let Some(budget) = what.defragment {
        gains = pieces::join(&mut scratch, now, &budget, ledger, effort);
        plan.actions
            .extend(gains.iter().map(|(_, action)| action.clone()));
    }
    (plan, gains.into_iter().map(|(gain, _)| gain).collect())
}

/// Moves those who may be stopped off nodes and GPUs that are drained, where they find a place.
fn evacuate(scratch: &mut Scratch<'_>, now: Nanoseconds, actions: &mut Vec<Action>) {
    let world = scratch.world();
    let drained = |node: NodeId, gpus: &[GpuId]| {
        let node = world.node(node);
        node.is_some_and(|node| node.node.health == Health::Draining)
            || gpus.iter().any(|gpu| {
                let gpu = world.gpu(*gpu);
                gpu.is_some_and(|gpu| gpu.gpu.health == Health::Draining)
            })
    };
    let jobs: Vec<(JobId, u32)> = world
        .jobs()
        .filter(|(_, state)| {
            restart_of(&state.job).is_some()
                && matches!(state.phase, Phase::Running { .. })
                && !state.stopping
                && state.job.topology.is_none_or(|wish| !wish.required)
                && state.seats.iter().any(|seat| {
                    let gpus: Vec<GpuId> = seat.gpus.iter().map(|share| share.gpu).collect();
                    drained(seat.node, &gpus)
                })
        })
        .map(|(id, state)| (id, state.seats.len() as u32))
        .collect();
    let everywhere: Vec<NodeId> = (0..world.nodes().len() as u32).map(NodeId).collect();
    for (id, workers) in jobs {
        let Some(job) = scratch.world().job(id).map(|state| state.job.clone()) else {
            continue;
        };
        let who = For {
            job: &job,
            returns: false,
            moves: &Moves::NONE,
            now,
        };
        let site = Site {
            scope: Scope::Fleet,
            nodes: &everywhere,
            holders: &BTreeMap::new(),
        };
        let cause = Cause::Drain;
        let mark = scratch.mark();
        let found = if scratch.begin(&Action::Preempt { job: id, cause }) {
            seats(scratch, &who, id, &site, workers)
        } else {
            None
        };
        scratch.undo(mark);
        let Some((prepare, seats)) = found else {
            continue;
        };
        let moved = Action::Move {
            job: id,
            seats,
            cause,
        };
        let steps: Vec<Action> = prepare.into_iter().chain([moved]).collect();
        if steps.iter().all(|action| scratch.begin(action)) {
            actions.extend(steps);
        } else {
            scratch.undo(mark);
        }
    }
}

/// What moving a job loses, in thousandths of a GPU times nanoseconds; `None`: it may not be moved.
pub(super) fn loses(world: &World, id: JobId) -> Option<u128> {
    let state = world.job(id)?;
    let restart = restart_of(&state.job)?;
    let milli = milli_of(world, &state.seats).max(1);
    Some(u128::from(restart.0) * u128::from(milli))
}
