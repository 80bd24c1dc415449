//! How good forecasts were: each is made from what came before it alone.

use super::{ByClient, Clients, Forecast, LEVELS, Settings, series::Regular};

/// How a horizon was forecast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// Periods ahead.
    pub horizon: u32,
    /// Readings that forecasts were held against.
    pub readings: u64,
    /// Absolute errors over readings: ours, that of the last value, and that of the same time of the day before.
    pub wape: f64,
    pub wape_last: f64,
    /// `None`: there was no day before.
    pub wape_day: Option<f64>,
    /// Shares of readings at or below each of [`LEVELS`].
    pub covered: [f64; LEVELS.len()],
    /// The same of the highest value until then.
    pub covered_highest: [f64; LEVELS.len()],
}

#[derive(Debug, Clone, Default)]
struct Sums {
    readings: u64,
    all: f64,
    errors: [f64; 2],
    day: (f64, f64),
    below: [u64; LEVELS.len()],
    below_highest: [u64; LEVELS.len()],
    highest: u64,
}

/// Forecasts along a series, judged from the reading `from` on; `clients`: what of it came of whom.
pub fn backtest(
    settings: &Settings,
    series: &Regular,
    clients: &Clients,
    from: usize,
) -> Vec<Judged> {
    let mut forecaster = ByClient::new(settings.clone());
    let mut made = vec![Vec::with_capacity(series.readings.len()); settings.horizons.len()];
    for (at, reading) in series.readings.iter().enumerate() {
        let of = clients.iter();
        forecaster.observe(
            *reading,
            of.filter_map(|(name, values)| Some((name.as_str(), *values.get(at)?))),
        );
        let now = forecaster.forecasts();
        for (at, made) in made.iter_mut().enumerate() {
            made.push(now.get(at).copied());
        }
    }
    let each = made.iter().zip(&settings.horizons);
    each.map(|(made, horizon)| {
        let made: Vec<Option<&Forecast>> = made.iter().map(Option::as_ref).collect();
        judged_from(series, &made, *horizon, from)
    })
    .collect()
}

/// Forecasts that were made after each reading, held against what came.
pub(super) fn judged(series: &Regular, made: &[Option<&Forecast>], horizon: u32) -> Judged {
    judged_from(series, made, horizon, 0)
}

fn judged_from(series: &Regular, made: &[Option<&Forecast>], horizon: u32, from: usize) -> Judged {
    let readings = &series.readings;
    let mut sums = Sums::default();
    let whole = 86_400_000_000_000 / series.period.0.max(1);
    let day = usize::try_from(whole).unwrap_or(usize::MAX);
    let mut last = 0.0;
    for (now, forecast) in made.iter().enumerate() {
        last = readings.get(now).copied().flatten().unwrap_or(last);
        let then = now + horizon as usize;
        let came = readings.get(then).copied().flatten();
        let Some((forecast, came)) = forecast.zip(came).filter(|_| then >= from) else {
            continue;
        };
        sums.readings += 1;
        sums.all += came;
        sums.errors[0] += (forecast.point - came).abs();
        sums.errors[1] += (last - came).abs();
        let before = then
            .checked_sub(day)
            .and_then(|at| readings.get(at).copied().flatten());
        if let Some(before) = before {
            sums.day.0 += (before - came).abs();
            sums.day.1 += came;
        }
        for (below, said) in sums.below.iter_mut().zip(&forecast.quantiles) {
            *below += u64::from(came <= *said);
        }
        let until = readings.get(now + 1..=then).unwrap_or_default();
        let all: Option<Vec<f64>> = until.iter().copied().collect();
        if let Some(all) = all {
            let highest = all.into_iter().fold(0.0, f64::max);
            sums.highest += 1;
            for (below, said) in sums.below_highest.iter_mut().zip(&forecast.highest) {
                *below += u64::from(highest <= *said);
            }
        }
    }
    sums.judged(horizon)
}

impl Sums {
    fn judged(self, horizon: u32) -> Judged {
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        let all = self.all.max(f64::MIN_POSITIVE);
        Judged {
            horizon,
            readings: self.readings,
            wape: self.errors[0] / all,
            wape_last: self.errors[1] / all,
            wape_day: (self.day.1 > 0.0).then(|| self.day.0 / self.day.1),
            covered: self.below.map(|below| share(below, self.readings)),
            covered_highest: self.below_highest.map(|below| share(below, self.highest)),
        }
    }
}
