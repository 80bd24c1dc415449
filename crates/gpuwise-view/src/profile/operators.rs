//! Modules, ranges and operators of a profile, against what the device reaches.

use crate::{
    figures::{number, percent},
    profile::{duration, kernel_name},
    record::{Fields, Record},
    table::Column,
};
use gpuwise_domain::profile::figures::{NodeKind, OperatorNode, OperatorTree, Pass};

/// Characters of an operator's name for people.
const NAME_WIDTH: usize = 40;

/// A node of a file's tree.
#[derive(Debug, Clone, Copy)]
pub struct OperatorRow<'a> {
    tree: &'a OperatorTree,
    node: &'a OperatorNode,
}

/// Every node of the trees that takes `least` or more of its file's kernel time, a scope before what
/// lies in it.
pub fn rows(trees: &[OperatorTree], least: f64) -> Vec<OperatorRow<'_>> {
    let of = |tree| {
        let rows = move |node| OperatorRow { tree, node };
        tree.nodes.iter().map(rows)
    };
    let all = trees.iter().flat_map(of);
    all.filter(|row| row.share() >= least).collect()
}

impl<'a> OperatorRow<'a> {
    fn share(&self) -> f64 {
        self.node.kernel_ns as f64 / self.tree.kernel_ns.max(1) as f64
    }

    /// Names from the outermost scope down to it.
    fn path(&self) -> Vec<String> {
        let mut path = vec![self.node.name.clone()];
        let mut parent = self.node.parent;
        while let Some(node) = parent.and_then(|at| self.tree.nodes.get(at as usize)) {
            path.push(node.name.clone());
            parent = node.parent;
        }
        path.reverse();
        path
    }

    /// Its name, as deep as it lies; of an operator with the shapes of its operands.
    fn line(&self) -> String {
        let name = match self.node.kind {
            NodeKind::Kernel => kernel_name(&self.node.name),
            _ => self.node.name.clone(),
        };
        let shapes = self.node.work.as_ref().map_or("", |work| &work.shapes);
        let name = match self.node.pass {
            Some(Pass::Backward) => format!("{name} (backward)"),
            Some(Pass::Recomputation) => format!("{name} (again)"),
            // The scope that holds it says so.
            Some(Pass::Unlinked) | None => name,
        };
        let indent = "·".repeat(usize::from(self.node.depth));
        let mut line = format!("{indent}{name}");
        if !shapes.is_empty() {
            line = format!("{line} {shapes}");
        }
        if line.chars().count() > NAME_WIDTH {
            line = line.chars().take(NAME_WIDTH - 1).chain(['…']).collect();
        }
        line
    }

    fn shortfalls(&self) -> impl Iterator<Item = &'a gpuwise_domain::profile::figures::Shortfall> {
        self.node.work.iter().flat_map(|work| &work.shortfalls)
    }
}

impl Record for OperatorRow<'_> {
    const NAME: &'static str = "ProfiledOperator";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("file", |r| r.tree.file.clone());
        of.field("rank", |r| r.tree.rank.map(u64::from));
        of.field("kind", |r| r.node.kind.name().to_owned());
        of.field("path", OperatorRow::path);
        let line = of.noun().map(OperatorRow::line);
        of.column("name", "operator", |r| r.node.name.clone())
            .said_as(|name| line.unwrap_or_else(|| name.to_owned()));
        of.field("pass", |r| r.node.pass.map(|pass| pass.name().to_owned()));
        of.column("count", "calls", |r| r.node.count);
        of.field("kernel_count", |r| r.node.kernel_count);
        of.column("kernel_ns", "time", |r| r.node.kernel_ns)
            .said_of(|ns| duration(ns as i64));
        of.column("share", "share", OperatorRow::share)
            .said_of(percent);
        let work = |r: &Self| r.node.work.clone();
        of.field("shapes", |r| work(r).map(|work| work.shapes));
        of.column("precision", "type", |r| {
            Some(work(r)?.precision?.to_owned())
        })
        .priority(2);
        of.field("flops", |r| work(r)?.flops);
        of.field("bytes", |r| work(r)?.bytes);
        of.column("flops_per_second", "TFLOP/s", |r| r.node.flops_per_second())
            .said_of(|rate| number(rate * 1e-12));
        of.column("bytes_per_second", "GB/s", |r| r.node.bytes_per_second())
            .said_of(|rate| number(rate * 1e-9));
        of.column("bound_by", "bound by", |r| {
            Some(work(r)?.side?.name().to_owned())
        });
        of.field("best_ns", |r| Some(work(r)?.best?.ns));
        of.field("best_basis", |r| {
            Some(work(r)?.best?.basis.name().to_owned())
        });
        of.column("share_of_best", "of best", |r| r.node.share_of_best())
            .said_of(percent);
        of.field("shortfalls", |r| {
            let names = r.shortfalls().map(|one| one.name().to_owned());
            names.collect::<Vec<String>>()
        });
        of.shown(Column::left("why", "why").wrap(14), |r| {
            let texts: Vec<String> = r.shortfalls().map(ToString::to_string).collect();
            texts.join(", ").into()
        });
    }
}
