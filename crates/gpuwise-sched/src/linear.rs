//! A dense simplex with prices, for small programs.

/// A greatest value, where it is reached, and what one more of each limit would bring.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimum {
    /// The greatest c·x.
    pub value: f64,
    pub x: Vec<f64>,
    pub prices: Vec<f64>,
}

const TINY: f64 = 1e-9;

#[derive(Debug, Clone, Copy)]
pub struct Steps {
    /// In so many steps the steepest column enters, then the first (Bland's rule, which never cycles).
    pub steepest: usize,
    /// Steps at most.
    pub most: usize,
    /// Ratios nearer than this are equal.
    pub tie: f64,
}

impl Steps {
    /// The steepest column for 2,000 of at most 20,000 steps.
    pub const USUAL: Self = Self {
        steepest: 2_000,
        most: 20_000,
        tie: 1e-12,
    };

    /// Bland's rule from the beginning.
    pub const fn bland(most: usize) -> Self {
        Self {
            steepest: 0,
            most,
            tie: TINY,
        }
    }
}

/// Maximises c·x over A·x ≤ b, x ≥ 0, where b ≥ 0; `rows` are those of A. `None`: unbounded, of wrong
/// shape, or not done after so many steps.
pub fn maximise(c: &[f64], rows: &[Vec<f64>], b: &[f64], steps: Steps) -> Option<Optimum> {
    let (n, m) = (c.len(), rows.len());
    if b.len() != m || rows.iter().any(|row| row.len() != n) || b.iter().any(|b| *b < 0.0) {
        return None;
    }
    let width = n + m + 1;
    let mut table = vec![0.0; (m + 1) * width];
    for (i, (row, limit)) in rows.iter().zip(b).enumerate() {
        table[i * width..i * width + n].copy_from_slice(row);
        table[i * width + n + i] = 1.0;
        table[i * width + width - 1] = *limit;
    }
    for (slot, c) in table[m * width..].iter_mut().zip(c) {
        *slot = -c;
    }
    let mut basis: Vec<usize> = (n..n + m).collect();
    for step in 0..steps.most {
        let costs = &table[m * width..m * width + n + m];
        let entering = if step < steps.steepest {
            let least = costs.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
            least
                .filter(|(_, cost)| **cost < -TINY)
                .map(|(column, _)| column)
        } else {
            costs.iter().position(|cost| *cost < -TINY)
        };
        let Some(entering) = entering else {
            return Some(optimum(&table, &basis, n, m));
        };
        let leaving = leaving(&table, &basis, entering, steps.tie)?;
        pivot(&mut table, leaving, entering, width);
        basis[leaving] = entering;
    }
    None
}

fn optimum(table: &[f64], basis: &[usize], n: usize, m: usize) -> Optimum {
    let width = n + m + 1;
    let mut x = vec![0.0; n];
    for (i, basic) in basis.iter().enumerate().filter(|(_, basic)| **basic < n) {
        x[*basic] = table[i * width + width - 1];
    }
    let last = m * width;
    Optimum {
        value: table[last + width - 1],
        x,
        prices: table[last + n..last + n + m].to_vec(),
    }
}

fn leaving(table: &[f64], basis: &[usize], entering: usize, tie: f64) -> Option<usize> {
    let width = table.len() / (basis.len() + 1);
    let mut best: Option<(f64, usize)> = None;
    for (i, basic) in basis.iter().enumerate() {
        let by = table[i * width + entering];
        if by <= TINY {
            continue;
        }
        let ratio = table[i * width + width - 1] / by;
        let better = best.is_none_or(|(least, row)| {
            ratio < least - tie || (ratio < least + tie && *basic < basis[row])
        });
        if better {
            best = Some((ratio, i));
        }
    }
    best.map(|(_, row)| row)
}

fn pivot(table: &mut [f64], leaving: usize, entering: usize, width: usize) {
    let by = table[leaving * width + entering];
    let row: Vec<f64> = table[leaving * width..(leaving + 1) * width]
        .iter()
        .map(|value| value / by)
        .collect();
    for (i, line) in table.chunks_exact_mut(width).enumerate() {
        if i == leaving {
            line.copy_from_slice(&row);
            continue;
        }
        let factor = line[entering];
        if factor != 0.0 {
            for (value, other) in line.iter_mut().zip(&row) {
                *value -= factor * other;
            }
        }
    }
}
