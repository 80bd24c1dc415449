//! What came late or twice: counted, and of no other effect.

/// Events that changed nothing because they came late, twice or out of order; and those that were taken
/// as they came though something before them is still to be heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Ignored {
    /// Of an attempt after which another one has begun.
    pub late: u64,
    /// Of an attempt that is over, or of something that is as it says already.
    pub repeated: u64,
    /// Of a job, node or GPU that is not there, or no more.
    pub unknown: u64,
    /// Of an action that cannot have been carried out as far as is known: what is and what is thought to
    /// be differ.
    pub unexpected: u64,
    /// Good news of a node that is fenced: it comes back by its inventory alone.
    pub fenced: u64,
    /// Taken as they came, before what they wait for was confirmed.
    pub early: u64,
}

impl Ignored {
    /// All that changed nothing.
    pub const fn total(&self) -> u64 {
        self.late + self.repeated + self.unknown + self.unexpected + self.fenced
    }
}
