//! A series, told reading by reading, with what is expected of it at its end.

use super::{
    Expert, Forecast, Forecaster, LEVELS, Settings,
    backtest::{Judged, judged},
    series::Regular,
};
use gpuwise_domain::forecast::{Backtest, HorizonForecast, LevelValue, SeriesForecast};

/// Readings that must have been forecast before it is said how well.
const JUDGED: u64 = 20;
/// Weights below which an expert is not named.
const NAMED: f64 = 0.05;

/// What is expected of a series so many periods ahead.
pub fn report(name: &str, series: &Regular, horizons: &[u32]) -> SeriesForecast {
    let settings = Settings {
        period: series.period,
        horizons: horizons.to_vec(),
    };
    let mut forecaster = Forecaster::new(settings);
    let mut made: Vec<Vec<Forecast>> = Vec::with_capacity(series.readings.len());
    for reading in &series.readings {
        forecaster.observe(*reading);
        made.push(forecaster.forecasts());
    }
    let all = horizons.iter().enumerate();
    let horizons = all.filter_map(|(at, horizon)| {
        let of: Vec<Option<&Forecast>> = made.iter().map(|all| all.get(at)).collect();
        let now = of.last().copied().flatten()?;
        let judged = judged(series, &of, *horizon);
        Some(one(series, now, &of, judged))
    });
    SeriesForecast {
        name: name.to_owned(),
        period: series.period,
        start_seconds: series.start_seconds,
        horizons: horizons.collect(),
        readings: series.readings.clone(),
        outage: forecaster.is_outage(),
        notes: series.notes(),
    }
}

fn one(
    series: &Regular,
    now: &Forecast,
    made: &[Option<&Forecast>],
    judged: Judged,
) -> HorizonForecast {
    let ahead = now.horizon as usize;
    let values = |values: &[f64; LEVELS.len()]| -> Vec<LevelValue> {
        let pairs = LEVELS.into_iter().zip(values);
        pairs
            .map(|(level, value)| LevelValue {
                level,
                value: *value,
            })
            .collect()
    };
    let mut experts: Vec<(&'static str, f64)> = Expert::ALL
        .into_iter()
        .zip(now.weights)
        .filter(|(_, weight)| *weight >= NAMED)
        .map(|(expert, weight)| (expert.name(), weight))
        .collect();
    experts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let said = (0..series.readings.len()).map(|then| {
        let before = then.checked_sub(ahead)?;
        let made = made.get(before).copied().flatten()?;
        Some((made.point, made.at(0.10), made.at(0.90)))
    });
    HorizonForecast {
        ahead: gpuwise_units::Nanoseconds(series.period.0.saturating_mul(u64::from(now.horizon))),
        periods: now.horizon,
        point: now.point,
        quantiles: values(&now.quantiles),
        highest: values(&now.highest),
        experts,
        gated: now.gated,
        judged: (judged.readings >= JUDGED).then(|| Backtest {
            readings: judged.readings,
            wape: judged.wape,
            wape_last: judged.wape_last,
            wape_day: judged.wape_day,
            covered: covered(&judged.covered),
            covered_highest: covered(&judged.covered_highest),
        }),
        said: said.collect(),
    }
}

fn covered(shares: &[f64; LEVELS.len()]) -> f64 {
    let pairs = LEVELS.iter().zip(shares);
    let found = pairs.into_iter().find(|(level, _)| **level >= 0.9 - 1e-9);
    found.map_or(0.0, |(_, share)| *share)
}
