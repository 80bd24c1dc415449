//! Rows to parts.

use crate::{
    PartKind, Scheme, Stored, Strategy, float4, float8,
    integers::{self, pack},
};
use std::collections::BTreeMap;

/// What was seen of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Scan {
    /// The largest absolute value that is finite.
    pub largest: f32,
    /// Elements that are NaN or infinite.
    pub not_finite: u64,
    /// The first of them, counted row by row.
    pub first: Option<u64>,
    /// Elements that were seen.
    pub elements: u64,
}

impl Scan {
    /// Sees more elements, in their order.
    pub fn see(&mut self, stored: Stored, bytes: &[u8], buffer: &mut Vec<f32>) {
        stored.widen(bytes, buffer);
        let mut lanes = [0_f32; LANES];
        let mut odd = false;
        for some in buffer.chunks(LANES) {
            for (lane, value) in lanes.iter_mut().zip(some) {
                let size = value.abs();
                odd |= !value.is_finite();
                *lane = if size > *lane && size <= f32::MAX {
                    size
                } else {
                    *lane
                };
            }
        }
        if odd {
            for (at, _) in buffer
                .iter()
                .enumerate()
                .filter(|(_, one)| !one.is_finite())
            {
                self.not_finite += 1;
                self.first.get_or_insert(self.elements + at as u64);
            }
        }
        self.largest = lanes.iter().copied().fold(self.largest, f32::max);
        self.elements += buffer.len() as u64;
    }

    /// What two runs of rows are together, `self` before `other`.
    #[must_use]
    pub fn then(self, other: Self) -> Self {
        Self {
            largest: self.largest.max(other.largest),
            not_finite: self.not_finite + other.not_finite,
            first: self.first.or(other.first.map(|at| at + self.elements)),
            elements: self.elements + other.elements,
        }
    }
}

/// A run of rows in a scheme.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Encoded {
    /// Bytes of each part that has rows; those of the runs one after the other make the part.
    pub parts: BTreeMap<PartKind, Vec<u8>>,
    /// The sum of squares of what was lost.
    pub lost: f64,
    /// The sum of squares of what there was.
    pub power: f64,
}

impl Encoded {
    /// Adds a run of rows that follows.
    pub fn then(&mut self, other: Self) {
        for (kind, bytes) in other.parts {
            self.parts.entry(kind).or_default().extend(bytes);
        }
        self.lost += other.lost;
        self.power += other.power;
    }

    /// The relative error in the Frobenius norm; of what was nothing, 0.
    pub fn error(&self) -> f64 {
        if self.power == 0.0 {
            return 0.0;
        }
        (self.lost / self.power).sqrt()
    }

    fn part(&mut self, kind: PartKind) -> &mut Vec<u8> {
        self.parts.entry(kind).or_default()
    }
}

/// Sums run side by side in so many.
const LANES: usize = 16;

/// Which integers there are, symmetric or not: from -2^(bits-1) on.
fn bounds(bits: u32) -> (f32, f32) {
    let half = (1_u32 << (bits - 1)) as f32;
    (-half, half - 1.0)
}

/// Σ (near(x / scale) · scale - x)²
#[inline]
fn lost(values: &[f32], scale: f32, near: impl Fn(f32) -> f32) -> f64 {
    let mut all = 0.0;
    // Short runs, so that sums of 32 bits stay exact enough.
    for run in values.chunks(64 * LANES) {
        let mut lanes = [0_f32; LANES];
        let (whole, rest) = run.as_chunks::<LANES>();
        for some in whole {
            for (lane, value) in lanes.iter_mut().zip(some) {
                let off = near(value / scale) * scale - value;
                *lane += off * off;
            }
        }
        for (lane, value) in lanes.iter_mut().zip(rest) {
            let off = near(value / scale) * scale - value;
            *lane += off * off;
        }
        all += lanes.iter().map(|lane| f64::from(*lane)).sum::<f64>();
    }
    all
}

fn power(values: &[f32]) -> f64 {
    lost(values, 1.0, |_| 0.0)
}

fn largest(values: &[f32]) -> f32 {
    let mut lanes = [0_f32; LANES];
    for some in values.chunks(LANES) {
        for (lane, value) in lanes.iter_mut().zip(some) {
            *lane = if value.abs() > *lane {
                value.abs()
            } else {
                *lane
            };
        }
    }
    lanes.into_iter().fold(0.0, f32::max)
}

/// The scale with the least loss, the first of equal ones; of nothing but zeros, 1.
#[inline]
fn best(
    values: &[f32],
    scales: impl Iterator<Item = f32>,
    near: impl Fn(f32) -> f32 + Copy,
) -> (f32, f64) {
    let usable = |scale: &f32| *scale > 0.0 && scale.is_finite();
    let each = scales
        .filter(usable)
        .map(|scale| (scale, lost(values, scale, near)));
    each.reduce(|best, one| if one.1 < best.1 { one } else { best })
        .unwrap_or((1.0, 0.0))
}

/// A floating format repeats itself from one power of two to the next: nothing is clipped by a larger scale, and where
/// numbers lie between its steps differs.
const ABOVE: [f32; 4] = [1.0, 1.19, 1.41, 1.68];

/// Integers trade what is clipped at the ends for smaller steps.
const WITHIN: [f32; 9] = [1.0, 0.97, 0.94, 0.9, 0.86, 0.82, 0.78, 0.74, 0.7];

fn fp8_scales(values: &[f32], stored: Stored) -> impl Iterator<Item = f32> {
    let exact = largest(values) / float8::LARGEST;
    // The first is the common choice: computed in the numbers of the matrix.
    std::iter::once(stored.round(exact)).chain(ABOVE.map(|factor| exact * factor))
}

fn integer_scales(
    (least, most): (f32, f32),
    bits: u32,
    round: impl Fn(f32) -> f32,
) -> impl Iterator<Item = f32> {
    let (low, high) = bounds(bits);
    let size = most.max(-least);
    let common = round(size / ((high - low) / 2.0));
    // So that neither end is clipped.
    let whole = round((most / high).max(least / low));
    [common, whole]
        .into_iter()
        .chain(WITHIN.map(move |factor| round(size / ((high - low) / 2.0) * factor)))
}

fn ends(values: &[f32]) -> (f32, f32) {
    let least = values.iter().copied().fold(0.0, f32::min);
    let most = values.iter().copied().fold(0.0, f32::max);
    (least, most)
}

impl Scheme {
    /// Encodes a run of rows: a multiple of [`Self::rows_together`], or what is left at the end. `scan` is of the whole
    /// matrix where [`Self::asks_all`]. What is not finite is for who calls to refuse before.
    pub fn encode(self, stored: Stored, columns: u64, bytes: &[u8], scan: &Scan) -> Encoded {
        let columns = usize::try_from(columns).unwrap_or(usize::MAX);
        let mut run = Encoded::default();
        let mut row = Vec::with_capacity(columns);
        if let Strategy::Block(height, width) = self.strategy() {
            let size = columns * height as usize * stored.bytes();
            for block in bytes.chunks(size) {
                stored.widen(block, &mut row);
                self.blocks(&row, columns, width as usize, stored, &mut run);
            }
            return run;
        }
        let mut zeros = Vec::new();
        for one in bytes.chunks_exact(columns * stored.bytes()) {
            stored.widen(one, &mut row);
            run.power += power(&row);
            match self {
                Self::Fp8(strategy) => fp8(&row, strategy, stored, scan, &mut run),
                Self::Int8(strategy) => int8(&row, strategy, stored, scan, &mut run),
                Self::Packed {
                    bits,
                    strategy,
                    symmetric,
                } => {
                    let width = match strategy {
                        Strategy::Group(group) => group as usize,
                        _ => columns,
                    };
                    let shape = (bits, width, symmetric);
                    packed(&row, shape, stored, &mut run, &mut zeros);
                }
                Self::Nvfp4 => nvfp4(&row, scan, &mut run),
                Self::Mxfp4 => mxfp4(&row, &mut run),
            }
        }
        if let Self::Packed {
            bits,
            symmetric: false,
            ..
        } = self
        {
            let rows = bytes.len() / (columns * stored.bytes()).max(1);
            put_zeros(&zeros, rows, bits, run.part(PartKind::ZeroPoint));
        }
        run
    }

    /// The parts that a matrix has once.
    pub fn once(self, rows: u64, columns: u64, scan: &Scan) -> BTreeMap<PartKind, Vec<u8>> {
        let mut parts = BTreeMap::new();
        match self {
            Self::Packed { .. } => {
                let shape = [rows, columns].map(u64::to_le_bytes).concat();
                parts.insert(PartKind::Shape, shape);
            }
            Self::Nvfp4 => {
                let bytes = global(scan).to_le_bytes().to_vec();
                parts.insert(PartKind::GlobalScale, bytes);
            }
            Self::Fp8(Strategy::Tensor) => {
                let bytes = tensor_scale(scan, float8::LARGEST).to_le_bytes().to_vec();
                parts.insert(PartKind::Scale, bytes);
            }
            Self::Int8(Strategy::Tensor) => {
                let bytes = tensor_scale(scan, 127.0).to_le_bytes().to_vec();
                parts.insert(PartKind::Scale, bytes);
            }
            _ => {}
        }
        parts
    }

    /// A row of blocks.
    fn blocks(self, rows: &[f32], columns: usize, width: usize, stored: Stored, run: &mut Encoded) {
        let height = rows.len() / columns;
        let mut codes = vec![0; rows.len()];
        let mut block = Vec::with_capacity(height * width);
        for left in (0..columns).step_by(width) {
            let right = (left + width).min(columns);
            block.clear();
            for row in rows.chunks_exact(columns) {
                block.extend_from_slice(&row[left..right]);
            }
            run.power += power(&block);
            let (scale, lost) = if let Self::Fp8(_) = self {
                best(&block, fp8_scales(&block, stored), float8::rounded)
            } else {
                let scales = integer_scales(ends(&block), 8, |scale| scale);
                best(&block, scales, |value| {
                    integers::rounded(value, -128.0, 127.0)
                })
            };
            run.lost += lost;
            run.part(PartKind::Scale).extend(scale.to_le_bytes());
            for (row, from) in codes
                .chunks_exact_mut(columns)
                .zip(block.chunks_exact(right - left))
            {
                for (code, value) in row[left..right].iter_mut().zip(from) {
                    *code = match self {
                        Self::Fp8(_) => float8::code(value / scale),
                        _ => integers::rounded(value / scale, -128.0, 127.0) as i8 as u8,
                    };
                }
            }
        }
        run.part(PartKind::Weight).extend(codes);
    }
}

fn tensor_scale(scan: &Scan, most: f32) -> f32 {
    if scan.largest > 0.0 {
        scan.largest / most
    } else {
        1.0
    }
}

fn fp8(row: &[f32], strategy: Strategy, stored: Stored, scan: &Scan, run: &mut Encoded) {
    let width = match strategy {
        Strategy::Group(group) => group as usize,
        _ => row.len(),
    };
    for group in row.chunks_exact(width) {
        let (scale, off) = if strategy == Strategy::Tensor {
            let scale = tensor_scale(scan, float8::LARGEST);
            (scale, lost(group, scale, float8::rounded))
        } else {
            let found = best(group, fp8_scales(group, stored), float8::rounded);
            run.part(PartKind::Scale).extend(found.0.to_le_bytes());
            found
        };
        run.lost += off;
        let codes = run.part(PartKind::Weight);
        codes.extend(group.iter().map(|value| float8::code(value / scale)));
    }
}

fn int8(row: &[f32], strategy: Strategy, stored: Stored, scan: &Scan, run: &mut Encoded) {
    let near = |value| integers::rounded(value, -128.0, 127.0);
    let width = match strategy {
        Strategy::Group(group) => group as usize,
        _ => row.len(),
    };
    for group in row.chunks_exact(width) {
        let (scale, off) = if strategy == Strategy::Tensor {
            let scale = tensor_scale(scan, 127.0);
            (scale, lost(group, scale, near))
        } else {
            let common = std::iter::once(stored.round(largest(group) / 127.5));
            let scales = common.chain(integer_scales(ends(group), 8, |scale| scale));
            let found = best(group, scales, near);
            run.part(PartKind::Scale).extend(found.0.to_le_bytes());
            found
        };
        run.lost += off;
        let codes = run.part(PartKind::Weight);
        codes.extend(group.iter().map(|value| near(value / scale) as i8 as u8));
    }
}

fn packed(
    row: &[f32],
    (bits, width, symmetric): (u32, usize, bool),
    stored: Stored,
    run: &mut Encoded,
    zeros: &mut Vec<i32>,
) {
    let (low, high) = bounds(bits);
    let mut codes = Vec::with_capacity(row.len());
    for group in row.chunks_exact(width) {
        let ends = ends(group);
        let (scale, zero) = if symmetric {
            let scales = integer_scales(ends, bits, |scale| stored.round(scale));
            let found = best(group, scales, |value| integers::rounded(value, low, high));
            run.lost += found.1;
            (found.0, 0.0)
        } else {
            let (scale, zero, lost) = with_zero(group, ends, (low, high), stored);
            run.lost += lost;
            zeros.push(zero as i32);
            (scale, zero)
        };
        stored.put(scale, run.part(PartKind::Scale));
        let near = |value: &f32| integers::rounded(value / scale + zero, low, high) as i32;
        codes.extend(group.iter().map(near));
    }
    pack(codes.into_iter(), bits, run.part(PartKind::Packed));
}

/// Scale and zero point of a group, and what is lost by them.
fn with_zero(
    group: &[f32],
    (least, most): (f32, f32),
    (low, high): (f32, f32),
    stored: Stored,
) -> (f32, f32, f64) {
    let tried = WITHIN.iter().filter_map(|factor| {
        let (least, most) = (least * factor, most * factor);
        let scale = stored.round((most - least) / (high - low));
        let usable = scale > 0.0 && scale.is_finite();
        usable.then(|| {
            let zero = integers::rounded(low - least / scale, low, high);
            let near = |value| integers::rounded(value + zero, low, high) - zero;
            (scale, zero, lost(group, scale, near))
        })
    });
    tried
        .reduce(|best, one| if one.2 < best.2 { one } else { best })
        .unwrap_or((1.0, 0.0, 0.0))
}

/// Zero points are packed down the rows.
fn put_zeros(zeros: &[i32], rows: usize, bits: u32, to: &mut Vec<u8>) {
    let groups = zeros.len() / rows.max(1);
    let together = (32 / bits) as usize;
    for first in (0..rows).step_by(together) {
        for group in 0..groups {
            let last = (first + together).min(rows);
            let column = (first..last).map(|row| zeros[row * groups + group]);
            pack(column, bits, to);
        }
    }
}

/// What the scale of all brings scales of groups into the range of E4M3 by.
fn global(scan: &Scan) -> f32 {
    if scan.largest > 0.0 {
        float8::LARGEST * float4::LARGEST / scan.largest
    } else {
        1.0
    }
}

fn nvfp4(row: &[f32], scan: &Scan, run: &mut Encoded) {
    let global = global(scan);
    let mut codes = Vec::with_capacity(row.len());
    for group in row.chunks_exact(16) {
        let common = float8::code(global * (largest(group) / float4::LARGEST)).max(1);
        // The codes beside it are the scales beside it.
        let near = [
            common,
            common.saturating_sub(1),
            common + 1,
            common.saturating_sub(2),
            common + 2,
        ];
        let scales = near.into_iter().filter(|code| (1..0x7f).contains(code));
        let tried = scales.map(|code| {
            let scale = float8::value(code) / global;
            (code, scale, lost(group, scale, float4::rounded))
        });
        let found = tried.reduce(|best, one| if one.2 < best.2 { one } else { best });
        let (code, scale, lost) = found.unwrap_or((1, 1.0, 0.0));
        run.lost += lost;
        run.part(PartKind::Scale).push(code);
        codes.extend(
            group
                .iter()
                .map(|value| float4::code(float4::rounded(value / scale))),
        );
    }
    put_pairs(&codes, run.part(PartKind::Packed));
}

fn mxfp4(row: &[f32], run: &mut Encoded) {
    let mut codes = Vec::with_capacity(row.len());
    for group in row.chunks_exact(32) {
        // A power of two at or below what brings the largest to 6, and its neighbours.
        let most = largest(group);
        let exponent = (most.to_bits() >> 23).saturating_sub(2).clamp(1, 253);
        let tried = [exponent, exponent + 1, exponent - 1].into_iter();
        let tried = tried.filter(|one| (1..=253).contains(one)).map(|one| {
            let scale = f32::from_bits(one << 23);
            (one as u8, scale, lost(group, scale, float4::rounded))
        });
        let found = tried.reduce(|best, one| if one.2 < best.2 { one } else { best });
        let (code, scale, lost) = found.unwrap_or((127, 1.0, 0.0));
        run.lost += lost;
        run.part(PartKind::Scale).push(code);
        codes.extend(
            group
                .iter()
                .map(|value| float4::code(float4::rounded(value / scale))),
        );
    }
    put_pairs(&codes, run.part(PartKind::Packed));
}

/// Two codes a byte, the first lower.
fn put_pairs(codes: &[u8], to: &mut Vec<u8>) {
    to.extend(
        codes
            .as_chunks::<2>()
            .0
            .iter()
            .map(|[low, high]| low | high << 4),
    );
}
