//! What the flight recorder of a communication library noted: the last collectives of one rank.

use alloc::{string::String, vec::Vec};

/// The dump of one rank.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlightRecord {
    /// The rank, where it can be told; a dump does not state it, its file's name does.
    pub rank: Option<u32>,
    /// Version of the format, as stated (`2.5`).
    pub version: Option<String>,
    pub groups: Vec<ProcessGroup>,
    /// Collectives and messages, in the order in which the host called them. It is a ring: older
    /// ones may be gone.
    pub entries: Vec<FlightEntry>,
    /// What the dump had and this record has not, each with its count.
    pub losses: Vec<super::timeline::Loss>,
}

/// A process group: ranks that communicate together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessGroup {
    /// Its name (`0`), the same on all ranks.
    pub name: String,
    /// What it is for, where stated (`default_pg`).
    pub description: Option<String>,
    /// Its ranks, in the group's order; empty where not stated.
    pub ranks: Vec<u32>,
    /// Number of the last collective that the host called, where stated.
    pub last_enqueued: Option<u64>,
    /// Number of the last collective that began on the device, where stated.
    pub last_started: Option<u64>,
    /// Number of the last collective that was done, where stated.
    pub last_completed: Option<u64>,
}

/// One collective or message, as one rank saw it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlightEntry {
    /// Name of its process group.
    pub group: String,
    /// Its number within the group, the same on all ranks; collectives alone.
    pub sequence: u64,
    /// What was called (`nccl:all_reduce`).
    pub operation: String,
    /// A message from one rank to another, no collective.
    pub is_point_to_point: bool,
    pub input_sizes: Vec<Vec<u64>>,
    pub output_sizes: Vec<Vec<u64>>,
    /// Type of each input, as stated.
    pub input_types: Vec<String>,
    pub state: FlightState,
    /// When the host called it, in nanoseconds since 1970 of that host's clock.
    pub created_ns: Option<i64>,
    /// After how many milliseconds it is given up, where stated.
    pub timeout_ms: Option<u64>,
    /// Where in the program it was called, the innermost first.
    pub frames: Vec<Frame>,
}

/// How far a collective came on one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum FlightState {
    /// Called by the host; the device has not begun it, or nobody looked.
    #[default]
    Scheduled,
    /// Running on the device: it waits for the others, or moves data.
    Started,
    Completed,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Frame {
    pub function: String,
    pub file: String,
    /// Line, from 1; 0 where not stated.
    pub line: u64,
}
