//! Who holds what of a fleet at a moment: what pictures and tables show beside the fleet itself.

use super::{GpuId, JobId, NodeId, Part};
use alloc::{string::String, vec::Vec};

/// Who holds what at a moment, in the order of GPUs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Moment {
    pub holdings: Vec<Holding>,
    /// MIG instances that nobody holds: on which GPU, the profile's place in the kind's geometry, and
    /// the memory slice at which each starts.
    pub idle: Vec<(GpuId, u8, u8)>,
    /// Pooled GPUs that are attached, and to which node.
    pub attached: Vec<(GpuId, NodeId)>,
}

/// What one worker holds of one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Holding {
    pub gpu: GpuId,
    pub part: Part,
    pub job: JobId,
    pub name: String,
    pub tenant: String,
}
