//! The terms of the law, fitted to rows of all silicon at once: each die counts once however many
//! rows and boards it has, and one that the others do not explain moves them little.

use super::{Sample, Samples, solve::Band};
use crate::{
    Class,
    lane::{CLASS, ENGINE, MINOR},
    law::{Law, PRIORS, Product, TERMS},
    tables::Ideal,
};
use alloc::{
    collections::BTreeMap,
    string::{String, ToString as _},
    vec,
    vec::Vec,
};

/// Rows of a die under an engine that are looked at.
const ROWS: usize = 250;
/// Errors beyond this weigh less, in logarithms.
const ROBUST: f64 = 0.1;
/// What a prior's standard deviation counts beside a row.
const PRIOR: f64 = 2e-4;
/// Of the terms of another format, how far those of the first carry: they are of the same silicon.
const SHARED: f64 = 0.25;
/// Terms that are of the kernel rather than of the silicon: a step along k, sums, waves, splits, and
/// what quantises.
const OWN: [usize; 7] = [7, 9, 10, 12, 13, 14, 15];
/// Rounds in which dies are weighed anew, and steps in each.
const ROUNDS: usize = 3;
const STEPS: usize = 8;
/// Step of a logarithm for a slope, and the longest that is gone.
const SLOPE: f64 = 0.02;
const STRIDE: f64 = 0.5;

struct Seen {
    product: Product,
    seconds: f64,
    /// Its die, by number.
    die: usize,
    weight: f64,
}

/// The format whose rows are of the most silicon: the others' laws start from its.
const FIRST: &str = "bfloat16";

/// Laws by format; none of an operator whose works are no products.
pub(super) fn fitted(samples: &Samples, rows: &[&Sample]) -> BTreeMap<String, Law> {
    let mut formats: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    for row in rows {
        let lane = &samples.lanes[row.lane as usize];
        if matches!(row.work.ideal, Ideal::Product(_)) && lane.part(CLASS) != Class::Other.name() {
            formats.entry(lane.part(0)).or_default().push(row);
        }
    }
    let mut laws = BTreeMap::new();
    let first = formats
        .remove(FIRST)
        .map(|rows| terms(samples, &rows, &Law::prior(), false));
    if let Some(law) = first {
        laws.insert(FIRST.to_string(), law);
    }
    let prior = first.unwrap_or_else(Law::prior);
    for (format, rows) in formats {
        laws.insert(
            format.to_string(),
            terms(samples, &rows, &prior, first.is_some()),
        );
    }
    laws
}

/// The rows that are looked at: of each die and engine the same few.
fn seen(samples: &Samples, rows: &[&Sample]) -> Vec<Seen> {
    let mut groups: BTreeMap<(&str, &str), Vec<&Sample>> = BTreeMap::new();
    for row in rows {
        let lane = &samples.lanes[row.lane as usize];
        let key = (lane.part(MINOR), lane.part(ENGINE));
        groups.entry(key).or_default().push(row);
    }
    let mut dies: Vec<&str> = groups.keys().map(|(die, _)| *die).collect();
    dies.dedup();
    let engines = |die: &str| groups.keys().filter(|(of, _)| *of == die).count() as f64;
    let mut out = Vec::new();
    for ((die, _), group) in &groups {
        let mut group = group.clone();
        group.sort_by_key(|row| (row.shape, row.lane));
        group.truncate(ROWS);
        let weight = 1.0 / (group.len() as f64 * engines(die));
        let number = dies.iter().position(|known| known == die).unwrap_or(0);
        out.extend(group.into_iter().filter_map(|row| match row.work.ideal {
            Ideal::Product(product) => Some(Seen {
                product,
                seconds: row.seconds,
                die: number,
                weight,
            }),
            Ideal::Seconds(_) => None,
        }));
    }
    out
}

struct Fit {
    rows: Vec<Seen>,
    prior: [f64; TERMS],
    freedom: [f64; TERMS],
}

impl Fit {
    fn left(&self, terms: &[f64; TERMS]) -> Vec<f64> {
        let law = Law(terms.map(libm::exp));
        let of = |seen: &Seen| libm::log(seen.seconds / law.seconds(&seen.product));
        self.rows.iter().map(of).collect()
    }

    fn cost(&self, terms: &[f64; TERMS], left: &[f64], weights: &[f64]) -> f64 {
        let size = |x: f64| {
            if x.abs() < ROBUST {
                x * x / (2.0 * ROBUST)
            } else {
                x.abs() - ROBUST / 2.0
            }
        };
        let rows: f64 = left.iter().zip(weights).map(|(x, w)| w * size(*x)).sum();
        let held: f64 = (0..TERMS)
            .map(|i| self.pull(terms, i) * (terms[i] - self.prior[i]))
            .sum();
        rows + held / 2.0
    }

    /// The prior's slope at a term.
    fn pull(&self, terms: &[f64; TERMS], at: usize) -> f64 {
        let freedom = self.freedom[at];
        PRIOR * self.rows.len() as f64 * (terms[at] - self.prior[at]) / (freedom * freedom)
    }

    /// Levenberg and Marquardt, under these weights of rows.
    fn descend(&self, mut terms: [f64; TERMS], weights: &[f64]) -> [f64; TERMS] {
        let mut left = self.left(&terms);
        let mut cost = self.cost(&terms, &left, weights);
        let mut damping = 1e-2;
        for _ in 0..STEPS {
            let slopes: Vec<Vec<f64>> = (0..TERMS)
                .map(|i| {
                    let mut moved = terms;
                    moved[i] += SLOPE;
                    let there = self.left(&moved);
                    there
                        .iter()
                        .zip(&left)
                        .map(|(a, b)| (a - b) / SLOPE)
                        .collect()
                })
                .collect();
            let before = cost;
            while damping < 1e4 {
                let mut next = terms;
                let step = self.step(&terms, &left, &slopes, weights, damping);
                for (value, step) in next.iter_mut().zip(step) {
                    *value += step.clamp(-STRIDE, STRIDE);
                }
                let there = self.left(&next);
                let costs = self.cost(&next, &there, weights);
                if costs < cost {
                    (terms, left, cost) = (next, there, costs);
                    damping /= 3.0;
                    break;
                }
                damping *= 4.0;
            }
            if before - cost < 1e-4 * before {
                break;
            }
        }
        terms
    }

    fn step(
        &self,
        terms: &[f64; TERMS],
        left: &[f64],
        slopes: &[Vec<f64>],
        weights: &[f64],
        damping: f64,
    ) -> Vec<f64> {
        let mut matrix = Band::new(TERMS, TERMS - 1);
        let mut right = vec![0.0; TERMS];
        let trust: Vec<f64> = left
            .iter()
            .zip(weights)
            .map(|(x, w)| w / x.abs().max(ROBUST))
            .collect();
        for i in 0..TERMS {
            right[i] = -self.pull(terms, i);
            for (at, trust) in trust.iter().enumerate() {
                right[i] -= trust * slopes[i][at] * left[at];
            }
            for j in 0..=i {
                let products = slopes[i].iter().zip(&slopes[j]).zip(&trust);
                let mut sum: f64 = products.map(|((a, b), t)| t * a * b).sum();
                if i == j {
                    let freedom = self.freedom[i];
                    sum += PRIOR * self.rows.len() as f64 / (freedom * freedom);
                    sum *= 1.0 + damping;
                }
                matrix.add(i, j, sum);
            }
        }
        matrix.solve(right)
    }
}

fn terms(samples: &Samples, rows: &[&Sample], prior: &Law, shared: bool) -> Law {
    let fit = Fit {
        rows: seen(samples, rows),
        prior: prior.0.map(libm::log),
        freedom: core::array::from_fn(|i| {
            let own = PRIORS[i].freedom;
            if shared && !OWN.contains(&i) {
                own.min(SHARED)
            } else {
                own
            }
        }),
    };
    let dies = fit.rows.iter().map(|seen| seen.die + 1).max().unwrap_or(0);
    let mut explained = vec![1.0; dies];
    let mut terms = fit.prior;
    for _ in 0..ROUNDS {
        let mut weights: Vec<f64> = fit
            .rows
            .iter()
            .map(|seen| seen.weight * explained[seen.die])
            .collect();
        let sum: f64 = weights.iter().sum();
        for weight in &mut weights {
            *weight *= fit.rows.len() as f64 / sum;
        }
        terms = fit.descend(terms, &weights);
        let left = fit.left(&terms);
        for (die, explained) in explained.iter_mut().enumerate() {
            let mut off: Vec<f64> = fit
                .rows
                .iter()
                .zip(&left)
                .filter(|(seen, _)| seen.die == die)
                .map(|(_, left)| left.abs())
                .collect();
            off.sort_by(f64::total_cmp);
            let median = off.get(off.len() / 2).copied().unwrap_or(1.0).max(LEAST);
            *explained = 1.0 / (median * median * median);
        }
    }
    Law(terms.map(libm::exp))
}

/// Median error below which a die is explained as well as any.
const LEAST: f64 = 0.06;
