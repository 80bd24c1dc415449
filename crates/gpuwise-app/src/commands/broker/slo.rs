//! What SLOs promise, read from what people write.

use super::desk::invalid;
use gpuwise_broker::Refusal;
use gpuwise_read::workload::{share, target};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{IndicatorDocument, LeaseAsk, ObjectiveDocument, SloAsk};

/// What an SLO promises.
pub(super) fn objectives(ask: &SloAsk) -> Result<Vec<ObjectiveDocument>, Refusal> {
    let mut all = Vec::new();
    let mut latency = |field: &str, text: &Option<String>, make: fn(u64) -> IndicatorDocument| {
        if let Some(text) = text {
            let (good_ppm, within) = latency(field, text)?;
            let indicator = make(within.0);
            all.push(ObjectiveDocument {
                indicator,
                good_ppm,
            });
        }
        Ok::<_, Refusal>(())
    };
    latency("ttft", &ask.ttft, |within_ns| IndicatorDocument::Ttft {
        within_ns,
    })?;
    latency("tpot", &ask.tpot, |within_ns| IndicatorDocument::Tpot {
        within_ns,
    })?;
    latency("time_to_lease", &ask.time_to_lease, |within_ns| {
        IndicatorDocument::TimeToLease { within_ns }
    })?;
    let shares = [
        ("goodput", &ask.goodput, IndicatorDocument::Goodput),
        ("survival", &ask.survival, IndicatorDocument::Survival),
    ];
    for (field, text, indicator) in shares {
        if let Some(text) = text {
            all.push(ObjectiveDocument {
                indicator,
                good_ppm: ppm(field, text)?,
            });
        }
    }
    for text in &ask.quality {
        all.push(quality(text)?);
    }
    Ok(all)
}

/// What a lease is held to by its own targets. A mean is no share of requests: it sizes, and no more.
pub(super) fn of_lease(ask: &LeaseAsk) -> Result<Vec<ObjectiveDocument>, Refusal> {
    let percentile = |text: &Option<String>| {
        let text = text.as_deref()?;
        let is_share = target(text).ok()?.percentile.is_some();
        is_share.then(|| text.to_owned())
    };
    objectives(&SloAsk {
        ttft: percentile(&ask.ttft),
        tpot: percentile(&ask.tpot),
        ..SloAsk::default()
    })
}

/// `p95:1s`: millionths of events, and the time.
fn latency(field: &str, text: &str) -> Result<(u32, Nanoseconds), Refusal> {
    let read = target(text).map_err(|error| invalid(field, error.to_string()))?;
    let percentile = read.percentile.ok_or_else(|| {
        let problem = format!(
            "{text:?}: an SLO is about a share of requests, such as `p95:1s`: 95 % of them within 1 s"
        );
        invalid(field, problem)
    })?;
    let good = percentile.fraction() * 1e6;
    Ok((good.round() as u32, Nanoseconds::from_seconds(read.at_most)))
}

fn ppm(field: &str, text: &str) -> Result<u32, Refusal> {
    let good = share(text).map_err(|error| invalid(field, error.to_string()))?;
    if good >= 1.0 {
        let problem = format!("{text:?}: nothing may fail then, which no service keeps");
        return Err(invalid(field, problem));
    }
    Ok((good * 1e6).round() as u32)
}

/// `accuracy>=0.9:99%`.
fn quality(text: &str) -> Result<ObjectiveDocument, Refusal> {
    let wrong = || {
        let problem =
            format!("{text:?}: expected a metric, a bound and a share, such as accuracy>=0.9:99%");
        invalid("quality", problem)
    };
    let (rule, good) = text.rsplit_once(':').ok_or_else(wrong)?;
    let (metric, bound, least) = match (rule.split_once(">="), rule.split_once("<=")) {
        (Some((metric, bound)), _) => (metric, bound, true),
        (None, Some((metric, bound))) => (metric, bound, false),
        (None, None) => return Err(wrong()),
    };
    let bound: f64 = bound.trim().parse().map_err(|_| wrong())?;
    if metric.trim().is_empty() || !bound.is_finite() {
        return Err(wrong());
    }
    Ok(ObjectiveDocument {
        indicator: IndicatorDocument::Quality {
            metric: metric.trim().to_owned(),
            at_least: least.then_some(bound),
            at_most: (!least).then_some(bound),
        },
        good_ppm: ppm("quality", good)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read() {
        let ask = SloAsk {
            ttft: Some("p95:1s".into()),
            goodput: Some("99%".into()),
            quality: vec!["accuracy>=0.9:99%".into()],
            ..SloAsk::default()
        };
        let read = objectives(&ask).expect("is read");
        let words: Vec<(&str, u32)> = read
            .iter()
            .map(|one| (one.indicator.word(), one.good_ppm))
            .collect();
        assert_eq!(
            words,
            [
                ("ttft", 950_000),
                ("goodput", 990_000),
                ("quality", 990_000)
            ]
        );
        for (field, ask) in [
            (
                "ttft",
                SloAsk {
                    ttft: Some("mean:1s".into()),
                    ..SloAsk::default()
                },
            ),
            (
                "survival",
                SloAsk {
                    survival: Some("100%".into()),
                    ..SloAsk::default()
                },
            ),
            (
                "quality",
                SloAsk {
                    quality: vec!["accuracy".into()],
                    ..SloAsk::default()
                },
            ),
        ] {
            let Err(Refusal::Invalid { field: named, .. }) = objectives(&ask) else {
                panic!("{field} is taken");
            };
            assert_eq!(named, field);
        }
    }
}
