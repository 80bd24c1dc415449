//! Metrics that programs send by OTLP over HTTP, in JSON or in protobuf (opentelemetry-proto,
//! `ExportMetricsServiceRequest`; field numbers are those of `metrics/v1/metrics.proto`).

use gpuwise_scan::protobuf::{Field, Fields, WireError};
use serde_json::Value;
use thiserror::Error;

/// Metrics of one request.
const MOST: usize = 10_000;

/// How a request is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpForm {
    /// `application/json`.
    Json,
    /// `application/x-protobuf`.
    Protobuf,
}

/// What a request says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OtlpMetrics {
    /// The newest value of each metric: gauges and sums as they are, histograms and summaries as their
    /// mean.
    pub values: Vec<(String, f64)>,
    /// Metrics beyond those that are taken of one request.
    pub left_out: u64,
}

/// Why a body is no request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OtlpError {
    /// It is no JSON, or not of this form.
    #[error("no OTLP in JSON: {0}")]
    Json(String),
    /// It is no protobuf, or not of this form.
    #[error("no OTLP in protobuf: {0}")]
    Protobuf(String),
}

impl From<WireError> for OtlpError {
    fn from(error: WireError) -> Self {
        Self::Protobuf(error.to_string())
    }
}

impl OtlpMetrics {
    fn add(&mut self, name: String, newest: Option<f64>) {
        let Some(value) = newest.filter(|_| !name.is_empty()) else {
            return;
        };
        if self.values.len() < MOST {
            self.values.push((name, value));
        } else {
            self.left_out += 1;
        }
    }
}

/// The newest value of each metric of a request.
///
/// # Errors
/// When it is no such request.
///
/// ```
/// use gpuwise_read::telemetry::{OtlpForm, read_otlp};
/// let sent = r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[
///     {"name":"accuracy","gauge":{"dataPoints":[{"asDouble":0.93}]}}]}]}]}"#;
/// let read = read_otlp(sent.as_bytes(), OtlpForm::Json).unwrap();
/// assert_eq!(read.values, [("accuracy".into(), 0.93)]);
/// ```
pub fn read_otlp(body: &[u8], form: OtlpForm) -> Result<OtlpMetrics, OtlpError> {
    match form {
        OtlpForm::Json => json(body),
        OtlpForm::Protobuf => protobuf(body),
    }
}

fn json(body: &[u8]) -> Result<OtlpMetrics, OtlpError> {
    let document: Value =
        serde_json::from_slice(body).map_err(|error| OtlpError::Json(error.to_string()))?;
    let Value::Object(request) = &document else {
        return Err(OtlpError::Json("it is no object".into()));
    };
    let resources = match request.get("resourceMetrics") {
        Some(Value::Array(resources)) => resources.as_slice(),
        // A request without metrics is one.
        None if request.is_empty() => &[],
        _ => return Err(OtlpError::Json("it has no list `resourceMetrics`".into())),
    };
    let mut out = OtlpMetrics::default();
    for metric in resources
        .iter()
        .flat_map(|resource| list(resource, "scopeMetrics"))
        .flat_map(|scope| list(scope, "metrics"))
    {
        let Some(name) = metric.get("name").and_then(Value::as_str) else {
            continue;
        };
        let newest = [
            "gauge",
            "sum",
            "histogram",
            "exponentialHistogram",
            "summary",
        ]
        .into_iter()
        .filter_map(|kind| metric.get(kind))
        .flat_map(|kind| list(kind, "dataPoints"))
        .filter_map(point)
        .last();
        out.add(name.to_owned(), newest);
    }
    Ok(out)
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    let found = value.get(name).and_then(Value::as_array);
    found.into_iter().flatten()
}

/// 64-bit integers are strings in OTLP's JSON.
fn point(point: &Value) -> Option<f64> {
    let number = |name: &str| {
        let value = point.get(name)?;
        value
            .as_f64()
            .or_else(|| value.as_str()?.parse().ok())
            .filter(|value| value.is_finite())
    };
    number("asDouble")
        .or_else(|| number("asInt"))
        .or_else(|| mean(number("sum"), number("count")))
}

fn mean(sum: Option<f64>, count: Option<f64>) -> Option<f64> {
    Some(sum? / count.filter(|count| *count > 0.0)?)
}

const RESOURCE_METRICS: u64 = 1;
const SCOPE_METRICS: u64 = 2;
const METRICS: u64 = 2;
const NAME: u64 = 1;
/// Gauge and sum: of numbers.
const OF_NUMBERS: [u64; 2] = [5, 7];
/// Histogram, exponential histogram and summary: of sums with their counts.
const OF_SUMS: [u64; 3] = [9, 10, 11];
const DATA_POINTS: u64 = 1;
const AS_DOUBLE: u64 = 4;
const AS_INT: u64 = 6;
const COUNT: u64 = 4;
const SUM: u64 = 5;

fn protobuf(body: &[u8]) -> Result<OtlpMetrics, OtlpError> {
    let mut out = OtlpMetrics::default();
    for resource in messages(body, 0, RESOURCE_METRICS) {
        let (resource, at) = resource?;
        for scope in messages(resource, at, SCOPE_METRICS) {
            let (scope, at) = scope?;
            for metric in messages(scope, at, METRICS) {
                let (metric, at) = metric?;
                let (name, newest) = of_metric(metric, at)?;
                out.add(name, newest);
            }
        }
    }
    Ok(out)
}

/// Messages of one field.
fn messages(
    bytes: &[u8],
    base: usize,
    number: u64,
) -> impl Iterator<Item = Result<(&[u8], usize), OtlpError>> {
    Fields::new(bytes, base).filter_map(move |field| match field {
        Ok(field) if field.number != number => None,
        Ok(field) => Some(field.message().ok_or_else(|| {
            OtlpError::Protobuf(format!("field {number} at byte {} is no message", field.at))
        })),
        Err(error) => Some(Err(error.into())),
    })
}

/// A metric's name and its newest value.
fn of_metric(bytes: &[u8], base: usize) -> Result<(String, Option<f64>), OtlpError> {
    let (mut name, mut newest) = (String::new(), None);
    for field in Fields::new(bytes, base) {
        let field = field?;
        let numbers = OF_NUMBERS.contains(&field.number);
        if field.number == NAME {
            name = field.text().unwrap_or_default();
        } else if numbers || OF_SUMS.contains(&field.number) {
            let Some((data, at)) = field.message() else {
                continue;
            };
            for point in messages(data, at, DATA_POINTS) {
                let (point, at) = point?;
                newest = of_point(point, at, numbers)?.or(newest);
            }
        }
    }
    Ok((name, newest))
}

fn of_point(bytes: &[u8], base: usize, number: bool) -> Result<Option<f64>, OtlpError> {
    let fields: Vec<Field<'_>> = Fields::new(bytes, base).collect::<Result<_, _>>()?;
    let find = |number: u64| fields.iter().rev().find(|field| field.number == number);
    let value = if number {
        let whole = || Some(find(AS_INT)?.fixed()?.cast_signed() as f64);
        find(AS_DOUBLE).and_then(Field::double).or_else(whole)
    } else {
        let count = find(COUNT).and_then(Field::fixed);
        mean(
            find(SUM).and_then(Field::double),
            count.map(|count| count as f64),
        )
    };
    Ok(value.filter(|value| value.is_finite()))
}
