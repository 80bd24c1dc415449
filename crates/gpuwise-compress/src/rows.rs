//! A byte for each element: FP8 and INT8, by rows, groups and blocks.

use crate::{
    Encoded, PartKind, Scheme, Stored, Strategy,
    float8::{self, E4m3},
    integers::Whole,
    scales::{Found, Tried, lost_by, search},
    wide::{Grid, ends, wide},
};

/// What a run of rows has become so far.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) codes: Vec<u8>,
    pub(crate) scales: Vec<u8>,
    /// Zero points, row by row; they are packed down the rows at the end.
    pub(crate) zeros: Vec<u8>,
    /// One row's codes, a byte each.
    pub(crate) loose: Vec<u8>,
    pub(crate) lost: f64,
    pub(crate) power: f64,
    pub(crate) odd: bool,
}

impl Rows {
    pub(crate) fn of(scheme: Scheme, elements: usize) -> Self {
        let bytes = match scheme {
            Scheme::Fp8(_) | Scheme::Int8(_) | Scheme::Packed { bits: 8, .. } => elements,
            _ => elements.div_ceil(2),
        };
        Self {
            codes: Vec::with_capacity(bytes),
            ..Self::default()
        }
    }

    /// As the parts of a scheme.
    pub(crate) fn encoded(self, scheme: Scheme, rows: usize) -> Encoded {
        let mut run = Encoded {
            lost: self.lost,
            power: self.power,
            odd: self.odd,
            ..Encoded::default()
        };
        let codes = match scheme {
            Scheme::Fp8(_) | Scheme::Int8(_) => PartKind::Weight,
            _ => PartKind::Packed,
        };
        run.parts.insert(codes, self.codes);
        if scheme.strategy() != Strategy::Tensor {
            run.parts.insert(PartKind::Scale, self.scales);
        }
        if let Scheme::Packed {
            bits,
            symmetric: false,
            ..
        } = scheme
        {
            let zeros = crate::packed::down(&self.zeros, rows, bits);
            run.parts.insert(PartKind::ZeroPoint, zeros);
        }
        run
    }

    fn found(&mut self, found: Found, whole: Option<f32>) {
        self.lost += found.lost;
        if whole.is_none() {
            self.scales.extend(found.scale.to_le_bytes());
        }
    }
}

/// A row, or the rows of a row of blocks, in E4M3.
pub(crate) fn fp8(
    values: &[f32],
    scheme: Scheme,
    (columns, stored): (usize, Stored),
    whole: Option<f32>,
    rows: &mut Rows,
) {
    let scaled = |some: &[f32]| {
        if let Some(scale) = whole {
            return lost_by(some, scale, E4m3);
        }
        let (least, most) = ends(some);
        let largest = most.max(-least);
        let tried = Tried::fp8(largest, stored);
        search(some, &tried, E4m3, true, |exact| Stored::F32.scale(exact))
    };
    pieces(
        values,
        scheme,
        columns,
        whole,
        rows,
        E4m3,
        scaled,
        float8::code,
    );
}

/// A row, or the rows of a row of blocks, in integers of 8 bits.
pub(crate) fn int8(
    values: &[f32],
    scheme: Scheme,
    columns: usize,
    whole: Option<f32>,
    rows: &mut Rows,
) {
    let grid = Whole::of(8);
    let scaled = |some: &[f32]| {
        if let Some(scale) = whole {
            return lost_by(some, scale, grid);
        }
        let tried = Tried::integers(ends(some), grid, Stored::F32);
        search(some, &tried, grid, false, |exact| Stored::F32.scale(exact))
    };
    let code = |near: f32| near as i8 as u8;
    pieces(values, scheme, columns, whole, rows, grid, scaled, code);
}

/// Goes over what has a scale of its own.
#[allow(clippy::too_many_arguments, reason = "two callers above")]
fn pieces<G: Grid>(
    values: &[f32],
    scheme: Scheme,
    columns: usize,
    whole: Option<f32>,
    rows: &mut Rows,
    grid: G,
    scaled: impl Fn(&[f32]) -> Found,
    code: impl Fn(f32) -> u8,
) {
    if let Strategy::Block(_, width) = scheme.strategy() {
        let height = values.len() / columns;
        let before = rows.codes.len();
        rows.codes.resize(before + values.len(), 0);
        let mut block = Vec::with_capacity(height * width as usize);
        for left in (0..columns).step_by(width as usize) {
            let right = (left + width as usize).min(columns);
            block.clear();
            for row in values.chunks_exact(columns) {
                block.extend_from_slice(&row[left..right]);
            }
            let found = nothing(&block).unwrap_or_else(|| wide(|| scaled(&block)));
            rows.found(found, whole);
            let over = 1.0 / found.scale;
            wide(|| {
                let to = rows.codes[before..].chunks_exact_mut(columns);
                for (to, from) in to.zip(block.chunks_exact(right - left)) {
                    for (code_of, value) in to[left..right].iter_mut().zip(from) {
                        *code_of = code(grid.near(value * over));
                    }
                }
            });
        }
        return;
    }
    let width = scheme.group().map_or(columns, |group| group as usize);
    for some in values.chunks_exact(width) {
        let found = nothing(some).unwrap_or_else(|| wide(|| scaled(some)));
        rows.found(found, whole);
        let over = 1.0 / found.scale;
        wide(|| {
            rows.codes
                .extend(some.iter().map(|value| code(grid.near(value * over))));
        });
    }
}

/// Nothing but zeros have the scale 1.
pub(crate) fn nothing(values: &[f32]) -> Option<Found> {
    values.iter().all(|one| *one == 0.0).then_some(Found {
        scale: 1.0,
        lost: 0.0,
    })
}
