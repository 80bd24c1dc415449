//! One decision: who goes where, who waits and why.

use super::{
    Place, Pod, Seen,
    gangs::{Unit, units},
    world::Cluster,
};
use gpuwise_domain::placement::{
    Action, Backfill, Event, Job, JobId, NodeId, Order, Outcome, Report, Shortage,
};
use gpuwise_sched::{
    decide::{Effort, Policy, decide as kernel},
    policy::{self, PolicyContext},
    queues::Limits,
    report::{deepen, shortage_words},
};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// What is to become of those who wait.
#[derive(Debug, Default)]
pub struct Decision {
    pub placed: Vec<Placed>,
    pub waits: Vec<Waits>,
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

/// Decides for all who wait.
///
/// # Errors
/// When the rules name a placement that is not there.
pub fn decide(seen: &Seen, now: Nanoseconds) -> Result<Decision, String> {
    let mut rules = rules(seen)?;
    let mut cluster = Cluster::new(seen, now);
    let index: BTreeMap<&str, usize> = seen
        .pods
        .iter()
        .zip(0..)
        .map(|(pod, at)| (pod.uid.as_str(), at))
        .collect();
    let at = |pod: &Pod| index.get(pod.uid.as_str()).copied().unwrap_or_default();
    let mut decision = Decision::default();
    let mut demand = Vec::new();
    let mut asked: BTreeMap<JobId, Unit<'_>> = BTreeMap::new();
    let (several, ordinary): (Vec<Unit<'_>>, Vec<Unit<'_>>) = units(seen)
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
        if let Some(job) = cluster.jobs(&unit, now).pop() {
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
    for (job, reason, words) in told(&cluster, &report) {
        if let Some(unit) = asked.get(&job) {
            waits(&unit.parts, reason, &words, &at, &mut decision);
        }
    }
    decision.troubles = cluster.troubles;
    Ok(decision)
}

fn rules(seen: &Seen) -> Result<Policy, String> {
    let name = seen
        .rules
        .placement
        .as_deref()
        .unwrap_or(policy::names().first().copied().unwrap_or("best-fit"));
    let selector = policy::named(name, &PolicyContext::default()).ok_or_else(|| {
        format!(
            "there is no placement {name:?}; there are {}",
            policy::names().join(", ")
        )
    })?;
    let mut rules = Policy::new(selector);
    rules.order = seen.rules.order.unwrap_or(Order::Priority);
    let (skips, reservations) = match seen.rules.backfill.unwrap_or(Backfill::Any) {
        Backfill::None => (false, 0),
        Backfill::Any => (true, 0),
        Backfill::Easy => (true, 1),
        Backfill::Conservative => (true, u32::MAX),
    };
    rules.skips = skips;
    rules.limits = Limits {
        starvation_timeout: seen.rules.starvation,
        reservations,
        ..Limits::default()
    };
    Ok(rules)
}

type At<'a> = &'a dyn Fn(&Pod) -> usize;

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
    let jobs: Vec<Job> = cluster.jobs(unit, now);
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

/// Who waits, in one word and in a sentence, with what would help where that was looked for.
fn told(cluster: &Cluster<'_>, report: &Report) -> Vec<(JobId, &'static str, String)> {
    let mut all = Vec::new();
    for one in &report.decisions {
        let Outcome::Waits {
            shortage, fixes, ..
        } = &one.outcome
        else {
            continue;
        };
        let Some(state) = cluster.world.job(one.job) else {
            continue;
        };
        let mut words = shortage_words(&cluster.world, &state.job, shortage);
        if let Some(fix) = fixes.first() {
            words = format!("{words}. It would help: {}", fix.what);
        }
        all.push((one.job, word(shortage), words));
    }
    all
}

/// A shortage in one word.
const fn word(shortage: &Shortage) -> &'static str {
    match shortage {
        Shortage::Untold => "Waits",
        Shortage::NoSuchGpu { .. } => "NoSuchGpu",
        Shortage::LargerThanFleet { .. } => "LargerThanCluster",
        Shortage::Gpus { .. }
        | Shortage::Workers { .. }
        | Shortage::Fraction { .. }
        | Shortage::Slice => "TooFewGpus",
        Shortage::Cpu { .. } => "TooFewCores",
        Shortage::Memory { .. } => "TooLittleMemory",
        Shortage::Topology { .. } | Shortage::Spread { .. } => "Topology",
        Shortage::Quota(_) | Shortage::Budget { .. } => "Quota",
        Shortage::Reserved { .. } => "Reserved",
        Shortage::BehindHead { .. } => "BehindOthers",
        Shortage::Held | Shortage::BackOff { .. } | Shortage::Avoided { .. } => "BackOff",
        Shortage::Unfenced { .. } | Shortage::Leaving => "Leaving",
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
