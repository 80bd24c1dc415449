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

/// How a row is encoded.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) strategy: Strategy,
    pub(crate) columns: usize,
    pub(crate) stored: Stored,
    /// The scale of all, where there is one.
    pub(crate) whole: Option<f32>,
}

/// A format of a byte for each element.
pub(crate) trait Byte: Grid {
    /// The scale of some elements.
    fn scale(self, some: &[f32], layout: Layout) -> Found;
    /// The code of what was rounded.
    fn code(near: f32) -> u8;
}

impl Byte for E4m3 {
    #[inline(always)]
    fn scale(self, some: &[f32], layout: Layout) -> Found {
        let (least, most) = ends(some);
        let tried = Tried::fp8(most.max(-least), layout.stored);
        search(some, &tried, self, true, |exact| Stored::F32.scale(exact))
    }

    #[inline(always)]
    fn code(near: f32) -> u8 {
        float8::code(near)
    }
}

impl Byte for Whole {
    #[inline(always)]
    fn scale(self, some: &[f32], _: Layout) -> Found {
        let tried = Tried::integers(ends(some), self, Stored::F32);
        search(some, &tried, self, false, |exact| Stored::F32.scale(exact))
    }

    #[inline(always)]
    fn code(near: f32) -> u8 {
        near as i8 as u8
    }
}

#[inline(always)]
fn scaled<F: Byte>((some, layout, format): (&[f32], Layout, F)) -> Found {
    match layout.whole {
        Some(scale) => lost_by(some, scale, format),
        None => format.scale(some, layout),
    }
}

#[inline(always)]
fn codes<F: Byte>((values, over, format, to): (&[f32], f32, F, &mut [u8])) {
    for (code, value) in to.iter_mut().zip(values) {
        *code = F::code(format.near(value * over));
    }
}

/// A row, or the rows of a row of blocks.
pub(crate) fn row<F: Byte>(values: &[f32], layout: Layout, format: F, rows: &mut Rows) {
    let before = rows.codes.len();
    rows.codes.resize(before + values.len(), 0);
    let columns = layout.columns;
    let found_for = |some: &[f32]| {
        nothing(some).unwrap_or_else(|| {
            wide(
                #[inline(always)]
                || scaled((some, layout, format)),
            )
        })
    };
    let Strategy::Block(_, width) = layout.strategy else {
        let width = match layout.strategy {
            Strategy::Group(group) => group as usize,
            _ => columns,
        };
        for (at, some) in values.chunks_exact(width).enumerate() {
            let found = found_for(some);
            rows.found(found, layout.whole);
            let to = &mut rows.codes[before + at * width..][..width];
            wide(
                #[inline(always)]
                || codes((some, 1.0 / found.scale, format, to)),
            );
        }
        return;
    };
    let width = width as usize;
    let mut block = Vec::with_capacity(values.len().min(width * width));
    for left in (0..columns).step_by(width) {
        let right = (left + width).min(columns);
        block.clear();
        for row in values.chunks_exact(columns) {
            block.extend_from_slice(&row[left..right]);
        }
        let found = found_for(&block);
        rows.found(found, layout.whole);
        let to = rows.codes[before..].chunks_exact_mut(columns);
        for (to, from) in to.zip(block.chunks_exact(right - left)) {
            let to = &mut to[left..right];
            wide(
                #[inline(always)]
                || codes((from, 1.0 / found.scale, format, to)),
            );
        }
    }
}

/// Nothing but zeros have the scale 1.
pub(crate) fn nothing(values: &[f32]) -> Option<Found> {
    values.iter().all(|one| *one == 0.0).then_some(Found {
        scale: 1.0,
        lost: 0.0,
    })
}
