//! What the trace viewer of TensorFlow and JAX serves (`*.trace.json.gz`): a sample, capped by its
//! writer, with lines that were derived from others.
//!
//! Only lines that the profiler recorded are read: streams of GPUs and threads of the host. Derived
//! ones (`XLA Modules`, `Framework Ops`, `Source code`) repeat the same time and are left out.

mod events;

pub use events::read_trace_viewer;

use thiserror::Error;

/// Why a trace of the viewer was not read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceViewerError {
    /// It is no JSON, or ends too early.
    #[error("trace of the viewer, after {events} events: {what}")]
    Json {
        /// Events before the fault.
        events: u64,
        /// What was wrong, and where.
        what: String,
    },
    /// It is JSON without device or host processes of the viewer.
    #[error("not a trace of the viewer: no process is named `/device:…` or `/host:…`")]
    NotATrace,
}

/// Whether the beginning of a text is that of the viewer's trace: its processes are named
/// `/device:…` or `/host:…`.
pub fn is_trace_viewer(beginning: &[u8]) -> bool {
    let contains = |what: &[u8]| memchr::memmem::find(beginning, what).is_some();
    contains(b"\"process_name\"") && (contains(b"\"/device:") || contains(b"\"/host:"))
}
