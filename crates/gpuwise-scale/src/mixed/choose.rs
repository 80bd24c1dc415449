//! The cheapest mix, and what is warm beside it.

use super::{
    Limit, MixDecision, MixSeen, Mixed, MixedBy, Need, VariantWanted,
    offers::{From, Offers},
    stays,
};
use crate::{
    controller::{Because, Wanted},
    mix::{Item, NEEDS, Needs, Problem},
    variant::{Variant, pools},
};

/// Steps of a search; beyond these the best mix found so far stands.
const STEPS: u64 = 20_000;
/// How often what can be served is halved in on.
const HALVES: u32 = 14;
const HOUR: f64 = 3600.0;

/// Replicas by variant, and what kept them from being cheaper.
struct Serving {
    counts: Vec<u32>,
    limit: Option<Limit>,
}

pub(super) fn choose(controller: &Mixed, need: &Need, seen: &MixSeen, gpus: &[u32]) -> MixDecision {
    let rules = &controller.rules;
    if stays(need.decision.because) {
        let each = seen.variants.iter().map(|one| VariantWanted {
            wanted: Wanted {
                replicas: one.serving(),
                warm: one.warm + one.warming,
            },
            by: MixedBy::NoMetrics,
        });
        return decided(need, each.collect(), None, &rules.variants, seen);
    }
    let mut offers = Offers::new(controller, need, seen, gpus);
    if need.decision.because == Because::NotReady {
        let items = offers.items.iter_mut().zip(&offers.of);
        for (item, _) in items.filter(|(_, (_, from))| *from == From::New) {
            item.most = 0;
        }
    }
    let serving = serving(&offers, rules, seen);
    let mut replicas = vec![0; rules.variants.len()];
    let mut woken = replicas.clone();
    for ((at, from), count) in offers.of.iter().zip(&serving.counts) {
        if let (Some(all), Some(warm)) = (replicas.get_mut(*at), woken.get_mut(*at)) {
            *all += count;
            if *from == From::Warm {
                *warm += count;
            }
        }
    }
    let warm = warm(controller, need, seen, &offers, &replicas, &woken);
    let there: f64 = amounts(
        &rules.variants,
        seen.variants.iter().map(super::VariantSeen::serving),
    );
    let wanted: f64 = amounts(&rules.variants, replicas.iter().copied());
    let each = replicas.iter().zip(&woken).zip(&warm).zip(&seen.variants);
    let each = each.map(|(((replicas, woken), warm), seen)| VariantWanted {
        wanted: Wanted {
            replicas: *replicas,
            warm: *warm,
        },
        by: match replicas.cmp(&seen.serving()) {
            std::cmp::Ordering::Equal => MixedBy::Kept,
            std::cmp::Ordering::Greater if replicas - seen.serving() <= *woken => MixedBy::Woken,
            std::cmp::Ordering::Greater => MixedBy::Cheapest,
            std::cmp::Ordering::Less if wanted < there - 1e-6 => MixedBy::Fewer,
            std::cmp::Ordering::Less => MixedBy::Replaced,
        },
    });
    decided(need, each.collect(), serving.limit, &rules.variants, seen)
}

/// Requests a second of so many of each.
fn amounts(variants: &[Variant], counts: impl Iterator<Item = u32>) -> f64 {
    let each = variants.iter().zip(counts);
    each.map(|(one, count)| one.rate * f64::from(count)).sum()
}

fn decided(
    need: &Need,
    wanted: Vec<VariantWanted>,
    limit: Option<Limit>,
    variants: &[Variant],
    seen: &MixSeen,
) -> MixDecision {
    let each = variants.iter().zip(&wanted).map(|(one, of)| {
        let warm = f64::from(of.wanted.warm) * one.warm_cost.unwrap_or(1.0);
        one.price(seen.now) * (f64::from(of.wanted.replicas) + warm)
    });
    let per_hour = each.sum();
    MixDecision {
        need: *need,
        wanted,
        limit,
        per_hour,
    }
}

fn solve(offers: &Offers, needs: Needs) -> Option<Vec<u32>> {
    Problem {
        items: &offers.items,
        needs,
        gpus: &offers.gpus,
        steps: STEPS,
    }
    .cheapest()
}

/// The cheapest that serves: what is needed alone first, and with what holds it where that misses it.
fn serving(offers: &Offers, rules: &super::MixRules, seen: &MixSeen) -> Serving {
    let total = offers.needs[0];
    let all = offers.only(total, true, true);
    let (counts, limit) = match solve(offers, offers.only(total, false, false)) {
        Some(counts) => match offers.misses(&counts, &all) {
            None => (Some(counts), None),
            Some(lost) => {
                let limit = if lost { Limit::Loss } else { Limit::UntilReady };
                match solve(offers, all) {
                    Some(counts) => (Some(counts), Some(limit)),
                    // There is not enough for it: as much as there is.
                    None => (Some(counts), Some(Limit::Inventory)),
                }
            }
        },
        None => (None, Some(Limit::Inventory)),
    };
    let counts = counts.unwrap_or_else(|| most(offers, offers.reach().min(total), |_| true));
    let per_hour = |counts: &[u32]| -> f64 {
        let each = offers.of.iter().zip(counts);
        each.map(|((at, _), count)| {
            let price = rules
                .variants
                .get(*at)
                .map_or(0.0, |one| one.price(seen.now));
            price * f64::from(*count)
        })
        .sum()
    };
    match rules.per_hour {
        Some(budget) if per_hour(&counts) > budget + 1e-9 => Serving {
            counts: most(offers, total, |counts| per_hour(counts) <= budget + 1e-9),
            limit: Some(Limit::Budget),
        },
        _ => Serving { counts, limit },
    }
}

/// What serves the most, up to so much, of what is allowed.
fn most(offers: &Offers, total: f64, allowed: impl Fn(&[u32]) -> bool) -> Vec<u32> {
    let at = |total: f64| {
        solve(offers, offers.only(total, true, false)).filter(|counts| allowed(counts))
    };
    let mut best = at(total);
    let (mut low, mut high) = (0.0, total);
    for _ in 0..HALVES {
        if best.is_some() && (high - low) < total / f64::from(1 << HALVES) {
            break;
        }
        let middle = (low + high) / 2.0;
        match at(middle) {
            Some(counts) => (best, low) = (Some(counts), middle),
            None => high = middle,
        }
    }
    best.unwrap_or_else(|| vec![0; offers.items.len()])
}

/// Warm replicas of each variant: the cheapest that cover what is to be covered, of the GPUs that are left.
fn warm(
    controller: &Mixed,
    need: &Need,
    seen: &MixSeen,
    offers: &Offers,
    replicas: &[u32],
    woken: &[u32],
) -> Vec<u32> {
    let rules = &controller.rules;
    let pools = pools(&rules.variants);
    let mut gpus = offers.gpus.clone();
    let (mut of, mut items) = (Vec::new(), Vec::new());
    let hours = rules.pays_within.seconds().get() / HOUR;
    for (at, (one, seen_of)) in rules.variants.iter().zip(&seen.variants).enumerate() {
        let pool = pools.iter().position(|pool| *pool == one.pool).unwrap_or(0);
        let serve = replicas.get(at).copied().unwrap_or(0);
        if let Some(free) = gpus.get_mut(pool) {
            *free = free.saturating_sub(serve * one.gpus);
        }
        let Some(share) = one.warm_cost else {
            continue;
        };
        let price = one.price_with_losses(seen.now);
        let starts = price * controller.start(at).seconds().get() / HOUR;
        let drains = price * seen_of.drains() / HOUR;
        let woken = woken.get(at).copied().unwrap_or(0);
        let new = if seen_of.outage || need.decision.because == Because::NotReady {
            0
        } else {
            u32::MAX
        };
        let each = [
            (seen_of.warm.saturating_sub(woken) + seen_of.warming, 0.0),
            (seen_of.serving().saturating_sub(serve), drains),
            (new, starts),
        ];
        for (most, beside) in each {
            let mut covers = [0.0; NEEDS];
            covers[0] = one.rate;
            of.push(at);
            items.push(Item {
                cost: price * share * hours + beside,
                most,
                covers,
                pool,
                gpus: one.gpus,
            });
        }
    }
    let warm = Offers {
        of: of.iter().map(|at| (*at, From::Warm)).collect(),
        items,
        needs: [0.0; NEEDS],
        gpus,
    };
    let wanted = need.warm();
    let per_hour = |counts: &[u32]| -> f64 {
        let each = of.iter().zip(counts).filter_map(|(at, count)| {
            let one = rules.variants.get(*at)?;
            Some(one.price(seen.now) * one.warm_cost? * f64::from(*count))
        });
        let served = rules.variants.iter().zip(replicas);
        let served: f64 = served
            .map(|(one, count)| one.price(seen.now) * f64::from(*count))
            .sum();
        served + each.sum::<f64>()
    };
    let allowed = |counts: &[u32]| {
        rules
            .per_hour
            .is_none_or(|budget| per_hour(counts) <= budget + 1e-9)
    };
    let found = solve(&warm, warm.only(wanted, false, false)).filter(|counts| allowed(counts));
    let counts = found.unwrap_or_else(|| most(&warm, warm.reach().min(wanted), allowed));
    let mut all = vec![0; rules.variants.len()];
    for (at, count) in of.iter().zip(counts) {
        if let Some(slot) = all.get_mut(*at) {
            *slot += count;
        }
    }
    all
}
