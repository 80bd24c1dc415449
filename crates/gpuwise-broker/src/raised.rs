//! What a demand that is raised for an SLO at risk costs others: who was stopped or moved for it, who waited
//! while it went ahead, for how long.

use crate::Broker;
use gpuwise_account::{money::amount, period::HOUR};
use gpuwise_domain::placement::{Action, Cause, JobId, Plan};
use gpuwise_sched::queues::milli_of;
use gpuwise_units::{Money, Nanoseconds};

/// Of those who wait behind one who went ahead, so many are looked at each time.
const PASSED: usize = 64;

/// What one lease bore for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Borne {
    /// How often it was stopped or moved.
    pub stops: u32,
    /// Thousandths of GPUs times nanoseconds that it went without.
    pub lost: u128,
    /// How often the other went ahead of it.
    pub passed: u32,
    /// How long it has waited since it was passed, summed: at most so much is the other's.
    pub waited: Nanoseconds,
    /// Thousandths of GPUs that it goes without, and since when.
    without: Option<(u64, Nanoseconds)>,
    waits_since: Option<Nanoseconds>,
}

impl Borne {
    /// Counted up to a moment, from which it goes on.
    fn until(mut self, at: Nanoseconds) -> Self {
        if let Some((milli, since)) = &mut self.without {
            self.lost += u128::from(*milli) * u128::from(at.0.saturating_sub(since.0));
            *since = at;
        }
        if let Some(since) = &mut self.waits_since {
            self.waited = Nanoseconds(self.waited.0 + at.0.saturating_sub(since.0));
            *since = at;
        }
        self
    }
}

impl Broker {
    /// What raised demands cost: for which lease, whom, and what, up to now.
    pub fn borne(&self, now: Nanoseconds) -> impl Iterator<Item = (u32, u32, Borne)> {
        let all = self.raised.iter();
        all.flat_map(move |(who, of)| of.iter().map(move |(of, one)| (*of, *who, one.until(now))))
    }

    /// What the GPU time that a lease went without is worth to it, at its price now; `None`: it has none.
    pub fn worth(&self, now: Nanoseconds, lease: u32, borne: &Borne) -> Option<Money> {
        let lease = self.lease(lease)?;
        let share = lease.place.iter().flat_map(|one| &one.gpus).next()?;
        let kind = self.world.kind(self.world.gpu(share.gpu)?.gpu.kind)?;
        let spot = lease.ask.preemptible == Some(true);
        let price = self.hourly(now, &lease.ask.tenant, &kind.name, spot)?;
        amount(
            price,
            i128::try_from(borne.lost).ok()?,
            i128::from(HOUR) * 1000,
        )
    }

    /// A plan is about to begin: whom it disrupts, and who is passed, for those whose SLO is at risk.
    pub(crate) fn raised_planned(&mut self, at: Nanoseconds, plan: &Plan) {
        if self.at_risk.is_empty() {
            return;
        }
        for action in &plan.actions {
            match action {
                Action::Preempt { job, cause } | Action::Move { job, cause, .. } => {
                    if let Cause::For(other) = cause
                        && self.at_risk.contains_key(&other.0)
                    {
                        self.disrupted(at, other.0, *job);
                    }
                }
                Action::Place { job, .. } | Action::Restore { job, .. }
                    if self.at_risk.contains_key(&job.0) =>
                {
                    self.goes_ahead(at, job.0, plan);
                }
                _ => {}
            }
        }
    }

    fn disrupted(&mut self, at: Nanoseconds, of: u32, job: JobId) {
        let state = self.world.job(job);
        let milli = state.map_or(0, |state| milli_of(&self.world, &state.assignments));
        let of = self.raised.entry(job.0).or_default().entry(of).or_default();
        *of = of.until(at);
        of.stops += 1;
        of.without = Some((milli, at));
    }

    /// Who was before it as long as its priority was not raised, and has no place in this plan.
    fn goes_ahead(&mut self, at: Nanoseconds, number: u32, plan: &Plan) {
        let (Some(risk), Some(state)) = (self.at_risk.get(&number), self.world.job(JobId(number)))
        else {
            return;
        };
        let (before, raised, submitted) = (risk.before, state.job.priority, state.job.submitted);
        let placed = |job: u32| {
            plan.actions.iter().any(|action| {
                matches!(action, Action::Place { job: one, .. } | Action::Restore { job: one, .. } if one.0 == job)
            })
        };
        let passed = self.seekers.iter().copied().filter(|other| {
            let state = self.world.job(JobId(*other));
            state.is_some_and(|state| {
                let priority = state.job.priority;
                let was_before =
                    priority > before || priority == before && state.job.submitted < submitted;
                *other != number && was_before && priority < raised && !placed(*other)
            })
        });
        let passed: Vec<u32> = passed.take(PASSED).collect();
        for other in passed {
            let of = self
                .raised
                .entry(other)
                .or_default()
                .entry(number)
                .or_default();
            *of = of.until(at);
            of.passed += 1;
            of.waits_since = Some(at);
        }
    }

    /// A lease runs again: it goes without nothing any more.
    pub(crate) fn raised_follow(&mut self, at: Nanoseconds, number: u32, running: bool) {
        if running {
            self.raised_over(at, number);
        }
    }

    pub(crate) fn raised_over(&mut self, at: Nanoseconds, number: u32) {
        for one in self.raised.get_mut(&number).into_iter().flatten() {
            *one.1 = Borne {
                without: None,
                waits_since: None,
                ..one.1.until(at)
            };
        }
    }
}
