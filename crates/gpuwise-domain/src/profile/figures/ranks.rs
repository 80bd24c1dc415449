//! Figures of a profile of one or many ranks.

use super::{
    device::DeviceFigures,
    host::{CriticalPath, FlopFigures, HostFigures, MemoryFigures, StepFigures},
    sequence::SequenceFigures,
};
use crate::profile::{
    joined::Joined,
    parallel::LayoutComparison,
    timeline::{Format, Lack, Needed},
};
use alloc::{string::String, vec::Vec};

/// Everything measured of one profile.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProfileFigures {
    /// Each file, ordered by rank where all state theirs, else as given.
    pub ranks: Vec<RankFigures>,
    /// Who waited for whom in collectives, where two or more ranks are there.
    pub stragglers: Option<Stragglers>,
    /// What was recorded beside it.
    pub joined: Joined,
    /// Its layout beside others on the same GPUs, where that was asked for.
    pub layouts: Option<LayoutComparison>,
    /// What is missing in the input, in words.
    pub missing: Vec<String>,
}

/// Everything measured of one file: one process, one rank.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RankFigures {
    /// The file as the user named it.
    pub file: String,
    pub format: Format,
    /// What figures need and the file has not: those are not told.
    pub lacks: Vec<Lack>,
    /// Its rank, where stated or told by the file's name.
    pub rank: Option<u32>,
    /// Bytes of the file, unpacked.
    pub file_bytes: u64,
    /// Events of the file in all.
    pub event_count: u64,
    /// Complete events by category, the most frequent first, equal ones in order of appearance.
    pub categories: Vec<(String, u64)>,
    pub whole: DeviceFigures,
    /// Each device, in ascending order of its number.
    pub devices: Vec<DeviceFigures>,
    pub host: HostFigures,
    /// Steps, where the file marks them.
    pub steps: Option<StepFigures>,
    /// What the busiest stream repeats, where it repeats anything.
    pub sequence: Option<SequenceFigures>,
    pub flops: FlopFigures,
    /// Memory by device, where the file has the allocator's events.
    pub memory: Vec<MemoryFigures>,
    pub collectives: Vec<CollectiveKind>,
    /// The critical path, where there was GPU work.
    pub critical_path: Option<CriticalPath>,
}

impl RankFigures {
    /// Where what figures need would be, if the file had it.
    pub fn lack(&self, needed: Needed) -> Option<&str> {
        let mut lacks = self.lacks.iter();
        Some(&lacks.find(|lack| lack.needed == needed)?.place)
    }
}

/// Collectives of one kind and group size on one rank.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CollectiveKind {
    /// The collective (`allreduce`).
    pub name: String,
    /// Ranks that take part, where stated.
    pub group_size: Option<u32>,
    pub count: u64,
    pub sum_ns: i64,
    /// Bytes of those that state them.
    pub bytes: u64,
    /// Bus bandwidth in bytes a second over those: bytes / time × (n−1)/n, twice that for
    /// all-reduce. On one rank alone the time includes waiting for the others.
    pub bus_bandwidth: Option<f64>,
}

/// Who waited for whom: collectives of several ranks laid beside one another.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stragglers {
    /// Collectives, each with the straggler; in order.
    pub collectives: Vec<MatchedCollective>,
    /// Collectives that could not be matched over the ranks.
    pub unmatched: u64,
    pub ranks: Vec<RankLateness>,
}

/// One collective over the ranks. The rank with the shortest kernel is the straggler: the others' kernels
/// had waited for it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MatchedCollective {
    /// The collective, or the kernel's name where it is not stated.
    pub name: String,
    /// The process group, where stated.
    pub group: Option<String>,
    /// Its place: sequence number where stated, else order within the group.
    pub order: u64,
    /// The rank that came last; nobody where two or more were equally late.
    pub last_rank: Option<u32>,
    /// How much longer the longest kernel was: what the first rank waited, the profiler's overhead left
    /// out.
    pub lateness_ns: i64,
    /// Of what it waited, time that the last rank's profiler took before it came.
    pub overhead_ns: i64,
    /// The shortest kernel: about the transfer itself.
    pub transfer_ns: i64,
    /// Ranks that took part and are here.
    pub ranks: u32,
    /// Bus bandwidth in bytes a second over the shortest kernel, where bytes are stated.
    pub bus_bandwidth: Option<f64>,
    /// When it started on the straggler, on that rank's clock.
    pub start_ns: i64,
    pub end_ns: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RankLateness {
    pub rank: u32,
    /// Collectives in which it came last.
    pub last_count: u64,
    /// Collectives that it took part in.
    pub count: u64,
    /// What the others waited for it: sum of the lateness of those in which it came last.
    pub caused_ns: i64,
    /// What it waited for others: sum of its own durations beyond the shortest.
    pub waited_ns: i64,
}
