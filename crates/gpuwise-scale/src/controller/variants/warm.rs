//! What may be warm.

use super::{
    MixSeen, Mixed, Need,
    offers::{From, HOUR, LOST, Offers, TOTAL, felt, stays},
};
use crate::{
    controller::Because,
    cover::{Item, NEEDS},
    variant::pools,
};

impl Offers {
    /// What may be warm, of the GPUs that those leave which serve.
    pub(super) fn warm(
        &self,
        controller: &Mixed,
        need: &Need,
        seen: &MixSeen,
        replicas: &[u32],
        woken: &[u32],
    ) -> Self {
        let rules = &controller.rules;
        let pools = pools(&rules.variants);
        let hours = rules.pays_within.seconds().get() / HOUR;
        let felt = felt(controller);
        let mut warm = Self {
            of: Vec::new(),
            items: Vec::new(),
            needs: [0.0; NEEDS],
            arrives: self.arrives,
            now: 0.0,
            gpus: self.gpus.clone(),
        };
        for (at, (one, seen_of)) in rules.variants.iter().zip(&seen.variants).enumerate() {
            let pool = pools.iter().position(|pool| *pool == one.pool).unwrap_or(0);
            let serve = replicas.get(at).copied().unwrap_or(0);
            if let Some(free) = warm.gpus.get_mut(pool) {
                *free = free.saturating_sub(serve.saturating_mul(one.gpus));
            }
            let Some(share) = one.warm_cost else {
                continue;
            };
            let price = one.price_with_losses(seen.now);
            let starts = price * controller.start(at).seconds().get() / HOUR;
            let drains = price * seen_of.drains() / HOUR;
            let woken = woken.get(at).copied().unwrap_or(0);
            let none = seen_of.outage || need.decision.because == Because::NotReady;
            let there = seen_of
                .warm
                .saturating_sub(woken)
                .saturating_add(seen_of.warming);
            let each = [
                (there, 0.0),
                (seen_of.serving().saturating_sub(serve), drains),
                (if none { 0 } else { u32::MAX }, starts),
            ];
            for (most, beside) in each {
                let mut covers = [0.0; NEEDS];
                covers[TOTAL] = one.rate;
                for (slot, lost) in covers.iter_mut().skip(LOST).zip(&felt) {
                    *slot = one.rate * stays(one, *lost);
                }
                warm.of.push((at, From::Warm));
                warm.items.push(Item {
                    cost: price * share * hours + beside,
                    most,
                    covers,
                    pool,
                    gpus: one.gpus,
                });
            }
        }
        warm
    }
}
