//! Which pods may leave their place, and how.

use super::{Place, Pod, Preempts, Seen, gangs::gang_of, promised::goes, turns};

/// Whether a pod may be evicted for another.
pub(super) fn evictable(seen: &Seen, pod: &Pod) -> bool {
    let said = pod.ask.as_ref().and_then(|ask| ask.preemptible);
    if seen.devices.is_asked(pod) {
        return false;
    }
    let may = match seen.rules.preemption {
        Preempts::Never => false,
        Preempts::Annotated => said == Some(true),
        // Who is made by nobody is gone for good: that is for its owner to allow.
        Preempts::LowerPriority => said.unwrap_or(!pod.owner.is_empty()),
    };
    may && matches!(pod.place, Place::Bound(_)) && !goes(pod) && !seen.kept.contains(&pod.uid)
}

/// Whether one more of a pod's Deployment can be started before it ends, or its StatefulSet can miss it for a while.
pub(super) fn movable(seen: &Seen, pod: &Pod) -> bool {
    stands(seen, pod) && (surges(seen, pod) || turns::may(seen, pod).is_ok())
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

fn surges(seen: &Seen, pod: &Pod) -> bool {
    let standing = &pod.standing;
    let surges = |name: &String| {
        let mut surges = seen.surges.iter();
        surges.any(|one| one.namespace == pod.namespace && one.name == *name)
    };
    let moves = |name: &String| {
        let mut pods = seen.pods.iter();
        pods.any(|other| {
            other.standing.deployment.as_ref() == Some(name)
                && other.namespace == pod.namespace
                && other.standing.moves.is_some()
        })
    };
    (standing.deployment.as_ref()).is_some_and(|name| !surges(name) && !moves(name))
}
