//! The format of a profile, by its first bytes.

use std::io::Read as _;

/// Bytes that are looked at.
pub(crate) const HEAD: usize = 4096;

/// What a file seems to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// Chrome-trace JSON, as the PyTorch profiler writes it; compressed or not.
    Trace,
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
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => Content::Unknown("the file is empty"),
        Some(b'{' | b'[') => Content::Trace,
        Some(_) => Content::Unknown("neither JSON nor another profile that is known"),
    }
}
