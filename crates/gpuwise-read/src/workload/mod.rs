//! A workload as people write it: traffic, SLO and limits, every quantity with its unit.
//!
//! The same fields are read from a file (TOML, JSON or YAML) and from flags of a command line:
//! both fill [`WorkloadFields`], and flags win over the file.
//!
//! ```toml
//! model = "meta-llama/Llama-3.1-8B-Instruct"
//! rate = "8/s"
//! isl = "2k"
//! osl = 300
//! ttft = "p95:1s"
//! tpot = "mean:40ms"
//! budget = "25USD/h"
//! gpus = ["H100", "L40S"]
//! ```
//!
//! What was measured of the traffic may stand there too: the rate of each hour, the busiest, and
//! quantiles of lengths (`isl_quantiles = ["p50:900", "p95:4k"]`).

mod build;
mod fields;
mod lengths;
mod quantities;
mod write;

pub use fields::WorkloadFields;
pub use lengths::{LONGEST_OF, USUAL_INPUT, USUAL_OUTPUT, is_mean_alone};
pub use quantities::{
    budget, burstiness, concurrency, length_quantile, owned, percent, power, rate, share, target,
    tokens,
};
pub use write::Written;

use gpuwise_domain::workload::{TrafficDetail, Workload};

/// A workload is some dozen lines; the limit bounds what its parser may be made to do.
const LARGEST_FILE: usize = 1 << 20;

/// A workload with what is to serve it, where that was said.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadFile {
    /// The model, as a name, an alias or a path.
    pub model: Option<String>,
    /// The engine, with its version if need be.
    pub engine: Option<String>,
    /// The scheme in which weights are stored.
    pub precision: Option<String>,
    pub workload: Workload,
    pub detail: TrafficDetail,
}

/// A field that cannot be, or contradicts another.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {problem}")]
pub struct FieldError {
    pub field: &'static str,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl FieldError {
    fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self {
            field,
            problem: problem.into(),
        }
    }
}

/// What is wrong with a workload file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// It is not of its form, or has a field that there is not.
    #[error("{file}{}: {problem}", at(*.line))]
    Syntax {
        file: String,
        /// The line, where the parser tells it.
        line: Option<u64>,
        problem: String,
    },
    #[error("{file}{}: {wrong}", at(*.line))]
    Field {
        file: String,
        /// The line of the field, where it stands in the file.
        line: Option<u64>,
        wrong: FieldError,
    },
}

fn at(line: Option<u64>) -> String {
    line.map_or(String::new(), |line| format!(", line {line}"))
}

/// The forms of a file, told by the end of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Toml,
    Json,
    Yaml,
}

/// Reads a workload file; the end of its name tells the form.
///
/// # Errors
/// When it is not of its form, or a field is unknown, cannot be, or contradicts another.
pub fn read_workload(file: &str, text: &str) -> Result<WorkloadFile, WorkloadError> {
    let fields = read_fields(file, text)?;
    fields.read().map_err(|wrong| WorkloadError::Field {
        file: file.into(),
        line: line_of(text, wrong.field),
        wrong,
    })
}

/// Reads the fields of a workload file, for flags to override.
///
/// # Errors
/// When it is not of its form, or a field is unknown.
pub fn read_fields(file: &str, text: &str) -> Result<WorkloadFields, WorkloadError> {
    let syntax = |line: Option<u64>, problem: String| WorkloadError::Syntax {
        file: file.into(),
        line,
        problem,
    };
    if text.len() > LARGEST_FILE {
        return Err(syntax(
            None,
            format!(
                "{} bytes; a workload has at most {LARGEST_FILE}",
                text.len()
            ),
        ));
    }
    let Some(form) = form(file, text) else {
        return Err(syntax(
            None,
            "the form is not known; expected a name that ends in .toml, .json, .yaml or .yml"
                .into(),
        ));
    };
    match form {
        Form::Toml => toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| line_at(text, span.start));
            syntax(line, error.message().into())
        }),
        Form::Json => serde_json::from_str(text).map_err(|error| {
            syntax(
                Some(error.line().max(1) as u64),
                crate::json_error::json_error(&error),
            )
        }),
        Form::Yaml => serde_saphyr::from_str(text).map_err(|error| {
            let line = error.location().map(|location| location.line());
            let told = first_line(&error.to_string());
            let told = told.strip_prefix("error: ").unwrap_or(&told);
            let told = match told
                .strip_prefix("line ")
                .and_then(|rest| rest.split_once(": "))
            {
                Some((_, problem)) => problem,
                None => told,
            };
            syntax(line, told.to_owned())
        }),
    }
}

fn form(file: &str, text: &str) -> Option<Form> {
    let ending = file.rsplit_once('.').map_or("", |(_, ending)| ending);
    Some(match ending.to_ascii_lowercase().as_str() {
        "toml" => Form::Toml,
        "json" => Form::Json,
        "yaml" | "yml" => Form::Yaml,
        // Standard input and pasted texts have no name.
        _ if text.trim_start().starts_with('{') => Form::Json,
        _ => return None,
    })
}

/// Messages of parsers go on with a picture of the place.
fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or("").into()
}

fn line_at(text: &str, byte: usize) -> u64 {
    let before = text.as_bytes().get(..byte).unwrap_or(text.as_bytes());
    before.split(|byte| *byte == b'\n').count() as u64
}

/// The line on which a field is set, in any of the forms.
fn line_of(text: &str, field: &str) -> Option<u64> {
    let dashed = field.replace('_', "-");
    let sets = |line: &str| {
        [field, dashed.as_str()].iter().any(|name| {
            line.match_indices(name).any(|(at, _)| {
                let before = line[..at].trim_end_matches(['"', '\'']).trim();
                let after = line[at + name.len()..]
                    .trim_start_matches(['"', '\''])
                    .trim_start();
                (before.is_empty() || before.ends_with(['{', ','])) && after.starts_with(['=', ':'])
            })
        })
    };
    (1..)
        .zip(text.lines())
        .find(|(_, line)| sets(line))
        .map(|(number, _)| number)
}
