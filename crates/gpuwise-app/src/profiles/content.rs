//! The format of a profile, by its first bytes.

use gpuwise_read::{flight_recorder, kernel_counters, pickle, trace_viewer, xplane};
use std::io::Read as _;

/// Bytes that are looked at.
pub(crate) const HEAD: usize = 64 << 10;

/// What a file seems to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Chrome-trace JSON, as the PyTorch profiler writes it; compressed or not.
    Trace,
    /// JSON that the trace viewer of TensorFlow and JAX serves.
    TraceViewer,
    /// Planes of TensorFlow or JAX.
    Planes,
    Sqlite,
    Pickle,
    /// Memory by category: a list of lists.
    MemoryTimeline,
    /// Counters of kernels as CSV.
    Counters,
    /// A dump of a flight recorder as JSON; as a pickle it is a `Pickle`.
    FlightRecord,
    /// Text whose beginning does not tell: counters may stand behind what a program printed.
    Text,
    /// Nothing that is known: what it seems to be.
    Unknown(&'static str),
}

/// What a file that begins so holds.
pub(crate) fn of(head: &[u8]) -> Content {
    let mut plain = Vec::new();
    let head = if head.starts_with(&[0x1f, 0x8b]) {
        // A head of a compressed file ends early: what came before counts.
        let _ = flate2::read::MultiGzDecoder::new(head)
            .take(HEAD as u64)
            .read_to_end(&mut plain);
        &plain
    } else {
        head
    };
    if head.starts_with(b"SQLite format 3\0") {
        return Content::Sqlite;
    }
    if pickle::is_pickle(head) {
        return Content::Pickle;
    }
    if xplane::is_xplane(head) {
        return Content::Planes;
    }
    if kernel_counters::is_kernel_counters(head) {
        return Content::Counters;
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let mut signs = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    match (signs.next(), signs.next(), signs.next()) {
        (None, _, _) => Content::Unknown("the file is empty"),
        (Some(b'['), Some(b'['), Some(b'0'..=b'9' | b'-')) => Content::MemoryTimeline,
        (Some(b'{' | b'['), _, _) if flight_recorder::is_flight_record(text) => {
            Content::FlightRecord
        }
        (Some(b'{' | b'['), _, _) if trace_viewer::is_trace_viewer(text) => Content::TraceViewer,
        (Some(b'{' | b'['), _, _) => Content::Trace,
        _ if text.starts_with(b"==") || is_text(text) => Content::Text,
        _ => Content::Unknown("neither JSON nor another profile that is known"),
    }
}

/// Whether bytes are printed text: UTF-16 with its mark, or bytes without controls.
fn is_text(bytes: &[u8]) -> bool {
    let marked = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let control =
        |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\r' | b'\n' | 0x1b);
    marked || !bytes.iter().any(control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_tell_the_format() {
        let check = |head: &[u8], content: Content| {
            assert_eq!(of(head), content, "{}", String::from_utf8_lossy(head));
        };
        check(b"  {\"traceEvents\": [", Content::Trace);
        check(b"[{\"ph\": \"X\"", Content::Trace);
        check(b"[[-1, 1, 512, 7], [", Content::MemoryTimeline);
        check(b"SQLite format 3\0\x10", Content::Sqlite);
        check(b"\x80\x04\x95\x00", Content::Pickle);
        check(b"\x0a\x20\x08\x01\x12\x0d/device:GPU:0", Content::Planes);
        check(
            b"{\"traceEvents\":[{\"args\": {\"name\": \"/device:GPU:0\"}, \"name\": \"process_name\"",
            Content::TraceViewer,
        );
        check(b"==PROF== x\n\"ID\",\"Kernel Name\"\n", Content::Counters);
        check(b"a program's own line\n", Content::Text);
        check(b"", Content::Unknown("the file is empty"));
        check(
            b"\x7fELF\x02\x01\x01\x00",
            Content::Unknown("neither JSON nor another profile that is known"),
        );
    }
}
