//! Traffic from a server's metrics: one look, two, or many.

use super::observed::ObservedTraffic;
#[cfg(feature = "hub")]
use super::observed::duration;
#[cfg(feature = "hub")]
use crate::progress;
use crate::{
    commands::Context,
    error::Problem,
    fetch::{Client, is_url},
    questions::read_text,
    settings::FromMetrics,
};
use anyhow::Context as _;
use gpuwise_read::{
    access_log::nanoseconds_of,
    metrics::{Observed, burstiness, observe, parse},
    workload::tokens,
};
use gpuwise_units::Nanoseconds;
use std::{
    path::Path,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Windows into which a time of watching is cut.
const WINDOWS: f64 = 12.0;
/// A server is not looked at more often than this.
const OFTEN: f64 = 1.0;
/// Looks that may fail before watching is given up.
const MOST_FAILED: usize = 3;

pub(super) fn seen(context: &Context, flags: &FromMetrics) -> anyhow::Result<ObservedTraffic> {
    let span = time_of("--for", flags.span.as_deref())?;
    let longest = match &flags.context {
        Some(text) => Some(tokens(text).context("--context")?.0 as f64),
        None => None,
    };
    let mut seen = match (flags.source.as_slice(), span) {
        ([first, _], _) if is_url(first) => {
            return Err(Problem::new("two sources are given, and one is a server")
                .hint("`gpuwise workload from-metrics URL --for 60s` looks at a server twice")
                .into());
        }
        ([first, second], span) => between(flags, first, second, span, longest)?,
        ([source], Some(span)) if is_url(source) => watch(context, flags, source, span, longest)?,
        ([source], span) => once(context, flags, source, span, longest)?,
        _ => return Err(Problem::new("no source of metrics is given").into()),
    };
    if let Some(source) = flags.source.first() {
        let place = if is_url(source) {
            "a running server"
        } else {
            source.as_str()
        };
        seen.source = format!("{} ({place})", seen.source);
    }
    Ok(seen)
}

/// A time of a flag in seconds, above 0.
pub(super) fn time_of(flag: &'static str, text: Option<&str>) -> anyhow::Result<Option<f64>> {
    let Some(text) = text else { return Ok(None) };
    let time: Nanoseconds = text.parse().context(flag)?;
    if time.0 == 0 {
        return Err(Problem::new(format!("{flag} is 0; expected a time above that")).into());
    }
    Ok(Some(time.seconds().get()))
}

fn date_of(flag: &'static str, text: Option<&str>) -> anyhow::Result<Option<f64>> {
    let Some(text) = text else { return Ok(None) };
    let nanoseconds = nanoseconds_of(text).ok_or_else(|| {
        Problem::new(format!("{flag} {text:?} is no date"))
            .hint("write 2026-11-20T08:00:00Z, or seconds since 1970")
    })?;
    Ok(Some(nanoseconds as f64 / 1e9))
}

/// Now, in seconds since 1970.
pub(super) fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

fn read(name: &str, text: &str, model: Option<&str>) -> anyhow::Result<Observed> {
    let page = parse(text).with_context(|| name.to_owned())?;
    observe(&page, model)
        .map_err(|error| {
            let several = matches!(error, gpuwise_read::metrics::ObservedError::Models(_));
            let idle = matches!(error, gpuwise_read::metrics::ObservedError::Idle { .. });
            let problem = Problem::new(name.to_owned()).because(error);
            if several {
                problem.hint("--model names one")
            } else if idle {
                problem.hint("look again when it has served some, or at another replica")
            } else {
                problem
            }
        })
        .map_err(Into::into)
}

/// What one page says: lengths, and a mean rate where it is known since when it counts.
fn once(
    context: &Context,
    flags: &FromMetrics,
    source: &str,
    span: Option<f64>,
    longest: Option<f64>,
) -> anyhow::Result<ObservedTraffic> {
    let (text, live) = if is_url(source) {
        let client = Client::new(&flags.access, context.app.offline)?;
        (client.get(source, &[])?, true)
    } else {
        (read_text(Path::new(source))?, false)
    };
    let observed = read(source, &text, flags.model.as_deref())?;
    let mut seen = ObservedTraffic::of_metrics(&observed, longest);
    let taken = match date_of("--taken", flags.taken.as_deref())? {
        Some(taken) => Some(taken),
        None if live => Some(now()),
        None => observed.taken,
    };
    let since = date_of("--since", flags.since.as_deref())?.or(observed.started);
    let covered = span.or_else(|| Some(taken? - since?).filter(|seconds| *seconds > 0.0));
    seen.seconds = covered;
    match covered {
        Some(seconds) => {
            seen.rate = Some(observed.requests / seconds);
            if span.is_none() {
                seen.notes.push(
                    "the rate is the mean since counting began, idle hours and nights included"
                        .into(),
                );
            }
        }
        None => {
            seen.no_rate = Some(match (since, taken) {
                (Some(_), None) => "unknown: the copy does not say when it was taken (--taken, or --for)".into(),
                (None, Some(_)) => "unknown: it is not said since when these are counted (--since, or --for)".into(),
                (Some(_), Some(_)) => "unknown: the copy was taken before counting began".into(),
                (None, None) => "unknown: one copy counts requests, not time (--for says the time that it covers)".into(),
            });
        }
    }
    Ok(seen)
}

/// What happened between two saved pages.
fn between(
    flags: &FromMetrics,
    first: &str,
    second: &str,
    span: Option<f64>,
    longest: Option<f64>,
) -> anyhow::Result<ObservedTraffic> {
    let model = flags.model.as_deref();
    let then_text = read_text(Path::new(first))?;
    let now = read(second, &read_text(Path::new(second))?, model)?;
    let page = parse(&then_text).with_context(|| first.to_owned())?;
    // The earlier one may be of an idle server: everything was counted since.
    let then = match observe(&page, model) {
        Ok(then) => Some(then),
        Err(gpuwise_read::metrics::ObservedError::Idle { .. }) => None,
        Err(error) => return Err(Problem::new(first.to_owned()).because(error).into()),
    };
    let seconds =
        span.or_else(|| Some(now.taken? - then.as_ref()?.taken?).filter(|seconds| *seconds > 0.0));
    let observed = match &then {
        Some(then) => now.since(then).ok_or_else(|| {
            Problem::new(format!("{second} counts less than {first}"))
                .hint("the server started again between them, or they are the other way round; one alone can be read")
        })?,
        None => now,
    };
    if observed.requests <= 0.0 {
        return Err(Problem::new(format!("no request ended between {first} and {second}")).into());
    }
    let mut seen = ObservedTraffic::of_metrics(&observed, longest);
    seen.seconds = seconds;
    seen.rate = seconds.map(|seconds| observed.requests / seconds);
    if seen.rate.is_none() {
        seen.no_rate = Some("unknown: the copies do not say when they were taken (--for says the time between them)".into());
    }
    Ok(seen)
}

/// Watches a running server, and counts in windows.
fn watch(
    context: &Context,
    flags: &FromMetrics,
    source: &str,
    span: f64,
    longest: Option<f64>,
) -> anyhow::Result<ObservedTraffic> {
    let client = Client::new(&flags.access, context.app.offline)?;
    let every = time_of("--every", flags.every.as_deref())?
        .unwrap_or((span / WINDOWS).max(OFTEN))
        .min(span);
    let model = flags.model.as_deref();
    let look = || -> anyhow::Result<Option<Observed>> {
        let text = client.get(source, &[])?;
        let page = parse(&text).with_context(|| source.to_owned())?;
        match observe(&page, model) {
            Ok(observed) => Ok(Some(observed)),
            Err(gpuwise_read::metrics::ObservedError::Idle { .. }) => Ok(None),
            Err(error) => Err(Problem::new(source.to_owned()).because(error).into()),
        }
    };
    let begun = Instant::now();
    let mut looks: Vec<(f64, Option<Observed>)> = vec![(0.0, look()?)];
    let windows = (span / every).round().max(1.0) as u32;
    let mut failed = Vec::new();
    for window in 1..=windows {
        let due = Duration::from_secs_f64(span * f64::from(window) / f64::from(windows));
        thread::sleep(due.saturating_sub(begun.elapsed()));
        #[cfg(feature = "hub")]
        progress::doing(&format!(
            "watching: {} of {}",
            duration(due.as_secs_f64()),
            duration(span)
        ));
        match look() {
            Ok(observed) => looks.push((begun.elapsed().as_secs_f64(), observed)),
            Err(error) if failed.len() < MOST_FAILED => failed.push(format!("{error:#}")),
            Err(error) => return Err(error),
        }
    }
    #[cfg(feature = "hub")]
    progress::doing("");
    let mut seen = watched(&looks, source, longest)?;
    if failed.is_empty() {
        seen.set_burstiness(burstiness(&counts(&looks), every), every);
    } else {
        seen.notes.push(format!(
            "{} of {} looks failed, the first: {}",
            failed.len(),
            windows + 1,
            failed.first().map_or("", String::as_str)
        ));
    }
    Ok(seen)
}

/// Requests that began to be answered in each window; first tokens are nearer to arrivals than last
/// ones.
fn counts(looks: &[(f64, Option<Observed>)]) -> Vec<f64> {
    let count = |observed: &Option<Observed>| {
        observed.as_ref().map_or(0.0, |observed| {
            observed
                .ttft
                .as_ref()
                .map_or(observed.requests, |ttft| ttft.count)
        })
    };
    looks
        .windows(2)
        .map(|pair| (count(&pair[1].1) - count(&pair[0].1)).max(0.0))
        .collect()
}

fn watched(
    looks: &[(f64, Option<Observed>)],
    source: &str,
    longest: Option<f64>,
) -> anyhow::Result<ObservedTraffic> {
    let none = || {
        Problem::new(format!("{source}: no request ended while it was watched"))
            .hint("watch for longer, or leave --for out to read what it counted so far")
    };
    let (Some((_, first)), Some((seconds, Some(last)))) = (looks.first(), looks.last()) else {
        return Err(none().into());
    };
    let observed = match first {
        Some(first) => last.since(first).ok_or_else(|| {
            Problem::new(format!(
                "{source}: the server started again while it was watched"
            ))
        })?,
        None => last.clone(),
    };
    if observed.requests <= 0.0 {
        return Err(none().into());
    }
    let mut seen = ObservedTraffic::of_metrics(&observed, longest);
    seen.seconds = Some(*seconds);
    seen.rate = Some(observed.requests / seconds);
    let gauges: Vec<&Observed> = looks.iter().filter_map(|(_, look)| look.as_ref()).collect();
    let mean = |of: &dyn Fn(&Observed) -> Option<f64>| {
        let values: Vec<f64> = gauges.iter().filter_map(|look| of(look)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    if let (Some(running), Some(waiting)) = (mean(&|o| o.running), mean(&|o| o.waiting)) {
        seen.notes.push(format!(
            "{running:.1} requests ran and {waiting:.1} waited on average"
        ));
    }
    Ok(seen)
}
