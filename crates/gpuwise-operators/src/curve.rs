use crate::Spread;
use alloc::vec::Vec;

/// Points per doubling.
const STEPS: f64 = 4.0;
/// Doublings: up to a million tokens.
const DOUBLINGS: usize = 20;

/// Seconds against one size (tokens or bytes), for everything else fixed: never falls.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Size of the first knot.
    first: f64,
    /// Natural logarithms of seconds at sizes `first · 2^(i / STEPS)`.
    knots: Vec<f64>,
    /// Those below which the silicon cannot be.
    floors: Vec<f64>,
    spread: Spread,
}

impl Curve {
    /// The curve of a function of the size, raised where it would fall; the function gives the time
    /// and the silicon's floor.
    pub(crate) fn new(first: f64, spread: Spread, seconds: impl Fn(f64) -> (f64, f64)) -> Self {
        let count = DOUBLINGS * STEPS as usize + 1;
        let (mut knots, mut floors): (Vec<f64>, Vec<f64>) = (0..count)
            .map(|i| seconds(first * libm::exp2(i as f64 / STEPS)))
            .map(|(time, floor)| (libm::log(time), libm::log(floor)))
            .unzip();
        for values in [&mut knots, &mut floors] {
            for i in 1..values.len() {
                values[i] = values[i].max(values[i - 1]);
            }
        }
        Self {
            first,
            knots,
            floors,
            spread,
        }
    }

    /// Seconds at this size. Below the first knot as there; beyond the last in proportion.
    pub fn at(&self, size: f64) -> f64 {
        self.along(&self.knots, size)
    }

    /// Low and high end of the 80 % range at this size; the low end keeps to what silicon can do.
    pub fn range(&self, size: f64) -> (f64, f64) {
        let seconds = self.at(size);
        let floor = self.along(&self.floors, size).min(seconds);
        let low = (seconds * self.spread.low).max(floor);
        (low, seconds * self.spread.high)
    }

    fn along(&self, knots: &[f64], size: f64) -> f64 {
        let x = (libm::log2(size / self.first) * STEPS).max(0.0);
        let lower = x as usize;
        if let (Some(from), Some(to)) = (knots.get(lower), knots.get(lower + 1)) {
            return libm::exp(from + (to - from) * (x - lower as f64));
        }
        let last = knots.last().copied().unwrap_or(0.0);
        let over = x - (knots.len() - 1) as f64;
        libm::exp(last) * libm::exp2(over / STEPS)
    }

    /// How far it may be off, as factors that know no floor.
    pub fn spread(&self) -> Spread {
        self.spread
    }
}
