//! Statements as rows of FOCUS 1.2, the FinOps Foundation's format of cost and usage.
//!
//! Costs are the lines' own amounts. Who reads a file multiplies in double precision, and FOCUS wants unit
//! price times pricing quantity to be the cost: so the pricing quantity is the number that gives it, less
//! than half a µ-unit's worth from what is charged, and the consumed quantity is exact to twelve decimals.

mod columns;
mod decimal;
mod make;
mod words;

pub use columns::{Moment, Row};
pub use decimal::Decimal;

use crate::statement::Statement;
use std::collections::BTreeMap;

/// Who bills whom: what statements do not know themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Who is billed, for all tenants.
    pub billing_account_id: String,
    pub billing_account_name: String,
    /// Who offers the GPUs.
    pub provider: String,
    /// Who made what is sold; mostly the same.
    pub publisher: String,
    pub invoice_issuer: String,
    /// `None`: no invoice is issued, as for showback.
    pub invoice_id: Option<String>,
    /// Id and name.
    pub region: Option<(String, String)>,
    /// What the tenant is called; `None`: as its id.
    pub sub_account_name: Option<String>,
    pub tags: BTreeMap<String, String>,
}

impl Account {
    /// One that does everything under one name.
    pub fn of(name: &str) -> Self {
        Self {
            billing_account_id: name.into(),
            billing_account_name: name.into(),
            provider: name.into(),
            publisher: name.into(),
            invoice_issuer: name.into(),
            invoice_id: None,
            region: None,
            sub_account_name: None,
            tags: BTreeMap::new(),
        }
    }
}

/// Why a statement has no rows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FocusError {
    #[error(
        "FOCUS bills in a currency of ISO 4217 and this statement is in {0}: use another format for credits"
    )]
    Currency(gpuwise_units::Currency),
    #[error("a row cannot be written: {0}")]
    Row(String),
}

/// A statement's lines, each a row. A line without a price is an adjustment of 0 whose `x_UnpricedReason`
/// says so: FOCUS has no unknown cost.
///
/// # Errors
/// When an amount is in a currency that ISO 4217 does not have.
pub fn rows(statement: &Statement, account: &Account) -> Result<Vec<Row>, FocusError> {
    make::rows(statement, account)
}

/// Rows as CSV, with the columns' names in the first line.
///
/// # Errors
/// When a row cannot be written, which memory alone can cause.
pub fn csv(rows: &[Row]) -> Result<String, FocusError> {
    let fail = |error: &dyn std::fmt::Display| FocusError::Row(error.to_string());
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer
        .write_record(Row::COLUMNS)
        .map_err(|error| fail(&error))?;
    for row in rows {
        writer
            .write_record(row.cells())
            .map_err(|error| fail(&error))?;
    }
    let bytes = writer.into_inner().map_err(|error| fail(&error))?;
    String::from_utf8(bytes).map_err(|error| fail(&error))
}
