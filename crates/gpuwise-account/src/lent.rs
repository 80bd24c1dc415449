//! What was kept for a tenant, and lent to others meanwhile.

use crate::{
    period::Interval,
    prices::Asked,
    usage::{Granted, Sharing, Spans},
};
use gpuwise_domain::offer::Terms;
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// A device, or a part of one, that was kept for a tenant and that another had.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Loan {
    /// For whom it was kept, and the lease that had given it up.
    pub tenant: String,
    pub lease: String,
    /// Who had it: by whose price it earns.
    pub borrower: String,
    pub device: String,
    pub kind: String,
    pub granted: Granted,
    pub isolation: Sharing,
    pub class: Terms,
}

impl Loan {
    /// What the borrower's price is asked for.
    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked {
            tenant: &self.borrower,
            kind: &self.kind,
            granted: &self.granted,
            isolation: self.isolation,
            class: self.class,
        }
    }
}

/// All loans, and when each was.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Lent {
    /// By the tenant for whom it was kept.
    loans: BTreeMap<String, BTreeMap<Loan, Spans>>,
}

impl Lent {
    /// A loan lasted so long; what is known already counts once.
    pub fn add(&mut self, loan: Loan, time: Interval) {
        if time.is_empty() {
            return;
        }
        let own = self.loans.entry(loan.tenant.clone()).or_default();
        own.entry(loan).or_default().insert(time);
    }

    /// What a tenant lent, and when.
    pub fn of(&self, tenant: &str) -> impl Iterator<Item = (&Loan, &Spans)> {
        self.loans.get(tenant).into_iter().flatten()
    }

    /// When a device was lent.
    pub fn of_device(&self, device: &str) -> Spans {
        let mut spans = Spans::default();
        for (loan, own) in self.loans.values().flatten() {
            if loan.device == device {
                own.iter().for_each(|span| spans.insert(span));
            }
        }
        spans
    }

    /// Tenants that lent anything.
    pub fn tenants(&self) -> impl Iterator<Item = &str> {
        self.loans.keys().map(String::as_str)
    }

    /// One tenant's alone, to which others can be added without changing these.
    #[must_use]
    pub(crate) fn only(&self, tenant: &str) -> Self {
        let own = self.loans.get_key_value(tenant);
        let own = own.map(|(name, loans)| (name.clone(), loans.clone()));
        Self {
            loans: own.into_iter().collect(),
        }
    }

    /// Forgets what ended before a moment.
    pub(crate) fn forget(&mut self, before: Nanoseconds) {
        for own in self.loans.values_mut() {
            own.retain(|_, spans| {
                spans.forget(before);
                spans.iter().next().is_some()
            });
        }
        self.loans.retain(|_, own| !own.is_empty());
    }
}
