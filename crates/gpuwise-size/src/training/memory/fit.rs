//! Whether a setup fits a GPU, and the largest micro-batch that does.

use super::{MemoryFix, TrainingMemoryError, fixes, training_memory};
use alloc::vec::Vec;
use gpuwise_domain::{
    model::Architecture,
    training::{TrainingMemory, TrainingSetup},
};

/// Share of the memory that a program sees which a job can fill: blocks of the allocator do not fit
/// each other to the last byte. Of 169 FSDP runs that ended well none needs more by our sum.
const FILLABLE: f64 = 0.97;

/// What a job may fill of the bytes that a program sees.
pub fn usable(visible: f64) -> f64 {
    FILLABLE * visible
}

/// Whether a setup fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    pub memory: TrainingMemory,
    /// Bytes of one GPU that a job may fill.
    pub usable: f64,
    /// Bytes left on the fullest rank; below 0: so many are missing.
    pub left: f64,
    /// What would make it fit, cheapest first; empty where it fits.
    pub fixes: Vec<MemoryFix>,
}

impl Fit {
    /// Whether every rank fits.
    pub fn fits(&self) -> bool {
        self.left >= 0.0
    }
}

/// Bytes that the fullest rank needs, with what its allocator holds beside.
pub(super) fn needed(memory: &TrainingMemory) -> f64 {
    memory
        .ranks
        .iter()
        .map(|rank| rank.reserved.value)
        .fold(0.0, f64::max)
}

/// Whether a setup fits GPUs of which a program sees so many bytes, and what would help if not.
///
/// # Errors
/// As [`training_memory`].
pub fn fits(
    architecture: &Architecture,
    setup: &TrainingSetup,
    visible: f64,
) -> Result<Fit, TrainingMemoryError> {
    let memory = training_memory(architecture, setup)?;
    let usable = usable(visible);
    let left = usable - needed(&memory);
    let fixes = if left < 0.0 {
        fixes(architecture, setup, visible)
    } else {
        Vec::new()
    };
    Ok(Fit {
        memory,
        usable,
        left,
        fixes,
    })
}

/// The largest micro-batch up to `most` that fits GPUs of which a program sees so many bytes; `None`
/// where not even one sequence does.
///
/// # Errors
/// As [`training_memory`].
pub fn largest_micro_batch(
    architecture: &Architecture,
    setup: &TrainingSetup,
    visible: f64,
    most: u64,
) -> Result<Option<u64>, TrainingMemoryError> {
    let room = usable(visible);
    let fits = |micro_batch: u64| -> Result<bool, TrainingMemoryError> {
        let ranks = u64::from(setup.layout.data.max(1));
        let candidate = TrainingSetup {
            micro_batch,
            global_batch: setup.global_batch.max(ranks * micro_batch),
            ..setup.clone()
        };
        Ok(needed(&training_memory(architecture, &candidate)?) <= room)
    };
    if !fits(1)? {
        return Ok(None);
    }
    let (mut low, mut high) = (1, most.max(1) + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(Some(low))
}
