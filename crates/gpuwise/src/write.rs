//! Files that are written whole or not at all.

use crate::error::Problem;
use std::{
    io::Write as _,
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;

/// A file that is going to be written: that it can be is known before the work.
#[derive(Debug)]
pub(crate) struct Pending {
    path: PathBuf,
    file: NamedTempFile,
}

impl Pending {
    /// Prepares a file beside the one that it becomes.
    ///
    /// # Errors
    /// When it could not be written.
    pub(crate) fn new(path: &Path) -> anyhow::Result<Self> {
        if path.is_dir() {
            return Err(Problem::new(format!(
                "cannot write {}: it is a directory",
                path.display()
            ))
            .hint("name a file in it")
            .into());
        }
        let folder = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let unwritable = |error| {
            Problem::new(format!("cannot write {}", path.display()))
                .because(error)
                .hint("name a file in a directory that exists and that you may write to")
        };
        let read_only =
            std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().readonly());
        if read_only {
            return Err(
                Problem::new(format!("cannot write {}: it is read-only", path.display())).into(),
            );
        }
        let file = tempfile::Builder::new()
            .prefix(".gpuwise-")
            .tempfile_in(folder)
            .map_err(unwritable)?;
        Ok(Self {
            path: path.into(),
            file,
        })
    }

    /// Writes the text and puts the file in its place.
    ///
    /// # Errors
    /// When it cannot be written; nothing is left then.
    pub(crate) fn finish(mut self, text: &str) -> anyhow::Result<()> {
        let unwritable =
            |error| Problem::new(format!("cannot write {}", self.path.display())).because(error);
        self.file.write_all(text.as_bytes()).map_err(unwritable)?;
        self.file.as_file().sync_all().map_err(unwritable)?;
        share(self.file.as_file()).map_err(unwritable)?;
        self.file.persist(&self.path).map_err(|error| {
            Problem::new(format!("cannot write {}", self.path.display())).because(error.error)
        })?;
        Ok(())
    }
}

/// Temporary files are private; a result is as readable as any new file usually is.
#[cfg(unix)]
fn share(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn share(_file: &std::fs::File) -> std::io::Result<()> {
    Ok(())
}
