//! How good forecasts were: each is made from what came before it alone.

use super::{Forecaster, LEVELS, Settings};

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
    /// Mean quantile loss at [`LEVELS`] over the mean reading.
    pub pinball: [f64; LEVELS.len()],
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
    pinball: [f64; LEVELS.len()],
}

/// Forecasts along a series, judged from the reading `from` on.
pub fn backtest(settings: &Settings, series: &[Option<f64>], from: usize) -> Vec<Judged> {
    let mut forecaster = Forecaster::new(settings.clone());
    let mut sums = vec![Sums::default(); settings.horizons.len()];
    let whole = 86_400_000_000_000 / settings.period.0.max(1);
    let day = usize::try_from(whole).unwrap_or(usize::MAX);
    for (now, reading) in series.iter().enumerate() {
        forecaster.observe(*reading);
        for (sums, forecast) in sums.iter_mut().zip(forecaster.forecasts()) {
            let then = now + forecast.horizon as usize;
            if then < from {
                continue;
            }
            let Some(came) = series.get(then).copied().flatten() else {
                continue;
            };
            sums.readings += 1;
            sums.all += came;
            sums.errors[0] += (forecast.point - came).abs();
            let last = series[..=now].iter().rev().find_map(|one| *one);
            sums.errors[1] += (last.unwrap_or(0.0) - came).abs();
            if let Some(before) = then.checked_sub(day).and_then(|at| series[at]) {
                sums.day.0 += (before - came).abs();
                sums.day.1 += came;
            }
            let levels = LEVELS.iter().zip(&forecast.quantiles);
            for (at, (level, said)) in levels.enumerate() {
                sums.below[at] += u64::from(came <= *said);
                let miss = came - said;
                sums.pinball[at] += if miss >= 0.0 { level * miss } else { (level - 1.0) * miss };
            }
            let until = series.get(now + 1..=then).unwrap_or_default();
            let highest: Option<Vec<f64>> = until.iter().copied().collect();
            if let Some(highest) = highest {
                let highest = highest.into_iter().fold(0.0, f64::max);
                sums.highest += 1;
                for (below, said) in sums.below_highest.iter_mut().zip(&forecast.highest) {
                    *below += u64::from(highest <= *said);
                }
            }
        }
    }
    let judged = sums.into_iter().zip(&settings.horizons);
    judged.map(|(sums, horizon)| sums.judged(*horizon)).collect()
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
            pinball: self.pinball.map(|loss| loss / all),
        }
    }
}
