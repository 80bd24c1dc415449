//! The measured operator functions, and tables of operators by name.

use crate::error::Problem;
use gpuwise_operators::{
    Functions, Operators,
    tables::{self, Operator},
};
use std::sync::{Arc, OnceLock};

/// The functions that the binary carries.
const EMBEDDED: &str = include_str!("../../../catalogue/operators.csv");

/// The operator functions that the binary carries.
///
/// # Errors
/// When the catalogue's file is not of its form.
pub fn functions() -> anyhow::Result<Functions> {
    Functions::parse(EMBEDDED).map_err(|error| {
        Problem::new("catalogue/operators.csv")
            .because(error)
            .into()
    })
}

/// The same as predictions use them: one for the whole run, as it remembers what was asked.
///
/// # Errors
/// As [`functions`].
pub fn measured() -> anyhow::Result<Arc<Operators>> {
    static MEASURED: OnceLock<Arc<Operators>> = OnceLock::new();
    if let Some(known) = MEASURED.get() {
        return Ok(Arc::clone(known));
    }
    let read = Arc::new(Operators::from(functions()?));
    Ok(Arc::clone(MEASURED.get_or_init(|| read)))
}

/// The operator of a table's name.
///
/// # Errors
/// When there is none of this name.
pub fn operator(flag: &str, name: &str) -> anyhow::Result<&'static Operator> {
    tables::named(name).ok_or_else(|| {
        let names: Vec<&str> = tables::ALL.iter().map(|operator| operator.name).collect();
        Problem::new(format!("{flag} {name}: no such table is known"))
            .hint(format!("known are {}", names.join(", ")))
            .into()
    })
}
