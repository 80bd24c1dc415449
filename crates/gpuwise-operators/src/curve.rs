use crate::Spread;
use alloc::vec::Vec;

/// Bits of the mantissa that tell knots of a doubling apart: four of them.
const STEP_BITS: u32 = 2;
const STEPS: usize = 1 << STEP_BITS;
/// Doublings: up to a million tokens.
const DOUBLINGS: usize = 20;
const MANTISSA: u32 = f64::MANTISSA_DIGITS - 1;

/// Seconds against one size (tokens or bytes), for everything else fixed: never falls. Straight
/// between knots, so that asking takes no logarithm.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// One over the size of the first knot.
    scale: f64,
    /// Seconds at sizes `first · 2^e · (1 + j / STEPS)`.
    knots: Vec<f64>,
    /// Those below which the silicon cannot be.
    floors: Vec<f64>,
    spread: Spread,
}

impl Curve {
    /// The curve of a function of the size, raised where it would fall, and lowered where twice the
    /// size would take more than twice the time: an engine can launch a kernel twice. The function
    /// gives the time and the silicon's floor.
    pub(crate) fn new(first: f64, spread: Spread, seconds: impl Fn(f64) -> (f64, f64)) -> Self {
        let size = |i: usize| {
            let doubled = (1_u64 << (i / STEPS)) as f64;
            first * doubled * (1.0 + (i % STEPS) as f64 / STEPS as f64)
        };
        let (mut knots, mut floors): (Vec<f64>, Vec<f64>) =
            (0..=DOUBLINGS * STEPS).map(|i| seconds(size(i))).unzip();
        for values in [&mut knots, &mut floors] {
            for i in 1..values.len() {
                values[i] = values[i].max(values[i - 1]);
                if i >= STEPS {
                    values[i] = values[i].min(2.0 * values[i - STEPS]);
                }
            }
        }
        Self {
            scale: 1.0 / first,
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

    /// At each size the faster of two over the same sizes.
    pub(crate) fn faster(&self, other: &Self) -> Self {
        let least = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a.min(*b)).collect();
        Self {
            scale: self.scale,
            knots: least(&self.knots, &other.knots),
            floors: least(&self.floors, &other.floors),
            spread: self.spread,
        }
    }

    fn along(&self, knots: &[f64], size: f64) -> f64 {
        // From 1 on, the exponent of a number is the doubling it lies in, and its mantissa how far.
        let x = (size * self.scale).max(1.0);
        let bits = x.to_bits();
        let lower =
            (bits >> (MANTISSA - STEP_BITS)) as usize - (ONE >> (MANTISSA - STEP_BITS)) as usize;
        if let (Some(from), Some(to)) = (knots.get(lower), knots.get(lower + 1)) {
            let within = bits & ((1 << (MANTISSA - STEP_BITS)) - 1);
            let share = within as f64 / (1_u64 << (MANTISSA - STEP_BITS)) as f64;
            return from + (to - from) * share;
        }
        let last = knots.last().copied().unwrap_or(0.0);
        last * x / (1_u64 << DOUBLINGS) as f64
    }

    /// How far it may be off, as factors that know no floor.
    pub fn spread(&self) -> Spread {
        self.spread
    }
}

/// Bits of 1.0, whose exponent is the first.
const ONE: u64 = 1.0_f64.to_bits();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Basis;
    use proptest::prelude::*;

    const SPREAD: Spread = Spread {
        low: 0.9,
        high: 1.1,
        basis: Basis::Measured,
    };

    fn curve(first: f64) -> Curve {
        // Falls in places.
        Curve::new(first, SPREAD, |x| (3.0 + x * (1.5 + libm::sin(x)), 2.0 + x))
    }

    #[test]
    fn knots_are_met_and_what_lies_beyond_is_in_proportion() {
        let straight = Curve::new(1024.0, SPREAD, |x| (x, x));
        for x in [1024.0, 1280.0, 1300.0, 2047.0, 2048.0, 123_456.0, 5e9] {
            assert!((straight.at(x) / x - 1.0).abs() < 1e-12, "{x}");
        }
        assert!((straight.at(1.0) - 1024.0).abs() < 1e-9);
        assert!((straight.at(f64::NAN) - 1024.0).abs() < 1e-9);
        assert!((straight.at(0.0) - 1024.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn it_never_falls(x in 0.0..25.0_f64, step in 0.0..4.0_f64) {
            let curve = curve(1.0);
            let (from, to) = (libm::exp2(x), libm::exp2(x + step));
            prop_assert!(curve.at(to) >= curve.at(from));
            prop_assert!(curve.range(from).0 <= curve.at(from));
        }
    }
}
