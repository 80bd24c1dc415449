//! How many connections there may be, and how long each may be silent.

use rustix::process::{Resource, getrlimit};
use std::time::Duration;

/// Bounds of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionBounds {
    /// Connections at once.
    pub all: usize,
    /// Of them, those of one address (of IPv6: one network of 64 bits).
    pub each: usize,
    /// From the first byte of a request until its head is whole.
    pub head: Duration,
    /// From there until its body is whole.
    pub body: Duration,
    /// Without a request.
    pub idle: Duration,
    /// In which nothing of an answer is taken.
    pub write: Duration,
}

/// Why there cannot be as many connections as were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{asked} connections: the limit of open files (nofile) is {files}, which leaves {room}")]
pub struct BoundsError {
    asked: usize,
    files: u64,
    room: usize,
}

/// Connections where the limit of open files allows more.
const USUAL: usize = 8192;

/// Open files for the log, processes and what else is read and written.
const OWN: u64 = 128;

impl Default for ConnectionBounds {
    fn default() -> Self {
        let all = room(files()).min(USUAL);
        Self {
            all,
            each: all.div_ceil(2),
            head: Duration::from_secs(10),
            body: Duration::from_mins(1),
            idle: Duration::from_secs(75),
            write: Duration::from_mins(1),
        }
    }
}

impl ConnectionBounds {
    /// With so many connections, and so many of one address; `None`: as many as is usual.
    ///
    /// # Errors
    /// When the limit of open files leaves no room for them.
    pub fn with(mut self, all: Option<usize>, each: Option<usize>) -> Result<Self, BoundsError> {
        if let Some(asked) = all {
            let (files, room) = (files(), room(files()));
            if asked > room {
                return Err(BoundsError { asked, files, room });
            }
            (self.all, self.each) = (asked, asked.div_ceil(2));
        }
        if let Some(each) = each {
            self.each = each;
        }
        Ok(self)
    }
}

fn files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// A request that is passed on to an engine takes a connection to that, too.
fn room(files: u64) -> usize {
    usize::try_from(files.saturating_sub(OWN) / 2).map_or(usize::MAX, |room| room.max(1))
}
