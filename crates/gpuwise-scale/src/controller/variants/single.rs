//! A controller of one variant where several are asked for.

use super::{Limit, MixController, MixDecision, MixSeen, MixedBy, Need, VariantWanted};
use crate::controller::{Controller, Observed, Wanted};
use gpuwise_units::Nanoseconds;

/// A controller that knows one variant, as one that knows several.
pub struct Single<C: ?Sized>(pub Box<C>);

impl<C: Controller + ?Sized> MixController for Single<C> {
    fn period(&self) -> Nanoseconds {
        self.0.period()
    }

    fn begins(&self) -> Option<u32> {
        self.0.begins()
    }

    fn need(&mut self, seen: &MixSeen) -> Need {
        let one = seen.variants.first().cloned().unwrap_or_default();
        let asked = Observed {
            ready: one.ready,
            starting: one.starting.saturating_add(one.waking),
            warm: one.warm,
            warming: one.warming,
            started: one.started,
            ..seen.observed()
        };
        Need {
            unit: 1.0,
            decision: self.0.decide(&asked),
        }
    }

    fn choose(&self, need: &Need, seen: &MixSeen, gpus: &[u32]) -> MixDecision {
        let there = gpus.first().copied().unwrap_or(u32::MAX);
        let wanted = need.decision.wanted;
        let replicas = wanted.replicas.min(there);
        let one = seen.variants.first().cloned().unwrap_or_default();
        let by = if replicas == one.serving() {
            MixedBy::Kept
        } else {
            MixedBy::Amount
        };
        MixDecision {
            need: *need,
            wanted: vec![VariantWanted {
                wanted: Wanted {
                    replicas,
                    warm: wanted.warm.min(there - replicas),
                },
                by,
            }],
            limit: (replicas < wanted.replicas).then_some(Limit::Inventory),
            per_hour: 0.0,
        }
    }
}
