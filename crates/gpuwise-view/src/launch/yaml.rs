//! A value as YAML in blocks. Comments cannot stand in a value; they go before the document.

use serde_json::{Map, Value};
use std::fmt::Write as _;

/// A document, or a part of one, that ends with a line end.
pub(crate) fn document(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(keys) => mapping(&mut out, keys, 0, false),
        Value::Array(items) => sequence(&mut out, items, 0),
        scalar => {
            let _ = writeln!(out, "{}", inline(scalar));
        }
    }
    out
}

/// Keys at a depth; the first one may go on a line that stands already, behind a dash.
fn mapping(out: &mut String, keys: &Map<String, Value>, depth: usize, begun: bool) {
    for (index, (key, value)) in keys.iter().enumerate() {
        if index > 0 || !begun {
            out.push_str(&"  ".repeat(depth));
        }
        out.push_str(&quoted(key, "_-./"));
        out.push(':');
        under(out, value, depth);
    }
}

/// What stands behind a key.
fn under(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(keys) if !keys.is_empty() => {
            out.push('\n');
            mapping(out, keys, depth + 1, false);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            sequence(out, items, depth + 1);
        }
        Value::String(lines) if is_block(lines) => {
            out.push_str(" |\n");
            for line in lines.lines() {
                let _ = writeln!(out, "{}{line}", "  ".repeat(depth + 1));
            }
        }
        scalar => {
            let _ = writeln!(out, " {}", inline(scalar));
        }
    }
}

fn sequence(out: &mut String, items: &[Value], depth: usize) {
    for item in items {
        let _ = write!(out, "{}- ", "  ".repeat(depth));
        match item {
            Value::Object(keys) if !keys.is_empty() => mapping(out, keys, depth + 1, true),
            scalar => {
                let _ = writeln!(out, "{}", inline(scalar));
            }
        }
    }
}

/// A scalar, or a collection that stands on the line: what is JSON is YAML.
fn inline(value: &Value) -> String {
    match value {
        Value::String(scalar) => text(scalar),
        other => other.to_string(),
    }
}

fn text(scalar: &str) -> String {
    quoted(scalar, "_-.")
}

/// A text without quotes where nobody takes it for anything else, else as JSON quotes it.
fn quoted(scalar: &str, marks: &str) -> String {
    if plain(scalar, marks) {
        scalar.into()
    } else {
        Value::from(scalar).to_string()
    }
}

/// Whether a text is a text in YAML without quotes.
fn plain(scalar: &str, marks: &str) -> bool {
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    scalar.starts_with(|c: char| c.is_ascii_alphabetic())
        && scalar
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || marks.contains(c))
        && !reserved
            .iter()
            .any(|taken| taken.eq_ignore_ascii_case(scalar))
}

/// Whether a text is whole lines that a block gives back unchanged.
fn is_block(lines: &str) -> bool {
    lines.ends_with('\n')
        && !lines.ends_with("\n\n")
        && !lines.starts_with([' ', '\n'])
        && !lines.chars().any(|c| c.is_control() && c != '\n')
        && lines.lines().all(|line| !line.ends_with(' '))
}
