//! A learned forest as a file.

use crate::{error::Problem, questions::read_text};
use gpuwise_measure::learn::{
    forest::Forest,
    tree::{Node, Tree},
};
use serde::{Deserialize, Serialize};
use std::path::Path;

const SCHEMA: &str = "gpuwise.tier_forest/v1";

/// A forest; a node is its feature, threshold, two children (0 and 0 of a leaf) and mean.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    schema: String,
    features: Vec<String>,
    /// Least and largest value of each feature; null of one that was never known.
    bounds: Vec<(Option<f64>, Option<f64>)>,
    range: (f64, f64),
    rows: u64,
    trees: Vec<Vec<StoredNode>>,
}

/// A node of a tree: feature, threshold, the nodes below and beyond it, value.
type StoredNode = (u32, f64, u32, u32, f64);

/// The text of a forest's file.
///
/// # Errors
/// When a number of it is not finite.
pub(super) fn write(forest: &Forest) -> anyhow::Result<String> {
    let finite = |value: f64| value.is_finite().then_some(value);
    let document = Document {
        schema: SCHEMA.into(),
        features: forest.features.clone(),
        bounds: forest
            .bounds
            .iter()
            .map(|(low, high)| (finite(*low), finite(*high)))
            .collect(),
        range: forest.range,
        rows: forest.rows,
        trees: forest
            .trees
            .iter()
            .map(|tree| {
                tree.nodes
                    .iter()
                    .map(|node| {
                        let (first, second) = node.children;
                        (node.feature, node.threshold, first, second, node.value)
                    })
                    .collect()
            })
            .collect(),
    };
    Ok(serde_json::to_string(&document)? + "\n")
}

/// Reads a forest's file.
///
/// # Errors
/// When it is none, or a tree in it leads nowhere.
pub(super) fn read(path: &Path) -> anyhow::Result<Forest> {
    let text = read_text(path)?;
    let wrong = |what: String| {
        Problem::new(format!("{}: {what}", path.display()))
            .hint("`gpuwise tier JOBS --learn ROWS --save FILE` writes such a file")
    };
    let document: Document = serde_json::from_str(&text)
        .map_err(|error| wrong("is no learned forest".into()).because(error))?;
    if document.schema != SCHEMA {
        return Err(wrong(format!("is of {:?}, expected {SCHEMA:?}", document.schema)).into());
    }
    if document.bounds.len() != document.features.len() {
        return Err(wrong("has not as many bounds as features".into()).into());
    }
    for (number, tree) in document.trees.iter().enumerate() {
        for (at, (feature, _, first, second, _)) in tree.iter().enumerate() {
            let leaf = (*first, *second) == (0, 0);
            let forward = |child: u32| child as usize > at && (child as usize) < tree.len();
            let known = (*feature as usize) < document.features.len();
            if !(leaf || known && forward(*first) && forward(*second)) {
                return Err(wrong(format!("node {at} of tree {number} leads nowhere")).into());
            }
        }
    }
    Ok(Forest {
        features: document.features,
        bounds: document
            .bounds
            .into_iter()
            .map(|(low, high)| {
                (
                    low.unwrap_or(f64::INFINITY),
                    high.unwrap_or(f64::NEG_INFINITY),
                )
            })
            .collect(),
        range: document.range,
        rows: document.rows,
        trees: document
            .trees
            .into_iter()
            .map(|nodes| Tree {
                nodes: nodes
                    .into_iter()
                    .map(|(feature, threshold, first, second, value)| Node {
                        feature,
                        threshold,
                        children: (first, second),
                        value,
                    })
                    .collect(),
            })
            .collect(),
    })
}
