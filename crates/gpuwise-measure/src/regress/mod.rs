//! Did a figure change between runs, at which run, and by how much: change-point statistics.
//!
//! A series of one figure over runs of the same kind is cut into stretches of equal level. Single
//! runs that stand out are set aside first; how much runs scatter is taken from neighbouring runs,
//! so that a jump does not widen it. The cuts minimise the squared distance from each stretch's mean
//! in units of that scatter, plus a penalty for each cut: Killick, Fearnhead and Eckley, "Optimal
//! detection of changepoints with a linear computational cost", 2012.

pub(crate) mod noise;
mod segments;

use gpuwise_domain::profile::figure::Better;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// A stretch has at least so many runs: what one or two runs do is no change yet.
    pub runs_at_least: usize,
    /// A level must move by at least this share of itself.
    pub share_at_least: f64,
    /// Runs that differ by less than this share of their median are held equal: timers and clocks
    /// are no better, and without it a series without any scatter would cut anywhere.
    pub resolution: f64,
    /// How dear a cut is, in squared scatters for each natural logarithm of the number of runs.
    pub penalty: f64,
}

impl Settings {
    /// Three runs, 2 % and a penalty of 4 ln n: fewer than 1 in 100 series of normal noise is cut
    /// at all, as a test measures.
    pub const USUAL: Self = Self {
        runs_at_least: 3,
        share_at_least: 0.02,
        resolution: 0.001,
        penalty: 4.0,
    };
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Index of the first run on the new level.
    pub at: usize,
    pub before: f64,
    pub after: f64,
    /// How far the levels are apart, in standard errors of their difference.
    pub strength: f64,
}

impl Change {
    /// The new level less the old, as a share of the old; none where the old is 0.
    pub fn share(&self) -> Option<f64> {
        (self.before != 0.0).then(|| (self.after - self.before) / self.before.abs())
    }

    /// Whether it moved the wrong way.
    pub fn is_worse(&self, better: Better) -> bool {
        match better {
            Better::Lower => self.after > self.before,
            Better::Higher => self.after < self.before,
        }
    }
}

/// Where the level of a series moved, in order. Values that are not finite are errors of the caller
/// and give no change; fewer than twice [`Settings::runs_at_least`] runs give none either.
pub fn changes(values: &[f64], settings: Settings) -> Vec<Change> {
    if values.len() < 2 * settings.runs_at_least || values.iter().any(|value| !value.is_finite()) {
        return Vec::new();
    }
    let scatter = noise::scatter(values, settings.resolution);
    let calm = noise::without_outliers(values, scatter);
    let penalty = settings.penalty * libm::log(values.len() as f64);
    let scaled: Vec<f64> = calm.iter().map(|value| value / scatter).collect();
    let mut starts = segments::starts(&scaled, penalty, settings.runs_at_least);
    sharpen(&calm, &mut starts, settings.runs_at_least);
    merged(&calm, starts, scatter, settings)
}

/// Runs at the head of a stretch that are nearer to the level before belong there; a stretch that is
/// too short without them is none.
fn sharpen(values: &[f64], starts: &mut Vec<usize>, shortest: usize) {
    let mut index = 1;
    while index < starts.len() {
        let from = starts[index - 1];
        let to = starts.get(index + 1).copied().unwrap_or(values.len());
        let (before, after) = (
            mean(&values[from..starts[index]]),
            mean(&values[starts[index]..to]),
        );
        let moved = values[starts[index]..to]
            .iter()
            .take_while(|value| (**value - before).abs() < (**value - after).abs())
            .count();
        starts[index] += moved;
        if to - starts[index] < shortest {
            starts.remove(index);
        } else {
            index += 1;
        }
    }
}

/// Changes between the stretches; those that are too small are no cuts, the smallest first.
fn merged(values: &[f64], mut starts: Vec<usize>, scatter: f64, settings: Settings) -> Vec<Change> {
    loop {
        let found: Vec<Change> = (1..starts.len())
            .map(|index| {
                let from = starts[index - 1];
                let at = starts[index];
                let to = starts.get(index + 1).copied().unwrap_or(values.len());
                let (before, after) = (mean(&values[from..at]), mean(&values[at..to]));
                let error = scatter * libm::sqrt(1.0 / (at - from) as f64 + 1.0 / (to - at) as f64);
                Change {
                    at,
                    before,
                    after,
                    strength: (after - before).abs() / error,
                }
            })
            .collect();
        let too_small = found
            .iter()
            .filter(|change| {
                change
                    .share()
                    .is_some_and(|share| share.abs() < settings.share_at_least)
            })
            .min_by(|one, other| one.strength.total_cmp(&other.strength))
            .map(|change| change.at);
        match too_small {
            Some(at) => starts.retain(|start| *start != at),
            None => return found,
        }
    }
}

/// The mean; the slice is never empty.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
