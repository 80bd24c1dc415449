//! How a number came about, as a tree: formula, inputs, the source of each.

use crate::{markup::escape_markdown, record, style::Style, style::lines};
use gpuwise_domain::estimate::Derivation;
use serde_json::Value;
use std::fmt::Write as _;

/// A tree for each figure; facts name their source, figures their formula.
pub fn text(derivations: &[Derivation], style: Style) -> String {
    let mut out = String::new();
    for (index, step) in derivations.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        node(step, "", "", style.columns(), &mut out);
    }
    if derivations.is_empty() {
        out.push_str("Nothing was derived.\n");
    }
    out
}

pub fn markdown(derivations: &[Derivation]) -> String {
    let mut out = String::new();
    for step in derivations {
        item(step, 0, &mut out);
    }
    out
}

/// Objects with `name`, `value`, `formula`, `source` and `inputs`.
pub fn json(derivations: &[Derivation]) -> Value {
    derivations.iter().map(record::json).collect()
}

/// What follows the value: the formula of a figure, the source of a fact.
pub(crate) fn reason(step: &Derivation) -> String {
    let mut reason = String::new();
    if !step.formula.is_empty() {
        let _ = write!(reason, " = {}", step.formula);
    }
    if !step.source.is_empty() {
        let _ = write!(reason, "  ({})", step.source);
    }
    reason
}

fn node(step: &Derivation, first: &str, later: &str, width: usize, out: &mut String) {
    let under = if step.inputs.is_empty() {
        "   "
    } else {
        "│  "
    };
    // Beyond half of the width deeper levels are no longer moved to the right.
    let (first, later) = (tail(first, width / 2), tail(later, width / 2));
    let text = format!("{}: {}{}", step.name, step.value, reason(step));
    let inset = later.chars().count() + 3;
    for (index, line) in lines(&text, width, first.chars().count(), inset)
        .iter()
        .enumerate()
    {
        let prefix = if index == 0 {
            first.to_string()
        } else {
            format!("{later}{under}")
        };
        out.push_str(&prefix);
        out.push_str(line);
        out.push('\n');
    }
    let last = step.inputs.len().saturating_sub(1);
    for (index, input) in step.inputs.iter().enumerate() {
        let (branch, below) = if index == last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        node(
            input,
            &format!("{later}{branch}"),
            &format!("{later}{below}"),
            width,
            out,
        );
    }
}

/// The last characters of a prefix.
fn tail(prefix: &str, most: usize) -> &str {
    let extra = prefix.chars().count().saturating_sub(most);
    let start = prefix
        .char_indices()
        .nth(extra)
        .map_or(prefix.len(), |(at, _)| at);
    prefix.get(start..).unwrap_or(prefix)
}

fn item(step: &Derivation, depth: usize, out: &mut String) {
    let text = format!("{}: {}{}", step.name, step.value, reason(step));
    let _ = writeln!(out, "{}- {}", "  ".repeat(depth), escape_markdown(&text));
    for input in &step.inputs {
        item(input, depth + 1, out);
    }
}
