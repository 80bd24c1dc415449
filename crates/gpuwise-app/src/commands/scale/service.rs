//! What flags say of a service, and demand as it is replayed.

use crate::error::Problem;
use gpuwise_domain::scale::ScaleService;
use gpuwise_scale::{
    fluid::{Demand, Service},
    forecast::series::Regular,
};

/// A share in percent: `99.9%`, `99.9` or `0.999`.
pub(super) fn share(flag: &str, text: &str) -> anyhow::Result<f64> {
    let trimmed = text.trim();
    let (number, percent) = trimmed
        .strip_suffix('%')
        .map_or((trimmed, false), |number| (number.trim(), true));
    let wrong = || Problem::new(format!("{flag} {text:?} is no share")).hint("99% or 0.99");
    let value: f64 = number.parse().map_err(|_| wrong())?;
    let value = if percent || value > 1.0 {
        value / 100.0
    } else {
        value
    };
    if value.is_finite() && (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(wrong().into())
    }
}

/// A share of requests that are to be in time: some of them may be late.
pub(super) fn objective(text: &str) -> anyhow::Result<f64> {
    let value = share("--objective", text)?;
    if value > 0.0 && value < 1.0 {
        return Ok(value);
    }
    Err(Problem::new(format!(
        "--objective {text:?}: between 0 and 100 %, both excluded"
    ))
    .hint("99% or 99.9%")
    .into())
}

/// No flag says more than this: requests a second, or a variance over a mean.
const MOST: f64 = 1e9;
/// Nor less, but nothing.
const LEAST: f64 = 1e-9;

/// A number above 0 that may be.
pub(super) fn positive(flag: &str, value: f64) -> anyhow::Result<f64> {
    if (LEAST..=MOST).contains(&value) {
        return Ok(value);
    }
    let said = if value.is_finite() && value > 0.0 {
        format!("{flag} {value:e}: from {LEAST:e} to {MOST:e}")
    } else {
        format!("{flag} {value}: it must be above 0")
    };
    Err(Problem::new(said)
        .hint("say what one replica, or all of the demand, has in a second, such as 5")
        .into())
}

/// So many times of nearly all other readings one that stands alone is no demand.
const IMPLAUSIBLE: f64 = 100.0;
/// Of so few readings none is held back.
const FEW: usize = 10;

/// Readings that stand alone beyond what nearly all others are; as many as are to be held back.
fn implausible(readings: &[Option<f64>]) -> Vec<usize> {
    let mut known: Vec<f64> = readings
        .iter()
        .copied()
        .flatten()
        .filter(|one| *one > 0.0)
        .collect();
    known.sort_by(f64::total_cmp);
    let place = known
        .len()
        .saturating_sub(1)
        .saturating_sub(known.len() / 20);
    let Some(usual) = known.get(place).filter(|_| known.len() >= FEW) else {
        return Vec::new();
    };
    let beyond = |at: Option<usize>| {
        let reading = at.and_then(|at| readings.get(at).copied().flatten());
        reading.is_some_and(|one| one > IMPLAUSIBLE * usual)
    };
    (0..readings.len())
        .filter(|at| beyond(Some(*at)) && !beyond(at.checked_sub(1)) && !beyond(Some(at + 1)))
        .collect()
}

/// What a warm replica costs; `never`: none can be.
pub(super) fn warm_cost(text: &str) -> anyhow::Result<Option<f64>> {
    if text.trim() == "never" {
        return Ok(None);
    }
    share("--warm-cost", text).map(Some)
}

/// Readings as demand: what is not known is taken to go straight on, and said.
pub(super) fn demand(series: &Regular) -> (Demand, Vec<String>) {
    let mut rates = Vec::with_capacity(series.readings.len());
    let held = implausible(&series.readings);
    let mut each = series.readings.iter().enumerate();
    let first = each.find_map(|(at, reading)| reading.filter(|_| !held.contains(&at)));
    let mut last = first.unwrap_or(0.0);
    let mut filled = 0_usize;
    for (at, reading) in series.readings.iter().enumerate() {
        match reading {
            Some(_) if held.contains(&at) => {}
            Some(rate) => last = *rate,
            None => filled += 1,
        }
        rates.push(last);
    }
    let mut notes = series.notes();
    for at in &held {
        let rate = series.readings.get(*at).copied().flatten().unwrap_or(0.0);
        let second = series.start_seconds + *at as f64 * series.period.seconds().get();
        notes.push(format!(
            "the reading at {second} s, {rate:.3e} requests/s, is more than {IMPLAUSIBLE} times nearly all others and \
             stands alone: it is replayed at the rate before it"
        ));
    }
    if filled > 0 {
        notes.push(format!(
            "{filled} periods are replayed at the rate before them"
        ));
    }
    let period = series.period.0 as f64 / 1e9;
    (Demand { period, rates }, notes)
}

/// The same for answers.
pub(super) fn said(service: &Service) -> ScaleService {
    ScaleService {
        rate: service.rate,
        service: service.service,
        wait: service.wait,
        wake: service.wake,
        warm_cost: service.warm_cost,
        dispersion: service.dispersion,
        min: service.min,
        idle: service.idle,
    }
}
