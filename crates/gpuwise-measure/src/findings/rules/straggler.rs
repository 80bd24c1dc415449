//! A rank for which the others wait.

use super::communication;
use crate::findings::{
    Signals,
    lost::{PLACES, elsewhere, percent, time},
    rule::{CERTAIN_HOST, Profile, Row, Rule, evidence},
};
use gpuwise_domain::profile::{
    figure::Scope,
    figures::{MatchedCollective, RankLateness, Stragglers},
    finding::{Finding, FindingDefinition, Gain, Place},
};
use std::cmp::Reverse;

const SHARE: Row = Row {
    name: "straggler_share",
    value: 0.05,
    unit: "share of the span",
    meaning: "what the others wait for it to be called a straggler",
    source: "-",
};

const LAST_SHARE: Row = Row {
    name: "straggler_last_share",
    value: 0.5,
    unit: "share of collectives",
    meaning: "how often a rank comes last to be called a straggler",
    source: "facebookresearch/HolisticTraceAnalysis straggler analysis; Meta, Zoomer (2025)",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "straggler",
        title: "straggler",
        signal: "One rank came last to `straggler_last_share` of the collectives or more (its kernel is the shortest: the others' had waited), or caused most of the lateness, which is `straggler_share` of the span or more.",
        advice: "Look at that rank alone: its share of the data, its GPU's clock and link, its loader, its host.",
        gain: "high: the longest wait of each collective to which it came last; low: `certain_host` of it.",
        source: "facebookresearch/HolisticTraceAnalysis straggler analysis; Meta, Zoomer (2025)",
    },
    thresholds: &[LAST_SHARE, SHARE, CERTAIN_HOST],

    find,

    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    slowest(profile)
        .map(|one| said(&one, profile))
        .into_iter()
        .collect()
}

fn said(straggler: &Straggler<'_>, profile: &Profile<'_>) -> Finding {
    let Straggler { rank, share, .. } = straggler;
    let (number, caused) = (rank.rank, rank.caused_ns as f64);
    let places = places(straggler.found, number);
    let limit = |row| Some(profile.limits.of(row));
    Finding {
        class: RULE.definition.class.to_owned(),
        scope: Scope {
            rank: Some(number),
            device: None,
            part: None,
        },
        statement: format!(
            "Rank {number} came last to {} of {} collectives, and the others waited up to {} for it ({} of the time)",
            rank.last_count,
            rank.count,
            time(caused),
            percent(*share),
        ),
        evidence: vec![
            evidence("straggler", *share, "share of the span", limit(&SHARE)),
            evidence(
                "last_share",
                straggler.last,
                "share of collectives",
                limit(&LAST_SHARE),
            ),
            evidence("caused_ns", caused, "ns", None),
            elsewhere(caused, &places),
        ],
        places,
        gain: Gain::Time {
            low: (straggler.on_path(profile) * profile.limits.of(&CERTAIN_HOST)).min(*share),
            high: *share,
        },
        advice: vec![format!(
            "Look at rank {number} alone: its share of the data, its GPU's clock and link, its loader, its host; compare its trace with another rank's.",
        )],
    }
}

/// The rank whose lateness costs the others most.
pub(super) struct Straggler<'a> {
    found: &'a Stragglers,
    rank: &'a RankLateness,
    /// Its part of all lateness.
    part: f64,
    /// How often it came last, as a share of collectives.
    last: f64,
    /// What the others waited for it, as a share of the span.
    share: f64,
}

impl Straggler<'_> {
    /// What the other ranks waited for it where that made them longer, as a share of the span: of waits
    /// that hide behind a slow host nothing is gained.
    fn on_path(&self, profile: &Profile<'_>) -> f64 {
        let others = profile.signals.iter().enumerate();
        let others = others.filter(|(place, one)| number(*place, one) != self.rank.rank);
        let shares = others.map(|(place, one)| {
            let waited = self.waited(profile, place, one) / (one.span_ns as f64).max(1.0);
            let charged = one.charges.get(&communication::CAUSE);
            let counts = charged.and_then(|charged| {
                Some(charged.gained?.high_ns as f64 / (charged.ns as f64).max(1.0))
            });
            waited * counts.unwrap_or(1.0).min(1.0)
        });
        let shares: Vec<f64> = shares.collect();
        shares.iter().sum::<f64>() / (shares.len() as f64).max(1.0)
    }

    /// What a rank waited for the straggler.
    pub(super) fn waited(&self, profile: &Profile<'_>, place: usize, of: &Signals) -> f64 {
        let number = number(place, of);
        let ranks = profile
            .figures
            .stragglers
            .iter()
            .flat_map(|found| &found.ranks);
        let own = ranks
            .filter(|rank| rank.rank == number)
            .map(|rank| rank.waited_ns as f64)
            .sum::<f64>();
        own * self.part
    }
}

/// The number of a rank, or else its place.
fn number(place: usize, of: &Signals) -> u32 {
    of.rank.unwrap_or(u32::try_from(place).unwrap_or(u32::MAX))
}

/// The rank that is late usually, or that causes most of what is waited for.
pub(super) fn slowest<'a>(profile: &Profile<'a>) -> Option<Straggler<'a>> {
    let found = profile.figures.stragglers.as_ref()?;
    let rank = found.ranks.iter().max_by_key(|rank| rank.caused_ns)?;
    let alike = found
        .ranks
        .iter()
        .filter(|one| one.caused_ns == rank.caused_ns);
    if alike.count() > 1 {
        // Nobody is later than the others.
        return None;
    }
    let all: i64 = found.ranks.iter().map(|rank| rank.caused_ns).sum();
    let span = profile.signals.iter().map(|one| one.span_ns).max()?;
    if all <= 0 || span <= 0 || rank.count == 0 {
        return None;
    }
    let last = rank.last_count as f64 / rank.count as f64;
    let part = rank.caused_ns as f64 / all as f64;
    let share = (rank.caused_ns as f64 / span as f64).min(1.0);
    let usual = profile.limits.of(&LAST_SHARE);
    let is_one = last >= usual || part >= usual;
    (is_one && share >= profile.limits.of(&SHARE)).then_some(Straggler {
        found,
        rank,
        part,
        last,
        share,
    })
}

fn places(found: &Stragglers, rank: u32) -> Vec<Place> {
    let mut late: Vec<_> = found
        .collectives
        .iter()
        .filter(|collective| collective.last_rank == Some(rank))
        .collect();
    late.sort_by_key(|collective| Reverse(collective.lateness_ns));
    let place = |one: &&MatchedCollective| Place {
        rank: Some(rank),
        device: None,
        start_ns: one.start_ns,
        end_ns: one.end_ns,
        lost_ns: Some(one.lateness_ns),
        what: format!(
            "{}: the others waited up to {}",
            one.name,
            time(one.lateness_ns as f64)
        ),
    };
    late.iter().take(PLACES).map(place).collect()
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, classes};
    use gpuwise_domain::profile::timeline::Rank;
    #[test]
    fn straggler() {
        let rank = |number: u32, wait: i64| {
            let mut made = Made::new();
            made.0.rank = Some(Rank {
                number,
                world_size: Some(2),
                backend: None,
                groups: Vec::new(),
            });
            for round in 0..10 {
                let at = round * 1000 + 10;
                made.kernel("some_kernel", at, at + 900 - wait, 500);
                made.kernel("ncclDevKernel_AllReduce", at + 900 - wait, at + 950, 500);
            }
            made
        };
        let late = classes(&[rank(0, 500), rank(1, 0)]);
        assert_eq!(
            late.first().map(String::as_str),
            Some("straggler"),
            "{late:?}"
        );
        let even = classes(&[rank(0, 100), rank(1, 100)]);
        assert!(!even.iter().any(|class| class == "straggler"), "{even:?}");
    }
}
