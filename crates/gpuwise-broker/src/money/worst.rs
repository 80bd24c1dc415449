//! What leases may cost at most, and what budgets hold back for it.

use super::{AHEAD, paid, seen::granted};
use crate::{Broker, Lease, Refusal};
use gpuwise_account::{
    budget::{self, Expected},
    period::{Interval, Month},
    prices::Asked,
};
use gpuwise_domain::{
    offer::Terms,
    placement::{GpuAsk, Job, KindId},
};
use gpuwise_units::{Money, Nanoseconds};

impl Broker {
    /// The most that a job can cost over an interval; `None`: a kind that it may get has no price.
    pub(crate) fn worst(&self, spot: bool, job: &Job, within: Interval) -> Option<Money> {
        // What a worker's part costs is rounded up once more where a month ends or a price changes meanwhile.
        self.dearest(spot, job, within, 1)
    }

    /// What it costs at the dearest price that it may get, with so many µ-units more for each worker's part.
    fn dearest(&self, spot: bool, job: &Job, within: Interval, more: i64) -> Option<Money> {
        let each = (0..).map(KindId).zip(self.world.kinds());
        let wanted = job.worker.gpu.kinds().and(self.present);
        // Who waits starts later: any price from now on may be the one.
        let anytime = Interval::new(within.start, within.end + AHEAD);
        let mut most: Option<Money> = None;
        for (id, kind) in each.filter(|(id, _)| wanted.has(*id)) {
            let (granted, isolation, count) = granted(&self.world, id, &job.worker.gpu)?;
            let asked = Asked {
                tenant: &job.tenant,
                kind: &kind.name,
                granted: &granted,
                isolation,
                class: if spot { Terms::Spot } else { Terms::OnDemand },
            };
            let parts = i64::from(job.gang.most.max(1)) * i64::from(count);
            let prices = self.accounts.books.prices();
            let one = prices
                .dearest(&asked, u128::from(within.length()), anytime)
                .ok()?;
            let micros = one.micros.saturating_add(more).checked_mul(parts)?;
            if most.is_none_or(|most| most.micros < micros) {
                most = Some(Money { micros, ..one });
            }
        }
        most
    }

    /// From when to when a lease may cost something: its length from now, or what is left of the month.
    pub(crate) fn span(now: Nanoseconds, length: Option<Nanoseconds>) -> Interval {
        let end = length.map_or_else(|| Month::of(now).interval().end, |length| now + length);
        Interval::new(now, end)
    }

    /// What the budget holds back for a lease; `None`: its tenant has no budget, or it can cost nothing.
    pub(crate) fn hold_back(
        &self,
        spot: bool,
        job: &Job,
        interval: Interval,
    ) -> Result<Option<Money>, Refusal> {
        let bounded = self.accounts.budgets.budget(&job.tenant).is_some();
        if !bounded || matches!(job.worker.gpu, GpuAsk::None) {
            return Ok(None);
        }
        let Some(amount) = self.worst(spot, job, interval) else {
            return Err(Refusal::Unpriced {
                tenant: job.tenant.clone(),
                what: "a GPU that the lease may get has no price: add one to the fleet".into(),
            });
        };
        let worst = [Expected { interval, amount }];
        let could = self.accounts.budgets.could_reserve("", &job.tenant, &worst);
        could.map_err(|refusal| refused(&job.tenant, &refusal))?;
        Ok(Some(amount))
    }

    /// The same for a lease that may have begun: what is left of it.
    pub(crate) fn span_of(at: Nanoseconds, lease: &Lease) -> Interval {
        match lease.ends() {
            Some(end) => Interval::new(at, end),
            None => Self::span(at, paid(&lease.ask, lease.length)),
        }
    }

    /// Reserves what was held back for a lease.
    pub(crate) fn reserve(&mut self, at: Nanoseconds, lease: &Lease, amount: Money) {
        let interval = Self::span_of(at, lease);
        let worst = [Expected { interval, amount }];
        // Whether it fits was asked when it was admitted.
        let _ = self
            .accounts
            .budgets
            .reserve(&lease.id(), &lease.ask.tenant, &worst);
    }

    /// What a job costs over an interval, at the dearest price that it may get; `None`: a kind that it may
    /// get has no price.
    pub fn price_of(&self, spot: bool, job: &Job, within: Interval) -> Option<Money> {
        self.dearest(spot, job, within, 0)
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
