//! What a stream does again and again.

use alloc::vec::Vec;

/// The sequence of kernels that a stream repeats: its step, found without markers.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceFigures {
    /// Kernels of one repeat.
    pub kernels: u32,
    /// How often it ran.
    pub count: u32,
    /// From the start of each repeat to that of the next, on the device; repeats with something else
    /// between them and the next are left out.
    pub repeats: Vec<(i64, i64)>,
    pub median_ns: i64,
    /// Share of the stream's kernels that lie in repeats of about that length.
    pub covered: f64,
    /// What repeats within it: a layer, say.
    pub inner: Option<InnerSequence>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InnerSequence {
    pub kernels: u32,
    pub count: u32,
}
