//! Conditions that have held long enough to start something.

use super::{figures::label, state::State};
use gpuwise_domain::telemetry::{Aggregate, Condition, Quantity};
use std::collections::BTreeMap;

/// A condition, and since when it has held.
#[derive(Debug, Clone)]
pub struct Trigger {
    condition: Condition,
    /// For each row, or for the one mean: since when it has held.
    since: BTreeMap<String, f64>,
    fired: BTreeMap<String, f64>,
    again: f64,
}

/// Why something was started.
#[derive(Debug, Clone, PartialEq)]
pub struct Triggered {
    /// The row, or `mean`, or the user's metric.
    pub row: String,
    /// The figure's value when it was.
    pub value: f64,
    /// For how long it had held, in seconds.
    pub seconds: f64,
}

impl Trigger {
    /// A condition; after it has fired for a row it fires there again only after `again` seconds, and
    /// not before it has been false in between.
    pub fn new(condition: Condition, again: f64) -> Self {
        Self {
            condition,
            since: BTreeMap::new(),
            fired: BTreeMap::new(),
            again,
        }
    }

    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// Looks at the newest values, of rows and of the user's own metrics; gives where it fires now.
    ///
    /// A row of which no source spoke for a window says nothing, and holds nothing.
    pub fn look(&mut self, state: &State, also: &[(String, f64)], now: f64) -> Vec<Triggered> {
        let values = self.values(state, also, now);
        let mut fired = Vec::new();
        let mut held = BTreeMap::new();
        for (row, value) in values {
            if !self.condition.comparison.holds(value, self.condition.value) {
                continue;
            }
            let since = self.since.get(&row).copied().unwrap_or(now);
            held.insert(row.clone(), since);
            let fresh = self
                .fired
                .get(&row)
                .is_none_or(|last| *last < since && now - last >= self.again);
            if now - since >= self.condition.seconds && fresh {
                self.fired.insert(row.clone(), now);
                fired.push(Triggered {
                    row,
                    value,
                    seconds: now - since,
                });
            }
        }
        self.since = held;
        fired
    }

    fn values(&self, state: &State, also: &[(String, f64)], now: f64) -> Vec<(String, f64)> {
        let mut values: Vec<(String, f64)> = match Quantity::named(&self.condition.figure) {
            Some(quantity) => state
                .rows()
                .iter()
                .filter_map(|row| {
                    let track = row.track(quantity)?;
                    let fresh = row.heard >= now - state.window();
                    Some((label(row), track.last().filter(|_| fresh)?))
                })
                .collect(),
            None => also
                .iter()
                .filter(|(name, value)| *name == self.condition.figure && value.is_finite())
                .cloned()
                .collect(),
        };
        match self.condition.over {
            Aggregate::All => {
                let (holds, limit) = (self.condition.comparison, self.condition.value);
                let all = values.iter().all(|(_, value)| holds.holds(*value, limit));
                let first = values.first().map(|(_, value)| *value);
                values = first
                    .filter(|_| all)
                    .map(|value| ("all".into(), value))
                    .into_iter()
                    .collect();
            }
            Aggregate::Mean if !values.is_empty() => {
                let mean = values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64;
                values = vec![("mean".into(), mean)];
            }
            Aggregate::Any | Aggregate::Mean => {}
        }
        values
    }
}
