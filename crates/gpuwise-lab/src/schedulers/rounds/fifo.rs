//! First in, first out: a job keeps its kind of GPU until it ends.

use super::{
    Ground, RoundJob,
    shares::{Share, ShareRule},
};
use gpuwise_units::RandomStream;

/// First in, first out, as published with Gavel.
///
/// A job that ends hands its GPUs to the head of the queue if that fits. What is free then goes to jobs
/// in the order of their coming until one fits nowhere. Blind, a job is given the last kind of the list,
/// the fastest, whether or not that has enough free as long as some kind has; a kind drawn at random
/// leaves the list when that one is exactly full. So more is promised of one kind than it has: those who
/// came late wait for it until others end, while slower GPUs stand idle. Aware, a job takes the kind on
/// which it is fastest, and everybody is dealt with anew each time.
#[derive(Debug, Clone)]
pub(super) struct Fifo {
    aware: bool,
    draws: RandomStream,
    /// Jobs by number, and on which kind.
    held: Vec<(u32, usize)>,
}

impl Fifo {
    /// Blind or aware of speeds.
    pub(super) fn new(aware: bool, seed: u64) -> Self {
        Self {
            aware,
            draws: RandomStream::new(seed, "first in, first out", 0),
            held: Vec::new(),
        }
    }

    /// Who is still here keeps its place; who has ended is replaced by the head of the queue.
    fn renew(&mut self, jobs: &[RoundJob], ground: &Ground<'_>, free: &mut [i64]) -> Vec<usize> {
        let at = |number: u32| jobs.binary_search_by_key(&number, |job| job.number).ok();
        let mut held = std::mem::take(&mut self.held);
        if self.aware {
            held.clear();
        }
        held.sort_unstable();
        let mut queue: Vec<usize> = (0..jobs.len())
            .filter(|job| held.iter().all(|(number, _)| *number != jobs[*job].number))
            .collect();
        queue.reverse();
        for (number, kind) in held {
            let gpus = |job: usize| i64::from(ground.speeds.gpus(jobs[job].class));
            if let Some(job) = at(number) {
                free[kind] -= gpus(job);
                self.held.push((number, kind));
            } else if let Some(job) = queue.last().copied().filter(|job| {
                gpus(*job) <= free[kind] && ground.speeds.alone(jobs[*job].class, kind) > 0.0
            }) {
                queue.pop();
                free[kind] -= gpus(job);
                self.held.push((jobs[job].number, kind));
            }
        }
        queue.reverse();
        queue
    }

    /// The kind for a job: its place among those that fit, and which it is.
    fn kind(
        &mut self,
        job: &RoundJob,
        ground: &Ground<'_>,
        fits: &[usize],
        open: &[usize],
    ) -> (usize, usize) {
        if self.aware {
            let speed = |kind: usize| ground.speeds.alone(job.class, kind);
            let mut best = 0;
            for (at, kind) in fits.iter().enumerate() {
                if speed(*kind) > speed(fits[best]) {
                    best = at;
                }
            }
            (best, fits[best])
        } else {
            let drawn = self.draws.below(fits.len() as u64) as usize;
            // A kind that has never so many GPUs would be promised for ever.
            let gpus = ground.speeds.gpus(job.class);
            let ever = |kind: &&usize| {
                ground.supply[**kind] >= gpus && ground.speeds.alone(job.class, **kind) > 0.0
            };
            (drawn, *open.iter().rev().find(ever).unwrap_or(&fits[drawn]))
        }
    }
}

impl ShareRule for Fifo {
    fn ordered(&self) -> bool {
        self.aware
    }

    fn strict(&self) -> bool {
        true
    }

    fn shares(&mut self, _now_s: f64, jobs: &[RoundJob], ground: &Ground<'_>) -> Vec<Share> {
        let kinds = ground.supply.len();
        let mut free: Vec<i64> = ground.supply.iter().map(|gpus| i64::from(*gpus)).collect();
        let queue = self.renew(jobs, ground, &mut free);
        // Kinds stand slowest first, as published: the last one is tried first.
        let mut open: Vec<usize> = (0..kinds).rev().filter(|kind| free[*kind] > 0).collect();
        for job in queue {
            let gpus = i64::from(ground.speeds.gpus(jobs[job].class));
            let fits: Vec<usize> = (open.iter().copied())
                .filter(|kind| free[*kind] >= gpus)
                .collect();
            if fits.is_empty() {
                break;
            }
            let (drawn, kind) = self.kind(&jobs[job], ground, &fits, &open);
            let ever = i64::from(ground.supply[kind]) >= gpus;
            if !ever || ground.speeds.alone(jobs[job].class, kind) <= 0.0 {
                continue;
            }
            free[kind] -= gpus;
            self.held.push((jobs[job].number, kind));
            if free[kind] == 0 {
                open.retain(|kind| *kind != fits[drawn]);
            }
        }
        let at = |number: u32| jobs.binary_search_by_key(&number, |job| job.number).ok();
        let shares = self.held.iter().filter_map(|(number, kind)| {
            let mut of = vec![0.0; kinds];
            of[*kind] = 1.0;
            Some(Share {
                job: at(*number)?,
                partner: None,
                of,
            })
        });
        shares.collect()
    }
}
