//! Controllers are asked, and where GPUs are short they are shared out.

use super::{Running, STEP, Shared, Told, follow::Moment, free, market::Market};
use crate::{
    arbitrate::{Ask, share},
    controller::variants::{MixDecision, MixSeen, Need},
    variant::pools,
};

/// A service that is asked now.
struct Asked {
    at: usize,
    seen: MixSeen,
    frees: Vec<f64>,
    need: Need,
    /// The places in the fleet of its pools.
    pools: Vec<usize>,
    gpus: Vec<u32>,
    decision: MixDecision,
    shares: Vec<Shared>,
}

/// Asks those whose time it is, and goes to what they want.
pub(super) fn ask(
    all: &mut [Running<'_>],
    now: f64,
    market: &mut Market<'_>,
    told: &mut impl FnMut(&Told<'_>),
) {
    let fleet = market.gpus();
    let outages = market.outages(now);
    let mut asked: Vec<Asked> = Vec::new();
    for (at, one) in all
        .iter_mut()
        .enumerate()
        .filter(|(_, one)| now >= one.asks)
    {
        one.asks += one.tenant.controller.period().seconds().get().max(STEP);
        let frees = one.frees(now);
        let seen = one.seen(now, &frees, &outages);
        let need = one.tenant.controller.need(&seen);
        let of = pools(&one.tenant.variants).into_iter();
        let pools: Vec<usize> = of.map(|pool| market.place(pool)).collect();
        let gpus = pools.iter().filter_map(|pool| fleet.get(*pool).copied());
        let gpus: Vec<u32> = gpus.collect();
        let decision = one.tenant.controller.choose(&need, &seen, &gpus);
        asked.push(Asked {
            at,
            seen,
            frees,
            need,
            pools,
            gpus,
            decision,
            shares: Vec::new(),
        });
    }
    if all.len() > 1 && !asked.is_empty() {
        arbitrate(all, market, &mut asked);
    }
    for one in asked {
        told(&Told {
            tenant: one.at,
            seen: &one.seen,
            gpus: &one.gpus,
            decision: &one.decision,
            shares: &one.shares,
        });
        let mut free = free(all, market);
        if let Some(running) = all.get_mut(one.at) {
            let mut moment = Moment {
                now,
                variants: &running.tenant.variants,
                free: &mut free,
                market,
                out: &mut running.out,
            };
            let wanted = &one.decision.wanted;
            let changed = running.replicas.follow(&mut moment, wanted, &one.frees);
            running.out.changes += u32::from(changed);
        }
    }
}

/// What a service asks of a pool.
fn asks(all: &[Running<'_>], one: &Asked, pool: usize) -> Ask {
    let mut ask = Ask {
        guaranteed: 0,
        needs: 0,
        wants: 0,
        each: 1,
        at_risk: 0.0,
        budget: f64::INFINITY,
        holds: 0,
    };
    let Some(running) = all.get(one.at) else {
        return ask;
    };
    let tenant = &*running.tenant;
    let mut each = None;
    let of = tenant
        .variants
        .iter()
        .zip(&one.decision.wanted)
        .zip(&one.seen.variants);
    for (((variant, wanted), seen), _) in of
        .zip(&running.replicas.pools)
        .filter(|(_, at)| **at == pool)
    {
        let wanted = wanted.wanted;
        // Those that leave hold their GPUs until they are gone.
        ask.needs += (wanted.replicas + seen.leaving) * variant.gpus;
        ask.wants += (wanted.replicas + wanted.warm + seen.leaving) * variant.gpus;
        let holds = seen.serving() + seen.warm + seen.warming + seen.leaving;
        ask.holds += holds * variant.gpus;
        each = Some(each.map_or(variant.gpus, |each: u32| each.min(variant.gpus)));
        if let Some((_, gpus)) = tenant
            .guaranteed
            .iter()
            .find(|(name, _)| *name == variant.pool)
        {
            ask.guaranteed = *gpus;
        }
    }
    ask.each = each.unwrap_or(1).max(1);
    let allowed = running.out.requests * (1.0 - tenant.objective);
    ask.at_risk = if allowed > 0.0 {
        running.out.late / allowed
    } else {
        0.0
    };
    ask.budget = tenant
        .budget
        .map_or(f64::INFINITY, |budget| budget - running.out.cost);
    ask
}

/// Shares each pool out among those who are asked, and has them choose again of what they got and nobody took.
fn arbitrate(all: &[Running<'_>], market: &Market<'_>, asked: &mut [Asked]) {
    let fleet = market.gpus();
    let mut left = fleet.clone();
    for (pool, gpus) in fleet.iter().enumerate() {
        let each: Vec<Ask> = asked.iter().map(|one| asks(all, one, pool)).collect();
        let grants = share(*gpus, &each);
        if let Some(left) = left.get_mut(pool).filter(|_| *gpus != u32::MAX) {
            *left -= grants.iter().map(|one| one.gpus).sum::<u32>().min(*gpus);
        }
        for ((one, ask), grant) in asked.iter_mut().zip(each).zip(grants) {
            if one.pools.contains(&pool) {
                one.shares.push(Shared {
                    place: pool,
                    pool: market.name(pool).to_owned(),
                    gpus: (*gpus != u32::MAX).then_some(*gpus),
                    ask,
                    grant,
                });
            }
        }
    }
    for one in asked.iter_mut() {
        let short = one.shares.iter().any(|share| share.grant.short > 0);
        let of = one.pools.iter().map(|pool| {
            let left = left.get(*pool).copied().unwrap_or(0);
            one.granted(*pool).saturating_add(left)
        });
        one.gpus = of.collect();
        if !short {
            continue;
        }
        let Some(running) = all.get(one.at) else {
            continue;
        };
        one.decision = running
            .tenant
            .controller
            .choose(&one.need, &one.seen, &one.gpus);
        // What it takes beyond its grant others cannot.
        for pool in &one.pools {
            let takes = asks(all, one, *pool).wants;
            let grant = one.granted(*pool);
            if let Some(left) = left.get_mut(*pool).filter(|left| **left != u32::MAX) {
                *left -= takes.saturating_sub(grant).min(*left);
            }
        }
    }
}

impl Asked {
    /// GPUs of a pool that it got.
    fn granted(&self, pool: usize) -> u32 {
        let share = self.shares.iter().find(|share| share.place == pool);
        share.map_or(0, |share| share.grant.gpus)
    }
}
