//! How near and how far workers are, and when they end.

use super::{Check, Rule};
use crate::world::StoredJob;
use gpuwise_domain::placement::{Assignment, GpuAsk, Level, NodeId};
use std::collections::BTreeMap;

/// Where something is at a level: known, not known, or it is alone in its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Known(u32, u32),
    Unknown,
}

impl Check<'_> {
    pub(super) fn wishes(&mut self, job: &StoredJob, assignments: &[Assignment]) {
        if let Some(wish) = job.topology {
            self.nearness(job, assignments, wish.within, wish.required);
        }
        if let Some(spread) = job.spread {
            let mut there: BTreeMap<(bool, u32), u32> = BTreeMap::new();
            for assignment in assignments {
                let place = match spread.over {
                    Level::Rack | Level::Block | Level::Zone => self
                        .domain(assignment.node, spread.over)
                        .map_or((false, assignment.node.0), |domain| (true, domain)),
                    _ => (false, assignment.node.0),
                };
                *there.entry(place).or_default() += 1;
            }
            if let Some(many) = there.values().find(|many| **many > spread.most) {
                let what = format!(
                    "job {} may have {} workers in one {} and has {many}",
                    job.name,
                    spread.most,
                    spread.over.name()
                );
                self.error(Rule::Spread, what);
            }
        }
        if let (Some(deadline), Some(belief)) = (job.deadline, job.duration) {
            let end = self
                .now
                .0
                .saturating_add(self.lasts(job, belief.expected.0, assignments));
            if end > deadline.0 {
                let what = format!("job {} is expected to end after its deadline", job.name);
                self.warn(Rule::Deadline, what);
            }
        }
    }

    fn nearness(
        &mut self,
        job: &StoredJob,
        assignments: &[Assignment],
        level: Level,
        required: bool,
    ) {
        let places: Vec<Place> = if job.worker.gpu == GpuAsk::None {
            assignments
                .iter()
                .map(|assignment| self.of_node(assignment.node, level))
                .collect()
        } else {
            let shares = assignments.iter().flat_map(|assignment| &assignment.gpus);
            shares.map(|share| self.of_gpu(share.gpu, level)).collect()
        };
        if places.len() < 2 {
            return;
        }
        let mut known = places.iter().filter(|place| **place != Place::Unknown);
        let first = known.next();
        let apart = known.any(|place| Some(place) != first);
        let unknown = places.contains(&Place::Unknown);
        let what = format!("job {} wishes to be in one {}", job.name, level.name());
        if apart && required {
            self.error(Rule::Topology, format!("{what} and is not"));
        } else if apart {
            self.warn(Rule::Topology, format!("{what} and is not, which slows it"));
        } else if unknown && required {
            let what = format!("{what}; whether it is cannot be told");
            self.error(Rule::Topology, what);
        }
    }

    fn of_node(&self, node: NodeId, level: Level) -> Place {
        match level {
            Level::Rack | Level::Block | Level::Zone => self
                .domain(node, level)
                .map_or(Place::Unknown, |domain| Place::Known(domain, 0)),
            _ => Place::Known(node.0, 0),
        }
    }

    fn of_gpu(&self, id: gpuwise_domain::placement::GpuId, level: Level) -> Place {
        let Some(state) = self.world.gpu(id) else {
            return Place::Unknown;
        };
        let node = self.account_node(id);
        let within = |part: Option<u32>| match (node, part) {
            (Some(node), Some(part)) => Place::Known(node.0, part),
            _ => Place::Unknown,
        };
        match level {
            Level::Switch => within(state.gpu.switch),
            Level::Numa => within(state.gpu.numa),
            Level::Island => state
                .gpu
                .island
                .map_or(Place::Unknown, |island| Place::Known(island.0, 0)),
            _ => node.map_or(Place::Unknown, |node| self.of_node(node, level)),
        }
    }

    fn account_node(&self, id: gpuwise_domain::placement::GpuId) -> Option<NodeId> {
        self.account.whereabouts(id)
    }

    /// The domain of a level that holds a node, by its number.
    fn domain(&self, node: NodeId, level: Level) -> Option<u32> {
        let mut next = self.world.node(node)?.node.domain;
        // No fleet is deeper than its list of domains is long.
        for _ in 0..=self.world.domains().len() {
            let id = next?;
            let domain = self.world.domains().get(id.index())?;
            if domain.level == level {
                return Some(id.0);
            }
            next = domain.parent;
        }
        None
    }

    /// How long a job lasts on assignments, in nanoseconds: at the speed of the slowest of its GPUs.
    pub(super) fn lasts(&self, job: &StoredJob, expected: u64, assignments: &[Assignment]) -> u64 {
        let shares = assignments.iter().flat_map(|assignment| &assignment.gpus);
        let kinds = shares.filter_map(|share| Some(self.world.gpu(share.gpu)?.gpu.kind));
        let speed = |kind| {
            let mut named = job.speeds.iter().filter(|(one, _)| *one == kind);
            named.next().map_or(1000, |(_, speed)| *speed)
        };
        let slowest = kinds.map(speed).min().unwrap_or(1000).max(1);
        let lasts = u128::from(expected) * 1000 / u128::from(slowest);
        u64::try_from(lasts).unwrap_or(u64::MAX)
    }
}
