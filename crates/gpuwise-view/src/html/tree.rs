//! Derivations that unfold.

use crate::{explain::reason, markup::escape, plan::words};
use gpuwise_domain::{deployment::Deployment, estimate::Derivation};
use std::fmt::Write as _;

/// The derivations of each deployment, the best one's first, as long as they stay within so many
/// bytes; says where some are left out.
pub(super) fn derivations(deployments: &[Deployment], most: usize) -> String {
    let mut out = String::new();
    let mut left_out = 0;
    for (index, deployment) in deployments.iter().enumerate() {
        if deployment.derivations.is_empty() {
            continue;
        }
        let mut group = String::new();
        for step in &deployment.derivations {
            node(step, &mut group);
        }
        if out.len() + group.len() > most {
            left_out += 1;
            continue;
        }
        let title = escape(&format!("{}. {}", index + 1, words::deployment(deployment)));
        let _ = write!(
            out,
            "<div class=\"tree\">\n<h3>{title}</h3>\n{group}</div>\n"
        );
    }
    if out.matches("<h3>").count() > 1 {
        out += "<p class=\"note paper\">The derivations of the other deployments are in this page on a screen.</p>\n";
    }
    if left_out > 0 {
        let _ = writeln!(
            out,
            "<p class=\"note\">Those of {left_out} deployments are left out to keep this page small; \
             <code>--explain</code> prints them.</p>"
        );
    }
    out
}

/// Derivations that are seen without unfolding.
const OPEN: usize = 12;

/// Those of one answer.
pub(super) fn steps(derivations: &[Derivation]) -> String {
    let mut out = String::new();
    for step in derivations {
        node(step, &mut out);
    }
    if derivations.len() > OPEN {
        out = format!(
            "<details>\n<summary>{} figures with their sources and formulas</summary>\n{out}</details>\n",
            derivations.len()
        );
    }
    format!("<div class=\"tree\">\n{out}</div>\n")
}

fn node(step: &Derivation, out: &mut String) {
    let head = format!(
        "{}: <strong>{}</strong><span class=\"why\">{}</span>",
        escape(&step.name),
        escape(&step.value),
        escape(&reason(step))
    );
    if step.inputs.is_empty() {
        let _ = writeln!(out, "<ul><li>{head}</li></ul>");
        return;
    }
    let _ = writeln!(out, "<details><summary>{head}</summary>");
    for input in &step.inputs {
        node(input, out);
    }
    out.push_str("</details>\n");
}
