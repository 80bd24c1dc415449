//! Which pods may leave their place, and how.

use super::{
    Place, Pod, Preempts, Seen,
    gangs::gang_of,
    promised::goes,
    turns::{self, Stays},
};
use std::collections::BTreeSet;

/// Whether a pod may be evicted for another.
pub(super) fn evictable(seen: &Seen, pod: &Pod) -> bool {
    let said = pod.ask.as_ref().and_then(|ask| ask.preemptible);
    if seen.devices.is_asked(pod) {
        return false;
    }
    let may = match seen.rules.preemption {
        // Nobody is served by it.
        _ if pod.is_warm() => said != Some(false),
        Preempts::Never => false,
        Preempts::Annotated => said == Some(true),
        // Who is made by nobody is gone for good: that is for its owner to allow.
        Preempts::LowerPriority => said.unwrap_or(!pod.owner.is_empty()),
    };
    may && matches!(pod.place, Place::Bound(_)) && !goes(pod) && !seen.kept.contains(&pod.uid)
}

/// What is under way with Deployments and StatefulSets, found once for all of their pods.
pub(super) struct Movers<'a> {
    seen: &'a Seen,
    /// Deployments of which one moves, by namespace and name.
    moving: BTreeSet<(&'a str, &'a str)>,
    /// StatefulSets of which one has its turn, or is not ready.
    unsettled: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Movers<'a> {
    pub(super) fn of(seen: &'a Seen) -> Self {
        let surges = seen.surges.iter();
        let mut moving: BTreeSet<(&str, &str)> = surges
            .map(|one| (one.namespace.as_str(), one.name.as_str()))
            .collect();
        let turns = seen.turns.iter();
        let mut unsettled: BTreeSet<(&str, &str)> = turns
            .map(|turn| (turn.namespace.as_str(), turn.set.as_str()))
            .collect();
        for pod in &seen.pods {
            let standing = &pod.standing;
            let deployment = standing.deployment.as_ref();
            if let Some(name) = deployment.filter(|_| standing.moves.is_some()) {
                moving.insert((&pod.namespace, name));
            }
            if let Some((set, _)) = standing.set.as_ref().filter(|_| !turns::is_well(pod)) {
                unsettled.insert((&pod.namespace, set));
            }
        }
        Self {
            seen,
            moving,
            unsettled,
        }
    }

    /// Whether one more of a pod's Deployment can be started before it ends, or its StatefulSet can miss it for a while.
    pub(super) fn movable(&self, pod: &Pod) -> bool {
        stands(self.seen, pod) && (self.surges(pod) || self.turns(pod).is_ok())
    }

    fn surges(&self, pod: &Pod) -> bool {
        let deployment = pod.standing.deployment.as_deref();
        deployment.is_some_and(|name| !self.moving.contains(&(&*pod.namespace, name)))
    }

    /// Whether a pod may move with its StatefulSet.
    pub(super) fn turns(&self, pod: &Pod) -> Result<(), Stays> {
        let Some((set, _)) = &pod.standing.set else {
            return Err(Stays::NoSet);
        };
        if self.unsettled.contains(&(&*pod.namespace, set.as_str())) {
            return Err(Stays::Unsettled);
        }
        if !self.seen.budgeted.contains(&pod.uid) {
            return Err(Stays::NoBudget);
        }
        if self.seen.kept.contains(&pod.uid) {
            return Err(Stays::Kept);
        }
        Ok(())
    }
}

/// Whether a pod runs where it was sent to, and nothing is under way with it.
pub(super) fn stands(seen: &Seen, pod: &Pod) -> bool {
    let standing = &pod.standing;
    standing.ours
        && !seen.devices.is_asked(pod)
        && standing.ready
        && matches!(pod.place, Place::Bound(_))
        && !goes(pod)
        && gang_of(pod).is_none()
}
