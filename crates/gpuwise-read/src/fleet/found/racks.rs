//! Names of racks, blocks and zones: a fleet file has each once, while clusters count racks anew in every
//! zone.

use super::{FoundNode, write::plain};
use std::collections::{BTreeMap, BTreeSet};

/// A place, and the places around it, from within.
type Path = Vec<String>;

pub(super) struct Places {
    /// By level (rack, block) and path.
    names: BTreeMap<(u8, Path), String>,
}

impl Places {
    /// Of all nodes: a place whose name stands for several takes those around it into its name.
    pub(super) fn of(nodes: &[FoundNode]) -> Self {
        let mut names = BTreeMap::new();
        for level in [0, 1] {
            let mut paths: BTreeMap<String, BTreeSet<Path>> = BTreeMap::new();
            for path in nodes.iter().filter_map(|node| path(node, level)) {
                let name = path.first().cloned().unwrap_or_default();
                paths.entry(name).or_default().insert(path);
            }
            let mut used: BTreeSet<String> = paths.keys().cloned().collect();
            for (name, paths) in paths {
                for (at, path) in paths.iter().enumerate() {
                    // The first keeps the name.
                    let mut unique = name.clone();
                    if at > 0 {
                        let around = path.iter().rev().map(String::as_str);
                        let around: Vec<&str> = around.filter(|one| !one.is_empty()).collect();
                        unique = plain(&around.join("/"));
                        while !used.insert(unique.clone()) {
                            unique.push('\'');
                        }
                    }
                    names.insert((level, path.clone()), unique);
                }
            }
        }
        Self { names }
    }

    /// The names of a node's rack, block and zone.
    pub(super) fn of_node(&self, node: &FoundNode) -> [Option<String>; 3] {
        let named = |level| self.names.get(&(level, path(node, level)?)).cloned();
        [named(0), named(1), said(node.zone.as_ref())]
    }
}

/// What a node says, if that is a name.
fn said(text: Option<&String>) -> Option<String> {
    text.map(|text| plain(text)).filter(|text| !text.is_empty())
}

/// A node's place at a level and those around it; empty texts stand for what is not said.
fn path(node: &FoundNode, level: u8) -> Option<Path> {
    let own = [&node.rack, &node.block, &node.zone];
    let mut path = Vec::new();
    for text in own.into_iter().skip(usize::from(level)) {
        path.push(said(text.as_ref()).unwrap_or_default());
    }
    path.first()
        .is_some_and(|own| !own.is_empty())
        .then_some(path)
}
