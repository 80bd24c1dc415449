//! How much a tenant may ask: so many requests a second, and as many at once after a rest.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// Requests of each tenant in a second.
#[derive(Debug)]
pub(crate) struct Limits {
    each: Option<f64>,
    /// What each has left, and as of when.
    left: Mutex<BTreeMap<String, (f64, Instant)>>,
}

/// Seconds of requests that may come at once.
const BURST: f64 = 2.0;

impl Limits {
    pub(crate) fn new(each: Option<u32>) -> Self {
        Self {
            each: each.map(f64::from),
            left: Mutex::new(BTreeMap::new()),
        }
    }

    /// Counts a request; seconds until it may be made, where it is one too many.
    pub(crate) fn take(&self, tenant: &str, now: Instant) -> Result<(), u32> {
        let Some(each) = self.each else {
            return Ok(());
        };
        let mut all = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let most = each * BURST;
        if !all.contains_key(tenant) {
            all.insert(tenant.to_owned(), (most, now));
        }
        let Some((left, since)) = all.get_mut(tenant) else {
            return Ok(());
        };
        let passed = now.saturating_duration_since(*since).as_secs_f64();
        *left = (*left + passed * each).min(most);
        *since = now;
        if *left >= 1.0 {
            *left -= 1.0;
            Ok(())
        } else {
            Err(((1.0 - *left) / each).ceil().max(1.0) as u32)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_tenant_has_so_many_a_second_and_others_theirs() {
        let limits = Limits::new(Some(10));
        let start = Instant::now();
        let taken = |tenant: &str, at: Duration| {
            let all = (0..100).filter(|_| limits.take(tenant, start + at).is_ok());
            all.count()
        };
        assert_eq!(taken("a", Duration::ZERO), 20);
        assert_eq!(taken("a", Duration::from_millis(500)), 5);
        assert_eq!(taken("b", Duration::from_millis(500)), 20);
        let later = Duration::from_mins(1);
        assert_eq!(taken("a", later), 20);
        assert_eq!(limits.take("a", start + later), Err(1));
        let none = Limits::new(None);
        assert!((0..1000).all(|_| none.take("a", start).is_ok()));
    }
}
