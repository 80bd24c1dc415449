//! Whether a node will do for a pod: what the pod says of nodes, and what the node says of pods.

use super::{Node, Shape};
use crate::objects::{Expression, Taint, Term, Toleration};

/// Why a node will not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit<'a> {
    NotReady,
    Unschedulable,
    /// The pod's node selector asks for another value of this label.
    Selector(&'a str),
    /// None of the terms of the pod's node affinity is met.
    Affinity,
    /// The pod does not tolerate this taint.
    Taint(&'a Taint),
}

impl std::fmt::Display for Unfit<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotReady => f.write_str("the node is not ready"),
            Self::Unschedulable => f.write_str("the node is cordoned"),
            Self::Selector(key) => write!(f, "the pod's nodeSelector {key} is not met"),
            Self::Affinity => f.write_str("the pod's node affinity is not met"),
            Self::Taint(taint) => {
                write!(
                    f,
                    "the pod does not tolerate the taint {}:{}",
                    taint.key, taint.effect
                )
            }
        }
    }
}

impl Shape {
    /// Whether pods of this shape may come to a node, room aside.
    ///
    /// # Errors
    /// Why not; what keeps every pod away comes first.
    pub fn fits<'a>(&'a self, node: &'a Node) -> Result<(), Unfit<'a>> {
        if node.ready == Some(false) {
            return Err(Unfit::NotReady);
        }
        if node.unschedulable {
            return Err(Unfit::Unschedulable);
        }
        self.wants(node)?;
        let kept_away = node.taints.iter().find(|taint| {
            taint.effect != "PreferNoSchedule"
                && !self.tolerations.iter().any(|one| tolerates(one, taint))
        });
        kept_away.map_or(Ok(()), |taint| Err(Unfit::Taint(taint)))
    }

    /// Whether the node is one that the pod asks for.
    fn wants<'a>(&'a self, node: &Node) -> Result<(), Unfit<'a>> {
        let other = self
            .node_selector
            .iter()
            .find(|(key, value)| node.labels.get(*key) != Some(*value));
        if let Some((key, _)) = other {
            return Err(Unfit::Selector(key));
        }
        match &self.node_terms {
            Some(terms) if !terms.iter().any(|term| meets(term, node)) => Err(Unfit::Affinity),
            _ => Ok(()),
        }
    }
}

fn meets(term: &Term, node: &Node) -> bool {
    let labels = term
        .match_expressions
        .iter()
        .all(|one| holds(one, node.label(&one.key)));
    let named = |one: &Expression| match one.key.as_str() {
        "metadata.name" => holds(one, Some(&node.name)),
        _ => false,
    };
    let some = !term.match_expressions.is_empty() || !term.match_fields.is_empty();
    some && labels && term.match_fields.iter().all(named)
}

/// Whether a label's value is as asked; `None`: there is no such label.
pub(crate) fn holds(asked: &Expression, value: Option<&str>) -> bool {
    let listed = |value: &str| asked.values.iter().any(|one| one == value);
    // Both are whole numbers, or it does not hold.
    let against = |holds: fn(i64, i64) -> bool| {
        let bound = asked.values.first().and_then(|text| text.parse().ok());
        let value = value.and_then(|text| text.parse().ok());
        value
            .zip(bound)
            .is_some_and(|(value, bound)| holds(value, bound))
    };
    match asked.operator.as_str() {
        "In" => value.is_some_and(listed),
        "NotIn" => !value.is_some_and(listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => against(|value, bound| value > bound),
        "Lt" => against(|value, bound| value < bound),
        _ => false,
    }
}

pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.is_empty() || toleration.effect == taint.effect;
    let key = toleration.key.is_empty() || toleration.key == taint.key;
    let value = match toleration.operator.as_str() {
        "Exists" => true,
        "" | "Equal" => !toleration.key.is_empty() && toleration.value == taint.value,
        _ => false,
    };
    effect && key && value
}
