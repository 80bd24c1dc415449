//! Accounts of tenants at the system that runs their jobs: what that keeps of them.

use gpuwise_wire::broker::AccountAnswer;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock},
};

/// Which account jobs are charged to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountNames {
    /// That of tenants that have none of their own; `None`: the system's own choice.
    pub usual: Option<String>,
    /// By tenant.
    pub of: BTreeMap<String, String>,
}

impl AccountNames {
    pub(crate) fn of_tenant(&self, tenant: &str) -> Option<&str> {
        self.of
            .get(tenant)
            .or(self.usual.as_ref())
            .map(String::as_str)
    }

    /// All of them, once each.
    pub(crate) fn all(&self) -> BTreeSet<&str> {
        self.of
            .values()
            .chain(&self.usual)
            .map(String::as_str)
            .collect()
    }
}

/// What is said of accounts. Written by an executor, read by whoever answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Accounts(Arc<RwLock<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    names: AccountNames,
    said: BTreeMap<String, AccountAnswer>,
}

impl Accounts {
    /// These are the accounts.
    pub(crate) fn name(&self, names: AccountNames) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).names = names;
    }

    /// This is said of accounts, by name, and nothing of others.
    pub(crate) fn set(&self, said: BTreeMap<String, AccountAnswer>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).said = said;
    }

    /// What is said of a tenant's; `None`: it has none, or it was not asked for yet.
    pub(crate) fn of(&self, tenant: &str) -> Option<AccountAnswer> {
        let inner = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let name = inner.names.of_tenant(tenant)?;
        inner.said.get(name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_without_an_account_has_the_usual_one() {
        let names = AccountNames {
            usual: Some("rest".into()),
            of: BTreeMap::from([("vision".into(), "ml".into())]),
        };
        assert_eq!(names.of_tenant("vision"), Some("ml"));
        assert_eq!(names.of_tenant("batch"), Some("rest"));
        assert_eq!(names.all(), BTreeSet::from(["ml", "rest"]));
        let accounts = Accounts::default();
        accounts.name(names);
        assert_eq!(accounts.of("batch"), None);
        let one = AccountAnswer {
            name: "rest".into(),
            ..AccountAnswer::default()
        };
        accounts.set(BTreeMap::from([("rest".into(), one.clone())]));
        assert_eq!(accounts.of("batch"), Some(one));
    }
}
