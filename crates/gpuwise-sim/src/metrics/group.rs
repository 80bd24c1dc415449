//! Samples of requests that belong together, and groups that come to light one by one.

use super::{judge::Judgement, samples::Samples};
use gpuwise_domain::{
    request::{Outcome, RequestRecord},
    run::{Group, Metric, Outcomes, Part},
};
use std::collections::BTreeMap;

/// Tenants, or stages, that are told apart; the others are one group.
const GROUPS: usize = 64;

/// Picoseconds, for what is finer than a nanosecond.
const PICO: f64 = 1e-12;
const NANO: f64 = 1e-9;

/// In what the values of a metric are kept.
pub(super) fn scale(metric: Metric) -> f64 {
    match metric {
        Metric::Tpot | Metric::Normalised | Metric::InterToken => PICO,
        Metric::Input | Metric::Output => 1.0,
        Metric::Ttft | Metric::EndToEnd | Metric::Queueing | Metric::ClientDelay => NANO,
    }
}

/// Requests that belong together.
#[derive(Debug, Clone, Default)]
pub(super) struct Members {
    pub outcomes: Outcomes,
    /// Requests judged, and those that met every target.
    pub judged: u64,
    pub met: u64,
    samples: [Samples; Metric::ALL.len()],
}

impl Members {
    /// Values of a request that was served whole.
    pub(super) fn served(&mut self, record: &RequestRecord, measured: bool) {
        let end_to_end = record.end_to_end().0;
        if let Some(ttft) = record.ttft() {
            self.add(Metric::Ttft, ttft.0);
        }
        if let Some(first) = record.first_token
            && record.output > 1
        {
            let rest = record.end.0.saturating_sub(first.0);
            self.add(Metric::Tpot, picoseconds(rest, record.output - 1));
        }
        self.add(Metric::EndToEnd, end_to_end);
        if record.output > 0 {
            self.add(Metric::Normalised, picoseconds(end_to_end, record.output));
        }
        if let Some(queued) = record.queued() {
            self.add(Metric::Queueing, queued.0);
        }
        self.add(Metric::Input, u64::from(record.input));
        self.add(Metric::Output, u64::from(record.output));
        if measured {
            let delay = record.sent.0.saturating_sub(record.due.0);
            self.add(Metric::ClientDelay, delay);
        }
    }

    /// Counts a request as met or missed.
    pub(super) fn judge(&mut self, judgement: Judgement) {
        self.judged += 1;
        self.met += u64::from(judgement == Judgement::Met);
    }

    fn add(&mut self, metric: Metric, value: u64) {
        if let Some(samples) = self.samples.get_mut(metric as usize) {
            samples.add(value);
        }
    }

    pub(super) fn samples(&mut self, metric: Metric) -> Option<&mut Samples> {
        self.samples.get_mut(metric as usize)
    }

    /// Whether values are counted and not kept.
    fn is_counted(&self) -> bool {
        self.samples
            .first()
            .is_some_and(|samples| !samples.is_exact())
    }

    /// From now on histograms.
    pub(super) fn count_all(&mut self) {
        for samples in &mut self.samples {
            samples.count_all();
        }
    }

    pub(super) fn report(&mut self, part: Part, has_slo: bool) -> Group {
        let distributions = Metric::ALL.iter().filter_map(|metric| {
            let samples = self.samples.get_mut(*metric as usize)?;
            Some((*metric, samples.distribution(scale(*metric))?))
        });
        Group {
            part,
            outcomes: self.outcomes,
            distributions: distributions.collect(),
            attained: (has_slo && self.judged > 0).then(|| self.met as f64 / self.judged as f64),
        }
    }
}

/// `time / count` nanoseconds in picoseconds, rounded.
fn picoseconds(time: u64, count: u32) -> u64 {
    let count = u64::from(count.max(1));
    match time.checked_mul(1000) {
        Some(time) => (time + count / 2) / count,
        None => (time / count).saturating_mul(1000),
    }
}

/// One way to tell requests apart. Nothing is kept for it as long as all are alike.
#[derive(Debug, Clone, Default)]
pub(super) struct Division {
    first: Option<u16>,
    groups: BTreeMap<u16, Members>,
}

/// The group of those that are too many to be told apart.
const OTHERS: u16 = u16::MAX;

impl Division {
    /// The group of a request that `all` does not hold yet; `None` where all are alike so far.
    pub(super) fn of(&mut self, key: u16, all: &Members) -> Option<&mut Members> {
        let first = *self.first.get_or_insert(key);
        if self.groups.is_empty() {
            if key == first {
                return None;
            }
            self.groups.insert(first, all.clone());
        }
        let full = self.groups.len() >= GROUPS && !self.groups.contains_key(&key);
        let members = self
            .groups
            .entry(if full { OTHERS } else { key })
            .or_default();
        if all.is_counted() && !members.is_counted() {
            members.count_all();
        }
        Some(members)
    }

    /// The group of a request that was recorded already; `None` where all are alike so far.
    pub(super) fn existing(&mut self, key: u16) -> Option<&mut Members> {
        let key = if self.groups.contains_key(&key) {
            key
        } else {
            OTHERS
        };
        self.groups.get_mut(&key)
    }

    /// The group of this one alone; `None` where all are alike, or it is told with others.
    pub(super) fn own(&mut self, key: u16) -> Option<&mut Members> {
        self.groups.get_mut(&key)
    }

    /// From now on histograms.
    pub(super) fn count_all(&mut self) {
        self.groups.values_mut().for_each(Members::count_all);
    }

    /// The groups in the order of their numbers.
    pub(super) fn report(
        &mut self,
        names: &[String],
        part: fn(String) -> Part,
        has_slo: bool,
    ) -> Vec<Group> {
        let groups = self.groups.iter_mut().map(|(key, members)| {
            let name = match names.get(usize::from(*key)) {
                Some(name) => name.clone(),
                None if *key == OTHERS => "others".into(),
                None => key.to_string(),
            };
            members.report(part(name), has_slo)
        });
        groups.collect()
    }
}

/// Whether an outcome is the end of a request that was judged unserved.
pub(super) fn unserved(outcome: Outcome) -> bool {
    !matches!(outcome, Outcome::Completed | Outcome::Unfinished)
}
