//! Notes on the launch command of what runs.

use crate::facts::NotUnderstood;
use alloc::string::String;
use core::fmt;

/// What a launch command says that is not known, and what is done instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandNote {
    UnknownDraftModel {
        name: String,
    },
    UnknownCache {
        format: String,
    },
    UnknownQuantization {
        name: String,
    },
    /// A flag or value that was left aside.
    LeftAside(NotUnderstood),
}

impl fmt::Display for CommandNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("--from: ")?;
        match self {
            Self::UnknownDraftModel { name } => write!(
                f,
                "the shape of the draft model {name} is not known; drafts are counted as those of \
                 prediction layers, or name a model like it with --draft-model"
            ),
            Self::UnknownCache { format } => write!(
                f,
                "the KV cache's format \"{format}\" is not known; 16 bits are assumed"
            ),
            Self::UnknownQuantization { name } => write!(
                f,
                "quantization \"{name}\" is not known; weights as published are assumed"
            ),
            Self::LeftAside(what) => what.fmt(f),
        }
    }
}
