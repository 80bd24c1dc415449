//! Boosted trees: each corrects what those before it left, a little at a time, outliers held.

use super::{
    Table,
    tree::{Tree, TreeSettings},
};
use gpuwise_units::RandomStream;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoostSettings {
    pub rounds: u32,
    /// Share of each tree's correction that is taken.
    pub rate: f64,
    /// Largest error that a row counts with (Huber).
    pub outlier: f64,
    /// Share of the rows that a tree sees.
    pub rows: f64,
    pub tree: TreeSettings,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Boosted {
    trees: Vec<Tree>,
    rate: f64,
}

impl Boosted {
    /// Fits `target`; equal arguments give equal trees.
    pub fn fit(features: &Table, target: &[f64], settings: &BoostSettings, seed: u64) -> Self {
        let binned = features.binned();
        let mut boosted = Self {
            trees: Vec::new(),
            rate: settings.rate,
        };
        let mut predicted = vec![0.0; target.len()];
        let mut gradient = vec![0.0; target.len()];
        for round in 0..settings.rounds {
            let mut chance = RandomStream::new(seed, "boosting", u64::from(round));
            for ((slope, target), predicted) in gradient.iter_mut().zip(target).zip(&predicted) {
                *slope = (target - predicted).clamp(-settings.outlier, settings.outlier);
            }
            let mut rows: Vec<u32> = (0..target.len() as u32)
                .filter(|_| chance.uniform() < settings.rows)
                .collect();
            let tree = Tree::grow(&binned, &gradient, &mut rows, &settings.tree, &mut chance);
            // Rows walk in bins: a threshold is the upper edge of its bin.
            for (row, predicted) in predicted.iter_mut().enumerate() {
                *predicted += settings.rate * walk(&tree, features, row);
            }
            boosted.trees.push(tree);
        }
        boosted
    }

    pub fn predict(&self, row: &[f64]) -> f64 {
        let sum: f64 = self.trees.iter().map(|tree| tree.predict(row)).sum();
        self.rate * sum
    }
}

fn walk(tree: &Tree, features: &Table, row: usize) -> f64 {
    let Some(mut node) = tree.nodes.first() else {
        return 0.0;
    };
    while node.children != (0, 0) {
        let above = features.column(node.feature as usize)[row] > node.threshold;
        let child = if above {
            node.children.1
        } else {
            node.children.0
        };
        node = &tree.nodes[child as usize];
    }
    node.value
}
