//! How a number came about: its formula, its inputs, and where each of them comes from.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_units::{Bytes, significant};

gpuwise_units::named! {
    /// In what a figure of a derivation is counted. Values are in the base unit: bytes, seconds, operations.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Unit:
        /// The base unit's name in documents.
        name
    {
        /// A plain number: a count, a share or a factor.
        Number = "number",
        /// Bytes in the largest binary unit.
        Bytes = "bytes",
        /// Bytes to the last one.
        ByteCount = "bytes exactly",
        Tokens = "tokens",
        /// Seconds, written in milliseconds.
        Seconds = "seconds",
        /// Seconds, written in microseconds.
        Microseconds = "seconds, small",
        BytesPerSecond = "bytes/s",
        /// Floating-point operations.
        Flop = "FLOP",
        /// Floating-point operations a second.
        FlopPerSecond = "FLOP/s",
        Watts = "W",
        RequestsPerSecond = "requests/s",
        ConcurrentRequests = "concurrent requests",
        /// Currency units an hour.
        MoneyPerHour = "money/h",
    }
}

impl Unit {
    /// A value of it for people, with so many significant digits.
    pub fn written(self, value: f64, digits: usize) -> String {
        let in_unit =
            |scale: f64, unit: &str| format!("{} {unit}", significant(value / scale, digits));
        match self {
            Self::Number | Self::MoneyPerHour => significant(value, digits),
            Self::Bytes if value < 0.0 => format!("short by {}", Bytes::from_f64(-value)),
            Self::Bytes => Bytes::from_f64(value).to_string(),
            Self::ByteCount => in_unit(1.0, "B"),
            Self::Tokens => in_unit(1.0, "tokens"),
            Self::Seconds => in_unit(1e-3, "ms"),
            Self::Microseconds => in_unit(1e-6, "µs"),
            Self::BytesPerSecond => in_unit(1e9, "GB/s"),
            Self::Flop if value.abs() < 1e6 => in_unit(1e3, "kFLOP"),
            Self::Flop => in_unit(1e9, "GFLOP"),
            Self::FlopPerSecond => in_unit(1e12, "TFLOP/s"),
            Self::Watts => in_unit(1.0, "W"),
            Self::RequestsPerSecond => in_unit(1.0, "requests/s"),
            Self::ConcurrentRequests => in_unit(1.0, "concurrent requests"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// The number, in the base unit.
    pub value: f64,
    pub unit: Unit,
}

/// How a number came about: a formula, its inputs, and where each comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Derivation {
    pub name: String,
    pub value: String,
    /// The same as a number; `None` where it is not one, or was not kept.
    pub figure: Option<Figure>,
    /// The formula over the inputs below; empty for a fact.
    pub formula: String,
    /// Where a fact or constant comes from; empty for what follows from inputs.
    pub source: String,
    pub inputs: Vec<Derivation>,
}

impl Derivation {
    pub fn fact(
        name: impl Into<String>,
        value: impl Into<String>,
        source: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
            figure: None,
            formula: String::new(),
            source: source.into(),
            inputs: Vec::new(),
        }
    }

    /// A figure computed by a formula.
    pub fn computed(
        name: impl Into<String>,
        value: impl Into<String>,
        formula: impl Into<String>,
        inputs: Vec<Self>,
    ) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
            figure: None,
            formula: formula.into(),
            source: String::new(),
            inputs,
        }
    }
}
