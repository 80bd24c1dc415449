//! Integers in words of 32 bits, by rows and groups, with a zero point or without.

use crate::{
    Stored,
    integers::{Whole, byte, pack},
    rows::Rows,
    scales::{Found, Tried, refined, search},
    wide::{Grid, LANES, Lanes, ends, least, losses, wide},
};

/// How a row is packed.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) bits: u32,
    /// Elements that have a scale together.
    pub(crate) width: usize,
    pub(crate) symmetric: bool,
}

/// Ranges that are tried with a zero point: the lower end by each of these, the upper end by each of these.
const SHRUNK: [f32; 4] = [1.0, 0.93, 0.86, 0.78];

/// A row.
pub(crate) fn row(values: &[f32], shape: Shape, stored: Stored, rows: &mut Rows) {
    wide(
        #[inline(always)]
        || groups((values, shape, stored, rows)),
    );
}

#[inline(always)]
fn groups((values, shape, stored, rows): (&[f32], Shape, Stored, &mut Rows)) {
    rows.loose.clear();
    for group in values.chunks_exact(shape.width) {
        one(group, shape, stored, rows);
    }
    pack(&rows.loose, shape.bits, &mut rows.codes);
}

#[inline(always)]
fn one(group: &[f32], shape: Shape, stored: Stored, rows: &mut Rows) {
    let grid = Whole::of(shape.bits);
    let ends = ends(group);
    let kept = |exact| stored.scale(exact);
    let (found, zero) = if ends == (0.0, 0.0) {
        let none = Found {
            scale: 1.0,
            lost: 0.0,
        };
        (none, 0.0)
    } else if shape.symmetric {
        let tried = Tried::integers(ends, grid, stored);
        (search(group, &tried, grid, false, kept), 0.0)
    } else {
        let (tried, zeros) = ranges(ends, grid, stored);
        let lost = losses(group, &tried.over(), Some(&zeros), grid);
        let which = least(&tried.in_elements(&lost));
        let zero = zeros[which];
        (refined(group, tried.scales[which], zero, grid, kept), zero)
    };
    rows.lost += found.lost;
    stored.put(found.scale, &mut rows.scales);
    // What is packed counts from 0.
    let code = |whole: f32| byte(whole - grid.least);
    if !shape.symmetric {
        rows.zeros.push(code(zero));
    }
    let over = 1.0 / found.scale;
    rows.loose.extend(
        group
            .iter()
            .map(|value| code(grid.near(value * over + zero))),
    );
}

/// Scales and zero points of several ranges.
#[inline(always)]
fn ranges((low, high): (f32, f32), grid: Whole, stored: Stored) -> (Tried, Lanes) {
    let (mut lows, mut sizes) = ([0.0; LANES], [0.0; LANES]);
    for lane in 0..LANES {
        lows[lane] = low * SHRUNK[lane / 4];
        sizes[lane] = (high * SHRUNK[lane % 4] - lows[lane]) / (grid.most - grid.least);
    }
    let scales = stored.scales(&sizes);
    let mut zeros = [0.0; LANES];
    for lane in 0..LANES {
        zeros[lane] = grid.near(grid.least - lows[lane] / scales[lane]);
    }
    (Tried { scales }, zeros)
}

/// Zero points are packed down the rows.
pub(crate) fn down(zeros: &[u8], rows: usize, bits: u32) -> Vec<u8> {
    let groups = zeros.len() / rows.max(1);
    let together = (32 / bits) as usize;
    let (mut packed, mut column) = (Vec::new(), Vec::new());
    for first in (0..rows).step_by(together) {
        for group in 0..groups {
            column.clear();
            let last = (first + together).min(rows);
            column.extend((first..last).map(|row| zeros[row * groups + group]));
            pack(&column, bits, &mut packed);
        }
    }
    packed
}
