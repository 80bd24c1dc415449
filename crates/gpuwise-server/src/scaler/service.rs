//! What a trigger, or a file of services, says of a service, and what is read of it.

use super::Source;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// What the metadata of a trigger say of a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Service {
    /// PromQL that gives requests a second, of all its replicas.
    pub(super) query: String,
    /// Requests a second that a replica serves within its SLO.
    pub(super) rate: f64,
    /// PromQL of its replicas that are ready, and of its requests that wait; `None`: those that were wanted are taken
    /// for ready, and nothing for waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ready: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) queued: Option<String>,
    /// Replicas at most.
    pub(super) most: Option<u32>,
    /// For how long fewer must be enough before there are fewer, in seconds.
    pub(super) hold_s: f64,
    /// For how long nothing must have come before there are none, in seconds.
    pub(super) idle_s: f64,
    pub(super) controller: By,
    /// From nothing until a replica serves, in seconds.
    pub(super) start_s: f64,
    /// Share of requests that are to be in time, and how long one may wait.
    pub(super) objective: f64,
    pub(super) wait_s: f64,
}

/// Who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum By {
    /// Ours: what comes now and in the time that a start takes, with its range.
    Gpuwise,
    /// The rate over what a replica serves, rounded up.
    Rate,
}

/// All that may be said.
const FIELDS: [&str; 11] = [
    "query",
    "rate",
    "readyQuery",
    "queueQuery",
    "maxReplicas",
    "holdSeconds",
    "idleSeconds",
    "startSeconds",
    "objective",
    "waitSeconds",
    "controller",
];

/// Why what a trigger says is no service.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum Wrong {
    #[error(
        "nothing is known of this object: its trigger says no `query` (PromQL of requests a second) and no \
         `rate` (requests a second that a replica serves)"
    )]
    Unknown,
    #[error("the trigger says no `{0}`")]
    Missing(&'static str),
    #[error("there is no field `{0}`; there are {list}", list = FIELDS.join(", "))]
    Field(String),
    #[error("`{field}` is {said:?}; expected {expected}")]
    Value {
        field: &'static str,
        said: String,
        expected: &'static str,
    },
}

impl Service {
    /// The same, where nothing else may stand beside it, as in a file of ours.
    pub(super) fn alone(fields: &HashMap<String, String>) -> Result<Self, Wrong> {
        let other = fields.keys().filter(|key| !FIELDS.contains(&key.as_str()));
        match other.min() {
            Some(other) => Err(Wrong::Field(other.clone())),
            None => Self::of(fields),
        }
    }

    pub(super) fn of(metadata: &HashMap<String, String>) -> Result<Self, Wrong> {
        let said = |field: &str| metadata.get(field).map(|text| text.trim());
        let asks = |field: &str| said(field).filter(|query| !query.is_empty());
        let query = asks("query");
        if query.is_none() && said("rate").is_none() {
            return Err(Wrong::Unknown);
        }
        let number = |field: &'static str, expected: &'static str, least: f64| {
            let Some(text) = said(field) else {
                return Ok(None);
            };
            let number = text.parse().ok();
            let number = number.filter(|number: &f64| number.is_finite() && *number >= least);
            number.map(Some).ok_or_else(|| Wrong::Value {
                field,
                said: text.to_owned(),
                expected,
            })
        };
        let rate = number("rate", "requests a second, above 0", f64::MIN_POSITIVE)?;
        let seconds = "seconds, 0 or more";
        let share = "a share between 0 and 1, both excluded";
        let objective = number("objective", share, f64::MIN_POSITIVE)?;
        if let Some(said) = objective.filter(|objective| *objective >= 1.0) {
            return Err(Wrong::Value {
                field: "objective",
                said: said.to_string(),
                expected: share,
            });
        }
        let most = number("maxReplicas", "a number of replicas, 1 or more", 1.0)?;
        Ok(Self {
            query: query.ok_or(Wrong::Missing("query"))?.to_owned(),
            rate: rate.ok_or(Wrong::Missing("rate"))?,
            ready: asks("readyQuery").map(str::to_owned),
            queued: asks("queueQuery").map(str::to_owned),
            most: most.map(|most| most as u32),
            hold_s: number("holdSeconds", seconds, 0.0)?.unwrap_or(300.0),
            idle_s: number("idleSeconds", seconds, 0.0)?.unwrap_or(300.0),
            controller: match said("controller") {
                None | Some("gpuwise") => By::Gpuwise,
                Some("rate") => By::Rate,
                Some(other) => {
                    return Err(Wrong::Value {
                        field: "controller",
                        said: other.to_owned(),
                        expected: "gpuwise or rate",
                    });
                }
            },
            start_s: number("startSeconds", "seconds, above 0", 0.001)?.unwrap_or(180.0),
            objective: objective.unwrap_or(0.99),
            wait_s: number("waitSeconds", "seconds, above 0", 0.001)?.unwrap_or(2.0),
        })
    }

    /// What the source gives for its queries; none of it where one of them gives nothing.
    pub(super) fn read(&self, source: &Source) -> Result<Read, String> {
        let count = |what: &str, query: &str| match source(query) {
            Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
            Ok(value) => Err(format!("{what} gives {value}, which is no {}", name(what))),
            Err(why) if what == "query" => Err(why),
            Err(why) => Err(format!("{what}: {why}")),
        };
        let of = |what, query: &Option<String>| {
            let query = query.as_deref();
            query.map(|query| count(what, query)).transpose()
        };
        Ok(Read {
            rate: count("query", &self.query)?,
            ready: of("readyQuery", &self.ready)?,
            queued: of("queueQuery", &self.queued)?,
        })
    }
}

fn name(query: &str) -> &'static str {
    if query == "query" { "rate" } else { "number" }
}

/// What was read of a service.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Read {
    /// Requests a second.
    pub(super) rate: f64,
    /// Replicas that are ready, and requests that wait, where it says how they are known.
    pub(super) ready: Option<f64>,
    pub(super) queued: Option<f64>,
}
