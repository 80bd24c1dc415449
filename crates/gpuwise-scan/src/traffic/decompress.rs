//! Gzip, as traces are published.

use flate2::read::MultiGzDecoder;
use std::{borrow::Cow, io::Read};

/// Why bytes could not be decompressed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecompressError {
    /// They decompress to more than was allowed.
    #[error("it decompresses to more than {0} bytes")]
    TooLarge(u64),
    /// They are no gzip file, or are cut short.
    #[error("it is no gzip file, or cut short: {0}")]
    Corrupt(String),
}

/// Decompresses gzip to at most `limit` bytes; other bytes are returned as they are, within the
/// same limit.
///
/// # Errors
/// When the result would be larger, or the file is damaged.
pub fn decompress(bytes: &[u8], limit: u64) -> Result<Cow<'_, [u8]>, DecompressError> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return if bytes.len() as u64 > limit {
            Err(DecompressError::TooLarge(limit))
        } else {
            Ok(Cow::Borrowed(bytes))
        };
    }
    let mut out = Vec::new();
    // One byte more than allowed tells that there is more; growth follows what really comes.
    MultiGzDecoder::new(bytes)
        .take(limit.saturating_add(1))
        .read_to_end(&mut out)
        .map_err(|error| DecompressError::Corrupt(error.to_string()))?;
    if out.len() as u64 > limit {
        return Err(DecompressError::TooLarge(limit));
    }
    Ok(Cow::Owned(out))
}
