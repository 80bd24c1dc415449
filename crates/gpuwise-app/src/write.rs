//! Files that are written whole or not at all.

use crate::error::Problem;
use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;

/// A file that is going to be written: that it can be is known before the work.
#[derive(Debug)]
pub struct Pending {
    path: PathBuf,
}

impl Pending {
    /// Makes sure that the file could be written now. Nothing is left of the trial, so that
    /// nothing is left either when the work is interrupted.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn new(path: &Path) -> anyhow::Result<Self> {
        if path.is_dir() {
            return Err(Problem::new(format!(
                "cannot write {}: it is a directory",
                path.display()
            ))
            .hint("name a file in it")
            .into());
        }
        if fs::metadata(path).is_ok_and(|metadata| metadata.permissions().readonly()) {
            return Err(
                Problem::new(format!("cannot write {}: it is read-only", path.display()))
                    .hint("name another file, or make it writable")
                    .into(),
            );
        }
        beside(path).map_err(|error| {
            Problem::new(format!("cannot write {}", path.display()))
                .because(error)
                .hint("name a file in a directory that exists and that you may write to")
        })?;
        Ok(Self { path: path.into() })
    }

    /// A text that is written bit by bit before it is put in the place of the file.
    ///
    /// # Errors
    /// When nothing can be written beside it.
    #[cfg(feature = "bench")]
    pub fn scratch(self) -> anyhow::Result<Scratch> {
        let file = tempfile::tempfile_in(folder(&self.path)).map_err(|error| {
            Problem::new(format!("cannot write {}", self.path.display())).because(error)
        })?;
        Ok(Scratch {
            pending: self,
            lines: io::BufWriter::new(file),
            fault: None,
        })
    }

    /// Writes the text into a file beside, and puts that in the place of the file.
    ///
    /// # Errors
    /// When it cannot be written; nothing is left then.
    pub fn finish(self, text: &str) -> anyhow::Result<()> {
        self.finish_with(|file| file.write_all(text.as_bytes()))
    }

    /// The same for what is too long to be held: `content` writes it.
    ///
    /// # Errors
    /// When it cannot be written; nothing is left then.
    pub fn finish_with(
        self,
        content: impl FnOnce(&mut fs::File) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let write = || -> io::Result<()> {
            let mut file = beside(&self.path)?;
            content(file.as_file_mut())?;
            share(file.as_file())?;
            file.as_file().sync_all()?;
            file.persist(&self.path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(|error| {
            Problem::new(format!("cannot write {}", self.path.display()))
                .because(error)
                .into()
        })
    }
}

/// Text that grows on disk, in a file without a name: nothing is left of it when the work is
/// interrupted. The first fault is kept until it is asked for.
#[cfg(feature = "bench")]
#[derive(Debug)]
pub struct Scratch {
    pending: Pending,
    lines: io::BufWriter<fs::File>,
    fault: Option<io::Error>,
}

#[cfg(feature = "bench")]
impl Scratch {
    pub fn write(&mut self, content: impl FnOnce(&mut io::BufWriter<fs::File>) -> io::Result<()>) {
        if self.fault.is_none() {
            self.fault = content(&mut self.lines).err();
        }
    }

    /// Puts all of it in the place of the file.
    ///
    /// # Errors
    /// When it cannot be written, or could not be before; nothing is left then.
    pub fn finish(self) -> anyhow::Result<()> {
        let Self {
            pending,
            lines,
            fault,
        } = self;
        pending.finish_with(move |file| {
            if let Some(fault) = fault {
                return Err(fault);
            }
            let mut lines = lines.into_inner().map_err(io::IntoInnerError::into_error)?;
            io::Seek::rewind(&mut lines)?;
            io::copy(&mut lines, file).map(drop)
        })
    }
}

/// A new file in the same directory, which goes away unless it is kept.
/// How names of files begin that are not finished.
const UNFINISHED: &str = ".gpuwise-";

/// Whether a file of this name is one that was not finished.
pub fn is_unfinished(name: &str) -> bool {
    name.starts_with(UNFINISHED)
}

fn beside(path: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempfile_in(folder(path))
}

fn folder(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Temporary files are private; a result is as readable as any new file usually is.
#[cfg(unix)]
fn share(file: &fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn share(_file: &fs::File) -> io::Result<()> {
    Ok(())
}
