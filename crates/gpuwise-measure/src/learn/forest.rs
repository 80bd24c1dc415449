//! A random forest: many trees, each on rows drawn with replacement and features drawn at every split,
//! whose mean is the answer (Breiman, *Random Forests*, Machine Learning 45, 2001).

use super::{
    Table, mean, quantile,
    tree::{Tree, TreeSettings},
};
use gpuwise_units::RandomStream;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ForestSettings {
    pub trees: u32,
    pub tree: TreeSettings,
}

impl Default for ForestSettings {
    /// A third of the features at a split, as Breiman has it for regression; leaves of five rows.
    fn default() -> Self {
        Self {
            trees: 100,
            tree: TreeSettings {
                depth: 12,
                leaf: 5,
                shrinkage: 0.0,
                features: 1.0 / 3.0,
            },
        }
    }
}

/// A grown forest, and how well it does on rows that its trees had not drawn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Forest {
    /// Names of the features, in the order of a row.
    pub features: Vec<String>,
    pub trees: Vec<Tree>,
    /// Least and largest value of each feature among the rows it was grown on.
    pub bounds: Vec<(f64, f64)>,
    /// What lies 10 % and 90 % up the errors (actual − predicted) on rows that trees had not drawn.
    pub range: (f64, f64),
    pub rows: u64,
}

/// What a forest says of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The mean of its trees.
    pub value: f64,
    /// The 80 % range, by errors on rows that trees had not drawn.
    pub low: f64,
    pub high: f64,
    /// Standard deviation between trees.
    pub disagreement: f64,
    /// Features outside what the forest was grown on, by index.
    pub outside: Vec<usize>,
}

impl Forest {
    /// Grows a forest to `target`. Rows of one `group` are drawn, or left out, together: otherwise rows
    /// of one workload would vouch for each other.
    pub fn grow(
        features: &Table,
        target: &[f64],
        group: &[u32],
        settings: &ForestSettings,
        seed: u64,
    ) -> Self {
        let binned = features.binned();
        let groups = group.iter().copied().max().map_or(0, |most| most + 1);
        let mut members: Vec<Vec<u32>> = vec![Vec::new(); groups as usize];
        for (row, group) in group.iter().enumerate().take(target.len()) {
            members[*group as usize].push(row as u32);
        }
        let mut trees = Vec::new();
        let mut unseen = vec![(0.0, 0u32); target.len()];
        for tree in 0..settings.trees {
            let mut chance = RandomStream::new(seed, "forest", u64::from(tree));
            let mut drawn = vec![false; groups as usize];
            let mut rows = Vec::new();
            for _ in 0..groups {
                let group = chance.below(u64::from(groups)) as usize;
                drawn[group] = true;
                rows.extend_from_slice(&members[group]);
            }
            let tree = Tree::grow(&binned, target, &mut rows, &settings.tree, &mut chance);
            for (row, sum) in unseen.iter_mut().enumerate() {
                if !drawn[group[row] as usize] {
                    sum.0 += tree.predict(&row_of(features, row));
                    sum.1 += 1;
                }
            }
            trees.push(tree);
        }
        let errors: Vec<f64> = unseen
            .iter()
            .zip(target)
            .filter(|((_, count), _)| *count > 0)
            .map(|((sum, count), target)| target - sum / f64::from(*count))
            .collect();
        Self {
            features: features.names().to_vec(),
            trees,
            bounds: (0..features.names().len())
                .map(|at| bounds(features.column(at)))
                .collect(),
            range: (quantile(&errors, 0.1), quantile(&errors, 0.9)),
            rows: target.len() as u64,
        }
    }

    pub fn predict(&self, row: &[f64]) -> Prediction {
        let votes: Vec<f64> = self.trees.iter().map(|tree| tree.predict(row)).collect();
        let value = mean(&votes);
        let variance = mean(
            &votes
                .iter()
                .map(|vote| (vote - value) * (vote - value))
                .collect::<Vec<_>>(),
        );
        let outside = self
            .bounds
            .iter()
            .enumerate()
            .filter(|(at, (low, high))| {
                let value = row.get(*at).copied().unwrap_or(f64::NAN);
                let room = 1e-9 + 0.02 * (high - low);
                value < low - room || value > high + room
            })
            .map(|(at, _)| at)
            .collect();
        Prediction {
            value,
            low: value + self.range.0,
            high: value + self.range.1,
            disagreement: variance.sqrt(),
            outside,
        }
    }

    /// By how much each feature moved the answer from the mean of all rows, along the paths of the
    /// trees; with that mean they sum to the answer (Saabas, *Interpreting random forests*, 2014).
    pub fn contributions(&self, row: &[f64]) -> (f64, Vec<f64>) {
        let mut moved = vec![0.0; self.features.len()];
        let mut base = 0.0;
        for tree in &self.trees {
            base += tree.nodes.first().map_or(0.0, |root| root.value);
            tree.path(row, |feature, change| {
                if let Some(sum) = moved.get_mut(feature) {
                    *sum += change;
                }
            });
        }
        let count = self.trees.len().max(1) as f64;
        (base / count, moved.iter().map(|sum| sum / count).collect())
    }
}

fn row_of(features: &Table, row: usize) -> Vec<f64> {
    (0..features.names().len())
        .map(|at| features.column(at)[row])
        .collect()
}

fn bounds(column: &[f64]) -> (f64, f64) {
    let known = || column.iter().copied().filter(|value| !value.is_nan());
    (
        known().fold(f64::INFINITY, f64::min),
        known().fold(f64::NEG_INFINITY, f64::max),
    )
}
