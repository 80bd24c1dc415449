//! Values of the metadata.

use super::{GgufError, cursor::Cursor};
use std::fmt;

/// Lists are kept up to this length, enough for one value a layer; longer ones are counted.
const LONGEST_LIST: u64 = 1024;

/// Texts are kept up to this length, enough for chat templates.
const LONGEST_TEXT: usize = 1 << 20;

/// All kept texts of one list together, so that a list of large texts is not kept either.
const LARGEST_LIST: usize = 1 << 20;

/// No writer nests lists; the format allows it, so a few levels are passed over.
const DEEPEST_LIST: u32 = 4;

/// A value of the metadata. Widths of numbers are not kept: the same key has different ones in
/// different files.
#[derive(Debug, Clone, PartialEq)]
pub enum GgufValue {
    /// A whole number of an unsigned type.
    Unsigned(u64),
    /// A whole number of a signed type.
    Signed(i64),
    Real(f64),
    Flag(bool),
    /// A text; what is not UTF-8 in it is replaced.
    Text(String),
    List(Vec<GgufValue>),
    /// A list or text that was passed over: tokenizers, and what is too long.
    Skipped {
        /// Its items, or the bytes of a text.
        length: u64,
    },
}

impl GgufValue {
    /// A whole number from 0.
    pub fn count(&self) -> Option<u64> {
        match self {
            Self::Unsigned(count) => Some(*count),
            Self::Signed(count) => u64::try_from(*count).ok(),
            _ => None,
        }
    }

    /// Whole numbers from 0: a list of them, or one for all.
    pub fn counts(&self) -> Option<Vec<u64>> {
        match self {
            Self::List(items) => items.iter().map(Self::count).collect(),
            one => one.count().map(|count| vec![count]),
        }
    }

    /// Items of a list, kept or not.
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::List(items) => Some(items.len() as u64),
            Self::Skipped { length } => Some(*length),
            _ => None,
        }
    }
}

/// For people; lists are not written out.
impl fmt::Display for GgufValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(count) => write!(f, "{count}"),
            Self::Signed(count) => write!(f, "{count}"),
            Self::Real(real) => write!(f, "{real}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Text(text) => {
                let short: String = text.chars().take(60).collect();
                write!(f, "{short:?}")
            }
            Self::List(items) => write!(f, "a list of {} values", items.len()),
            Self::Skipped { length } => write!(f, "a list of {length} values"),
        }
    }
}

/// The type numbers of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A number or flag of so many bytes.
    Scalar(Scalar, u64),
    Text,
    List,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scalar {
    Unsigned,
    Signed,
    Real,
    Flag,
}

pub(super) fn read(cursor: &mut Cursor<'_>, key: &str) -> Result<GgufValue, GgufError> {
    let kind = kind(cursor, key)?;
    match kind {
        Kind::Scalar(scalar, bytes) => number(cursor, scalar, bytes),
        Kind::Text => {
            let bytes = cursor.text_bytes("a text")?;
            Ok(text(bytes))
        }
        Kind::List => list(cursor, key, !key.starts_with("tokenizer."), 1),
    }
}

fn kind(cursor: &mut Cursor<'_>, key: &str) -> Result<Kind, GgufError> {
    let offset = cursor.offset();
    Ok(match cursor.u32("the type of a value")? {
        0 => Kind::Scalar(Scalar::Unsigned, 1),
        1 => Kind::Scalar(Scalar::Signed, 1),
        2 => Kind::Scalar(Scalar::Unsigned, 2),
        3 => Kind::Scalar(Scalar::Signed, 2),
        4 => Kind::Scalar(Scalar::Unsigned, 4),
        5 => Kind::Scalar(Scalar::Signed, 4),
        6 => Kind::Scalar(Scalar::Real, 4),
        7 => Kind::Scalar(Scalar::Flag, 1),
        8 => Kind::Text,
        9 => Kind::List,
        10 => Kind::Scalar(Scalar::Unsigned, 8),
        11 => Kind::Scalar(Scalar::Signed, 8),
        12 => Kind::Scalar(Scalar::Real, 8),
        other => {
            return Err(GgufError::Wrong {
                offset,
                problem: format!("`{key}` has a value of type {other}; types 0 to 12 are known"),
            });
        }
    })
}

fn number(cursor: &mut Cursor<'_>, scalar: Scalar, bytes: u64) -> Result<GgufValue, GgufError> {
    let given = cursor.take(bytes, "a number")?;
    let mut wide = [0_u8; 8];
    wide[..given.len()].copy_from_slice(given);
    let unsigned = u64::from_le_bytes(wide);
    Ok(match scalar {
        Scalar::Unsigned => GgufValue::Unsigned(unsigned),
        Scalar::Signed => {
            let unused = 64 - 8 * bytes as u32;
            GgufValue::Signed((unsigned << unused).cast_signed() >> unused)
        }
        Scalar::Real if bytes == 4 => GgufValue::Real(f64::from(f32::from_bits(unsigned as u32))),
        Scalar::Real => GgufValue::Real(f64::from_bits(unsigned)),
        Scalar::Flag => GgufValue::Flag(unsigned != 0),
    })
}

fn text(bytes: &[u8]) -> GgufValue {
    if bytes.len() > LONGEST_TEXT {
        return GgufValue::Skipped {
            length: bytes.len() as u64,
        };
    }
    GgufValue::Text(String::from_utf8_lossy(bytes).into_owned())
}

/// Reads a list, kept if `keep` and not too long.
fn list(
    cursor: &mut Cursor<'_>,
    key: &str,
    keep: bool,
    depth: u32,
) -> Result<GgufValue, GgufError> {
    let offset = cursor.offset();
    if depth > DEEPEST_LIST {
        return Err(GgufError::Wrong {
            offset,
            problem: format!("`{key}` nests lists more than {DEEPEST_LIST} deep"),
        });
    }
    let kind = kind(cursor, key)?;
    let length = cursor.u64("the length of a list")?;
    // The least that the items take, so that an absurd length is refused before its first item.
    let least = match kind {
        Kind::Scalar(_, bytes) => bytes,
        Kind::Text => 8,
        Kind::List => 12,
    };
    cursor.need(length.saturating_mul(least), "a list")?;
    let kept = keep && length <= LONGEST_LIST && kind != Kind::List;
    let mut items = Vec::new();
    let mut text_bytes = 0;
    match kind {
        Kind::Scalar(_, bytes) if !kept => {
            cursor.take(length * bytes, "a list")?;
        }
        Kind::Scalar(scalar, bytes) => {
            for _ in 0..length {
                items.push(number(cursor, scalar, bytes)?);
            }
        }
        Kind::Text => {
            for _ in 0..length {
                let bytes = cursor.text_bytes("a text of a list")?;
                text_bytes += bytes.len();
                if kept && text_bytes <= LARGEST_LIST {
                    items.push(text(bytes));
                }
            }
        }
        Kind::List => {
            for _ in 0..length {
                list(cursor, key, false, depth + 1)?;
            }
        }
    }
    Ok(if kept && text_bytes <= LARGEST_LIST {
        GgufValue::List(items)
    } else {
        GgufValue::Skipped { length }
    })
}
