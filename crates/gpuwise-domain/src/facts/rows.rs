//! The rows of an engine's facts.

use super::{Condition, Vendor};
use crate::engine::Release;
use alloc::{string::String, vec::Vec};
use core::fmt;

/// Releases in which a fact holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// From this one; `None`: from the oldest covered.
    pub since: Option<Release>,
    /// Before this one; `None`: still.
    pub until: Option<Release>,
}

impl Span {
    pub fn holds(&self, release: Release) -> bool {
        self.since.is_none_or(|since| since <= release)
            && self.until.is_none_or(|until| release < until)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct SettingFact {
    pub name: String,
    pub span: Span,
    pub when: Condition,
    /// Its value; a text may be a formula.
    pub value: Value,
    pub note: String,
    pub source: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Switch(bool),
    Number(f64),
    /// A word, or a formula over what is known at start.
    Text(String),
}

impl Value {
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Whether it is on, if it is a switch.
    pub fn switch(&self) -> Option<bool> {
        match self {
            Self::Switch(on) => Some(*on),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A flag of a server, or a key of its settings file (`yaml:kv_cache_config.dtype`).
#[derive(Debug, Clone, PartialEq)]
pub struct FlagFact {
    /// As it is written; a name without dashes is a positional argument.
    pub name: String,
    pub aliases: Vec<String>,
    pub setting: String,
    pub kind: FlagKind,
    pub span: Span,
    pub note: String,
    pub source: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlagKind {
    Switch,
    Integer,
    Real,
    Text,
    Json,
    Choice(Vec<String>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct SupportFact {
    /// `weights:fp8`, `kv:fp8`, `mode:ep` …
    pub feature: String,
    pub span: Span,
    pub needs: Condition,
    pub note: String,
    pub source: String,
}

/// Something that an engine does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BehaviourFact {
    pub name: String,
    pub span: Span,
    pub note: String,
    pub source: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandFact {
    /// The words before model and flags: `vllm serve`.
    pub words: Vec<String>,
    pub span: Span,
    pub source: String,
}

/// A container image of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFact {
    /// The repository without tag.
    pub repository: String,
    /// The tag, with `{release}` in it.
    pub tag: String,
    pub vendor: Vendor,
    pub span: Span,
    pub source: String,
}
