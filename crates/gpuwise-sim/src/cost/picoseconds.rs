//! Durations of steps.

use core::num::NonZeroU64;

/// A duration that is never zero, negative or not a number: a step that took no time would give its
/// work away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Picoseconds(NonZeroU64);

/// Picoseconds of a second.
const SECOND: f64 = 1e12;

impl Picoseconds {
    /// So many, where it is not zero.
    pub const fn new(picoseconds: u64) -> Option<Self> {
        match NonZeroU64::new(picoseconds) {
            Some(picoseconds) => Some(Self(picoseconds)),
            None => None,
        }
    }

    /// So many, and at least one: for exact integers, among which a picosecond is the least there is.
    pub const fn at_least_one(picoseconds: u64) -> Self {
        match NonZeroU64::new(picoseconds) {
            Some(picoseconds) => Self(picoseconds),
            None => Self(NonZeroU64::MIN),
        }
    }

    /// The nearest to an estimate in seconds. `None` for what is no duration: not a number, infinite,
    /// negative, or so short that it rounds to nothing.
    ///
    /// ```
    /// use gpuwise_sim::cost::Picoseconds;
    /// assert_eq!(Picoseconds::from_seconds(2e-3).map(Picoseconds::get), Some(2_000_000_000));
    /// for none in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e-13] {
    ///     assert_eq!(Picoseconds::from_seconds(none), None);
    /// }
    /// ```
    pub fn from_seconds(seconds: f64) -> Option<Self> {
        let picoseconds = libm::round(seconds * SECOND);
        if picoseconds.is_finite() && picoseconds >= 1.0 {
            Self::new(picoseconds as u64)
        } else {
            None
        }
    }

    pub const fn get(self) -> u64 {
        self.0.get()
    }
}
