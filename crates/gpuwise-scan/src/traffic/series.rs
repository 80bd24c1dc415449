//! Rates over time: tables of a time, a rate, and perhaps whose it is.

use super::{TraceError, TrafficFile, read_traffic, shortened, timestamp};
use crate::table_error;
use gpuwise_domain::request::Request;
use std::collections::BTreeMap;

/// Times in seconds and values, by name.
pub type Readings = Vec<(String, Vec<(f64, f64)>)>;

/// Rates by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RateSeries {
    /// Names in the order of the file; one without a name is `""`.
    pub series: Readings,
    /// Of each, what came of whom, where it is told: clients in the order of the file.
    pub clients: Vec<Readings>,
    /// What its values are.
    pub counts: Counts,
}

/// What values of a series are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counts {
    /// Requests a second.
    #[default]
    Rates,
    /// Requests of a period.
    Requests,
    /// Each row is a request at its time: 1, or its tokens.
    Arrivals,
}

/// What series of tokens are called.
pub const PREFILL: &str = "prefill tokens";
pub const DECODE: &str = "decode tokens";

/// Columns, the first that is there counts.
const TIMES: [&str; 8] = [
    "t_s",
    "time",
    "timestamp",
    "ts",
    "date",
    "datetime",
    "timestamp_s",
    "time_s",
];
const RATES: [&str; 8] = [
    "rate_rps",
    "rate",
    "rps",
    "qps",
    "requests_per_second",
    "value",
    "requests/s",
    "load",
];
const REQUESTS: [&str; 4] = ["requests", "count", "arrivals", "calls"];
const NAMES: [&str; 7] = [
    "series",
    "model",
    "service",
    "deployment",
    "name",
    "model_name",
    "function",
];

/// Reads rates over time: a table with a time and a rate, or a number of requests, or a trace of requests. Times are
/// seconds, or dates with times; what is negative or no number is kept as it is (no number: `NaN`). A trace gives
/// three series: its requests, its tokens of prompts ([`PREFILL`]), and its tokens of answers ([`DECODE`]).
///
/// # Errors
/// When there is no such column, or a time is none.
pub fn read_series(text: &str) -> Result<RateSeries, TraceError> {
    let text = text.trim_start_matches('\u{feff}');
    let head = text.lines().next().unwrap_or_default();
    let columns: Vec<String> = head
        .split(',')
        .map(|name| name.trim().trim_matches('"').to_ascii_lowercase())
        .collect();
    let find = |names: &[&str]| {
        let mut found = names
            .iter()
            .filter_map(|name| columns.iter().position(|one| one == name));
        found.next()
    };
    let rate = find(&RATES).map(|at| (at, Counts::Rates));
    let value = rate.or_else(|| find(&REQUESTS).map(|at| (at, Counts::Requests)));
    if let Some((time, (value, counts))) = find(&TIMES).zip(value) {
        let name = Named {
            group: columns.iter().position(|one| one == "category"),
            name: find(&NAMES),
            client: columns.iter().position(|one| one == "client"),
        };
        return table(text, (time, value), counts, &name);
    }
    match read_traffic(text) {
        Ok(TrafficFile::Trace(trace)) if trace.timed => {
            let of = |value: fn(&Request) -> f64| -> Vec<(f64, f64)> {
                let all = trace.requests.iter();
                all.map(|request| (request.due.0 as f64 / 1e9, value(request)))
                    .collect()
            };
            Ok(RateSeries {
                series: vec![
                    (String::new(), of(|_| 1.0)),
                    (PREFILL.into(), of(|request| f64::from(request.input))),
                    (DECODE.into(), of(|request| f64::from(request.output))),
                ],
                clients: vec![Vec::new(); 3],
                counts: Counts::Arrivals,
            })
        }
        Ok(_) | Err(TraceError::Unknown { .. }) => Err(TraceError::line(
            1,
            format!(
                "no rates over time begin like this: {}; expected a CSV header with a time ({}) and a rate ({}) or a \
                 number of requests ({}), or a trace of requests",
                shortened(head),
                TIMES.join(", "),
                RATES.join(", "),
                REQUESTS.join(", "),
            ),
        )),
        Err(error) => Err(error),
    }
}

/// Columns that say whose a row is.
struct Named {
    group: Option<usize>,
    name: Option<usize>,
    client: Option<usize>,
}

fn table(
    text: &str,
    (time, value): (usize, usize),
    counts: Counts,
    named: &Named,
) -> Result<RateSeries, TraceError> {
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let mut out = RateSeries {
        counts,
        ..RateSeries::default()
    };
    let mut whose: BTreeMap<(usize, String), usize> = BTreeMap::new();
    // Rates of clients at one time are one rate.
    let mut sums: BTreeMap<(usize, u64), usize> = BTreeMap::new();
    for record in reader.records() {
        let record = record.map_err(|error| {
            let line = error.position().map_or(0, csv::Position::line);
            TraceError::line(line, table_error(&error, None))
        })?;
        let line = record.position().map_or(0, csv::Position::line);
        let cell = |at: usize| record.get(at).unwrap_or_default();
        let text = cell(time);
        let at = moment(text).ok_or_else(|| {
            let what = "expected seconds, or a date with its time such as 2026-11-26T12:00:00Z";
            TraceError::line(line, format!("time {}: {what}", shortened(text)))
        })?;
        let rate = cell(value).parse::<f64>().unwrap_or(f64::NAN);
        let parts = [named.group, named.name].into_iter().flatten().map(cell);
        let name = parts.collect::<Vec<_>>().join("/");
        let next = found.len();
        let index = *found.entry(name.clone()).or_insert(next);
        if index == out.series.len() {
            out.series.push((name, Vec::new()));
            out.clients.push(Vec::new());
        }
        if let (Some(client), Some(clients)) = (named.client, out.clients.get_mut(index)) {
            let name = cell(client).to_owned();
            let of = *whose.entry((index, name.clone())).or_insert(clients.len());
            if of == clients.len() {
                clients.push((name, Vec::new()));
            }
            if let Some((_, readings)) = clients.get_mut(of) {
                readings.push((at, rate));
            }
        }
        let Some((_, readings)) = out.series.get_mut(index) else {
            continue;
        };
        if named.client.is_some() {
            let place = *sums.entry((index, at.to_bits())).or_insert(readings.len());
            if let Some((_, sum)) = readings.get_mut(place) {
                *sum += rate;
                continue;
            }
        }
        readings.push((at, rate));
    }
    if out.series.is_empty() {
        return Err(TraceError::Empty);
    }
    Ok(out)
}

/// Seconds: a number, or those from 1970 of a date with its time.
fn moment(text: &str) -> Option<f64> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.or_else(|| timestamp::nanoseconds(text).map(|at| at as f64 / 1e9))
}
