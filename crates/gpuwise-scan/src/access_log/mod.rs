//! Access logs of gateways and engines: JSON lines or CSV, one request a line, under many names.
//!
//! Lines that cannot be read are counted and survived, unless they are many.

mod fields;
mod rows;
mod time;

pub use fields::{Field, Mapping};
pub use time::{nanoseconds_of, rfc3339};

use crate::traffic::{MOST_REQUESTS, Trace, TraceKind};
use gpuwise_domain::request::Request;
use gpuwise_units::Nanoseconds;
use rows::Rows;

/// Share of lines that may be unreadable before the whole log is refused.
const MOST_BAD: f64 = 0.1;

/// What is wrong with an access log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessLogError {
    /// A mapping of columns that cannot be.
    #[error(
        "{0}; expected arrival, isl, osl, cached, session, tenant, model or status, each with its column or path, such as isl=usage.prompt_tokens"
    )]
    Mapping(String),
    /// A needed field stands nowhere.
    #[error("no column holds {needed}; the log has {}", list(.there))]
    Missing {
        needed: &'static str,
        /// The field's name in a mapping.
        field: &'static str,
        /// Columns or paths that there are.
        there: Vec<String>,
    },
    #[error("{bad} of {lines} lines cannot be read, first line {line}: {problem}")]
    TooManyBad {
        /// Lines that cannot be read.
        bad: u64,
        lines: u64,
        /// The first of them.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// No request is left.
    #[error("the log holds no request that was answered{0}")]
    Empty(String),
    #[error("the log holds more than {MOST_REQUESTS} requests")]
    TooMany,
    /// Another kind of file.
    #[error("{0}")]
    OtherKind(String),
}

fn list(names: &[String]) -> String {
    match names {
        [] => "no columns".into(),
        names => names.join(", "),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// When it came, in nanoseconds since 1970; 0 where the log has no times.
    pub arrival: i64,
    /// Tokens of its prompt.
    pub input: u32,
    pub output: u32,
    /// Prompt tokens found in the prefix cache, where told.
    pub cached: Option<u32>,
    /// Its conversation, by number in the order of appearance.
    pub session: Option<u32>,
    /// Who sent it, by place in [`AccessLog::tenants`].
    pub tenant: Option<u16>,
}

/// A log as understood.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessLog {
    /// Answered requests in the order of their arrival.
    pub entries: Vec<Entry>,
    /// Whether the log says when requests came.
    pub timed: bool,
    /// Lines that hold something.
    pub lines: u64,
    /// Lines that could not be read.
    pub bad: u64,
    /// The first of them, with its line.
    pub first_bad: Option<(u64, String)>,
    /// Requests that failed: a status of 400 or more, or no tokens.
    pub failed: u64,
    /// Requests of other models, left out.
    pub other_models: u64,
    /// Models with their answered requests, most first.
    pub models: Vec<(String, u64)>,
    pub tenants: Vec<String>,
    pub sessions: u64,
    /// Where each field was found.
    pub columns: Vec<(Field, String)>,
}

/// Reads a log. `model` leaves requests of other models out.
///
/// # Errors
/// When a needed field is nowhere, more than a tenth of the lines cannot be read, or no request is left.
pub fn read_access_log(
    bytes: &[u8],
    mapping: &Mapping,
    model: Option<&str>,
) -> Result<AccessLog, AccessLogError> {
    let rows = Rows::of(bytes)?;
    let columns = rows.columns(mapping)?;
    let mut log = rows.read(&columns, model)?;
    if let Some((line, problem)) = &log.first_bad
        && log.bad as f64 > MOST_BAD * log.lines as f64
    {
        return Err(AccessLogError::TooManyBad {
            bad: log.bad,
            lines: log.lines,
            line: *line,
            problem: problem.clone(),
        });
    }
    if log.entries.is_empty() {
        let why = match (log.other_models, log.failed) {
            (0, 0) => String::new(),
            (0, failed) => format!(": {failed} failed"),
            (others, _) => format!(
                " by {:?}: {others} are of {}",
                model.unwrap_or(""),
                list(
                    &log.models
                        .iter()
                        .map(|(name, _)| name.clone())
                        .collect::<Vec<_>>()
                )
            ),
        };
        return Err(AccessLogError::Empty(why));
    }
    log.entries.sort_by_key(|entry| entry.arrival);
    Ok(log)
}

impl AccessLog {
    /// Share of prompt tokens that the prefix cache held, where the log tells.
    pub fn prefix_hit(&self) -> Option<f64> {
        let told = self
            .entries
            .iter()
            .filter_map(|entry| Some((entry.cached?, entry.input)));
        let (cached, input) = told.fold((0_u64, 0_u64), |(cached, input), (more, of)| {
            (cached + u64::from(more.min(of)), input + u64::from(of))
        });
        (input > 0).then(|| cached as f64 / input as f64)
    }

    /// Requests in consecutive windows of so many seconds, from the first request on; the last window
    /// that is not whole is left out. Empty without times.
    pub fn counts(&self, seconds: f64) -> Vec<f64> {
        let (Some(first), Some(last), true) =
            (self.entries.first(), self.entries.last(), self.timed)
        else {
            return Vec::new();
        };
        let whole = ((last.arrival - first.arrival) as f64 / (seconds * 1e9)).floor();
        // A year in windows of ten seconds is more than anyone keeps.
        if !(1.0..=4e6).contains(&whole) {
            return Vec::new();
        }
        let mut counts = vec![0.0; whole as usize];
        for entry in &self.entries {
            let window = ((entry.arrival - first.arrival) as f64 / (seconds * 1e9)) as usize;
            if let Some(count) = counts.get_mut(window) {
                *count += 1.0;
            }
        }
        counts
    }

    /// The log as a trace; tenants are numbered from 1, as there.
    pub fn trace(&self) -> Trace {
        let first = self.entries.first().map_or(0, |entry| entry.arrival);
        let requests = self.entries.iter().map(|entry| Request {
            due: Nanoseconds(entry.arrival.abs_diff(first)),
            input: entry.input,
            output: entry.output,
            session: entry.session,
            tenant: entry.tenant.map_or(0, |number| number + 1),
            ..Request::default()
        });
        Trace {
            kind: TraceKind::Plain,
            requests: requests.collect(),
            timed: self.timed,
            block_tokens: None,
            tenants: self.tenants.clone(),
            adapters: Vec::new(),
            notes: Vec::new(),
        }
    }
}
