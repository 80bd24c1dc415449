//! Time that is charged to causes, with where it was lost and to whom.

use super::work::Ordered;
use gpuwise_domain::profile::{
    finding::Place,
    timeline::{NameId, Timeline},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// How many places of each cause are kept.
const PLACES: usize = 24;
/// How many names of each cause are kept.
const NAMED: usize = 5;

/// What time is charged to: the finding of this class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause(pub(super) &'static str);

impl Cause {
    /// The class of its finding.
    pub fn class(self) -> &'static str {
        self.0
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Charged {
    /// Nanoseconds in all.
    pub ns: i64,
    /// Of these, time in which the device stood idle: of all causes together no more than there is.
    pub idle_ns: i64,
    pub count: u64,
    /// Where the most was lost; those that are not kept lost the rest of [`Self::ns`].
    pub places: Vec<Place>,
    /// Operators, calls or kernels by their share, the most first.
    pub names: Vec<(String, i64)>,
    /// Figures of the finding's own, by their names.
    pub noted: BTreeMap<&'static str, f64>,
    /// By how much the rank would be shorter without it, where the rank was played again.
    pub gained: Option<Gained>,
}

/// By how much a rank is shorter when it is played again without a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gained {
    /// Without what every fix takes away.
    pub low_ns: i64,
    /// Without all that was charged.
    pub high_ns: i64,
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

/// Where time was lost.
#[derive(Debug, Clone, Copy)]
struct Spot {
    start: i64,
    end: i64,
    ns: i64,
    name: NameId,
}

/// What goes when a cause does, for playing the rank again.
#[derive(Debug, Default)]
pub(super) struct Removed {
    /// Host time of the gaps that were charged, in order.
    pub(super) host: Vec<(i64, i64)>,
    /// Place of a piece of work and by how much it gets shorter: at least, at most.
    pub(super) work: Vec<(u32, i64, i64)>,
}

#[derive(Debug, Default)]
struct Account {
    ns: i64,
    idle_ns: i64,
    count: u64,
    spots: Vec<Spot>,
    names: BTreeMap<NameId, i64>,
    noted: BTreeMap<&'static str, f64>,
    removed: Removed,
    gained: Option<Gained>,
}

/// Accounts of all causes of one rank.
#[derive(Debug)]
pub(super) struct Ledger<'a> {
    timeline: &'a Timeline,
    ordered: &'a Ordered,
    accounts: BTreeMap<Cause, Account>,
    steps: Vec<StepCharges>,
    /// Places of work that would be spared by a fix that was charged already.
    spared: BTreeSet<usize>,
}

impl<'a> Ledger<'a> {
    /// Empty accounts; `steps` in order of time.
    pub(super) fn new(
        timeline: &'a Timeline,
        ordered: &'a Ordered,
        steps: impl Iterator<Item = (i64, i64)>,
    ) -> Self {
        Self {
            timeline,
            ordered,
            accounts: BTreeMap::new(),
            steps: steps
                .map(|(start_ns, end_ns)| StepCharges {
                    start_ns,
                    end_ns,
                    by_cause: BTreeMap::new(),
                })
                .collect(),
            spared: BTreeSet::new(),
        }
    }

    /// Charges idle time from `start` to `end`, all of it. `gone` where the host's time of that range
    /// goes with the cause. Each moment is charged once: the caller sees to it.
    pub(super) fn charge_idle(
        &mut self,
        cause: Cause,
        (start, end): (i64, i64),
        gone: bool,
        name: NameId,
    ) {
        let ns = end - start;
        let spot = Spot {
            start,
            end,
            ns,
            name,
        };
        if let Some(account) = self.add(cause, spot) {
            account.idle_ns = account.idle_ns.saturating_add(ns);
            if gone {
                account.removed.host.push((start, end));
            }
        }
    }

    /// Charges what a piece of work lost, `at_least` of which every fix takes away, and at most `all` of
    /// the piece, where what of it hid behind other work goes as well.
    pub(super) fn charge_work(
        &mut self,
        cause: Cause,
        place: usize,
        ns: i64,
        (at_least, all): (i64, i64),
    ) {
        let Some(&(start, end, index)) = self.ordered.pieces.get(place) else {
            return;
        };
        let Some(work) = self.timeline.work.get(index as usize) else {
            return;
        };
        let spot = Spot {
            start,
            end,
            ns,
            name: work.name,
        };
        if let (Some(account), Ok(place)) = (self.add(cause, spot), u32::try_from(place)) {
            account.removed.work.push((place, at_least, all));
        }
    }

    /// Charges time of the host of a process that uses no GPU.
    pub(super) fn charge_host(&mut self, cause: Cause, (start, end): (i64, i64), name: NameId) {
        let ns = end - start;
        self.add(
            cause,
            Spot {
                start,
                end,
                ns,
                name,
            },
        );
    }

    /// Charges kernels that one fix shortens together, each with what it spares of it at least and at
    /// most, in ns; `alone` is the part of it that other kernels beside it leave. They are charged to
    /// no other fix: [`Self::is_spared`] is asked first.
    pub(super) fn charge_spared(
        &mut self,
        cause: Cause,
        alone: f64,
        kernels: impl Iterator<Item = (usize, f64, f64)>,
    ) {
        for (place, low, high) in kernels {
            self.spared.insert(place);
            let high = high.max(0.0) * alone;
            let at_least = (low * alone).clamp(0.0, high);
            self.charge_work(cause, place, high as i64, (at_least as i64, high as i64));
        }
    }

    /// Says that a piece of work is shortened by a fix that was charged.
    pub(super) fn spare(&mut self, place: usize) {
        self.spared.insert(place);
    }

    /// Whether a piece of work is shortened by a fix that was charged already.
    pub(super) fn is_spared(&self, place: usize) -> bool {
        self.spared.contains(&place)
    }

    /// A fix may take so much of a piece of work away, though nothing of it is charged.
    pub(super) fn may_shorten(&mut self, cause: Cause, place: usize, ns: i64) {
        if let (Some(account), Ok(place)) = (self.accounts.get_mut(&cause), u32::try_from(place)) {
            account.removed.work.push((place, 0, ns));
        }
    }

    fn add(&mut self, cause: Cause, spot: Spot) -> Option<&mut Account> {
        if spot.ns <= 0 {
            return None;
        }
        let after = self
            .steps
            .partition_point(|step| step.start_ns <= spot.start);
        let step = after.checked_sub(1).and_then(|at| self.steps.get_mut(at));
        if let Some(step) = step.filter(|step| spot.start < step.end_ns) {
            *step.by_cause.entry(cause).or_default() += spot.ns;
        }
        let account = self.accounts.entry(cause).or_default();
        account.ns = account.ns.saturating_add(spot.ns);
        account.count += 1;
        *account.names.entry(spot.name).or_default() += spot.ns;
        account.spots.push(spot);
        if account.spots.len() > PLACES * 8 {
            largest(&mut account.spots);
        }
        Some(account)
    }

    /// Keeps a figure of a cause that its finding needs.
    pub(super) fn note(&mut self, cause: Cause, figure: &'static str, value: f64) {
        let account = self.accounts.entry(cause).or_default();
        account.noted.insert(figure, value);
    }

    /// Causes that were charged `least` or more, and what goes with them.
    pub(super) fn charged(&self, least: i64) -> impl Iterator<Item = (Cause, &Removed)> {
        let large = self
            .accounts
            .iter()
            .filter(move |(_, account)| account.ns >= least.max(1));
        large.map(|(cause, account)| (*cause, &account.removed))
    }

    /// Keeps what a cause costs as the rank was played again without it. That may be more than was
    /// charged: host time that hid behind the device's work is missing later.
    pub(super) fn gained(&mut self, cause: Cause, gained: Gained) {
        if let Some(account) = self.accounts.get_mut(&cause) {
            let high_ns = gained.high_ns.max(0);
            account.gained = Some(Gained {
                low_ns: gained.low_ns.clamp(0, high_ns),
                high_ns,
            });
        }
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
            largest(&mut account.spots);
            let places = account.spots.iter().map(|spot| Place {
                rank,
                device,
                start_ns: spot.start,
                end_ns: spot.end,
                lost_ns: Some(spot.ns),
                what: text(spot.name),
            });
            let mut names: Vec<(NameId, i64)> = account.names.into_iter().collect();
            names.sort_by_key(|&(name, ns)| (Reverse(ns), name));
            names.truncate(NAMED);
            let charged = Charged {
                ns: account.ns,
                idle_ns: account.idle_ns,
                count: account.count,
                places: places.collect(),
                names: names.into_iter().map(|(n, ns)| (text(n), ns)).collect(),
                noted: account.noted,
                gained: account.gained,
            };
            (cause, charged)
        });
        (closed.collect(), self.steps)
    }
}

fn largest(spots: &mut Vec<Spot>) {
    spots.sort_by_key(|spot| (Reverse(spot.ns), spot.start, spot.end));
    spots.truncate(PLACES);
}
