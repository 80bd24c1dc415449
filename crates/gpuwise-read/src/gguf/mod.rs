//! The header of a GGUF file: metadata and tensor descriptions, from the first bytes of the file.
//!
//! The length of a header is not stated, and the tokenizer's lists make it megabytes long: where
//! the bytes given end too early, [`GgufError::NeedMore`] says how many are needed at least.

mod architecture;
mod cursor;
mod families;
mod ggml;
mod keys;
mod mixers;
mod tensors;
mod value;

pub use crate::stored::StoredTensor;
pub use architecture::{ArchitectureError, architecture};
pub use value::GgufValue;

use cursor::Cursor;

/// Larger headers do not exist: a vocabulary of a million tokens takes some 30 MB.
pub const LARGEST_HEADER: u64 = 256 << 20;

/// Bounds on counts; real files have a hundred entries and some thousand tensors.
const MOST_ENTRIES: u64 = 1 << 12;
const MOST_TENSORS: u64 = 1 << 20;

/// What is wrong with a GGUF header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GgufError {
    /// The header goes on after the bytes given: call again with at least so many from the start
    /// of the file (better twice as many as before, because the need grows as lists are passed).
    #[error("the header goes on after the bytes given: at least the first {0} bytes are needed")]
    NeedMore(u64),
    /// The header goes on after the end of the file.
    #[error(
        "byte {offset}: {what} needs the file to have {needed} bytes, it has {file}: the file is cut short"
    )]
    CutShort {
        offset: u64,
        what: &'static str,
        /// Bytes that the file would need.
        needed: u64,
        /// Bytes of the file.
        file: u64,
    },
    /// It does not begin as a GGUF file does.
    #[error("not a GGUF file: it begins with the bytes {0:02x?}, expected \"GGUF\"")]
    Magic([u8; 4]),
    /// A version or byte order that is not read.
    #[error("{0}")]
    Version(String),
    /// Something in the header cannot be.
    #[error("byte {offset}: {problem}")]
    Wrong { offset: u64, problem: String },
    /// A tensor description that cannot be.
    #[error("tensor `{tensor}`: {problem}")]
    Tensor { tensor: String, problem: String },
    /// Two parts of a split file do not belong together.
    #[error("the parts of the split file do not fit: {0}")]
    Parts(String),
}

/// A header that was read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct GgufHeader {
    /// Version of the format: 2 or 3.
    pub version: u32,
    /// Metadata in the order of the file; every key stands once.
    pub metadata: Vec<(String, GgufValue)>,
    /// Tensors in the order of the file. Shapes are outermost first, as safetensors writes them
    /// (the file has them innermost first).
    pub tensors: Vec<StoredTensor>,
    /// Bytes to whose multiples tensors are aligned.
    pub alignment: u64,
    /// Where the tensors' bytes begin in the file: the length of the header with its padding.
    pub data_offset: u64,
}

impl GgufHeader {
    pub fn value(&self, key: &str) -> Option<&GgufValue> {
        self.metadata
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, value)| value)
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        match self.value(key) {
            Some(GgufValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The whole number under a key, whatever its width.
    pub fn count(&self, key: &str) -> Option<u64> {
        self.value(key).and_then(GgufValue::count)
    }

    /// The number of this part, from 0, and of all parts of a split file.
    pub fn part(&self) -> Option<(u64, u64)> {
        let parts = self.count("split.count").filter(|parts| *parts > 1)?;
        Some((self.count("split.no")?, parts))
    }

    /// Bytes of all tensors, without the padding between them.
    pub fn tensor_bytes(&self) -> u64 {
        self.tensors
            .iter()
            .fold(0, |sum, tensor| sum.saturating_add(tensor.bytes))
    }

    /// Adds the tensors of the next part of a split file; the first part has the metadata.
    ///
    /// # Errors
    /// When the other is not the part after those that are there.
    pub fn append(&mut self, next: Self) -> Result<(), GgufError> {
        let fail = |problem: String| Err(GgufError::Parts(problem));
        let (Some((number, parts)), Some((next_number, next_parts))) = (self.part(), next.part())
        else {
            return fail(
                "one of them does not say which part it is (`split.no`, `split.count`)".into(),
            );
        };
        if parts != next_parts {
            return fail(format!("one is of {parts}, the other of {next_parts}"));
        }
        if next_number != number + 1 {
            return fail(format!(
                "part {next_number} does not follow part {number} (counted from 0)"
            ));
        }
        self.tensors.extend(next.tensors);
        if let Some(twice) = tensors::duplicate(&self.tensors) {
            return fail(format!("tensor `{twice}` stands in both"));
        }
        for (key, value) in &mut self.metadata {
            if key == "split.no" {
                *value = GgufValue::Unsigned(next_number);
            }
        }
        Ok(())
    }
}

/// Reads the header from the first bytes of a file of `file_length` bytes.
///
/// # Errors
/// [`GgufError::NeedMore`] when the bytes end within the header; the others when it is no header
/// that can be read, or describes tensors that the file cannot hold.
pub fn read_header(bytes: &[u8], file_length: u64) -> Result<GgufHeader, GgufError> {
    let mut cursor = Cursor::new(bytes, file_length);
    let version = version(&mut cursor)?;
    let tensor_count = bounded(&mut cursor, "tensors", MOST_TENSORS)?;
    let entry_count = bounded(&mut cursor, "metadata entries", MOST_ENTRIES)?;
    let metadata = metadata(&mut cursor, entry_count)?;
    let descriptions = tensors::read(&mut cursor, tensor_count)?;
    let alignment = alignment(&metadata, &cursor)?;
    let data_offset = cursor.offset().div_ceil(alignment) * alignment;
    // A file without tensors, such as a vocabulary, need not be padded.
    if !descriptions.is_empty() && file_length < data_offset {
        return Err(GgufError::CutShort {
            offset: cursor.offset(),
            what: "the padding after the header",
            needed: data_offset,
            file: file_length,
        });
    }
    let data_length = file_length.saturating_sub(data_offset);
    let tensors = tensors::check(descriptions, alignment, data_length)?;
    Ok(GgufHeader {
        version,
        metadata,
        tensors,
        alignment,
        data_offset,
    })
}

fn version(cursor: &mut Cursor<'_>) -> Result<u32, GgufError> {
    let magic = cursor.array::<4>("the magic number")?;
    if &magic != b"GGUF" {
        return Err(GgufError::Magic(magic));
    }
    let fail = |problem: &str| Err(GgufError::Version(problem.into()));
    match cursor.u32("the version")? {
        version @ (2 | 3) => Ok(version),
        1 => fail(
            "GGUF version 1 is not read (its counts have 32 bits, and no file since October 2023 is of it): convert the model again",
        ),
        // The bytes of a small number in the other order.
        other if other != 0 && other.trailing_zeros() >= 16 => fail(
            "a big-endian GGUF file is not read: convert it with gguf_convert_endian.py of llama.cpp",
        ),
        other => Err(GgufError::Version(format!(
            "GGUF version {other} is not known; 2 and 3 are"
        ))),
    }
}

fn bounded(cursor: &mut Cursor<'_>, what: &'static str, most: u64) -> Result<u64, GgufError> {
    let offset = cursor.offset();
    let count = cursor.u64("a count")?;
    if count > most {
        return Err(GgufError::Wrong {
            offset,
            problem: format!("{count} {what}; at most {most} are read"),
        });
    }
    Ok(count)
}

fn metadata(cursor: &mut Cursor<'_>, count: u64) -> Result<Vec<(String, GgufValue)>, GgufError> {
    let mut metadata = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..count {
        let offset = cursor.offset();
        let key = cursor.name("a metadata key")?;
        let value = value::read(cursor, &key)?;
        if !seen.insert(key.clone()) {
            return Err(GgufError::Wrong {
                offset,
                problem: format!("the key `{key}` stands twice"),
            });
        }
        metadata.push((key, value));
    }
    Ok(metadata)
}

fn alignment(metadata: &[(String, GgufValue)], cursor: &Cursor<'_>) -> Result<u64, GgufError> {
    let Some((_, value)) = metadata.iter().find(|(key, _)| key == "general.alignment") else {
        return Ok(32);
    };
    match value.count() {
        // Beyond a megabyte, padding would be larger than tensors.
        Some(alignment) if alignment.is_power_of_two() && alignment <= 1 << 20 => Ok(alignment),
        _ => Err(GgufError::Wrong {
            offset: cursor.offset(),
            problem: format!("`general.alignment` is {value}; expected a power of two up to 2^20"),
        }),
    }
}
