//! What an allocator of device memory held and did, as its snapshot tells.

use super::timeline::{Index, Loss};
use alloc::{boxed::Box, format, string::String, vec::Vec};

/// A snapshot of PyTorch's caching allocator (`torch.cuda.memory._dump_snapshot`).
///
/// Memory that libraries take past the allocator (NCCL, cuBLAS, the CUDA context) is not in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MemorySnapshot {
    /// What the file holds, by its own keys in alphabetical order.
    pub keys: Vec<String>,
    /// Memory taken from the driver at the end, and how it is cut up.
    pub segments: Vec<Segment>,
    /// What was recorded, by device number; empty for a device that recorded nothing.
    pub traces: Vec<Vec<AllocatorEvent>>,
    /// Call stacks of allocations, each once.
    pub stacks: Stacks,
    /// Settings of the allocator, as the file writes them.
    pub settings: Vec<(String, String)>,
    /// Ranges that the framework named (`Optimizer.step#AdamW.step`).
    pub annotations: Vec<SnapshotAnnotation>,
    /// What the file had, or should have had, and that is missing here.
    pub losses: Vec<Loss>,
}

/// A piece of memory taken from the driver.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Segment {
    pub device: i64,
    /// Bytes taken from the driver.
    pub total_bytes: u64,
    /// Bytes of blocks in use.
    pub allocated_bytes: u64,
    /// Bytes of blocks in use, or freed while the device still works on them.
    pub active_bytes: u64,
    /// Bytes that were asked for in blocks in use; less than allocated by rounding. Absent in old files.
    pub requested_bytes: Option<u64>,
    /// The CUDA stream it belongs to.
    pub stream: u64,
    /// The pool, as the file names it (`small`, `large`).
    pub pool: String,
    /// Whether it can grow in place, where stated.
    pub expandable: Option<bool>,
    /// What it is cut into, in order of address.
    pub blocks: Vec<Block>,
}

/// A part of a [`Segment`].
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Where it begins, where stated.
    pub address: Option<u64>,
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes that were asked for, where stated.
    pub requested_bytes: Option<u64>,
    pub state: BlockState,
    /// Index into [`Stacks::stacks`]: who asked for it, where recorded.
    pub stack: Index,
}

/// Whether a block is in use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockState {
    Allocated,
    /// Freed, but the device may still work on it; spelled `active_pending_free` or
    /// `active_awaiting_free`, by version.
    PendingFree(Box<str>),
    Inactive,
    /// A state of a later version, as the file spells it.
    Other(Box<str>),
}

impl BlockState {
    /// As the file spells it.
    pub fn name(&self) -> &str {
        match self {
            Self::Allocated => "active_allocated",
            Self::PendingFree(name) | Self::Other(name) => name,
            Self::Inactive => "inactive",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct AllocatorEvent {
    pub action: AllocatorAction,
    pub address: u64,
    /// Bytes as they were asked for; free bytes of the device are in `device_free`.
    pub bytes: u64,
    /// Microseconds since 1970, where stated.
    pub at_us: Option<i64>,
    /// Bytes that the device still had, of [`AllocatorAction::OutOfMemory`] alone.
    pub device_free: Option<u64>,
    /// Index into [`Stacks::stacks`].
    pub stack: Index,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllocatorAction {
    Alloc,
    /// Was given a block back, which the device may still work on.
    FreeRequested,
    /// Could use the block again.
    FreeCompleted,
    /// Took a segment from the driver.
    SegmentAlloc,
    /// Gave a segment back to the driver.
    SegmentFree,
    /// Grew an expandable segment.
    SegmentMap,
    /// Shrank an expandable segment.
    SegmentUnmap,
    OutOfMemory,
    Snapshot,
    /// Something of a later version, as the file spells it.
    Other(Box<str>),
}

impl AllocatorAction {
    /// As the file spells it.
    pub fn name(&self) -> &str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::OutOfMemory => "oom",
            Self::Snapshot => "snapshot",
            Self::Other(name) => name,
        }
    }
}

/// Call stacks, each once, and their frames, each once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stacks {
    /// Frames, in order of first use.
    pub frames: Vec<Frame>,
    /// Stacks of indices into `frames`, the innermost frame first.
    pub stacks: Vec<Box<[u32]>>,
}

impl Stacks {
    /// The frames of a stack, the innermost first.
    pub fn frames_of(&self, stack: Index) -> impl Iterator<Item = &Frame> {
        stack
            .get()
            .and_then(|index| self.stacks.get(index))
            .into_iter()
            .flatten()
            .filter_map(|frame| self.frames.get(*frame as usize))
    }

    /// Who asked for memory, by the frame that tells a person most: code of the user, else of a
    /// library, else the operator, else the innermost frame.
    pub fn owner(&self, stack: Index) -> Option<String> {
        let frames = || self.frames_of(stack);
        let python = |frame: &&Frame| frame.file.ends_with(".py");
        let library = |frame: &Frame| {
            ["/torch/", "site-packages", "dist-packages"]
                .iter()
                .any(|part| frame.file.contains(part))
        };
        let user = frames().filter(python).find(|frame| !library(frame));
        if let Some(frame) = user.or_else(|| frames().find(python)) {
            let mut parts = frame.file.rsplitn(3, '/');
            let (file, folder) = (parts.next().unwrap_or_default(), parts.next());
            let folder = folder.map_or_else(String::new, |folder| format!("{folder}/"));
            return Some(format!(
                "{} ({folder}{file}:{})",
                frame.function, frame.line
            ));
        }
        let operator = frames().find_map(|frame| {
            let (_, rest) = frame.function.split_once("at::_ops::")?;
            rest.split(['(', ':']).next()
        });
        let name = operator.or_else(|| frames().next().map(|frame| &*frame.function))?;
        Some(name.into())
    }
}

/// A place in code.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frame {
    pub function: Box<str>,
    /// The file, as the profiler wrote it.
    pub file: Box<str>,
    /// The line; 0 where it is not known.
    pub line: u32,
}

/// The start or the end of a range that the framework named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotAnnotation {
    pub name: String,
    /// Whether it starts here; else it ends.
    pub starts: bool,
    /// Microseconds since 1970, where stated.
    pub at_us: Option<i64>,
}

/// Memory by category over time, as `export_memory_timeline` of PyTorch's profiler writes it raw.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CategoryTimeline {
    /// Its events in the order of the file.
    pub events: Vec<CategoryEvent>,
}

/// Bytes that came or went in a category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CategoryEvent {
    /// Nanoseconds since 1970; absent for what was there before the recording.
    pub at_ns: Option<i64>,
    /// Bytes, negative where they went.
    pub bytes: i64,
    pub category: MemoryCategory,
}

gpuwise_units::named! {
    /// What memory is used for, as PyTorch's profiler tells.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum MemoryCategory:
        /// Its name, as in JSON.
        name
    {
        Parameter = "parameter",
        OptimizerState = "optimizer_state",
        /// Inputs of the model.
        Input = "input",
        /// What lives within an operator.
        Temporary = "temporary",
        /// Activations kept for the backward pass.
        Activation = "activation",
        Gradient = "gradient",
        /// Book-keeping of automatic differentiation.
        AutogradDetail = "autograd_detail",
        /// What the profiler could not tell.
        Unknown = "unknown",
    }
}
