//! `gpuwise forecast`: demand some minutes ahead, as quantiles, and how good that was so far.

use super::{Context, Exit};
use crate::{error::Problem, made::made, questions::read_text, settings::Format, write::Pending};
use gpuwise_domain::forecast::SeriesForecast;
use gpuwise_read::traffic::{Counts, RateSeries, read_series};
use gpuwise_scale::forecast::{
    report,
    series::{Regular, SeriesError, regular},
};
use gpuwise_units::Nanoseconds;
use gpuwise_view::forecast as view;
use std::{collections::BTreeMap, path::PathBuf};

/// Between two readings of a trace of requests, where nothing is said.
const MINUTE: Nanoseconds = Nanoseconds(60_000_000_000);
/// Periods ahead at most.
const FARTHEST: u64 = 1000;

/// Flags of `gpuwise forecast`.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Rates over time, or a trace of requests; `-` is standard input
    ///
    /// A CSV with a header: a time (t_s, time, timestamp: seconds, or dates with times), a rate (rate, rps, value …: requests a second) or a number of requests (requests, count: of the period), and perhaps whose it is (series, model,
    /// service). Rates of clients at one time are added. Traces are those that `gpuwise simulate --trace` reads.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How far ahead; repeat, or with commas
    #[arg(long, value_name = "TIME", value_delimiter = ',', default_values_t = ["10m".to_owned(), "30m".to_owned()])]
    horizon: Vec<String>,
    /// Between two readings [default: as the file has it; of a trace 1m]
    #[arg(long, value_name = "TIME")]
    period: Option<String>,
    /// Only series whose name holds this
    #[arg(long, value_name = "NAME")]
    series: Option<String>,
    /// Write what was said and what came into one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let html = flags.html.as_deref().map(Pending::new).transpose()?;
    let shown = if flags.file.as_os_str() == "-" {
        "standard input".to_owned()
    } else {
        flags.file.display().to_string()
    };
    let text = read_text(&flags.file)?;
    let found = read_series(&text).map_err(|error| Problem::new(shown.clone()).because(error))?;
    let period = flags
        .period
        .as_deref()
        .map(|text| time("--period", text))
        .transpose()?;
    let horizons: Vec<Nanoseconds> = flags
        .horizon
        .iter()
        .map(|text| time("--horizon", text))
        .collect::<anyhow::Result<_>>()?;
    let series = forecasts(&shown, &found, flags.series.as_deref(), period, &horizons)?;
    let report = view::Report {
        file: &shown,
        series: &series,
    };
    if let Some(file) = html {
        file.finish(&view::page(&report, &made()))?;
    }
    match context.form.format {
        Format::Table => context.data(&view::text(&report, context.form.style))?,
        Format::Json => context.json(&gpuwise_view::record::json(&report))?,
        _ => context.table(&view::table(&report))?,
    }
    Ok(Exit::Yes)
}

/// What an answer of this command is, as a schema.
pub(super) fn schema(name: &str) -> String {
    view::schema(name)
}

fn time(flag: &str, text: &str) -> anyhow::Result<Nanoseconds> {
    let time: Nanoseconds = text
        .trim()
        .parse()
        .map_err(|error| Problem::new(format!("{flag} {text:?}: {error}")))?;
    if time.0 == 0 {
        return Err(Problem::new(format!("{flag} {text:?}: it is 0")).into());
    }
    Ok(time)
}

/// Each series with what is expected of it.
fn forecasts(
    shown: &str,
    found: &RateSeries,
    only: Option<&str>,
    period: Option<Nanoseconds>,
    horizons: &[Nanoseconds],
) -> anyhow::Result<Vec<SeriesForecast>> {
    let chosen = found.series.iter();
    let chosen: Vec<_> = chosen
        .filter(|(name, _)| only.is_none_or(|only| name.contains(only)))
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = found.series.iter().map(|(name, _)| name.as_str()).collect();
        let what = format!("{shown}: no series is named {:?}", only.unwrap_or_default());
        return Err(Problem::new(what)
            .hint(format!("it has {}", names.join(", ")))
            .into());
    }
    let each = chosen.into_iter().map(|(name, readings)| {
        let series = in_periods(found.counts, readings, period).map_err(|error| {
            let named = if name.is_empty() {
                shown.to_owned()
            } else {
                format!("{shown}: {name}")
            };
            let problem = Problem::new(named).because(error);
            match error {
                SeriesError::One => problem.hint("say it: --period 10m"),
                SeriesError::TooMany(_) => problem.hint("a longer --period has fewer"),
                SeriesError::Empty | SeriesError::Time => problem,
            }
        })?;
        let ahead = periods(series.period, horizons)?;
        Ok(report(name, &series, &ahead))
    });
    each.collect()
}

/// One reading a period.
fn in_periods(
    counts: Counts,
    readings: &[(f64, f64)],
    period: Option<Nanoseconds>,
) -> Result<Regular, SeriesError> {
    match counts {
        Counts::Rates => regular(readings, period),
        Counts::Requests => {
            let mut series = regular(readings, period)?;
            let seconds = series.period.0 as f64 / 1e9;
            for reading in series.readings.iter_mut().flatten() {
                *reading /= seconds;
            }
            Ok(series)
        }
        Counts::Arrivals => {
            let period = period.unwrap_or(MINUTE);
            let seconds = period.0 as f64 / 1e9;
            let mut counted: BTreeMap<u64, u64> = BTreeMap::new();
            for (at, _) in readings {
                *counted.entry((at / seconds) as u64).or_default() += 1;
            }
            // The last period is not over.
            let last = counted.keys().next_back().copied().unwrap_or(0);
            let rates = (0..last).map(|at| {
                let count = counted.get(&at).copied().unwrap_or(0);
                (at as f64 * seconds, count as f64 / seconds)
            });
            regular(&rates.collect::<Vec<_>>(), Some(period))
        }
    }
}

/// Horizons in whole periods.
fn periods(period: Nanoseconds, horizons: &[Nanoseconds]) -> anyhow::Result<Vec<u32>> {
    let mut all = Vec::new();
    for horizon in horizons {
        let count = (horizon.0 + period.0 / 2) / period.0.max(1);
        if count == 0 || count > FARTHEST {
            let what = format!(
                "--horizon {horizon}: with {period} a reading it is {count} periods; 1 to {FARTHEST} are forecast"
            );
            return Err(Problem::new(what)
                .hint("--period says another time between readings")
                .into());
        }
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        if !all.contains(&count) {
            all.push(count);
        }
    }
    Ok(all)
}
