//! What limits pods: quotas with what is used of them, disruption budgets, gangs.

use super::{Inventory, Text, text::Names};
use crate::objects::{self, LabelSelector};
use std::collections::{BTreeMap, BTreeSet};

/// A quota of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// By resource as the quota names it (`requests.nvidia.com/gpu`): thousandths, hard and used.
    pub amounts: BTreeMap<Text, Spent>,
    /// It counts some pods only: by scope or priority class.
    pub scoped: bool,
    pub problems: Box<[String]>,
}

/// Of one resource, in thousandths; `used` is not known until it was counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    pub hard_milli: u64,
    pub used_milli: Option<u64>,
}

impl Spent {
    /// What is left, in thousandths.
    pub fn left_milli(&self) -> Option<u64> {
        Some(self.hard_milli.saturating_sub(self.used_milli?))
    }
}

/// A disruption budget: how many of its pods may be ended now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// `None`: it says nothing and covers no pod.
    pub selector: Option<LabelSelector>,
    pub disruptions_allowed: u32,
    pub current_healthy: u32,
    pub desired_healthy: u32,
    /// The controller has counted what is asked now, not an older wish.
    pub counted: bool,
}

/// A gang of `scheduling.k8s.io`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Bound together or not at all; `None`: each for itself.
    pub min_count: Option<u32>,
    /// Labels of nodes by whose value all of it are in one place.
    pub within: Box<[Text]>,
}

impl Quota {
    pub(super) fn read(object: &objects::Quota, names: &mut Names) -> Self {
        let mut problems = Vec::new();
        // What the controller counts against is in the status; before it has, the wish holds.
        let status = &object.status;
        let hard = if status.hard.is_empty() {
            &object.spec.hard
        } else {
            &status.hard
        };
        let mut read = |key: &str, text: &str| match objects::milli(text) {
            Ok(milli) => milli,
            Err(why) => {
                problems.push(format!("{key} is {text:?}: {why}"));
                i64::MAX as u64
            }
        };
        let mut amounts = BTreeMap::new();
        for (key, text) in hard {
            let spent = Spent {
                hard_milli: read(key, text),
                used_milli: status.used.get(key).map(|text| read(key, text)),
            };
            amounts.insert(names.text(key), spent);
        }
        Self {
            amounts,
            scoped: object.spec.scope_selector.is_some() || !object.spec.scopes.is_empty(),
            problems: problems.into(),
        }
    }

    /// What is held back of an extended resource: hard and used, whole.
    pub fn of(&self, resource: &str) -> Option<Spent> {
        let key = format!("requests.{resource}");
        self.amounts.get(key.as_str()).copied()
    }
}

impl Budget {
    /// Whether a pod with these labels is of those that it covers.
    pub fn covers(&self, labels: &BTreeMap<Text, Text>) -> bool {
        let Some(selector) = &self.selector else {
            return false;
        };
        let value = |key: &str| labels.get(key).map(AsRef::as_ref);
        let exact = selector.match_labels.iter();
        let mut exact = exact.map(|(key, wanted)| value(key) == Some(wanted));
        let mut expressions = selector.match_expressions.iter().map(|one| {
            let found = value(&one.key);
            let listed = found.is_some_and(|found: &str| one.values.iter().any(|v| v == found));
            match one.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                // What is not known is taken to cover: nobody is ended for a word that we do not know.
                _ => true,
            }
        });
        exact.all(|met| met) && expressions.all(|met| met)
    }

    pub(super) fn read(object: &objects::Budget) -> Self {
        let status = &object.status;
        let count = |said: i64| u32::try_from(said).unwrap_or(0);
        Self {
            selector: object.spec.selector.clone(),
            disruptions_allowed: count(status.disruptions_allowed),
            current_healthy: count(status.current_healthy),
            desired_healthy: count(status.desired_healthy),
            counted: status.observed_generation == object.metadata.generation,
        }
    }
}

impl Group {
    pub(super) fn read(object: &objects::PodGroup, names: &mut Names) -> Self {
        let spec = &object.spec;
        let constraints = spec.scheduling_constraints.as_ref();
        let keys = constraints.into_iter().flat_map(|all| &all.topology);
        Self {
            min_count: spec
                .scheduling_policy
                .gang
                .as_ref()
                .map(|gang| gang.min_count),
            within: keys.map(|one| names.text(&one.key)).collect(),
        }
    }
}

impl Inventory {
    /// Pods that a disruption budget keeps now, by uid.
    pub fn kept_by_budgets(&self) -> BTreeSet<String> {
        self.covered(&|budget| budget.disruptions_allowed == 0)
    }

    /// Pods that a disruption budget covers, by uid.
    pub fn under_budgets(&self) -> BTreeSet<String> {
        self.covered(&|_| true)
    }

    /// Pods on nodes that one of these budgets covers.
    fn covered(&self, counts: &dyn Fn(&Budget) -> bool) -> BTreeSet<String> {
        let mut strict: BTreeMap<Text, Vec<&Budget>> = BTreeMap::new();
        for (key, budget) in self.budgets.iter().filter(|(_, budget)| counts(budget)) {
            strict.entry(key.namespace).or_default().push(budget);
        }
        let kept = strict.iter().flat_map(|(namespace, budgets)| {
            let pods = self.pods.of(namespace).map(|(_, pod)| pod);
            pods.filter(move |pod| {
                let mut all = budgets.iter();
                pod.holds() && all.any(|budget| budget.covers(&pod.shape.labels))
            })
        });
        kept.map(|pod| pod.uid.to_string()).collect()
    }
}
