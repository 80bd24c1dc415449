//! Findings that begin and end.

use super::rules::finding_weight;
use gpuwise_domain::profile::finding::Finding;
use std::collections::BTreeMap;

/// A finding that began or ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The finding, as it was last seen.
    pub finding: Finding,
    /// When it began, in seconds since 1970.
    pub began: f64,
    /// When it was last seen, where it has ended.
    pub ended: Option<f64>,
}

/// Which findings hold, since when.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    holding: BTreeMap<(String, Option<String>), (f64, f64, Finding)>,
    hold: f64,
}

impl Changes {
    /// None yet; one has ended when it was not seen for so many seconds.
    pub fn new(hold_seconds: f64) -> Self {
        Self {
            holding: BTreeMap::new(),
            hold: hold_seconds,
        }
    }

    /// Takes what is found now; gives what began and what ended.
    pub fn take(&mut self, now: f64, found: Vec<Finding>) -> Vec<Change> {
        let mut changes = Vec::new();
        for finding in found {
            let key = (finding.class.clone(), finding.scope.part.clone());
            if let Some((_, seen, last)) = self.holding.get_mut(&key) {
                *seen = now;
                *last = finding;
                continue;
            }
            changes.push(Change {
                finding: finding.clone(),
                began: now,
                ended: None,
            });
            self.holding.insert(key, (now, now, finding));
        }
        let hold = self.hold;
        self.holding.retain(|_, (began, seen, finding)| {
            let over = now - *seen > hold;
            if over {
                changes.push(Change {
                    finding: finding.clone(),
                    began: *began,
                    ended: Some(*seen),
                });
            }
            !over
        });
        changes
    }

    /// Findings that hold, with when they began: faults first, then those that gain most.
    pub fn holding(&self) -> impl Iterator<Item = (f64, &Finding)> {
        let all = self.holding.values();
        let mut all: Vec<_> = all.map(|(began, _, finding)| (*began, finding)).collect();
        all.sort_by(|a, b| finding_weight(b.1).total_cmp(&finding_weight(a.1)));
        all.into_iter()
    }
}
