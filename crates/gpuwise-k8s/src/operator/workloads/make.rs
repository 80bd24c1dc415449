//! Objects of a workload are made, and its replicas written.

use super::{
    Hands,
    apply::{apply, scale},
    one::{Applied, One},
    say::condition,
    warm::adopt,
};
use crate::{
    operator::{traces, writes::Wrote},
    resources::{ScaledBy, Status},
    tiers::Rollout,
};
use tokio::time::Instant;

impl One {
    /// Makes the objects of its decision, where that was not done; what it costs is said by the prices of now. Whether
    /// all was written.
    pub(super) async fn make(&mut self, hands: &Hands<'_>) -> bool {
        let Some(decided) = self.status.decision.clone() else {
            return true;
        };
        let generation = self.object.metadata.generation;
        let done = self.applied.as_ref().is_some_and(|applied| {
            applied.generation == generation
                && applied.decided == decided
                && applied.prices == self.ask.prices
                && applied.result.is_ok()
        });
        if done {
            return true;
        }
        let before = self.status.clone();
        let mut ask = self.ask.clone();
        ask.pinned = Some(decided.clone());
        let sized = tokio::task::block_in_place(|| hands.sizer.size(&ask));
        if let (Ok(sized), Some(decided)) = (&sized, &mut self.status.decision) {
            decided
                .cost_per_hour
                .clone_from(&sized.decided.cost_per_hour);
        }
        let result = match &sized {
            Ok(sized) if hands.acts => {
                let (own, plan) = (&self.object, &decided.plan);
                let began = traces::now();
                let wrote = apply(hands, own, &sized.objects, plan).await;
                if let Some(traces) = hands.traces {
                    traces.applied(own, (began, traces::now()), (plan, &wrote));
                }
                wrote
            }
            Ok(_) => Ok(String::new()),
            Err(why) => Err(why.clone()),
        };
        match &result {
            Err(why) => condition(&mut self.status, ("Applied", Status::False), "Failed", why),
            Ok(_) if !hands.acts => condition(
                &mut self.status,
                ("Applied", Status::False),
                "Proposed",
                "nothing is made: the operator does not act (--mode act)",
            ),
            Ok(names) => condition(
                &mut self.status,
                ("Applied", Status::True),
                "Applied",
                names,
            ),
        }
        // What cannot be sized waits for another spec; what was not written is written again.
        let wrote = result.is_ok() || sized.is_err();
        self.applied = Some(Applied {
            generation,
            decided: self.status.decision.clone().unwrap_or_default(),
            prices: self.ask.prices.clone(),
            result,
        });
        if !self.written(hands, &before).await {
            // Who could not say it says it at the next look.
            self.applied = None;
            return false;
        }
        wrote
    }

    /// Writes the replicas that what comes needs; whether all was written.
    pub(super) async fn follow(
        &mut self,
        hands: &Hands<'_>,
        wanted: Option<&Result<u32, String>>,
    ) -> bool {
        let Some(scaling) = &self.object.spec.scaling else {
            return true;
        };
        if !hands.acts || scaling.by.unwrap_or_default() != ScaledBy::Operator {
            return true;
        }
        let least = u32::try_from(scaling.min_replicas.unwrap_or(0)).unwrap_or_default();
        let most = u32::try_from(scaling.max_replicas).unwrap_or(u32::MAX);
        let before = self.status.clone();
        let mut whole = true;
        match wanted {
            None => {}
            Some(Err(why)) => {
                condition(&mut self.status, ("Scaled", Status::Unknown), "Held", why);
            }
            Some(Ok(wanted)) => {
                whole = self
                    .reach(hands, (*wanted).clamp(least, most.max(least)))
                    .await;
            }
        }
        self.written(hands, &before).await && whole
    }

    /// Writes a number of replicas where there are others; whether that was written.
    async fn reach(&mut self, hands: &Hands<'_>, wanted: u32) -> bool {
        let (namespace, name) = (&self.ask.namespace, &self.ask.name);
        let Some((version, mut there)) = hands.state.replicas(namespace, name) else {
            return true;
        };
        // What was written of this very state counts until the watch shows another.
        if let Some((_, known)) = self.scaled.as_ref().filter(|(of, _)| *of == version) {
            there = *known;
        }
        let mut words = format!("{wanted} replicas follow what comes");
        if there != wanted {
            let began = Instant::now();
            match scale(hands.term, hands.writer, namespace, name, wanted).await {
                Wrote::Done => {}
                // Somebody was faster, or another leads: the next look sees what is.
                Wrote::Changed | Wrote::Fenced | Wrote::Failed(_) | Wrote::Refused(_) => {
                    return false;
                }
            }
            self.scaled = Some((version, wanted));
            // While pods become others warm ones may be of either kind.
            let settled = self.rollout(hands) == Rollout::Done || self.status.change.is_none();
            let woken = if settled {
                adopt(hands, &self.ask, wanted.saturating_sub(there), began).await
            } else {
                0
            };
            if woken > 0 {
                words = format!("{words}, {woken} of them warm before");
            }
            if wanted == 0 {
                "nothing comes: 0 replicas, and its quota is free".clone_into(&mut words);
            }
            self.events.push(("Scaled", false, words.clone()));
        }
        condition(
            &mut self.status,
            ("Scaled", Status::True),
            "Follows",
            &words,
        );
        true
    }
}
