//! Tokens: drawn at random, shown once, known by their hashes.

use sha2::{Digest as _, Sha256};
use std::{
    fmt::Write as _,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// What a token begins with, so that one that leaks is recognised.
const PREFIX: &str = "gpuwise_";

/// A new token.
///
/// # Errors
/// When the system has no chance to give.
pub(crate) fn draw() -> io::Result<String> {
    let mut bytes = [0_u8; 24];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(format!("{PREFIX}{}", hex(&bytes)))
}

/// By what a token is known.
pub(crate) fn hash(token: &str) -> String {
    hex(&Sha256::digest(token.as_bytes()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Writes a token where its user alone can read it.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn keep(path: &Path, token: &str) -> io::Result<()> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        fs::create_dir_all(folder)?;
    }
    // A file that is there may be readable by others, and keeps its mode when it is overwritten.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    writeln!(file, "{token}")?;
    file.sync_all()
}
