//! Shapes of what looks at images and volumes.

use super::TransformerSize;
use alloc::vec::Vec;

/// A transformer over patches of an image, with a token for the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VisionTransformer {
    pub size: TransformerSize,
    /// Pixels of a patch's side.
    pub patch: u64,
    /// Pixels of the image's side for which positions are stored.
    pub image: u64,
    pub channels: u64,
    pub head: VisionHead,
}

/// What stands on a transformer over patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VisionHead {
    /// A last norm alone.
    None,
    /// A last norm, and a dense layer over the first token.
    Pooler,
    /// A last norm, and scores of this many classes.
    Classes(u64),
    /// As CLIP has it: norms before and behind, no bias of patches; a projection to this width.
    Clip {
        /// Width of the space shared with text.
        projection: Option<u64>,
        /// Whether the factor of similarities is counted here: where both towers are one model.
        scale: bool,
    },
}

/// `ResNet` and `ResNeXt`: stages of residual blocks of convolutions with batch norms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResidualNetwork {
    pub channels: u64,
    /// Width behind the first convolution.
    pub stem: u64,
    /// Blocks and output width of each stage.
    pub stages: Vec<(u64, u64)>,
    /// Inner width of a stage's blocks as a share of the output's: 4 for a quarter. 1 where blocks
    /// have two wide convolutions.
    pub reduction: u64,
    /// Whether blocks narrow, convolve and widen.
    pub bottleneck: bool,
    /// Whether the first stage halves the image as the others do.
    pub halve_first: bool,
    /// Whether a block that halves does so in its first convolution instead of the middle one.
    pub halve_early: bool,
    /// Groups of the middle convolution.
    pub groups: u64,
    /// Scored classes; 0 without a head.
    pub classes: u64,
    /// Pixels of the image's side for which it was trained.
    pub image: u64,
}

/// `RetinaNet`: a residual network, a pyramid of five levels, two heads that all levels share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retinanet {
    pub backbone: ResidualNetwork,
    pub pyramid: u64,
    /// Convolutions of a head before its last.
    pub convolutions: u64,
    pub classes: u64,
    /// Boxes at each position.
    pub anchors: u64,
}

/// A U-net over volumes: two convolutions a level, instance norms, a level more at the bottom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeUnet {
    pub channels: u64,
    /// Channels of each level; the bottom repeats the last.
    pub filters: Vec<u64>,
    pub classes: u64,
    /// Voxels of a window's side.
    pub window: u64,
}
