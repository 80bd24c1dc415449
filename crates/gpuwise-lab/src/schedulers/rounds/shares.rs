//! Rules that say which share of time each job has on each kind of GPU.

use super::{Ground, Rates, RoundJob, max_min, meets};
use gpuwise_sched::rounds::{Claim, fair};

/// A share of time for a job, or for a pair on the same GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// The job: its place in the list.
    pub job: usize,
    pub partner: Option<usize>,
    pub of: Vec<f64>,
}

pub trait ShareRule {
    /// Whether kinds are gone through in their order; else in an order that is drawn for each round.
    fn ordered(&self) -> bool {
        true
    }

    /// Whether who has no share never runs.
    fn strict(&self) -> bool {
        false
    }

    /// Whether it gives shares to pairs.
    fn pairs(&self) -> bool {
        false
    }

    /// Shares of all jobs. Who is left out has none.
    fn shares(&mut self, now_s: f64, jobs: &[RoundJob], ground: &Ground<'_>) -> Vec<Share>;
}

/// Max-min fairness over what jobs have got (least attained service).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeastService {
    /// Whether it knows that GPUs differ in speed; else it is fair in GPU-time.
    pub aware: bool,
}

impl ShareRule for LeastService {
    fn ordered(&self) -> bool {
        self.aware
    }

    fn shares(&mut self, _now_s: f64, jobs: &[RoundJob], ground: &Ground<'_>) -> Vec<Share> {
        let parties = jobs.iter().map(|job| {
            let speeds = ground.speeds.row(job.class);
            Claim {
                gpus: f64::from(ground.speeds.gpus(job.class)),
                weight: job.weight,
                // Fair in GPU time: all kinds alike.
                speeds: if self.aware {
                    speeds.to_vec()
                } else {
                    vec![1.0; speeds.len()]
                },
            }
        });
        let (_, supply) = sizes(jobs, ground);
        let solved = max_min(fair(&parties.collect::<Vec<_>>(), &supply).of());
        alone(&solved.shares, supply.len())
    }
}

/// The shortest time in which all present jobs can end. What is left of each is known.
///
/// The time is searched by halving until it is within 5 % of the shortest, as published; shares then
/// lie in the middle of all that keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Makespan;

impl ShareRule for Makespan {
    fn shares(&mut self, _now_s: f64, jobs: &[RoundJob], ground: &Ground<'_>) -> Vec<Share> {
        let (gpus, supply) = sizes(jobs, ground);
        let left: Vec<f64> = jobs
            .iter()
            .map(|job| job.left.unwrap_or(1.0).max(1.0))
            .collect();
        let rows = || jobs.iter().map(|job| ground.speeds.row(job.class));
        let part: Vec<f64> = (rows().zip(&left))
            .flat_map(|(row, left)| row.iter().map(move |speed| speed / left))
            .collect();
        let of = |rates| Rates {
            rates,
            gpus: &gpus,
            supply: &supply,
        };
        let shortest = 1.0 / max_min(of(&part)).level.max(1e-15);
        let within = halve(shortest);
        let rates: Vec<f64> = rows().flatten().copied().collect();
        let floors: Vec<f64> = left.iter().map(|left| left / within).collect();
        alone(&meets(of(&rates), &floors).shares, supply.len())
    }
}

/// The last time that a search by halving finds long enough, from 100 s to 10⁶ s, tenfold while none is.
fn halve(shortest: f64) -> f64 {
    let (mut least, mut most, mut top) = (100.0_f64, 1e6_f64, 1e6_f64);
    let mut found = None;
    while found.is_none() && most.is_finite() {
        while 1.05 * least < most {
            let middle = f64::midpoint(least, most);
            if middle >= shortest {
                found = Some(middle);
                most = middle;
            } else {
                least = middle;
            }
        }
        most = top * 10.0;
        least = top;
        top *= 10.0;
    }
    found.unwrap_or(shortest)
}

/// Everybody has an equal part of every kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isolated;

impl ShareRule for Isolated {
    fn ordered(&self) -> bool {
        false
    }

    fn shares(&mut self, _now_s: f64, jobs: &[RoundJob], ground: &Ground<'_>) -> Vec<Share> {
        let one = |(at, job): (usize, &RoundJob)| Share {
            job: at,
            partner: None,
            of: equal(ground, job.class, jobs.len()),
        };
        jobs.iter().enumerate().map(one).collect()
    }
}

/// An equal part of every kind among so many, at most all of the time.
pub(super) fn equal(ground: &Ground<'_>, class: usize, among: usize) -> Vec<f64> {
    let gpus = f64::from(ground.speeds.gpus(class)) * among.max(1) as f64;
    let parts: Vec<f64> = ground
        .supply
        .iter()
        .map(|supply| f64::from(*supply) / gpus)
        .collect();
    let sum: f64 = parts.iter().sum::<f64>().max(1.0);
    parts.iter().map(|part| part / sum).collect()
}

/// Finish-time fairness over GPUs that differ: nobody's expected time until its end, over the time that
/// it would have had with an equal part of everything, is greater than it must be. What is left of each
/// job is known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FinishTime {
    /// By the job's number: time with an equal part so far, steps left and speed with an equal part
    /// when shares were last asked for.
    alone: std::collections::BTreeMap<u32, (f64, f64, f64)>,
}

impl FinishTime {
    /// For each job how long it has been here, what is left, and how long it takes with an equal part.
    fn facts(
        &mut self,
        now_s: f64,
        jobs: &[RoundJob],
        ground: &Ground<'_>,
    ) -> Vec<(f64, f64, f64)> {
        self.alone
            .retain(|number, _| jobs.iter().any(|job| job.number == *number));
        let fact = |job: &RoundJob| {
            let left = job.left.unwrap_or(1.0).max(1.0);
            let part = equal(ground, job.class, jobs.len());
            let row = ground.speeds.row(job.class);
            let speed: f64 = row
                .iter()
                .zip(&part)
                .map(|(speed, part)| speed * part)
                .sum();
            let speed = speed.max(1e-12);
            let spent = self
                .alone
                .get(&job.number)
                .map_or(0.0, |(spent, was, of)| spent + (was - left).max(0.0) / of);
            self.alone.insert(job.number, (spent, left, speed));
            (now_s - job.came, left, spent + left / speed)
        };
        jobs.iter().map(fact).collect()
    }
}

impl ShareRule for FinishTime {
    fn shares(&mut self, now_s: f64, jobs: &[RoundJob], ground: &Ground<'_>) -> Vec<Share> {
        let (gpus, supply) = sizes(jobs, ground);
        let facts = self.facts(now_s, jobs, ground);
        let solve = |rho: f64| {
            let mut rates = Vec::with_capacity(jobs.len() * supply.len());
            for (job, (here, left, alone)) in jobs.iter().zip(&facts) {
                // Steps a second that keep rho: left / (rho · alone − here).
                let room = (rho * alone - here).max(1e-6);
                rates.extend(ground.speeds.row(job.class).iter().map(|s| s * room / left));
            }
            max_min(Rates {
                rates: &rates,
                gpus: &gpus,
                supply: &supply,
            })
        };
        let worst = facts.iter().map(|(here, _, alone)| here / alone);
        let (mut least, mut most) = (worst.fold(0.0, f64::max), 1e4);
        let mut best = solve(most);
        for _ in 0..30 {
            if most - least < 1e-3 * most {
                break;
            }
            // Between far ends by their ratio, near ends by their middle.
            let middle = if least > 0.0 && most > 4.0 * least {
                (least * most).sqrt()
            } else {
                f64::midpoint(least, most)
            };
            let solved = solve(middle);
            if solved.level >= 1.0 {
                most = middle;
                best = solved;
            } else {
                least = middle;
            }
        }
        alone(&best.shares, supply.len())
    }
}

fn sizes(jobs: &[RoundJob], ground: &Ground<'_>) -> (Vec<f64>, Vec<f64>) {
    let gpus = jobs
        .iter()
        .map(|job| f64::from(ground.speeds.gpus(job.class)));
    let supply = ground.supply.iter().map(|count| f64::from(*count));
    (gpus.collect(), supply.collect())
}

fn alone(shares: &[f64], kinds: usize) -> Vec<Share> {
    let rows = shares.chunks_exact(kinds.max(1)).enumerate();
    rows.map(|(job, of)| Share {
        job,
        partner: None,
        of: of.to_vec(),
    })
    .collect()
}
