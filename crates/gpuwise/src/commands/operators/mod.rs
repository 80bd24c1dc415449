//! `gpuwise operators`: how long operators take, and what that rests on.

mod fit;
mod predict;
mod rows;
mod show;

use super::{Answer, Context};
use crate::{cli::OperatorsCommand, error::Problem};
use gpuwise_operators::{
    Functions, Operators,
    tables::{self, Operator},
};
use std::sync::{Arc, OnceLock};

/// The functions that the binary carries.
const EMBEDDED: &str = include_str!("../../../../../catalogue/operators.csv");

pub(super) fn run(context: &Context, command: &OperatorsCommand) -> anyhow::Result<Answer> {
    match command {
        OperatorsCommand::Predict(flags) => predict::run(context, flags),
        OperatorsCommand::Show(flags) => show::run(context, flags),
        OperatorsCommand::Fit(flags) => fit::run(context, flags),
        OperatorsCommand::Check(flags) => fit::check(context, flags),
    }
}

/// The operator functions that the binary carries.
///
/// # Errors
/// When the catalogue's file is not of its form.
pub(crate) fn functions() -> anyhow::Result<Functions> {
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
pub(crate) fn measured() -> anyhow::Result<Arc<Operators>> {
    static MEASURED: OnceLock<Arc<Operators>> = OnceLock::new();
    if let Some(known) = MEASURED.get() {
        return Ok(Arc::clone(known));
    }
    let read = Arc::new(Operators::from(functions()?));
    Ok(Arc::clone(MEASURED.get_or_init(|| read)))
}

/// The operator of a table's name.
fn operator(flag: &str, name: &str) -> anyhow::Result<&'static Operator> {
    tables::named(name).ok_or_else(|| {
        let names: Vec<&str> = tables::ALL.iter().map(|operator| operator.name).collect();
        Problem::new(format!("{flag} {name}: no such table is known"))
            .hint(format!("known are {}", names.join(", ")))
            .into()
    })
}
