//! Replicas by variant.

use super::{
    MixSeen,
    offers::{From, Offers},
};
use crate::variant::Variant;

/// Replicas by variant that serve, that are woken for it, and that are warm.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Counts {
    pub(super) replicas: Vec<u32>,
    pub(super) woken: Vec<u32>,
    pub(super) warm: Vec<u32>,
}

impl Counts {
    pub(super) fn of(variants: usize, offers: &Offers, counts: &[u32]) -> Self {
        let none = vec![0; variants];
        let (mut replicas, mut woken, mut warm) = (none.clone(), none.clone(), none);
        for ((at, from), count) in offers.of.iter().zip(counts) {
            let lists: &mut [&mut Vec<u32>] = match from {
                From::Warm => &mut [&mut warm],
                From::Woken => &mut [&mut replicas, &mut woken],
                _ => &mut [&mut replicas],
            };
            for slot in lists.iter_mut().filter_map(|list| list.get_mut(*at)) {
                *slot = slot.saturating_add(*count);
            }
        }
        Self {
            replicas,
            woken,
            warm,
        }
    }

    pub(super) fn per_hour(&self, variants: &[Variant], seen: &MixSeen) -> f64 {
        let each = variants.iter().zip(&self.replicas).zip(&self.warm);
        each.map(|((one, replicas), warm)| {
            let warm = f64::from(*warm) * one.warm_cost.unwrap_or(1.0);
            one.price(seen.now) * (f64::from(*replicas) + warm)
        })
        .sum()
    }
}
