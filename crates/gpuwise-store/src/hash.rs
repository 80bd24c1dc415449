//! Keys that are hashes, so that writers need not ask each other for numbers.

use sha2::{Digest as _, Sha256};
use std::{
    fmt::Write as _,
    io::{self, Read},
};

/// What a run is known by: 16 hexadecimal digits of the hash of what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunId(pub(crate) i64);

impl RunId {
    /// The id of a run by the bytes that make it that run and no other.
    pub fn of(identity: &[u8]) -> Self {
        Self(key(identity))
    }
}

impl std::fmt::Display for RunId {
    fn fmt(&self, form: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(form, "{:016x}", self.0)
    }
}

/// The SHA-256 of all that a reader gives, in hexadecimal: what the same content is known by, wherever it lies.
///
/// # Errors
/// When the reader fails.
pub fn content_hash(mut reader: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut block = vec![0; 1 << 18];
    loop {
        match reader.read(&mut block) {
            Ok(0) => break,
            Ok(count) => hash.update(block.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hex(&hash.finalize()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The first 63 bits of the SHA-256 of bytes: one chance in 2⁴³ that a million of them hold a pair.
pub(crate) fn key(bytes: &[u8]) -> i64 {
    let digest = Sha256::digest(bytes);
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(first) & i64::MAX
}
