//! ServeGen's tables: request rates by window, of a model or of each of its clients, and token
//! lengths by window.

use super::{MOST_REQUESTS, TraceError};
use crate::table_error;
use gpuwise_domain::workload::LengthDistribution;
use gpuwise_units::Tokens;
use serde::{Deserialize, de::DeserializeOwned};
use std::collections::BTreeMap;

/// Length of a window where the table holds one only.
const WINDOW_SECONDS: f64 = 600.0;

/// Quantile of the normal distribution at 95 %.
const NORMAL_95: f64 = 1.6449;

/// Rates by window. Models are named `category/model`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RateTable {
    /// Models in the order of the file.
    pub models: Vec<String>,
    /// Windows in the order of the file.
    pub windows: Vec<RateWindow>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RateWindow {
    /// Index of the model.
    pub model: usize,
    /// The client; `None` for all clients together.
    pub client: Option<u32>,
    /// Seconds from the beginning of the record.
    pub start_seconds: f64,
    /// Requests a second.
    pub rate: f64,
    /// Coefficient of variation of the gaps between the client's requests, where given.
    pub variation: Option<f64>,
    /// The law fitted to the gaps, with its two parameters (shape, scale), where given.
    pub law: Option<(String, f64, f64)>,
}

/// A model's rates in figures.
#[derive(Debug, Clone, PartialEq)]
pub struct RateSummary {
    /// Mean requests a second over all windows, those without requests included.
    pub mean: f64,
    /// Requests a second in the busiest window.
    pub busiest: f64,
    /// When the busiest window begins.
    pub busiest_start_seconds: f64,
    /// Length of a window.
    pub window_seconds: f64,
    /// Squared coefficient of variation of the gaps within a client, weighted by requests; many
    /// clients together are smoother. `None` where the table has none.
    pub client_burstiness: Option<f64>,
}

/// Token lengths by window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LengthTable {
    /// Models in the order of the file.
    pub models: Vec<String>,
    /// Windows in the order of the file.
    pub windows: Vec<LengthWindow>,
}

/// Lengths of one client's requests in one window.
#[derive(Debug, Clone, PartialEq)]
pub struct LengthWindow {
    /// Index of the model.
    pub model: usize,
    pub client: u32,
    /// Seconds from the beginning of the record.
    pub start_seconds: f64,
    /// What was counted: `input_tokens`, `output_tokens`, `image_count` …
    pub field: String,
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub max: f64,
}

#[derive(Deserialize)]
struct RateRow {
    category: String,
    model: String,
    #[serde(default)]
    client: Option<u32>,
    t_s: f64,
    rate_rps: f64,
    #[serde(default)]
    cv: Option<f64>,
    #[serde(default)]
    dist: Option<String>,
    #[serde(default)]
    p1: Option<f64>,
    #[serde(default)]
    p2: Option<f64>,
}

#[derive(Deserialize)]
struct LengthRow {
    category: String,
    model: String,
    client: u32,
    t_s: f64,
    field: String,
    mean: f64,
    p50: f64,
    p95: f64,
    max: f64,
}

pub(super) fn rates(text: &str) -> Result<RateTable, TraceError> {
    let mut table = RateTable::default();
    let mut models = Models::default();
    each_row(text, |line, row: RateRow| {
        not_negative(
            line,
            [
                ("t_s", row.t_s),
                ("rate_rps", row.rate_rps),
                ("cv", row.cv.unwrap_or(0.0)),
            ],
        )?;
        let model = models.index(&mut table.models, row.category, row.model);
        let law = row
            .dist
            .filter(|name| !name.is_empty())
            .zip(row.p1.zip(row.p2));
        table.windows.push(RateWindow {
            model,
            client: row.client,
            // Adding 0 makes a negative zero positive.
            start_seconds: row.t_s + 0.0,
            rate: row.rate_rps,
            variation: row.cv,
            law: law.map(|(name, (first, second))| (name, first, second)),
        });
        Ok(table.windows.len())
    })?;
    Ok(table)
}

pub(super) fn lengths(text: &str) -> Result<LengthTable, TraceError> {
    let mut table = LengthTable::default();
    let mut models = Models::default();
    each_row(text, |line, row: LengthRow| {
        not_negative(
            line,
            [("t_s", row.t_s), ("mean", row.mean), ("max", row.max)],
        )?;
        not_negative(line, [("p50", row.p50), ("p95", row.p95), ("p95", row.p95)])?;
        let model = models.index(&mut table.models, row.category, row.model);
        table.windows.push(LengthWindow {
            model,
            client: row.client,
            start_seconds: row.t_s,
            field: row.field,
            mean: row.mean,
            p50: row.p50,
            p95: row.p95,
            max: row.max,
        });
        Ok(table.windows.len())
    })?;
    Ok(table)
}

/// Reads every row; `take` returns how many there are by now.
fn each_row<T: DeserializeOwned>(
    text: &str,
    mut take: impl FnMut(u64, T) -> Result<usize, TraceError>,
) -> Result<(), TraceError> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let wrong = |error: csv::Error| {
        TraceError::line(
            error.position().map_or(0, csv::Position::line),
            table_error(&error, None),
        )
    };
    let headers = reader.headers().map_err(wrong)?.clone();
    let mut rows = 0;
    for record in reader.records() {
        let record = record.map_err(wrong)?;
        let line = record.position().map_or(0, csv::Position::line);
        let row = record
            .deserialize(Some(&headers))
            .map_err(|error| TraceError::line(line, table_error(&error, Some(&headers))))?;
        rows = take(line, row)?;
        if rows > MOST_REQUESTS {
            return Err(TraceError::TooMany);
        }
    }
    if rows == 0 {
        Err(TraceError::Empty)
    } else {
        Ok(())
    }
}

fn not_negative(line: u64, fields: [(&str, f64); 3]) -> Result<(), TraceError> {
    // Products of two stay far below what a real number holds.
    match fields
        .iter()
        .find(|(_, value)| !(0.0..=1e12).contains(value))
    {
        Some((field, value)) => Err(TraceError::line(
            line,
            format!("`{field}` is {value}; expected a number from 0 to 10^12"),
        )),
        None => Ok(()),
    }
}

/// Models by category and name, with their indices.
#[derive(Default)]
struct Models(BTreeMap<(String, String), usize>);

impl Models {
    fn index(&mut self, names: &mut Vec<String>, category: String, model: String) -> usize {
        let name = format!("{category}/{model}");
        *self.0.entry((category, model)).or_insert_with(|| {
            names.push(name);
            names.len() - 1
        })
    }
}

impl RateTable {
    /// A model's rates, clients added up; `None` for an index without windows.
    pub fn summary(&self, model: usize) -> Option<RateSummary> {
        let windows = || self.windows.iter().filter(|window| window.model == model);
        let mut by_start: BTreeMap<u64, f64> = BTreeMap::new();
        let (mut weighted, mut weight) = (0.0, 0.0);
        for window in windows() {
            // Starts are not negative, so their bits order as they do.
            *by_start.entry(window.start_seconds.to_bits()).or_default() += window.rate;
            if let Some(variation) = window.variation {
                weighted += window.rate * variation * variation;
                weight += window.rate;
            }
        }
        let starts: Vec<f64> = by_start.keys().map(|bits| f64::from_bits(*bits)).collect();
        let (first, last) = (*starts.first()?, *starts.last()?);
        let gaps = starts.windows(2).map(|pair| pair[1] - pair[0]);
        let shortest = gaps.fold(f64::INFINITY, f64::min);
        let window_seconds = if shortest.is_finite() && shortest > 0.0 {
            shortest
        } else {
            WINDOW_SECONDS
        };
        let count = ((last - first) / window_seconds + 1.0).max(1.0);
        let (busiest_start, busiest) = by_start
            .iter()
            .max_by(|a, b| a.1.total_cmp(b.1))
            .map(|(start, rate)| (f64::from_bits(*start), *rate))?;
        Some(RateSummary {
            mean: by_start.values().sum::<f64>() / count,
            busiest,
            busiest_start_seconds: busiest_start,
            window_seconds,
            client_burstiness: (weight > 0.0).then(|| weighted / weight),
        })
    }
}

impl RateTable {
    /// What each client of a model sends, as the sum of its rates.
    fn by_client(&self, name: &str) -> BTreeMap<u32, f64> {
        let mut sent = BTreeMap::new();
        let Some(model) = self.models.iter().position(|known| known == name) else {
            return sent;
        };
        for window in self.windows.iter().filter(|window| window.model == model) {
            if let Some(client) = window.client {
                *sent.entry(client).or_default() += window.rate;
            }
        }
        sent
    }
}

impl LengthTable {
    /// Lengths of a model's field; `None` where the table has none.
    ///
    /// Each window counts as much as its client sends in all, if rates are given, else once: a few
    /// clients send most requests, so that without rates the result is that of a typical client,
    /// not of a typical request. The spread within a window is that of the log-normal law with its
    /// median and 95th percentile, which is an estimate.
    pub fn distribution(
        &self,
        model: usize,
        field: &str,
        rates: Option<&RateTable>,
    ) -> Option<LengthDistribution> {
        let sent =
            rates.map(|rates| rates.by_client(self.models.get(model).map_or("", String::as_str)));
        let windows = self
            .windows
            .iter()
            .filter(|window| window.model == model && window.field == field);
        let (mut weights, mut sum, mut squares, mut longest) = (0.0, 0.0, 0.0, 0.0_f64);
        for window in windows {
            let weight = match &sent {
                Some(sent) => sent.get(&window.client).copied().unwrap_or(0.0),
                None => 1.0,
            };
            weights += weight;
            sum += weight * window.mean;
            squares += weight * window.mean * window.mean * libm::exp(window.log_variance());
            longest = longest.max(window.max);
        }
        if weights <= 0.0 {
            return None;
        }
        let mean: f64 = sum / weights;
        let variation = if mean > 0.0 {
            (squares / weights / (mean * mean) - 1.0).max(0.0)
        } else {
            0.0
        };
        Some(LengthDistribution {
            mean,
            variation,
            longest: Tokens(longest as u64),
        })
    }
}

impl LengthWindow {
    /// Variance of the logarithm, by the median and the 95th percentile.
    fn log_variance(&self) -> f64 {
        if self.p50 <= 0.0 || self.p95 <= self.p50 {
            return 0.0;
        }
        let sigma = libm::log(self.p95 / self.p50) / NORMAL_95;
        // Beyond this width the two percentiles are not of such a law.
        (sigma * sigma).min(4.0)
    }
}
