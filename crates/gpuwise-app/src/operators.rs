//! The measured operator functions, and tables of operators by name.

use crate::{
    catalogue::{self, Loaded, OwnRows},
    error::Problem,
};
use gpuwise_operators::{
    Functions, Operators,
    tables::{self, Operator},
};
use std::sync::{Arc, OnceLock};

/// The operator functions: a file of the user's catalogue in place of the one that the binary carries.
///
/// # Errors
/// When the file is not of its form.
pub fn functions(loaded: &Loaded) -> anyhow::Result<Functions> {
    let (file, text) = catalogue::file(loaded, OwnRows::Operators);
    Functions::parse(text).map_err(|error| Problem::new(file).because(error).into())
}

/// The same as predictions use them: one for the whole run, as it remembers what was asked.
///
/// # Errors
/// As [`functions`].
pub fn measured(loaded: &Loaded) -> anyhow::Result<Arc<Operators>> {
    static MEASURED: OnceLock<Arc<Operators>> = OnceLock::new();
    if loaded.own(OwnRows::Operators).next().is_some() {
        return Ok(Arc::new(Operators::from(functions(loaded)?)));
    }
    if let Some(known) = MEASURED.get() {
        return Ok(Arc::clone(known));
    }
    let read = Arc::new(Operators::from(functions(loaded)?));
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
