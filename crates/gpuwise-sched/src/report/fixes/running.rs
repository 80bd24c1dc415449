//! Who runs and may be stopped, and where.

use super::lost;
use crate::world::World;
use gpuwise_domain::placement::{JobId, NodeId};
use gpuwise_units::Nanoseconds;

/// Jobs that run and may be stopped, with what that loses.
pub(in crate::report) struct Running {
    pub(super) jobs: Vec<(Nanoseconds, JobId)>,
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
        Self { jobs, on }
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
