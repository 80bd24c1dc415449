//! Those who wait, kept from one decision to the next: a decision costs what has happened since the last one,
//! not how many wait.
//!
//! Equal jobs stand in one line, in the order of their turns. Of a line whose first job found no place it is
//! known that nobody of it finds one until a node changes that a worker of it fits: what was freed is held
//! against the lines, not against the jobs. Which jobs came, went or changed is seen by what two copies of
//! the table of jobs do not share, and which nodes by their changes, so that this is a cache: it may follow
//! one world after another, copies that are dropped included, and a fresh one decides the same.

mod line;
mod turns;

pub(super) use line::asks_slice;
use line::{Line, LineKey, Place, Turn};
pub(super) use turns::Turns;

use super::{Order, Policy};
use crate::{
    fit::{self, Scope},
    policy::Follower,
    world::{JobState, JobTable, World},
};
use gpuwise_domain::placement::{GpuAsk, JobId, Kinds, NodeId, WorkerAsk};
use gpuwise_units::Nanoseconds;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Nodes that changed times lines that found no place, up to which each is held against each.
const COMPARED: usize = 200_000;

/// What of a policy decides how jobs stand in lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) order: Order,
    pub(super) starvation_timeout: Option<Nanoseconds>,
    /// Whether how long a job runs decides whom it may have moved.
    pub(super) lengths: bool,
}

impl Rules {
    pub(super) const fn of(policy: &Policy) -> Self {
        Self {
            order: policy.order,
            starvation_timeout: policy.limits.starvation_timeout,
            lengths: policy.disruptions.migrate,
        }
    }

    /// Whether all of a line are in the order in which they came.
    const fn as_they_came(self) -> bool {
        matches!(
            self.order,
            Order::Arrival | Order::Priority | Order::Share | Order::FairTree
        )
    }

    /// Who was submitted by then has waited too long.
    fn aged_until(self, now: Nanoseconds) -> Option<Nanoseconds> {
        let timeout = self.starvation_timeout?;
        now.0.checked_sub(timeout.0).map(Nanoseconds)
    }
}

/// Those who wait, in lines of equals.
#[derive(Debug, Default)]
pub struct Backlog {
    rules: Option<Rules>,
    jobs: JobTable,
    follower: Follower,
    lines: Vec<Line>,
    /// Places of lines in which nobody stands any more.
    vacant: Vec<u32>,
    numbers: FxHashMap<LineKey, u32>,
    standing: FxHashMap<JobId, (u32, Place)>,
    /// Lines that found no place.
    blocked: BTreeSet<u32>,
    buffer: Vec<NodeId>,
}

impl Backlog {
    /// How many wait, and in how many lines.
    pub fn size(&self) -> (usize, usize) {
        (self.standing.len(), self.numbers.len())
    }

    /// How many lines are known to find no place.
    pub fn blocked(&self) -> usize {
        self.blocked.len()
    }

    /// Brings what is kept up to this world and these rules.
    pub(super) fn follow(&mut self, world: &World, rules: Rules) {
        if self.rules != Some(rules) {
            *self = Self {
                rules: Some(rules),
                ..Self::default()
            };
        }
        let jobs = world.jobs.clone();
        let before = std::mem::replace(&mut self.jobs, jobs.clone());
        jobs.differing(&before, |id, state| {
            self.leaves(id);
            if let Some(state) = state.filter(|state| state.seeks()) {
                self.joins(id, state, rules);
            }
        });
        self.follow_nodes(world);
    }

    /// What a node that changed may have room for is looked for again.
    fn follow_nodes(&mut self, world: &World) {
        let mut nodes = std::mem::take(&mut self.buffer);
        let known = self.follower.catch_up(world, &mut nodes);
        nodes.sort_unstable();
        nodes.dedup();
        if !known || nodes.len().saturating_mul(self.blocked.len()) > COMPARED {
            self.blocked.clear();
        }
        let lines = &self.lines;
        self.blocked.retain(|number| {
            let line = lines.get(*number as usize);
            let ask = line.and_then(Line::ask);
            ask.is_some_and(|ask| !nodes.iter().any(|node| has_room(world, *node, ask)))
        });
        self.buffer = nodes;
    }

    fn joins(&mut self, id: JobId, state: &JobState, rules: Rules) {
        let key = LineKey::of(id, state, rules);
        let place = line::place(id, state, rules);
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None => self.opens(key),
        };
        if let Some(line) = self.lines.get_mut(number as usize) {
            line.joins(place, rules);
            self.standing.insert(id, (number, place));
        }
    }

    fn opens(&mut self, key: LineKey) -> u32 {
        let line = Line::new(key.clone());
        let number = if let Some(number) = self.vacant.pop() {
            if let Some(old) = self.lines.get_mut(number as usize) {
                *old = line;
            }
            number
        } else {
            self.lines.push(line);
            (self.lines.len() - 1) as u32
        };
        self.numbers.insert(key, number);
        number
    }

    fn leaves(&mut self, id: JobId) {
        let Some((number, place)) = self.standing.remove(&id) else {
            return;
        };
        let Some(line) = self.lines.get_mut(number as usize) else {
            return;
        };
        line.leaves(place);
        if line.is_empty() {
            self.numbers.remove(&line.key);
            self.blocked.remove(&number);
            self.vacant.push(number);
        }
    }

    fn line(&self, number: u32) -> Option<&Line> {
        self.lines.get(number as usize)
    }

    /// Lines in which somebody stands.
    fn numbers(&self) -> impl Iterator<Item = (u32, &Line)> {
        let all = (0..).zip(&self.lines);
        all.filter(|(_, line)| !line.is_empty())
    }

    /// Those who stand for themselves.
    pub(super) fn alone(&self) -> impl Iterator<Item = JobId> {
        self.numbers().filter_map(|(_, line)| line.only())
    }

    /// The kinds on which a line found no place.
    fn no_place(&self, number: u32) -> Option<Kinds> {
        if !self.blocked.contains(&number) {
            return None;
        }
        self.line(number)?.no_place
    }

    /// What a decision found: `world` is the one in which its plan has begun. `freed`: something was freed in it,
    /// so that what was known before may no longer hold.
    pub(super) fn learns(
        &mut self,
        world: &World,
        freed: bool,
        looked: impl IntoIterator<Item = (u32, Option<Kinds>)>,
    ) {
        if freed {
            self.follow_nodes(world);
        } else {
            self.follower.catch_up(world, &mut self.buffer);
        }
        for (number, no_place) in looked {
            let Some(line) = self.lines.get_mut(number as usize) else {
                continue;
            };
            line.no_place = no_place;
            if no_place.is_some() && line.ask().is_some() {
                self.blocked.insert(number);
            } else {
                self.blocked.remove(&number);
            }
        }
    }
}

/// Whether a worker has room on a node as it is.
fn has_room(world: &World, id: NodeId, ask: &WorkerAsk) -> bool {
    let Some(node) = world.node(id) else {
        return false;
    };
    let enough = match ask.gpu {
        GpuAsk::None | GpuAsk::Slice { .. } => true,
        GpuAsk::Whole { count, .. } => node.whole_free >= count,
        GpuAsk::Fraction { milli, .. } => node.milli_free >= milli,
    };
    enough && fit::fits_host(node, ask) && fit::assignment(world, id, ask, Scope::Fleet).is_some()
}
