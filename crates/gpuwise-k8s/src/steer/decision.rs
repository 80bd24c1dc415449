//! One decision: who goes where, who waits and why.

use super::{
    Place, Pod, Preempts, Room, Seen, Step,
    answers::{incomplete, mixed, placed, waits},
    chunks::Chunks,
    gangs::{Unit, gang_of, units},
    holders::holders,
    kept::Kept,
    promised::Promised,
    room::{Until, rooms},
    rules::kernel_rules,
    turns,
    view::View,
    warm::wanting,
    words::told,
    world::Cluster,
};
use gpuwise_domain::placement::{Action, Event, JobId, NodeId};
use gpuwise_sched::{
    decide::{Effort, decide as kernel, moment_at},
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

/// Decides for all of a round who wait, and adds to what was decided before.
///
/// # Errors
/// When the rules name a placement that is not there.
pub(super) fn decide_once(
    kept: &mut Kept,
    view: &View<'_>,
    promised: &Promised,
    now: Nanoseconds,
    decision: &mut Decision,
) -> Result<(), String> {
    let seen = &*view.now(promised, decision.rooms.iter());
    let mut rules = kernel_rules(seen)?;
    let mut cluster = Cluster::after(kept, seen, holders(seen, promised), now);
    let index = seen.places();
    let at = |pod: &Pod| index.get(pod.uid.as_str()).copied().unwrap_or_default();
    let mut demand = Vec::new();
    let mut asked: BTreeMap<JobId, Unit<'_>> = BTreeMap::new();
    let all = units(seen, promised);
    let are_mixed = all.iter().any(|unit| unit.parts.len() > 1);
    // What is left of a gang that has begun goes before gangs that have not.
    let alone = |unit: &Unit<'_>| unit.parts.len() > 1 || (are_mixed && unit.begun);
    let (mut several, ordinary): (Vec<Unit<'_>>, Vec<Unit<'_>>) = all.into_iter().partition(alone);
    several.sort_by_key(|unit| !unit.begun);
    for unit in &several {
        if incomplete(unit, &at, decision) {
            continue;
        }
        mixed(unit, (&mut cluster, &mut rules), now, &at, decision);
    }
    for unit in ordinary {
        if incomplete(&unit, &at, decision) {
            continue;
        }
        if let Some(job) = cluster.jobs(&unit, true, now).pop() {
            let id = job.id;
            match cluster.tell(now, Event::Submitted(job)) {
                Ok(()) => {
                    demand.push(id);
                    asked.insert(id, unit);
                }
                Err(why) => waits(&unit.parts, "Refused", &why, &at, decision),
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
            placed(unit, 0, &nodes, &cluster, &at, decision);
        }
    }
    deepen(
        &cluster.world,
        &mut report,
        &mut rules,
        Effort::ORDINARY,
        FIXES,
    );
    let mut told = told(&cluster, &report);
    for (job, reason, words) in &mut told {
        if let Some(unit) = asked.get(job) {
            of_devices(seen, unit, (reason, words));
        }
    }
    for (job, reason, words) in &told {
        if let Some(unit) = asked.get(job) {
            waits(&unit.parts, reason, words, &at, decision);
        }
    }
    let moment = moment_at(&cluster.world, &mut rules, now);
    decision.wake = decision.wake.into_iter().chain(moment).min();
    for trouble in cluster.troubles {
        if !decision.troubles.contains(&trouble) {
            decision.troubles.push(trouble);
        }
    }
    Ok(())
}

/// Makes room for those of a round that find none: who is to have it waits no longer. What is decided after goes on
/// from `promised`.
pub(super) fn make_room(
    view: &View<'_>,
    promised: &mut Promised,
    now: Nanoseconds,
    decision: &mut Decision,
) {
    let rules = &view.whole.rules;
    let lacks = decision.waits.iter();
    let lacks = lacks.filter(|one| LACKS_ROOM.contains(&one.reason));
    let lacks: BTreeSet<&str> = lacks
        .filter_map(|one| Some(view.whole.pods.get(one.pod)?.uid.as_str()))
        .collect();
    let disrupts = rules.moves.is_some() || rules.preemption != Preempts::Never;
    // Who is warm leaves whatever the rules say.
    if lacks.is_empty() || !(disrupts || view.whole.pods.iter().any(|pod| pod.is_warm())) {
        return;
    }
    let later = view.later(promised, decision.rooms.iter());
    let units = units(&later, promised);
    let lacking = units.iter().filter(|unit| {
        let mut pods = unit.parts.iter().flatten();
        unit.parts.len() == 1 && pods.all(|pod| lacks.contains(pod.uid.as_str()))
    });
    let lacking = wanting(&later, lacking.collect());
    if lacking.is_empty() {
        return;
    }
    let until = Until {
        view,
        seen: &later,
        promised,
        placed: view.unseen(&decision.placed),
        rooms: &decision.rooms,
        chunks: &Chunks::default(),
        now,
    };
    let found = rooms(&until, &lacking);
    let seats = found.iter().flat_map(|room| &room.pods);
    let seated: BTreeSet<usize> = seats.map(|(at, _)| *at).collect();
    decision.waits.retain(|one| !seated.contains(&one.pod));
    turns::tell_barred(&until, &lacking, &mut decision.waits);
    promised.seat(&found);
    decision.rooms.extend(found);
}

/// What would help of other kinds of GPUs helps no claim, and what others hold of the same GPUs the kernel does not see.
fn of_devices(seen: &Seen, unit: &Unit<'_>, (reason, words): (&mut &'static str, &mut String)) {
    let mut pods = unit.parts.iter().flatten();
    let Some(pod) = pods.next() else { return };
    let of_room = match *reason {
        "NoSuchGpu" | "LargerThanCluster" => true,
        "TooFewGpus" => gang_of(pod).is_none(),
        _ => false,
    };
    if let Some(lacks) = of_room.then(|| seen.devices.lacks(pod)).flatten() {
        (*reason, *words) = lacks;
    }
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

impl Placed {
    /// Whether this pod's gate is ours to take off.
    pub fn acts(&self, seen: &Seen) -> bool {
        seen.pods
            .get(self.pod)
            .is_some_and(|pod| pod.place == Place::Gated)
    }
}
