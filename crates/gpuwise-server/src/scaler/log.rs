//! What was decided, line by line, and whether it would be decided again.

use super::{
    service::{Read, Service},
    watched::{Wanted, Watched},
};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

use gpuwise_wire::scale::{SCALE_DECISION_SCHEMA, ScaleDecisionFile};

/// A decision with all that it was made of.
pub(super) type Line = ScaleDecisionFile;

/// A line of what was decided.
pub(super) fn line(
    at_ms: u64,
    object: &str,
    period: Nanoseconds,
    (service, fresh): (&Service, bool),
    read: &Result<Read, String>,
    wanted: Wanted,
) -> Line {
    Line {
        schema: SCALE_DECISION_SCHEMA.into(),
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
        if known.schema != SCALE_DECISION_SCHEMA {
            let found = &known.schema;
            return Err(format!(
                "line {number}: schema is {found:?}; expected {SCALE_DECISION_SCHEMA:?}"
            ));
        }
        count += 1;
        let object = objects
            .entry(known.object.clone())
            .or_insert_with(|| Watched::new(known.service.clone(), Nanoseconds(known.period_ns)));
        if known.fresh {
            *object = Watched::new(known.service.clone(), Nanoseconds(known.period_ns));
        }
        let why = || known.trouble.clone().unwrap_or_default();
        let read = known.read.ok_or_else(why);
        let wanted = object.decide(known.at_ms, &read);
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
