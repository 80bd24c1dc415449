//! Figures of planes of TensorFlow's and JAX's profiler, in picoseconds.

use crate::profile::timeline::Loss;
use alloc::{string::String, vec::Vec};

/// A file of planes, measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlanesSource {
    pub byte_count: u64,
    /// Planes in the order of the file.
    pub planes: Vec<PlaneSummary>,
    pub losses: Vec<Loss>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlaneSummary {
    pub id: i64,
    pub name: String,
    pub is_device: bool,
    pub line_count: u64,
    /// Entries of its table of event names.
    pub event_name_count: u64,
    /// Figures over all its lines.
    pub figures: PlaneFigures,
    /// Its lines in the order of the file.
    pub lines: Vec<LineSummary>,
    /// Names of work with count and summed time, the longest first.
    pub top: Vec<(String, u64, i128)>,
    /// Steps that the profiler marked, else runs of compiled modules, in order of time.
    pub steps: Vec<PlaneStep>,
}

/// A step of a device, in picoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlaneStep {
    pub name: String,
    pub start_ps: i128,
    pub duration_ps: i128,
    /// Of it, in operations.
    pub busy_ps: i128,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LineSummary {
    pub id: i64,
    pub name: String,
    /// Time from which its events count, in nanoseconds.
    pub timestamp_ns: i64,
    pub figures: PlaneFigures,
}

/// Figures of a set of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlaneFigures {
    pub event_count: u64,
    /// Events without a length.
    pub zero_duration_count: u64,
    /// Aggregates, which have no start: they count in the sum and in nothing else.
    pub without_start_count: u64,
    /// Sum of lengths, in picoseconds.
    pub sum_ps: i128,
    /// Union of `[start, end)`, in picoseconds.
    pub busy_ps: i128,
    /// From the first start to the last end, in picoseconds.
    pub span_ps: i128,
    /// The first start; absent where no event has one.
    pub first_start_ps: Option<i128>,
}
