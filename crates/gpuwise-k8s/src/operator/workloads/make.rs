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
};
use tokio::time::Instant;

impl One {
    /// Makes the objects of its decision, where that was not done; what it costs is said by the prices of now.
    pub(super) async fn make(&mut self, hands: &Hands<'_>) {
        let Some(decided) = self.status.decision.clone() else {
            return;
        };
        let generation = self.object.metadata.generation;
        let done = self.applied.as_ref().is_some_and(|applied| {
            applied.generation == generation
                && applied.decided == decided
                && applied.prices == self.ask.prices
                && applied.result.is_ok()
        });
        if done {
            return;
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
                let wrote = apply(hands.term, hands.writer, own, &sized.objects, plan).await;
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
        self.applied = Some(Applied {
            generation,
            decided: self.status.decision.clone().unwrap_or_default(),
            prices: self.ask.prices.clone(),
            result,
        });
        if !self.written(hands, &before).await {
            // Who could not say it says it at the next look.
            self.applied = None;
        }
    }

    /// Writes the replicas that what comes needs.
    pub(super) async fn follow(&mut self, hands: &Hands<'_>, wanted: Option<&Result<u32, String>>) {
        let Some(scaling) = &self.object.spec.scaling else {
            return;
        };
        if !hands.acts || scaling.by.unwrap_or_default() != ScaledBy::Operator {
            return;
        }
        let before = self.status.clone();
        let there = hands.state.replicas(&self.ask.namespace, &self.ask.name);
        match wanted {
            None => {}
            Some(Err(why)) => {
                condition(&mut self.status, ("Scaled", Status::Unknown), "Held", why);
            }
            Some(Ok(wanted)) => {
                let least = u32::try_from(scaling.min_replicas.unwrap_or(0)).unwrap_or_default();
                let most = u32::try_from(scaling.max_replicas).unwrap_or(u32::MAX);
                let wanted = (*wanted).clamp(least, most.max(least));
                if let Some(there) = there.filter(|there| *there != wanted) {
                    let began = Instant::now();
                    let wrote = scale(
                        hands.term,
                        hands.writer,
                        &self.ask.namespace,
                        &self.ask.name,
                        wanted,
                    )
                    .await;
                    if wrote == Wrote::Done {
                        let more = wanted.saturating_sub(there);
                        let woken = adopt(hands, &self.ask, more, began).await;
                        let woken = match woken {
                            0 => String::new(),
                            woken => format!(", {woken} of them warm before"),
                        };
                        let words = match wanted {
                            0 => "nothing comes: 0 replicas, and its quota is free".to_owned(),
                            more => format!("{more} replicas follow what comes{woken}"),
                        };
                        condition(
                            &mut self.status,
                            ("Scaled", Status::True),
                            "Follows",
                            &words,
                        );
                        self.events.push(("Scaled", false, words));
                    }
                } else if there.is_some() {
                    let words = format!("{wanted} replicas follow what comes");
                    condition(
                        &mut self.status,
                        ("Scaled", Status::True),
                        "Follows",
                        &words,
                    );
                }
            }
        }
        self.written(hands, &before).await;
    }
}
