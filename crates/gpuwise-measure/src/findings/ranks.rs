//! A rank for which the others wait.

use super::{Signals, Thresholds, rules::shown, say};
use gpuwise_domain::profile::{
    figure::Scope,
    figures::{ProfileFigures, Stragglers},
    finding::{Finding, Gain, Place},
};
use std::cmp::Reverse;

/// How many places are shown.
const PLACES: usize = 24;

/// The rank that came last, and the finding that says so.
pub(super) struct Straggler {
    /// Its part of all lateness.
    part: f64,
    pub(super) finding: Finding,
}

impl Straggler {
    /// What a rank waited for the straggler.
    pub(super) fn waited(&self, figures: &ProfileFigures, place: usize, of: &Signals) -> f64 {
        let number = of.rank.unwrap_or(u32::try_from(place).unwrap_or(u32::MAX));
        let ranks = figures.stragglers.iter().flat_map(|found| &found.ranks);
        let own = ranks
            .filter(|rank| rank.rank == number)
            .map(|rank| rank.waited_ns as f64)
            .sum::<f64>();
        own * self.part
    }
}

/// The rank whose lateness costs the others most, where it is one that is late usually, or that
/// causes most of what is waited for.
pub(super) fn straggler(
    signals: &[Signals],
    figures: &ProfileFigures,
    limits: &Thresholds,
) -> Option<Straggler> {
    let found = figures.stragglers.as_ref()?;
    let worst = found.ranks.iter().max_by_key(|rank| rank.caused_ns)?;
    let all: i64 = found.ranks.iter().map(|rank| rank.caused_ns).sum();
    let span = signals.iter().map(|one| one.span_ns).max()?;
    if all <= 0 || span <= 0 || worst.count == 0 {
        return None;
    }
    let last = worst.last_count as f64 / worst.count as f64;
    let part = worst.caused_ns as f64 / all as f64;
    let share = (worst.caused_ns as f64 / span as f64).min(1.0);
    let usual = last >= limits.straggler_last_share || part >= limits.straggler_last_share;
    if !usual || share < limits.straggler_share {
        return None;
    }
    let statement = format!(
        "Rank {} came last to {} of {} collectives, and the others waited up to {} for it ({} of the time)",
        worst.rank,
        worst.last_count,
        worst.count,
        say::time(worst.caused_ns as f64),
        say::percent(share),
    );
    Some(Straggler {
        part,
        finding: Finding {
            class: "straggler".to_owned(),
            scope: Scope {
                rank: Some(worst.rank),
                device: None,
                part: None,
            },
            statement,
            evidence: vec![
                shown(
                    "straggler",
                    share,
                    "share of the span",
                    Some(limits.straggler_share),
                ),
                shown(
                    "last_share",
                    last,
                    "share of collectives",
                    Some(limits.straggler_last_share),
                ),
                shown("caused_ns", worst.caused_ns as f64, "ns", None),
            ],
            places: places(found, worst.rank),
            gain: Gain::Time {
                low: share * limits.certain_host,
                high: share,
            },
            advice: vec![format!(
                "Look at rank {} alone: its share of the data, its GPU's clock and link, its loader, its host; compare its trace with another rank's.",
                worst.rank
            )],
        },
    })
}

fn places(found: &Stragglers, rank: u32) -> Vec<Place> {
    let mut late: Vec<_> = found
        .collectives
        .iter()
        .filter(|collective| collective.last_rank == rank)
        .collect();
    late.sort_by_key(|collective| Reverse(collective.lateness_ns));
    late.iter()
        .take(PLACES)
        .map(|collective| Place {
            rank: Some(rank),
            device: None,
            start_ns: collective.start_ns,
            end_ns: collective.end_ns,
            what: format!(
                "{}: the others waited up to {}",
                collective.name,
                say::time(collective.lateness_ns as f64)
            ),
        })
        .collect()
}
