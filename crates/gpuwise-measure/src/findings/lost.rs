//! Time that all ranks lost to one cause, and the finding that says so.

use super::{
    Signals,
    ledger::{Cause, Gained},
    rule::{Profile, Row, evidence},
};
use gpuwise_domain::profile::{
    figure::Scope,
    finding::{Evidence, Finding, Gain, Place},
};
use std::{cmp::Reverse, collections::BTreeMap};

/// How many places a finding shows.
pub(super) const PLACES: usize = 24;
/// How many names it keeps.
const NAMED: usize = 5;

/// What was lost to a cause, as much as its threshold or more.
pub(super) struct Lost<'a> {
    cause: Cause,
    /// Of the span.
    share: f64,
    threshold: f64,
    ns: f64,
    /// Of this, what places hold: all that was charged, what another finding answers for as well.
    charged: i64,
    idle_ns: i64,
    /// What playing the ranks again without it gains, at least and at most, as shares of the span.
    gained: (f64, f64),
    pub(super) count: u64,
    places: Vec<Place>,
    /// Operators, calls or kernels by their share, the most first.
    names: Vec<(&'a str, i64)>,
    noted: BTreeMap<&'static str, Vec<f64>>,
    signals: &'a [Signals],
}

impl<'a> Lost<'a> {
    /// `None` where less was lost than `threshold`.
    fn of(profile: &Profile<'a>, cause: Cause, threshold: &Row) -> Option<Self> {
        Self::but(profile, cause, threshold, |_, _| 0.0)
    }

    /// What `say` makes of it; nothing where less was lost.
    pub(super) fn said(
        profile: &Profile<'a>,
        cause: Cause,
        threshold: &Row,
        say: impl FnOnce(Self) -> Finding,
    ) -> Vec<Finding> {
        let lost = Self::of(profile, cause, threshold);
        lost.map(say).into_iter().collect()
    }

    /// The same without time that another finding answers for: `excused` of each rank, in ns.
    pub(super) fn but(
        profile: &Profile<'a>,
        cause: Cause,
        threshold: &Row,
        excused: impl Fn(usize, &Signals) -> f64,
    ) -> Option<Self> {
        let mut lost = Self {
            cause,
            share: 0.0,
            threshold: profile.limits.of(threshold),
            ns: 0.0,
            charged: 0,
            idle_ns: 0,
            gained: (0.0, 0.0),
            count: 0,
            places: Vec::new(),
            names: Vec::new(),
            noted: BTreeMap::new(),
            signals: profile.signals,
        };
        let mut names: BTreeMap<&str, i64> = BTreeMap::new();
        for (place, one) in profile.signals.iter().enumerate() {
            let Some(charged) = one.charges.get(&cause) else {
                continue;
            };
            let excused = excused(place, one);
            let beyond = |ns: i64| (ns as f64 - excused).max(0.0);
            let gained = charged.gained.unwrap_or(Gained {
                low_ns: charged.ns,
                high_ns: charged.ns,
            });
            lost.ns += beyond(charged.ns);
            // Of the gain, the same part is another finding's.
            let own = beyond(charged.ns) / (charged.ns as f64).max(1.0);
            lost.gained.0 += gained.low_ns as f64 * own;
            lost.gained.1 += gained.high_ns as f64 * own;
            lost.charged = lost.charged.saturating_add(charged.ns);
            lost.idle_ns = lost.idle_ns.saturating_add(charged.idle_ns);
            lost.count += charged.count;
            lost.places.extend(charged.places.iter().cloned());
            for (name, ns) in &charged.names {
                *names.entry(name).or_default() += ns;
            }
            for (figure, value) in &charged.noted {
                lost.noted.entry(figure).or_default().push(*value);
            }
        }
        let span = lost.span();
        lost.share = lost.ns / span;
        lost.gained = (lost.gained.0 / span, lost.gained.1 / span);
        lost.places
            .sort_by_key(|p| (Reverse(p.lost_ns), p.rank, p.start_ns));
        lost.places.truncate(PLACES);
        lost.names = names.into_iter().collect();
        lost.names.sort_by_key(|(_, ns)| Reverse(*ns));
        lost.names.truncate(NAMED);
        (lost.ns > 0.0 && lost.share >= lost.threshold).then_some(lost)
    }

    /// Of all ranks together, in ns.
    pub(super) fn span(&self) -> f64 {
        let span: i64 = self.signals.iter().map(|one| one.span_ns).sum();
        (span as f64).max(1.0)
    }

    /// The figures that ranks noted under a name.
    pub(super) fn noted(&self, figure: &str) -> &[f64] {
        self.noted.get(figure).map_or(&[], Vec::as_slice)
    }

    /// Its share of the time, and how much that is: `12.0 % of the time (3.1 ms)`.
    pub(super) fn of_the_time(&self) -> String {
        format!("{} of the time ({})", percent(self.share), time(self.ns))
    }

    /// What had the most of it.
    pub(super) fn first(&self) -> String {
        let first = self.names.first();
        first.map_or_else(|| "unnamed work".to_owned(), |(name, _)| short(name))
    }

    pub(super) fn first_contains(&self, part: &str) -> bool {
        self.names
            .first()
            .is_some_and(|(name, _)| name.contains(part))
    }

    /// The three that had the most of it.
    pub(super) fn listed(&self) -> String {
        let names = self.names.iter().take(3).map(|(name, _)| short(name));
        names.collect::<Vec<_>>().join(", ")
    }

    /// The finding. `certain` is the part of the gain that a fix is known to bring; `more` evidence
    /// stands behind the time lost.
    pub(super) fn finding(
        self,
        certain: f64,
        statement: String,
        advice: &[&str],
        more: Vec<Evidence>,
    ) -> Finding {
        let high = self.gained.1.min(1.0);
        let low = (self.gained.0 * certain).clamp(0.0, high);
        let steps = step_without(self.cause, self.signals);
        let mut finding = self.with_gain(Gain::Time { low, high }, statement, advice, more);
        if let Some((now, then)) = steps {
            let of = |figure, ns: i64| evidence(figure, ns as f64, "ns", None);
            finding.evidence.push(of("step_median_ns", now));
            finding.evidence.push(of("step_median_without_ns", then));
        }
        finding
    }

    /// The finding, where what a fix would gain is not the replay's to say.
    pub(super) fn with_gain(
        mut self,
        gain: Gain,
        statement: String,
        advice: &[&str],
        more: Vec<Evidence>,
    ) -> Finding {
        let mut shown = vec![
            evidence(
                self.cause.0,
                self.share,
                "share of the span",
                Some(self.threshold),
            ),
            evidence("lost_ns", self.ns, "ns", None),
            evidence("places", self.count as f64, "count", None),
        ];
        if self.idle_ns > 0 {
            shown.push(evidence("idle_ns", self.idle_ns as f64, "ns", None));
        }
        // What another finding answers for is taken out of all places alike.
        let own = self.ns / (self.charged as f64).max(1.0);
        for lost in self
            .places
            .iter_mut()
            .filter_map(|place| place.lost_ns.as_mut())
        {
            *lost = (*lost as f64 * own) as i64;
        }
        shown.push(elsewhere(self.ns, &self.places));
        shown.extend(more);
        Finding {
            class: self.cause.0.to_owned(),
            scope: scope(self.signals),
            statement,
            evidence: shown,
            places: self.places,
            gain,
            advice: advice.iter().map(|text| (*text).to_owned()).collect(),
        }
    }
}

/// What was lost in places that are not listed: with those it sums to all that was.
pub(super) fn elsewhere(ns: f64, places: &[Place]) -> Evidence {
    let here: i64 = places.iter().filter_map(|place| place.lost_ns).sum();
    evidence("elsewhere_ns", (ns - here as f64).max(0.0), "ns", None)
}

/// One rank: that rank and its device. Several: all of them.
fn scope(signals: &[Signals]) -> Scope {
    match signals {
        [only] => Scope {
            rank: only.rank,
            device: only.device,
            part: None,
        },
        _ => Scope::default(),
    }
}

/// The median step as it is and without what was charged to a cause, in nanoseconds; `None` where
/// there are no steps. Each step loses what the cause costs a step on average: waits of one step
/// often fall into the next, and the first lies before the window.
pub fn step_without(cause: Cause, signals: &[Signals]) -> Option<(i64, i64)> {
    let steps = signals.iter().flat_map(|one| &one.steps);
    let charged: i64 = steps
        .clone()
        .filter_map(|step| step.by_cause.get(&cause))
        .sum();
    let mut lengths: Vec<i64> = steps.map(|step| step.end_ns - step.start_ns).collect();
    let count = i64::try_from(lengths.len()).ok()?;
    lengths.sort_unstable();
    let upper = *lengths.get(lengths.len() / 2)?;
    let lower = *lengths.get((lengths.len() - 1) / 2)?;
    let now = lower + (upper - lower) / 2;
    Some((now, now - charged / count.max(1)))
}

pub(super) fn time(ns: f64) -> String {
    if ns >= 1e9 {
        format!("{:.2} s", ns / 1e9)
    } else if ns >= 1e6 {
        format!("{:.1} ms", ns / 1e6)
    } else {
        format!("{:.1} µs", ns / 1e3)
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A name in back quotes, not longer than a line.
fn short(name: &str) -> String {
    const LONGEST: usize = 64;
    if name.chars().count() <= LONGEST {
        return format!("`{name}`");
    }
    let begin: String = name.chars().take(LONGEST).collect();
    format!("`{begin}…`")
}
