//! How many assignments and experts fall on the rank that is timed.

use super::Experts;

/// How tokens choose experts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ExpertLoad {
    /// In turn: as even as can be.
    Balanced,
    /// Each expert alike, by chance.
    Random,
    /// Popularity by a truncated power law of this exponent; the rank is the most loaded.
    PowerLaw(f64),
}

impl ExpertLoad {
    /// That of a label: `balanced`, `power_law_1.2`.
    pub fn named(label: &str) -> Option<Self> {
        if label == "balanced" {
            return Some(Self::Balanced);
        }
        let exponent: f64 = label.strip_prefix("power_law_")?.parse().ok()?;
        (exponent.is_finite() && exponent > 0.0).then_some(Self::PowerLaw(exponent))
    }

    pub(super) fn skew(self) -> f64 {
        match self {
            Self::Balanced | Self::Random => 0.0,
            Self::PowerLaw(exponent) => exponent,
        }
    }
}

/// What falls on a rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Routed {
    /// Assignments of tokens to its experts.
    pub assignments: f64,
    /// Experts with at least one.
    pub active: f64,
    /// Assignments were all ranks alike.
    pub even: f64,
}

/// Points at which a law of popularity is asked.
const QUANTILES: usize = 64;

impl Routed {
    /// What falls on the rank that is timed.
    pub fn of(layer: &Experts, load: ExpertLoad, tokens: f64) -> Self {
        let ranks = layer.expert_parallel;
        let local = (layer.experts / ranks).max(1.0);
        let even = tokens * layer.topk / ranks;
        // The rank that is timed has at least one.
        let at_least = even.max(1.0);
        match load {
            ExpertLoad::Balanced => Self {
                assignments: at_least,
                active: local.min(at_least),
                even,
            },
            ExpertLoad::Random => {
                let missed = libm::pow(1.0 - (layer.topk / layer.experts).min(1.0), tokens);
                Self {
                    assignments: at_least,
                    active: (local * (1.0 - missed)).max(1.0).min(at_least),
                    even,
                }
            }
            ExpertLoad::PowerLaw(exponent) => skewed(layer, exponent, tokens, local, even),
        }
    }
}

/// Shares drawn from a power law between 1 and 0.8 × tokens (0.01 and 2 where assignments are fewer
/// than experts), as the collector draws them; the most loaded of the ranks by the spread of sums.
fn skewed(layer: &Experts, exponent: f64, tokens: f64, local: f64, even: f64) -> Routed {
    let wanted = tokens * layer.topk;
    let (low, high) = if wanted > layer.experts {
        (1.0, (0.8 * tokens).max(1.001))
    } else {
        (0.01, 2.0)
    };
    let mut drawn = power_law(exponent, low, high);
    // No expert gets a token twice; what is over goes to the others.
    for _ in 0..2 {
        let scale = wanted / layer.experts / mean(&drawn);
        for x in &mut drawn {
            *x = (*x * scale).min(tokens);
        }
    }
    let average = mean(&drawn);
    let variance = mean(&drawn.map(|x| (x - average) * (x - average)));
    let deviation = libm::sqrt(variance * local);
    let ranks = layer.expert_parallel;
    let above = 0.8 * libm::sqrt(2.0 * libm::log(ranks.max(1.0)));
    let top = upper(&drawn, (local / layer.experts).min(1.0)) * local;
    let assignments = (even + above * deviation).min(top.max(even)).max(1.0);
    let used = mean(&drawn.map(|x| x.clamp(0.0, 1.0)));
    Routed {
        assignments,
        active: (local * used).max(1.0).min(local).min(assignments),
        even,
    }
}

fn power_law(exponent: f64, low: f64, high: f64) -> [f64; QUANTILES] {
    let power = 1.0 - exponent;
    let mut drawn = [0.0; QUANTILES];
    for (i, x) in drawn.iter_mut().enumerate() {
        let share = (i as f64 + 0.5) / QUANTILES as f64;
        *x = if libm::fabs(power) < 1e-6 {
            low * libm::pow(high / low, share)
        } else {
            let (a, b) = (libm::pow(low, power), libm::pow(high, power));
            libm::pow(a + (b - a) * share, 1.0 / power)
        };
    }
    drawn
}

fn mean(values: &[f64; QUANTILES]) -> f64 {
    values.iter().sum::<f64>() / QUANTILES as f64
}

/// Mean of the largest share of rising values.
fn upper(values: &[f64; QUANTILES], share: f64) -> f64 {
    let count = libm::ceil(share * QUANTILES as f64).max(1.0) as usize;
    let taken = &values[QUANTILES - count.min(QUANTILES)..];
    taken.iter().sum::<f64>() / taken.len() as f64
}
