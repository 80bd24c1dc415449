//! Versioned documents: what crosses a process or is saved.
//!
//! A document names its schema, `gpuwise.deployment/v1`. Reading one back gives the very noun that
//! was written, to the last bit of every figure; what a version does not know is refused, with the
//! place. Key names carry units, money is a decimal text with its currency, and what is unknown is
//! null, never 0.
//!
//! The same types give the JSON Schemas for editors and other programs.

pub mod broker;
mod deployment;
pub mod live;
mod mirror;
mod plan;
mod policy_file;
mod profile;
pub mod proposal;
mod quantities;
mod run;
pub mod scale;
mod schema;
mod workload;
mod workload_file;

use deployment::DeploymentDocument;
use gpuwise_domain::deployment::Saved;
use gpuwise_domain::run::RunSet;
use run::RunSetDocument;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use utoipa::ToSchema;
use workload::WorkloadDocument;

pub use mirror::Mirror;
pub use plan::{PLAN_SCHEMA, PlanFile, StateDocument, plan_from_json, plan_to_json};
pub use policy_file::{
    ConsolidationPart, DisruptionPart, FairSharePart, IdlePart, POLICY_SCHEMA, PolicyFile,
    QueuePart, UpkeepPart,
};
pub use profile::{PROFILE_SCHEMA, finding_to_json, profile_to_json};
pub use quantities::{HourlyPriceText, MoneyText};
pub use schema::{
    decisions_schema, deployment_schema, event_schema, inventory_schema, job_schema,
    numbered_plan_schema, plan_schema, policy_schema, profile_schema, run_schema,
    scale_decision_schema, scale_mix_decision_schema, workload_schema,
};

/// The schema of saved deployments.
pub const DEPLOYMENT_SCHEMA: &str = "gpuwise.deployment/v1";

/// The schema of saved runs.
pub const RUN_SCHEMA: &str = "gpuwise.run/v1";

/// A saved deployment is some kilobytes, runs with all their requests are some megabytes.
const LARGEST_DOCUMENT: usize = 64 << 20;

/// Why a document could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It is no JSON.
    #[error("line {line}, column {column}: {problem}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        problem: String,
    },
    /// It is not what was expected, or of a version that this program does not know.
    #[error("`schema` is {found}; this program reads {readable:?} here")]
    Schema {
        /// What the document says.
        found: String,
        /// What can be read.
        readable: &'static str,
    },
    /// A field is missing, unknown or cannot be.
    #[error("`{path}`: {problem}")]
    Field {
        /// Where in the document.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// It is too large.
    #[error("{length} bytes; a document has at most {LARGEST_DOCUMENT}")]
    TooLarge {
        /// Its bytes.
        length: usize,
    },
}

/// A saved deployment.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct DeploymentFile {
    /// `gpuwise.deployment/v1`.
    schema: String,
    /// The deployment.
    deployment: DeploymentDocument,
    /// What it was sized for, where that was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workload: Option<WorkloadDocument>,
}

/// Saved runs.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RunFile {
    /// `gpuwise.run/v1`.
    schema: String,
    /// One run, or the runs of one ladder of loads.
    result: RunSetDocument,
}

/// A deployment as a document (`gpuwise.deployment/v1`), indented, with a line end.
pub fn to_json(saved: &Saved) -> String {
    written(&DeploymentFile {
        schema: DEPLOYMENT_SCHEMA.into(),
        deployment: Mirror::of(&saved.deployment),
        workload: saved.workload.as_ref().map(Mirror::of),
    })
}

/// Reads a saved deployment.
///
/// # Errors
/// When it is no JSON, of another schema or version, or a field is missing, unknown or cannot be.
pub fn from_json(text: &str) -> Result<Saved, WireError> {
    let file: DeploymentFile = read(text, DEPLOYMENT_SCHEMA)?;
    Ok(Saved {
        deployment: file.deployment.noun(),
        workload: file.workload.map(Mirror::noun),
    })
}

/// Runs as a document (`gpuwise.run/v1`), indented, with a line end.
pub fn runs_to_json(runs: &RunSet) -> String {
    written(&RunFile {
        schema: RUN_SCHEMA.into(),
        result: Mirror::of(runs),
    })
}

/// Reads saved runs.
///
/// # Errors
/// As [`from_json`].
pub fn runs_from_json(text: &str) -> Result<RunSet, WireError> {
    let file: RunFile = read(text, RUN_SCHEMA)?;
    Ok(file.result.noun())
}

fn written(document: &impl Serialize) -> String {
    // Writing to memory fails only for maps with keys that are no texts; documents have none.
    let mut text = serde_json::to_string_pretty(document).unwrap_or_default();
    text.push('\n');
    text
}

/// As [`written`], on one line and without a line end: a log has many.
fn line(document: &impl Serialize) -> String {
    serde_json::to_string(document).unwrap_or_default()
}

/// Only the version of a document, whatever else it holds.
#[derive(Deserialize)]
struct Head {
    schema: Option<serde_json::Value>,
}

fn read<T: DeserializeOwned>(text: &str, readable: &'static str) -> Result<T, WireError> {
    if text.len() > LARGEST_DOCUMENT {
        return Err(WireError::TooLarge { length: text.len() });
    }
    let head: Head = serde_json::from_str(text).map_err(|error| syntax(&error))?;
    if head.schema.as_ref().and_then(serde_json::Value::as_str) != Some(readable) {
        let found = head
            .schema
            .map_or_else(|| "missing".into(), |found| found.to_string());
        return Err(WireError::Schema { found, readable });
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        if inner.is_data() {
            WireError::Field {
                path,
                problem: problem(&inner),
            }
        } else {
            syntax(&inner)
        }
    })
}

/// What is wrong, without its place, which stands before it.
fn problem(error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "the text ends within a value".into();
    }
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place).unwrap_or(&text) {
        "expected value" => "no JSON value begins here".into(),
        other => other.into(),
    }
}

fn syntax(error: &serde_json::Error) -> WireError {
    WireError::Syntax {
        line: error.line().max(1),
        column: error.column(),
        problem: problem(error),
    }
}
