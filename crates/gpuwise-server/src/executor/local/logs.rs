//! What processes write, kept in files of a bounded size: the oldest part goes when there is too much.
//!
//! The first file is `L-7.log`; what does not fit is in files beside it, each named by the byte at which it begins.

use super::{guarded, kept::Place};
use crate::executor::{Logs, Piece};
use gpuwise_broker::lease_id;
use rustix::fs::OFlags;
use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

/// Into how many files a log is cut: so much of it at most goes at once.
const PARTS: u64 = 8;

const APPEND: OFlags = OFlags::WRONLY.union(OFlags::APPEND).union(OFlags::CREATE);

impl Place {
    /// Where standard output and error of a worker go.
    pub(in crate::executor) fn log_file(&self, lease: u32, worker: u32) -> PathBuf {
        let name = match worker {
            0 => format!("{}.log", lease_id(lease)),
            _ => format!("{}.{worker}.log", lease_id(lease)),
        };
        self.0.join("logs").join(name)
    }
}

impl Logs for Place {
    fn read(&self, lease: u32, worker: u32, after: u64, most: u64) -> io::Result<Option<Piece>> {
        let file = self.log_file(lease, worker);
        loop {
            match piece(&files(&file)?, after, most) {
                // It went between two looks, for there was too much.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                found => return found,
            }
        }
    }
}

/// A file of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    /// The byte of the log at which it begins.
    from: u64,
    path: PathBuf,
    size: u64,
}

/// Where files after the first are.
fn beside(log: &Path) -> PathBuf {
    let mut name = log.file_name().unwrap_or_default().to_owned();
    name.push(".d");
    log.with_file_name(name)
}

/// The files of a log, the oldest first.
fn files(log: &Path) -> io::Result<Vec<Part>> {
    let there = |path: PathBuf, from| match guarded::about(&path) {
        Ok(about) => Ok(Some(Part {
            from,
            path,
            size: about.len(),
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    // Files that were taken over have theirs beside them.
    let log = guarded::real(log)?;
    let mut found: Vec<Part> = there(log.clone(), 0)?.into_iter().collect();
    let entries = match fs::read_dir(beside(&log)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if let Some(from) = name.to_str().and_then(|name| name.parse().ok()) {
            found.extend(there(entry.path(), from)?);
        }
    }
    found.sort_by_key(|part| part.from);
    Ok(found)
}

fn piece(parts: &[Part], after: u64, most: u64) -> io::Result<Option<Piece>> {
    let Some((first, last)) = parts.first().zip(parts.last()) else {
        return Ok(None);
    };
    let size = last.from + last.size;
    let from = after.max(first.from).min(size);
    let mut bytes = Vec::new();
    for part in parts.iter().filter(|part| part.from + part.size > from) {
        let left = most.saturating_sub(bytes.len() as u64);
        if left == 0 {
            break;
        }
        let skip = (from + bytes.len() as u64).saturating_sub(part.from);
        let mut file = guarded::open(&part.path, OFlags::RDONLY)?;
        file.seek(SeekFrom::Start(skip))?;
        file.take(left.min(part.size.saturating_sub(skip)))
            .read_to_end(&mut bytes)?;
    }
    Ok(Some(Piece {
        bytes,
        from,
        first: first.from,
        size,
    }))
}

/// Writes a log, and removes its oldest part where there is more than `most` of it.
#[derive(Debug)]
pub(super) struct BoundedLog {
    log: PathBuf,
    most: u64,
    file: File,
    from: u64,
    size: u64,
}

impl BoundedLog {
    /// Goes on where a log ends.
    pub(super) fn open(log: &Path, most: u64) -> io::Result<Self> {
        fs::create_dir_all(log.parent().unwrap_or(log))?;
        let log = &guarded::real(log)?;
        let last = files(log)?.pop();
        let (path, from) = last.map_or_else(|| (log.to_owned(), 0), |part| (part.path, part.from));
        let file = guarded::open(&path, APPEND)?;
        let size = file.metadata()?.len();
        Ok(Self {
            log: log.to_owned(),
            most,
            file,
            from,
            size,
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.size > 0 && self.size + bytes.len() as u64 > self.most / PARTS {
            self.turn()?;
        }
        self.file.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// The next file; the oldest go, so that there is room for it.
    fn turn(&mut self) -> io::Result<()> {
        let from = self.from + self.size;
        let folder = beside(&self.log);
        fs::create_dir_all(&folder)?;
        self.file = guarded::open(&folder.join(format!("{from:020}")), APPEND)?;
        (self.from, self.size) = (from, 0);
        let parts = files(&self.log)?;
        let mut kept: u64 = parts.iter().map(|part| part.size).sum();
        for part in parts.iter().filter(|part| part.from < from) {
            if kept <= self.most - self.most / PARTS {
                break;
            }
            fs::remove_file(&part.path)?;
            kept -= part.size;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_never_takes_more_than_it_may_and_its_bytes_keep_their_numbers() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place(folder.path().to_owned());
        let file = place.log_file(7, 1);
        assert_eq!(place.read(7, 1, 0, 100).expect("reads"), None);
        // The byte at `n` is a function of `n`.
        let byte = |at: u64| u8::try_from(at * at % 251).expect("a byte");
        let (most, mut written) = (8000, 0);
        for (round, len) in [1, 999, 2, 500, 1000, 3, 700]
            .iter()
            .cycle()
            .take(200)
            .enumerate()
        {
            // One that starts again goes on.
            let mut log = BoundedLog::open(&file, most).expect("opens");
            let bytes: Vec<u8> = (written..written + len).map(byte).collect();
            log.write(&bytes).expect("writes");
            written += len;
            let kept: u64 = files(&file)
                .expect("is listed")
                .iter()
                .map(|one| one.size)
                .sum();
            assert!(kept <= most, "{kept} after {round}");
            assert!(kept >= written.min(most / 2), "{kept} of {written}");
        }
        for after in [0, written - 4000, written - 1, written, written + 9] {
            let piece = place
                .read(7, 1, after, 3000)
                .expect("reads")
                .expect("is there");
            assert_eq!(piece.size, written);
            assert_eq!(piece.from, after.max(piece.first).min(written));
            let expect = (piece.from..written).take(3000).map(byte);
            assert_eq!(piece.bytes, expect.collect::<Vec<u8>>(), "from {after}");
        }
    }
}
