//! Why something that is asked for is not done.

use gpuwise_account::money::exact;
use gpuwise_units::Money;

/// Why the broker says no. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// What was asked for is wrong.
    #[error("{field}: {problem}")]
    Invalid { field: String, problem: String },
    #[error("there is no tenant {0:?}")]
    NoSuchTenant(String),
    #[error("there is a tenant {0:?} already")]
    TenantExists(String),
    /// It may ask for nothing new.
    #[error("tenant {0:?} is suspended: it may ask for nothing new")]
    Suspended(String),
    #[error("there is no lease {0}")]
    NoSuchLease(String),
    #[error("lease {0} is over")]
    LeaseOver(String),
    #[error("tenant {tenant:?} has no secret {name:?}: `gpuwise secret set` sets it")]
    NoSuchSecret { tenant: String, name: String },
    #[error("there is no token {0:?}")]
    NoSuchToken(String),
    #[error("there is a token {0:?} already")]
    TokenExists(String),
    #[error("there is no reservation {0:?}")]
    NoSuchReservation(String),
    #[error("there is a reservation {0:?} already")]
    ReservationExists(String),
    #[error("there is no node {0:?}")]
    NoSuchNode(String),
    /// What it holds keeps it as it is.
    #[error("node {node:?} stays: {why}")]
    NodeInUse { node: String, why: String },
    #[error("another policy was set meanwhile: look at it again, and then change it")]
    PolicyChanged,
    #[error("there is no SLO {0}")]
    NoSuchSlo(String),
    #[error("there is no proposal {0}")]
    NoSuchProposal(String),
    /// It was decided already.
    #[error("proposal {0}")]
    Decided(String),
    /// The fleet could never hold it, or its tenant may never have so much.
    #[error("it can never start: {0}")]
    Infeasible(String),
    /// It was to be promised, and the simulator or the fleet says that it may not be kept.
    #[error("it cannot be promised: {0}")]
    NotPromised(String),
    /// The budget has too little left. It is final: asking again does not help before the next month.
    #[error(
        "the budget of tenant {tenant:?} for {month} has {} left of {budget}; this lease may cost {} of it",
        told(*left, *needed), told(*needed, *left)
    )]
    Budget {
        tenant: String,
        /// Such as `2026-11`.
        month: String,
        budget: Money,
        left: Money,
        needed: Money,
    },
    /// It cannot be held against a budget.
    #[error("the budget of tenant {tenant:?} cannot be held: {what}")]
    Unpriced { tenant: String, what: String },
    /// Its tenant has as many leases that wait as it may have.
    #[error(
        "{most} leases of tenant {tenant:?} wait for GPUs, as many as may wait at once: release one, or ask again when \
         one has started (the broker's --tenant-waiting is the bound)"
    )]
    TooManyWait { tenant: String, most: u32 },
    /// More was told of a lease than is kept.
    #[error(
        "more than {most} records were told of {lease}: tell of longer intervals, such as one a minute; at most {} \
         and one a second of a lease's life are kept",
        crate::telemetry::RECORDS
    )]
    TooManyRecords { lease: String, most: u64 },
    #[error(
        "more than {most} records of {lease} are aside, since they cannot be counted: see `store check` or the answers \
         to them, and mend the clock, ids or GPUs of what tells them"
    )]
    TooManyAside { lease: String, most: u64 },
    /// The same key was used for something else.
    #[error("the idempotency key was used before, for another request")]
    KeyReused,
    #[error("there are no more numbers for leases")]
    Full,
}

impl Refusal {
    pub(crate) fn invalid(field: &str, problem: impl Into<String>) -> Self {
        Self::Invalid {
            field: field.into(),
            problem: problem.into(),
        }
    }
}

/// An amount as people write it; beside one that would read the same, with all its decimals.
fn told(amount: Money, beside: Money) -> String {
    let shown = amount.to_string();
    if shown == beside.to_string() {
        exact(amount)
    } else {
        shown
    }
}
