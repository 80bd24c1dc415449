//! One decision: who goes where, who waits and why.

use super::{
    Place, Pod, Room, Seen, Step,
    consolidate::consolidation,
    gangs::{Unit, units},
    holders::{holders, keep, unspare},
    kept::Kept,
    promised::promised,
    room::{Until, rooms},
    rules::kernel_rules,
    surge, turns,
    warm::{are_warm, wanting},
    words::told,
    world::Cluster,
};
use gpuwise_domain::placement::{Action, Event, Job, JobId, NodeId};
use gpuwise_sched::{
    decide::{Effort, Policy, decide as kernel, moment_at},
    report::deepen,
};
use gpuwise_units::Nanoseconds;
use std::collections::{BTreeMap, BTreeSet};

/// What is to become of those who wait.
#[derive(Debug, Default)]
pub struct Decision {
    pub placed: Vec<Placed>,
    /// Pods whose gates come off though nobody says where they go, and why.
    pub let_go: Vec<(usize, String)>,
    pub waits: Vec<Waits>,
    /// Room that is to be made, for some of those who wait.
    pub rooms: Vec<Room>,
    /// Pods that are to leave and do not yet, by their places in [`Seen::pods`].
    pub evict: Vec<usize>,
    /// Pods that were to leave and need not any more.
    pub spare: Vec<usize>,
    /// What comes next of moves that have begun.
    pub steps: Vec<Step>,
    /// When time alone may change something; since 1970.
    pub wake: Option<Nanoseconds>,
    /// What of the cluster did not go together, for people.
    pub troubles: Vec<String>,
}

/// A pod's gate can be taken off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Its place in [`Seen::pods`].
    pub pod: usize,
    pub node: String,
    /// Pods that are placed with it, itself among them.
    pub together: u32,
    /// The uid of the pod that moves, in whose stead it starts.
    pub replaces: Option<String>,
    pub words: String,
}

/// A pod that goes on waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waits {
    /// Its place in [`Seen::pods`].
    pub pod: usize,
    /// In one word of CamelCase.
    pub reason: &'static str,
    pub words: String,
}

/// How many of those who wait are told what would help; each is tried.
const FIXES: usize = 4;

/// Decides for all who wait, where what nodes offer can be counted by resource.
///
/// # Errors
/// When the rules name a placement that is not there.
pub(super) fn decide_once(
    kept: &mut Kept,
    seen: &Seen,
    now: Nanoseconds,
) -> Result<Decision, String> {
    let mut rules = kernel_rules(seen)?;
    let promised = promised(seen);
    let mut cluster = Cluster::after(kept, seen, holders(seen, &promised), now);
    let index = seen.places();
    let at = |pod: &Pod| index.get(pod.uid.as_str()).copied().unwrap_or_default();
    let mut decision = Decision::default();
    let mut demand = Vec::new();
    let mut asked: BTreeMap<JobId, Unit<'_>> = BTreeMap::new();
    keep(seen, &promised, &mut decision);
    let (several, ordinary): (Vec<Unit<'_>>, Vec<Unit<'_>>) = units(seen, &promised)
        .into_iter()
        .partition(|unit| unit.parts.len() > 1);
    for unit in &several {
        if incomplete(unit, &at, &mut decision) {
            continue;
        }
        mixed(unit, (&mut cluster, &mut rules), now, &at, &mut decision);
    }
    for unit in ordinary {
        if incomplete(&unit, &at, &mut decision) {
            continue;
        }
        if let Some(job) = cluster.jobs(&unit, true, now).pop() {
            let id = job.id;
            match cluster.tell(now, Event::Submitted(job)) {
                Ok(()) => {
                    demand.push(id);
                    asked.insert(id, unit);
                }
                Err(why) => waits(&unit.parts, "Refused", &why, &at, &mut decision),
            }
        }
    }
    let (plan, mut report) = kernel(now, &cluster.world, &demand, &mut rules, Effort::ORDINARY);
    for action in &plan.actions {
        let Action::Place { job, assignments } = action else {
            continue;
        };
        let nodes: Vec<NodeId> = assignments.iter().map(|one| one.node).collect();
        if let (Some(unit), Ok(())) = (
            asked.get(job),
            cluster.tell(now, Event::done(action.clone())),
        ) {
            placed(unit, 0, &nodes, &cluster, &at, &mut decision);
        }
    }
    deepen(
        &cluster.world,
        &mut report,
        &mut rules,
        Effort::ORDINARY,
        FIXES,
    );
    let told = told(&cluster, &report);
    let until = Until {
        seen,
        promised: &promised,
        placed: &decision.placed.clone(),
        now,
    };
    let lacking = told
        .iter()
        .filter(|(_, reason, _)| LACKS_ROOM.contains(reason))
        .filter_map(|(job, ..)| asked.get(job));
    let lacking = wanting(seen, lacking.collect());
    decision.rooms = rooms(&until, &lacking);
    unspare(seen, &mut decision);
    let seated: BTreeSet<usize> = decision
        .rooms
        .iter()
        .flat_map(|room| &room.pods)
        .map(|(at, _)| *at)
        .collect();
    for (job, reason, words) in told {
        if let Some(unit) = asked.get(&job) {
            waits(&unit.parts, reason, &words, &at, &mut decision);
        }
    }
    decision.waits.retain(|one| !seated.contains(&one.pod));
    turns::tell_barred(&until, &lacking, &mut decision.waits);
    if are_warm(seen, &decision.waits) && seated.is_empty() && promised.awaited.is_empty() {
        decision.rooms.extend(consolidation(&until));
    }
    let (steps, late) = surge::steps(seen, now, &at);
    decision.steps = steps;
    let moment = moment_at(&cluster.world, &mut rules, now);
    decision.wake = moment.into_iter().chain(late).min();
    decision.troubles = cluster.troubles;
    Ok(decision)
}

/// Reasons of waiting that end when somebody leaves.
const LACKS_ROOM: [&str; 6] = [
    "TooFewGpus",
    "TooFewCores",
    "TooLittleMemory",
    "Topology",
    "Quota",
    "Reserved",
];

/// The place of a pod in [`Seen::pods`].
pub(super) type At<'a> = &'a dyn Fn(&Pod) -> usize;

fn incomplete(unit: &Unit<'_>, at: At<'_>, decision: &mut Decision) -> bool {
    let Some(why) = &unit.incomplete else {
        return false;
    };
    waits(&unit.parts, "GangIncomplete", &why.words(), at, decision);
    true
}

/// A gang whose pods ask differently: its parts one after the other on a copy, and all of them or none.
fn mixed(
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

fn placed(
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

fn waits(
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

impl Placed {
    /// Whether this pod's gate is ours to take off.
    pub fn acts(&self, seen: &Seen) -> bool {
        seen.pods
            .get(self.pod)
            .is_some_and(|pod| pod.place == Place::Gated)
    }
}
