//! What dumps of flight recorders say of a job that hangs.

use crate::profile::flight_recorder::Frame;
use alloc::{string::String, vec::Vec};

/// Dumps of the ranks of one job, held against one another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HangSource {
    /// Ranks of which there is a dump, where their files name them.
    pub ranks: Vec<u32>,
    pub dump_count: u64,
    /// Collectives in which ranks wait, the cause before what it causes.
    pub hangs: Vec<Hang>,
}

/// A collective in which ranks wait.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hang {
    /// Name of the process group.
    pub group: String,
    /// What the group is for, where stated.
    pub description: Option<String>,
    /// Its number within the group.
    pub sequence: u64,
    /// What most ranks called (`nccl:all_reduce`).
    pub operation: String,
    /// Shapes of what they gave.
    pub input_sizes: Vec<Vec<u64>>,
    /// Ranks that called it and whose devices run it: they wait for the others.
    pub waiting: Vec<u32>,
    /// Ranks that called it and whose devices have not begun it (or nobody looked).
    pub scheduled: Vec<u32>,
    /// Ranks that finished it.
    pub completed: Vec<u32>,
    /// Ranks that did not call it, each with the last thing it called in this group.
    pub late: Vec<LateRank>,
    /// Ranks of the group of which there is no dump.
    pub missing: Vec<u32>,
    /// Ranks that called something else under this number.
    pub astray: Vec<(u32, String)>,
    /// Where in the program the waiting ranks called it, innermost first.
    pub frames: Vec<Frame>,
    /// Index of the hang in which the late ranks wait themselves: that one comes first.
    pub caused_by: Option<usize>,
}

/// A rank that did not come to a collective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateRank {
    pub rank: u32,
    /// Number and name of its last collective in this group, where it has one.
    pub last: Option<(u64, String)>,
    /// Where in the program that was, innermost first.
    pub frames: Vec<Frame>,
}

impl Hang {
    /// The ranks to look at: those missing or late; else those that went astray; else, where some
    /// devices run it and others do not, the latter. None where all run it: then the network or a
    /// device is what hangs.
    pub fn suspects(&self) -> Vec<u32> {
        let mut ranks: Vec<u32> = self.missing.clone();
        ranks.extend(self.late.iter().map(|late| late.rank));
        if ranks.is_empty() {
            ranks.extend(self.astray.iter().map(|(rank, _)| *rank));
        }
        if ranks.is_empty() && !(self.waiting.is_empty() && self.completed.is_empty()) {
            ranks.clone_from(&self.scheduled);
        }
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }
}
