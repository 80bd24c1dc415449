//! What budgets hold back for leases.
//!
//! Decisions hold in a copy of the budgets, and find there what does not fit. Events say what is held; where they are
//! applied it is held as they say, so that nothing that was decided can come out otherwise.

use super::{Accounts, paid, worst::total};
use crate::{Broker, Lease, Refusal, tenants::exact};
use gpuwise_account::{
    budget::{self, Budgets, Expected},
    money::divide,
    period::{Interval, Month},
    prices::PriceBook,
};
use gpuwise_domain::placement::{GpuAsk, Job};
use gpuwise_units::{Money, Nanoseconds};
use gpuwise_wire::broker::BrokerEvent;

/// What is held for leases: their numbers, and amounts.
pub(crate) type Reserved = Vec<(u32, String)>;

/// Budgets in which it is tried what fits, with the prices that hold then.
pub(crate) struct Trial<'a> {
    pub(crate) budgets: Budgets,
    pub(crate) prices: &'a PriceBook,
    /// What leases have is counted up to then.
    pub(crate) counted: Nanoseconds,
}

impl Broker {
    /// From when to when a lease may cost something that starts now: its length, or what is left of the month.
    pub(crate) fn span(now: Nanoseconds, length: Option<Nanoseconds>) -> Interval {
        let end = length.map_or_else(|| Month::of(now).interval().end, |length| now + length);
        Interval::new(now, end)
    }

    /// The same for a lease that may have begun: from when it was counted last until it ends.
    pub(crate) fn span_of(&self, at: Nanoseconds, counted: Nanoseconds, lease: &Lease) -> Interval {
        let since = self.grants.since(lease.number);
        let from = since.map_or(at, |since| since.max(counted).min(at));
        match (lease.ends(), lease.length) {
            (Some(end), _) => Interval::new(from, end),
            (None, None) => Interval::new(from, Self::span(at, None).end),
            (None, length) => Self::span(from, paid(&lease.ask, length)),
        }
    }

    /// The accounts with all that leases have counted up to a moment.
    pub(crate) fn accounts_until(&self, until: Nanoseconds) -> Accounts {
        let mut accounts = self.accounts.clone();
        for lease in self.open() {
            let grants = self.grants.of(lease.number, until);
            accounts.add(&self.world, lease, &grants);
        }
        accounts
    }

    /// What a budget would hold back for a job; `None`: its tenant has no budget, or it can cost nothing.
    ///
    /// # Errors
    /// When the budget has too little left, or it cannot be told how much that is.
    pub(crate) fn hold_back(
        &self,
        budgets: &Budgets,
        prices: &PriceBook,
        (spot, job): (bool, &Job),
        interval: Interval,
    ) -> Result<Option<Vec<Expected>>, Refusal> {
        let bounded = budgets.budget(&job.tenant).is_some();
        if !bounded || matches!(job.worker.gpu, GpuAsk::None) {
            return Ok(None);
        }
        let Some(worst) = self.worst(prices, spot, job, interval) else {
            return Err(Refusal::Unpriced {
                tenant: job.tenant.clone(),
                what: "a GPU that the lease may get has no price: add one to the fleet".into(),
            });
        };
        let all: Vec<Expected> = worst.into_values().flatten().collect();
        let could = budgets.could_reserve("", &job.tenant, &all);
        could.map_err(|refusal| refused(&job.tenant, &refusal))?;
        Ok(Some(all))
    }

    /// What budgets hold back for leases from now on; those that do not fit are told to end, and hold nothing more.
    pub(crate) fn held_again(
        &self,
        trial: &mut Trial<'_>,
        now: Nanoseconds,
        leases: &[&Lease],
        reason: &str,
    ) -> (Reserved, Vec<BrokerEvent>) {
        let (mut reserved, mut over) = (Vec::new(), Vec::new());
        let bounded = self.bounded(trial, leases);
        for (lease, job) in &bounded {
            match self.hold_one(trial, now, lease, job) {
                Ok(held) => reserved.push((lease.number, held)),
                Err(refusal) => {
                    let nothing = trial.budgets.budget(&lease.ask.tenant).map(|budget| Money {
                        micros: 0,
                        ..budget.amount
                    });
                    reserved.extend(nothing.map(|money| (lease.number, exact(money))));
                    let reason = format!("{reason}: {refusal}");
                    // Of what is over nothing is left to be told.
                    if let Ok(told) = self.release(lease.number, &reason) {
                        over.extend(told);
                    }
                }
            }
        }
        (reserved, over)
    }

    /// Holds back what leases of tenants with a budget may still cost: how much for each.
    ///
    /// # Errors
    /// Of the first that does not fit.
    pub(crate) fn held(
        &self,
        trial: &mut Trial<'_>,
        now: Nanoseconds,
        leases: &[&Lease],
    ) -> Result<Reserved, Refusal> {
        let bounded = self.bounded(trial, leases);
        let each = bounded.iter();
        each.map(|(lease, job)| Ok((lease.number, self.hold_one(trial, now, lease, job)?)))
            .collect()
    }

    /// Those of the leases that a budget bounds and that are not told to end, with their jobs. They hold nothing until
    /// it is told anew what they hold.
    fn bounded<'l>(&self, trial: &mut Trial<'_>, leases: &[&'l Lease]) -> Vec<(&'l Lease, Job)> {
        let going = leases.iter().filter(|lease| lease.draining.is_none());
        let of = going.filter_map(|lease| {
            trial.budgets.budget(&lease.ask.tenant)?;
            let job = self.world.job(lease.job())?.job.to_job();
            Some((*lease, job))
        });
        let of: Vec<(&Lease, Job)> = of.collect();
        for (lease, _) in &of {
            trial.budgets.release(&lease.id());
        }
        of
    }

    fn hold_one(
        &self,
        trial: &mut Trial<'_>,
        now: Nanoseconds,
        lease: &Lease,
        job: &Job,
    ) -> Result<String, Refusal> {
        let spot = lease.ask.preemptible == Some(true);
        let interval = self.span_of(now, trial.counted, lease);
        let held = self.hold_back(&trial.budgets, trial.prices, (spot, job), interval)?;
        let held = held.unwrap_or_default();
        trial.budgets.hold(&lease.id(), &lease.ask.tenant, &held);
        let currency = trial.budgets.budget(&lease.ask.tenant);
        let nothing = currency.map(|budget| Money {
            micros: 0,
            ..budget.amount
        });
        Ok(total(&held).or(nothing).map(exact).unwrap_or_default())
    }

    /// Whether what is held back for a lease is enough for what it may cost from now on, in each month.
    pub(crate) fn is_covered(&self, now: Nanoseconds, lease: &Lease) -> bool {
        let budgets = &self.accounts.budgets;
        if budgets.budget(&lease.ask.tenant).is_none() {
            return true;
        }
        let job = self.world.job(lease.job()).map(|state| state.job.to_job());
        let Some(job) = job.filter(|job| !matches!(job.worker.gpu, GpuAsk::None)) else {
            return true;
        };
        let spot = lease.ask.preemptible == Some(true);
        let interval = self.span_of(now, now, lease);
        let Some(worst) = self.worst(self.accounts.books.prices(), spot, &job, interval) else {
            return false;
        };
        worst.into_values().flatten().all(|one| {
            let held = budgets.held_for(&lease.id(), &lease.ask.tenant, one.interval.start);
            held >= i128::from(one.amount.micros)
        })
    }

    /// Holds back for a lease what an event says, in the months in which it may be spent.
    pub(crate) fn reserve(&mut self, at: Nanoseconds, lease: &Lease, amount: Money) {
        let interval = self.span_of(at, Nanoseconds(0), lease);
        let job = self.world.job(lease.job()).map(|state| state.job.to_job());
        let spot = lease.ask.preemptible == Some(true);
        let prices = self.accounts.books.prices();
        let worst = job.and_then(|job| self.worst(prices, spot, &job, interval));
        let own = worst.and_then(|mut worst| worst.remove(&amount.currency));
        let mut own = own.unwrap_or_else(|| vec![Expected { interval, amount }]);
        if total(&own) != Some(amount) {
            let weights: Vec<u64> = own
                .iter()
                .map(|one| one.amount.micros.unsigned_abs())
                .collect();
            for (one, part) in own.iter_mut().zip(divide(amount, &weights)) {
                one.amount = part;
            }
        }
        let budgets = &mut self.accounts.budgets;
        budgets.hold(&lease.id(), &lease.ask.tenant, &own);
    }
}

fn refused(tenant: &str, refusal: &budget::Refusal) -> Refusal {
    match refusal {
        budget::Refusal::Exceeded {
            period,
            amount,
            left,
            needed,
            ..
        } => Refusal::Budget {
            tenant: tenant.to_owned(),
            month: Month::of(period.start).to_string(),
            budget: *amount,
            left: *left,
            needed: *needed,
        },
        other => Refusal::Unpriced {
            tenant: tenant.to_owned(),
            what: other.to_string(),
        },
    }
}
