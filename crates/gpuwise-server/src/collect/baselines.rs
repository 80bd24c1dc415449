//! From where on each source is counted: intervals follow each other without a gap, whatever becomes of a write.
//!
//! A source counts since it began. What it did since it was looked at last is its page less the page before, the
//! baseline. The baseline moves once what was told of the interval is durable. Until then the very same interval is
//! told again: where the log had kept it, and the answer alone was lost, it is known by its id and counts once.

use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{LatencyHistogram, ServiceUse, UsageDocument};
use std::collections::BTreeMap;

/// A page of a source, and when it was read.
type Page = (Nanoseconds, ServiceUse);

/// What is known of each source, by the lease that it is of.
#[derive(Debug, Default)]
pub(super) struct Baselines {
    known: BTreeMap<u32, Page>,
    /// What was told and is not known to be kept, with the baseline that it leads to.
    told: BTreeMap<u32, (UsageDocument, Page)>,
}

impl Baselines {
    /// What was read last of a lease's source and is kept.
    pub(super) fn of(&self, lease: u32) -> Option<&Page> {
        self.known.get(&lease)
    }

    /// Begins to count from a page on, where nothing is known yet.
    pub(super) fn begin(&mut self, lease: u32, page: impl FnOnce() -> Page) {
        self.known.entry(lease).or_insert_with(page);
    }

    /// What is to be told of a lease's source, which is now at a page: what was counted since. `None`: it began now, or
    /// what was told before is not kept yet.
    pub(super) fn read(
        &mut self,
        now: Nanoseconds,
        (lease, source): (u32, String),
        page: ServiceUse,
    ) -> Option<UsageDocument> {
        if self.told.contains_key(&lease) {
            return None;
        }
        let counted = self
            .known
            .get(&lease)
            .map(|(since, before)| (*since, counted_since(&page, before)));
        let Some((since, Some(service))) = counted else {
            // It is looked at for the first time, or began anew: it is counted from here on.
            self.known.insert(lease, (now, page));
            return None;
        };
        let document = UsageDocument {
            by: None,
            tenant: None,
            source,
            id: format!("L-{lease}/{}", since.0),
            lease,
            start_ns: since.0,
            end_ns: now.0,
            gpus: Vec::new(),
            service,
        };
        self.told.insert(lease, (document.clone(), (now, page)));
        Some(document)
    }

    /// What was told and is not known to be kept.
    pub(super) fn told(&self) -> Vec<UsageDocument> {
        self.told.values().map(|(told, _)| told.clone()).collect()
    }

    /// What was told is refused as it is: it is counted anew.
    pub(super) fn refused(&mut self) {
        self.told.clear();
    }

    /// What was told is durable: whatever comes is counted from there on.
    pub(super) fn kept(&mut self) {
        let told = std::mem::take(&mut self.told);
        self.known
            .extend(told.into_iter().map(|(lease, (_, page))| (lease, page)));
    }
}

/// What was counted between two pages; `None`: the engine started anew between them.
fn counted_since(now: &ServiceUse, before: &ServiceUse) -> Option<ServiceUse> {
    let since = |now: Option<u64>, before: Option<u64>| match (now, before) {
        (Some(now), Some(before)) => now.checked_sub(before).map(Some),
        (now, _) => Some(now),
    };
    let histogram = |now: &Option<LatencyHistogram>, before: &Option<LatencyHistogram>| {
        let (Some(now), Some(before)) = (now, before) else {
            return Some(now.clone());
        };
        if now.bounds != before.bounds || now.counts.len() != before.counts.len() {
            return None;
        }
        let pairs = now.counts.iter().zip(&before.counts);
        let counts = pairs.map(|(now, before)| now.checked_sub(*before));
        Some(Some(LatencyHistogram {
            bounds: now.bounds.clone(),
            counts: counts.collect::<Option<_>>()?,
            sum: (now.sum - before.sum).max(0.0),
        }))
    };
    Some(ServiceUse {
        prompt_tokens: since(now.prompt_tokens, before.prompt_tokens)?,
        completion_tokens: since(now.completion_tokens, before.completion_tokens)?,
        requests: since(now.requests, before.requests)?,
        failed: since(now.failed, before.failed)?,
        good: None,
        ttft: histogram(&now.ttft, &before.ttft)?,
        tpot: histogram(&now.tpot, &before.tpot)?,
        quality: BTreeMap::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page(requests: u64, counts: [u64; 2]) -> ServiceUse {
        ServiceUse {
            requests: Some(requests),
            ttft: Some(LatencyHistogram {
                bounds: vec![1.0],
                counts: counts.to_vec(),
                sum: requests as f64,
            }),
            ..ServiceUse::default()
        }
    }

    #[test]
    fn pages_are_subtracted_and_a_restart_is_seen() {
        let since = counted_since(&page(10, [9, 1]), &page(4, [4, 0])).expect("goes on");
        assert_eq!(since.requests, Some(6));
        assert_eq!(since.ttft.expect("some").counts, [5, 1]);
        assert_eq!(counted_since(&page(3, [3, 0]), &page(4, [4, 0])), None);
    }

    /// What becomes of a write.
    #[derive(Debug, Clone, Copy)]
    enum Write {
        Kept,
        Refused,
        /// It was kept, and the answer was lost.
        Unsure,
    }

    proptest! {
        /// However often the log refuses a write: what it has of a running source are intervals without a gap or an
        /// overlap, and they sum to what the source counted.
        #[test]
        fn intervals_are_contiguous_across_refused_writes(
            looks in proptest::collection::vec(
                (1_u64..100, 0_u64..50, prop_oneof![
                    Just(Write::Kept), Just(Write::Refused), Just(Write::Unsure),
                ]),
                1..40,
            ),
        ) {
            let mut baselines = Baselines::default();
            baselines.begin(7, || (Nanoseconds(1000), page(0, [0, 0])));
            let mut log: BTreeMap<String, UsageDocument> = BTreeMap::new();
            let (mut now, mut counted) = (1000, 0);
            // One that is kept at last.
            let last = [(1, 0, Write::Kept), (1, 0, Write::Kept)];
            for (time, requests, write) in looks.into_iter().chain(last) {
                now += time;
                counted += requests;
                let source = (7, "gpuwise/gateway".to_owned());
                let mut told = baselines.told();
                if told.is_empty() {
                    let page = page(counted, [counted, 0]);
                    told.extend(baselines.read(Nanoseconds(now), source, page));
                }
                prop_assert_eq!(told.len(), 1);
                if !matches!(write, Write::Refused) {
                    for one in told {
                        // As the meter does: an id counts once.
                        log.entry(one.id.clone()).or_insert(one);
                    }
                }
                if matches!(write, Write::Kept) {
                    baselines.kept();
                }
            }
            let mut kept: Vec<UsageDocument> = log.into_values().collect();
            kept.sort_by_key(|one| one.start_ns);
            let mut end = 1000;
            let mut sum = 0;
            for one in kept {
                prop_assert_eq!(one.start_ns, end);
                end = one.end_ns;
                sum += one.service.requests.unwrap_or(0);
            }
            prop_assert_eq!((end, sum), (now, counted));
        }
    }
}
