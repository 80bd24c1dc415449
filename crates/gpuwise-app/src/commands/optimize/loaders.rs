//! What opens a form of weights of an architecture, as the catalogue has it: what was tried, by `.ci/optimize_loaders.py`
//! and `.ci/check_vllm.py`.

use super::super::Context;
use crate::{
    catalogue::{self, OwnRows},
    error::Problem,
};
use gpuwise_compress::{Scheme, Strategy};
use gpuwise_read::weight_loaders::{Opens, WeightLoader, read_weight_loaders};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The form as the table names it, with or without towers of images and sound; `None` of numbers that any loader takes,
/// and of those that none takes any more.
pub(super) fn form(scheme: Scheme, towers: bool) -> Option<String> {
    let of = |form: &str, strategy: Strategy, usual: Strategy| {
        let scales = match strategy {
            _ if strategy == usual => "",
            Strategy::Tensor => " tensor",
            Strategy::Channel => " channel",
            Strategy::Group(_) => " group",
            Strategy::Block(..) => " block",
        };
        format!("{form}{scales}")
    };
    let form = match scheme {
        Scheme::Fp8(strategy) => of("fp8", strategy, Strategy::Channel),
        Scheme::Int8(strategy) => of("int8", strategy, Strategy::Channel),
        Scheme::Packed {
            bits,
            strategy,
            symmetric,
        } => {
            let form = match (bits, strategy) {
                (4, Strategy::Group(_)) => "int4".into(),
                (4, _) => of("int4", strategy, Strategy::Tensor),
                _ => of("int8-w8a16", strategy, Strategy::Channel),
            };
            let zeros = if symmetric { "" } else { " asymmetric" };
            format!("{form}{zeros}")
        }
        Scheme::Nvfp4 => "nvfp4".into(),
        Scheme::Mxfp4 => "mxfp4".into(),
        Scheme::TwoFour(_) => return None,
    };
    Some(if towers {
        format!("{form} towers")
    } else {
        form
    })
}

/// Rows of the catalogue; those of the user's stand for the ones of the same name.
fn rows(context: &Context) -> anyhow::Result<Vec<WeightLoader>> {
    let loaded = catalogue::load(&context.app.overrides)?;
    let mut rows = BTreeMap::new();
    for (file, text) in catalogue::files(&loaded, OwnRows::WeightLoaders) {
        for row in read_weight_loaders(file, text)? {
            let of = (
                row.architecture.clone(),
                row.form.clone(),
                row.loader.clone(),
                row.version.clone(),
            );
            rows.insert(of, row);
        }
    }
    Ok(rows.into_values().collect())
}

/// Says what opens this form of this architecture.
///
/// # Errors
/// When all that tried it fail or compute something else, unless it is to be written `unchecked`.
pub(super) fn opened(
    context: &Context,
    config: &Value,
    form: Option<String>,
    unchecked: bool,
) -> anyhow::Result<Option<String>> {
    let Some(form) = form else {
        return Ok(None);
    };
    let architecture = config["architectures"][0].as_str();
    let all = rows(context)?;
    let of: Vec<_> = all
        .iter()
        .filter(|row| Some(row.architecture.as_str()) == architecture)
        .collect();
    let tried = || of.iter().filter(|row| row.form == form);
    let named = architecture.unwrap_or("an architecture that config.json does not name");
    if tried().next().is_none() {
        return Ok(Some(format!(
            "opened by: unknown; {named} in {form} is no row of weight_loaders.csv: open it once, and compare it with the \
             original, before it serves"
        )));
    }
    let opens = joined(tried().filter(|row| row.opens == Opens::Yes), |row| {
        format!("{} {}", row.loader, row.version)
    });
    let not = joined(tried().filter(|row| row.opens != Opens::Yes), |row| {
        let what = row.opens.said();
        format!("{} {} {what}: {}", row.loader, row.version, row.note)
    });
    if !opens.is_empty() {
        let not = if not.is_empty() {
            not
        } else {
            format!("; not by: {not}")
        };
        return Ok(Some(format!("opened by: {opens}{not}")));
    }
    if unchecked {
        return Ok(Some(format!("opened by: no loader that was tried; {not}")));
    }
    let others: BTreeSet<&str> = of
        .iter()
        .filter(|row| row.opens == Opens::Yes)
        .map(|row| row.form.as_str())
        .collect();
    let others: Vec<_> = others.into_iter().collect();
    let problem = Problem::new(format!(
        "{named} in {form} is opened by no loader that was tried: {not}"
    ));
    let problem = if others.is_empty() {
        problem
    } else {
        problem.hint(format!("forms that are opened: {}", others.join(", ")))
    };
    Err(problem
        .hint(
            "--unchecked writes it all the same, for a loader that is no row of weight_loaders.csv",
        )
        .into())
}

fn joined<'a>(
    rows: impl Iterator<Item = &'a &'a WeightLoader>,
    said: impl Fn(&WeightLoader) -> String,
) -> String {
    let each: Vec<String> = rows.map(|row| said(row)).collect();
    each.join("; ")
}
