//! Compressed or not, told by the first two bytes.

use flate2::bufread::MultiGzDecoder;
use std::io::{BufRead, BufReader, Read, Result};

/// First bytes of a gzip member (RFC 1952).
const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Compressed bytes read at once.
const BLOCK: usize = 256 * 1024;

/// A reader that unwraps gzip, of one member or several, where there is any.
pub fn open<R: Read>(reader: R) -> impl Read {
    Unwrapped::Unknown(Some(reader))
}

enum Unwrapped<R: Read> {
    /// Nothing was read yet.
    Unknown(Option<R>),
    Plain(BufReader<R>),
    Gzip(Box<MultiGzDecoder<BufReader<R>>>),
}

impl<R: Read> Read for Unwrapped<R> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            match self {
                Self::Unknown(reader) => {
                    let Some(reader) = reader.take() else {
                        return Ok(0);
                    };
                    let mut buffered = BufReader::with_capacity(BLOCK, reader);
                    let is_gzip = buffered.fill_buf()?.starts_with(&MAGIC);
                    *self = if is_gzip {
                        Self::Gzip(Box::new(MultiGzDecoder::new(buffered)))
                    } else {
                        Self::Plain(buffered)
                    };
                }
                Self::Plain(reader) => return reader.read(into),
                Self::Gzip(reader) => return reader.read(into),
            }
        }
    }
}
