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

/// Moves a token from where nodes see it to the broker's own folder; whether there was one. One that is there already
/// stays.
///
/// # Errors
/// When a file cannot be read, written or removed.
pub(crate) fn take_over(shared: &Path, own: &Path) -> io::Result<bool> {
    if shared == own || !shared.is_file() {
        return Ok(false);
    }
    if !own.exists() {
        keep(own, fs::read_to_string(shared)?.trim())?;
    }
    fs::remove_file(shared)?;
    Ok(true)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_moves_out_of_the_folder_that_nodes_share() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let (shared, own) = (folder.path().join("s/a"), folder.path().join("o/a"));
        assert!(!take_over(&shared, &own).expect("nothing is there"));
        keep(&shared, "gpuwise_1").expect("writes");
        assert!(!take_over(&shared, &shared).expect("is its own"));
        assert!(take_over(&shared, &own).expect("moves"));
        assert_eq!(fs::read_to_string(&own).expect("reads"), "gpuwise_1\n");
        let mode = fs::metadata(&own).expect("is there").permissions().mode();
        assert_eq!((mode & 0o777, shared.exists()), (0o600, false));
        keep(&shared, "gpuwise_2").expect("writes");
        assert!(take_over(&shared, &own).expect("removes"));
        assert_eq!(fs::read_to_string(&own).expect("reads"), "gpuwise_1\n");
    }
}
