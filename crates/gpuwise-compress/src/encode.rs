//! Rows to parts.

use crate::{
    PartKind, Scan, Scheme, Stored, Strategy, float4,
    float8::E4m3,
    fours,
    integers::Whole,
    packed::{self, Shape},
    rows::{self, Layout, Rows},
    scales::Tried,
    wide::{Seen, seen, wide},
};
use std::collections::BTreeMap;

/// A run of rows in a scheme.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Encoded {
    /// Bytes of each part that has rows; those of the runs one after the other make the part.
    pub parts: BTreeMap<PartKind, Vec<u8>>,
    /// The sum of squares of what was lost.
    pub lost: f64,
    /// The sum of squares of what there was.
    pub power: f64,
    /// Whether there was NaN or something infinite: what is here means nothing then, and [`Scan`] says where it is.
    pub odd: bool,
}

impl Encoded {
    /// Adds a run of rows that follows.
    pub fn then(&mut self, other: Self) {
        for (kind, bytes) in other.parts {
            self.parts.entry(kind).or_default().extend(bytes);
        }
        self.lost += other.lost;
        self.power += other.power;
        self.odd |= other.odd;
    }

    /// The relative error in the Frobenius norm; of what was nothing, 0.
    pub fn error(&self) -> f64 {
        relative_error(self.lost, self.power)
    }
}

/// The relative error in the Frobenius norm, of sums of squares: of what was lost, and of what there was. Of nothing, 0.
pub fn relative_error(lost: f64, power: f64) -> f64 {
    if power == 0.0 {
        0.0
    } else {
        (lost / power).sqrt()
    }
}

impl Scheme {
    /// Encodes a run of rows: a multiple of [`Self::rows_together`], or what is left at the end. `scan` is of the whole
    /// matrix where [`Self::asks_all`]. Rows that are not finite are told of by [`Encoded::odd`].
    pub fn encode(self, stored: Stored, columns: u64, bytes: &[u8], scan: &Scan) -> Encoded {
        let columns = usize::try_from(columns).unwrap_or(usize::MAX);
        let count = bytes.len() / (columns * stored.bytes()).max(1);
        let mut rows = Rows::of(self, count * columns);
        let layout = Layout {
            strategy: self.strategy(),
            columns,
            stored,
            whole: self.whole_scale(stored, scan),
        };
        let together = match self.strategy() {
            Strategy::Block(height, _) => height as usize,
            _ => 1,
        };
        let mut values = Vec::with_capacity(columns * together);
        for some in bytes.chunks(columns * together * stored.bytes()) {
            let seen = wide(
                #[inline(always)]
                || widened((stored, some, &mut values)),
            );
            rows.power += seen.power;
            if !seen.finite {
                rows.odd = true;
                break;
            }
            match self {
                Self::Fp8(_) => rows::row(&values, layout, E4m3, &mut rows),
                Self::Int8(_) => rows::row(&values, layout, Whole::of(8), &mut rows),
                Self::Packed {
                    bits, symmetric, ..
                } => {
                    let shape = Shape {
                        bits,
                        width: self.group().map_or(columns, |group| group as usize),
                        symmetric,
                    };
                    packed::row(&values, shape, stored, &mut rows);
                }
                Self::Nvfp4 => fours::nvfp4(&values, float4::global(scan.largest), &mut rows),
                Self::Mxfp4 => fours::mxfp4(&values, &mut rows),
            }
        }
        rows.encoded(self, count)
    }

    /// The one scale of a whole matrix.
    fn whole_scale(self, stored: Stored, scan: &Scan) -> Option<f32> {
        let ends = (-scan.largest, scan.largest);
        match self {
            Self::Fp8(Strategy::Tensor) | Self::Int8(Strategy::Tensor) if scan.largest == 0.0 => {
                Some(1.0)
            }
            Self::Fp8(Strategy::Tensor) => Some(scan.scale(Tried::fp8(scan.largest, stored), E4m3)),
            Self::Int8(Strategy::Tensor) => {
                let grid = Whole::of(8);
                Some(scan.scale(Tried::integers(ends, grid, Stored::F32), grid))
            }
            _ => None,
        }
    }

    /// The parts that a matrix has once.
    pub fn once(
        self,
        rows: u64,
        columns: u64,
        stored: Stored,
        scan: &Scan,
    ) -> BTreeMap<PartKind, Vec<u8>> {
        let mut parts = BTreeMap::new();
        if let Some(scale) = self.whole_scale(stored, scan) {
            parts.insert(PartKind::Scale, scale.to_le_bytes().to_vec());
        }
        match self {
            Self::Packed { .. } => {
                let shape = [rows, columns].map(u64::to_le_bytes).concat();
                parts.insert(PartKind::Shape, shape);
            }
            Self::Nvfp4 => {
                let global = float4::global(scan.largest).to_le_bytes().to_vec();
                parts.insert(PartKind::GlobalScale, global);
            }
            _ => {}
        }
        parts
    }
}

#[inline(always)]
fn widened((stored, bytes, values): (Stored, &[u8], &mut Vec<f32>)) -> Seen {
    stored.widen(bytes, values);
    seen(values)
}
