//! Reading little-endian values from a prefix of a file.

use super::{GgufError, LARGEST_HEADER};

/// Longer names do not exist: the format allows 2^16 - 1 bytes for keys, llama.cpp 63 for tensors.
const LONGEST_NAME: u64 = (1 << 16) - 1;

/// A place in the first bytes of a file.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
    file_length: u64,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], file_length: u64) -> Self {
        // More bytes than the file has cannot belong to it.
        let known =
            usize::try_from(file_length).map_or(bytes.len(), |length| length.min(bytes.len()));
        Self {
            bytes: &bytes[..known],
            position: 0,
            file_length,
        }
    }

    /// Bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.position as u64
    }

    /// Checks that `length` more bytes can be there, and are.
    pub(super) fn need(&self, length: u64, what: &'static str) -> Result<(), GgufError> {
        let offset = self.offset();
        let needed = offset.saturating_add(length);
        if needed > self.file_length {
            return Err(GgufError::CutShort {
                offset,
                what,
                needed,
                file: self.file_length,
            });
        }
        if needed > LARGEST_HEADER {
            return Err(GgufError::Wrong {
                offset,
                problem: format!("{what} makes the header longer than {LARGEST_HEADER} bytes"),
            });
        }
        if needed > self.bytes.len() as u64 {
            return Err(GgufError::NeedMore(needed));
        }
        Ok(())
    }

    pub(super) fn take(&mut self, length: u64, what: &'static str) -> Result<&'a [u8], GgufError> {
        self.need(length, what)?;
        // It lies within the bytes, so it fits into a `usize`.
        let end = self.position + length as usize;
        let taken = &self.bytes[self.position..end];
        self.position = end;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; N], GgufError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64, what)?);
        Ok(array)
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, GgufError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, GgufError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// The bytes of a text after its length.
    pub(super) fn text_bytes(&mut self, what: &'static str) -> Result<&'a [u8], GgufError> {
        let length = self.u64(what)?;
        self.take(length, what)
    }

    /// A key or the name of a tensor.
    pub(super) fn name(&mut self, what: &'static str) -> Result<String, GgufError> {
        let offset = self.offset();
        let length = self.u64(what)?;
        if length > LONGEST_NAME {
            return Err(GgufError::Wrong {
                offset,
                problem: format!("{what} of {length} bytes; at most {LONGEST_NAME} are read"),
            });
        }
        let bytes = self.take(length, what)?;
        match std::str::from_utf8(bytes) {
            Ok(name) => Ok(name.into()),
            Err(_) => Err(GgufError::Wrong {
                offset,
                problem: format!("{what} is not UTF-8"),
            }),
        }
    }
}
