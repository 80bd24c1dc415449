//! Features column by column, and the same in at most 255 bins.

/// Most bins of a feature: a bin is one byte.
const BINS: usize = 255;

/// Rows of features, kept column by column. A missing value is NaN, and goes with the lowest.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    names: Vec<String>,
    columns: Vec<Vec<f64>>,
    rows: usize,
}

impl Table {
    /// A table with these columns and no rows.
    pub fn new(names: &[&str]) -> Self {
        Self {
            names: names.iter().map(|name| (*name).into()).collect(),
            columns: vec![Vec::new(); names.len()],
            rows: 0,
        }
    }

    /// Adds a row; what it lacks at its end is missing, what is too much is left out.
    pub fn push(&mut self, row: &[f64]) {
        for (at, column) in self.columns.iter_mut().enumerate() {
            column.push(row.get(at).copied().unwrap_or(f64::NAN));
        }
        self.rows += 1;
    }

    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    pub fn column(&self, at: usize) -> &[f64] {
        &self.columns[at]
    }

    /// The features in bins.
    pub fn binned(&self) -> Binned {
        let edges: Vec<Vec<f64>> = self.columns.iter().map(|column| edges(column)).collect();
        let bins = self
            .columns
            .iter()
            .zip(&edges)
            .map(|(column, edges)| column.iter().map(|value| bin(edges, *value)).collect())
            .collect();
        Binned {
            edges,
            bins,
            rows: self.rows,
        }
    }
}

/// Features in bins: bin `b` of a feature holds what lies above `edges[b − 1]` up to `edges[b]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Binned {
    edges: Vec<Vec<f64>>,
    bins: Vec<Vec<u8>>,
    rows: usize,
}

impl Binned {
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub fn features(&self) -> usize {
        self.edges.len()
    }

    /// Bins of one feature, row by row.
    pub fn of(&self, feature: usize) -> &[u8] {
        &self.bins[feature]
    }

    pub fn edge(&self, feature: usize, bin: u8) -> f64 {
        self.edges[feature]
            .get(usize::from(bin))
            .copied()
            .unwrap_or(f64::INFINITY)
    }
}

/// Edges between the different values of a column, or between its quantiles where there are many.
fn edges(column: &[f64]) -> Vec<f64> {
    let mut values: Vec<f64> = column.iter().copied().filter(|v| !v.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    if values.len() > BINS {
        let last = values.len() - 1;
        values = (0..BINS).map(|at| values[at * last / (BINS - 1)]).collect();
    }
    values
        .windows(2)
        .map(|pair| 0.5 * (pair[0] + pair[1]))
        .collect()
}

fn bin(edges: &[f64], value: f64) -> u8 {
    edges.partition_point(|edge| *edge < value) as u8
}
