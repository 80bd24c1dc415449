//! The header of a `.safetensors` file: names, formats, shapes and places of its tensors.
//!
//! A file is 8 bytes of header length, the header as JSON, and the tensors' bytes without holes.
//! Only the first two are read, so that a range request of some kilobytes suffices.

mod dtype;
mod entries;
mod index;

pub use crate::stored::StoredTensor;
pub use index::{Index, read_index};

use entries::{Entries, Entry};
use gpuwise_domain::precision::WeightFormat;

/// The format's own limit on the header, in bytes.
pub const LARGEST_HEADER: u64 = 100_000_000;

/// Tensors of more dimensions do not exist; the limit bounds memory.
const MOST_DIMENSIONS: usize = 64;

/// Bytes before the header.
const LENGTH_BYTES: u64 = 8;

/// What is wrong with a safetensors header or index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SafetensorsError {
    /// The header would not fit into the file.
    #[error(
        "the header says that it has {header} bytes, the file has {file} in all: it is cut short, or no safetensors file"
    )]
    BeyondFile {
        /// Bytes of the header as stated.
        header: u64,
        /// Bytes of the file.
        file: u64,
    },
    /// The header is larger than the format allows.
    #[error(
        "the header says that it has {0} bytes; the format allows {LARGEST_HEADER}: probably no safetensors file"
    )]
    TooLarge(u64),
    /// It is not the JSON that the format prescribes.
    #[error("not a safetensors header: {0}")]
    Syntax(String),
    /// A name stands twice.
    #[error("tensor `{0}` stands twice in the header")]
    Duplicate(String),
    /// A number format that this release does not know.
    #[error("tensor `{tensor}`: unknown dtype {dtype:?}")]
    UnknownDtype { tensor: String, dtype: String },
    /// A shape that no machine can hold, or of more dimensions than exist.
    #[error("tensor `{0}`: its shape is impossible: {1}")]
    Shape(String, String),
    /// Shape and place disagree.
    #[error("tensor `{tensor}`: its shape makes {shape} bytes, its data_offsets {span}")]
    Size {
        tensor: String,
        /// Bytes by shape and dtype.
        shape: u64,
        /// Bytes by its place.
        span: u64,
    },
    /// The bytes of a tensor do not begin where the ones before end.
    #[error(
        "tensor `{tensor}` begins at byte {begin} of the data, the tensors before it end at {end}: overlap or hole"
    )]
    Offset {
        tensor: String,
        begin: u64,
        end: u64,
    },
    /// A place that ends before it begins.
    #[error("tensor `{tensor}`: data_offsets [{begin}, {end}] are not in order")]
    Reversed {
        tensor: String,
        begin: u64,
        end: u64,
    },
    /// The tensors need more or fewer bytes than the file has.
    #[error(
        "the header describes {described} bytes of tensors, the file holds {present}: the file is cut short or was appended to"
    )]
    Length {
        /// Bytes that the header describes.
        described: u64,
        /// Bytes after the header.
        present: u64,
    },
}

/// A tensor with where its bytes lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub name: String,
    /// As the header says it.
    pub dtype: String,
    pub shape: Vec<u64>,
    /// In bytes after the header.
    pub begin: u64,
    pub end: u64,
}

/// A header that was read and checked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Header {
    /// Its tensors, in the order of the header.
    pub tensors: Vec<StoredTensor>,
    /// The texts under `__metadata__`, in the order of the header.
    pub metadata: Vec<(String, String)>,
}

/// The length of the JSON header in bytes, from the first 8 bytes of the file.
///
/// # Errors
/// When the header would be larger than the format allows or than the file.
pub fn header_span(first_8_bytes: [u8; 8], file_length: u64) -> Result<u64, SafetensorsError> {
    let header = u64::from_le_bytes(first_8_bytes);
    if header > LARGEST_HEADER {
        return Err(SafetensorsError::TooLarge(header));
    }
    if file_length < LENGTH_BYTES || file_length - LENGTH_BYTES < header {
        return Err(SafetensorsError::BeyondFile {
            header,
            file: file_length,
        });
    }
    Ok(header)
}

/// Reads the JSON header; `data_length` is the number of bytes after it.
///
/// # Errors
/// When it is not such a header, or its tensors cannot lie in that many bytes as they say.
pub fn read_header(json: &[u8], data_length: u64) -> Result<Header, SafetensorsError> {
    if json.len() as u64 > LARGEST_HEADER {
        return Err(SafetensorsError::TooLarge(json.len() as u64));
    }
    let Entries {
        tensors: entries,
        metadata,
    } = entries::parse(json)?;
    check_places(&entries, data_length)?;
    let tensors = entries.into_iter().map(tensor).collect::<Result<_, _>>()?;
    Ok(Header { tensors, metadata })
}

/// Reads the JSON header for where its tensors lie, in the order of their bytes; checked as [`read_header`] does.
///
/// # Errors
/// When it is not such a header, or its tensors cannot lie in that many bytes as they say.
pub fn read_places(json: &[u8], data_length: u64) -> Result<Vec<Place>, SafetensorsError> {
    read_header(json, data_length)?;
    let mut places: Vec<Place> = entries::parse(json)?
        .tensors
        .into_iter()
        .map(|entry| Place {
            name: entry.name,
            dtype: entry.dtype,
            shape: entry.shape,
            begin: entry.begin,
            end: entry.end,
        })
        .collect();
    places.sort_by(|a, b| (a.begin, a.end, &a.name).cmp(&(b.begin, b.end, &b.name)));
    Ok(places)
}

/// Checks shape against place.
fn tensor(entry: Entry) -> Result<StoredTensor, SafetensorsError> {
    let Entry {
        name,
        dtype,
        shape,
        begin,
        end,
    } = entry;
    let Some(format) = dtype::format(&dtype) else {
        return Err(SafetensorsError::UnknownDtype {
            tensor: name,
            dtype,
        });
    };
    let (bytes, span) = match packed_bytes(&shape, format) {
        Ok(bytes) => (bytes, end - begin),
        Err(problem) => return Err(SafetensorsError::Shape(name, problem)),
    };
    if bytes != span {
        return Err(SafetensorsError::Size {
            tensor: name,
            shape: bytes,
            span,
        });
    }
    Ok(StoredTensor {
        name,
        format,
        shape,
        bytes,
    })
}

/// Bytes of a shape, elements packed without gaps.
fn packed_bytes(shape: &[u64], format: WeightFormat) -> Result<u64, String> {
    if shape.len() > MOST_DIMENSIONS {
        return Err(format!("{} dimensions", shape.len()));
    }
    let elements = shape
        .iter()
        .try_fold(1_u64, |product, dimension| product.checked_mul(*dimension))
        .ok_or_else(|| format!("{shape:?} has more than 2^64 elements"))?;
    let (block, block_bytes) = (u64::from(format.block), u64::from(format.block_bytes));
    if !elements.is_multiple_of(block) {
        return Err(format!(
            "{elements} elements of {} do not fill whole bytes",
            format.name
        ));
    }
    (elements / block)
        .checked_mul(block_bytes)
        .ok_or_else(|| format!("{shape:?} has more than 2^64 bytes"))
}

/// Checks that the places follow each other from 0 to the end of the data.
fn check_places(entries: &[Entry], data_length: u64) -> Result<(), SafetensorsError> {
    let mut order: Vec<&Entry> = entries.iter().collect();
    order.sort_by_key(|entry| (entry.begin, entry.end));
    let mut end = 0;
    for entry in order {
        if entry.end < entry.begin {
            return Err(SafetensorsError::Reversed {
                tensor: entry.name.clone(),
                begin: entry.begin,
                end: entry.end,
            });
        }
        if entry.begin != end {
            return Err(SafetensorsError::Offset {
                tensor: entry.name.clone(),
                begin: entry.begin,
                end,
            });
        }
        end = entry.end;
    }
    if end != data_length {
        return Err(SafetensorsError::Length {
            described: end,
            present: data_length,
        });
    }
    Ok(())
}
