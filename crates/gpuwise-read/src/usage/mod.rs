//! What an audit reads: its thresholds and names, and tables of usage that were exported elsewhere.

mod rules;
mod table;

pub use rules::read_audit_catalogue;
pub use table::{COLUMNS, UsageError, read_usage};
