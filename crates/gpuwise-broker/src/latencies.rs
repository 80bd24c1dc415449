//! Latencies on one grid of buckets, so that those of different sources can be added.

use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::LatencyHistogram;
use std::collections::BTreeMap;

/// The first bucket ends here; each further one a tenth later: 165 of them reach 10 minutes.
const FIRST: u64 = 100_000;
const BUCKETS: u8 = 165;

/// Counts by bucket of the grid, with the exact sum of what was told.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Latencies {
    counts: BTreeMap<u8, u64>,
    pub count: u64,
    sum_ns: u64,
}

/// The upper bound of a bucket.
fn bound(bucket: u8) -> u64 {
    (0..bucket).fold(FIRST, |bound, _| bound + bound / 10)
}

/// The first bucket that ends at or after a time.
fn bucket_of(nanoseconds: u64) -> u8 {
    let mut end = FIRST;
    for bucket in 0..BUCKETS {
        // Bounds of others are decimals: a millionth is no bucket more.
        if nanoseconds <= end + end / 1_000_000 {
            return bucket;
        }
        end += end / 10;
    }
    BUCKETS
}

impl Latencies {
    /// Adds what was told, every request at the upper bound of its bucket; above the last bound: at the
    /// mean of those above, as far as the sum tells it.
    pub(crate) fn add(&mut self, told: &LatencyHistogram) {
        for (place, count) in told.counts.iter().enumerate() {
            if *count == 0 {
                continue;
            }
            let seconds = told.bounds.get(place).or(told.bounds.last());
            let nanoseconds = seconds.map_or(0, |seconds| (seconds * 1e9) as u64);
            let above = u8::from(place >= told.bounds.len());
            let sums = self
                .counts
                .entry((bucket_of(nanoseconds) + above).min(BUCKETS))
                .or_default();
            *sums = sums.saturating_add(*count);
            self.count = self.count.saturating_add(*count);
        }
        self.sum_ns = self.sum_ns.saturating_add((told.sum * 1e9) as u64);
    }

    pub(crate) fn plus(&mut self, other: &Self) {
        for (bucket, count) in &other.counts {
            let sum = self.counts.entry(*bucket).or_default();
            *sum = sum.saturating_add(*count);
        }
        self.count = self.count.saturating_add(other.count);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// The mean; `None`: there were none.
    pub fn mean(&self) -> Option<Nanoseconds> {
        Some(Nanoseconds(self.sum_ns.checked_div(self.count)?))
    }

    /// The upper bound of the bucket that holds a quantile, by thousandths; `None`: there were none.
    pub fn at(&self, milli: u32) -> Option<Nanoseconds> {
        let wanted = u128::from(self.count) * u128::from(milli);
        let mut sum = 0;
        for (bucket, count) in &self.counts {
            sum += u128::from(*count) * 1000;
            if sum >= wanted {
                return Some(Nanoseconds(bound(*bucket)));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_within_a_tenth_above() {
        let mut all = Latencies::default();
        all.add(&LatencyHistogram {
            bounds: vec![0.02, 0.04, 1.0],
            counts: vec![90, 9, 1, 0],
            sum: 3.0,
        });
        let near = |milli: u32, seconds: f64| {
            let at = all.at(milli).expect("some").seconds().get();
            assert!((seconds * 0.999..seconds * 1.1).contains(&at), "{at}");
        };
        near(500, 0.02);
        near(950, 0.04);
        near(1000, 1.0);
        assert_eq!(all.mean(), Some(Nanoseconds(30_000_000)));
        assert_eq!(Latencies::default().at(500), None);
    }
}
