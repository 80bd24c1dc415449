//! What a pod asks of a node, by Kubernetes' own rule: containers together, or the init container that
//! asks for more while it runs, and the overhead of its runtime.

use super::{Text, node::is_extended, text::Names};
use crate::objects::{self, Container, PodSpec, Resources};
use std::collections::BTreeMap;

/// Amounts of resources.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Amounts {
    /// Thousandths of a core.
    pub cpu_milli: u64,
    /// Bytes.
    pub memory: u64,
    /// Extended resources, by name.
    pub extended: Box<[(Text, u64)]>,
}

impl Amounts {
    pub fn of(&self, resource: &str) -> u64 {
        let found = self.extended.iter().find(|(key, _)| &**key == resource);
        found.map_or(0, |(_, count)| *count)
    }
}

/// The most that Kubernetes counts; what is said beyond is held for this much.
const MOST: u64 = i64::MAX as u64;

type Sum = BTreeMap<String, u64>;

/// What a pod asks; what of it is no amount is told in `problems`.
pub(super) fn asked(spec: &PodSpec, names: &mut Names, problems: &mut Vec<String>) -> Amounts {
    let mut all = Sum::new();
    for container in &spec.containers {
        add(&mut all, &container_asks(container, problems));
    }
    // Sidecars run on: containers and later init containers come on top of them.
    let mut sidecars = Sum::new();
    let mut starting = Sum::new();
    for container in &spec.init_containers {
        let asks = container_asks(container, problems);
        let mut now = sidecars.clone();
        add(&mut now, &asks);
        most(&mut starting, &now);
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = now;
        }
    }
    add(&mut all, &sidecars);
    most(&mut all, &starting);
    if let Some(of_pod) = &spec.resources {
        // It holds for what it names, and it names no extended resources.
        for (key, count) in requests("the pod", of_pod, problems) {
            all.insert(key, count);
        }
    }
    let overhead = Resources {
        requests: spec.overhead.clone(),
        limits: BTreeMap::new(),
    };
    add(&mut all, &requests("overhead", &overhead, problems));
    let at = |key: &str| all.get(key).copied().unwrap_or(0);
    Amounts {
        cpu_milli: at("cpu"),
        memory: at("memory"),
        extended: all
            .iter()
            .filter(|(key, count)| is_extended(key) && **count > 0)
            .map(|(key, count)| (names.text(key), *count))
            .collect(),
    }
}

fn container_asks(container: &Container, problems: &mut Vec<String>) -> Sum {
    requests(&container.name, &container.resources, problems)
}

/// What is requested; a limit stands for a request that is not said.
fn requests(who: &str, of: &Resources, problems: &mut Vec<String>) -> Sum {
    let mut out = Sum::new();
    let unsaid = of
        .limits
        .iter()
        .filter(|(key, _)| !of.requests.contains_key(*key));
    for (key, text) in of.requests.iter().chain(unsaid) {
        let read = if key == "cpu" {
            objects::milli(text)
        } else if key == "memory" || is_extended(key) {
            objects::whole(text)
        } else {
            continue;
        };
        let count = read.unwrap_or_else(|why| {
            problems.push(format!("{who}: {key} is {text:?}: {why}"));
            match why {
                objects::QuantityError::Overflow => MOST,
                _ => 0,
            }
        });
        out.insert(key.clone(), count);
    }
    out
}

fn add(to: &mut Sum, more: &Sum) {
    for (key, count) in more {
        let known = to.entry(key.clone()).or_default();
        *known = known.saturating_add(*count).min(MOST);
    }
}

fn most(to: &mut Sum, other: &Sum) {
    for (key, count) in other {
        let known = to.entry(key.clone()).or_default();
        *known = (*known).max(*count);
    }
}
