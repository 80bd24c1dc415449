//! A series, told reading by reading, with what is expected of it at its end.

use super::{
    ByClient, Expert, Forecast, LEVELS, Settings,
    backtest::{Judged, judged},
    series::Regular,
};
use gpuwise_domain::forecast::{Backtest, HorizonForecast, LevelValue, SeriesForecast};

/// Readings that must have been forecast before it is said how well.
const JUDGED: u64 = 20;
/// Weights below which an expert is not named.
const NAMED: f64 = 0.05;

/// Readings of clients, one a period of the series.
pub type Clients = [(String, Vec<f64>)];

/// What is expected of a series so many periods ahead; `clients`: what of it came of whom.
pub fn report(name: &str, series: &Regular, clients: &Clients, horizons: &[u32]) -> SeriesForecast {
    let settings = Settings {
        period: series.period,
        horizons: horizons.to_vec(),
    };
    let mut forecaster = ByClient::new(settings);
    let mut made: Vec<Vec<Forecast>> = Vec::with_capacity(series.readings.len());
    for (at, reading) in series.readings.iter().enumerate() {
        let of = clients.iter();
        forecaster.observe(
            *reading,
            of.filter_map(|(name, values)| Some((name.as_str(), *values.get(at)?))),
        );
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
        outage: forecaster.whole().is_outage(),
        notes: notes(series, clients, &forecaster),
    }
}

/// What was set right, and who was forecast apart.
fn notes(series: &Regular, clients: &Clients, forecaster: &ByClient) -> Vec<String> {
    let mut notes = series.notes();
    let apart: Vec<&str> = forecaster.apart().collect();
    if !apart.is_empty() {
        let all: f64 = series.readings.iter().flatten().sum();
        let theirs = clients.iter();
        let theirs = theirs.filter(|(name, _)| apart.contains(&name.as_str()));
        let theirs: f64 = theirs.flat_map(|(_, values)| values).sum();
        notes.push(format!(
            "{} of {} clients are forecast one by one: {:.0} % of what came",
            apart.len(),
            clients.len(),
            100.0 * theirs / all.max(f64::MIN_POSITIVE),
        ));
    }
    notes
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
