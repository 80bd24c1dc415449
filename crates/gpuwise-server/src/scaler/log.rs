//! What was decided, line by line, and whether it would be decided again.

use super::{
    service::{Read, Service},
    watched::{Wanted, Watched},
};
use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(super) use gpuwise_wire::scale::SCALE_DECISION_SCHEMA as SCHEMA;

/// A decision with all that it was made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) schema: String,
    /// Milliseconds since 1970.
    pub(super) at_ms: u64,
    /// Namespace and name.
    pub(super) object: String,
    pub(super) period_ns: u64,
    pub(super) service: Service,
    /// Whether nothing was known of the object before: it is new, says something else, or this process is new.
    pub(super) fresh: bool,
    /// What was read; null: see `trouble`.
    pub(super) read: Option<Read>,
    /// Why nothing was read, or what was no number.
    pub(super) trouble: Option<String>,
    pub(super) wanted: Wanted,
}

impl Line {
    pub(super) fn new(
        at_ms: u64,
        object: &str,
        period: Nanoseconds,
        service: &Service,
        fresh: bool,
        read: &Result<Read, String>,
        wanted: Wanted,
    ) -> Self {
        Self {
            schema: SCHEMA.into(),
            at_ms,
            object: object.into(),
            period_ns: period.0,
            service: service.clone(),
            fresh,
            read: read.as_ref().ok().copied(),
            trouble: read.as_ref().err().cloned(),
            wanted,
        }
    }

    fn read(&self) -> Result<Read, String> {
        let why = || self.trouble.clone().unwrap_or_default();
        self.read.ok_or_else(why)
    }
}

/// A line of a log that would be decided otherwise now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its number, from 1.
    pub line: usize,
    pub was: String,
    pub is: String,
}

/// Decides again what a log says was decided, from what it was decided of: how many lines, and which differ.
///
/// # Errors
/// A line that is none of such a log: which, and why.
pub fn replayed(text: &str) -> Result<(usize, Vec<Difference>), String> {
    let mut objects: BTreeMap<String, Watched> = BTreeMap::new();
    let mut differences = Vec::new();
    let mut count = 0;
    for (line, number) in text
        .lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty())
    {
        let known: Line =
            serde_json::from_str(line).map_err(|error| format!("line {number}: {error}"))?;
        if known.schema != SCHEMA {
            let found = &known.schema;
            return Err(format!(
                "line {number}: schema is {found:?}; expected {SCHEMA:?}"
            ));
        }
        count += 1;
        let object = objects
            .entry(known.object.clone())
            .or_insert_with(|| Watched::new(known.service.clone(), Nanoseconds(known.period_ns)));
        if known.fresh {
            *object = Watched::new(known.service.clone(), Nanoseconds(known.period_ns));
        }
        let wanted = object.decide(known.at_ms, &known.read());
        if wanted != known.wanted {
            let words = |one: &Wanted| match one.replicas {
                Some(replicas) => format!("{replicas} ({})", one.reason),
                None => format!("unknown ({})", one.reason),
            };
            differences.push(Difference {
                line: number,
                was: words(&known.wanted),
                is: words(&wanted),
            });
        }
    }
    Ok((count, differences))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwise_wire::scale::ScaleDecisionFile;

    #[test]
    fn a_line_is_as_its_schema_says() {
        let metadata = [
            ("query", "sum(rate(x[1m]))"),
            ("rate", "2"),
            ("maxReplicas", "9"),
        ];
        let metadata = metadata.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let service = Service::of(&metadata.into()).expect("a service");
        for read in [Ok(3.5), Ok(f64::NAN), Err("no answer".to_owned())] {
            let wanted = Wanted {
                replicas: read.as_ref().ok().map(|_| 2),
                reason: "demand".into(),
            };
            let period = Nanoseconds(15_000_000_000);
            let line = Line::new(1, "default/llm", period, &service, true, &read, wanted);
            let written = serde_json::to_value(&line).expect("JSON");
            let known: ScaleDecisionFile =
                serde_json::from_value(written.clone()).expect("the form");
            assert_eq!(serde_json::to_value(known).expect("JSON"), written);
        }
    }
}
