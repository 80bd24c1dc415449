use super::tracer::product;

/// Positions of an image or a map of features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) height: u64,
    pub(super) width: u64,
}

impl Grid {
    pub(super) fn positions(self) -> u64 {
        product(&[self.height, self.width])
    }

    /// Behind a padded convolution with a stride of two.
    pub(super) fn halved(self) -> Self {
        Self {
            height: self.height.div_ceil(2),
            width: self.width.div_ceil(2),
        }
    }

    pub(super) fn doubled(self) -> Self {
        self.times(2)
    }

    pub(super) fn times(self, by: u64) -> Self {
        Self {
            height: self.height.saturating_mul(by),
            width: self.width.saturating_mul(by),
        }
    }

    pub(super) fn divided(self, by: u64) -> Self {
        Self {
            height: self.height / by.max(1),
            width: self.width / by.max(1),
        }
    }
}
