//! E2M1 in small groups: NVFP4 and MXFP4.

use crate::{
    float4::{self, E2m1},
    float8,
    integers::put_pairs,
    rows::Rows,
    scales::{Tried, lost_by},
    wide::{Grid, LANES, Lanes, ends, least, losses, wide},
};

/// A format with such groups.
trait Grouped: Copy {
    const WIDTH: usize;
    /// Codes of scales that are tried, and what they mean.
    fn tried(self, largest: f32) -> ([u8; LANES], Lanes);
}

/// Scales in E4M3, and one of all.
#[derive(Clone, Copy)]
struct Nvfp4 {
    global: f32,
}

/// Powers of two as scales.
#[derive(Clone, Copy)]
struct Mxfp4;

impl Grouped for Nvfp4 {
    const WIDTH: usize = 16;

    #[inline(always)]
    fn tried(self, largest: f32) -> ([u8; LANES], Lanes) {
        let exact = self.global * (largest / float4::LARGEST);
        let common = float8::code(float8::E4m3.near(exact));
        // All that can be best: from a third below, where most is clipped, to more than twice.
        let (mut codes, mut scales) = ([0; LANES], [0.0; LANES]);
        for lane in 0..LANES {
            let code = (common + lane as u8).saturating_sub(5);
            codes[lane] = if lane == 0 { common } else { code }.clamp(1, 126);
            scales[lane] = float8::value(codes[lane]) / self.global;
        }
        (codes, scales)
    }
}

impl Grouped for Mxfp4 {
    const WIDTH: usize = 32;

    #[inline(always)]
    fn tried(self, largest: f32) -> ([u8; LANES], Lanes) {
        // A power of two at or below what brings the largest to 6, and its neighbours.
        let common = (largest.to_bits() >> 23).saturating_sub(2).clamp(1, 253) as u8;
        let near = [common, common + 1, common - 1, common + 2];
        let (mut codes, mut scales) = ([0; LANES], [0.0; LANES]);
        for lane in 0..LANES {
            codes[lane] = near[lane % 4].clamp(1, 253);
            scales[lane] = f32::from_bits(u32::from(codes[lane]) << 23);
        }
        (codes, scales)
    }
}

/// A row, given the scale of all.
pub(crate) fn nvfp4(values: &[f32], global: f32, rows: &mut Rows) {
    wide(
        #[inline(always)]
        || row((values, Nvfp4 { global }, rows)),
    );
}

/// A row.
pub(crate) fn mxfp4(values: &[f32], rows: &mut Rows) {
    wide(
        #[inline(always)]
        || row((values, Mxfp4, rows)),
    );
}

#[inline(always)]
fn row<F: Grouped>((values, format, rows): (&[f32], F, &mut Rows)) {
    rows.loose.clear();
    for group in values.chunks_exact(F::WIDTH) {
        let (low, high) = ends(group);
        let (codes, scales) = format.tried(if high > -low { high } else { -low });
        let tried = Tried { scales };
        let lost = losses(group, &tried.over(), None, E2m1);
        let which = least(&tried.in_elements(&lost));
        rows.lost += lost_by(group, scales[which], E2m1).lost;
        rows.scales.push(codes[which]);
        let over = 1.0 / scales[which];
        let each = group.iter();
        rows.loose
            .extend(each.map(|value| float4::code(E2m1.near(value * over))));
    }
    put_pairs(&rows.loose, &mut rows.codes);
}
