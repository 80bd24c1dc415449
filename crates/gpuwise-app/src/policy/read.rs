//! Policy files: TOML, or JSON where the name ends so.

use crate::error::Problem;
use gpuwise_wire::{POLICY_SCHEMA, PolicyFile};
use std::{fs, path::Path};

/// Reads a policy file.
///
/// # Errors
/// When it cannot be read or is wrong; with its line.
pub(crate) fn read(path: &Path) -> anyhow::Result<PolicyFile> {
    let hint = "`gpuwise example policy.toml` prints one";
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| {
        Problem::new(format!("cannot read policy file {shown}"))
            .because(error)
            .hint(hint)
    })?;
    let is_json = path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("json"));
    let read = if is_json {
        serde_json::from_str::<PolicyFile>(&text).map_err(|error| (error.line(), error.to_string()))
    } else {
        toml::from_str::<PolicyFile>(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let before = text.get(..at).unwrap_or(&text);
            (before.matches('\n').count() + 1, error.message().to_owned())
        })
    };
    let file = read.map_err(|(line, what)| {
        Problem::new(format!("{shown}: line {line}: {}", what.trim())).hint(hint)
    })?;
    match file.schema.as_deref() {
        None | Some(POLICY_SCHEMA) => Ok(file),
        Some(other) => Err(Problem::new(format!(
            "{shown}: schema is {other:?}; expected {POLICY_SCHEMA:?}, or nothing"
        ))
        .hint(hint)
        .into()),
    }
}
