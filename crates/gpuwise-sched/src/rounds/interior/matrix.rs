//! The program as sparse rows of fixed shape, and its scaling.

use super::Rates;

/// Rows G·x ≤ h in four groups: what jobs get (one each), signs (one for each share), GPUs (one for each
/// kind), time (one for each job). The last column, where there is one, is the level to be raised.
pub(super) struct Matrix {
    pub(super) jobs: usize,
    pub(super) kinds: usize,
    /// Whether there is a level.
    pub(super) free: bool,
    pub(super) fair: Vec<f64>,
    pub(super) level: Vec<f64>,
    pub(super) sign: Vec<f64>,
    pub(super) room: Vec<f64>,
    pub(super) time: Vec<f64>,
    pub(super) h: Vec<f64>,
    pub(super) c: Vec<f64>,
}

impl Matrix {
    pub(super) fn new(rates: &Rates<'_>, floors: Option<&[f64]>) -> Self {
        let (jobs, kinds) = (rates.gpus.len(), rates.supply.len());
        let cells = jobs * kinds;
        let free = floors.is_none();
        let mut h: Vec<f64> = match floors {
            Some(floors) => floors.iter().map(|floor| -floor).collect(),
            None => vec![0.0; jobs],
        };
        h.resize(jobs + cells, 0.0);
        h.extend_from_slice(rates.supply);
        h.resize(jobs + cells + kinds + jobs, 1.0);
        let mut c = vec![0.0; cells];
        if free {
            c.push(-1.0);
        }
        Self {
            jobs,
            kinds,
            free,
            fair: rates.rates.iter().map(|rate| -rate).collect(),
            level: vec![f64::from(free); jobs],
            sign: vec![-1.0; cells],
            room: (0..cells).map(|at| rates.gpus[at / kinds]).collect(),
            time: vec![1.0; cells],
            h,
            c,
        }
    }

    /// Where the rows of GPUs begin.
    pub(super) const fn rooms(&self) -> usize {
        self.jobs + self.jobs * self.kinds
    }

    /// Where the rows of time begin.
    pub(super) const fn times_from(&self) -> usize {
        self.rooms() + self.kinds
    }

    pub(super) fn times(&self, x: &[f64]) -> Vec<f64> {
        let (jobs, kinds, rooms, times) = (self.jobs, self.kinds, self.rooms(), self.times_from());
        let level = if self.free { x[jobs * kinds] } else { 0.0 };
        let mut out = vec![0.0; self.h.len()];
        for i in 0..jobs {
            let (mut fair, mut time) = (self.level[i] * level, 0.0);
            for j in 0..kinds {
                let at = i * kinds + j;
                fair += self.fair[at] * x[at];
                time += self.time[at] * x[at];
                out[jobs + at] = self.sign[at] * x[at];
                out[rooms + j] += self.room[at] * x[at];
            }
            out[i] = fair;
            out[times + i] = time;
        }
        out
    }

    pub(super) fn transposed(&self, y: &[f64]) -> Vec<f64> {
        let (jobs, kinds, rooms, times) = (self.jobs, self.kinds, self.rooms(), self.times_from());
        let mut out = vec![0.0; self.c.len()];
        let mut level = 0.0;
        for i in 0..jobs {
            level += self.level[i] * y[i];
            for j in 0..kinds {
                let at = i * kinds + j;
                out[at] = self.fair[at] * y[i]
                    + self.sign[at] * y[jobs + at]
                    + self.room[at] * y[rooms + j]
                    + self.time[at] * y[times + i];
            }
        }
        if self.free {
            out[jobs * kinds] = level;
        }
        out
    }

    /// Scales rows and columns thrice so that their greatest entries come near 1 (Ruiz, 2001), and
    /// gives by what each column was divided.
    pub(super) fn balance(&mut self) -> Vec<f64> {
        let mut scale = vec![1.0; self.c.len()];
        for _ in 0..3 {
            let mut rows = vec![0.0f64; self.h.len()];
            let mut columns = vec![0.0f64; self.c.len()];
            self.each(|row, column, value| {
                rows[row] = rows[row].max(value.abs());
                columns[column] = columns[column].max(value.abs());
            });
            for most in rows.iter_mut().chain(&mut columns) {
                *most = if *most < 1e-6 { 1.0 } else { most.sqrt() };
            }
            self.each(|row, column, value| *value /= rows[row] * columns[column]);
            for ((c, scale), by) in self.c.iter_mut().zip(&mut scale).zip(&columns) {
                *c /= by;
                *scale *= by;
            }
            for (h, by) in self.h.iter_mut().zip(&rows) {
                *h /= by;
            }
        }
        scale
    }

    /// Every entry with its row and column.
    fn each(&mut self, mut see: impl FnMut(usize, usize, &mut f64)) {
        let (jobs, kinds, rooms, times) = (self.jobs, self.kinds, self.rooms(), self.times_from());
        for i in 0..jobs {
            if self.free {
                see(i, jobs * kinds, &mut self.level[i]);
            }
            for j in 0..kinds {
                let at = i * kinds + j;
                see(i, at, &mut self.fair[at]);
                see(jobs + at, at, &mut self.sign[at]);
                see(rooms + j, at, &mut self.room[at]);
                see(times + i, at, &mut self.time[at]);
            }
        }
    }
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(super) fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}
