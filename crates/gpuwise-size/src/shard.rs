//! What one rank holds of a tensor.

use gpuwise_domain::{
    layout::Layout,
    model::{Role, Split, Tensor},
};

/// The share of a tensor's elements on one rank, and its shape there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shard {
    pub rows: f64,
    pub columns: f64,
    /// Copies; fractional for experts that do not divide evenly.
    pub copies: f64,
}

impl Shard {
    pub fn elements(&self) -> f64 {
        self.rows * self.columns * self.copies
    }
}

/// The part of a tensor that one rank of the layout holds.
pub fn shard(tensor: &Tensor, layout: &Layout) -> Shard {
    let whole = Shard {
        rows: tensor.rows as f64,
        columns: tensor.columns as f64,
        copies: tensor.copies as f64,
    };
    match tensor.split {
        Split::Replicated => whole,
        Split::Output(pieces) => Shard {
            rows: whole.rows * piece_share(pieces, layout.tensor),
            ..whole
        },
        Split::Input(pieces) => Shard {
            columns: whole.columns * piece_share(pieces, layout.tensor),
            ..whole
        },
        Split::Vocabulary => Shard {
            // Engines pad the vocabulary to a multiple of 64.
            rows: libm::ceil(whole.rows / 64.0) * 64.0 / f64::from(layout.tensor),
            ..whole
        },
        Split::Experts => {
            let groups = f64::from(layout.expert.max(1));
            let within = f64::from(layout.expert_tensor());
            // Expert matrices are split along their inner width.
            let upward = tensor.role != Role::ExpertDown;
            Shard {
                rows: if upward {
                    whole.rows / within
                } else {
                    whole.rows
                },
                columns: if upward {
                    whole.columns
                } else {
                    whole.columns / within
                },
                copies: whole.copies / groups,
            }
        }
    }
}

/// The share of indivisible pieces on one of `ranks`: at least one piece, rounded up.
pub fn piece_share(pieces: u64, ranks: u32) -> f64 {
    let pieces = pieces.max(1);
    pieces.div_ceil(u64::from(ranks.max(1))) as f64 / pieces as f64
}
