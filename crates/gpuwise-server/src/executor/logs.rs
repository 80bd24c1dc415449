//! What processes of leases wrote, as an executor keeps it.

use std::{fmt::Debug, io};

/// What an executor keeps of what processes write.
pub trait Logs: Debug + Send + Sync {
    /// At most `most` bytes of what a worker wrote, from the byte `after` on; `None`: it wrote nothing yet.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, lease: u32, worker: u32, after: u64, most: u64) -> io::Result<Option<Piece>>;
}

/// A piece of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub bytes: Vec<u8>,
    /// Bytes that there are.
    pub size: u64,
}
