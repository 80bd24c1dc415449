//! Replicas of a service, one by one.

use super::{
    machines::{Lost, Place},
    market::Market,
};
use crate::{controller::variants::VariantSeen, variant::Variant};
use gpuwise_units::Nanoseconds;

/// What a replica does, and when that is over, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum State {
    /// Starts from nothing, since when; to be warm, or to serve.
    Starting {
        at: f64,
        since: f64,
        warm: bool,
    },
    Waking {
        at: f64,
    },
    Ready,
    Sleeping {
        at: f64,
    },
    Warm,
    /// Takes no more requests; then it is warm, or gone.
    Leaving {
        at: f64,
        warm: bool,
    },
    /// Its machine is taken away then; until then it goes on with what it has.
    Noticed {
        at: f64,
    },
    Gone,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Replica {
    pub(super) variant: usize,
    pub(super) state: State,
    /// Requests that run on it, and as many as can.
    pub(super) running: u32,
    pub(super) slots: u32,
    /// Where it stands; `None`: its pool has no machines.
    pub(super) place: Option<Place>,
}

impl Replica {
    /// Its machine goes then: whether that is news.
    fn told(&mut self, gone: f64) -> bool {
        self.state = match self.state {
            State::Gone | State::Noticed { .. } => return false,
            State::Ready | State::Leaving { .. } => State::Noticed { at: gone },
            _ => State::Gone,
        };
        true
    }
}

/// Seconds from serving until a replica is warm.
const SLEEP: f64 = 10.0;

#[derive(Debug)]
pub(super) struct Replicas {
    pub(super) all: Vec<Replica>,
    /// The place of each variant's pool.
    pub(super) pools: Vec<usize>,
    started: Vec<Option<Nanoseconds>>,
    /// Whether requests run one by one: then a replica leaves with the last of its own.
    pub(super) by_request: bool,
}

/// Requests that run on a replica at once.
pub(super) fn slots(one: &Variant) -> u32 {
    (one.rate * one.service).round().max(1.0) as u32
}

impl Replicas {
    pub(super) fn new(variants: &[Variant], pools: Vec<usize>, by_request: bool) -> Self {
        Self {
            all: Vec::new(),
            pools,
            started: vec![None; variants.len()],
            by_request,
        }
    }

    /// What the first reading needs is there, of the first variants of which there are GPUs.
    pub(super) fn begin(
        &mut self,
        variants: &[Variant],
        rate: f64,
        free: &mut [u32],
        market: &mut Market<'_>,
    ) {
        let mut left = rate;
        for (at, one) in variants.iter().enumerate() {
            let pool = self.pools.get(at).copied().unwrap_or(usize::MAX);
            let Some(free) = free.get_mut(pool) else {
                continue;
            };
            while *free >= one.gpus && (left > 0.0 || self.all.is_empty()) {
                let Ok(place) = market.take(0.0, &one.pool, one.gpus) else {
                    break;
                };
                if *free != u32::MAX {
                    *free -= one.gpus;
                }
                left -= one.rate;
                self.add(variants, at, State::Ready, place);
            }
        }
    }

    pub(super) fn add(
        &mut self,
        variants: &[Variant],
        variant: usize,
        state: State,
        place: Option<Place>,
    ) {
        let replica = Replica {
            variant,
            state,
            running: 0,
            slots: variants.get(variant).map_or(1, slots),
            place,
        };
        match self.all.iter_mut().find(|one| one.state == State::Gone) {
            Some(slot) => *slot = replica,
            None => self.all.push(replica),
        }
    }

    /// What is over by now; those whose machines are gone are told.
    pub(super) fn pass(&mut self, now: f64, mut lost: impl FnMut(usize)) {
        let by_request = self.by_request;
        for (at, one) in self.all.iter_mut().enumerate() {
            one.state = match one.state {
                State::Starting { at, since, warm } if at <= now => {
                    if let Some(slot) = self.started.get_mut(one.variant) {
                        *slot = Some(Nanoseconds(((at - since) * 1e9) as u64));
                    }
                    if warm { State::Warm } else { State::Ready }
                }
                State::Waking { at } if at <= now => State::Ready,
                State::Sleeping { at } if at <= now => State::Warm,
                State::Leaving { at, warm } if at <= now && (!by_request || one.running == 0) => {
                    if warm {
                        State::Sleeping { at: now + SLEEP }
                    } else {
                        State::Gone
                    }
                }
                State::Noticed { at: gone } if gone <= now => {
                    if one.running > 0 {
                        lost(at);
                    }
                    one.running = 0;
                    State::Gone
                }
                same => same,
            };
        }
    }

    fn count(&self, variant: usize, is: impl Fn(&State) -> bool) -> u32 {
        let of = self.all.iter().filter(|one| one.variant == variant);
        of.filter(|one| is(&one.state)).count() as u32
    }

    pub(super) fn serving(&self, variant: usize) -> u32 {
        self.count(variant, |state| {
            matches!(
                state,
                State::Ready | State::Waking { .. } | State::Starting { warm: false, .. }
            )
        })
    }

    pub(super) fn to_be_warm(&self, variant: usize) -> u32 {
        self.count(variant, |state| {
            matches!(
                state,
                State::Warm
                    | State::Sleeping { .. }
                    | State::Starting { warm: true, .. }
                    | State::Leaving { warm: true, .. }
            )
        })
    }

    /// GPUs that are held, by pool.
    pub(super) fn held(&self, variants: &[Variant], held: &mut [u32]) {
        for one in self.all.iter().filter(|one| one.state != State::Gone) {
            let pool = self
                .pools
                .get(one.variant)
                .and_then(|pool| held.get_mut(*pool));
            if let (Some(slot), Some(variant)) = (pool, variants.get(one.variant)) {
                *slot += variant.gpus;
            }
        }
    }

    /// Whether nothing serves, nor will.
    pub(super) fn is_at_none(&self) -> bool {
        !self.all.iter().any(|one| {
            matches!(
                one.state,
                State::Ready | State::Waking { .. } | State::Starting { warm: false, .. }
            )
        })
    }

    /// What is seen of each variant; `frees`: seconds until each replica has none of its requests left.
    pub(super) fn seen(&mut self, variants: &[Variant], frees: &[f64]) -> Vec<VariantSeen> {
        let mut seen: Vec<VariantSeen> = vec![VariantSeen::default(); variants.len()];
        for (at, one) in self.all.iter().enumerate() {
            let Some(of) = seen.get_mut(one.variant) else {
                continue;
            };
            match one.state {
                State::Ready => {
                    of.ready += 1;
                    let free = frees.get(at).copied().unwrap_or(0.0);
                    of.frees.push(Nanoseconds((free * 1e9) as u64));
                }
                State::Waking { .. } => of.waking += 1,
                State::Starting { warm: false, .. } => of.starting += 1,
                State::Warm => of.warm += 1,
                State::Starting { .. }
                | State::Sleeping { .. }
                | State::Leaving { warm: true, .. } => {
                    of.warming += 1;
                }
                State::Leaving { .. } | State::Noticed { .. } => of.leaving += 1,
                State::Gone => {}
            }
        }
        for (of, started) in seen.iter_mut().zip(&mut self.started) {
            of.frees.sort();
            of.started = started.take();
        }
        seen
    }

    /// Gives back the places of those that are gone.
    pub(super) fn leave(&mut self, now: f64, market: &mut Market<'_>) {
        let gone = self.all.iter_mut().filter(|one| one.state == State::Gone);
        for place in gone.filter_map(|one| one.place.take()) {
            market.give(now, place);
        }
    }

    /// Those that stand where machines are lost are told to go.
    pub(super) fn lose_places(&mut self, lost: &[Lost]) -> u32 {
        let mut count = 0;
        for one in lost {
            let on = |replica: &&mut Replica| replica.place == Some(one.place);
            if let Some(replica) = self.all.iter_mut().find(on) {
                count += u32::from(replica.told(one.gone.seconds().get()));
            }
        }
        count
    }

    /// A share of the machines of a pool is told to go.
    pub(super) fn interrupt(&mut self, pool: usize, share: f64, gone: f64) -> u32 {
        let pools = &self.pools;
        let of = |one: &&mut Replica| {
            pools.get(one.variant) == Some(&pool)
                && !matches!(one.state, State::Gone | State::Noticed { .. })
        };
        let there = self.all.iter_mut().filter(of).count();
        let most = (there as f64 * share - 1e-9).ceil() as usize;
        let told = self.all.iter_mut().filter(of).take(most);
        told.map(|one| u32::from(one.told(gone))).sum()
    }
}
