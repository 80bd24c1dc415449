//! Snapshots of PyTorch's allocator of device memory, and its timelines by category.

mod raw;
mod snapshot;
mod stacks;

pub use raw::read_category_timeline;
pub use snapshot::{from_pickle, read_memory_snapshot};

use crate::pickle::PickleError;
use thiserror::Error;

/// Why a memory snapshot was not read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MemorySnapshotError {
    /// The pickle could not be read.
    #[error(transparent)]
    Pickle(#[from] PickleError),
    /// A pickle of something else.
    #[error(
        "not a memory snapshot: the pickle holds {found}; a snapshot is a dictionary with `segments`"
    )]
    NotASnapshot {
        /// What it holds instead.
        found: String,
    },
    /// A field that is missing, or of the wrong kind.
    #[error("memory snapshot: {place} has no {field} that is {wanted}")]
    Field {
        /// Where (`segment 3`).
        place: String,
        field: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// The timeline by category is not one.
    #[error("memory timeline, event {event}: {what}; each is [time, action, bytes, category]")]
    Timeline {
        /// Which event, counted from 1; 0 for the file as a whole.
        event: usize,
        what: String,
    },
}
