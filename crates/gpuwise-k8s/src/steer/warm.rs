//! Warm pods: their GPUs are lent to whoever finds no room.

use super::{Place, Seen, Serves, Waits, gangs::Unit, promised::goes};
use std::collections::BTreeMap;

/// Who is to find room: not pods that would be warm, which nobody makes way for, and not replicas in whose stead a warm
/// pod of their own is there.
pub(super) fn wanting<'u, 'a>(seen: &'a Seen, units: Vec<&'u Unit<'a>>) -> Vec<&'u Unit<'a>> {
    let mut warm: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for pod in &seen.pods {
        if let (Some(Serves::Warm(of)), Place::Bound(_), false) =
            (&pod.standing.serves, &pod.place, goes(pod))
        {
            *warm.entry((&pod.namespace, of)).or_default() += 1;
        }
    }
    let changing = |of: &(&str, &str)| {
        let mut all = seen.changing.iter();
        all.any(|(namespace, name)| (namespace.as_str(), name.as_str()) == *of)
    };
    warm.retain(|of, _| !changing(of));
    let mut wants = |unit: &&'u Unit<'a>| {
        let mut pods = unit.parts.iter().flatten();
        !pods.any(|pod| match &pod.standing.serves {
            None => false,
            Some(Serves::Warm(_)) => true,
            Some(Serves::Replica(of)) => {
                let left = warm.get_mut(&(&*pod.namespace, &**of));
                let left = left.filter(|left| **left > 0);
                left.is_some_and(|left| {
                    *left -= 1;
                    true
                })
            }
        })
    };
    units.into_iter().filter(|unit| wants(unit)).collect()
}

/// Whether all who wait would be warm: nobody is kept from anything.
pub(super) fn are_warm(seen: &Seen, waits: &[Waits]) -> bool {
    let pods = waits.iter().filter_map(|one| seen.pods.get(one.pod));
    let mut others = pods.filter(|pod| !pod.is_warm());
    others.next().is_none()
}
