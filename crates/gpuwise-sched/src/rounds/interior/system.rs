//! The linear systems of one step: [0 Gᵀ; G −1/v]·[x; z] = [a; b].

use super::matrix::{Matrix, norm};

/// Added to the diagonal so that no pivot vanishes; refinement takes its effect out again.
const REGULAR: f64 = 7e-8;
/// Rounds of refinement at most.
const REFINED: usize = 10;

pub(super) struct System<'a> {
    program: &'a Matrix,
    /// The scaling v of each row.
    scaling: &'a [f64],
    /// The same with [`REGULAR`] in it.
    regular: Vec<f64>,
}

impl<'a> System<'a> {
    pub(super) fn new(program: &'a Matrix, scaling: &'a [f64]) -> Self {
        let regular = scaling.iter().map(|v| 1.0 / (1.0 / v + REGULAR));
        Self {
            program,
            scaling,
            regular: regular.collect(),
        }
    }

    /// Solves, and refines while that helps.
    pub(super) fn solve(&self, a: &[f64], b: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let mut x = vec![0.0; a.len()];
        let mut z = vec![0.0; b.len()];
        let (mut left_a, mut left_b) = (a.to_vec(), b.to_vec());
        let mut least = f64::INFINITY;
        for allocation in 0..REFINED {
            let (dx, dz) = self.rough(&left_a, &left_b);
            let next_x: Vec<f64> = x.iter().zip(&dx).map(|(x, d)| x + d).collect();
            let next_z: Vec<f64> = z.iter().zip(&dz).map(|(z, d)| z + d).collect();
            let gz = self.program.transposed(&next_z);
            let gx = self.program.times(&next_x);
            left_a = a.iter().zip(&gz).map(|(a, g)| a - g).collect();
            left_b = (b.iter().zip(&gx).zip(next_z.iter().zip(self.scaling)))
                .map(|((b, g), (z, v))| b - g + z / v)
                .collect();
            let error = norm(&left_a) + norm(&left_b);
            if error.is_nan() || error >= least {
                break;
            }
            (x, z) = (next_x, next_z);
            let slow = allocation > 0 && error > 0.3 * least;
            least = error;
            if slow || error < 1e-13 * (1.0 + norm(a) + norm(b)) {
                break;
            }
        }
        (x, z)
    }

    /// One solution of the regular system: Gᵀ·v·G·x = a + Gᵀ·v·b, z = v·(G·x − b).
    fn rough(&self, a: &[f64], b: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let weighted: Vec<f64> = b.iter().zip(&self.regular).map(|(b, v)| b * v).collect();
        let right = self.program.transposed(&weighted);
        let right: Vec<f64> = right.iter().zip(a).map(|(g, a)| g + a).collect();
        let x = self.normal(&right);
        let z = (self.program.times(&x).iter().zip(b).zip(&self.regular))
            .map(|((g, b), v)| (g - b) * v)
            .collect();
        (x, z)
    }

    /// The normal equations: a block of kinds × kinds for each job, joined only by the rows of GPUs and
    /// the level, which are eliminated last.
    fn normal(&self, right: &[f64]) -> Vec<f64> {
        let program = self.program;
        let (jobs, kinds) = (program.jobs, program.kinds);
        let border = kinds + usize::from(program.free);
        let width = 1 + border;
        let mut corner = vec![0.0; border * border];
        let mut target = vec![0.0; border];
        for j in 0..kinds {
            corner[j * border + j] = 1.0 / self.regular[program.rooms() + j];
        }
        if program.free {
            corner[border * border - 1] = REGULAR;
            target[kinds] = right[jobs * kinds];
        }
        let mut parts = vec![0.0; jobs * kinds * width];
        for (i, part) in parts.chunks_exact_mut(kinds * width).enumerate() {
            self.block(i, right, part);
            for j in 0..kinds {
                let by = program.room[i * kinds + j];
                let line = &part[j * width..(j + 1) * width];
                target[j] += by * line[0];
                for (l, value) in line[1..].iter().enumerate() {
                    corner[j * border + l] += by * value;
                }
            }
            if program.free {
                let strength = self.regular[i] * program.level[i];
                corner[border * border - 1] += strength * program.level[i];
                for j in 0..kinds {
                    let by = strength * program.fair[i * kinds + j];
                    let line = &part[j * width..(j + 1) * width];
                    target[kinds] -= by * line[0];
                    for (l, value) in line[1..].iter().enumerate() {
                        corner[kinds * border + l] -= by * value;
                    }
                }
            }
        }
        eliminate(&mut corner, &mut target, border, 1);
        let mut x: Vec<f64> = (parts.chunks_exact(width))
            .map(|line| {
                let joined: f64 = line[1..].iter().zip(&target).map(|(a, b)| a * b).sum();
                line[0] - joined
            })
            .collect();
        if program.free {
            x.push(target[kinds]);
        }
        x
    }

    /// A job's block, solved for the right side, the rows of GPUs and the level.
    fn block(&self, i: usize, right: &[f64], part: &mut [f64]) {
        let program = self.program;
        let (jobs, kinds) = (program.jobs, program.kinds);
        let width = part.len() / kinds;
        let (fair, time) = (self.regular[i], self.regular[program.times_from() + i]);
        let mut block = vec![0.0; kinds * kinds];
        for a in 0..kinds {
            let at = i * kinds + a;
            for b in 0..kinds {
                let other = i * kinds + b;
                block[a * kinds + b] = fair * program.fair[at] * program.fair[other]
                    + time * program.time[at] * program.time[other];
            }
            let sign = program.sign[at];
            block[a * kinds + a] += REGULAR + self.regular[jobs + at] * sign * sign;
            part[a * width] = right[at];
            part[a * width + 1 + a] = program.room[at];
            if program.free {
                part[a * width + 1 + kinds] = fair * program.level[i] * program.fair[at];
            }
        }
        eliminate(&mut block, part, kinds, width);
    }
}

/// Gauss and Jordan with the greatest pivot of each column; `sides` right sides are replaced by their
/// solutions.
fn eliminate(matrix: &mut [f64], right: &mut [f64], n: usize, sides: usize) {
    for column in 0..n {
        let key = |row: &usize| matrix[row * n + column].abs();
        let pivot = (column..n)
            .max_by(|a, b| key(a).total_cmp(&key(b)))
            .unwrap_or(column);
        if pivot != column {
            (0..n).for_each(|at| matrix.swap(column * n + at, pivot * n + at));
            (0..sides).for_each(|at| right.swap(column * sides + at, pivot * sides + at));
        }
        let by = matrix[column * n + column];
        for row in (0..n).filter(|row| *row != column) {
            let factor = matrix[row * n + column] / by;
            if factor == 0.0 {
                continue;
            }
            for at in column..n {
                matrix[row * n + at] -= factor * matrix[column * n + at];
            }
            for at in 0..sides {
                right[row * sides + at] -= factor * right[column * sides + at];
            }
        }
    }
    for row in 0..n {
        let by = matrix[row * n + row];
        for value in &mut right[row * sides..(row + 1) * sides] {
            *value /= by;
        }
    }
}
