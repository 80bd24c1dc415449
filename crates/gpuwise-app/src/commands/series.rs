//! Demand over time: from a file, or a series that was published.

use crate::{error::Problem, questions::read_text};
use gpuwise_read::traffic::{Counts, DECODE, PREFILL, RateSeries, read_series};
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
const SERVEGEN_CLIENTS: &str = "traffic/servegen_client_rates_10min.csv.gz";

/// What is read of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Requests a second alone; whether the command has a flag for the time between readings.
    Requests { flag: bool },
    /// With whose they are, and with tokens of a trace where that is asked for.
    Apart { tokens: bool },
}

/// The series of a file.
pub(super) struct Read {
    /// What it is called in answers.
    pub(super) shown: String,
    pub(super) series: Vec<(String, Regular)>,
}

/// Demand with one reading a period.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) regular: Regular,
    /// What of it came of whom.
    pub(super) clients: Vec<(String, Vec<f64>)>,
}

/// Readings that replicas are scaled by are no further apart.
const COARSEST: Nanoseconds = Nanoseconds(6 * 3600 * 1_000_000_000);

/// Reads requests a second of the series whose name holds `only`, with one reading a period.
///
/// # Errors
/// When there is no such file or series, or it says nothing.
pub(super) fn read(
    source: &Path,
    only: Option<&str>,
    period: Option<Nanoseconds>,
) -> anyhow::Result<Read> {
    let read = read_requests(source, only, period, true)?;
    let coarse = read.series.iter().find(|(_, one)| one.period > COARSEST);
    if let Some((name, series)) = coarse.filter(|_| period.is_none()) {
        let hours = series.period.seconds().get() / 3600.0;
        return Err(Problem::new(format!(
            "{}: {name}: its readings are {hours:.1} h apart, and what starts in minutes cannot follow them",
            read.shown
        ))
        .hint("times are seconds: divide those in milliseconds by 1,000")
        .into());
    }
    Ok(read)
}

/// The same of all series, for what has no flag that says the time between readings.
#[cfg(feature = "serve")]
pub(super) fn read_whole(source: &Path) -> anyhow::Result<Read> {
    read_requests(source, None, None, false)
}

fn read_requests(
    source: &Path,
    only: Option<&str>,
    period: Option<Nanoseconds>,
    flag: bool,
) -> anyhow::Result<Read> {
    let (shown, series) = read_wanted(source, only, period, Wanted::Requests { flag })?;
    let series = series.into_iter().map(|one| (one.name, one.regular));
    Ok(Read {
        shown,
        series: series.collect(),
    })
}

/// The same with what of it came of whom, and with tokens of a trace where that is asked for; first what it is called.
pub(super) fn read_apart(
    source: &Path,
    only: Option<&str>,
    period: Option<Nanoseconds>,
    tokens: bool,
) -> anyhow::Result<(String, Vec<Series>)> {
    read_wanted(source, only, period, Wanted::Apart { tokens })
}

fn read_wanted(
    source: &Path,
    only: Option<&str>,
    period: Option<Nanoseconds>,
    wanted: Wanted,
) -> anyhow::Result<(String, Vec<Series>)> {
    let given = source.display().to_string();
    if let Some(name) = given.strip_prefix(SERVEGEN) {
        let read = |file: &Path| -> anyhow::Result<RateSeries> {
            let text = read_text(file)?;
            let found = read_series(&text);
            found.map_err(|error| Problem::new(given.clone()).because(error).into())
        };
        let mut found = read(&published(SERVEGEN_FILE)?)?;
        let clients = published(SERVEGEN_CLIENTS).ok();
        if let Some(file) = clients.filter(|_| matches!(wanted, Wanted::Apart { .. })) {
            let of = read(&file)?;
            for ((name, _), clients) in found.series.iter().zip(&mut found.clients) {
                let place = of.series.iter().position(|(one, _)| one == name);
                let theirs = place.and_then(|place| of.clients.get(place));
                *clients = theirs.cloned().unwrap_or_default();
            }
        }
        let names: Vec<String> = found
            .series
            .iter()
            .filter_map(|(one, _)| one.rsplit('/').next().map(str::to_owned))
            .collect();
        // Their file says a kind before the name.
        let pairs = found.series.into_iter().zip(found.clients);
        let pairs = pairs.filter(|((one, _), _)| one.rsplit('/').next() == Some(name));
        (found.series, found.clients) = pairs
            .map(|((_, readings), clients)| ((name.to_owned(), readings), clients))
            .unzip();
        if found.series.is_empty() {
            return Err(Problem::new(format!("ServeGen has no series {name:?}"))
                .hint(format!("it has {}", names.join(", ")))
                .into());
        }
        return chosen(given, &found, None, period, wanted);
    }
    let shown = if source.as_os_str() == "-" {
        "standard input".to_owned()
    } else {
        given
    };
    let text = read_text(source)?;
    let found = read_series(&text).map_err(|error| Problem::new(shown.clone()).because(error))?;
    chosen(shown, &found, only, period, wanted)
}

/// Where a file of the published series lies.
fn published(name: &str) -> anyhow::Result<PathBuf> {
    let data = env::var_os("GPUWISE_DATA").map_or_else(|| "../shared/data".into(), PathBuf::from);
    let file = data.join(name);
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
    wanted: Wanted,
) -> anyhow::Result<(String, Vec<Series>)> {
    let tokens = wanted == Wanted::Apart { tokens: true };
    let arrivals = found.counts == Counts::Arrivals;
    let flag = wanted != Wanted::Requests { flag: false };
    if tokens && !arrivals {
        return Err(
            Problem::new(format!("--tokens: {shown} says nothing of tokens"))
                .hint("a trace of requests does, as `gpuwise simulate --trace` reads")
                .into(),
        );
    }
    let asked = |name: &str| {
        let of_tokens = arrivals && [PREFILL, DECODE].contains(&name);
        (tokens || !of_tokens) && only.is_none_or(|only| name.contains(only))
    };
    let all = found.series.iter().zip(&found.clients);
    let chosen: Vec<_> = all.filter(|((name, _), _)| asked(name)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = found.series.iter().map(|(name, _)| name.as_str()).collect();
        let what = format!("{shown}: no series is named {:?}", only.unwrap_or_default());
        return Err(Problem::new(what)
            .hint(format!("it has {}", names.join(", ")))
            .into());
    }
    let each = chosen.into_iter().map(|((name, readings), clients)| {
        let series = in_periods(found.counts, readings, period).map_err(|error| {
            let named = if name.is_empty() {
                shown.clone()
            } else {
                format!("{shown}: {name}")
            };
            let problem = Problem::new(named).because(error);
            match error {
                SeriesError::One if flag => problem.hint("say it: --period 10m"),
                SeriesError::One => problem.hint("give it two readings or more"),
                SeriesError::TooMany(_) if flag => problem.hint("a longer --period has fewer"),
                SeriesError::TooMany(_) => {
                    problem.hint("give it fewer, or with more time between them")
                }
                SeriesError::Empty | SeriesError::Time => problem,
            }
        })?;
        Ok(Series {
            name: if tokens && name.is_empty() {
                "requests".into()
            } else {
                name.clone()
            },
            clients: apart(found.counts, &series, clients),
            regular: series,
        })
    });
    let series = each.collect::<anyhow::Result<Vec<_>>>()?;
    Ok((shown, series))
}

/// Requests a second of each client, along the whole.
fn apart(
    counts: Counts,
    whole: &Regular,
    clients: &[(String, Vec<(f64, f64)>)],
) -> Vec<(String, Vec<f64>)> {
    let seconds = match counts {
        Counts::Rates => 1.0,
        Counts::Requests | Counts::Arrivals => whole.period.0 as f64 / 1e9,
    };
    let each = clients.iter().map(|(name, readings)| {
        let mut along = whole.along(readings);
        for value in &mut along {
            *value /= seconds;
        }
        (name.clone(), along)
    });
    each.collect()
}

/// Requests, tokens of prompts, and tokens of answers a second, reading by reading, of a trace that says them.
///
/// # Errors
/// When there is no such file.
pub(super) fn tokens(source: &Path) -> anyhow::Result<Option<[Vec<Option<f64>>; 3]>> {
    if source.display().to_string().starts_with(SERVEGEN) {
        return Ok(None);
    }
    if source.as_os_str() == "-" {
        let what = "standard input is read once; tokens of a trace are read beside its requests";
        return Err(Problem::new(what).hint("name a file").into());
    }
    let found = read_series(&read_text(source)?)
        .map_err(|error| Problem::new(source.display().to_string()).because(error))?;
    if found.counts != Counts::Arrivals {
        return Ok(None);
    }
    let of = |wanted: &str| {
        let series = found.series.iter().find(|(name, _)| name == wanted);
        let readings = series.and_then(|(_, one)| in_periods(Counts::Arrivals, one, None).ok());
        readings.map(|one| one.readings)
    };
    Ok(of("")
        .zip(of(PREFILL))
        .zip(of(DECODE))
        .map(|((requests, prompts), answers)| [requests, prompts, answers]))
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
            let mut counted: BTreeMap<u64, f64> = BTreeMap::new();
            for (at, value) in readings {
                *counted.entry((at / seconds) as u64).or_default() += value;
            }
            // The last period is not over.
            let last = counted.keys().next_back().copied().unwrap_or(0);
            let rates = (0..last).map(|at| {
                let count = counted.get(&at).copied().unwrap_or(0.0);
                (at as f64 * seconds, count / seconds)
            });
            regular(&rates.collect::<Vec<_>>(), Some(period))
        }
    }
}
