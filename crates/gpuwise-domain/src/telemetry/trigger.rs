//! Conditions on figures, such as `tensor_active < 0.2 for 5m`.

use alloc::string::String;

/// A condition that must hold for some time.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// Name of the figure: of a quantity, or of a metric the user brought.
    pub figure: String,
    /// Over the rows for which it is known: any of them, all, or their mean.
    pub over: Aggregate,
    pub comparison: Comparison,
    /// With what, in the figure's unit.
    pub value: f64,
    /// For how many seconds on end; 0 is at once.
    pub seconds: f64,
}

/// Over which rows a condition speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// One row is enough.
    Any,
    /// Every row for which the figure is known, and at least one.
    All,
    Mean,
}

gpuwise_units::named! {
    /// How two values are compared.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Comparison:
        sign
    {
        Below = "<",
        AtMost = "<=",
        Above = ">",
        AtLeast = ">=",
    }
}

impl Comparison {
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Below => left < right,
            Self::AtMost => left <= right,
            Self::Above => left > right,
            Self::AtLeast => left >= right,
        }
    }
}
