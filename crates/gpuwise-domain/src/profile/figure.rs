//! Figures of a profile or of telemetry, one by one: what a database keeps and two runs compare.

use alloc::{string::String, vec::Vec};

/// What a figure is: its name, unit, formula and where the definition comes from.
///
/// The reference page of figures is written from these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FigureDefinition {
    /// Its name, as in JSON and in the database (`idle_host_wait_ns`).
    pub name: &'static str,
    /// Its unit (`ns`, `bytes`, `%`, `count`, `bytes/s`).
    pub unit: &'static str,
    /// What it says, in a sentence.
    pub meaning: &'static str,
    pub formula: &'static str,
    pub source: &'static str,
    /// Which way is better, where that can be said.
    pub better: Option<Better>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    Lower,
    Higher,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its name: that of a [`FigureDefinition`], or of a metric the user brought.
    pub name: String,
    pub scope: Scope,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Scope {
    /// Of one rank; of all when absent.
    pub rank: Option<u32>,
    /// Of one device of the rank, by its number in the file; of all when absent.
    pub device: Option<i64>,
    /// Of one part: a kernel, a step, a MIG instance, a communication class; of the whole when absent.
    pub part: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// An exact count of its unit.
    Integer(i64),
    /// A ratio or an estimate.
    Real(f64),
    /// Cannot be told from this input: the reason.
    Unknown(String),
}

impl Value {
    /// The value as a real number, where it is known.
    pub fn real(&self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(*value as f64),
            Self::Real(value) => Some(*value),
            Self::Unknown(_) => None,
        }
    }
}

/// Everything that was concluded from one profile: what is printed, kept and compared.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Files it was made from, as the user named them.
    pub files: Vec<String>,
    /// When the first work of it ran, in nanoseconds since 1970, where known.
    pub started_at_ns: Option<i64>,
    /// Products of the devices, each once.
    pub hardware: Vec<String>,
    pub software: Vec<(String, String)>,
    /// Figures, ordered by scope, then in the order of their definitions.
    pub figures: Vec<Figure>,
    /// Findings, the one that gains most first.
    pub findings: Vec<super::finding::Finding>,
    /// What is missing in the input, in words.
    pub missing: Vec<String>,
}
