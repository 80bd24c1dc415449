//! `balance.toml`: what work asks of the parts of a host, and what those reach of their ratings.

use super::CatalogueError;
use gpuwise_domain::balance::BalanceConstant;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    constant: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    value: f64,
    low: f64,
    high: f64,
    unit: String,
    meaning: String,
    source: String,
}

/// Reads constants of the balance; `file` is named in errors.
///
/// # Errors
/// When the text is no such TOML, or a value does not lie between its ends, is not finite or below 0.
pub fn read_balance(file: &str, text: &str) -> Result<Vec<BalanceConstant>, CatalogueError> {
    let parsed: File = super::from_toml(file, text)?;
    parsed
        .constant
        .into_iter()
        .map(|row| checked(file, row))
        .collect()
}

fn checked(file: &str, row: Row) -> Result<BalanceConstant, CatalogueError> {
    let ordered = row.low.is_finite()
        && row.high.is_finite()
        && row.low <= row.value
        && row.value <= row.high;
    if !ordered || row.low <= 0.0 {
        let problem = format!(
            "{} lies not between {} and {}, or one of them is not above 0",
            row.value, row.low, row.high
        );
        return Err(CatalogueError::new(
            file,
            format!("constant {:?}", row.name),
            problem,
        ));
    }
    Ok(BalanceConstant {
        name: row.name,
        value: row.value,
        low: row.low,
        high: row.high,
        unit: row.unit,
        meaning: row.meaning,
        source: row.source,
    })
}
