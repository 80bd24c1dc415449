//! Which records were counted, by whose they are.

use super::{Principal, UsageRecord, ids::Ids};
use crate::period::Month;
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// Ids by source.
type Sources = BTreeMap<String, Ids>;

/// Ids of counted records, by the month in which the records end, principal, lease and source: an id is unique within
/// these, so that a record of one principal or lease never stands for one of another.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Counted {
    months: BTreeMap<Month, BTreeMap<Principal, BTreeMap<String, Sources>>>,
}

/// What tells a record from all others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(super) struct RecordKey {
    principal: Principal,
    lease: String,
    source: String,
    id: String,
}

impl RecordKey {
    pub(super) fn of(record: &UsageRecord) -> Self {
        Self {
            principal: record.principal.clone(),
            lease: scope(&record.principal, record).to_owned(),
            source: record.source.clone(),
            id: record.id.clone(),
        }
    }
}

/// The lease within which ids are unique. The broker numbers its own grants through all leases.
fn scope<'r>(principal: &Principal, record: &'r UsageRecord) -> &'r str {
    match principal {
        Principal::Broker => "",
        Principal::Collector | Principal::Client(_) => &record.lease,
    }
}

impl Counted {
    pub(super) fn contains(&self, record: &UsageRecord) -> bool {
        // Logs from before principals were kept have records of clients as the collector's.
        let before = match &record.principal {
            Principal::Client(_) => Some(&Principal::Collector),
            Principal::Broker | Principal::Collector => None,
        };
        self.has(&record.principal, record)
            || before.is_some_and(|principal| self.has(principal, record))
    }

    fn has(&self, principal: &Principal, record: &UsageRecord) -> bool {
        self.months.values().rev().any(|principals| {
            let leases = principals.get(principal);
            let sources = leases.and_then(|leases| leases.get(scope(principal, record)));
            let ids = sources.and_then(|sources| sources.get(&record.source));
            ids.is_some_and(|ids| ids.contains(&record.id))
        })
    }

    pub(super) fn insert(&mut self, record: &UsageRecord) {
        let principals = self.months.entry(Month::of(record.end)).or_default();
        let lease = scope(&record.principal, record);
        with(principals, &record.principal, |leases| {
            with(leases, lease, |sources| {
                with(sources, record.source.as_str(), |ids| {
                    ids.insert(&record.id);
                });
            });
        });
    }

    /// Forgets months whose records are so old that they are not taken any more.
    pub(super) fn forget(&mut self, now: Nanoseconds, behind: Nanoseconds) {
        self.months
            .retain(|month, _| month.interval().end + behind >= now);
    }
}

/// Changes the value of a key, which is copied only where it is new.
fn with<K, Q, V>(map: &mut BTreeMap<K, V>, key: &Q, change: impl FnOnce(&mut V))
where
    K: Ord + std::borrow::Borrow<Q>,
    Q: Ord + ToOwned<Owned = K> + ?Sized,
    V: Default,
{
    if let Some(value) = map.get_mut(key) {
        change(value);
        return;
    }
    change(map.entry(key.to_owned()).or_default());
}
