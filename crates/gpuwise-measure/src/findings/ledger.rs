//! Time that is charged to causes, with where it was lost and to whom.

use gpuwise_domain::profile::{
    finding::Place,
    timeline::{NameId, Timeline},
};
use std::{cmp::Reverse, collections::BTreeMap};

/// How many places of each cause are kept.
const PLACES: usize = 24;
/// How many names of each cause are kept.
const NAMED: usize = 5;

/// What time is charged to: the finding of this class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause(pub(super) &'static str);

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Charged {
    /// Nanoseconds in all.
    pub ns: i64,
    pub count: u64,
    pub places: Vec<Place>,
    /// Operators, calls or kernels by their share, the most first.
    pub names: Vec<(String, i64)>,
    /// Figures of the finding's own, by their names.
    pub noted: BTreeMap<&'static str, f64>,
}

/// What was charged within one step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepCharges {
    /// From, on the host.
    pub start_ns: i64,
    /// To, on the host.
    pub end_ns: i64,
    pub by_cause: BTreeMap<Cause, i64>,
}

#[derive(Debug, Default)]
struct Account {
    ns: i64,
    count: u64,
    places: Vec<(i64, i64, NameId)>,
    names: BTreeMap<NameId, i64>,
    noted: BTreeMap<&'static str, f64>,
}

/// Accounts of all causes of one rank.
#[derive(Debug)]
pub(super) struct Ledger<'a> {
    timeline: &'a Timeline,
    accounts: BTreeMap<Cause, Account>,
    steps: Vec<StepCharges>,
}

impl<'a> Ledger<'a> {
    /// Empty accounts; `steps` in order of time.
    pub(super) fn new(timeline: &'a Timeline, steps: impl Iterator<Item = (i64, i64)>) -> Self {
        Self {
            timeline,
            accounts: BTreeMap::new(),
            steps: steps
                .map(|(start_ns, end_ns)| StepCharges {
                    start_ns,
                    end_ns,
                    by_cause: BTreeMap::new(),
                })
                .collect(),
        }
    }

    /// Charges `ns` that were lost between `start` and `end`, by what `name` says.
    pub(super) fn charge(&mut self, cause: Cause, start: i64, end: i64, ns: i64, name: NameId) {
        if ns <= 0 {
            return;
        }
        let account = self.accounts.entry(cause).or_default();
        account.ns = account.ns.saturating_add(ns);
        account.count += 1;
        *account.names.entry(name).or_default() += ns;
        account.places.push((start, end, name));
        if account.places.len() > PLACES * 8 {
            largest(&mut account.places);
        }
        let after = self.steps.partition_point(|step| step.start_ns <= start);
        let step = after.checked_sub(1).and_then(|at| self.steps.get_mut(at));
        if let Some(step) = step.filter(|step| start < step.end_ns) {
            *step.by_cause.entry(cause).or_default() += ns;
        }
    }

    /// Keeps a figure of a cause that its finding needs.
    pub(super) fn note(&mut self, cause: Cause, figure: &'static str, value: f64) {
        let account = self.accounts.entry(cause).or_default();
        account.noted.insert(figure, value);
    }

    /// The accounts in words, and what fell into each step.
    pub(super) fn close(
        self,
        rank: Option<u32>,
        device: Option<i64>,
    ) -> (BTreeMap<Cause, Charged>, Vec<StepCharges>) {
        let timeline = self.timeline;
        let text = |name: NameId| timeline.names.text(name).to_owned();
        let closed = self.accounts.into_iter().map(|(cause, mut account)| {
            largest(&mut account.places);
            let places = account
                .places
                .iter()
                .map(|&(start_ns, end_ns, name)| Place {
                    rank,
                    device,
                    start_ns,
                    end_ns,
                    what: text(name),
                });
            let mut names: Vec<(NameId, i64)> = account.names.into_iter().collect();
            names.sort_by_key(|&(name, ns)| (Reverse(ns), name));
            names.truncate(NAMED);
            let charged = Charged {
                ns: account.ns,
                count: account.count,
                places: places.collect(),
                names: names.into_iter().map(|(n, ns)| (text(n), ns)).collect(),
                noted: account.noted,
            };
            (cause, charged)
        });
        (closed.collect(), self.steps)
    }
}

fn largest(places: &mut Vec<(i64, i64, NameId)>) {
    places.sort_by_key(|&(start, end, _)| (Reverse(end - start), start));
    places.truncate(PLACES);
}
