//! What jobs are owed: normalised throughput, so that those who are fast everywhere and those who are fast
//! on one kind alone can be compared.

use super::{Rates, max_min};
use crate::linear::{self, Steps};

/// Different claims up to which a dense simplex is quick: what they get beside the least is looked at, too.
const FEW: usize = 64;
/// What all get together counts so much beside what the least gets.
const LITTLE: f64 = 1e-3;

/// What a job asks of a fleet of several kinds.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// GPUs that it runs on, all of one kind.
    pub gpus: f64,
    /// Its weight among others: 2 is owed twice as much.
    pub weight: f64,
    /// Its speed on each kind; 0: it does not run there.
    pub speeds: Vec<f64>,
}

/// The program whose solution are fair shares.
#[derive(Debug, Clone, PartialEq)]
pub struct Fair {
    rates: Vec<f64>,
    gpus: Vec<f64>,
    supply: Vec<f64>,
}

impl Fair {
    /// As it is solved.
    pub fn of(&self) -> Rates<'_> {
        Rates {
            rates: &self.rates,
            gpus: &self.gpus,
            supply: &self.supply,
        }
    }
}

/// Max-min fairness of normalised throughput (least attained service that knows speeds): what a job gets is
/// its speed over that of a GPU drawn from the fleet, times its GPUs, over its weight.
pub fn fair(claims: &[Claim], supply: &[f64]) -> Fair {
    let all: f64 = supply.iter().sum();
    let mut rates = Vec::with_capacity(claims.len() * supply.len());
    for claim in claims {
        let drawn = claim.speeds.iter().zip(supply);
        let mean = drawn.map(|(speed, count)| speed * count).sum::<f64>() / all.max(1e-12);
        let owed = claim.gpus / claim.weight.max(1e-9);
        let part = |speed: &f64| speed / mean.max(1e-12) * owed;
        rates.extend(claim.speeds.iter().map(part));
    }
    Fair {
        rates,
        gpus: claims.iter().map(|claim| claim.gpus).collect(),
        supply: supply.to_vec(),
    }
}

/// Fair shares of time, jobs × kinds, row by row. Those whose claims are equal have equal shares, so that
/// the program has a row for each claim that is different.
pub(super) fn shares(claims: &[Claim], supply: &[f64]) -> Vec<f64> {
    let mut alike: Vec<(&Claim, f64)> = Vec::new();
    let mut class = Vec::with_capacity(claims.len());
    for claim in claims {
        let at = alike.iter().position(|(known, _)| *known == claim);
        let at = at.unwrap_or_else(|| {
            alike.push((claim, 0.0));
            alike.len() - 1
        });
        if let Some((_, count)) = alike.get_mut(at) {
            *count += 1.0;
        }
        class.push(at);
    }
    let different: Vec<Claim> = alike.iter().map(|(claim, _)| (*claim).clone()).collect();
    let mut program = fair(&different, supply);
    for (gpus, (_, count)) in program.gpus.iter_mut().zip(&alike) {
        *gpus *= count;
    }
    let solved = if alike.len() <= FEW {
        most(&program)
    } else {
        None
    };
    let solved = solved.unwrap_or_else(|| max_min(program.of()).shares);
    let row = |at: &usize| {
        let from = at * supply.len();
        solved.get(from..from + supply.len()).unwrap_or(&[])
    };
    class.iter().flat_map(row).copied().collect()
}

/// Of the shares that give the most to the one that gets least those that give the most to all together: where
/// somebody can get no more, others are not kept from what they gain by.
fn most(program: &Fair) -> Option<Vec<f64>> {
    let kinds = program.supply.len();
    let jobs = program.gpus.len();
    let width = jobs * kinds + 1;
    let mut goal: Vec<f64> = program
        .rates
        .iter()
        .map(|rate| rate * LITTLE / jobs.max(1) as f64)
        .collect();
    goal.push(1.0);
    let (mut rows, mut limits) = (Vec::new(), Vec::new());
    for (job, rates) in program.rates.chunks_exact(kinds.max(1)).enumerate() {
        let own = job * kinds..(job + 1) * kinds;
        // The level is at most what it gets; it has no more than all of the time.
        let (mut gets, mut time) = (vec![0.0; width], vec![0.0; width]);
        for ((at, gets), rate) in own.clone().zip(gets.get_mut(own.clone())?).zip(rates) {
            *gets = -rate;
            *time.get_mut(at)? = 1.0;
        }
        *gets.last_mut()? = 1.0;
        rows.extend([gets, time]);
        limits.extend([0.0, 1.0]);
    }
    for (kind, supply) in program.supply.iter().enumerate() {
        let mut room = vec![0.0; width];
        for (job, gpus) in program.gpus.iter().enumerate() {
            *room.get_mut(job * kinds + kind)? = *gpus;
        }
        rows.push(room);
        limits.push(*supply);
    }
    let mut found = linear::maximise(&goal, &rows, &limits, Steps::USUAL)?.x;
    found.truncate(width - 1);
    Some(found)
}
