//! Shares of time by a homogeneous self-dual interior-point method.
//!
//! The programs here often have many optimal shares, and which of them is taken decides how well
//! rounds go. An interior-point method ends near the middle of them; a simplex would end in a corner.
//! The method is the predictor-corrector of Mehrotra on the self-dual embedding, with the scaling of
//! rows and columns, starting point, step rules and tolerances that conic solvers of that family use
//! (Domahidi, Chu, Boyd, "ECOS: an SOCP solver for embedded systems", 2013): shares agree with theirs
//! to some 1e-6, where programs are well conditioned. Each step costs a multiple of jobs × kinds³.

mod matrix;
mod system;

use matrix::{Matrix, dot, norm};
use system::System;

/// What full shares bring, what jobs take and what there is.
#[derive(Debug, Clone, Copy)]
pub struct Rates<'a> {
    /// What a whole share of a kind brings to a job: jobs × kinds, row by row.
    pub rates: &'a [f64],
    pub gpus: &'a [f64],
    /// GPUs of each kind.
    pub supply: &'a [f64],
}

/// Shares of time: jobs × kinds, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Solved {
    /// What the worst-off job gets; 0 where a floor was asked for.
    pub level: f64,
    /// The shares, each within 0 and 1.
    pub shares: Vec<f64>,
}

/// Shares that give the most to the job that gets least.
pub fn max_min(rates: Rates<'_>) -> Solved {
    solve(rates, None)
}

/// Shares that give each job at least its floor, near the middle of all that do. Where none do they
/// mean nothing: ask [`max_min`] first.
pub fn meets(rates: Rates<'_>, floors: &[f64]) -> Solved {
    solve(rates, Some(floors))
}

/// Residuals at which a solution is exact enough.
const TOLERANCE: f64 = 1e-8;
/// Steps at most.
const STEPS: usize = 100;

/// The point that the method moves.
#[derive(Clone)]
struct Point {
    x: Vec<f64>,
    s: Vec<f64>,
    z: Vec<f64>,
    tau: f64,
    kappa: f64,
}

/// A direction of the same shape.
struct Direction {
    x: Vec<f64>,
    s: Vec<f64>,
    z: Vec<f64>,
    tau: f64,
    kappa: f64,
}

fn solve(rates: Rates<'_>, floors: Option<&[f64]>) -> Solved {
    let (jobs, kinds) = (rates.gpus.len(), rates.supply.len());
    if jobs == 0 || kinds == 0 || rates.rates.len() != jobs * kinds {
        return Solved {
            level: 0.0,
            shares: vec![0.0; jobs * kinds],
        };
    }
    let mut program = Matrix::new(&rates, floors);
    let scale = program.balance();
    let best = program.optimum();
    let real = |at: usize| best.x[at] / best.tau / scale[at];
    let shares = (0..jobs * kinds).map(|at| real(at).clamp(0.0, 1.0));
    Solved {
        level: if floors.is_none() {
            real(jobs * kinds)
        } else {
            0.0
        },
        shares: shares.collect(),
    }
}

impl Matrix {
    /// Moves until residuals are small, or the best point that was met on the way.
    fn optimum(&self) -> Point {
        let mut point = self.start();
        let mut best = (f64::INFINITY, point.clone());
        let (dual, primal) = (norm(&self.c).max(1.0), norm(&self.h).max(1.0));
        for _ in 0..STEPS {
            let Point { x, s, z, tau, .. } = &point;
            let rx: Vec<f64> = (self.transposed(z).iter().zip(&self.c))
                .map(|(g, c)| g + c * tau)
                .collect();
            let rz: Vec<f64> = (self.times(x).iter().zip(s.iter().zip(&self.h)))
                .map(|(g, (s, h))| g + s - h * tau)
                .collect();
            let gap = dot(s, z) / tau / tau;
            let cost = (dot(&self.c, x) / tau).abs().max(1e-13);
            let worst = (norm(&rz) / tau / primal)
                .max(norm(&rx) / tau / dual)
                .max(gap.min(gap / cost));
            if worst < best.0 {
                best = (worst, point.clone());
            } else if best.0 < 1e-4 && (worst.is_nan() || worst >= 1e3 * best.0) {
                break;
            }
            if worst < TOLERANCE || !worst.is_finite() {
                break;
            }
            self.step(&mut point, &rx, &rz);
        }
        best.1
    }

    /// Least squares, lifted into the cone.
    fn start(&self) -> Point {
        let ones = vec![1.0; self.h.len()];
        let system = System::new(self, &ones);
        let (x, r) = system.solve(&vec![0.0; self.c.len()], &self.h);
        let minus: Vec<f64> = self.c.iter().map(|c| -c).collect();
        let (_, z) = system.solve(&minus, &vec![0.0; self.h.len()]);
        let lift = |values: Vec<f64>| {
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            if least > 0.0 {
                values
            } else {
                values.iter().map(|value| value + 1.0 - least).collect()
            }
        };
        Point {
            x,
            s: lift(r.iter().map(|r| -r).collect()),
            z: lift(z),
            tau: 1.0,
            kappa: 1.0,
        }
    }

    /// Predicts, then corrects and centres.
    fn step(&self, point: &mut Point, rx: &[f64], rz: &[f64]) {
        let scaling: Vec<f64> = (point.z.iter().zip(&point.s)).map(|(z, s)| z / s).collect();
        let system = System::new(self, &scaling);
        let minus: Vec<f64> = self.c.iter().map(|c| -c).collect();
        let along = system.solve(&minus, &self.h);
        let none = vec![0.0; self.h.len()];
        let towards = |centre: f64, second: &[f64], second_tau: f64| {
            self.direction(point, &system, &along, rx, rz, centre, second, second_tau)
        };
        let straight = towards(0.0, &none, 0.0);
        let reach = point.reach(&straight);
        let centre = (1.0 - reach).powi(3).clamp(1e-4, 1.0);
        let second: Vec<f64> = (straight.s.iter().zip(&straight.z))
            .map(|(s, z)| s * z)
            .collect();
        let allocation = towards(centre, &second, straight.tau * straight.kappa);
        let by = 0.99 * point.reach(&allocation);
        point.move_by(&allocation, by);
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one linear system")]
    fn direction(
        &self,
        point: &Point,
        system: &System<'_>,
        along: &(Vec<f64>, Vec<f64>),
        rx: &[f64],
        rz: &[f64],
        centre: f64,
        second: &[f64],
        second_tau: f64,
    ) -> Direction {
        let Point {
            x,
            s,
            z,
            tau,
            kappa,
        } = point;
        let keep = 1.0 - centre;
        let mu = (dot(s, z) + kappa * tau) / (s.len() as f64 + 1.0);
        let rt = kappa + dot(&self.c, x) + dot(&self.h, z);
        let q: Vec<f64> = (s.iter().zip(z).zip(second))
            .map(|((s, z), second)| centre * mu - s * z - second)
            .collect();
        let qk = centre * mu - kappa * tau - second_tau;
        let a: Vec<f64> = rx.iter().map(|r| -keep * r).collect();
        let b: Vec<f64> = (rz.iter().zip(q.iter().zip(z)))
            .map(|(r, (q, z))| -keep * r - q / z)
            .collect();
        let (x2, z2) = system.solve(&a, &b);
        let (x1, z1) = along;
        let dt = (-keep * rt - qk / tau - dot(&self.c, &x2) - dot(&self.h, &z2))
            / (dot(&self.c, x1) + dot(&self.h, z1) - kappa / tau);
        let mix = |two: &[f64], one: &[f64]| -> Vec<f64> {
            two.iter()
                .zip(one)
                .map(|(two, one)| two + dt * one)
                .collect()
        };
        let dz = mix(&z2, z1);
        let ds = (q.iter().zip(&dz).zip(s.iter().zip(z)))
            .map(|((q, dz), (s, z))| (q - s * dz) / z)
            .collect();
        Direction {
            x: mix(&x2, x1),
            s: ds,
            z: dz,
            tau: dt,
            kappa: (qk - kappa * dt) / tau,
        }
    }
}

impl Point {
    /// How far it can go before something is no longer positive, at most 0.999.
    fn reach(&self, way: &Direction) -> f64 {
        let mut most = 10.0f64;
        let mut see = |value: f64, by: f64| {
            if by < 0.0 {
                most = most.min(-value / by);
            }
        };
        self.s.iter().zip(&way.s).for_each(|(s, by)| see(*s, *by));
        self.z.iter().zip(&way.z).for_each(|(z, by)| see(*z, *by));
        see(self.tau, way.tau);
        see(self.kappa, way.kappa);
        most.clamp(1e-6, 0.999)
    }

    fn move_by(&mut self, way: &Direction, by: f64) {
        let go = |values: &mut [f64], steps: &[f64]| {
            for (value, step) in values.iter_mut().zip(steps) {
                *value += by * step;
            }
        };
        go(&mut self.x, &way.x);
        go(&mut self.s, &way.s);
        go(&mut self.z, &way.z);
        self.tau += by * way.tau;
        self.kappa += by * way.kappa;
    }
}
