//! The law of a product: tiles in waves over the units, what they read on the way, the memory behind
//! them, and what is waited for. Its terms are properties of kernels and of memory systems in units of
//! the silicon (clocks, bytes a clock, shares of a peak), so that they carry over to silicon that
//! nobody timed.

use crate::{Class, Silicon, tables::Weights};

/// How many terms the law has.
pub(crate) const TERMS: usize = 16;

/// A term: what it means, what is believed of it before any row, and how far rows may move that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Term {
    pub(crate) prior: f64,
    /// Standard deviation of its logarithm.
    pub(crate) freedom: f64,
}

/// Terms in the order of [`Law`].
pub(crate) const PRIORS: [Term; TERMS] = [
    // Seconds of a launch in a CUDA graph.
    term(0.8e-6, 0.5),
    // Clocks until the first result: prologue, one trip to memory, epilogue.
    term(3500.0, 0.5),
    // Share of the dense peak that a full unit reaches.
    term(0.85, 0.1),
    // Bytes a clock and unit of operands, what neighbours share counted once for each.
    term(130.0, 0.3),
    // Share of the memory's bandwidth.
    term(0.85, 0.08),
    // Share of the second-level cache that holds what is read again: of two halves that keep a copy
    // each (data-centre chips since A100), and of one.
    term(0.4, 0.3),
    term(0.8, 0.3),
    // Clocks that a step of 64 along k waits.
    term(20.0, 0.7),
    // How sharply the longer of computing and reading rules.
    term(3.0, 0.3),
    // Passes of partial sums where k is split.
    term(3.0, 0.5),
    // Clocks between waves.
    term(600.0, 0.7),
    // Bytes a clock and unit out of the second-level cache.
    term(28.0, 0.2),
    // Clocks of summing up what a split of k left.
    term(3000.0, 0.7),
    // Clocks of the kernels that quantise activations.
    term(2500.0, 0.5),
    // Bytes that quantising moves an element.
    term(5.0, 0.3),
    // Clocks of a unit an element.
    term(0.7, 0.4),
];

const fn term(prior: f64, freedom: f64) -> Term {
    Term { prior, freedom }
}

/// Values of the [terms](PRIORS).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Law(pub(crate) [f64; TERMS]);

impl Law {
    /// Before any row.
    pub(crate) fn prior() -> Self {
        Self(PRIORS.map(|term| term.prior))
    }
}

/// A product on silicon, as the law looks at it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Product {
    /// Tokens, outputs, inputs.
    sizes: [f64; 3],
    /// Bytes of a weight and of an activation as they are multiplied; results have two.
    operands: [f64; 2],
    /// Whether activations are quantised on the way.
    quantised: bool,
    weights: Weights,
    /// FLOP/s, dense, in what it multiplies.
    peak: f64,
    bandwidth: f64,
    units: f64,
    clock: f64,
    l2: f64,
    /// Whether the second-level cache is one, or two halves that keep a copy each.
    whole: bool,
}

impl Product {
    /// That of m tokens, n outputs and k inputs; `quantised` is the bytes of an activation after its
    /// quantisation.
    pub(crate) fn new(
        silicon: &Silicon,
        sizes: [f64; 3],
        weight_bytes: f64,
        quantised: Option<f64>,
        peak: f64,
        weights: Weights,
    ) -> Self {
        Self {
            sizes,
            operands: [weight_bytes, quantised.unwrap_or(2.0)],
            quantised: quantised.is_some(),
            weights,
            peak,
            bandwidth: silicon.bandwidth,
            units: silicon.units,
            clock: silicon.clock,
            l2: silicon.l2,
            whole: silicon.class == Class::Gddr,
        }
    }
}

/// Rows and columns of results that kernels compute in one go.
const TILES: [[f64; 2]; 8] = [
    [64.0, 64.0],
    [128.0, 64.0],
    [64.0, 128.0],
    [128.0, 128.0],
    [64.0, 256.0],
    [256.0, 64.0],
    [128.0, 256.0],
    [256.0, 128.0],
];
/// Into how many parts k may be split at most: kernels that quantise split less.
const SPLITS: [f64; 2] = [32.0, 4.0];
/// Inputs of one step along k.
const STEP: f64 = 64.0;
/// Copies of the weights that the collector reads in turn.
const COPIES: f64 = 6.0;

impl Law {
    /// Seconds of a product.
    pub(crate) fn seconds(&self, product: &Product) -> f64 {
        let [
            launch,
            latency,
            _,
            _,
            memory,
            halves,
            whole,
            ..,
            quantise,
            bytes,
            clocks,
        ] = self.0;
        let sharp = self.0[8];
        let cache = self.0[11];
        let [m, n, k] = product.sizes;
        let [weight, activation] = product.operands;
        let (units, clock) = (product.units, product.clock);
        let l2 = product.l2 * if product.whole { whole } else { halves };
        let from_memory = 1.0 / (product.bandwidth * memory);
        let from_cache = 1.0 / (units * clock * cache).max(product.bandwidth);
        let (matrix, activations) = (weight * n * k, activation * m * k + 2.0 * m * n);
        let missed = match product.weights {
            Weights::Cold => 1.0,
            Weights::Rotated => (1.0 - l2 / (COPIES * matrix + activations)).clamp(0.0, 1.0),
        };
        let reading = (matrix + activations) * (missed * from_memory + (1.0 - missed) * from_cache);
        let computing = self.computing(product);
        let longer = computing.max(reading);
        let shorter = computing.min(reading);
        let together = longer * libm::pow(1.0 + libm::pow(shorter / longer, sharp), 1.0 / sharp);
        let quantising = if product.quantised {
            let moved = 3.0 * m * k;
            let spilled = (1.0 - l2 / moved).clamp(0.0, 1.0);
            let byte = spilled * from_memory + (1.0 - spilled) * from_cache;
            quantise / clock + m * k * (clocks / (units * clock)).max(bytes * byte)
        } else {
            0.0
        };
        launch + latency / clock + together + quantising
    }

    /// Seconds of the units alone, by the tiles and the split of k that are fastest.
    fn computing(&self, product: &Product) -> f64 {
        let [_, _, share, stream, ..] = self.0;
        let [step, sums, wave, cache, split] = [7, 9, 10, 11, 12].map(|at| self.0[at]);
        let [m, n, k] = product.sizes;
        let [weight, activation] = product.operands;
        let (units, clock) = (product.units, product.clock);
        let rate = product.peak / units * share;
        let most = SPLITS[usize::from(product.quantised)];
        let mut least = f64::INFINITY;
        for [rows, columns] in TILES {
            let tiles = libm::ceil(m / rows) * libm::ceil(n / columns);
            let operands = rows.min(m) * activation + columns.min(n) * weight;
            let input = (2.0 * rows * columns / rate).max(operands / (stream * clock));
            let mut parts = 1.0;
            loop {
                let inputs = libm::ceil(k / parts / STEP) * STEP;
                let waves = libm::ceil(tiles * parts / units);
                let mut seconds =
                    waves * inputs * input + ((waves - 1.0) * wave + inputs / STEP * step) / clock;
                if parts > 1.0 {
                    let partial = 8.0 * parts * m * n;
                    seconds += sums * partial / (units * clock * cache) + split / clock;
                }
                least = least.min(seconds);
                // Units that are full gain nothing from a split.
                if parts >= most || tiles * parts >= units {
                    break;
                }
                parts *= 2.0;
            }
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A product in BF16 on one unit of a million clocks a second that multiplies 2·10⁹ a second, with
    /// no memory to wait for.
    fn product(sizes: [f64; 3]) -> Product {
        Product {
            sizes,
            operands: [2.0, 2.0],
            quantised: false,
            weights: Weights::Cold,
            peak: 2e9,
            bandwidth: 1e15,
            units: 1.0,
            clock: 1e6,
            l2: 0.0,
            whole: true,
        }
    }

    /// Nothing is waited for, and operands come at once.
    fn bare() -> Law {
        let mut law = Law::prior();
        for at in [0, 1, 7, 9, 10, 12] {
            law.0[at] = 1e-12;
        }
        (law.0[2], law.0[3]) = (1.0, 1e12);
        law
    }

    #[test]
    fn tiles_fill_waves() {
        let seconds = |m: f64, n: f64| bare().seconds(&product([m, n, 64.0]));
        // One tile of 64 × 64 × 64: 2·64³ FLOP at 2·10⁹ a second.
        assert!((seconds(64.0, 64.0) / 2.62144e-4 - 1.0).abs() < 1e-3);
        // A row more is a tile more; 65 to 128 rows take the same.
        assert!((seconds(65.0, 64.0) / seconds(64.0, 64.0) - 2.0).abs() < 1e-3);
        assert!((seconds(128.0, 64.0) / seconds(65.0, 64.0) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn idle_units_take_a_part_of_k() {
        let deep = product([64.0, 64.0, 4096.0]);
        let eight = Product {
            units: 8.0,
            peak: 16e9,
            ..deep
        };
        let parted = bare().seconds(&eight) / bare().seconds(&deep);
        assert!((parted - 0.125).abs() < 1e-3, "{parted}");
    }

    #[test]
    fn memory_bounds_what_computes_little() {
        let slow = Product {
            bandwidth: 1e6,
            ..product([1.0, 64.0, 64.0])
        };
        let mut law = bare();
        law.0[4] = 0.8;
        let bytes = 2.0 * (64.0 * 64.0 + 64.0 + 64.0);
        let seconds = law.seconds(&slow);
        assert!((seconds / (bytes / 0.8e6) - 1.0).abs() < 1e-3, "{seconds}");
    }

    #[test]
    fn what_stays_in_the_cache_is_read_faster() {
        let cached = Product {
            bandwidth: 1e6,
            l2: 1e9,
            weights: Weights::Rotated,
            ..product([1.0, 64.0, 64.0])
        };
        let cold = Product {
            weights: Weights::Cold,
            ..cached
        };
        assert!(bare().seconds(&cached) < 0.2 * bare().seconds(&cold));
    }
}
