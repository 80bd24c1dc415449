//! Objects as one YAML file.

use serde_json::Value;

/// Documents, each after a line of three dashes.
pub(super) fn documents(all: &[Value]) -> String {
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
