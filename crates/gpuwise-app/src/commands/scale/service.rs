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

/// A number above 0.
pub(super) fn positive(flag: &str, value: f64) -> anyhow::Result<f64> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(Problem::new(format!("{flag} {value}: it must be above 0")).into())
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
    let mut last = series
        .readings
        .iter()
        .copied()
        .flatten()
        .next()
        .unwrap_or(0.0);
    let mut filled = 0_usize;
    for reading in &series.readings {
        match reading {
            Some(rate) => last = *rate,
            None => filled += 1,
        }
        rates.push(last);
    }
    let mut notes = series.notes();
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
    }
}
