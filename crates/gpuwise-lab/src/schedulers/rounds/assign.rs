//! Who runs where in one round, so that what is chosen is worth the most.
//!
//! Each kind of GPU gets a price at which about as much is asked for as there is (a subgradient search).
//! Choices are then taken in the order of what they are worth beyond the price of their GPUs, and the
//! result is improved by putting in one more and moving what stands in its way, while that helps.

use super::packing::Choice;

/// Steps of the search for prices.
const PRICED: usize = 80;
/// Times that all choices near the price are tried.
const PASSES: usize = 2;
/// Choices that are tried for each job, the nearest first.
const TRIED: usize = 6;

/// The places of the choices taken.
pub(super) fn assign(choices: &[Choice], jobs: usize, supply: &[u32]) -> Vec<usize> {
    let prices = prices(choices, jobs, supply);
    let beyond = |choice: &Choice| choice.worth / f64::from(choice.gpus) - prices[choice.kind];
    let mut order: Vec<(f64, usize)> = (choices.iter().enumerate())
        .map(|(at, choice)| (beyond(choice), at))
        .collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut board = Board::new(choices, jobs, supply);
    let fill = |board: &mut Board<'_>| {
        for (_, at) in &order {
            if board.fits(*at) {
                board.put(*at);
            }
        }
    };
    fill(&mut board);
    for _ in 0..PASSES {
        let near = order.iter().take(TRIED * jobs);
        let better = near.fold(false, |better, (_, at)| board.insert(*at) || better);
        if !better {
            break;
        }
    }
    fill(&mut board);
    let chosen = (0..jobs).filter_map(|job| {
        let at = board.at[job]?;
        (choices[at].job == job).then_some(at)
    });
    chosen.collect()
}

/// Prices per GPU at which the bound of the relaxed problem was least.
fn prices(choices: &[Choice], jobs: usize, supply: &[u32]) -> Vec<f64> {
    let most = (choices.iter())
        .map(|choice| choice.worth / f64::from(choice.gpus))
        .fold(0.0, f64::max);
    let mut prices = vec![0.0f64; supply.len()];
    let mut best = (f64::INFINITY, prices.clone());
    let mut step = most * 0.5;
    let mut gain = vec![0.0f64; jobs];
    let mut pick: Vec<Option<usize>> = vec![None; jobs];
    for allocation in 0..PRICED {
        gain.fill(0.0);
        pick.fill(None);
        for (at, choice) in choices.iter().enumerate() {
            let left = choice.worth - prices[choice.kind] * f64::from(choice.gpus);
            let each = if choice.partner.is_some() {
                left / 2.0
            } else {
                left
            };
            if choice.jobs().all(|job| each > gain[job]) {
                for job in choice.jobs() {
                    gain[job] = each;
                    pick[job] = Some(at);
                }
            }
        }
        let mut used = vec![0.0; supply.len()];
        for at in pick.iter().flatten() {
            let choice = &choices[*at];
            let halves = if choice.partner.is_some() { 0.5 } else { 1.0 };
            used[choice.kind] += f64::from(choice.gpus) * halves;
        }
        let paid = prices.iter().zip(supply).map(|(p, s)| p * f64::from(*s));
        let bound = gain.iter().sum::<f64>() + paid.sum::<f64>();
        if bound < best.0 {
            best = (bound, prices.clone());
        }
        for ((price, used), supply) in prices.iter_mut().zip(&used).zip(supply) {
            let there = f64::from((*supply).max(1));
            *price = (*price + step * (used - there) / there).max(0.0);
        }
        step *= if allocation < 20 { 0.9 } else { 0.93 };
    }
    best.1
}

struct Board<'a> {
    choices: &'a [Choice],
    /// The choice that each job is in.
    at: Vec<Option<usize>>,
    free: Vec<u32>,
    /// Choices of each job alone, best first.
    alone: Vec<Vec<usize>>,
}

impl<'a> Board<'a> {
    fn new(choices: &'a [Choice], jobs: usize, supply: &[u32]) -> Self {
        let mut alone = vec![Vec::new(); jobs];
        for (at, choice) in choices.iter().enumerate() {
            if choice.partner.is_none() {
                alone[choice.job].push(at);
            }
        }
        for of in &mut alone {
            of.sort_by(|a, b| choices[*b].worth.total_cmp(&choices[*a].worth));
        }
        Self {
            choices,
            at: vec![None; jobs],
            free: supply.to_vec(),
            alone,
        }
    }

    fn fits(&self, at: usize) -> bool {
        let choice = &self.choices[at];
        self.free[choice.kind] >= choice.gpus && choice.jobs().all(|job| self.at[job].is_none())
    }

    fn put(&mut self, at: usize) {
        let choice = &self.choices[at];
        self.free[choice.kind] -= choice.gpus;
        choice.jobs().for_each(|job| self.at[job] = Some(at));
    }

    fn take(&mut self, at: usize) {
        let choice = &self.choices[at];
        self.free[choice.kind] += choice.gpus;
        choice.jobs().for_each(|job| self.at[job] = None);
    }

    /// What stands in the way of a choice: what its jobs are in, and the cheapest on its kind until
    /// there is room. `None`: there can be no room.
    fn in_the_way(&self, at: usize) -> Option<Vec<usize>> {
        let choice = &self.choices[at];
        let mut gone: Vec<usize> = Vec::new();
        for job in choice.jobs() {
            if let Some(present) = self.at[job].filter(|present| !gone.contains(present)) {
                gone.push(present);
            }
        }
        let of_kind = |at: &&usize| self.choices[**at].kind == choice.kind;
        let mut room = self.free[choice.kind]
            + (gone.iter().filter(of_kind))
                .map(|at| self.choices[*at].gpus)
                .sum::<u32>();
        if room < choice.gpus {
            let each = |at: &usize| self.choices[*at].worth / f64::from(self.choices[*at].gpus);
            let mut others: Vec<usize> = (self.at.iter().enumerate())
                .filter_map(|(job, present)| present.filter(|p| self.choices[*p].job == job))
                .filter(|present| {
                    self.choices[*present].kind == choice.kind && !gone.contains(present)
                })
                .collect();
            others.sort_by(|a, b| each(a).total_cmp(&each(b)));
            for other in others {
                if room >= choice.gpus {
                    break;
                }
                room += self.choices[other].gpus;
                gone.push(other);
            }
        }
        (room >= choice.gpus).then_some(gone)
    }

    /// Puts a choice in, moves who stood in its way to what is free, and keeps that if it is worth more.
    fn insert(&mut self, at: usize) -> bool {
        let choice = self.choices[at];
        if self.at[choice.job] == Some(at) {
            return false;
        }
        let Some(gone) = self.in_the_way(at) else {
            return false;
        };
        let lost: f64 = gone.iter().map(|at| self.choices[*at].worth).sum();
        let mut freed: Vec<usize> = (gone.iter())
            .flat_map(|at| self.choices[*at].jobs())
            .filter(|job| choice.jobs().all(|own| own != *job))
            .collect();
        freed.sort_unstable();
        let hope: f64 = (freed.iter())
            .filter_map(|job| self.alone[*job].first())
            .map(|at| self.choices[*at].worth)
            .sum();
        let least = lost * (1.0 + 1e-9);
        if choice.worth + hope <= least {
            return false;
        }
        for at in &gone {
            self.take(*at);
        }
        self.put(at);
        let mut got = choice.worth;
        let mut back = Vec::new();
        for job in freed {
            let fits = self.alone[job].iter().copied().find(|at| self.fits(*at));
            if let Some(at) = fits {
                self.put(at);
                got += self.choices[at].worth;
                back.push(at);
            }
        }
        if got > least {
            return true;
        }
        for at in back {
            self.take(at);
        }
        self.take(at);
        for at in gone {
            self.put(at);
        }
        false
    }
}
