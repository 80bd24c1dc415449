//! Moves under way: one more pod of the Deployment first, and one less once that is ready.
//!
//! All of it can be read off the objects: the pod that moves says where to, the Deployment is labelled with the pod
//! for which it has one more, and who starts in its stead says so. Whoever leads next goes on from there.

use super::{
    Place, Pod, Seen,
    answers::At,
    turns::{self, Turn},
};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// A Deployment that has one pod more than was asked, for a pod that moves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Surge {
    pub namespace: String,
    pub name: String,
    /// The uid of the pod that moves.
    pub pod: String,
}

/// What comes next in a move.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The Deployment gets one pod more, for this pod by its place in [`Seen::pods`].
    Raise { pod: usize, deployment: String },
    /// It gets one less: the pod that moves goes first.
    Lower(Surge),
    /// The pod stays where it is.
    Stay { pod: usize },
    /// It is this pod's turn of its StatefulSet: its place is kept in writing before it goes.
    Turn { pod: usize },
    /// Whose turn it is goes.
    Evict { pod: usize },
    /// A turn is over, and the next may have his.
    Over(Turn),
}

/// Who does not start for so long is not waited for: ten minutes.
pub(super) const PATIENCE: Nanoseconds = Nanoseconds(600_000_000_000);

/// What is to be done of moves that have begun, and when the next of them has taken too long.
pub(super) fn steps(seen: &Seen, now: Nanoseconds, at: At<'_>) -> (Vec<Step>, Option<Nanoseconds>) {
    let mut steps = Vec::new();
    let mut ends: Option<Nanoseconds> = None;
    for surge in &seen.surges {
        let pod = seen.pods.iter().find(|pod| pod.uid == surge.pod);
        let goes_on = pod.filter(|pod| !pod.standing.ends && pod.standing.moves.is_some());
        let Some(pod) = goes_on else {
            steps.push(Step::Lower(surge.clone()));
            continue;
        };
        if is_ready(seen, pod) || is_late(pod, now) || seen.rules.moves.is_none() {
            steps.push(Step::Lower(surge.clone()));
        }
    }
    // Of each Deployment one at a time: who was begun with, then the first.
    let mut next: BTreeMap<(&str, &str), &Pod> = BTreeMap::new();
    for pod in &seen.pods {
        let Some((_, since)) = pod.standing.moves.as_ref().filter(|_| !pod.standing.ends) else {
            continue;
        };
        let Some(deployment) = pod.standing.deployment.as_deref() else {
            continue;
        };
        let surge = |one: &&Surge| one.namespace == pod.namespace && one.name == deployment;
        let own = seen.surges.iter().find(surge);
        let end = *since + PATIENCE;
        if end > now && ends.is_none_or(|known| end < known) {
            ends = Some(end);
        }
        match own {
            // It is lowered first, and the pod goes with that.
            Some(_) => {}
            None if is_late(pod, now) || seen.rules.moves.is_none() => {
                steps.push(Step::Stay { pod: at(pod) });
            }
            // Its controller is about to end it.
            None if is_ready(seen, pod) => {}
            None => {
                let first = next.entry((&pod.namespace, deployment)).or_insert(pod);
                if pod.standing.cheapest && !first.standing.cheapest {
                    *first = pod;
                }
            }
        }
    }
    steps.extend(next.into_iter().map(|((_, deployment), pod)| Step::Raise {
        pod: at(pod),
        deployment: deployment.to_owned(),
    }));
    ends = ends
        .into_iter()
        .chain(turns::steps(seen, now, at, &mut steps))
        .min();
    (steps, ends)
}

/// Whether the one that started in a pod's stead is ready.
fn is_ready(seen: &Seen, pod: &Pod) -> bool {
    seen.pods.iter().any(|other| {
        other.standing.replaces.as_ref() == Some(&pod.uid)
            && matches!(other.place, Place::Bound(_))
            && other.standing.ready
            && !other.standing.ends
    })
}

/// Whether a move has taken too long.
pub(super) fn is_late(pod: &Pod, now: Nanoseconds) -> bool {
    let since = pod.standing.moves.as_ref().map(|(_, since)| *since);
    since.is_some_and(|since| now.0.saturating_sub(since.0) >= PATIENCE.0)
}
