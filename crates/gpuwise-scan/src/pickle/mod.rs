//! Pickles of plain data, read without Python and without executing anything.
//!
//! A pickle is a program for a small machine. Of its instructions only those that build numbers,
//! texts, lists, tuples and dictionaries are known here; whatever names a class, calls a function or
//! sets attributes is [refused](PickleError::Forbidden) with its name and offset, and nothing of the
//! file is used. Torch's memory snapshots and flight recorders need no others.
//!
//! Values live in one arena: what the memo shares is shared here, a list that holds itself is an
//! index and no endless tree, and nothing is walked by recursion. Every instruction makes at most one
//! value, so memory is bounded by the size of the input (at most some twenty times as much).

mod error;
mod machine;
mod opcode;

pub use error::PickleError;

use std::borrow::Cow;

/// Highest protocol that is read; that of Python 3.8 and later.
pub const HIGHEST_PROTOCOL: u8 = 5;

/// How many lists, tuples and dictionaries may be open at once. Snapshots need six; Python's own
/// writer gives up at its limit of recursion, 1,000.
pub const MAX_OPEN: usize = 1_024;

/// A value of a [`Pickle`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    None,
    Bool(bool),
    Integer(i64),
    /// A whole number from 2⁶³ to 2⁶⁴ − 1: an address.
    Unsigned(u64),
    /// A number with a fraction.
    Real(f64),
    /// A text: see [`Pickle::text`].
    Text(u32),
    /// A list: see [`Pickle::items`].
    List(u32),
    /// A tuple: see [`Pickle::items`].
    Tuple(u32),
    /// A dictionary: see [`Pickle::entries`] and [`Pickle::get`].
    Dict(u32),
}

impl Value {
    /// What it is, in a word.
    pub fn kind(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "a truth value",
            Self::Integer(_) | Self::Unsigned(_) => "a whole number",
            Self::Real(_) => "a real number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Tuple(_) => "a tuple",
            Self::Dict(_) => "a dictionary",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Pickle<'a> {
    root: Value,
    texts: Vec<Cow<'a, str>>,
    sequences: Vec<Vec<Value>>,
    dicts: Vec<Vec<(Value, Value)>>,
    end: usize,
}

impl<'a> Pickle<'a> {
    /// Reads the pickle that `bytes` start with.
    ///
    /// # Errors
    ///
    /// Where an instruction is not one of plain data, where the bytes end too early, and where they
    /// are no pickle at all.
    pub fn read(bytes: &'a [u8]) -> Result<Self, PickleError> {
        machine::run(bytes)
    }

    pub fn root(&self) -> Value {
        self.root
    }

    /// Bytes of the input that belong to it.
    pub fn end(&self) -> usize {
        self.end
    }

    /// The text of a value, if it is one.
    pub fn text(&self, value: Value) -> Option<&str> {
        let Value::Text(id) = value else { return None };
        self.texts.get(id as usize).map(AsRef::as_ref)
    }

    /// The elements of a list or tuple; none of another value.
    pub fn items(&self, value: Value) -> &[Value] {
        let (Value::List(id) | Value::Tuple(id)) = value else {
            return &[];
        };
        self.sequences.get(id as usize).map_or(&[], |items| items)
    }

    /// The entries of a dictionary in the order of the file; none of another value. A key may come
    /// twice: the last one counts.
    pub fn entries(&self, value: Value) -> &[(Value, Value)] {
        let Value::Dict(id) = value else { return &[] };
        self.dicts.get(id as usize).map_or(&[], |entries| entries)
    }

    /// The entry of a dictionary under a text.
    pub fn get(&self, dict: Value, key: &str) -> Option<Value> {
        self.entries(dict)
            .iter()
            .rev()
            .find(|(name, _)| self.text(*name) == Some(key))
            .map(|(_, value)| *value)
    }

    /// A whole number, if it is one that a count can be.
    pub fn unsigned(&self, value: Value) -> Option<u64> {
        match value {
            Value::Integer(number) => u64::try_from(number).ok(),
            Value::Unsigned(number) => Some(number),
            Value::Bool(_)
            | Value::None
            | Value::Real(_)
            | Value::Text(_)
            | Value::List(_)
            | Value::Tuple(_)
            | Value::Dict(_) => None,
        }
    }

    /// How many dictionaries there are: their values are `Value::Dict(0)` to one below this.
    pub fn dict_count(&self) -> usize {
        self.dicts.len()
    }
}

/// Whether bytes look like a pickle: `PROTO` with a protocol that is known.
pub fn is_pickle(bytes: &[u8]) -> bool {
    matches!(bytes, [0x80, protocol, ..] if (2..=HIGHEST_PROTOCOL).contains(protocol))
}
