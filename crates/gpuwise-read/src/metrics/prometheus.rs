//! Answers of a Prometheus server's HTTP interface.

use super::histogram::Histogram;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error("the answer is not that of a Prometheus server: {0}")]
    Form(String),
    /// The server says that the query is wrong.
    #[error("the Prometheus server refuses the query: {0}")]
    Refused(String),
}

#[derive(Deserialize)]
struct Answer {
    status: String,
    error: Option<String>,
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    #[serde(default)]
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<(f64, String)>,
    value: Option<(f64, String)>,
}

/// A series of a query's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct QuerySeries {
    pub labels: BTreeMap<String, String>,
    /// (seconds since 1970, value); values that are no finite number are left out.
    pub points: Vec<(f64, f64)>,
}

/// Reads the answer to `query` or `query_range`.
///
/// # Errors
/// When it is of another form, or says that the query failed.
pub fn read_answer(text: &str) -> Result<Vec<QuerySeries>, AnswerError> {
    let answer: Answer = serde_json::from_str(text).map_err(|error| {
        let seems = if text.trim_start().starts_with('<') {
            "it is a page in HTML".into()
        } else {
            error.to_string()
        };
        AnswerError::Form(seems)
    })?;
    if answer.status != "success" {
        return Err(AnswerError::Refused(
            answer.error.unwrap_or_else(|| answer.status.clone()),
        ));
    }
    let data = answer
        .data
        .ok_or_else(|| AnswerError::Form("it has no data".into()))?;
    Ok(data
        .result
        .into_iter()
        .map(|series| QuerySeries {
            labels: series.metric,
            points: series
                .values
                .into_iter()
                .chain(series.value)
                .filter_map(|(time, value)| {
                    let value: f64 = value.parse().ok()?;
                    (time.is_finite() && value.is_finite()).then_some((time, value))
                })
                .collect(),
        })
        .collect())
}

/// The histogram that series by `le` make, each by its last point, with the sum where it is known.
pub fn histogram(buckets: &[QuerySeries], sum: Option<f64>) -> Option<Histogram> {
    let mut counts: Vec<(f64, f64)> = buckets
        .iter()
        .filter_map(|series| {
            let bound: f64 = series.labels.get("le")?.parse().ok()?;
            let (_, count) = series.points.last()?;
            (!bound.is_nan()).then_some((bound, *count))
        })
        .collect();
    counts.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Extrapolation between scrapes may break what counts keep.
    let mut most = 0.0_f64;
    for (_, count) in &mut counts {
        most = most.max(*count);
        *count = most;
    }
    let count = counts.last()?.1;
    Some(Histogram {
        sum: sum?,
        count,
        buckets: counts,
    })
}
