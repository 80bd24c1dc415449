//! What opens which form of weights of which architecture: rows of the catalogue, each of which was tried.

use crate::catalogue::{CatalogueError, tables::rows};
use serde::Deserialize;

/// What came of opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opens {
    /// It computes what the original does, within what the form loses.
    Yes,
    /// It is loaded, and computes something else.
    Wrong,
    /// It is refused, or ends with an error.
    Fails,
    /// The device on which it was tried has no kernel for it; others may.
    NoKernel,
}

impl Opens {
    const NAMES: [(&str, Self); 4] = [
        ("yes", Self::Yes),
        ("wrong", Self::Wrong),
        ("fails", Self::Fails),
        ("no-kernel", Self::NoKernel),
    ];

    /// What a loader does where it does not open a form.
    pub fn said(self) -> &'static str {
        match self {
            Self::Yes => "opens it",
            Self::Wrong => "loads it and computes something else",
            Self::Fails => "fails",
            Self::NoKernel => "has no kernel where it was tried",
        }
    }
}

/// A form of an architecture, opened by a release of a loader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightLoader {
    /// As `architectures` of `config.json` names it.
    pub architecture: String,
    pub form: String,
    pub loader: String,
    pub version: String,
    pub opens: Opens,
    /// Why not, where it does not open.
    pub note: String,
}

#[derive(Deserialize)]
struct Row {
    architecture: String,
    form: String,
    loader: String,
    version: String,
    opens: String,
    note: String,
}

/// Reads `weight_loaders.csv`.
///
/// # Errors
/// When a row is not of this form, or leaves out what it is of, or why it does not open.
pub fn read_weight_loaders(file: &str, text: &str) -> Result<Vec<WeightLoader>, CatalogueError> {
    let mut out = Vec::new();
    for (line, row) in rows::<Row>(file, text)? {
        let wrong = |what: String| CatalogueError::new(file, format!("line {line}"), what);
        let named = [
            ("architecture", &row.architecture),
            ("form", &row.form),
            ("loader", &row.loader),
            ("version", &row.version),
        ];
        if let Some((column, _)) = named.iter().find(|(_, value)| value.is_empty()) {
            return Err(wrong(format!("`{column}` is empty")));
        }
        let found = Opens::NAMES.iter().find(|(name, _)| *name == row.opens);
        let Some((_, opens)) = found else {
            return Err(wrong(format!(
                "`opens` is {:?}; expected yes, wrong, fails or no-kernel",
                row.opens
            )));
        };
        if *opens != Opens::Yes && row.note.is_empty() {
            return Err(wrong(format!(
                "`note` is empty; say why `opens` is {}",
                row.opens
            )));
        }
        out.push(WeightLoader {
            architecture: row.architecture,
            form: row.form,
            loader: row.loader,
            version: row.version,
            opens: *opens,
            note: row.note,
        });
    }
    Ok(out)
}
