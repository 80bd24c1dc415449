//! Loops over weights, by the widest instructions that there are.
//!
//! What is computed does not depend on them: sums run in a fixed number of lanes, in a fixed order, and nothing is fused.

/// Sums run side by side in so many; so many scales are tried at once.
pub(crate) const LANES: usize = 16;

pub(crate) type Lanes = [f32; LANES];

/// Sums of 32 bits are carried over to 64 after so many elements.
const RUN: usize = 512;

/// Runs a loop by the widest instructions of the processor: a closure that is always inlined, as is what it calls. What
/// stays a function of its own is compiled for the instructions that every processor has; so is a function that is
/// passed by its name, as it is called through another.
#[inline]
pub(crate) fn wide<T>(work: impl FnOnce() -> T) -> T {
    pulp::Arch::new().dispatch(work)
}

/// The numbers of a format.
pub(crate) trait Grid: Copy {
    /// The nearest number, ties to even; what is beyond the largest is the largest.
    fn near(self, value: f32) -> f32;

    /// [`losses`] of a short run.
    #[inline(always)]
    fn losses(self, run: &[f32], over: &Lanes, shift: Option<&Lanes>) -> Lanes {
        let mut lost = [0.0_f32; LANES];
        for value in run {
            for lane in 0..LANES {
                let exact = match shift {
                    Some(shift) => value * over[lane] + shift[lane],
                    None => value * over[lane],
                };
                let off = self.near(exact) - exact;
                lost[lane] += off * off;
            }
        }
        lost
    }
}

/// As one instruction does it.
#[inline(always)]
pub(crate) fn clipped(value: f32, least: f32, most: f32) -> f32 {
    let value = if value > least { value } else { least };
    if value < most { value } else { most }
}

/// For each of several scales Σ (near(x / scale + shift) - (x / scale + shift))², given 1 / scale.
#[inline(always)]
pub(crate) fn losses<G: Grid>(
    values: &[f32],
    over: &Lanes,
    shift: Option<&Lanes>,
    grid: G,
) -> Lanes {
    let mut all = [0.0_f64; LANES];
    for run in values.chunks(RUN) {
        let lost = grid.losses(run, over, shift);
        for (all, lost) in all.iter_mut().zip(lost) {
            *all += f64::from(lost);
        }
    }
    all.map(|one| one as f32)
}

/// What one scale does to some elements, in steps of it.
#[derive(Clone, Copy)]
pub(crate) struct Fit {
    /// Σ (near - exact)²
    pub(crate) lost: f64,
    /// Σ near · exact
    dot: f64,
    /// Σ near²
    square: f64,
}

impl Fit {
    /// By what the scale is multiplied so that the same codes lose least.
    pub(crate) fn factor(self) -> f32 {
        if self.square > 0.0 {
            (self.dot / self.square) as f32
        } else {
            1.0
        }
    }
}

/// The sum of all lanes, by halves: one after the other would wait sixteen times for an addition.
#[inline(always)]
fn summed(lanes: &Lanes) -> f64 {
    const HALF: usize = LANES / 2;
    let mut sums: [f64; HALF] =
        std::array::from_fn(|at| f64::from(lanes[at]) + f64::from(lanes[at + HALF]));
    for half in [4, 2, 1] {
        for at in 0..half {
            sums[at] += sums[at + half];
        }
    }
    sums[0]
}

/// How well a scale fits, given 1 / scale; codes count from `shift`.
#[inline(always)]
pub(crate) fn fit<G: Grid>(values: &[f32], over: f32, shift: f32, grid: G) -> Fit {
    let mut fit = Fit {
        lost: 0.0,
        dot: 0.0,
        square: 0.0,
    };
    for run in values.chunks(RUN) {
        let mut lanes = [[0.0_f32; LANES]; 3];
        let (whole, rest) = run.as_chunks::<LANES>();
        for some in whole {
            for (lane, value) in some.iter().enumerate() {
                into(&mut lanes, lane, value * over, shift, grid);
            }
        }
        for (lane, value) in rest.iter().enumerate() {
            into(&mut lanes, lane, value * over, shift, grid);
        }
        fit.lost += summed(&lanes[0]);
        fit.dot += summed(&lanes[1]);
        fit.square += summed(&lanes[2]);
    }
    fit
}

#[inline(always)]
fn into<G: Grid>(lanes: &mut [Lanes; 3], lane: usize, exact: f32, shift: f32, grid: G) {
    let near = grid.near(exact + shift) - shift;
    let off = near - exact;
    lanes[0][lane] += off * off;
    lanes[1][lane] += near * exact;
    lanes[2][lane] += near * near;
}

/// Which is the least.
#[inline(always)]
pub(crate) fn least(lanes: &Lanes) -> usize {
    let mut tree = *lanes;
    let mut which: [u32; LANES] = std::array::from_fn(|at| at as u32);
    for half in [8, 4, 2, 1] {
        for at in 0..half {
            let other = tree[at + half] < tree[at];
            tree[at] = if other { tree[at + half] } else { tree[at] };
            which[at] = if other { which[at + half] } else { which[at] };
        }
    }
    which[0] as usize
}

/// What was seen of some elements.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    /// Σ x²
    pub(crate) power: f64,
    pub(crate) finite: bool,
}

/// The ends of some elements, which are 0 at least and at most.
#[inline(always)]
pub(crate) fn ends(values: &[f32]) -> (f32, f32) {
    let (mut least, mut most) = ([0.0_f32; LANES], [0.0_f32; LANES]);
    let (whole, rest) = values.as_chunks::<LANES>();
    for some in whole {
        for lane in 0..LANES {
            least[lane] = if some[lane] < least[lane] {
                some[lane]
            } else {
                least[lane]
            };
            most[lane] = if some[lane] > most[lane] {
                some[lane]
            } else {
                most[lane]
            };
        }
    }
    for (lane, value) in rest.iter().enumerate() {
        least[lane] = least[lane].min(*value);
        most[lane] = most[lane].max(*value);
    }
    for half in [8, 4, 2, 1] {
        for at in 0..half {
            least[at] = if least[at + half] < least[at] {
                least[at + half]
            } else {
                least[at]
            };
            most[at] = if most[at + half] > most[at] {
                most[at + half]
            } else {
                most[at]
            };
        }
    }
    (least[0], most[0])
}

/// What there is of some elements, in one pass.
#[inline(always)]
pub(crate) fn seen(values: &[f32]) -> Seen {
    let (mut power, mut finite) = (0.0, true);
    for run in values.chunks(RUN) {
        let (mut squares, mut odd) = ([0.0_f32; LANES], [0_u32; LANES]);
        let (whole, rest) = run.as_chunks::<LANES>();
        for some in whole {
            for lane in 0..LANES {
                squares[lane] += some[lane] * some[lane];
                let size = some[lane].to_bits() & 0x7fff_ffff;
                odd[lane] = odd[lane].max(size);
            }
        }
        for (lane, value) in rest.iter().enumerate() {
            squares[lane] += value * value;
            odd[lane] = odd[lane].max(value.to_bits() & 0x7fff_ffff);
        }
        let largest = odd.into_iter().fold(0, u32::max);
        finite &= largest < 0x7f80_0000;
        power += if largest < TOO_LARGE && (largest > TOO_SMALL || largest == 0) {
            summed(&squares)
        } else {
            run.iter().map(|one| f64::from(*one).powi(2)).sum()
        };
    }
    Seen { power, finite }
}

/// Bits of 2^58: 512 squares of what is smaller are finite.
const TOO_LARGE: u32 = (127 + 58) << 23;
/// Bits of 2^-40: squares of what is larger have all of their digits.
const TOO_SMALL: u32 = (127 - 40) << 23;
