//! A regression tree: splits that lower the squared error most (CART).

use super::Binned;
use gpuwise_units::RandomStream;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TreeSettings {
    /// Splits between root and leaf at most.
    pub depth: u32,
    /// Rows of a leaf at least.
    pub leaf: usize,
    /// Rows of zero that are put to every leaf's mean, against leaves of few rows.
    pub shrinkage: f64,
    /// Share of the features that a split looks at, drawn anew for each.
    pub features: f64,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tree {
    /// The root first; every child after its parent.
    pub nodes: Vec<Node>,
}

/// A node: a split, or a leaf where it has no children.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Node {
    pub feature: u32,
    /// Rows up to this go to the first child, and those whose feature is missing.
    pub threshold: f64,
    /// Its children; both 0 of a leaf.
    pub children: (u32, u32),
    /// Mean of the rows that came here while it was grown.
    pub value: f64,
}

impl Tree {
    /// Grows a tree to `target` on those `rows` of the features.
    pub fn grow(
        features: &Binned,
        target: &[f64],
        rows: &mut [u32],
        settings: &TreeSettings,
        chance: &mut RandomStream,
    ) -> Self {
        let mut tree = Self::default();
        let looked_at = (features.features() as f64 * settings.features).max(1.0) as usize;
        let mut grower = Grower {
            features,
            target,
            settings,
            order: (0..features.features()).collect(),
            looked_at,
            chance,
        };
        grower.node(&mut tree, rows, settings.depth);
        tree
    }

    /// What the tree says of a row of features.
    pub fn predict(&self, row: &[f64]) -> f64 {
        self.path(row, |_, _| {})
    }

    /// Walks down a row's path; `step` hears each split's feature and by how much the mean changed.
    pub fn path(&self, row: &[f64], mut step: impl FnMut(usize, f64)) -> f64 {
        let Some(mut node) = self.nodes.first() else {
            return 0.0;
        };
        let mut at = 0;
        while node.children != (0, 0) {
            let value = row.get(node.feature as usize).copied().unwrap_or(f64::NAN);
            let child = if value > node.threshold {
                node.children.1
            } else {
                node.children.0
            } as usize;
            // A tree that was read from a file may lead nowhere, but never round in a circle.
            let Some(next) = self.nodes.get(child).filter(|_| child > at) else {
                break;
            };
            step(node.feature as usize, next.value - node.value);
            (node, at) = (next, child);
        }
        node.value
    }
}

struct Grower<'a> {
    features: &'a Binned,
    target: &'a [f64],
    settings: &'a TreeSettings,
    order: Vec<usize>,
    looked_at: usize,
    chance: &'a mut RandomStream,
}

#[derive(Clone, Copy)]
struct Split {
    gain: f64,
    feature: usize,
    bin: u8,
}

impl Grower<'_> {
    fn node(&mut self, tree: &mut Tree, rows: &mut [u32], depth: u32) -> u32 {
        let sum: f64 = rows.iter().map(|row| self.target[*row as usize]).sum();
        let count = rows.len() as f64;
        let here = tree.nodes.len();
        tree.nodes.push(Node {
            feature: 0,
            threshold: 0.0,
            children: (0, 0),
            value: sum / (count + self.settings.shrinkage).max(1.0),
        });
        if depth == 0 || rows.len() < 2 * self.settings.leaf.max(1) {
            return here as u32;
        }
        let Some(split) = self.best(rows, sum) else {
            return here as u32;
        };
        let bins = self.features.of(split.feature);
        let mut below = 0;
        let mut end = rows.len();
        while below < end {
            if bins[rows[below] as usize] <= split.bin {
                below += 1;
            } else {
                end -= 1;
                rows.swap(below, end);
            }
        }
        let (low, high) = rows.split_at_mut(below);
        let first = self.node(tree, low, depth - 1);
        let second = self.node(tree, high, depth - 1);
        let node = &mut tree.nodes[here];
        node.feature = split.feature as u32;
        node.threshold = self.features.edge(split.feature, split.bin);
        node.children = (first, second);
        here as u32
    }

    /// The split that lowers the squared error most, if one does.
    fn best(&mut self, rows: &[u32], sum: f64) -> Option<Split> {
        let shrinkage = self.settings.shrinkage;
        let all = rows.len() as f64;
        let base = sum * sum / (all + shrinkage);
        let mut best: Option<Split> = None;
        for position in 0..self.looked_at {
            if self.looked_at < self.order.len() {
                let rest = (self.order.len() - position) as u64;
                let drawn = position + self.chance.below(rest) as usize;
                self.order.swap(position, drawn);
            }
            let feature = self.order[position];
            let mut sums = [(0.0f64, 0u32); 256];
            let bins = self.features.of(feature);
            for row in rows {
                let row = *row as usize;
                let entry = &mut sums[usize::from(bins[row])];
                entry.0 += self.target[row];
                entry.1 += 1;
            }
            let (mut low, mut count) = (0.0, 0usize);
            for (bin, (part, rows_here)) in sums.iter().enumerate() {
                low += part;
                count += *rows_here as usize;
                if *rows_here == 0 || count < self.settings.leaf {
                    continue;
                }
                if rows.len() - count < self.settings.leaf.max(1) {
                    break;
                }
                let (below, above) = (count as f64, all - count as f64);
                let high = sum - low;
                let gain =
                    low * low / (below + shrinkage) + high * high / (above + shrinkage) - base;
                if gain > best.map_or(1e-12, |split| split.gain) {
                    best = Some(Split {
                        gain,
                        feature,
                        bin: bin as u8,
                    });
                }
            }
        }
        best
    }
}
