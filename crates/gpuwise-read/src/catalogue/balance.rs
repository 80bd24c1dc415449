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
    let parsed: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let before = text.get(..at).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        CatalogueError::new(file, format!("line {line}"), error.message())
    })?;
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
