//! GPUs that are kept for a queue over a span of time.

use super::ends;
use crate::world::{Held, World};
use gpuwise_domain::placement::{JobId, NodeId, Preemption, Seat};
use gpuwise_units::Nanoseconds;

/// Nodes on which these seats would take what is kept for another queue.
///
/// A job may sit on kept GPUs if it is expected to have ended when they are due, or, until then, if it
/// may be stopped; afterwards, too, where it `lends`. Those of the queue that they are kept for, and free ones, are left.
pub(crate) fn taken_from(
    world: &World,
    job: JobId,
    seats: &[Seat],
    now: Nanoseconds,
    deviations: f64,
    lends: bool,
) -> Vec<NodeId> {
    let mut nodes = Vec::new();
    let Some(state) = world.job(job).filter(|_| !world.reservations().is_empty()) else {
        return nodes;
    };
    for kept in world.reservations() {
        let here: usize = seats
            .iter()
            .filter(|seat| seat.node == kept.node)
            .map(|seat| seat.gpus.len())
            .sum();
        let over = kept.until <= now || state.job.queue == Some(kept.queue);
        if over || here == 0 || nodes.contains(&kept.node) {
            continue;
        }
        let end = ends::end_on(world, state, seats, now, deviations);
        let gone = end.is_some_and(|end| end <= kept.from);
        let may_sit = kept.from > now || lends;
        let stoppable = may_sit && state.job.preemption != Preemption::Never;
        if gone || stoppable {
            continue;
        }
        let taken = seats.iter().filter(|seat| seat.node == kept.node);
        let taken: Vec<_> = taken.flat_map(|s| &s.gpus).map(|share| share.gpu).collect();
        let Some(node) = world.node(kept.node) else {
            continue;
        };
        let mine = |job: &JobId| {
            world
                .job(*job)
                .is_some_and(|s| s.job.queue == Some(kept.queue))
        };
        let left = node.gpus.iter().filter(|gpu| {
            !taken.contains(gpu)
                && world.gpu(**gpu).is_some_and(|gpu| match &gpu.held {
                    Held::Free => true,
                    Held::Whole(job) => mine(job),
                    Held::Shared { holders, .. } => holders.iter().all(|one| mine(&one.job)),
                    Held::Sliced(instances) => instances
                        .iter()
                        .filter_map(|one| one.holder)
                        .all(|job| mine(&job)),
                })
        });
        if left.count() < kept.gpus as usize {
            nodes.push(kept.node);
        }
    }
    nodes
}
