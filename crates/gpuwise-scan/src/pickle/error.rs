//! Why a pickle was not read.

use thiserror::Error;

/// Why a pickle was not read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PickleError {
    /// It does not begin as one.
    #[error("not a pickle: it begins with byte {first:#04x}, not with PROTO (0x80)")]
    NotAPickle {
        /// The first byte; 0 where there is none.
        first: u8,
    },
    /// A protocol that is not known.
    #[error("pickle of protocol {protocol}; protocols up to {highest} are read")]
    Protocol {
        /// What the file says.
        protocol: u8,
        highest: u8,
    },
    /// An instruction that could run code, or that plain data does not need.
    #[error(
        "pickle instruction {name} ({code:#04x}) at byte {offset} is refused: only plain data is \
         read, and nothing that could run code"
    )]
    Forbidden {
        /// Its name, as Python spells it.
        name: &'static str,
        code: u8,
        offset: usize,
    },
    /// The bytes end within the pickle.
    #[error("the pickle is cut off: {what} at byte {offset} goes beyond its {length} bytes")]
    Truncated {
        /// What was being read.
        what: &'static str,
        offset: usize,
        /// How long the input is.
        length: usize,
    },
    /// An instruction that finds nothing to work on, or the wrong thing.
    #[error("damaged pickle: {what} at byte {offset}")]
    Damaged { what: &'static str, offset: usize },
    /// A whole number of more than 64 bits.
    #[error("a whole number of more than 64 bits at byte {offset}")]
    Number { offset: usize },
    /// More open lists, tuples and dictionaries than any such file has.
    #[error("more than {limit} lists, tuples and dictionaries open at byte {offset}")]
    TooDeep {
        /// How many there may be.
        limit: usize,
        offset: usize,
    },
}
