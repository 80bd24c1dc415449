//! Counters of kernels as Nsight Compute prints them: `ncu --csv`, long (a row per metric) or wide
//! (`--page raw`, a row per launch under a row of units).
//!
//! Real exports begin with what the profiler and the program printed, may carry a byte-order mark,
//! CRLF or UTF-16 of a Windows shell, write thousands separators, scale units, and mix in rows of the
//! profiler's own advice. All of it ends in one record per launch, with base units and canonical names;
//! a metric that is not known keeps its own name and unit.

mod number;
mod rules;
mod table;
mod text;
mod unit;

pub use rules::{CounterRulesError, default_counter_rules, read_counter_rules};
pub use table::read_kernel_counters;
pub use text::is_kernel_counters;

use thiserror::Error;

/// Why counters were not read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KernelCountersError {
    #[error(
        "not an export of Nsight Compute: no header with \"ID\" and \"Kernel Name\" in {lines} lines"
    )]
    NoHeader {
        /// Lines that were looked at.
        lines: usize,
    },
    /// There is a header, and no launch under it.
    #[error("no kernel was counted: {printed}")]
    NoLaunch {
        /// What the profiler printed of it, if it did.
        printed: String,
    },
}
