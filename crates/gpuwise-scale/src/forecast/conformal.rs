//! Ranges from past errors, at levels that are corrected until as many readings fall inside as were promised.

use super::LEVELS;
use serde::{Deserialize, Serialize};

/// Errors that are looked at.
const WINDOW: usize = 432;
/// By how much a miss moves a level, in shares of what is left beside it.
const STEP: f64 = 0.02;
/// Errors of a series of which nothing is known, in multiples of its scale: those of a normal distribution.
const UNKNOWN: [f64; LEVELS.len()] = [-2.06, -1.60, 0.0, 0.85, 1.60, 2.06, 2.92];
/// Errors before which what is not known counts, too.
const FEW: usize = 40;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Conformal {
    /// Errors over their scale, in the order they came.
    came: Vec<f64>,
    next: usize,
    sorted: Vec<f64>,
    /// The level that is asked of them for each of [`LEVELS`].
    asked: [f64; LEVELS.len()],
}

impl Default for Conformal {
    fn default() -> Self {
        Self {
            came: Vec::new(),
            next: 0,
            sorted: Vec::new(),
            asked: LEVELS,
        }
    }
}

impl Conformal {
    /// An error over its scale; `said` are the quantiles that were said for it.
    pub(super) fn learn(&mut self, score: f64, said: &[f64; LEVELS.len()]) {
        let levels = LEVELS.iter().zip(said);
        for (asked, (level, said)) in self.asked.iter_mut().zip(levels) {
            let inside = if score <= *said { 1.0 } else { 0.0 };
            let step = STEP * if *level > 0.5 { 1.0 - level } else { *level } * 4.0;
            *asked =
                (*asked + step * (level - inside)).clamp(level * 0.5, 1.0 - (1.0 - level) * 0.1);
        }
        if self.came.len() < WINDOW {
            self.came.push(score);
        } else {
            let oldest = std::mem::replace(&mut self.came[self.next], score);
            self.next = (self.next + 1) % WINDOW;
            let at = self.sorted.partition_point(|one| *one < oldest);
            self.sorted.remove(at);
        }
        let at = self.sorted.partition_point(|one| *one < score);
        self.sorted.insert(at, score);
    }

    /// Half of what is known is forgotten: things have changed.
    pub(super) fn forget(&mut self) {
        let kept = self.came.len().min(FEW);
        let mut last: Vec<f64> = (0..kept).map(|ago| self.back(ago)).collect();
        last.reverse();
        self.sorted.clone_from(&last);
        self.sorted.sort_by(f64::total_cmp);
        self.came = last;
        self.next = 0;
    }

    fn back(&self, ago: usize) -> f64 {
        let len = self.came.len();
        let newest = if len < WINDOW {
            len
        } else {
            self.next + WINDOW
        };
        self.came[(newest - 1 - ago) % len]
    }

    /// The errors' quantiles, over their scale.
    pub(super) fn quantiles(&self) -> [f64; LEVELS.len()] {
        let known = self.sorted.len();
        let trust = (known as f64 / FEW as f64).min(1.0);
        let mut all = [0.0; LEVELS.len()];
        let mut before = f64::NEG_INFINITY;
        for ((to, asked), unknown) in all.iter_mut().zip(&self.asked).zip(&UNKNOWN) {
            let known = quantile(&self.sorted, *asked).unwrap_or(0.0);
            *to = (trust * known + (1.0 - trust) * unknown).max(before);
            before = *to;
        }
        all
    }
}

/// Of sorted values, between neighbours.
fn quantile(sorted: &[f64], level: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    // As many values and one more are between the ends: the next value is as likely anywhere among them.
    let at = (level * (sorted.len() + 1) as f64 - 1.0).clamp(0.0, last as f64);
    let (low, part) = (at as usize, at - at.floor());
    let high = (low + 1).min(last);
    Some(sorted[low] + (sorted[high] - sorted[low]) * part)
}
