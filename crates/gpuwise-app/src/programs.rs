//! Programs of this machine.

use std::path::PathBuf;

/// A program on the `PATH`.
pub(crate) fn found(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let files = std::env::split_paths(&paths).map(|path| path.join(program));
    files.into_iter().find(|path| path.is_file())
}
