//! Demand over time: from a file, or a series that was published.

use crate::{error::Problem, questions::read_text};
use gpuwise_read::traffic::{Counts, RateSeries, read_series};
use gpuwise_scale::forecast::series::{Regular, SeriesError, regular};
use gpuwise_units::Nanoseconds;
use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
};

/// Between two readings of a trace of requests, where nothing is said.
const MINUTE: Nanoseconds = Nanoseconds(60_000_000_000);
/// Series of ServeGen (arXiv:2505.09999), one of which stands behind this.
const SERVEGEN: &str = "servegen:";
const SERVEGEN_FILE: &str = "traffic/servegen_total_rates_10min.csv.gz";

/// The series of a file.
pub(super) struct Read {
    /// What it is called in answers.
    pub(super) shown: String,
    pub(super) series: Vec<(String, Regular)>,
}

/// Reads the series whose name holds `only`, with one reading a period.
///
/// # Errors
/// When there is no such file or series, or it says nothing.
pub(super) fn read(
    source: &Path,
    only: Option<&str>,
    period: Option<Nanoseconds>,
) -> anyhow::Result<Read> {
    let given = source.display().to_string();
    if let Some(name) = given.strip_prefix(SERVEGEN) {
        let file = published()?;
        let text = read_text(&file)?;
        let mut found =
            read_series(&text).map_err(|error| Problem::new(given.clone()).because(error))?;
        let names: Vec<String> = found
            .series
            .iter()
            .filter_map(|(one, _)| one.rsplit('/').next().map(str::to_owned))
            .collect();
        // Their file says a kind before the name.
        found
            .series
            .retain(|(one, _)| one.rsplit('/').next() == Some(name));
        for (one, _) in &mut found.series {
            *one = name.to_owned();
        }
        if found.series.is_empty() {
            return Err(Problem::new(format!("ServeGen has no series {name:?}"))
                .hint(format!("it has {}", names.join(", ")))
                .into());
        }
        return chosen(given, &found, None, period);
    }
    let shown = if source.as_os_str() == "-" {
        "standard input".to_owned()
    } else {
        given
    };
    let text = read_text(source)?;
    let found = read_series(&text).map_err(|error| Problem::new(shown.clone()).because(error))?;
    chosen(shown, &found, only, period)
}

/// Where the published series lie.
fn published() -> anyhow::Result<PathBuf> {
    let data = env::var_os("GPUWISE_DATA").map_or_else(|| "../shared/data".into(), PathBuf::from);
    let file = data.join(SERVEGEN_FILE);
    if file.is_file() {
        return Ok(file);
    }
    Err(Problem::new(format!("there is no {}", file.display()))
        .hint("set GPUWISE_DATA to the directory that holds `traffic`, or name a file of one's own")
        .into())
}

fn chosen(
    shown: String,
    found: &RateSeries,
    only: Option<&str>,
    period: Option<Nanoseconds>,
) -> anyhow::Result<Read> {
    let all = found.series.iter();
    let chosen: Vec<_> = all
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
                shown.clone()
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
        Ok((name.clone(), series))
    });
    let series = each.collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Read { shown, series })
}

/// A span that a flag states, above 0.
///
/// # Errors
/// When it is none.
pub(super) fn time(flag: &str, text: &str) -> anyhow::Result<Nanoseconds> {
    let time: Nanoseconds = text
        .trim()
        .parse()
        .map_err(|error| Problem::new(format!("{flag} {text:?}: {error}")))?;
    if time.0 == 0 {
        return Err(Problem::new(format!("{flag} {text:?}: it is 0")).into());
    }
    Ok(time)
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
