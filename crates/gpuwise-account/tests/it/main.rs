//! Tests of accounting.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod budget;
mod closing;
mod conserve;
mod everything;
mod focus;
mod ledger;
mod lent;
mod money;
mod oracle;
mod slo;
mod statement;
mod support;
mod tally;
mod usage;
