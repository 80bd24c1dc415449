//! What would become of a lease: the same that becomes of one that is asked for, in a copy.

use crate::{Asked, Broken, Broker, Explanation, Lease, LeaseState, Refusal, money::total};
use gpuwise_domain::placement::{Action, Plan};
use gpuwise_sched::decide::Policy;
use gpuwise_units::{Money, Nanoseconds};
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, LoggedEvent},
};

/// What would become of a lease.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    pub lease: Lease,
    pub state: LeaseState,
    /// Why it would wait.
    pub waits: Explanation,
    /// Leases that would be stopped, moved or shrunk at once.
    pub disturbs: Vec<u32>,
    /// What it costs at most: over its time, or until the month ends, in each currency that it may be charged in;
    /// nothing: a GPU that it may get has no price.
    pub worst: Vec<Money>,
}

/// Why that cannot be told.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NotRun {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Broken(#[from] Broken),
}

impl Broker {
    /// Asks for a lease in a copy of what decisions depend on, and decides there.
    ///
    /// # Errors
    /// When it would be refused, as [`Broker::request`] does.
    pub fn dry_run(
        &self,
        at: Nanoseconds,
        asked: Asked,
        policy: &mut Policy,
    ) -> Result<DryRun, NotRun> {
        let mut trial = self.slice();
        let asked = Asked { key: None, ..asked };
        let spot = asked.ask.preemptible == Some(true);
        let length = asked.length;
        let (number, events) = trial.request(at, asked)?;
        trial.happen_all(at, events)?;
        let decided = trial.decide(at, policy);
        let disturbs = decided.iter().flat_map(disturbed).collect();
        trial.happen_all(at, decided)?;
        let lease = trial.lease(number).cloned();
        let lease = lease.ok_or(Broken::NoSuchLease(number))?;
        let job = trial.world.job(lease.job());
        let prices = trial.accounts.books.prices();
        let worst = job.and_then(|state| {
            trial.worst(prices, spot, &state.job.to_job(), Self::span(at, length))
        });
        let worst = worst.into_iter().flat_map(|by_currency| {
            let sums = by_currency.into_values();
            sums.filter_map(|own| total(&own)).collect::<Vec<_>>()
        });
        let worst = worst.collect();
        let state = trial.state(&lease).0;
        Ok(DryRun {
            state,
            waits: match state {
                LeaseState::Requested => trial.explain(at, number, policy, true),
                _ => Explanation::default(),
            },
            disturbs,
            worst,
            lease,
        })
    }

    fn happen_all(&mut self, at: Nanoseconds, events: Vec<BrokerEvent>) -> Result<(), Broken> {
        events.into_iter().try_for_each(|event| {
            let at_ns = at.0;
            self.apply(&LoggedEvent { at_ns, event })
        })
    }
}

/// Whom a plan takes something from.
fn disturbed(event: &BrokerEvent) -> Vec<u32> {
    let BrokerEvent::Planned { plan, .. } = event else {
        return Vec::new();
    };
    let plan: Plan = plan.clone().noun();
    let whom = |action: &Action| match action {
        Action::Preempt { job, .. }
        | Action::Move { job, .. }
        | Action::Resize { job, .. }
        | Action::Reclaim { job } => Some(job.0),
        _ => None,
    };
    plan.actions.iter().filter_map(whom).collect()
}
