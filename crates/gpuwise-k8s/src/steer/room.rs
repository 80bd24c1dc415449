//! Room that is made for those who find none: pods of Deployments move, pods that may be evicted are.
//!
//! Who is to start is nominated for its node in the same breath, so that the room is given to nobody else, and
//! nobody is evicted for it twice.

use super::{
    Placed, Pod, Preempts, Seen,
    adopt::Holder,
    gangs::{Unit, gang_of},
    holders::truly,
    leave::{Movers, evictable},
    promised::{Promised, goes},
    rules::kernel_rules,
    world::Cluster,
};
use gpuwise_domain::placement::{Action, Event, JobId};
use gpuwise_sched::{
    decide::{Effort, decide as kernel},
    disruption::Disruptions,
};
use gpuwise_units::Nanoseconds;
use std::collections::{BTreeMap, BTreeSet};

/// Places that are kept for pods that wait, and who leaves for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// Who is to start, by its place in [`Seen::pods`], and where; nobody where pods move for order's sake.
    pub pods: Vec<(usize, String)>,
    pub leavers: Vec<Leaver>,
    pub words: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaver {
    /// Its place in [`Seen::pods`].
    pub pod: usize,
    pub how: Leaves,
    /// For whom, or what for.
    pub words: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leaves {
    /// By the eviction API.
    Evicted,
    /// One more of its Deployment starts there first, or it does itself when it is its StatefulSet's turn.
    Moves { to: String },
}

/// What one decision may disrupt at most: a gang of 64 nodes with eight small pods each.
const MOST: u32 = 512;

/// What has been decided until now: who is placed or promised a place, and who leaves.
pub(super) struct Until<'a> {
    pub seen: &'a Seen,
    pub promised: &'a Promised,
    pub placed: &'a [Placed],
    pub now: Nanoseconds,
}

/// Makes room for units that found none; what cannot be made is left out. Who serves nobody leaves first, then pods
/// move, then others leave.
pub(super) fn rooms(until: &Until<'_>, waiting: &[&Unit<'_>]) -> Vec<Room> {
    let (seen, rules) = (until.seen, &until.seen.rules);
    let evict = Disruptions {
        preempt: true,
        most: MOST,
        ..Disruptions::NONE
    };
    let takes = |unit: &&Unit<'_>| {
        let mut pods = unit.parts.iter().flatten();
        pods.all(|pod| !pod.standing.never_preempts)
    };
    let eager: Vec<&Unit<'_>> = waiting.iter().copied().filter(takes).collect();
    let mut found = stage(until, &eager, evict, &[], &|pod| {
        pod.is_warm() && evictable(seen, pod)
    });
    if let Some(moves) = rules.moves.filter(|moves| moves.left > 0) {
        let migrate = Disruptions {
            migrate: true,
            most: moves.left.min(MOST),
            ..Disruptions::NONE
        };
        let movers = Movers::of(seen);
        let rest = unseated(seen, waiting, &found);
        let mut more = stage(until, &rest, migrate, &found, &|pod| movers.movable(pod));
        // No more moves begin than may.
        let mut left = moves.left as usize;
        more.retain(|room| {
            let fits = room.leavers.len() <= left;
            left -= if fits { room.leavers.len() } else { 0 };
            fits
        });
        found.extend(more);
    }
    if rules.preemption != Preempts::Never {
        let rest = unseated(seen, &eager, &found);
        let more = stage(until, &rest, evict, &found, &|pod| evictable(seen, pod));
        found.extend(more);
    }
    found
}

/// Units for which no room is made yet.
fn unseated<'u, 'a>(seen: &Seen, units: &[&'u Unit<'a>], rooms: &[Room]) -> Vec<&'u Unit<'a>> {
    let seated = rooms.iter().flat_map(|room| &room.pods);
    let seated = seated.filter_map(|(at, _)| Some(seen.pods.get(*at)?.uid.as_str()));
    let seated: BTreeSet<&str> = seated.collect();
    let is_left = |unit: &&&Unit<'_>| {
        let mut pods = unit.parts.iter().flatten();
        !pods.any(|pod| seated.contains(pod.uid.as_str()))
    };
    units.iter().filter(is_left).copied().collect()
}

/// Everybody who will hold a place once those who leave are gone.
pub(super) fn later<'a>(
    until: &'a Until<'_>,
    before: &'a [Room],
    stops: &dyn Fn(&Pod) -> bool,
) -> Vec<Holder<'a>> {
    let seen = until.seen;
    let leave: BTreeSet<usize> = before
        .iter()
        .flat_map(|room| &room.leavers)
        .map(|one| one.pod)
        .collect();
    let mut all = truly(seen);
    all.retain(|one| !goes(one.pod) && !leave.contains(&one.at));
    for one in &mut all {
        one.stops = stops(one.pod);
    }
    let promised = until.promised.to.iter();
    let promised = promised.map(|(at, promise)| (*at, promise.node.as_str()));
    let kept = until.promised.kept.iter();
    let kept = kept.map(|(at, node)| (*at, node.as_str()));
    let placed = until.placed.iter().map(|one| (one.pod, one.node.as_str()));
    let rooms = before.iter().flat_map(|room| &room.pods);
    let rooms = rooms.map(|(at, node)| (*at, node.as_str()));
    let moved = before.iter().flat_map(|room| &room.leavers);
    let moved = moved.filter_map(|one| match &one.how {
        Leaves::Moves { to } => Some((one.pod, to.as_str())),
        Leaves::Evicted => None,
    });
    let to_be = promised.chain(kept).chain(placed).chain(rooms).chain(moved);
    let mut known = BTreeSet::new();
    all.extend(to_be.filter_map(|(at, node)| {
        // Who is placed because it was promised is in both.
        known.insert(at).then_some(())?;
        Some(Holder {
            pod: seen.pods.get(at)?,
            at,
            node,
            stops: false,
            truly: false,
        })
    }));
    all
}

/// The kernel's room for units, where these may be stopped.
pub(super) fn stage(
    until: &Until<'_>,
    units: &[&Unit<'_>],
    disruptions: Disruptions,
    before: &[Room],
    stops: &dyn Fn(&Pod) -> bool,
) -> Vec<Room> {
    let seen = until.seen;
    if units.is_empty() || !seen.pods.iter().any(|pod| stops(pod)) {
        return Vec::new();
    }
    let Ok(mut rules) = kernel_rules(seen) else {
        return Vec::new();
    };
    rules.disruptions = disruptions;
    let mut cluster = Cluster::new(seen, later(until, before, stops), until.now);
    let mut asked: BTreeMap<JobId, &Unit<'_>> = BTreeMap::new();
    for unit in units {
        if let Some(job) = cluster.jobs(unit, false, until.now).pop() {
            let id = job.id;
            if cluster.tell(until.now, Event::Submitted(job)).is_ok() {
                asked.insert(id, unit);
            }
        }
    }
    let demand: Vec<JobId> = asked.keys().copied().collect();
    let effort = Effort::BARE;
    let (plan, _) = kernel(until.now, &cluster.world, &demand, &mut rules, effort);
    let mut rooms = Vec::new();
    let mut leavers: Vec<Leaver> = Vec::new();
    for action in &plan.actions {
        match action {
            Action::Preempt { job, .. } => leavers.extend(leaving(&cluster, seen, *job, None)),
            Action::Move {
                job, assignments, ..
            } => {
                let to = assignments.first().map(|one| one.node.index());
                let to = to.and_then(|at| Some(cluster.nodes.get(at)?.name.clone()));
                leavers.extend(leaving(&cluster, seen, *job, to.as_deref()));
            }
            Action::Place { job, assignments } => {
                let leavers = std::mem::take(&mut leavers);
                if let Some(unit) = asked.get(job) {
                    let nodes = assignments.iter().map(|one| one.node.index());
                    let names = nodes.filter_map(|at| Some(cluster.nodes.get(at)?.name.clone()));
                    rooms.push(room(seen, unit, names.collect(), leavers));
                }
            }
            _ => {}
        }
    }
    rooms
}

/// The pods of a job that is stopped, with all of its gang.
pub(super) fn leaving(
    cluster: &Cluster<'_>,
    seen: &Seen,
    job: JobId,
    to: Option<&str>,
) -> Vec<Leaver> {
    let own = cluster.held.get(&job).map_or(&[][..], Vec::as_slice);
    let mut all: BTreeSet<usize> = own.iter().copied().collect();
    for at in own {
        let Some(gang) = seen.pods.get(*at).and_then(|pod| gang_of(pod)) else {
            continue;
        };
        let others = seen.pods.iter().enumerate();
        all.extend(others.filter_map(|(at, pod)| {
            (gang_of(pod) == Some(gang) && !pod.waits() && !goes(pod)).then_some(at)
        }));
    }
    let leaver = |pod| Leaver {
        pod,
        how: match to {
            Some(to) => Leaves::Moves { to: to.to_owned() },
            None => Leaves::Evicted,
        },
        words: String::new(),
    };
    all.into_iter().map(leaver).collect()
}

fn room(seen: &Seen, unit: &Unit<'_>, nodes: Vec<String>, mut leavers: Vec<Leaver>) -> Room {
    let places = seen.places();
    let pods = unit.parts.first().map_or(&[][..], Vec::as_slice);
    let priority = pods.first().map_or(0, |pod| pod.priority);
    let pods: Vec<(usize, String)> = pods
        .iter()
        .zip(nodes)
        .filter_map(|(pod, node)| Some((*places.get(pod.uid.as_str())?, node)))
        .collect();
    let mut seen_twice = BTreeSet::new();
    leavers.retain(|one| seen_twice.insert(one.pod));
    let mut who = Vec::new();
    for one in &mut leavers {
        let Some(pod) = seen.pods.get(one.pod) else {
            continue;
        };
        let name = format!("{}/{}", pod.namespace, pod.name);
        let node = pod.place.node().unwrap_or_default();
        let (for_whom, its) = (&unit.name, pod.priority);
        let (said, why) = match &one.how {
            Leaves::Evicted if pod.is_warm() => (
                format!("{name}, which is warm, leaves node {node}"),
                format!("it is warm and serves nobody: its GPUs are lent to {for_whom}"),
            ),
            Leaves::Evicted => (
                format!("{name} (priority {its}) leaves node {node}"),
                format!("evicted for {for_whom}: priority {priority} before its {its}"),
            ),
            Leaves::Moves { to } => (
                format!("{name} moves from node {node} to {to}"),
                format!("moves to node {to} to make room for {for_whom}"),
            ),
        };
        one.words = why;
        who.push(said);
    }
    let on: BTreeSet<&str> = pods.iter().map(|(_, node)| node.as_str()).collect();
    let on: Vec<&str> = on.into_iter().collect();
    let leave = match who.as_slice() {
        [] => "others end there".to_owned(),
        all if all.len() <= 3 => all.join(", "),
        [first, rest @ ..] => format!("{first}, and {} others leave", rest.len()),
    };
    Room {
        words: format!("room on node {}: {leave}", on.join(", ")),
        pods,
        leavers,
    }
}
