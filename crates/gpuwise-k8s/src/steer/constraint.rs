//! On which nodes kube-scheduler would let a pod: its node selector, required node affinity and tolerations.

use super::{Names, Node};

/// What a pod says of nodes; pods that say the same are looked at once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Constraint {
    pub node_selector: Names,
    /// Required node affinity: one of these lists, all of its requirements. Empty: none is required.
    pub terms: Vec<Vec<Requirement>>,
    pub tolerations: Vec<Toleration>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    /// The label; `None`: the node's name.
    pub key: Option<String>,
    pub operator: Operator,
    pub values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
    /// One that is not known here: no node is taken to meet it.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Toleration {
    /// Empty: every key.
    pub key: String,
    /// Whether the value does not count.
    pub exists: bool,
    pub value: String,
    /// Empty: every effect.
    pub effect: String,
}

impl Operator {
    /// By its name in the API.
    pub fn named(name: &str) -> Self {
        match name {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::Gt,
            "Lt" => Self::Lt,
            _ => Self::Other,
        }
    }
}

impl Constraint {
    /// Whether kube-scheduler would let it onto a node.
    pub fn admits(&self, node: &Node) -> bool {
        let selected = self
            .node_selector
            .iter()
            .all(|(key, value)| node.labels.get(key) == Some(value));
        let required = self.terms.is_empty()
            || self.terms.iter().any(|term| {
                // A term without requirements meets nothing.
                !term.is_empty() && term.iter().all(|one| one.is_met(node))
            });
        selected && required && node.taints.iter().all(|taint| self.tolerates(taint))
    }

    /// The same, as if the node had no taint of this key.
    pub fn admits_but(&self, node: &Node, key: &str) -> bool {
        if !node.taints.iter().any(|taint| taint.key == key) {
            return self.admits(node);
        }
        let mut bare = node.clone();
        bare.taints.retain(|taint| taint.key != key);
        self.admits(&bare)
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        if taint.effect != "NoSchedule" && taint.effect != "NoExecute" {
            return true;
        }
        self.tolerations.iter().any(|one| {
            (one.effect.is_empty() || one.effect == taint.effect)
                && if one.key.is_empty() {
                    one.exists
                } else {
                    one.key == taint.key && (one.exists || one.value == taint.value)
                }
        })
    }
}

impl Requirement {
    fn is_met(&self, node: &Node) -> bool {
        let value = match &self.key {
            None => Some(&node.name),
            Some(key) => node.labels.get(key),
        };
        let number = |text: &String| text.parse::<i64>().ok();
        let bound = self.values.first().and_then(number);
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => value
                .and_then(number)
                .zip(bound)
                .is_some_and(|(is, than)| is > than),
            Operator::Lt => value
                .and_then(number)
                .zip(bound)
                .is_some_and(|(is, than)| is < than),
            Operator::Other => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Node {
        let labels = [("zone", "a"), ("cores", "64")];
        Node {
            name: "n1".into(),
            labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            taints: vec![Taint {
                key: "gpu".into(),
                value: "yes".into(),
                effect: "NoSchedule".into(),
            }],
            ..Node::default()
        }
    }

    fn one(key: Option<&str>, operator: Operator, values: &[&str]) -> bool {
        let tolerations = vec![Toleration {
            key: "gpu".into(),
            exists: true,
            ..Toleration::default()
        }];
        let requirement = Requirement {
            key: key.map(str::to_owned),
            operator,
            values: values.iter().map(|v| (*v).to_owned()).collect(),
        };
        let constraint = Constraint {
            terms: vec![vec![requirement]],
            tolerations,
            ..Constraint::default()
        };
        constraint.admits(&node())
    }

    #[test]
    fn requirements_are_those_of_kube_scheduler() {
        assert!(
            one(Some("zone"), Operator::In, &["b", "a"])
                && !one(Some("zone"), Operator::NotIn, &["a"])
        );
        assert!(
            one(Some("rack"), Operator::NotIn, &["a"])
                && one(Some("rack"), Operator::DoesNotExist, &[])
        );
        assert!(
            one(Some("cores"), Operator::Gt, &["63"]) && !one(Some("cores"), Operator::Lt, &["64"])
        );
        assert!(one(None, Operator::In, &["n1"]) && !one(None, Operator::In, &["n2"]));
        assert!(!one(Some("zone"), Operator::Other, &["a"]));
    }

    #[test]
    fn taints_keep_those_away_who_do_not_tolerate_them() {
        assert!(!Constraint::default().admits(&node()));
        let all = Toleration {
            exists: true,
            ..Toleration::default()
        };
        let value = Toleration {
            key: "gpu".into(),
            value: "no".into(),
            ..Toleration::default()
        };
        assert!(
            Constraint {
                tolerations: vec![all],
                ..Constraint::default()
            }
            .admits(&node())
        );
        assert!(
            !Constraint {
                tolerations: vec![value],
                ..Constraint::default()
            }
            .admits(&node())
        );
    }
}
