//! Who of those that wait starts together.

use super::{Ask, Constraint, GangKind, GangName, Pod, Seen, promised::Promised};
use std::{collections::BTreeMap, sync::Arc};

/// Pods that are placed together, or none is.
#[derive(Debug)]
pub(super) struct Unit<'a> {
    pub name: String,
    /// Pods that wait and ask alike, each list by its pods' names: several where pods ask differently.
    pub parts: Vec<Vec<&'a Pod>>,
    /// Of one part: below this many it does not start.
    pub least: u32,
    /// Some of it are placed already: the rest goes before all others.
    pub begun: bool,
    pub incomplete: Option<Incomplete>,
}

/// Why a gang cannot be looked at yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Incomplete {
    /// Of `size` pods so many are there.
    Pods { there: u32, size: u32 },
    /// Nothing says how large it is.
    Size(String),
}

impl Incomplete {
    pub(super) fn words(&self) -> String {
        match self {
            Self::Pods { there, size } => {
                format!("its gang starts together: {there} of {size} pods are there")
            }
            Self::Size(name) => {
                format!(
                    "nothing says how many pods of {name} start together: no such PodGroup, or no size on the pod"
                )
            }
        }
    }
}

/// What pods that ask alike have in common.
type Alike<'a> = (&'a Option<Ask>, u64, u64, &'a Arc<Constraint>);

pub(super) type Key<'a> = (&'a str, &'a str, &'a GangName);

/// The gang that a pod is of: its namespace, its owner where that tells gangs apart, and what it is called.
pub(super) fn gang_of(pod: &Pod) -> Option<Key<'_>> {
    let gang = pod.ask.as_ref()?.gang.as_ref()?;
    // Only what we name ourselves is told apart by its owner.
    let owner = if gang.by == GangKind::Annotated {
        pod.owner.as_str()
    } else {
        ""
    };
    Some((&pod.namespace, owner, gang))
}

/// All who wait and were promised nothing, as units: gangs, and pods alone.
pub(super) fn units<'a>(seen: &'a Seen, promised: &Promised) -> Vec<Unit<'a>> {
    let mut gangs: BTreeMap<Key<'_>, (Vec<&Pod>, u32)> = BTreeMap::new();
    let mut all = Vec::new();
    for (at, pod) in seen.pods.iter().enumerate() {
        if pod.ask.is_none() {
            continue;
        }
        let waits = pod.waits() && !promised.to.contains_key(&at);
        let Some(key) = gang_of(pod) else {
            if waits {
                all.push(alone(pod));
            }
            continue;
        };
        let (waiting, placed) = gangs.entry(key).or_default();
        if waits {
            waiting.push(pod);
        } else {
            *placed += 1;
        }
    }
    for ((namespace, _, gang), (waiting, placed)) in gangs {
        let size = size_of(seen, namespace, gang);
        all.extend(of_gang(namespace, gang, size, waiting, placed));
    }
    all
}

/// How many of a gang start together, where anything says so.
pub(super) fn size_of(seen: &Seen, namespace: &str, gang: &GangName) -> Option<u32> {
    gang.size.or_else(|| {
        let key = (namespace.to_owned(), gang.name.clone());
        seen.groups.get(&key).copied()
    })
}

fn of_gang<'a>(
    namespace: &str,
    gang: &GangName,
    size: Option<u32>,
    mut waiting: Vec<&'a Pod>,
    placed: u32,
) -> Vec<Unit<'a>> {
    if waiting.is_empty() {
        return Vec::new();
    }
    // By rank: `worker-2` comes before `worker-10`.
    waiting.sort_by(|one, other| (one.name.len(), &one.name).cmp(&(other.name.len(), &other.name)));
    let name = match gang.name.as_str() {
        "" => format!(
            "{namespace}/{}",
            waiting.first().map_or("", |pod| &pod.name)
        ),
        name => format!("{namespace}/{name}"),
    };
    let there = waiting.len() as u32;
    let incomplete = match size {
        None => Some(Incomplete::Size(name.clone())),
        Some(size) if placed + there < size => Some(Incomplete::Pods {
            there: placed + there,
            size,
        }),
        Some(_) => None,
    };
    let rest = size.unwrap_or(there).saturating_sub(placed);
    // Beyond the size each comes and goes alone.
    if rest == 0 && incomplete.is_none() {
        return waiting.into_iter().map(alone).collect();
    }
    let mut parts: BTreeMap<Alike<'_>, Vec<&Pod>> = BTreeMap::new();
    for pod in waiting {
        let key = (&pod.ask, pod.cpu_milli, pod.memory_mib, &pod.constraint);
        parts.entry(key).or_default().push(pod);
    }
    let parts: Vec<Vec<&Pod>> = parts.into_values().collect();
    vec![Unit {
        name,
        // Where pods ask differently nobody says who may be missing: all start.
        least: if parts.len() == 1 {
            rest.min(there)
        } else {
            there
        },
        parts,
        begun: placed > 0,
        incomplete,
    }]
}

fn alone(pod: &Pod) -> Unit<'_> {
    Unit {
        name: format!("{}/{}", pod.namespace, pod.name),
        parts: vec![vec![pod]],
        least: 1,
        begun: false,
        incomplete: None,
    }
}
