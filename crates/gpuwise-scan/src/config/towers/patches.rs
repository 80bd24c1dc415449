//! Cutting images into patches.

use super::{Reader, blocks::Sheet};
use crate::config::ConfigError;

/// What turns pixels into the stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patches {
    pub(super) channels: u64,
    /// Pixels along a side.
    pub(super) side: u64,
    pub(super) frames: u64,
}

impl Patches {
    pub(super) fn read(reader: &Reader<'_>, side: u64, frames: u64) -> Result<Self, ConfigError> {
        Ok(Self {
            channels: reader.get(&["num_channels", "in_channels", "in_chans"], 3)?,
            side: reader.size("patch_size", side)?,
            frames: if frames > 1 {
                reader.size("temporal_patch_size", frames)?
            } else {
                1
            },
        })
    }

    /// Numbers in a patch; dimensions are bounded, but four of them may pass 2^64.
    pub(super) fn elements(self) -> u64 {
        let pixels = self.side * self.side;
        pixels
            .saturating_mul(self.channels)
            .saturating_mul(self.frames)
    }

    /// The map of patches into the stream.
    pub(super) fn embed(self, sheet: &mut Sheet, hidden: u64, bias: bool) {
        sheet.linear_if(bias, "patch_embedding", hidden, self.elements());
    }
}
