//! Pools of machines: how many GPUs there are, and when spot ones are taken away together.

use super::machines::{Lost, Machines, Place};
use crate::variant::{Spot, Variant, pools};
use gpuwise_units::{Nanoseconds, RandomStream};

const DAY: f64 = 86_400.0;

/// A pool of the fleet.
#[derive(Debug)]
struct Pool {
    name: String,
    /// As many as there are.
    gpus: u32,
    spot: Option<Spot>,
    stream: RandomStream,
    /// When machines are next taken away, and until when none can be had.
    next: f64,
    out_until: f64,
}

pub(super) struct Market<'m> {
    pools: Vec<Pool>,
    machines: Option<&'m mut dyn Machines>,
    /// Of machines, what was taken away with a spot pool and nobody was told yet.
    reclaimed: Vec<Lost>,
}

fn time(seconds: f64) -> Nanoseconds {
    Nanoseconds((seconds * 1e9) as u64)
}

impl<'m> Market<'m> {
    pub(super) fn new<'a>(
        services: impl Iterator<Item = &'a [Variant]>,
        gpus: &[(String, u32)],
        seed: u64,
        machines: Option<&'m mut dyn Machines>,
    ) -> Self {
        let mut all: Vec<Pool> = Vec::new();
        for variants in services {
            for name in pools(variants) {
                if all.iter().any(|pool| pool.name == name) {
                    continue;
                }
                let listed = gpus.iter().find(|(pool, _)| pool == name);
                let spot = variants
                    .iter()
                    .filter(|one| one.pool == name)
                    .find_map(|one| one.spot);
                let mut pool = Pool {
                    name: name.to_owned(),
                    gpus: listed.map_or(u32::MAX, |(_, gpus)| *gpus),
                    spot,
                    stream: RandomStream::new(seed, "spot", all.len() as u64),
                    next: f64::INFINITY,
                    out_until: f64::NEG_INFINITY,
                };
                pool.draw(0.0);
                all.push(pool);
            }
        }
        Self {
            pools: all,
            machines,
            reclaimed: Vec::new(),
        }
    }

    /// Whether a replica can have a place, and which; a pool without machines has no places.
    pub(super) fn take(&mut self, now: f64, pool: &str, gpus: u32) -> Result<Option<Place>, ()> {
        let Some(machines) = &mut self.machines else {
            return Ok(None);
        };
        if machines.gpus(pool).is_none() {
            return Ok(None);
        }
        machines.take(time(now), pool, gpus).map(Some).ok_or(())
    }

    pub(super) fn give(&mut self, now: f64, place: Place) {
        if let Some(machines) = &mut self.machines {
            machines.give(time(now), place);
        }
    }

    /// Places that are lost: told now.
    pub(super) fn places_lost(&mut self, now: f64) -> Vec<Lost> {
        let mut lost = std::mem::take(&mut self.reclaimed);
        if let Some(machines) = &mut self.machines {
            lost.extend(machines.lost(time(now)));
        }
        lost
    }

    pub(super) fn place(&self, name: &str) -> usize {
        self.pools
            .iter()
            .position(|pool| pool.name == name)
            .unwrap_or(0)
    }

    pub(super) fn name(&self, place: usize) -> &str {
        self.pools.get(place).map_or("", |pool| &pool.name)
    }

    pub(super) fn gpus(&self) -> Vec<u32> {
        let of = |pool: &Pool| {
            let machines = self.machines.as_deref();
            let there = machines.and_then(|machines| machines.gpus(&pool.name));
            there.unwrap_or(pool.gpus)
        };
        self.pools.iter().map(of).collect()
    }

    pub(super) fn outages(&self, now: f64) -> Vec<bool> {
        self.pools.iter().map(|pool| pool.out_until > now).collect()
    }

    /// Pools of which machines are taken away now: which, what share, and when they are gone.
    pub(super) fn lost(&mut self, now: f64) -> Vec<(usize, f64, f64)> {
        let mut lost = Vec::new();
        for (at, pool) in self.pools.iter_mut().enumerate() {
            let Some(spot) = pool.spot.filter(|_| pool.next <= now) else {
                continue;
            };
            let gone = now + spot.notice.seconds().get();
            pool.out_until = gone + spot.outage.seconds().get();
            let after = pool.out_until;
            pool.draw(after);
            let there = self.machines.as_deref_mut();
            match there.filter(|machines| machines.gpus(&pool.name).is_some()) {
                Some(machines) => self.reclaimed.extend(machines.reclaim(
                    time(now),
                    &pool.name,
                    spot.share,
                    time(gone),
                    time(after),
                )),
                None => lost.push((at, spot.share, gone)),
            }
        }
        lost
    }
}

impl Pool {
    /// The next loss after a time: they come independently of one another.
    fn draw(&mut self, after: f64) {
        let mean = self.spot.map_or(f64::INFINITY, |spot| DAY / spot.a_day);
        self.next = if mean.is_finite() {
            after - libm::log1p(-self.stream.uniform()) * mean
        } else {
            f64::INFINITY
        };
    }
}
