//! Mean and variance of values that come one by one, or in parts.

/// Sums after Welford (1962); parts are put together after Chan, Golub and LeVeque, "Updating
/// formulae and a pairwise algorithm for computing sample variances", 1979.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Moments {
    count: u64,
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
}

impl Moments {
    pub(super) fn add(&mut self, value: f64) {
        self.merge(Self {
            count: 1,
            mean: value,
            squares: 0.0,
        });
    }

    pub(super) fn add_zeros(&mut self, count: u64) {
        self.merge(Self {
            count,
            ..Self::default()
        });
    }

    pub(super) fn merge(&mut self, other: Self) {
        if other.count == 0 {
            return;
        }
        let (own, more) = (self.count as f64, other.count as f64);
        let apart = other.mean - self.mean;
        self.count += other.count;
        self.mean += apart * more / (own + more);
        self.squares += other.squares + apart * apart * own * more / (own + more);
    }

    pub(super) const fn count(self) -> u64 {
        self.count
    }

    pub(super) const fn mean(self) -> f64 {
        self.mean
    }

    /// The variance of what these values are a sample of; none of fewer than two.
    pub(super) fn variance(self) -> Option<f64> {
        (self.count >= 2).then(|| self.squares / (self.count - 1) as f64)
    }
}
