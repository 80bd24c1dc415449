//! Replicas go to what is wanted of them.

use super::{
    market::Market,
    outcome::StepOutcome,
    replicas::{Replica, Replicas, State},
};
use crate::{controller::variants::VariantWanted, variant::Variant};
use gpuwise_units::Nanoseconds;

/// When something is done, of what, with which GPUs, and what is noted of it.
pub(super) struct Moment<'a, 'm> {
    pub(super) now: f64,
    pub(super) variants: &'a [Variant],
    /// GPUs of each pool that nobody holds.
    pub(super) free: &'a mut [u32],
    pub(super) market: &'a mut Market<'m>,
    pub(super) out: &'a mut StepOutcome,
}

impl Replicas {
    /// Goes to what is wanted, as far as there are GPUs; whether the number that serves is changed. `frees`: seconds
    /// until each replica has none of its requests left.
    pub(super) fn follow(
        &mut self,
        moment: &mut Moment<'_, '_>,
        wanted: &[VariantWanted],
        frees: &[f64],
    ) -> bool {
        let mut changed = false;
        for (at, of) in wanted.iter().enumerate() {
            let before = self.serving(at);
            let beyond = before.saturating_sub(of.wanted.replicas);
            let left = self.stop(moment, at, beyond, frees);
            self.start(moment, at, of.wanted.replicas.saturating_sub(before));
            self.keep_warm(moment, at, of.wanted.warm, &left);
            changed |= self.serving(at) != before;
        }
        changed
    }

    /// Starts some: the warm ones, those that are about to be warm, then from nothing.
    fn start(&mut self, moment: &mut Moment<'_, '_>, variant: usize, mut short: u32) {
        let Some(of) = moment.variants.get(variant) else {
            return;
        };
        let (now, wake) = (moment.now, of.wake.seconds().get());
        let is = |one: &Replica, turn: u8| match one.state {
            State::Warm => turn == 0,
            State::Sleeping { .. } => turn == 1,
            State::Starting { warm, .. } => turn == 2 && warm,
            _ => false,
        };
        for turn in 0..3 {
            for one in self.all.iter_mut().filter(|one| one.variant == variant) {
                if short > 0 && is(one, turn) {
                    short -= 1;
                    one.state = match one.state {
                        State::Sleeping { at } => State::Waking { at: at + wake },
                        State::Starting { at, since, .. } => State::Starting {
                            at,
                            since,
                            warm: false,
                        },
                        _ => State::Waking { at: now + wake },
                    };
                }
            }
        }
        for _ in 0..short {
            if !self.anew(moment, variant, false) {
                break;
            }
        }
    }

    /// One more from nothing, where there are GPUs for it.
    fn anew(&mut self, moment: &mut Moment<'_, '_>, variant: usize, warm: bool) -> bool {
        let pool = self.pools.get(variant).copied().unwrap_or(usize::MAX);
        let of = moment.variants.get(variant);
        let (Some(of), Some(free)) = (of, moment.free.get_mut(pool)) else {
            return false;
        };
        let place = if *free < of.gpus {
            Err(())
        } else {
            self.leave(moment.now, moment.market);
            moment.market.take(moment.now, &of.pool, of.gpus)
        };
        let Ok(place) = place else {
            moment.out.refused += 1;
            return false;
        };
        if *free != u32::MAX {
            *free -= of.gpus;
        }
        moment.out.started(variant);
        let since = moment.now;
        let at = since + of.start.seconds().get();
        let state = State::Starting { at, since, warm };
        self.add(moment.variants, variant, state, place);
        true
    }

    /// Stops some: those that would serve last, then those that are free first; which of them served.
    fn stop(
        &mut self,
        moment: &Moment<'_, '_>,
        variant: usize,
        beyond: u32,
        frees: &[f64],
    ) -> Vec<usize> {
        let Some(of) = moment.variants.get(variant).filter(|_| beyond > 0) else {
            return Vec::new();
        };
        let mut order: Vec<(u8, f64, usize)> = Vec::new();
        let replicas = self.all.iter().enumerate();
        for (at, one) in replicas.filter(|(_, one)| one.variant == variant) {
            match one.state {
                State::Starting {
                    at: then,
                    warm: false,
                    ..
                } => order.push((0, -then, at)),
                State::Waking { at: then } => order.push((1, -then, at)),
                State::Ready => order.push((2, frees.get(at).copied().unwrap_or(0.0), at)),
                _ => {}
            }
        }
        order.sort_by(|a, b| {
            let kind = a.0.cmp(&b.0);
            kind.then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
        });
        let mut left = Vec::new();
        for (kind, _, at) in order.into_iter().take(beyond as usize) {
            let Some(one) = self.all.get_mut(at) else {
                continue;
            };
            one.state = match kind {
                0 => State::Gone,
                1 => State::Warm,
                _ => {
                    left.push(at);
                    let drains = if self.by_request { 0.0 } else { of.service };
                    State::Leaving {
                        at: moment.now + drains,
                        warm: false,
                    }
                }
            };
        }
        left
    }

    /// As many warm ones as are wanted: of those that leave, then from nothing; those beyond it go.
    fn keep_warm(
        &mut self,
        moment: &mut Moment<'_, '_>,
        variant: usize,
        wanted: u32,
        left: &[usize],
    ) {
        let mut have = self.to_be_warm(variant);
        for at in left {
            let state = self.all.get_mut(*at).map(|one| &mut one.state);
            if let Some(State::Leaving { warm, .. }) = state
                && have < wanted
            {
                *warm = true;
                have += 1;
            }
        }
        while have < wanted && self.anew(moment, variant, true) {
            have += 1;
        }
        for one in self.all.iter_mut().filter(|one| one.variant == variant) {
            let goes = matches!(one.state, State::Warm | State::Starting { warm: true, .. });
            if have > wanted && goes {
                one.state = State::Gone;
                have -= 1;
            }
        }
    }

    /// A request finds nothing that serves: a warm replica is woken, else the cheapest that can be had is started.
    pub(super) fn wake_one(&mut self, moment: &mut Moment<'_, '_>, outages: &[bool]) {
        let all = self.all.iter();
        let mut warm = all.filter(|one| one.state == State::Warm);
        let warm = warm.next().map(|one| one.variant);
        let time = Nanoseconds((moment.now * 1e9) as u64);
        let (variants, free) = (moment.variants, &*moment.free);
        let had = |at: &usize| {
            let pool = self.pools.get(*at).copied().unwrap_or(usize::MAX);
            let gpus = variants.get(*at).map_or(0, |one| one.gpus);
            let out = outages.get(pool).copied().unwrap_or(false);
            !out && free.get(pool).is_some_and(|free| *free >= gpus)
        };
        let price = |at: &usize| {
            let one = variants.get(*at);
            one.map_or(f64::INFINITY, |one| one.price(time))
        };
        let cheapest = (0..variants.len())
            .filter(had)
            .min_by(|a, b| price(a).total_cmp(&price(b)));
        if let Some(variant) = warm.or(cheapest) {
            self.start(moment, variant, 1);
        }
    }
}
