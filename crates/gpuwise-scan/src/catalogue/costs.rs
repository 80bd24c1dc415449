//! What owning and renting cost: `tco.toml`, and files of a user's own of the same form.

use super::CatalogueError;
use gpuwise_domain::bill::{CostInput, CostKey, CostRow, CostUnit, Month};
use gpuwise_units::{Currency, Fraction};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    cost: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    key: String,
    #[serde(default)]
    low: Option<Number>,
    value: Number,
    #[serde(default)]
    high: Option<Number>,
    #[serde(default)]
    currency: Option<String>,
    #[serde(default)]
    gpu: Option<String>,
    #[serde(default)]
    gpus: Option<u32>,
    #[serde(default)]
    date: String,
    #[serde(default)]
    valid_months: Option<u32>,
    source: String,
}

/// A number as it is written: exact as a text or a whole number; a real one is taken by its shortest
/// decimal text, which is how it was written.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Whole(i64),
    Real(f64),
    Text(String),
}

impl Number {
    fn exact(&self) -> Result<Fraction, String> {
        let text = match self {
            Self::Whole(number) => number.to_string(),
            Self::Real(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        };
        Fraction::from_decimal(&text).map_err(|error| error.to_string())
    }
}

/// The assumption of a name, such as `pue`.
///
/// # Errors
/// When there is none; the names that there are.
pub fn cost_key(name: &str) -> Result<CostKey, String> {
    let found = CostKey::ALL
        .into_iter()
        .find(|key| key.name() == name.trim());
    found.ok_or_else(|| {
        let names: Vec<&str> = CostKey::ALL.iter().map(|key| key.name()).collect();
        format!("`{name}` is no assumption; there are {}", names.join(", "))
    })
}

/// Reads rows of costs.
///
/// # Errors
/// When the file is no TOML of this form, a key is unknown, a range does not hold its value, or money
/// names no currency.
pub fn read_costs(file: &str, text: &str) -> Result<Vec<CostRow>, CatalogueError> {
    let read: File = super::from_toml(file, text)?;
    let rows = read.cost.iter().enumerate();
    rows.map(|(index, row)| {
        cost(row).map_err(|problem| {
            let place = format!("row {} (`{}`)", index + 1, row.key);
            CatalogueError::new(file, place, problem)
        })
    })
    .collect()
}

fn cost(row: &Row) -> Result<CostRow, String> {
    let key = cost_key(&row.key)?;
    let value = row.value.exact()?;
    let end = |end: &Option<Number>| end.as_ref().map_or(Ok(value), Number::exact);
    let (low, high) = (end(&row.low)?, end(&row.high)?);
    if low > value || value > high {
        return Err("`value` must lie between `low` and `high`".into());
    }
    let currency = row
        .currency
        .as_deref()
        .map(str::parse::<Currency>)
        .transpose()
        .map_err(|error| error.to_string())?;
    match (key.unit(), currency) {
        (CostUnit::Money(_), None) => {
            return Err("money needs a `currency`, such as \"USD\"".into());
        }
        (CostUnit::Money(_), Some(_)) | (_, None) => {}
        (_, Some(_)) => return Err("it is no money, and has no `currency`".into()),
    }
    if row.source.trim().is_empty() {
        return Err("`source` is empty: say where it comes from".into());
    }
    let dated = row.date.is_empty() || Month::from_text(&row.date).is_some();
    if !dated {
        return Err(format!("`date` {:?} is no month such as 2026-07", row.date));
    }
    let gpus = row.gpus.unwrap_or(1);
    if gpus == 0 {
        return Err("`gpus` is 0".into());
    }
    Ok(CostRow {
        input: CostInput {
            key,
            low,
            value,
            high,
            date: row.date.clone(),
            source: row.source.clone(),
        },
        currency,
        gpu: row.gpu.clone(),
        gpus,
        valid_months: row.valid_months,
    })
}
