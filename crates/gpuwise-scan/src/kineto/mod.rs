//! Traces of the PyTorch profiler: Chrome-trace JSON as Kineto writes it.
//!
//! The file is read as a stream: what is held is a window of about a megabyte and the timeline. Events
//! that no figure needs (Python functions, arrows) are passed over without being taken apart. A file
//! that is cut or damaged gives what could be read, and [`Timeline::losses`] says what could not.

mod args;
mod backward;
mod build;
mod event;
mod gzip;
mod head;
mod lex;
mod link;
mod losses;
mod names;
mod number;
mod once;
mod source;
mod stream;
mod vocabulary;

pub use gzip::open;
pub use vocabulary::{OtherDevice, Vocabulary};

use gpuwise_domain::profile::timeline::Timeline;
use std::io::Read;

/// Limits that bound memory on hostile input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one event or one value beside the events. The largest known, launches of thousands of
    /// tensors with their shapes, have some hundred kilobytes.
    pub largest_piece: usize,
    /// Spans, samples and allocator events that are kept: each takes about 60 bytes.
    pub most_spans: usize,
    /// Bytes of all distinct names, launch shapes and operands.
    pub most_text_bytes: usize,
    /// Streams, and named threads.
    pub most_streams: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            largest_piece: 16 << 20,
            most_spans: 50_000_000,
            most_text_bytes: 512 << 20,
            most_streams: 4096,
        }
    }
}

/// Why a file gives no timeline at all.
#[derive(Debug, thiserror::Error)]
pub enum KinetoError {
    /// It could not be read.
    #[error("reading stopped after {read} bytes: {error}")]
    Io {
        /// Bytes that were read (of the uncompressed text).
        read: u64,
        /// What the system said.
        error: std::io::Error,
    },
    /// There is nothing in it.
    #[error("the file is empty")]
    Empty,
    /// It is no such JSON.
    #[error("not a trace of the PyTorch profiler: {what} at byte {place}")]
    NotATrace {
        /// What was found instead.
        what: &'static str,
        place: u64,
    },
    #[error("the file ends after {read} bytes, before its events (`traceEvents`) begin{}", why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    CutBeforeEvents {
        /// Bytes that were read (of the uncompressed text).
        read: u64,
        /// Why the data ends, where the decompressor says so.
        why: Option<String>,
    },
    #[error("the file ends after {read} bytes, before its first event is whole{}", why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    CutInFirstEvent {
        /// Bytes that were read (of the uncompressed text).
        read: u64,
        /// Why the data ends, where the decompressor says so.
        why: Option<String>,
    },
}

/// Reads a trace from uncompressed JSON; [`open`] unwraps gzip.
///
/// # Errors
/// When nothing of it can be read: see [`KinetoError`].
pub fn read(
    reader: impl Read,
    vocabulary: &Vocabulary,
    limits: &Limits,
) -> Result<Timeline, KinetoError> {
    stream::read(reader, vocabulary, limits)
}

/// Reads a trace from bytes as they are in the file, compressed or not.
///
/// # Errors
/// When nothing of it can be read: see [`KinetoError`].
pub fn read_bytes(bytes: &[u8]) -> Result<Timeline, KinetoError> {
    read(open(bytes), &Vocabulary::default(), &Limits::default())
}
