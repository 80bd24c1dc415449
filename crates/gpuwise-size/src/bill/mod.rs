//! The bill over years: renting, owning, or both; what to buy by when; what a unit costs.
//!
//! Amounts are exact: a bill is a sheet of lines over cells, each evaluated in rational numbers and
//! rounded once, so that a spreadsheet over the same cells comes to the same cent. The formulas are
//! those of `docs/concepts/total-cost.md`.

mod host;
mod hybrid;
mod lines;
mod owned;
mod question;
mod ranges;
mod rented;
mod result;
mod sheet;

pub use question::{LONGEST_HORIZON, Question};

use alloc::string::String;
use gpuwise_domain::bill::{Bill, CostKey};

/// Why there is no bill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BillError {
    #[error("a horizon of {months} months: from 1 to {LONGEST_HORIZON} can be billed")]
    Horizon { months: u32 },
    #[error("no hosts, or hosts without GPUs, have no bill")]
    NoHosts,
    /// The months of the load are too few.
    #[error("the load is given for {given} months, the horizon has {horizon}")]
    Months {
        /// Months with a load.
        given: usize,
        /// Months that are asked for.
        horizon: u32,
    },
    /// A load is negative, or there is none in the first month.
    #[error("a load is negative, or the first month has none")]
    Load,
    /// An assumption cannot be.
    #[error("{} {problem}", key.what())]
    Input { key: CostKey, problem: String },
    /// A figure is beyond what is computed exactly.
    #[error("{line}: too large to be computed exactly")]
    TooLarge { line: String },
}

/// The bill of every strategy, with ranges.
///
/// Strategies whose prices are not known say what is missing; they are not an error.
///
/// # Errors
/// When the horizon, the load or an assumption cannot be, or figures are beyond 128 bits.
pub fn bill(question: &Question) -> Result<Bill, BillError> {
    question.check()?;
    let lines = lines::lines(question)?;
    let variants = ranges::variants(question)?;
    Ok(result::bill(question, lines, &variants))
}
