//! Who runs and may be stopped, and where.

use super::{event, lost, wait::expected_end};
use crate::world::World;
use gpuwise_domain::placement::{Ended, Event, JobId, NodeId};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// Jobs that run and may be stopped, with what that loses; and when those who run are expected to end.
pub(in crate::report) struct Running {
    pub(super) jobs: Vec<(Nanoseconds, JobId)>,
    /// Who is expected to end when, soonest first.
    pub(super) ends: Vec<(Nanoseconds, JobId)>,
    /// The fleet when so many of them have ended: looked at for one job, known for the next.
    after: BTreeMap<usize, World>,
    /// Of these, those on each node.
    on: Vec<Vec<u32>>,
}

impl Running {
    pub(in crate::report) fn of(world: &World) -> Self {
        let jobs = world.jobs();
        let jobs: Vec<_> = jobs
            .filter_map(|(id, _)| Some((lost(world, id)?, id)))
            .collect();
        let mut on = vec![Vec::new(); world.nodes().len()];
        for ((_, id), at) in jobs.iter().zip(0_u32..) {
            let assignments = world.job(*id).map_or(&[][..], |one| &one.assignments);
            for assignment in assignments {
                if let Some(here) = on.get_mut(assignment.node.index())
                    && here.last() != Some(&at)
                {
                    here.push(at);
                }
            }
        }
        let ends = world.jobs();
        let mut ends: Vec<(Nanoseconds, JobId)> = ends
            .filter_map(|(id, state)| Some((expected_end(world, state)?, id)))
            .collect();
        ends.sort_unstable();
        Self {
            jobs,
            ends,
            after: BTreeMap::new(),
            on,
        }
    }

    /// The fleet when the first so many have ended.
    pub(super) fn after(&mut self, world: &World, count: usize) -> World {
        let known = self.after.range(..=count).next_back();
        let (ended, mut after) = match known {
            Some((ended, after)) => (*ended, after.clone()),
            None => (0, world.clone()),
        };
        self.end(&mut after, ended, count);
        self.after.insert(count, after.clone());
        after
    }

    /// Ends those after the first so many, up to so many.
    pub(super) fn end(&self, world: &mut World, ended: usize, count: usize) {
        for (_, job) in self.ends.get(ended..count).unwrap_or_default() {
            let how = Ended::Finished;
            event(world, Event::Ended { job: *job, how });
        }
    }

    /// Those on some nodes, once each, in the order of their numbers.
    pub(super) fn on(&self, nodes: &[NodeId]) -> Vec<(Nanoseconds, JobId)> {
        let lists = nodes.iter().filter_map(|node| self.on.get(node.index()));
        let mut found: Vec<u32> = lists.flatten().copied().collect();
        found.sort_unstable();
        found.dedup();
        let job = |at: u32| self.jobs.get(at as usize).copied();
        found.into_iter().filter_map(job).collect()
    }
}
