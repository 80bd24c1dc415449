//! What GPUs and engines say of themselves while they run, in whatever form it comes: metrics of
//! exporters, `nvidia-smi` as XML, CSV, text and tables, `rocm-smi`, cloud providers' CSV.
//!
//! Every reader turns fields into [readings](gpuwise_domain::telemetry::Reading) by names that are rows of
//! the catalogue; what is there and is no reading is listed, so that nothing is lost without a word.

mod builder;
mod capture;
mod cloud;
mod condition;
mod fields;
mod monitor;
mod otlp;
mod prometheus;
mod query;
mod rocm;
mod serving;
mod table;
mod text;
mod topo;
mod value;
mod xml;

pub use condition::{ConditionError, read_condition, read_duration};
pub use fields::{Combine, Field, FieldNames, read_thresholds, read_xids};
pub use otlp::{OtlpError, OtlpForm, OtlpMetrics, read_otlp};
pub use prometheus::SampleReader;
pub(crate) use prometheus::subject;
pub use serving::{engine_metrics, is_engine_metric, serving_samples};
pub(crate) use value::value_of;

use crate::metrics::LARGEST_TEXT;
use gpuwise_domain::telemetry::Telemetry;

/// Why a text is no telemetry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TelemetryError {
    /// It looks like one of the forms, and is not.
    #[error("{0}")]
    Form(String),
    /// It looks like none.
    #[error(
        "this is none of the forms that are read: metrics of an exporter, nvidia-smi (-q, -q -x, --query-gpu as \
         CSV, dmon, pmon, topo -m, nvlink -s, -L), rocm-smi --json, or GPU metrics of a cloud provider in CSV"
    )]
    Unknown,
    #[error("it is larger than {LARGEST_TEXT} bytes")]
    TooLarge,
}

/// Reads a text of any of the forms; a file that holds several outputs gives several.
///
/// # Errors
/// When it is none of the forms, or cannot be one. A text that is broken in parts gives what can be
/// read, and lists the rest.
///
/// ```
/// use gpuwise_read::telemetry::{FieldNames, read};
/// let mut names = FieldNames::default();
/// names.add_fields("fields.csv", "vocabulary,field,quantity,unit,combine,source\n\
///     smi_query,utilization.gpu,gpu_util,%,first,the tool's help\n").unwrap();
/// let found = read("index, utilization.gpu [%]\n0, 35 %\n1, [N/A]\n", &names).unwrap();
/// let values: Vec<_> = found[0].readings.iter().map(|reading| reading.value.known()).collect();
/// assert_eq!(values, [Some(0.35), None]);
/// ```
pub fn read(text: &str, names: &FieldNames) -> Result<Vec<Telemetry>, TelemetryError> {
    if text.len() > LARGEST_TEXT {
        return Err(TelemetryError::TooLarge);
    }
    if capture::is_capture(text) {
        return Ok(capture::read(text, names));
    }
    one(text, names).map(|found| vec![found])
}

fn one(text: &str, names: &FieldNames) -> Result<Telemetry, TelemetryError> {
    let text = text.trim_start_matches('\u{feff}');
    let start = text.trim_start();
    let first = start.lines().next().unwrap_or("");
    if start.starts_with('<') && start.contains("nvidia_smi_log") {
        return xml::read(text, names);
    }
    if start.starts_with('{') && start.contains("\"card") {
        return rocm::read(text, names);
    }
    if text.contains("====NVSMI LOG====") {
        return text::read(text, names);
    }
    if text.contains("| NVIDIA-SMI") {
        return table::read(text, names);
    }
    if first
        .trim_start_matches('#')
        .trim_start()
        .starts_with("gpu ")
        && first.starts_with('#')
    {
        return monitor::columns(text, names);
    }
    if is_topology(text) {
        return topo::read(text);
    }
    if first.starts_with("GPU ") && first.contains(": ") {
        return monitor::list(text, names);
    }
    if first.contains(',') && !first.contains('{') {
        let bare = |cell: &str| {
            cell.trim()
                .split(" [")
                .next()
                .unwrap_or("")
                .trim()
                .to_owned()
        };
        let known = first
            .split(',')
            .any(|cell| names.knows("smi_query", &bare(cell)));
        if known || first.starts_with("timestamp, ") {
            return query::read(text, names);
        }
        if cloud::is_header(first, names) {
            return cloud::read(text, names);
        }
    }
    prometheus::page(text, names)
}

fn is_topology(text: &str) -> bool {
    text.lines()
        .take(20)
        .any(|line| line.contains("GPU0") && line.contains("CPU") && line.contains("Affinity"))
}
