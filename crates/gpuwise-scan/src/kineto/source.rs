//! The bytes of a file, some at a time: a window that moves forward and grows only for a single
//! large event.

use std::io::{ErrorKind, Read};

/// Bytes asked of the reader at once: large enough that the few bytes copied to the front of the
/// window do not matter, small enough to stay in a processor's second-level cache.
const BLOCK: usize = 512 * 1024;

/// A window over a reader.
pub(super) struct Source<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes of the file before the window.
    passed: u64,
    /// There is nothing after the window.
    pub(super) ended: bool,
    /// Why the reader ended before its data did.
    pub(super) cut: Option<String>,
}

impl<R: Read> Source<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: vec![0; 2 * BLOCK],
            start: 0,
            end: 0,
            passed: 0,
            ended: false,
            cut: None,
        }
    }

    /// What was read and not yet taken.
    pub(super) fn window(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Leaves the first `count` bytes of the window behind.
    pub(super) fn take(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.passed += count as u64;
    }

    /// Place of the window's first byte in the file (of the uncompressed text).
    pub(super) fn place(&self) -> u64 {
        self.passed
    }

    /// Reads more behind the window; it then starts where it did. A compressed file that is cut or
    /// damaged ends here, and [`Source::cut`] says why.
    pub(super) fn fill(&mut self) -> std::io::Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() - self.end < BLOCK {
            self.buffer.resize(self.end + 2 * BLOCK, 0);
        }
        let wanted = self.end + BLOCK;
        while self.end < wanted && !self.ended {
            let Some(free) = self.buffer.get_mut(self.end..wanted) else {
                break;
            };
            match self.reader.read(free) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count.min(wanted - self.end),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    // flate2 says the first for a cut file, the others for damaged data.
                    ErrorKind::UnexpectedEof | ErrorKind::InvalidInput | ErrorKind::InvalidData => {
                        self.ended = true;
                        self.cut = Some(error.to_string());
                    }
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }
}
