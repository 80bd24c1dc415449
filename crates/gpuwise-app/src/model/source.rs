//! Parts of files, wherever they are: only headers are read, however large the files.

use crate::error::Problem;
use anyhow::Context as _;
use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
};

/// Configurations are some kilobytes, indexes of the largest models some megabytes.
pub(super) const LARGEST_DOCUMENT: u64 = 64 << 20;

/// Something of which parts can be read.
pub(super) trait Parts {
    fn length(&self) -> u64;

    /// The bytes from `offset`, exactly so many.
    fn read(&mut self, offset: u64, length: u64) -> anyhow::Result<Vec<u8>>;
}

#[derive(Debug)]
pub(super) struct LocalFile {
    file: File,
    length: u64,
}

impl LocalFile {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let unreadable =
            |error| Problem::new(format!("cannot read {}", path.display())).because(error);
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        // Opening a pipe would wait for a writer.
        if !metadata.is_file() {
            return Err(Problem::new(format!("{} is no file", path.display())).into());
        }
        let file = File::open(path).map_err(unreadable)?;
        Ok(Self {
            length: metadata.len(),
            file,
        })
    }
}

impl Parts for LocalFile {
    fn length(&self) -> u64 {
        self.length
    }

    fn read(&mut self, offset: u64, length: u64) -> anyhow::Result<Vec<u8>> {
        let mut bytes =
            vec![0; usize::try_from(length).context("more bytes than this machine can address")?];
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// Reads a whole document as text.
pub(super) fn document(path: &Path) -> anyhow::Result<String> {
    let mut file = LocalFile::open(path)?;
    if file.length() > LARGEST_DOCUMENT {
        return Err(Problem::new(format!(
            "{} has {} bytes; a configuration has some thousand",
            path.display(),
            file.length()
        ))
        .into());
    }
    let bytes = file
        .read(0, file.length())
        .with_context(|| format!("cannot read {}", path.display()))?;
    String::from_utf8(bytes)
        .map_err(|_| Problem::new(format!("{} is no text in UTF-8", path.display())).into())
}
