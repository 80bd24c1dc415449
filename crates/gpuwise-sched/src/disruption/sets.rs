//! Sets of disruptions: what they come to, and the cheapest one that is enough.

use super::cost::{Disruption, DisruptionKind, Preemptor};
use crate::world::World;
use gpuwise_domain::placement::{Action, Assignment, Cause, JobId};
use std::{cmp::Reverse, collections::BTreeMap, collections::BinaryHeap};

/// What a set of disruptions asks for.
#[derive(Debug, Default)]
pub(super) struct Demands {
    /// Stops, reclaims and shrinks.
    pub(super) actions: Vec<Action>,
    pub(super) movers: Vec<JobId>,
}

/// What a set comes to; `None` where it disrupts somebody in two ways, or takes more of an elastic job
/// than it can be without.
pub(super) fn asked<'a>(
    world: &World,
    who: &Preemptor<'_>,
    set: impl Iterator<Item = &'a Disruption>,
) -> Option<Demands> {
    let mut asked = Demands::default();
    let mut shrinks: BTreeMap<JobId, Vec<u32>> = BTreeMap::new();
    let mut whole: Vec<JobId> = Vec::new();
    for one in set {
        if let DisruptionKind::Shrink(assignment) = one.kind {
            shrinks.entry(one.job).or_default().push(assignment);
            continue;
        }
        if whole.contains(&one.job) {
            return None;
        }
        whole.push(one.job);
        match one.kind {
            DisruptionKind::Reclaim => asked.actions.push(Action::Reclaim { job: one.job }),
            DisruptionKind::Migrate => asked.movers.push(one.job),
            DisruptionKind::Preempt | DisruptionKind::Shrink(_) => {
                asked.actions.push(Action::Preempt {
                    job: one.job,
                    cause: Cause::For(who.job.id),
                });
            }
        }
    }
    for (job, gone) in shrinks {
        let state = world.job(job)?;
        if whole.contains(&job) || gone.len() > who.spare(state) {
            return None;
        }
        let kept = state.assignments.iter().zip(0..);
        let assignments: Vec<Assignment> = kept
            .filter(|(_, at)| !gone.contains(at))
            .map(|(assignment, _)| assignment.clone())
            .collect();
        asked.actions.push(Action::Resize { job, assignments });
    }
    let disrupted = asked.actions.len() + asked.movers.len();
    (disrupted <= who.disruptions.most as usize).then_some(asked)
}

/// What a set costs. Of an elastic job the first worker costs starting again, each further one next to
/// nothing.
pub(super) fn cost<'a>(set: impl Iterator<Item = &'a Disruption>) -> u128 {
    let mut shrunk: Vec<JobId> = Vec::new();
    let mut sum = 0_u128;
    for one in set {
        let again = matches!(one.kind, DisruptionKind::Shrink(_)) && shrunk.contains(&one.job);
        if matches!(one.kind, DisruptionKind::Shrink(_)) && !again {
            shrunk.push(one.job);
        }
        sum = sum.saturating_add(if again { 1 } else { one.cost });
    }
    sum
}

/// The cheapest set for which `enough` says yes, cheaper ones tried first; of equally cheap ones the
/// one with the earliest members. `None`: none that costs less than `bound` was found in `tries`; the
/// flag says whether all were tried.
pub(super) fn cheapest<T>(
    items: &[Disruption],
    bound: Option<u128>,
    tries: &mut u64,
    mut enough: impl FnMut(&[&Disruption]) -> Option<T>,
) -> (Option<(u128, Vec<Disruption>, T)>, bool) {
    let mut heap: BinaryHeap<Reverse<(u128, Vec<usize>)>> = BinaryHeap::new();
    heap.push(Reverse((0, Vec::new())));
    while let Some(Reverse((sum, set))) = heap.pop() {
        if bound.is_some_and(|bound| sum >= bound) {
            return (None, true);
        }
        if *tries == 0 {
            return (None, false);
        }
        *tries -= 1;
        let chosen: Vec<&Disruption> = set.iter().filter_map(|at| items.get(*at)).collect();
        if let Some(found) = enough(&chosen) {
            let chosen = chosen.into_iter().copied().collect();
            return (Some((sum, chosen, found)), true);
        }
        let next = set.last().map_or(0, |last| last + 1);
        for (at, item) in items.iter().enumerate().skip(next) {
            let clash = |other: &&&Disruption| {
                let both = matches!(
                    (other.kind, item.kind),
                    (DisruptionKind::Shrink(_), DisruptionKind::Shrink(_))
                );
                other.job == item.job && !both
            };
            if chosen.iter().any(|other| clash(&other)) {
                continue;
            }
            let sum = cost(chosen.iter().copied().chain([item]));
            let mut longer = set.clone();
            longer.push(at);
            heap.push(Reverse((sum, longer)));
        }
    }
    (None, true)
}
