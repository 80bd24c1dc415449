//! GPU metrics that cloud providers export as CSV: one metric a column, or one sample a row.

use super::{
    TelemetryError,
    builder::{Builder, said},
    fields::FieldNames,
    value,
};
use crate::table_error;
use gpuwise_domain::telemetry::{GpuIdentity, Holder, Subject, Telemetry};

const PROVIDERS: &[(&str, &str)] = &[
    ("cloudwatch", "Amazon CloudWatch"),
    ("gcp", "Google Cloud Monitoring"),
    ("azure", "Azure Monitor"),
];

/// Columns that hold the name of the metric of a row.
const METRIC: &[&str] = &[
    "metric",
    "metric_name",
    "metricname",
    "metric.type",
    "metric_type",
    "name",
];
/// Columns that hold its value, best first.
const VALUE: &[&str] = &[
    "value",
    "average",
    "mean",
    "maximum",
    "double_value",
    "int64_value",
];
/// Columns that hold its time.
const TIME: &[&str] = &[
    "timestamp",
    "time",
    "timegenerated",
    "timestamputc",
    "end_time",
    "interval.end_time",
    "date",
];

/// Whether a header is of such a file.
pub(super) fn is_header(header: &str, names: &FieldNames) -> bool {
    let cells: Vec<&str> = header
        .split(',')
        .map(|cell| cell.trim().trim_matches('"'))
        .collect();
    let known = |cell: &&str| provider(cell, names).is_some();
    cells.iter().any(known)
        || (cells
            .iter()
            .any(|cell| METRIC.contains(&lower(cell).as_str()))
            && cells
                .iter()
                .any(|cell| VALUE.contains(&lower(cell).as_str())))
}

fn lower(text: &str) -> String {
    text.trim().to_ascii_lowercase()
}

/// The provider whose metric this is, and its name in the catalogue: exports may shorten the prefix of
/// Google's names.
fn provider(metric: &str, names: &FieldNames) -> Option<(&'static str, &'static str, String)> {
    let metric = metric.trim();
    for (vocabulary, title) in PROVIDERS {
        for prefix in ["", "kubernetes.io/", "agent.googleapis.com/"] {
            let full = format!("{prefix}{metric}");
            if names.knows(vocabulary, &full) {
                return Some((vocabulary, title, full));
            }
        }
    }
    None
}

pub(super) fn read(text: &str, names: &FieldNames) -> Result<Telemetry, TelemetryError> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(text.as_bytes());
    let header: Vec<String> = reader
        .headers()
        .map_err(|error| TelemetryError::Form(table_error(&error, None)))?
        .iter()
        .map(str::to_owned)
        .collect();
    let place = |wanted: &[&str]| {
        wanted
            .iter()
            .find_map(|name| header.iter().position(|cell| lower(cell) == *name))
    };
    let (metric, number, time) = (place(METRIC), place(VALUE), place(TIME));
    let long = metric.is_some() && number.is_some();
    let mut builder = Builder::new(names, "cloud metrics in CSV");
    for (row, record) in reader.records().enumerate() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                builder.problem(
                    "row",
                    &format!("row {}", row + 1),
                    &table_error(&error, None),
                );
                continue;
            }
        };
        let cell = |at: Option<usize>| at.and_then(|at| record.get(at));
        let at = cell(time).and_then(value::seconds);
        if time.is_some() && at.is_none() {
            builder.problem(
                "time",
                cell(time).unwrap_or(""),
                "no time; the row counts without one",
            );
        }
        builder.moment(at);
        let subject = builder.subject(&subject(&header, &record));
        if long {
            let name = cell(metric).unwrap_or("");
            one(name, cell(number).unwrap_or(""), subject, &mut builder);
        } else {
            for (name, text) in header.iter().zip(&record) {
                let naming = TIME.contains(&lower(name).as_str()) || is_naming(name);
                if !naming && !text.is_empty() {
                    one(name, text, subject, &mut builder);
                }
            }
        }
    }
    if builder.out.readings.is_empty() {
        return Err(TelemetryError::Form(
            "no GPU metric of Amazon, Google or Azure is in it".into(),
        ));
    }
    Ok(builder.finish())
}

fn one(metric: &str, text: &str, subject: u32, builder: &mut Builder<'_>) {
    match provider(metric, builder.names) {
        Some((vocabulary, title, name)) => {
            title.clone_into(&mut builder.out.form);
            builder.field(vocabulary, subject, &name, text);
        }
        None => builder.unread(metric, text),
    }
}

const HOST: &[&str] = &[
    "host",
    "instanceid",
    "instance_id",
    "instance_name",
    "node_name",
    "nodeid",
    "resource.instance_id",
];
const INDEX: &[&str] = &["index", "gpu_number", "deviceid", "device_id", "gpu"];
const UUID: &[&str] = &["uuid", "gpu_uuid", "accelerator_id"];
const PRODUCT: &[&str] = &["model", "gpu_model", "make", "accelerator_type"];
const NAMESPACE: &[&str] = &["namespace_name", "namespace"];
const POD: &[&str] = &["pod_name", "pod"];
const CONTAINER: &[&str] = &["container_name", "container"];
const JOB: &[&str] = &["runid", "run_id", "job"];

fn is_naming(column: &str) -> bool {
    let column = lower(column);
    [HOST, INDEX, UUID, PRODUCT, NAMESPACE, POD, CONTAINER, JOB]
        .iter()
        .any(|names| names.contains(&column.as_str()))
        || column == "unit"
}

fn subject(header: &[String], record: &csv::StringRecord) -> Subject {
    let of = |wanted: &[&str]| {
        wanted
            .iter()
            .find_map(|name| header.iter().position(|cell| lower(cell) == *name))
            .and_then(|place| record.get(place))
            .and_then(said)
    };
    Subject {
        gpu: GpuIdentity {
            host: of(HOST),
            index: of(INDEX).and_then(|text| text.parse().ok()),
            uuid: of(UUID),
            bus: None,
            product: of(PRODUCT),
        },
        instance: None,
        holder: Holder {
            namespace: of(NAMESPACE),
            pod: of(POD),
            container: of(CONTAINER),
            job: of(JOB),
            process: None,
        },
    }
}
