//! A file that others write: it has its name only when it is whole.

use crate::error::Problem;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Gone where it is not renamed.
pub(super) struct Unfinished(PathBuf);

impl Unfinished {
    /// A name beside `output` that ends so.
    pub(super) fn beside(output: &Path, end: &str) -> anyhow::Result<Self> {
        let name = output
            .file_name()
            .ok_or_else(|| Problem::new(format!("{}: no name of a file", output.display())))?;
        let name = format!("{}.{end}", name.to_string_lossy());
        Ok(Self(output.with_file_name(name)))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
