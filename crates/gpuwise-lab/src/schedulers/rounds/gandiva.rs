//! Pairs found by trial, as the published comparison with Gandiva has them.

use super::{
    Ground, RoundJob,
    shares::{Share, ShareRule, equal},
};
use gpuwise_units::RandomStream;
use std::collections::BTreeMap;

/// While jobs ask for more GPUs than there are, those without a partner are drawn into pairs of equal
/// size; a pair stays while it does more than one of them alone would. Time is shared equally.
#[derive(Debug, Clone)]
pub(super) struct Gandiva {
    draws: RandomStream,
    /// Partners by number, in both directions.
    partners: BTreeMap<u32, u32>,
}

impl Gandiva {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            draws: RandomStream::new(seed, "pairs by trial", 0),
            partners: BTreeMap::new(),
        }
    }

    /// Pairs end with one of them, or when they do too little on some kind.
    fn part(&mut self, jobs: &[RoundJob], ground: &Ground<'_>) {
        let class = |number: u32| {
            let at = jobs.binary_search_by_key(&number, |job| job.number).ok()?;
            Some(jobs[at].class)
        };
        let keeps = |one: u32, other: u32| {
            let (Some(one), Some(other)) = (class(one.min(other)), class(one.max(other))) else {
                return false;
            };
            let gains = (0..ground.supply.len()).map(|kind| ground.speeds.gain(kind, one, other));
            // One kind on which they do not fit parts them.
            let sum: Option<f64> = gains.sum();
            sum.is_some_and(|sum| sum >= 1.0)
        };
        self.partners.retain(|one, other| keeps(*one, *other));
    }

    /// Draws pairs among those without a partner: as many draws as there are of them.
    fn draw(&mut self, jobs: &[RoundJob], ground: &Ground<'_>) {
        let mut lone: Vec<&RoundJob> = (jobs.iter())
            .filter(|job| !self.partners.contains_key(&job.number))
            .collect();
        for _ in 0..lone.len() {
            if lone.len() < 2 {
                break;
            }
            let one = self.draws.below(lone.len() as u64) as usize;
            let other = self.draws.below(lone.len() as u64 - 1) as usize;
            let other = if other >= one { other + 1 } else { other };
            let (a, b) = (lone[one], lone[other]);
            if ground.speeds.gpus(a.class) == ground.speeds.gpus(b.class) {
                self.partners.insert(a.number, b.number);
                self.partners.insert(b.number, a.number);
                lone.retain(|job| job.number != a.number && job.number != b.number);
            }
        }
    }
}

impl ShareRule for Gandiva {
    fn pairs(&self) -> bool {
        true
    }

    fn shares(&mut self, _now_s: f64, jobs: &[RoundJob], ground: &Ground<'_>) -> Vec<Share> {
        self.part(jobs, ground);
        let asked: u64 = (jobs.iter())
            .map(|job| u64::from(ground.speeds.gpus(job.class)))
            .sum();
        let there: u64 = ground.supply.iter().map(|count| u64::from(*count)).sum();
        let at = |number: u32| jobs.binary_search_by_key(&number, |job| job.number).ok();
        let mut parties: Vec<(usize, Option<usize>)> = Vec::new();
        if asked > there {
            self.draw(jobs, ground);
        }
        for (job, of) in jobs.iter().enumerate() {
            let partner = self.partners.get(&of.number).filter(|_| asked > there);
            match partner {
                None => parties.push((job, None)),
                Some(partner) if *partner > of.number => parties.push((job, at(*partner))),
                Some(_) => {}
            }
        }
        let among = parties.len();
        let share = |(job, partner): (usize, Option<usize>)| Share {
            job,
            partner,
            of: equal(ground, jobs[job].class, among),
        };
        parties.into_iter().map(share).collect()
    }
}
