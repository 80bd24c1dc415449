//! Moves while nobody waits, so that larger pods find room later.

use super::{
    Pod, Room,
    leave::Movers,
    leavers::leaving,
    room::{Until, later},
    world::Cluster,
};
use gpuwise_domain::placement::Action;
use gpuwise_sched::{
    decide::Effort,
    disruption::{Budget, Tidy, tidy},
};
use gpuwise_units::Nanoseconds;

/// An hour, for which what a move frees is counted.
const HOUR: Nanoseconds = Nanoseconds(3_600_000_000_000);

/// Moves that make more of what is free usable to pods as they are here, where that is worth more than it takes.
pub(super) fn consolidation(until: &Until<'_>) -> Vec<Room> {
    let seen = until.seen;
    let Some(moves) = seen
        .rules
        .moves
        .filter(|one| one.consolidates && one.left > 0)
    else {
        return Vec::new();
    };
    let under_way = Movers::of(seen);
    let stops = |pod: &Pod| under_way.movable(pod);
    if !seen.pods.iter().any(|pod| stops(pod)) {
        return Vec::new();
    }
    let cluster = Cluster::new(seen, later(until, &[], &stops), until.now);
    let what = Tidy {
        defragment: Some(Budget {
            disruptions: moves.left,
            lost: Nanoseconds(u64::MAX),
            per: HOUR,
            horizon: HOUR,
        }),
        ..Tidy::default()
    };
    let (plan, _) = tidy(until.now, &cluster.world, &what, Effort::ORDINARY);
    let mut rooms = Vec::new();
    for action in &plan.actions {
        let Action::Move {
            job, assignments, ..
        } = action
        else {
            continue;
        };
        let to = assignments.first().map(|one| one.node.index());
        let to = to.and_then(|at| Some(cluster.nodes.get(at)?.name.clone()));
        let mut leavers = leaving(&cluster, until, *job, to.as_deref());
        let to = to.unwrap_or_default();
        for one in &mut leavers {
            one.words = format!("moves to node {to}, so that larger pods find room where it was");
        }
        rooms.push(Room {
            pods: Vec::new(),
            leavers,
            words: format!("a pod moves to node {to}"),
        });
    }
    rooms
}
