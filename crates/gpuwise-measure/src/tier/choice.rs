//! Choosing among candidates whose costs are known only so well.

/// What a candidate would cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// The predicted cost, in any unit that candidates share.
    pub value: f64,
    /// Spread of ln(actual/predicted).
    pub spread: f64,
}

/// The candidate that was chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// Its index among the candidates.
    pub chosen: usize,
    /// The next best, where there is one.
    pub runner_up: Option<usize>,
    /// What choosing it is expected to cost too much, as a share of the best.
    pub expected_regret: f64,
}

/// The candidate of the least predicted cost; those that are not known are left out. `None` where none
/// is known.
///
/// The expected regret is the largest over the other candidates of E[(cost − other)⁺]/other, both
/// log-normal around their predictions and independent: s φ(d/s) + d Φ(d/s) in logarithms, with d the
/// distance and s the spread of it.
pub fn choose(candidates: &[Option<Cost>]) -> Option<Choice> {
    let mut known: Vec<(usize, Cost)> = candidates
        .iter()
        .enumerate()
        .filter_map(|(at, cost)| Some((at, (*cost)?)))
        .filter(|(_, cost)| cost.value.is_finite() && cost.value > 0.0)
        .collect();
    known.sort_by(|a, b| a.1.value.total_cmp(&b.1.value).then(a.0.cmp(&b.0)));
    let (first, rest) = known.split_first()?;
    let expected_regret = rest
        .iter()
        .map(|(_, other)| {
            let apart = libm::log(first.1.value / other.value);
            let spread = libm::hypot(first.1.spread, other.spread);
            expected_excess(apart, spread)
        })
        .fold(0.0, f64::max);
    Some(Choice {
        chosen: first.0,
        runner_up: rest.first().map(|(at, _)| *at),
        expected_regret,
    })
}

/// Costs so near the least are told apart by no prediction: what keeps the SLO surest is taken of them.
pub const NEAR: f64 = 0.1;

/// As [`choose`], of candidates that keep their SLO with these chances: those that rather miss it are
/// left out, and of those that cost up to [`NEAR`] more than the least, the surest is chosen. Where all
/// rather miss it, the surest of all.
pub fn choose_under_slo(candidates: &[Option<Cost>], keeps: &[f64]) -> Option<Choice> {
    let chance = |at: usize| keeps.get(at).copied().unwrap_or(0.0);
    let likely: Vec<Option<Cost>> = candidates
        .iter()
        .enumerate()
        .map(|(at, cost)| cost.filter(|_| chance(at) >= 0.5))
        .collect();
    let (among, most) = match choose(&likely).and_then(|choice| likely[choice.chosen]) {
        Some(least) => (likely.as_slice(), least.value * (1.0 + NEAR)),
        None => (candidates, f64::INFINITY),
    };
    let (chosen, _) = among
        .iter()
        .enumerate()
        .filter_map(|(at, cost)| Some((at, (*cost)?.value)))
        .filter(|(_, cost)| cost.is_finite() && *cost > 0.0 && *cost <= most)
        .max_by(|a, b| {
            let surer = chance(a.0).total_cmp(&chance(b.0));
            surer.then(b.1.total_cmp(&a.1)).then(b.0.cmp(&a.0))
        })?;
    let choice = choose(among)?;
    Some(Choice {
        chosen,
        runner_up: if choice.chosen == chosen {
            choice.runner_up
        } else {
            Some(choice.chosen)
        },
        ..choice
    })
}

/// The chance of a time within a limit, of a log-normal with this middle and 80 % range: of each side
/// its own spread.
pub fn keeps((value, low, high): (f64, f64, f64), limit: f64) -> f64 {
    let apart = libm::log(limit / value);
    let spread = if apart >= 0.0 {
        libm::log(high / value)
    } else {
        libm::log(value / low)
    } / EIGHTY;
    if spread <= 0.0 || !spread.is_finite() {
        return f64::from(u8::from(value <= limit));
    }
    0.5 * libm::erfc(-apart / spread * core::f64::consts::FRAC_1_SQRT_2)
}

/// Standard deviations between the middle and the end of an 80 % range of a normal.
const EIGHTY: f64 = 1.281_551_565_5;

/// E[max(0, x)] of a normal x of this mean and spread.
fn expected_excess(mean: f64, spread: f64) -> f64 {
    if spread <= 0.0 || !spread.is_finite() {
        return mean.max(0.0);
    }
    let z = mean / spread;
    let density = libm::exp(-0.5 * z * z) / (2.0 * core::f64::consts::PI).sqrt();
    let below = 0.5 * libm::erfc(-z * core::f64::consts::FRAC_1_SQRT_2);
    spread * density + mean * below
}
