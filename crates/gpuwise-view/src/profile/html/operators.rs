//! Modules, ranges and operators as a tree that folds.

use crate::{
    figures::{number, percent},
    markup::escape,
    profile::{Profile, duration, kernel_name},
};
use gpuwise_domain::profile::figures::{NodeKind, OperatorNode, OperatorTree, Pass};
use std::fmt::Write as _;

/// Ranks whose trees are shown, at most.
const TREES: usize = 4;
/// Share of the kernel time below which a node is left out.
const LEAST_SHARE: f64 = 0.005;
/// Nodes of one tree, at most: the longest.
const NODES: usize = 400;
/// Depth down to which scopes are seen without unfolding.
const OPEN_DEPTH: u16 = 1;

const HEADS: [&str; 10] = [
    "module or operator",
    "time",
    "share",
    "calls",
    "type",
    "FLOP, G",
    "TFLOP/s",
    "GB/s",
    "bound by",
    "of best",
];

/// The trees of a profile; empty where no file tells more than kernels.
pub(super) fn section(profile: &Profile) -> String {
    let told = |tree: &OperatorTree| tree.nodes.iter().any(|node| node.kind != NodeKind::Kernel);
    let known: Vec<&OperatorTree> = profile.operators.iter().filter(|tree| told(tree)).collect();
    let mut out = String::new();
    for tree in known.iter().take(TREES) {
        if known.len() > 1 {
            let whose = tree
                .rank
                .map_or_else(|| tree.file.clone(), |rank| format!("rank {rank}"));
            let _ = writeln!(out, "<h3>{}</h3>", escape(&whose));
        }
        one(tree, &mut out);
    }
    if known.len() > TREES {
        let _ = writeln!(
            out,
            "<p class=\"note\">{} more ranks are in <code>gpuwise profile --operators</code>.</p>",
            known.len() - TREES
        );
    }
    out
}

fn share(tree: &OperatorTree, node: &OperatorNode) -> f64 {
    node.kernel_ns as f64 / tree.kernel_ns.max(1) as f64
}

/// The least time of a node that is shown.
fn least(tree: &OperatorTree) -> i64 {
    let mut times: Vec<i64> = tree.nodes.iter().map(|node| node.kernel_ns).collect();
    times.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
    let crowded = times.get(NODES).map_or(0, |ns| ns + 1);
    crowded.max((tree.kernel_ns as f64 * LEAST_SHARE).ceil() as i64)
}

fn one(tree: &OperatorTree, out: &mut String) {
    *out += "<div class=\"ops\">\n<div class=\"op head\" style=\"--d:0\">";
    for head in HEADS {
        let _ = write!(out, "<span>{head}</span>");
    }
    *out += "</div>\n";
    let least = least(tree);
    let mut open: Vec<u16> = Vec::new();
    let mut left_out = 0_usize;
    for node in &tree.nodes {
        // A scope takes at least as long as what lies in it: one that is left out holds nothing shown.
        if node.kernel_ns < least {
            left_out += 1;
            continue;
        }
        while open.last().is_some_and(|depth| *depth >= node.depth) {
            open.pop();
            *out += "</details>\n";
        }
        let is_scope = matches!(
            node.kind,
            NodeKind::Module | NodeKind::Range | NodeKind::Unlinked
        );
        let row = row(tree, node);
        let depth = node.depth;
        if is_scope {
            let unfolded = if depth <= OPEN_DEPTH { " open" } else { "" };
            let _ = writeln!(
                out,
                "<details{unfolded}><summary class=\"op\" style=\"--d:{depth}\">{row}</summary>"
            );
            open.push(depth);
        } else {
            let _ = writeln!(out, "<div class=\"op\" style=\"--d:{depth}\">{row}</div>");
        }
    }
    for _ in open {
        *out += "</details>\n";
    }
    *out += "</div>\n";
    notes(tree, left_out, out);
}

/// What the tree does not show.
fn notes(tree: &OperatorTree, left_out: usize, out: &mut String) {
    if left_out > 0 {
        let _ = writeln!(
            out,
            "<p class=\"note\">{left_out} more that take less are in <code>gpuwise profile --operators --format csv</code>.</p>"
        );
    }
    if tree.unlinked_ns > 0 && tree.kernel_ns > 0 {
        let _ = writeln!(
            out,
            "<p class=\"note\">{} of the kernel time is of kernels whose operator the file does not tell.</p>",
            percent(tree.unlinked_ns as f64 / tree.kernel_ns as f64)
        );
    }
}

fn row(tree: &OperatorTree, node: &OperatorNode) -> String {
    let work = node.work.as_ref();
    let name = match node.kind {
        NodeKind::Kernel => kernel_name(&node.name),
        _ => node.name.clone(),
    };
    let pass = match node.pass {
        Some(Pass::Backward) => " <small>backward</small>",
        Some(Pass::Recomputation) => " <small>computed again</small>",
        // The scope that holds it says so.
        Some(Pass::Unlinked) | None => "",
    };
    let shapes = work.map_or("", |work| &work.shapes);
    let why: Vec<String> = work
        .iter()
        .flat_map(|work| &work.shortfalls)
        .map(ToString::to_string)
        .collect();
    let mut label = format!(
        "<span title=\"{}\">{}{pass}",
        escape(&node.name),
        escape(&name)
    );
    if !shapes.is_empty() {
        let _ = write!(label, " <small>{}</small>", escape(shapes));
    }
    if !why.is_empty() {
        let _ = write!(label, " <small>({})</small>", escape(&why.join(", ")));
    }
    label += "</span>";
    let unknown = || "–".to_owned();
    let cells = [
        duration(node.kernel_ns),
        percent(share(tree, node)),
        node.count.to_string(),
        work.and_then(|work| work.precision)
            .map_or_else(unknown, str::to_owned),
        work.and_then(|work| work.flops)
            .map_or_else(unknown, |flops| number(flops * 1e-9)),
        node.flops_per_second()
            .map_or_else(unknown, |rate| number(rate * 1e-12)),
        node.bytes_per_second()
            .map_or_else(unknown, |rate| number(rate * 1e-9)),
        work.and_then(|work| work.side)
            .map_or_else(unknown, |side| side.name().to_owned()),
        node.share_of_best().map_or_else(unknown, percent),
    ];
    let bytes = work.and_then(|work| work.bytes);
    let bytes = bytes.map_or_else(String::new, |bytes| {
        format!(" title=\"{} GB at least\"", number(bytes * 1e-9))
    });
    for (at, cell) in cells.iter().enumerate() {
        // What was moved stands with the rate at which it was.
        let title = if at == 6 { bytes.as_str() } else { "" };
        let _ = write!(label, "<span{title}>{}</span>", escape(cell));
    }
    label
}
