//! Whom to stop, and whom to move.

use super::{Costs, Trial, done, loses, names};
use crate::{
    report::room::{Room, spread_room},
    world::{GpuState, World},
};
use gpuwise_domain::placement::{Action, Cause, JobId, Level, NodeId, Remedy};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// Victims of one place that are all weighed against one another; of more, the cheapest are taken one
/// by one, and who turns out superfluous is spared.
const ALL_SUBSETS: usize = 12;

/// Jobs that are tried to be moved.
const MOST_MOVES: usize = 64;

/// Where all workers of a job could be: nodes, and which of their GPUs.
struct Place {
    nodes: Vec<NodeId>,
    within: Option<(Level, u32)>,
}

/// Stops jobs for another.
pub(super) fn stopped(world: &mut World, job: JobId, victims: &[JobId]) -> bool {
    victims.iter().all(|victim| {
        let cause = Cause::For(job);
        done(
            world,
            Action::Preempt {
                job: *victim,
                cause,
            },
        )
    })
}

impl Trial<'_> {
    /// The set of victims that loses least.
    pub(super) fn preempt(&mut self) {
        let mut sets: Vec<(Nanoseconds, Vec<JobId>)> = self
            .places()
            .iter()
            .filter_map(|place| self.victims(place))
            .collect();
        sets.sort();
        // Room counts what the policy may see otherwise, so the first that holds is taken.
        for (loss, set) in sets.into_iter().take(4) {
            let remedy = Remedy::Preempt(set.clone());
            if self.holds(&remedy) {
                let what = format!("preempt {}{}", names(self.world, &set), loses(loss));
                let costs = Costs {
                    lost: loss,
                    all: loss,
                    ..Costs::default()
                };
                self.add(remedy, what, costs);
                return;
            }
        }
    }

    /// The one job whose move loses least.
    pub(super) fn migrate(&mut self) {
        let places = self.places();
        let helps = |gone: &[JobId], at: &[u32]| {
            let mut each = at.iter().filter_map(|at| places.get(*at as usize));
            each.any(|place| self.fits(place, gone))
        };
        let all: Vec<u32> = (0..places.len() as u32).collect();
        let mut movable = self.running.jobs.clone();
        // Who goes changes nothing where it is not.
        if !movable.is_empty() && !helps(&[], &all) {
            let mut at: BTreeMap<NodeId, Vec<u32>> = BTreeMap::new();
            for (place, number) in places.iter().zip(0..) {
                for node in &place.nodes {
                    at.entry(*node).or_default().push(number);
                }
            }
            movable.retain(|(_, job)| {
                let state = self.world.job(*job);
                let assignments = state.map_or(&[][..], |state| &state.assignments);
                let near = assignments.iter().filter_map(|one| at.get(&one.node));
                let mut near: Vec<u32> = near.flatten().copied().collect();
                near.sort_unstable();
                near.dedup();
                helps(&[*job], &near)
            });
        }
        movable.sort();
        for (loss, job) in movable.into_iter().take(MOST_MOVES) {
            let remedy = Remedy::Move(vec![job]);
            if self.holds(&remedy) {
                let what = format!("move {}{}", names(self.world, &[job]), loses(loss));
                let costs = Costs {
                    lost: loss,
                    all: loss,
                    ..Costs::default()
                };
                self.add(remedy, what, costs);
                return;
            }
        }
    }

    /// Places that could hold the job, each with all of its workers.
    fn places(&self) -> Vec<Place> {
        let world = self.world;
        let nodes = || (0..world.nodes().len() as u32).map(NodeId);
        let each = |nodes: Vec<NodeId>| Place {
            nodes,
            within: None,
        };
        let wish = self.job.topology.filter(|wish| wish.required);
        let level = match (wish, self.job.gang.least) {
            (Some(wish), _) => wish.within,
            (None, 0 | 1) => Level::Node,
            (None, _) => return vec![each(nodes().collect())],
        };
        let mut found: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
        match level {
            Level::Node => return nodes().map(|node| each(vec![node])).collect(),
            Level::Rack | Level::Block | Level::Zone => {
                for node in nodes() {
                    if let Some(domain) = world.domain_of(node, level) {
                        found.entry(domain.0).or_default().push(node);
                    }
                }
                return found.into_values().map(each).collect();
            }
            Level::Island | Level::Numa | Level::Switch => {}
        }
        let mut places = Vec::new();
        for id in nodes() {
            let gpus = world.node(id).map_or(&[][..], |node| node.gpus.as_slice());
            let keys = gpus
                .iter()
                .filter_map(|gpu| place_of(world.gpu(*gpu)?, level));
            let mut keys: Vec<u32> = keys.collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                if level == Level::Island {
                    found.entry(key).or_default().push(id);
                } else {
                    places.push(Place {
                        nodes: vec![id],
                        within: Some((level, key)),
                    });
                }
            }
        }
        places.extend(found.into_iter().map(|(island, nodes)| Place {
            nodes,
            within: Some((Level::Island, island)),
        }));
        places
    }

    /// Whether all workers have room in a place once these jobs are gone.
    fn fits(&self, place: &Place, gone: &[JobId]) -> bool {
        let room = Room { gone, empty: false };
        let allowed = |gpu: &GpuState| match place.within {
            Some((level, key)) => place_of(gpu, level) == Some(key),
            None => true,
        };
        let freed = freed(self.world, gone);
        let mut left = self.job.gang.least.max(1);
        for node in &place.nodes {
            let freed = freed.get(node).copied().unwrap_or_default();
            let ask = &self.job.worker;
            let workers = room.workers_beside(self.world, *node, ask, &allowed, freed);
            left = left.saturating_sub(workers);
            if left == 0 {
                let spread = self.job.spread;
                return spread.is_none_or(|spread| {
                    spread_room(self.world, &self.job.worker, spread, room) >= self.job.gang.least
                });
            }
        }
        false
    }

    /// The victims of a place that lose least, with what they lose; none where the place has no room
    /// even without all of them.
    fn victims(&self, place: &Place) -> Option<(Nanoseconds, Vec<JobId>)> {
        let mut there = self.running.on(&place.nodes);
        there.retain(|(_, id)| {
            let state = self.world.job(*id);
            state.is_some_and(|state| state.job.priority <= self.job.priority)
        });
        if there.is_empty() {
            return None;
        }
        there.sort();
        let all: Vec<JobId> = sorted(there.iter().map(|(_, id)| *id));
        if !self.fits(place, &all) {
            return None;
        }
        if there.len() <= ALL_SUBSETS {
            return self.least_of(place, &there);
        }
        // As few of the cheapest as are enough.
        let prefix = |count: usize| sorted(there.iter().take(count).map(|(_, id)| *id));
        let (mut low, mut high) = (1, there.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.fits(place, &prefix(middle)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let mut taken: Vec<(Nanoseconds, JobId)> = there.into_iter().take(low).collect();
        for at in (0..taken.len()).rev() {
            let without = taken.iter().enumerate().filter(|(other, _)| *other != at);
            let without = sorted(without.map(|(_, (_, id))| *id));
            if self.fits(place, &without) {
                taken.remove(at);
            }
        }
        let loss = taken
            .iter()
            .map(|(loss, _)| loss.0)
            .fold(0, u64::saturating_add);
        Some((Nanoseconds(loss), sorted(taken.iter().map(|(_, id)| *id))))
    }

    /// Of all sets of these the one that loses least; of equals the one with the fewest, then the first.
    fn least_of(
        &self,
        place: &Place,
        there: &[(Nanoseconds, JobId)],
    ) -> Option<(Nanoseconds, Vec<JobId>)> {
        let mut sets: Vec<(u64, u32, u32)> = (1_u32..1 << there.len())
            .map(|set| {
                let chosen = there
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| set >> at & 1 == 1);
                let loss = chosen
                    .map(|(_, (loss, _))| loss.0)
                    .fold(0, u64::saturating_add);
                (loss, set.count_ones(), set)
            })
            .collect();
        sets.sort_unstable();
        sets.into_iter().find_map(|(loss, _, set)| {
            let chosen = there
                .iter()
                .enumerate()
                .filter(|(at, _)| set >> at & 1 == 1);
            let gone = sorted(chosen.map(|(_, (_, id))| *id));
            self.fits(place, &gone).then_some((Nanoseconds(loss), gone))
        })
    }
}

/// Processor time and memory that some jobs have on each node.
fn freed(world: &World, gone: &[JobId]) -> BTreeMap<NodeId, (u64, u64)> {
    let mut freed: BTreeMap<NodeId, (u64, u64)> = BTreeMap::new();
    for state in gone.iter().filter_map(|job| world.job(*job)) {
        for assignment in &state.assignments {
            let (cpu, memory) = freed.entry(assignment.node).or_default();
            *cpu += state.job.worker.cpu_milli;
            *memory += state.job.worker.memory_mib;
        }
    }
    freed
}

fn place_of(gpu: &GpuState, level: Level) -> Option<u32> {
    match level {
        Level::Switch => gpu.gpu.switch,
        Level::Numa => gpu.gpu.numa,
        _ => gpu.gpu.island.map(|island| island.0),
    }
}

fn sorted(jobs: impl Iterator<Item = JobId>) -> Vec<JobId> {
    let mut jobs: Vec<JobId> = jobs.collect();
    jobs.sort_unstable();
    jobs
}
