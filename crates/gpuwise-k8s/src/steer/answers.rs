//! Who of a decision is placed and who waits, as it is said.

use super::{Decision, Placed, Pod, Waits, gangs::Unit, words::told, world::Cluster};
use gpuwise_domain::placement::{Action, Event, Job, JobId, NodeId};
use gpuwise_sched::decide::{Effort, Policy, decide as kernel};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// The place of a pod in [`Seen::pods`].
pub(super) type At<'a> = &'a dyn Fn(&Pod) -> usize;

pub(super) fn incomplete(unit: &Unit<'_>, at: At<'_>, decision: &mut Decision) -> bool {
    let Some(why) = &unit.incomplete else {
        return false;
    };
    waits(&unit.parts, "GangIncomplete", &why.words(), at, decision);
    true
}

/// A gang whose pods ask differently: its parts one after the other on a copy, and all of them or none.
pub(super) fn mixed(
    unit: &Unit<'_>,
    (cluster, rules): (&mut Cluster<'_>, &mut Policy),
    now: Nanoseconds,
    at: At<'_>,
    decision: &mut Decision,
) {
    let before = cluster.world.clone();
    let jobs: Vec<Job> = cluster.jobs(unit, true, now);
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    let mut submitted = jobs.into_iter().map(Event::Submitted);
    if let Some(why) = submitted.find_map(|event| cluster.tell(now, event).err()) {
        cluster.world = before;
        waits(&unit.parts, "Refused", &why, at, decision);
        return;
    }
    let (plan, report) = kernel(now, &cluster.world, &ids, rules, Effort::ORDINARY);
    let mut found: BTreeMap<JobId, Vec<NodeId>> = BTreeMap::new();
    for action in &plan.actions {
        let Action::Place { job, assignments } = action else {
            continue;
        };
        if cluster.tell(now, Event::done(action.clone())).is_ok() {
            found.insert(*job, assignments.iter().map(|one| one.node).collect());
        }
    }
    if found.len() < ids.len() {
        let (reason, words) = told(cluster, &report).into_iter().next().map_or(
            ("Waits", "it does not fit".to_owned()),
            |(_, reason, words)| (reason, words),
        );
        cluster.world = before;
        waits(&unit.parts, reason, &words, at, decision);
        return;
    }
    for (part, id) in ids.iter().enumerate() {
        placed(
            unit,
            part,
            found.get(id).map_or(&[], Vec::as_slice),
            cluster,
            at,
            decision,
        );
    }
}

pub(super) fn placed(
    unit: &Unit<'_>,
    part: usize,
    nodes: &[NodeId],
    cluster: &Cluster<'_>,
    at: At<'_>,
    decision: &mut Decision,
) {
    let pods = unit.parts.get(part).map_or(&[][..], Vec::as_slice);
    let together: usize = unit.parts.iter().map(Vec::len).sum();
    for (pod, node) in pods.iter().zip(nodes) {
        let Some(node) = cluster.nodes.get(node.index()) else {
            continue;
        };
        let gpus = pod.ask.as_ref().map_or(String::new(), |ask| {
            format!("{} {}", ask.count, ask.resource)
        });
        let words = match together {
            1 => format!("{gpus} on node {}", node.name),
            all => format!(
                "{gpus} on node {}, together with {} other pods of {}",
                node.name,
                all - 1,
                unit.name
            ),
        };
        decision.placed.push(Placed {
            pod: at(pod),
            node: node.name.clone(),
            together: nodes.len().max(1) as u32,
            replaces: None,
            words,
        });
    }
}

pub(super) fn waits(
    parts: &[Vec<&Pod>],
    reason: &'static str,
    words: &str,
    at: At<'_>,
    decision: &mut Decision,
) {
    for pod in parts.iter().flatten() {
        decision.waits.push(Waits {
            pod: at(pod),
            reason,
            words: words.to_owned(),
        });
    }
}
