//! GPUs that are reserved for a queue over a span of time.

use super::ends;
use crate::world::{Tenancy, World};
use gpuwise_domain::placement::{Assignment, JobId, NodeId, Preemption};
use gpuwise_units::Nanoseconds;

/// Nodes on which these assignments would take what is reserved for another queue.
///
/// A job may sit on reserved GPUs if it is expected to have ended when they are due, or, until then, if it
/// may be stopped; afterwards, too, where it `lends`. Those of the queue that they are reserved for, and free ones, are left.
pub(crate) fn taken_from(
    world: &World,
    job: JobId,
    assignments: &[Assignment],
    now: Nanoseconds,
    padding_sigmas: f64,
    lends: bool,
) -> Vec<NodeId> {
    let mut nodes = Vec::new();
    let Some(state) = world.job(job).filter(|_| !world.reservations().is_empty()) else {
        return nodes;
    };
    for reserved in world.reservations() {
        let here: usize = assignments
            .iter()
            .filter(|assignment| assignment.node == reserved.node)
            .map(|assignment| assignment.gpus.len())
            .sum();
        let over = reserved.until <= now || state.job.queue == Some(reserved.queue);
        if over || here == 0 || nodes.contains(&reserved.node) {
            continue;
        }
        let end = ends::end_on(world, state, assignments, now, padding_sigmas);
        let gone = end.is_some_and(|end| end <= reserved.from);
        let may_sit = reserved.from > now || lends;
        let stoppable = may_sit && state.job.preemption != Preemption::Never;
        if gone || stoppable {
            continue;
        }
        let taken = assignments
            .iter()
            .filter(|assignment| assignment.node == reserved.node);
        let taken: Vec<_> = taken.flat_map(|s| &s.gpus).map(|share| share.gpu).collect();
        let Some(node) = world.node(reserved.node) else {
            continue;
        };
        let mine = |job: &JobId| {
            world
                .job(*job)
                .is_some_and(|s| s.job.queue == Some(reserved.queue))
        };
        let left = node.gpus.iter().filter(|gpu| {
            !taken.contains(gpu)
                && world.gpu(**gpu).is_some_and(|gpu| match &gpu.held {
                    Tenancy::Free => true,
                    Tenancy::Whole(job) => mine(job),
                    Tenancy::Shared { holders, .. } => holders.iter().all(|one| mine(&one.job)),
                    Tenancy::Sliced(instances) => instances
                        .iter()
                        .filter_map(|one| one.holder)
                        .all(|job| mine(&job)),
                })
        });
        if left.count() < reserved.gpus as usize {
            nodes.push(reserved.node);
        }
    }
    nodes
}
