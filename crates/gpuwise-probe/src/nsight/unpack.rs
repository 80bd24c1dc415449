//! Unpacking a compressed export, within bounds.

use std::{
    io::{self, Read, Write},
    path::Path,
};
use thiserror::Error;

/// How many times its packed size an export may have: some four to twenty times is usual.
const MOST_TIMES: u64 = 100;
/// Small exports may be emptier than that.
const ALWAYS: u64 = 1 << 30;
/// Bytes of an SQLite file's header (SQLite, "Database File Format", section 1.3).
const HEADER: usize = 100;

/// Why an export was not unpacked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// It does not fit beside what is there.
    #[error(
        "it unpacks to {}{}, and {} are free in {place}",
        if *.stated { "" } else { "more than " },
        gib(*.size),
        gib(*.free)
    )]
    NoRoom {
        /// Bytes that it has, or at which it was stopped.
        size: u64,
        /// Whether it says that size itself.
        stated: bool,
        /// Bytes that are free.
        free: u64,
        place: String,
    },
    #[error("it unpacks to more than {}, over {MOST_TIMES} times its {packed} bytes: no export does", gib(*.most))]
    Grows {
        packed: u64,
        /// Bytes at which it was stopped.
        most: u64,
    },
    /// It cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn gib(bytes: u64) -> String {
    let text = gpuwise_units::significant(bytes as f64 / 1_073_741_824.0, 3);
    format!("{text} GiB")
}

/// How much may be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    pub packed: u64,
    /// Bytes that are free where it is written; unknown where the system does not tell.
    pub free: Option<u64>,
    pub place: String,
}

impl Room {
    /// The room of a folder for a file of this packed size.
    pub fn of(folder: &Path, packed: u64) -> Self {
        Self {
            packed,
            free: free(folder),
            place: folder.display().to_string(),
        }
    }

    /// A tenth stays free for others.
    fn usable(&self) -> u64 {
        self.free.map_or(u64::MAX, |free| free - free / 10)
    }

    fn most(&self) -> u64 {
        self.packed.saturating_mul(MOST_TIMES).max(ALWAYS)
    }

    fn refused(&self, size: u64, stated: bool) -> Option<UnpackError> {
        if size > self.usable() {
            return Some(UnpackError::NoRoom {
                size,
                stated,
                free: self.free.unwrap_or(0),
                place: self.place.clone(),
            });
        }
        (size > self.most()).then_some(UnpackError::Grows {
            packed: self.packed,
            most: self.most(),
        })
    }
}

/// Bytes that a user may still write in a folder.
#[cfg(unix)]
fn free(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

#[cfg(not(unix))]
fn free(_folder: &Path) -> Option<u64> {
    None
}

/// Copies what a reader unpacks. What an SQLite file says of its own size is believed before anything is
/// written, and nothing beyond the room is written ever.
///
/// # Errors
/// When there is no room, it grows as no export does, or it cannot be read or written.
pub fn unpack(from: impl Read, into: &mut impl Write, room: &Room) -> Result<u64, UnpackError> {
    let most = room.usable().min(room.most());
    let mut from = from.take(most.saturating_add(1));
    let mut head = Vec::with_capacity(HEADER);
    from.by_ref().take(HEADER as u64).read_to_end(&mut head)?;
    if let Some(error) = stated(&head).and_then(|size| room.refused(size, true)) {
        return Err(error);
    }
    into.write_all(&head)?;
    let size = head.len() as u64 + io::copy(&mut from, into)?;
    match room.refused(size, false) {
        Some(error) => Err(error),
        None => Ok(size),
    }
}

/// The size that an SQLite file states: pages times their size, where its count of pages is of its last
/// change.
fn stated(head: &[u8]) -> Option<u64> {
    let number = |at: usize| {
        let bytes: [u8; 4] = head.get(at..at + 4)?.try_into().ok()?;
        Some(u64::from(u32::from_be_bytes(bytes)))
    };
    if !head.starts_with(super::SQLITE_MAGIC) || number(24)? != number(92)? {
        return None;
    }
    let page = match number(16)? >> 16 {
        1 => 65_536,
        size => size,
    };
    Some(page * number(28)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn room(packed: u64, free: u64) -> Room {
        Room {
            packed,
            free: Some(free),
            place: "/tmp".into(),
        }
    }

    /// The header of a database of so many pages of 64 KiB.
    fn header(pages: u32) -> Vec<u8> {
        let mut head = super::super::SQLITE_MAGIC.to_vec();
        head.resize(HEADER, 0);
        head[17] = 1;
        head[28..32].copy_from_slice(&pages.to_be_bytes());
        head
    }

    #[test]
    fn what_has_no_room_is_not_written() {
        let mut out = Vec::new();
        let error =
            unpack(&header(1 << 20)[..], &mut out, &room(1 << 30, GIB)).expect_err("64 GiB");
        assert!(out.is_empty(), "{} bytes", out.len());
        let said = error.to_string();
        assert!(
            said.contains("unpacks to 64 GiB") && said.contains("1 GiB are free in /tmp"),
            "{said}"
        );
        // A small file that says more than any export would.
        let error =
            unpack(&header(1 << 20)[..], &mut out, &room(1000, u64::MAX)).expect_err("too much");
        assert!(
            out.is_empty() && error.to_string().contains("1000 bytes"),
            "{error}"
        );
    }

    #[test]
    fn what_grows_without_end_is_stopped() {
        // One that states nothing, and one that states less than it is.
        for begin in [Vec::new(), header(1)] {
            let mut out = Vec::new();
            let endless = Read::chain(io::Cursor::new(begin), io::repeat(0));
            let error = unpack(endless, &mut out, &room(1000, 100_000)).expect_err("no end");
            assert!(out.len() <= 90_001, "{}", out.len());
            assert!(error.to_string().contains("more than"), "{error}");
        }
        let mut out = Vec::new();
        let whole = unpack(&header(1)[..], &mut out, &room(1000, 200_000)).expect("it fits");
        assert_eq!((whole, out), (100, header(1)));
    }

    #[cfg(unix)]
    #[test]
    fn the_room_of_a_folder_is_known() {
        assert!(Room::of(&std::env::temp_dir(), 1).free.is_some());
    }
}
