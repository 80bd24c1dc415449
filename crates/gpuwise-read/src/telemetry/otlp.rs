//! Metrics that programs send by OTLP over HTTP in JSON (opentelemetry-proto, `ExportMetricsServiceRequest`).

use serde_json::Value;

/// Metrics of one request.
const MOST: usize = 10_000;

/// The newest value of each metric of a request: gauges and sums as they are, histograms as their mean.
///
/// # Errors
/// When it is no such request; in words.
///
/// ```
/// let sent = r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[
///     {"name":"accuracy","gauge":{"dataPoints":[{"asDouble":0.93}]}}]}]}]}"#;
/// assert_eq!(gpuwise_read::telemetry::read_otlp(sent.as_bytes()).unwrap(), [("accuracy".into(), 0.93)]);
/// ```
pub fn read_otlp(body: &[u8]) -> Result<Vec<(String, f64)>, String> {
    let document: Value = serde_json::from_slice(body)
        .map_err(|error| format!("the body is no OTLP in JSON: {error}"))?;
    let resources = document
        .get("resourceMetrics")
        .and_then(Value::as_array)
        .ok_or("the body has no `resourceMetrics`; OTLP in JSON is expected, not in protobuf")?;
    let mut out = Vec::new();
    for metric in resources
        .iter()
        .flat_map(|resource| list(resource, "scopeMetrics"))
        .flat_map(|scope| list(scope, "metrics"))
        .take(MOST)
    {
        let Some(name) = metric.get("name").and_then(Value::as_str) else {
            continue;
        };
        let newest = ["gauge", "sum", "histogram"]
            .into_iter()
            .filter_map(|kind| metric.get(kind))
            .flat_map(|kind| list(kind, "dataPoints"))
            .filter_map(point)
            .last();
        if let Some(value) = newest {
            out.push((name.to_owned(), value));
        }
    }
    Ok(out)
}

fn list<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    of.get(name).and_then(Value::as_array).into_iter().flatten()
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
        .or_else(|| Some(number("sum")? / number("count").filter(|count| *count > 0.0)?))
}
