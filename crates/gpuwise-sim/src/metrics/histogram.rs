//! Counts of values in buckets whose width grows with the value.

/// Digits of a histogram that stands for all values of a run.
pub(super) const FINE: u32 = 10;
/// For plots over time: 1.6 % of the value.
pub(super) const COARSE: u32 = 5;

/// A histogram of whole numbers: exact below `2 · 2^bits`, then `2^bits` buckets between a power of
/// two and the next. A value is told as the middle of its bucket, at most `1 / 2^(bits + 1)` of it
/// away: 0.05 % with 10 bits. Only stretches that hold values take memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    bits: u32,
    pages: Vec<Option<Box<[u64]>>>,
    count: u64,
    sum: u128,
    minimum: u64,
    maximum: u64,
}

impl Histogram {
    /// An empty one with `2^bits` buckets for each doubling; `bits` is at most 16.
    pub fn new(bits: u32) -> Self {
        Self {
            bits: bits.min(16),
            pages: Vec::new(),
            count: 0,
            sum: 0,
            minimum: u64::MAX,
            maximum: 0,
        }
    }

    /// Adds a value `weight` times.
    pub fn add(&mut self, value: u64, weight: u64) {
        if weight == 0 {
            return;
        }
        self.count = self.count.saturating_add(weight);
        self.sum = self
            .sum
            .saturating_add(u128::from(value) * u128::from(weight));
        self.minimum = self.minimum.min(value);
        self.maximum = self.maximum.max(value);
        self.count_in(self.place(value), weight);
    }

    /// Adds `first`, `first + increment`, … `count` of them, each `weight` times, at the price of the
    /// buckets that they fall into.
    pub fn add_progression(&mut self, first: u64, increment: u64, count: u64, weight: u64) {
        let Some(last_step) = count.checked_sub(1) else {
            return;
        };
        if increment == 0 || weight == 0 {
            self.add(first, weight.saturating_mul(count));
            return;
        }
        let last = first.saturating_add(increment.saturating_mul(last_step));
        self.count = self.count.saturating_add(weight.saturating_mul(count));
        // The mean of first and last, times how many.
        let pairs = (u128::from(first) + u128::from(last)) * u128::from(count);
        self.sum = self.sum.saturating_add(pairs * u128::from(weight) / 2);
        self.minimum = self.minimum.min(first);
        self.maximum = self.maximum.max(last);
        let (mut value, mut left) = (first, count);
        while left > 0 {
            let place = self.place(value);
            let (_, end) = self.bounds(place);
            let inside = ((end - value) / increment + 1).min(left);
            self.count_in(place, weight.saturating_mul(inside));
            left -= inside;
            value = value.saturating_add(increment.saturating_mul(inside));
        }
    }

    /// Adds all of another one with as many bits.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.minimum = self.minimum.min(other.minimum);
        self.maximum = self.maximum.max(other.maximum);
        for (place, weight) in other.buckets() {
            let (low, _) = other.bounds(place);
            self.count_in(self.place(low), weight);
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum, exactly.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The lowest and the highest, exactly; `None` without values.
    pub fn range(&self) -> Option<(u64, u64)> {
        (self.count > 0).then_some((self.minimum, self.maximum))
    }

    /// The values at ranks from 0 in rising order, one for each; the first and the last are exact.
    pub fn at_ranks(&self, ranks: &[u64]) -> Vec<f64> {
        let mut out = Vec::with_capacity(ranks.len());
        let mut below = 0_u64;
        let mut buckets = self.buckets();
        let mut bucket = buckets.next();
        for rank in ranks {
            while let Some((_, weight)) = bucket {
                if *rank < below + weight {
                    break;
                }
                below += weight;
                bucket = buckets.next();
            }
            out.push(match bucket {
                Some(_) if *rank == 0 => self.minimum as f64,
                Some((place, _)) if *rank + 1 < self.count => self.middle(place),
                _ => self.maximum as f64,
            });
        }
        out
    }

    /// A value at a fraction of 1, between neighbours in proportion; `None` without values.
    pub fn quantile(&self, fraction: f64) -> Option<f64> {
        let last = self.count.checked_sub(1)?;
        let rank = fraction.clamp(0.0, 1.0) * last as f64;
        let lower = rank as u64;
        let values = self.at_ranks(&[lower, (lower + 1).min(last)]);
        match values.as_slice() {
            [low, high] => Some(super::samples::between(*low, *high, rank - lower as f64)),
            _ => None,
        }
    }

    /// The sum of squared distances from `centre`.
    pub(super) fn squares_around(&self, centre: f64) -> f64 {
        self.buckets().fold(0.0, |sum, (place, weight)| {
            let distance = self.middle(place) - centre;
            sum + distance * distance * weight as f64
        })
    }

    fn buckets(&self) -> impl Iterator<Item = (usize, u64)> {
        let pages = self.pages.iter().enumerate();
        pages
            .filter_map(|(page, counts)| Some((page, counts.as_deref()?)))
            .flat_map(|(page, counts)| {
                let start = page << self.bits;
                counts
                    .iter()
                    .enumerate()
                    .map(move |(at, weight)| (start + at, *weight))
            })
            .filter(|(_, weight)| *weight > 0)
    }

    fn place(&self, value: u64) -> usize {
        let shift = (value | 1).ilog2().saturating_sub(self.bits);
        ((shift as usize) << self.bits) + (value >> shift) as usize
    }

    /// The lowest and the highest value of a bucket.
    fn bounds(&self, place: usize) -> (u64, u64) {
        let shift = (place >> self.bits).saturating_sub(1);
        let low = ((place - (shift << self.bits)) as u64) << shift;
        (low, low + ((1_u64 << shift) - 1))
    }

    fn middle(&self, place: usize) -> f64 {
        let (low, high) = self.bounds(place);
        let middle = low as f64 + (high - low) as f64 / 2.0;
        middle.clamp(self.minimum as f64, self.maximum as f64)
    }

    fn count_in(&mut self, place: usize, weight: u64) {
        let (page, at) = (place >> self.bits, place & ((1 << self.bits) - 1));
        if self.pages.len() <= page {
            self.pages.resize(page + 1, None);
        }
        if let Some(slot) = self.pages.get_mut(page) {
            let counts = slot.get_or_insert_with(|| vec![0; 1 << self.bits].into());
            if let Some(count) = counts.get_mut(at) {
                *count = count.saturating_add(weight);
            }
        }
    }
}
