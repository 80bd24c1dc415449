//! The cheapest mix, and what is warm beside it.

use super::{
    Limit, MixDecision, MixSeen, Mixed, MixedBy, Need, VariantWanted,
    offers::{From, Offers},
    stays,
};
use crate::{
    controller::{Because, Wanted},
    mix::{Needs, Problem},
    variant::Variant,
};

/// Steps of a search; beyond these the best mix found so far stands.
const STEPS: u64 = 20_000;
/// How often what can be served is halved in on.
const HALVES: u32 = 14;

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

/// The cheapest that serves: what is needed alone first, and with what is left of a loss where that misses it. What
/// serves now stays beside it until that does.
fn serving(offers: &Offers, rules: &super::MixRules, seen: &MixSeen) -> Serving {
    let total = offers.needs[0];
    let with_loss = offers.only(total, true);
    let (counts, limit) = match solve(offers, offers.only(total, false)) {
        Some(counts) if !offers.misses(&counts, &with_loss) => (Some(counts), None),
        Some(counts) => match solve(offers, with_loss) {
            Some(counts) => (Some(counts), Some(Limit::Loss)),
            // There is not enough for it: as much as there is.
            None => (Some(counts), Some(Limit::Inventory)),
        },
        None => (None, Some(Limit::Inventory)),
    };
    let counts = counts.unwrap_or_else(|| most(offers, offers.reach().min(total), |_| true));
    let per_hour = |counts: &[u32]| -> f64 {
        let each = offers.of.iter().zip(counts);
        each.map(|((at, _), count)| {
            let one = rules.variants.get(*at);
            one.map_or(0.0, |one| one.price(seen.now)) * f64::from(*count)
        })
        .sum()
    };
    let allowed = |counts: &[u32]| {
        rules
            .per_hour
            .is_none_or(|budget| per_hour(counts) <= budget + 1e-9)
    };
    if !allowed(&counts) {
        return Serving {
            counts: most(offers, total, allowed),
            limit: Some(Limit::Budget),
        };
    }
    let (kept, until_ready) = until_ready(offers, counts.clone());
    if until_ready && allowed(&kept) {
        return Serving {
            counts: kept,
            limit: limit.or(Some(Limit::UntilReady)),
        };
    }
    Serving { counts, limit }
}

/// The same, with what serves now and is to go, as far as it is needed until what is new serves; whether any is.
fn until_ready(offers: &Offers, mut counts: Vec<u32>) -> (Vec<u32>, bool) {
    let missing = offers.missing_now(&counts);
    if missing <= 1e-6 {
        return (counts, false);
    }
    let beside = offers.beside(&counts);
    let Some(kept) = solve(&beside, beside.only(missing, false)) else {
        return (counts, false);
    };
    for (count, kept) in counts.iter_mut().zip(kept) {
        *count += kept;
    }
    // They hold their GPUs: what is new starts when there are others.
    let mut free = offers.gpus.clone();
    let of_new = |new: bool| {
        let each = offers.of.iter().zip(&offers.items).enumerate();
        each.filter(move |(_, ((_, from), _))| (*from == From::New) == new)
    };
    for new in [false, true] {
        for (at, (_, item)) in of_new(new) {
            if let (Some(count), Some(free)) = (counts.get_mut(at), free.get_mut(item.pool)) {
                *count = (*count).min(*free / item.gpus.max(1));
                *free -= *count * item.gpus;
            }
        }
    }
    (counts, true)
}

/// What serves the most, up to so much, of what is allowed.
fn most(offers: &Offers, total: f64, allowed: impl Fn(&[u32]) -> bool) -> Vec<u32> {
    let at = |total: f64| solve(offers, offers.only(total, false)).filter(|counts| allowed(counts));
    let mut best = at(total);
    let (mut low, mut high) = (0.0, total);
    for _ in 0..HALVES {
        if best.is_some() && (high - low) < total / f64::from(1 << HALVES) {
            break;
        }
        let middle = f64::midpoint(low, high);
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
    let warm = offers.warm(controller, need, seen, replicas, woken);
    let wanted = need.warm();
    let served = rules.variants.iter().zip(replicas);
    let served: f64 = served
        .map(|(one, count)| one.price(seen.now) * f64::from(*count))
        .sum();
    let per_hour = |counts: &[u32]| -> f64 {
        let each = warm.of.iter().zip(counts).filter_map(|((at, _), count)| {
            let one = rules.variants.get(*at)?;
            Some(one.price(seen.now) * one.warm_cost? * f64::from(*count))
        });
        served + each.sum::<f64>()
    };
    let allowed = |counts: &[u32]| {
        rules
            .per_hour
            .is_none_or(|budget| per_hour(counts) <= budget + 1e-9)
    };
    let found = solve(&warm, warm.only(wanted, false)).filter(|counts| allowed(counts));
    let counts = found.unwrap_or_else(|| most(&warm, warm.reach().min(wanted), allowed));
    let mut all = vec![0; rules.variants.len()];
    for ((at, _), count) in warm.of.iter().zip(counts) {
        if let Some(slot) = all.get_mut(*at) {
            *slot += count;
        }
    }
    all
}
