//! E2M1 in small groups: NVFP4 and MXFP4.

use crate::{
    float4::{self, E2m1},
    float8,
    integers::put_pairs,
    rows::Rows,
    scales::{Tried, lost_by},
    wide::{Grid, LANES, Lanes, ends, least, losses, wide},
};

/// The code of a scale, and what it means.
struct Coded {
    code: u8,
    scale: f32,
}

/// A row, given the scale of all.
pub(crate) fn nvfp4(values: &[f32], global: f32, rows: &mut Rows) {
    row(values, 16, rows, |group, largest| {
        let common = float8::code(float8::E4m3.near(global * (largest / float4::LARGEST)));
        // All that can be best: from a third below, where most is clipped, to more than twice.
        let codes: [u8; LANES] = std::array::from_fn(|lane| match lane {
            0 => common.clamp(1, 126),
            _ => (common + lane as u8).saturating_sub(5).clamp(1, 126),
        });
        let scales = codes.map(|code| float8::value(code) / global);
        best(group, codes, scales)
    });
}

/// A row.
pub(crate) fn mxfp4(values: &[f32], rows: &mut Rows) {
    row(values, 32, rows, |group, largest| {
        // A power of two at or below what brings the largest to 6, and its neighbours.
        let common = (largest.to_bits() >> 23).saturating_sub(2).clamp(1, 253) as u8;
        let near = [common, common + 1, common - 1, common + 2];
        let codes: [u8; LANES] = std::array::from_fn(|lane| near[lane % 4].clamp(1, 253));
        let scales = codes.map(|code| f32::from_bits(u32::from(code) << 23));
        best(group, codes, scales)
    });
}

#[inline(always)]
fn best(group: &[f32], codes: [u8; LANES], scales: Lanes) -> Coded {
    let tried = Tried { scales };
    let lost = losses(group, &tried.over(), None, E2m1);
    let which = least(&tried.in_elements(&lost));
    Coded {
        code: codes[which],
        scale: scales[which],
    }
}

#[inline(always)]
fn row(values: &[f32], width: usize, rows: &mut Rows, scaled: impl Fn(&[f32], f32) -> Coded) {
    wide(|| {
        rows.loose.clear();
        for group in values.chunks_exact(width) {
            let (low, high) = ends(group);
            let coded = scaled(group, if high > -low { high } else { -low });
            rows.lost += lost_by(group, coded.scale, E2m1).lost;
            rows.scales.push(coded.code);
            let over = 1.0 / coded.scale;
            rows.loose.extend(
                group
                    .iter()
                    .map(|value| float4::code(E2m1.near(value * over))),
            );
        }
        put_pairs(&rows.loose, &mut rows.codes);
    });
}
