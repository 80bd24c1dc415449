//! Rows of what was decided, by names.

use super::Decided;
use gpuwise_domain::placement::{
    Action, Assignment, Decision, Fix, GpuId, JobId, NodeId, Outcome, Part,
};
use gpuwise_sched::{
    queues::milli_of,
    report::{shortage_words, span},
    world::World,
};
use gpuwise_units::Nanoseconds;
use gpuwise_view::placement::{FixRow, PlacedRow, Span, WaitingRow};
use std::collections::BTreeMap;

/// Everybody of whom the plan says something.
pub(super) fn placed(decided: &Decided) -> impl Iterator<Item = PlacedRow> + '_ {
    let decisions: BTreeMap<JobId, &Decision> = decided
        .report
        .decisions
        .iter()
        .filter(|decision| decision.outcome == Outcome::Placed)
        .map(|decision| (decision.job, decision))
        .collect();
    let row = move |job: JobId, action, assignments: &[Assignment]| {
        let state = decided.after.job(job)?;
        let weighed = decisions.get(&job);
        Some(PlacedRow {
            job: state.job.name.to_string(),
            tenant: state.job.tenant.clone(),
            action,
            workers: assignments.len() as u32,
            gpus_milli: milli_of(&decided.after, assignments),
            place: place(&decided.after, assignments),
            candidates: weighed.map_or(0, |decision| decision.candidates),
            weighed: weighed.map(|one| one.weighed.clone()).unwrap_or_default(),
        })
    };
    let actions = decided.plan.actions.iter();
    actions.filter_map(move |action| match action {
        Action::Place { job, assignments } => row(*job, "start", assignments),
        Action::Move {
            job, assignments, ..
        } => row(*job, "move", assignments),
        Action::Resize { job, assignments } => row(*job, "resize", assignments),
        Action::Restore { job, assignments } => row(*job, "give back", assignments),
        Action::Preempt { job, .. } => row(*job, "preempt", &[]),
        Action::Reclaim { job } => row(*job, "reclaim", &[]),
        _ => None,
    })
}

pub(super) fn waiting(decided: &Decided) -> impl Iterator<Item = WaitingRow> + '_ {
    let world = &decided.after;
    let row = move |decision: &Decision| {
        let Outcome::Waits {
            shortage,
            start,
            fixes,
        } = &decision.outcome
        else {
            return None;
        };
        let state = world
            .job(decision.job)
            .filter(|state| state.phase.waits())?;
        let from_now = |start: Nanoseconds| Nanoseconds(start.0.saturating_sub(world.now().0));
        Some(WaitingRow {
            job: state.job.name.to_string(),
            tenant: state.job.tenant.clone(),
            why: shortage_words(world, &state.job, shortage),
            start: start.map(|start| shown(from_now(start))),
            fixes: (!fixes.is_empty()).then(|| fixes.iter().map(fix).collect()),
        })
    };
    decided.report.decisions.iter().filter_map(row)
}

fn fix(fix: &Fix) -> FixRow {
    FixRow {
        what: fix.what.clone(),
        after: shown(fix.after),
        lost: shown(fix.lost),
        price: fix.price,
        cost: shown(fix.cost),
    }
}

fn shown(time: Nanoseconds) -> Span {
    Span {
        shown: span(time),
        exact: time,
    }
}

/// Where assignments are: `n0: 0–3; n1: 2 (50 %)`.
pub(super) fn place(world: &World, assignments: &[Assignment]) -> String {
    let mut nodes: Vec<(NodeId, Vec<String>)> = Vec::new();
    let mut whole: BTreeMap<NodeId, Vec<u32>> = BTreeMap::new();
    for assignment in assignments {
        if !nodes.iter().any(|(node, _)| *node == assignment.node) {
            nodes.push((assignment.node, Vec::new()));
        }
        for share in &assignment.gpus {
            let number = number(world, share.gpu);
            let parts = nodes.iter_mut().find(|(node, _)| *node == assignment.node);
            let part = match share.part {
                Part::Whole => {
                    whole.entry(assignment.node).or_default().push(number);
                    continue;
                }
                Part::Fraction { milli, .. } => format!("{number} ({} %)", percent(milli)),
                Part::Slice { shape, start } => {
                    let kind = world
                        .gpu(share.gpu)
                        .and_then(|gpu| world.kind(gpu.gpu.kind));
                    let row = kind.and_then(|kind| kind.mig.as_ref()?.shape(shape));
                    let profile = row.map_or("?", |row| row.profile.as_str());
                    format!("{number} ({profile} at {start})")
                }
            };
            if let Some((_, parts)) = parts {
                parts.push(part);
            }
        }
    }
    let each = nodes.into_iter().map(|(node, parts)| {
        let name = world
            .node(node)
            .map_or("?", |state| state.node.name.as_str());
        let mut all = whole.get(&node).map_or_else(Vec::new, |gpus| ranges(gpus));
        all.extend(parts);
        if all.is_empty() {
            return name.to_owned();
        }
        format!("{name}: {}", all.join(", "))
    });
    each.collect::<Vec<_>>().join("; ")
}

fn percent(milli: u32) -> String {
    if milli.is_multiple_of(10) {
        return (milli / 10).to_string();
    }
    format!("{}.{}", milli / 10, milli % 10)
}

/// The number of a GPU on the node where it is: its own, and pooled ones after those of the node.
fn number(world: &World, gpu: GpuId) -> u32 {
    let Some(state) = world.gpu(gpu) else {
        return 0;
    };
    let node = state.node.and_then(|node| world.node(node));
    let at = node.and_then(|node| node.gpus.iter().position(|one| *one == gpu));
    match state.gpu.home {
        gpuwise_domain::placement::Home::Node(_) => state.gpu.index,
        gpuwise_domain::placement::Home::Pool(_) => at.map_or(state.gpu.index, |at| at as u32),
    }
}

fn ranges(numbers: &[u32]) -> Vec<String> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let mut found: Vec<(u32, u32)> = Vec::new();
    for number in sorted {
        match found.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => found.push((number, number)),
        }
    }
    let text = |(first, last): (u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}–{last}"),
    };
    found.into_iter().map(text).collect()
}
