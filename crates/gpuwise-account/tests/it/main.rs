//! Tests of accounting.

mod money;
mod statement;
mod support;
mod usage;
