//! What a request is for: the InferenceObjective that it names, whose priority counts where there is not enough for
//! all, and whom it is to be fair to.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

/// Headers that name an objective: as llm-d calls it, and as the inference extension did.
const OBJECTIVE: [&str; 2] = [
    "x-llm-d-inference-objective",
    "x-gateway-inference-objective",
];
/// Headers that say whose request it is, among those of one priority.
const FAIRNESS: [&str; 2] = [
    "x-llm-d-inference-fairness-id",
    "x-gateway-inference-fairness-id",
];
/// Where none says it, as in the extension.
const ONE_FLOW: &str = "default-flow";

/// Headers that are between who asks and the picker.
pub(super) const HIDDEN: [&str; 4] = [OBJECTIVE[0], OBJECTIVE[1], FAIRNESS[0], FAIRNESS[1]];

/// Priorities of a pool's objectives, by their names; more is more important, below 0 may be refused first.
#[derive(Debug, Clone, Default)]
pub struct Objectives(Arc<RwLock<BTreeMap<String, i64>>>);

impl Objectives {
    /// These, and no others.
    pub fn set(&self, all: BTreeMap<String, i64>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = all;
    }

    pub(super) fn all(&self) -> BTreeMap<String, i64> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn priority(&self, name: &str) -> Option<i64> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.get(name).copied()
    }

    /// Where a request with these headers stands.
    pub(super) fn standing(&self, headers: &BTreeMap<String, String>) -> Standing {
        let named = said(headers, OBJECTIVE);
        let priority = named.map(|name| self.priority(name));
        Standing {
            priority: priority.flatten().unwrap_or(0),
            flow: said(headers, FAIRNESS).unwrap_or(ONE_FLOW).to_owned(),
            unknown: (priority == Some(None)).then(|| named.unwrap_or_default().to_owned()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    /// 0 where no objective is named, or none is of that name, or it has none.
    pub(super) priority: i64,
    pub(super) flow: String,
    /// The name of an objective that there is not.
    pub(super) unknown: Option<String>,
}

fn said<'a>(headers: &'a BTreeMap<String, String>, names: [&str; 2]) -> Option<&'a str> {
    let mut all = names.iter().filter_map(|name| headers.get(*name));
    all.find(|value| !value.is_empty()).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_is_found_by_either_header_and_an_unknown_one_is_named() {
        let objectives = Objectives::default();
        objectives.set([("batch".to_owned(), -10), ("chat".to_owned(), 100)].into());
        for (name, value, priority, unknown) in [
            ("x-gateway-inference-objective", "batch", -10, None),
            ("x-llm-d-inference-objective", "chat", 100, None),
            ("x-llm-d-inference-objective", "chta", 0, Some("chta")),
            ("x-llm-d-inference-objective", "", 0, None),
            ("x-other", "chat", 0, None),
        ] {
            let standing = objectives.standing(&[(name.to_owned(), value.to_owned())].into());
            assert_eq!(standing.priority, priority, "{name}: {value}");
            assert_eq!(standing.unknown.as_deref(), unknown, "{name}: {value}");
            assert_eq!(standing.flow, "default-flow");
        }
    }
}
