//! Objects as one YAML file.

use serde_json::Value;

/// Documents, each after a line of three dashes.
pub(crate) fn documents(all: &[Value]) -> String {
    let mut out = String::new();
    for one in all {
        out.push_str("---\n");
        // A value of JSON can always be written.
        out.push_str(&serde_saphyr::to_string(one).unwrap_or_default());
        if !out.ends_with('\n') {
            out.push('\n');
        }
    }
    out
}

/// What is no manifest.
#[derive(Debug, thiserror::Error)]
#[error("this is no YAML of objects")]
pub struct NoManifest(#[source] serde_saphyr::Error);

/// The objects of a file.
///
/// # Errors
/// When it is no YAML.
pub fn read(text: &str) -> Result<Vec<Value>, NoManifest> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).map_err(NoManifest)?;
    Ok(all.into_iter().filter(Value::is_object).collect())
}
