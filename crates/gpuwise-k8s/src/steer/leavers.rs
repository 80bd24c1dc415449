//! Who leaves for whom, and how that is said.

use super::{
    Leaver, Leaves, Room, Seen,
    gangs::{Unit, gang_of},
    promised::goes,
    room::Until,
    world::Cluster,
};
use gpuwise_domain::placement::JobId;
use std::collections::BTreeSet;

/// The pods of a job that is stopped, with all of its gang.
pub(super) fn leaving(
    cluster: &Cluster<'_>,
    until: &Until<'_>,
    job: JobId,
    to: Option<&str>,
) -> Vec<Leaver> {
    let seen = until.view.whole;
    let own = cluster.held.get(&job).map_or(&[][..], Vec::as_slice);
    let mut all: BTreeSet<usize> = own.iter().copied().collect();
    let stood_for = own.iter().filter_map(|at| until.chunks.0.get(at));
    all.extend(stood_for.flatten());
    for at in all.clone() {
        let Some(gang) = seen.pods.get(at).and_then(|pod| gang_of(pod)) else {
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

pub(super) fn room(
    seen: &Seen,
    unit: &Unit<'_>,
    nodes: Vec<String>,
    mut leavers: Vec<Leaver>,
) -> Room {
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
