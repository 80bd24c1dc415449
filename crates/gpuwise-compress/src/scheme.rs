//! What a matrix becomes: formats, over how much of it a scale reaches, and which parts are stored.

use crate::{Stored, sparse};

/// How far one scale reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The whole matrix.
    Tensor,
    /// A row, which is an output channel.
    Channel,
    /// So many elements of a row.
    Group(u32),
    /// So many rows by so many columns; blocks at the edges may be smaller.
    Block(u32, u32),
}

/// How a matrix is stored of which half the elements are zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SparseAs {
    /// With its zeros, as any matrix.
    Dense,
    /// Without them, and with a bit for each element that says whether it is there.
    Bitmask,
}

/// A format of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// E4M3, with scales of 32 bits.
    Fp8(Strategy),
    /// Symmetric INT8 for 8-bit activations, with scales of 32 bits.
    Int8(Strategy),
    /// Integers of 4 or 8 bits in words of 32, with scales as the matrix was stored.
    Packed {
        bits: u32,
        strategy: Strategy,
        /// Without it each scale has a zero point.
        symmetric: bool,
    },
    /// E2M1 in groups of 16 with E4M3 scales, which one scale of the matrix carries. NVIDIA 2025, NVFP4.
    Nvfp4,
    /// E2M1 in groups of 32 with powers of two as scales. OCP Microscaling Formats 1.0.
    Mxfp4,
    /// Two of each four elements of a row, in the numbers that they had.
    TwoFour(SparseAs),
}

/// Which of a matrix's tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    Weight,
    Packed,
    Scale,
    GlobalScale,
    ZeroPoint,
    Shape,
    /// Elements that are no zeros, where [`PartKind::Bitmask`] says where they are.
    Compressed,
    Bitmask,
    /// Rows and columns, beside a bitmask.
    SparseShape,
}

impl PartKind {
    /// What stands in its name where `weight` stood.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Packed => "weight_packed",
            Self::Scale => "weight_scale",
            Self::GlobalScale => "weight_global_scale",
            Self::ZeroPoint => "weight_zero_point",
            Self::Shape => "weight_shape",
            Self::Compressed => "compressed",
            Self::Bitmask => "bitmask",
            Self::SparseShape => "shape",
        }
    }
}

/// A tensor that is stored of a matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub kind: PartKind,
    /// As safetensors names it.
    pub dtype: &'static str,
    pub shape: Vec<u64>,
}

impl Part {
    /// Its bytes; of a shape that nothing can have, as many as a number can be.
    pub fn bytes(&self) -> u64 {
        let each = match self.dtype {
            "I64" => 8,
            "I32" | "F32" => 4,
            "BF16" | "F16" => 2,
            _ => 1,
        };
        self.shape
            .iter()
            .fold(each, |bytes, size| bytes.saturating_mul(*size))
    }
}

/// Why a matrix cannot be stored so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("its rows have {columns} elements, which do not divide into groups of {group}")]
    Groups { columns: u64, group: u32 },
    #[error("it has no elements")]
    Empty,
}

impl Scheme {
    /// The group within a row, where scales, or choices of what stays, reach no further.
    pub(crate) fn group(self) -> Option<u32> {
        match self {
            Self::Fp8(Strategy::Group(group))
            | Self::Int8(Strategy::Group(group))
            | Self::Packed {
                strategy: Strategy::Group(group),
                ..
            } => Some(group),
            Self::Nvfp4 => Some(16),
            Self::Mxfp4 => Some(32),
            Self::TwoFour(_) => Some(sparse::GROUP as u32),
            _ => None,
        }
    }

    pub(crate) fn strategy(self) -> Strategy {
        match self {
            Self::Fp8(strategy) | Self::Int8(strategy) | Self::Packed { strategy, .. } => strategy,
            Self::Nvfp4 => Strategy::Group(16),
            Self::Mxfp4 => Strategy::Group(32),
            Self::TwoFour(_) => Strategy::Group(sparse::GROUP as u32),
        }
    }

    /// Whether rows can be encoded only when all were seen.
    pub fn asks_all(self) -> bool {
        self == Self::Nvfp4 || self.strategy() == Strategy::Tensor
    }

    /// Runs of rows are encoded by multiples of so many, but for the last.
    pub fn rows_together(self) -> u64 {
        match self {
            Self::Packed {
                bits,
                symmetric: false,
                ..
            } => u64::from(32 / bits),
            _ => match self.strategy() {
                Strategy::Block(rows, _) => u64::from(rows),
                _ => 1,
            },
        }
    }

    /// Whether a matrix can be stored so.
    ///
    /// # Errors
    /// When its rows do not divide into groups.
    pub fn fits(self, rows: u64, columns: u64) -> Result<(), Unfit> {
        if rows == 0 || columns == 0 {
            return Err(Unfit::Empty);
        }
        match self.group() {
            Some(group) if group == 0 || !columns.is_multiple_of(u64::from(group)) => {
                Err(Unfit::Groups { columns, group })
            }
            _ => Ok(()),
        }
    }

    /// The tensors of a matrix, in the order in which they are stored.
    ///
    /// # Errors
    /// When its rows do not divide into groups.
    pub fn parts(self, rows: u64, columns: u64, stored: Stored) -> Result<Vec<Part>, Unfit> {
        self.fits(rows, columns)?;
        let part = |kind, dtype, shape: &[u64]| Part {
            kind,
            dtype,
            shape: shape.to_vec(),
        };
        let scales: Vec<u64> = match self.strategy() {
            Strategy::Tensor => vec![1],
            Strategy::Channel => vec![rows, 1],
            Strategy::Group(group) => vec![rows, columns / u64::from(group)],
            Strategy::Block(height, width) => vec![
                rows.div_ceil(u64::from(height)),
                columns.div_ceil(u64::from(width)),
            ],
        };
        let own = [rows, columns];
        Ok(match self {
            Self::Fp8(_) => vec![
                part(PartKind::Weight, "F8_E4M3", &own),
                part(PartKind::Scale, "F32", &scales),
            ],
            Self::Int8(_) => vec![
                part(PartKind::Weight, "I8", &own),
                part(PartKind::Scale, "F32", &scales),
            ],
            Self::Packed {
                bits, symmetric, ..
            } => {
                let words = columns.saturating_mul(u64::from(bits)).div_ceil(32);
                let mut parts = vec![
                    part(PartKind::Packed, "I32", &[rows, words]),
                    part(PartKind::Scale, stored.name(), &scales),
                ];
                if !symmetric {
                    let down = rows.saturating_mul(u64::from(bits)).div_ceil(32);
                    let shape = [down, scales[1]];
                    parts.push(part(PartKind::ZeroPoint, "I32", &shape));
                }
                parts.push(part(PartKind::Shape, "I64", &[2]));
                parts
            }
            Self::Nvfp4 => vec![
                part(PartKind::Packed, "U8", &[rows, columns / 2]),
                part(PartKind::Scale, "F8_E4M3", &scales),
                part(PartKind::GlobalScale, "F32", &[1]),
            ],
            Self::Mxfp4 => vec![
                part(PartKind::Packed, "U8", &[rows, columns / 2]),
                part(PartKind::Scale, "U8", &scales),
            ],
            Self::TwoFour(SparseAs::Dense) => vec![part(PartKind::Weight, stored.name(), &own)],
            Self::TwoFour(SparseAs::Bitmask) => vec![
                part(PartKind::Compressed, stored.name(), &[rows, columns / 2]),
                part(PartKind::Bitmask, "U8", &[rows, columns.div_ceil(8)]),
                part(PartKind::SparseShape, "I64", &[2, 1]),
            ],
        })
    }
}
