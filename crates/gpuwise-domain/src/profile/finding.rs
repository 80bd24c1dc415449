//! Findings: what limits a job, how it is known, what to do and what that would gain.

use super::figure::Scope;
use alloc::{string::String, vec::Vec};

/// A class of findings: its name, signal, threshold and where they come from.
///
/// The reference page of findings is written from these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FindingDefinition {
    /// Its name, as in JSON and in the database (`data_loading`).
    pub class: &'static str,
    /// Its name for people (`data loading`).
    pub title: &'static str,
    /// What must be seen for it to be said, thresholds in words.
    pub signal: &'static str,
    pub advice: &'static str,
    pub gain: &'static str,
    /// Where signal and threshold come from.
    pub source: &'static str,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Its class, by the name of its definition.
    pub class: String,
    pub scope: Scope,
    /// What was found, in one sentence with its figures.
    pub statement: String,
    /// Its figures, and the thresholds they were held against.
    pub evidence: Vec<Evidence>,
    /// Where it can be seen, the largest first; not more than a few dozen.
    pub places: Vec<Place>,
    pub gain: Gain,
    /// What to do, for this very case.
    pub advice: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    pub figure: String,
    pub value: f64,
    pub unit: String,
    /// What it was held against, where it was.
    pub threshold: Option<f64>,
}

/// A range of time in which a finding can be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub rank: Option<u32>,
    /// On which device, by its number in the file; the host when absent.
    pub device: Option<i64>,
    /// From, on the file's clock.
    pub start_ns: i64,
    /// To, on the file's clock.
    pub end_ns: i64,
    /// How much of it was lost there; absent where it is not about time. Those of a finding sum, with
    /// the evidence `elsewhere_ns`, to its `lost_ns`.
    pub lost_ns: Option<i64>,
    /// What is there to see.
    pub what: String,
}

/// What a fix would gain. Gains of two findings may overlap and must not be added.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Gain {
    /// A share of the time of the profiled span or step, from 0 to 1.
    Time {
        /// What is gained at least.
        low: f64,
        /// What is gained at most.
        high: f64,
    },
    /// Bytes of device memory.
    Memory {
        /// What is gained at least.
        low: u64,
        /// What is gained at most.
        high: u64,
    },
    /// A share of the device that could serve others, from 0 to 1.
    Device {
        /// What is gained at least.
        low: f64,
        /// What is gained at most.
        high: f64,
    },
    /// It is about correctness or safety; there is no figure for it.
    Safety,
    /// Cannot be told from this input.
    Unknown,
}

/// A threshold of a finding as a user replaces it.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// Its name (`loader_share`).
    pub name: String,
    pub value: f64,
    /// Its unit (`share of the span`, `ns`), where the user states it.
    pub unit: Option<String>,
}
