//! Starts of replicas that were seen: a table of a model, a node class, a state and a time.

use super::{TraceError, shortened};
use crate::table_error;

/// A start that was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenStart {
    pub line: u64,
    pub model: String,
    /// The class of the node, such as a GPU or an instance; empty where none is said.
    pub node: String,
    /// What was there before; empty: nothing.
    pub state: String,
    pub seconds: f64,
}

/// Reads starts: a CSV with the columns `model`, `seconds`, and perhaps `node` and `state`.
///
/// # Errors
/// When a column is missing, or a time is none.
pub fn read_starts(text: &str) -> Result<Vec<SeenStart>, TraceError> {
    let text = text.trim_start_matches('\u{feff}');
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let head = reader
        .headers()
        .map_err(|error| TraceError::line(1, table_error(&error, None)))?;
    let head: Vec<String> = head.iter().map(str::to_ascii_lowercase).collect();
    let find = |name: &str| head.iter().position(|one| one == name);
    let needs = |name: &str| {
        find(name).ok_or_else(|| {
            let what =
                format!("no column is called `{name}`; expected model, node, state, seconds");
            TraceError::line(1, what)
        })
    };
    let (model, seconds) = (needs("model")?, needs("seconds")?);
    let (node, state) = (find("node"), find("state"));
    let mut all = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| {
            let line = error.position().map_or(0, csv::Position::line);
            TraceError::line(line, table_error(&error, None))
        })?;
        let line = record.position().map_or(0, csv::Position::line);
        let cell = |at: Option<usize>| {
            let text = at.and_then(|at| record.get(at));
            text.unwrap_or_default().to_owned()
        };
        let text = cell(Some(seconds));
        let took = text.parse::<f64>().ok();
        let took = took.filter(|took| took.is_finite() && *took > 0.0);
        let took = took.ok_or_else(|| {
            let what = format!("seconds {}: expected seconds, above 0", shortened(&text));
            TraceError::line(line, what)
        })?;
        all.push(SeenStart {
            line,
            model: cell(Some(model)),
            node: cell(node),
            state: cell(state),
            seconds: took,
        });
    }
    if all.is_empty() {
        return Err(TraceError::Empty);
    }
    Ok(all)
}
