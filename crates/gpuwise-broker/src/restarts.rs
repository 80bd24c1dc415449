//! What fails is started again where it was, if its lease says so.

use crate::{Broken, Broker, Lease, executor::Work};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::BrokerEvent;

/// So often where nothing is said.
const USUAL: u32 = 5;
/// At most so often.
const MOST: u32 = 1000;
/// The first wait; each is twice the one before.
const FIRST: u64 = 1_000_000_000;
/// The longest.
const LONGEST: u64 = 300 * 1_000_000_000;
/// Whoever ran for so long is started again as if for the first time.
const WELL: u64 = 600 * 1_000_000_000;

/// How often what runs of a lease is started again: `never`, `on-failure`, `on-failure:N`.
///
/// # Errors
/// When it is none of these.
pub fn restarts(text: &str) -> Result<u32, String> {
    let wrong = || format!("{text:?}: expected never, on-failure, or on-failure:N up to {MOST}");
    match text.split_once(':') {
        None if text == "never" => Ok(0),
        None if text == "on-failure" => Ok(USUAL),
        Some(("on-failure", number)) => {
            let number = number.parse().ok();
            number.filter(|number| *number <= MOST).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

/// What became of a lease's failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Restarts {
    /// How often it was started again.
    pub count: u32,
    /// Of these, those one soon after the other; and when the last was.
    row: u32,
    last: Nanoseconds,
}

impl Broker {
    /// What follows where what runs of a lease has failed; nothing: it is not started again.
    pub(crate) fn again(
        &self,
        now: Nanoseconds,
        lease: &Lease,
        exit_code: Option<i32>,
        reason: &str,
    ) -> Option<BrokerEvent> {
        let most = lease.ask.restart.as_deref().map_or(Ok(0), restarts);
        let row = row(now, lease);
        let allowed = most.is_ok_and(|most| row < most);
        if !allowed || lease.draining.is_some() || !self.is_running(lease.job()) {
            return None;
        }
        let wait = FIRST.saturating_mul(1 << row.min(20)).min(LONGEST);
        Some(BrokerEvent::Restarting {
            lease: lease.number,
            reason: reason.to_owned(),
            exit_code,
            after_ns: now.0.saturating_add(wait),
        })
    }

    pub(crate) fn restarting(
        &mut self,
        at: Nanoseconds,
        number: u32,
        after: Nanoseconds,
    ) -> Result<(), Broken> {
        let lease = self.leases.get_mut(&number);
        let lease = lease.ok_or(Broken::NoSuchLease(number))?;
        let row = row(at, lease);
        lease.restarts.count = lease.restarts.count.saturating_add(1);
        lease.restarts.row = row.saturating_add(1);
        lease.restarts.last = after;
        // What was halted is no more.
        lease.halted = None;
        let job = lease.job();
        self.meter(at, number);
        self.restarted(number);
        let id = self.order(Work::Restart { job, after });
        self.started_by.insert(number, id);
        Ok(())
    }

    /// The order to start it again is over.
    pub(crate) fn restarted(&mut self, number: u32) {
        let own = |work: &Work| matches!(work, Work::Restart { job, .. } if job.0 == number);
        self.orders.retain(|_, work| !own(work));
        let orders = &self.orders;
        self.ordered.retain(|id, _| orders.contains_key(id));
    }

    /// When the next one is to be started again, after a moment.
    pub(crate) fn restarts_at(&self, after: Nanoseconds) -> Option<Nanoseconds> {
        let all = self.orders.values().filter_map(|work| match work {
            Work::Restart { after, .. } => Some(*after),
            _ => None,
        });
        all.filter(|at| *at > after).min()
    }
}

/// How often it was started again, one soon after the other.
const fn row(now: Nanoseconds, lease: &Lease) -> u32 {
    let since = now.0.saturating_sub(lease.restarts.last.0);
    if since >= WELL { 0 } else { lease.restarts.row }
}
