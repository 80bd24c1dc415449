//! Traffic from access logs.

use super::observed::{Lengths, ObservedTraffic, duration};
use crate::{error::Problem, settings::FromLog};
use anyhow::Context as _;
use gpuwise_read::{
    access_log::{AccessLog, Field, Mapping, read_access_log, rfc3339},
    metrics::{FRACTIONS, burstiness, hourly},
    traffic,
};
use std::{fmt::Write as _, fs, io::Read as _};

/// A log is some gigabytes at most, unpacked.
const LARGEST_LOG: u64 = 4 << 30;
/// Seconds of the windows in which requests are counted for the rates of hours.
const WINDOW: f64 = 60.0;
/// Fewer gaps than this say nothing of an hour's burstiness.
const FEWEST_GAPS: usize = 50;

pub(super) fn seen(flags: &FromLog) -> anyhow::Result<(ObservedTraffic, AccessLog)> {
    let shown = flags.file.display().to_string();
    let mapping = match &flags.map {
        Some(text) => Mapping::read(text).context("--map")?,
        None => Mapping::default(),
    };
    let cannot = |error| Problem::new(format!("cannot read {shown}")).because(error);
    let mut bytes = Vec::new();
    if shown == "-" {
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(cannot)?;
    } else {
        bytes = fs::read(&flags.file).map_err(cannot)?;
    }
    let bytes = traffic::decompress(&bytes, LARGEST_LOG).with_context(|| shown.clone())?;
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.valid_up_to() < bytes.len().min(4096) / 2
    {
        return Err(Problem::new(format!("{shown} is not text in UTF-8"))
            .hint("a log is JSON lines or CSV; `gpuwise example requests.jsonl` prints one")
            .into());
    }
    let log = read_access_log(&bytes, &mapping, flags.model.as_deref()).map_err(|error| {
        use gpuwise_read::access_log::AccessLogError;
        let hint = match &error {
            AccessLogError::Missing { field, .. } => {
                Some(format!("--map {field}=COLUMN says which"))
            }
            AccessLogError::TooManyBad { .. } => Some("take out what is no request first".into()),
            _ => None,
        };
        let problem = Problem::new(shown.clone()).because(error);
        match hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    })?;
    Ok((summed(&log, &shown, flags.model.as_deref()), log))
}

fn summed(log: &AccessLog, shown: &str, model: Option<&str>) -> ObservedTraffic {
    let lengths = |of: fn(&gpuwise_read::access_log::Entry) -> u32| {
        Lengths::of(
            log.entries
                .iter()
                .map(|entry| f64::from(of(entry)))
                .collect(),
            &FRACTIONS,
        )
    };
    let first = log.entries.first().map_or(0, |entry| entry.arrival);
    let last = log.entries.last().map_or(0, |entry| entry.arrival);
    let seconds = (last - first) as f64 / 1e9;
    let timed = log.timed && seconds > 0.0;
    let gaps = log.entries.len().saturating_sub(1) as f64;
    let only = match log.models.as_slice() {
        [(name, _)] => Some(name.clone()),
        _ => None,
    };
    let mut seen = ObservedTraffic {
        source: format!("log {shown}"),
        model: model.map(Into::into).or(only),
        requests: log.entries.len() as f64,
        seconds: timed.then_some(seconds),
        rate: timed.then(|| gaps / seconds),
        no_rate: (!timed).then(|| {
            "unknown: the log does not say when requests came (--map arrival=COLUMN)".into()
        }),
        input: lengths(|entry| entry.input),
        output: lengths(|entry| entry.output),
        prefix_hit: log.prefix_hit(),
        ..ObservedTraffic::default()
    };
    if timed {
        seen.hourly = hourly(&log.counts(WINDOW), WINDOW);
        seen.hourly_from = Some(rfc3339(first.div_euclid(1_000_000_000)));
        set_burstiness(&mut seen, log);
    }
    seen.notes = notes(log, model);
    seen
}

/// From the gaps between requests within each hour, so that day and night are not taken for bursts;
/// where times are too coarse for gaps, from counts.
fn set_burstiness(seen: &mut ObservedTraffic, log: &AccessLog) {
    let resolution = resolution(log);
    let rate = seen.rate.unwrap_or(0.0);
    if rate * resolution > 0.1 {
        let window = (10.0 * resolution).max(1.0);
        seen.set_burstiness(burstiness(&log.counts(window), window), window);
        return;
    }
    let (mut sum, mut weight, mut hours) = (0.0, 0.0, 0);
    let hour = |arrival: i64| arrival.div_euclid(3_600_000_000_000);
    for entries in log
        .entries
        .chunk_by(|a, b| hour(a.arrival) == hour(b.arrival))
    {
        let gaps: Vec<f64> = entries
            .windows(2)
            .map(|pair| (pair[1].arrival - pair[0].arrival) as f64)
            .collect();
        if gaps.len() < FEWEST_GAPS {
            continue;
        }
        let Some(variation) = Lengths::of(gaps.clone(), &[]).and_then(|seen| seen.variation) else {
            continue;
        };
        sum += variation * gaps.len() as f64;
        weight += gaps.len() as f64;
        hours += 1;
    }
    if weight > 0.0 {
        let how = match hours {
            1 => "squared variation of gaps".to_owned(),
            hours => format!("squared variation of gaps, mean within {hours} hours"),
        };
        seen.burstiness = Some((sum / weight, how));
    }
}

/// Seconds that times are rounded to: the largest of 1 s, 1 ms, … that divides all of them.
fn resolution(log: &AccessLog) -> f64 {
    [1_000_000_000_i64, 1_000_000, 1000]
        .into_iter()
        .find(|unit| log.entries.iter().all(|entry| entry.arrival % unit == 0))
        .map_or(1e-9, |unit| unit as f64 / 1e9)
}

fn notes(log: &AccessLog, model: Option<&str>) -> Vec<String> {
    let mut notes = Vec::new();
    let found: Vec<String> = log
        .columns
        .iter()
        .filter(|(field, _)| !matches!(field, Field::Status))
        .map(|(field, path)| format!("{}={path}", field.name()))
        .collect();
    notes.push(format!("read as {}", found.join(",")));
    if log.failed > 0 {
        notes.push(format!(
            "{} requests failed or were not answered, and are left out",
            log.failed
        ));
    }
    if log.other_models > 0 {
        notes.push(format!(
            "{} requests of other models are left out",
            log.other_models
        ));
    } else if model.is_none() && log.models.len() > 1 {
        let names: Vec<String> = log
            .models
            .iter()
            .take(5)
            .map(|(name, count)| format!("{name} ({count})"))
            .collect();
        notes.push(format!(
            "{} models together: {}; --model takes one",
            log.models.len(),
            names.join(", ")
        ));
    }
    if let Some((line, problem)) = &log.first_bad {
        notes.push(format!(
            "{} of {} lines cannot be read; the first, line {line}: {problem}",
            log.bad, log.lines
        ));
    }
    if log.sessions > 0 {
        let of_sessions = log
            .entries
            .iter()
            .filter(|entry| entry.session.is_some())
            .count();
        notes.push(format!(
            "{} sessions of {:.1} requests on average",
            log.sessions,
            of_sessions as f64 / log.sessions as f64
        ));
    }
    if log.tenants.len() > 1 {
        notes.push(format!("{} tenants", log.tenants.len()));
    }
    let seconds = |entry: &gpuwise_read::access_log::Entry| entry.arrival as f64 / 1e9;
    if let (Some(first), Some(last)) = (log.entries.first(), log.entries.last())
        && log.timed
        && seconds(last) - seconds(first) < 3600.0
    {
        notes.push(format!(
            "{} are less than an hour: the busiest hour is not known",
            duration(seconds(last) - seconds(first))
        ));
    }
    notes
}

/// The requests as a plain trace.
pub(super) fn trace_text(log: &AccessLog) -> anyhow::Result<String> {
    if !log.timed {
        return Err(
            Problem::new("--save-trace: the log does not say when requests came")
                .hint("--map arrival=COLUMN says where it does")
                .into(),
        );
    }
    let first = log.entries.first().map_or(0, |entry| entry.arrival);
    let mut text = String::from("arrival_s,isl,osl,session,tenant\n");
    for entry in &log.entries {
        let since = entry.arrival - first;
        let session = entry
            .session
            .map_or(String::new(), |session| session.to_string());
        // A number: names of tenants may be keys or people.
        let tenant = entry
            .tenant
            .map_or(String::new(), |tenant| format!("t{}", tenant + 1));
        writeln!(
            text,
            "{}.{:09},{},{},{session},{tenant}",
            since / 1_000_000_000,
            since % 1_000_000_000,
            entry.input,
            entry.output
        )?;
    }
    Ok(text)
}
