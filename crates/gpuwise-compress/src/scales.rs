//! Which scales are tried, and which of them loses least.

use crate::{
    Stored,
    float8::LARGEST,
    integers::Whole,
    wide::{Grid, LANES, Lanes, fit, least, losses},
};

/// Scales that are tried at once, the common choice first.
#[derive(Clone, Copy)]
pub(crate) struct Tried {
    pub(crate) scales: Lanes,
}

/// A floating format repeats itself from one power of two to the next: nothing is clipped by a larger scale, and where
/// numbers lie between its steps differs. The common choice, and what an octave divides into: 2^(k/14).
const ABOVE: Lanes = [
    1.0,
    1.0,
    1.0508,
    1.1041,
    1.1602,
    1.2190,
    1.2809,
    1.3459,
    core::f32::consts::SQRT_2,
    1.4860,
    1.5614,
    1.6407,
    1.7240,
    1.8114,
    1.9034,
    1.0250,
];

/// Integers of 4 bits trade what is clipped at the ends for smaller steps.
const WITHIN_4: Lanes = [
    1.0, 1.0, 1.04, 1.02, 0.98, 0.95, 0.92, 0.89, 0.86, 0.83, 0.80, 0.77, 0.74, 0.71, 0.67, 0.62,
];

/// The steps of 8 bits are small already: little is worth clipping.
const WITHIN_8: Lanes = [
    1.0, 1.0, 0.998, 0.995, 0.99, 0.98, 0.97, 0.96, 0.94, 0.92, 0.90, 0.87, 0.84, 0.80, 0.75, 0.70,
];

impl Tried {
    /// For E4M3; `stored` is what the common choice is computed in.
    #[inline(always)]
    pub(crate) fn fp8(largest: f32, stored: Stored) -> Self {
        let exact = largest / LARGEST;
        let mut scales = Stored::F32.scales(&ABOVE.map(|factor| exact * factor));
        scales[0] = stored.scale(exact);
        Self { scales }
    }

    /// For integers without a zero point, with scales in the numbers of `kept`.
    #[inline(always)]
    pub(crate) fn integers((least, most): (f32, f32), whole: Whole, kept: Stored) -> Self {
        let size = if most > -least { most } else { -least };
        let common = size / ((whole.most - whole.least) / 2.0);
        let within = if whole.most > 8.0 { WITHIN_8 } else { WITHIN_4 };
        let mut scales = within.map(|factor| common * factor);
        // So that neither end is clipped.
        let (up, down) = (most / whole.most, least / whole.least);
        scales[1] = if up > down { up } else { down };
        Self {
            scales: kept.scales(&scales),
        }
    }

    #[inline(always)]
    pub(crate) fn over(&self) -> Lanes {
        self.scales.map(|scale| 1.0 / scale)
    }

    /// Losses that are in steps of each scale, as they compare.
    #[inline(always)]
    pub(crate) fn in_elements(&self, lost: &Lanes) -> Lanes {
        let mut all = *lost;
        for (lost, scale) in all.iter_mut().zip(&self.scales) {
            let relative = scale / self.scales[0];
            *lost *= relative * relative;
        }
        all
    }
}

/// A scale, and the sum of squares that is lost by it.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) scale: f32,
    pub(crate) lost: f64,
}

/// Of long rows a quarter is looked at first, in pieces from everywhere.
const LONG: usize = 2048;
const PIECE: usize = 256;

/// The scale with the least loss, refined to what suits the codes that it leads to; never worse than the common choice.
#[inline(always)]
pub(crate) fn search<G: Grid>(
    values: &[f32],
    tried: &Tried,
    grid: G,
    sampled: bool,
    kept: impl Fn(f32) -> f32,
) -> Found {
    let over = tried.over();
    let sampled = sampled && values.len() >= LONG;
    let lost = if sampled {
        let mut all = [0.0; LANES];
        for piece in values.chunks(PIECE) {
            let lost = losses(&piece[..piece.len().min(PIECE / 4)], &over, None, grid);
            for lane in 0..LANES {
                all[lane] += lost[lane];
            }
        }
        all
    } else {
        losses(values, &over, None, grid)
    };
    let which = least(&tried.in_elements(&lost));
    let mut found = refined(values, tried.scales[which], 0.0, grid, kept);
    if sampled && which != 0 {
        let common = lost_by(values, tried.scales[0], grid);
        if common.lost < found.lost {
            found = common;
        }
    }
    found
}

/// What is lost by a scale.
#[inline(always)]
pub(crate) fn lost_by<G: Grid>(values: &[f32], scale: f32, grid: G) -> Found {
    let fit = fit(values, 1.0 / scale, 0.0, grid);
    Found {
        scale,
        lost: fit.lost * f64::from(scale).powi(2),
    }
}

/// A scale, or the one that suits its codes best where that loses less. Codes count from `shift`.
#[inline(always)]
pub(crate) fn refined<G: Grid>(
    values: &[f32],
    scale: f32,
    shift: f32,
    grid: G,
    kept: impl Fn(f32) -> f32,
) -> Found {
    let first = fit(values, 1.0 / scale, shift, grid);
    let better = kept(scale * first.factor());
    let second = fit(values, 1.0 / better, shift, grid);
    let in_elements = |lost: f64, scale: f32| lost * f64::from(scale).powi(2);
    let first = Found {
        scale,
        lost: in_elements(first.lost, scale),
    };
    let second = Found {
        scale: better,
        lost: in_elements(second.lost, better),
    };
    if second.lost < first.lost {
        second
    } else {
        first
    }
}
