//! What is decided, and why.

use super::{
    Limit, MixDecision, MixRules, MixSeen, Mixed, MixedBy, Need, VariantSeen, VariantWanted,
    counts::Counts,
    holds,
    offers::{From, Offers},
};
use crate::controller::{Because, Wanted};
use std::cmp::Ordering;

/// What is decided of: the controller, what is needed, and what is there.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) controller: &'a Mixed,
    pub(super) need: &'a Need,
    pub(super) seen: &'a MixSeen,
}

pub(super) fn choose(controller: &Mixed, need: &Need, seen: &MixSeen, gpus: &[u32]) -> MixDecision {
    let question = Question {
        controller,
        need,
        seen,
    };
    let variants = &controller.rules.variants;
    if holds(need.decision.because) {
        let each = seen.variants.iter();
        let counts = Counts {
            replicas: each.clone().map(VariantSeen::serving).collect(),
            woken: vec![0; variants.len()],
            warm: each.map(VariantSeen::spares).collect(),
        };
        let by = vec![MixedBy::NoMetrics; variants.len()];
        return question.decided(&counts, by, None);
    }
    let mut offers = Offers::new(controller, need, seen, gpus);
    if need.decision.because == Because::NotReady {
        let items = offers.items.iter_mut().zip(&offers.of);
        for (item, _) in items.filter(|(_, (_, from))| *from == From::New) {
            item.most = 0;
        }
    }
    let (counts, limit) = question.cheapest(&offers);
    let by = question.reasons(&counts);
    question.decided(&counts, by, limit)
}

impl Question<'_> {
    pub(super) const fn rules(&self) -> &MixRules {
        &self.controller.rules
    }

    fn decided(&self, counts: &Counts, by: Vec<MixedBy>, limit: Option<Limit>) -> MixDecision {
        let each = counts.replicas.iter().zip(&counts.warm).zip(by);
        let wanted = each.map(|((replicas, warm), by)| VariantWanted {
            wanted: Wanted {
                replicas: *replicas,
                warm: *warm,
            },
            by,
        });
        MixDecision {
            need: *self.need,
            wanted: wanted.collect(),
            limit,
            per_hour: counts.per_hour(&self.rules().variants, self.seen),
        }
    }

    /// Why there are to be so many of each.
    fn reasons(&self, counts: &Counts) -> Vec<MixedBy> {
        let variants = &self.rules().variants;
        let rate = |counts: &mut dyn Iterator<Item = u32>| -> f64 {
            let each = variants.iter().zip(counts);
            each.map(|(one, count)| one.rate * f64::from(count)).sum()
        };
        let there = rate(&mut self.seen.variants.iter().map(VariantSeen::serving));
        let wanted = rate(&mut counts.replicas.iter().copied());
        let each = counts.replicas.iter().zip(&counts.woken);
        each.zip(&self.seen.variants)
            .map(
                |((replicas, woken), seen)| match replicas.cmp(&seen.serving()) {
                    Ordering::Equal => MixedBy::Kept,
                    Ordering::Greater if replicas - seen.serving() <= *woken => MixedBy::Woken,
                    Ordering::Greater => MixedBy::Cheapest,
                    Ordering::Less if wanted < there - 1e-6 => MixedBy::Fewer,
                    Ordering::Less => MixedBy::Replaced,
                },
            )
            .collect()
    }

    pub(super) fn is_allowed(&self, counts: &Counts) -> bool {
        let budget = self.rules().per_hour;
        budget.is_none_or(|budget| {
            counts.per_hour(&self.rules().variants, self.seen) <= budget + 1e-9
        })
    }
}
