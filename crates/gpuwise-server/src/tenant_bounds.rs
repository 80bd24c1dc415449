//! How much of a broker one tenant may take: leases that wait, bytes of a request, streams of events, usage that is told
//! at once.

use crate::http::Problem;
use axum::http::StatusCode;
use gpuwise_wire::broker::LeaseAsk;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// What each tenant may have at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantBounds {
    /// Leases that wait for their first place; `None`: no bound.
    pub waiting: Option<u32>,
    /// Bytes of a request for a lease, with its command and environment, as JSON.
    pub lease_bytes: u64,
    /// Streams of events at once; tokens of no tenant have as many together.
    pub streams: u32,
}

/// Whether a request for a lease is small enough to be kept, as the log keeps it.
pub(crate) fn check_size(ask: &LeaseAsk, most: u64) -> Result<(), Problem> {
    let text = serde_json::to_vec(ask);
    let text = text.map_err(|error| Problem::invalid("lease", error.to_string()))?;
    let bytes = text.len() as u64;
    if bytes <= most {
        return Ok(());
    }
    let what = format!(
        "a request for a lease has {bytes} B with its command and environment, and {most} B at most are kept: put \
         what is large into a file that the command reads (the broker's --lease-size is the bound)"
    );
    let status = StatusCode::PAYLOAD_TOO_LARGE;
    Err(Problem::new(status, "lease-size", what))
}

/// Streams of events that there are, by tenant.
#[derive(Debug, Clone)]
pub(crate) struct EventStreams {
    most: u32,
    open: Arc<Mutex<BTreeMap<Option<String>, u32>>>,
}

/// A stream that counts while it is there.
#[derive(Debug)]
pub(crate) struct CountedStream {
    streams: EventStreams,
    tenant: Option<String>,
}

impl EventStreams {
    pub(crate) fn new(most: u32) -> Self {
        Self {
            most,
            open: Arc::default(),
        }
    }

    /// Counts a stream of a tenant.
    ///
    /// # Errors
    /// When it is one too many.
    pub(crate) fn open(&self, tenant: Option<&str>) -> Result<CountedStream, Problem> {
        let tenant = tenant.map(str::to_owned);
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(tenant.clone()).or_default();
        if *count >= self.most {
            let of = match &tenant {
                Some(tenant) => format!("tenant {tenant:?} has"),
                None => "tokens of no tenant have".to_owned(),
            };
            let what = format!(
                "{of} {count} streams of events, as many as there may be at once: close one first (the broker's \
                 --tenant-streams is the bound)"
            );
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "streams", what);
            return Err(problem.later(AGAIN));
        }
        *count += 1;
        Ok(CountedStream {
            streams: self.clone(),
            tenant,
        })
    }
}

/// Seconds after which a stream is worth another try.
const AGAIN: u32 = 10;

impl Drop for CountedStream {
    fn drop(&mut self) {
        let mut all = self
            .streams
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.tenant) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                all.remove(&self.tenant);
            }
        }
    }
}

/// Bytes of usage that one tenant may have under way: two requests of the largest, or many small ones. All changes are
/// written one after the other, and those of others wait behind them.
const USAGE: usize = 2 * crate::http::LARGEST;

/// Seconds after which usage is worth another try.
const USAGE_AGAIN: u32 = 1;

/// Bytes of usage that are read, or wait to be written, by tenant.
#[derive(Debug, Clone, Default)]
pub(crate) struct UsageUnderWay(Arc<Mutex<BTreeMap<Option<String>, usize>>>);

/// Usage that counts until it is answered.
#[derive(Debug)]
pub(crate) struct CountedUsage {
    all: UsageUnderWay,
    tenant: Option<String>,
    bytes: usize,
}

impl UsageUnderWay {
    /// Counts a request of a tenant; tokens of no tenant count together.
    ///
    /// # Errors
    /// When it is one too many.
    pub(crate) fn begin(
        &self,
        tenant: Option<&str>,
        bytes: usize,
    ) -> Result<CountedUsage, Problem> {
        let tenant = tenant.map(str::to_owned);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.get(&tenant).copied().unwrap_or(0);
        let after = before.saturating_add(bytes);
        if after > USAGE {
            let of = match &tenant {
                Some(tenant) => format!("tenant {tenant:?} has"),
                None => "tokens of no tenant have".to_owned(),
            };
            let what = format!(
                "{of} {before} B of usage under way, and {USAGE} B at most are taken at once: send the next request when \
                 one is answered"
            );
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "usage", what);
            return Err(problem.later(USAGE_AGAIN));
        }
        all.insert(tenant.clone(), after);
        Ok(CountedUsage {
            all: self.clone(),
            tenant,
            bytes,
        })
    }
}

impl Drop for CountedUsage {
    fn drop(&mut self) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(under_way) = all.get_mut(&self.tenant) {
            *under_way = under_way.saturating_sub(self.bytes);
            if *under_way == 0 {
                all.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_under_way_is_bounded_by_tenant_until_it_is_answered() {
        let usage = UsageUnderWay::default();
        let large = crate::http::LARGEST;
        let one = usage.begin(Some("a"), large).expect("is free");
        let two = usage.begin(Some("a"), large).expect("is free");
        let said = usage.begin(Some("a"), 1).expect_err("is too much");
        let said = said.document();
        assert_eq!(said.status, 429);
        assert!(
            said.detail.contains("when one is answered"),
            "{}",
            said.detail
        );
        let other = usage.begin(Some("b"), large).expect("is another's");
        let none = usage.begin(None, large).expect("is another's");
        drop(one);
        let small: Vec<_> = (0..1024)
            .map(|_| usage.begin(Some("a"), large / 1024))
            .collect();
        assert!(small.iter().all(Result::is_ok));
        assert!(usage.begin(Some("a"), 1).is_err());
        drop((two, other, none, small));
        let left = usage.0.lock().expect("is free");
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn streams_count_by_tenant_and_while_they_are_there() {
        let streams = EventStreams::new(2);
        let one = streams.open(Some("a")).expect("is free");
        let two = streams.open(Some("a")).expect("is free");
        let said = streams
            .open(Some("a"))
            .expect_err("is one too many")
            .document();
        assert_eq!(said.status, 429);
        assert!(said.detail.contains("--tenant-streams"), "{}", said.detail);
        let none = streams.open(None).expect("is another's");
        let other = streams.open(Some("b")).expect("is another's");
        drop(one);
        let three = streams.open(Some("a")).expect("is free again");
        drop((two, three, none, other));
        let open = streams.open.lock().expect("is free");
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn all_of_a_request_that_is_kept_counts() {
        let mut ask = LeaseAsk {
            command: vec!["12345".into()],
            ..LeaseAsk::default()
        };
        let bytes = |ask: &LeaseAsk| serde_json::to_vec(ask).expect("is JSON").len() as u64;
        let most = bytes(&ask);
        assert!(check_size(&ask, most).is_ok());
        ask.env.insert("A".into(), "x".repeat(100));
        let said = check_size(&ask, most).expect_err("is too large").document();
        assert_eq!(said.status, 413);
        assert!(said.detail.contains("--lease-size"), "{}", said.detail);
        ask.env.clear();
        ask.features.push("x".repeat(100));
        assert!(check_size(&ask, most).is_err());
        assert!(check_size(&ask, bytes(&ask)).is_ok());
    }
}
