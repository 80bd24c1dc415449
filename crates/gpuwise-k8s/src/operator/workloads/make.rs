//! Objects of a workload are made, and its replicas written.

use super::{
    Following, Hands,
    apply::{apply, scale},
    one::{Applied, One},
    say::condition,
};
use crate::{
    operator::{traces, writes::Wrote},
    resources::{Decided, ScaledBy, Status},
};
use std::fmt::Write as _;
use tokio::time::Instant;

impl One {
    /// Makes the objects of its decision, where that was not done, and says how that went; what it costs is said by the
    /// prices of now. Whether all was written.
    pub(super) async fn make(&mut self, hands: &Hands<'_>) -> bool {
        let Some(decided) = self.status.decision.clone() else {
            return true;
        };
        let before = self.status.clone();
        let generation = self.object.metadata.generation;
        let done = self.applied.take().filter(|applied| {
            applied.generation == generation
                && applied.decided.same_but_cost(&decided)
                && applied.prices == self.ask.prices
                && applied.spare_nodes == self.status.spare_nodes
                && applied.result.is_ok()
        });
        let (applied, wrote) = match done {
            Some(done) => (done, true),
            None => self.make_now(hands, decided).await,
        };
        // It is said again where the status says something else: what was read may be older than what was written of
        // it, by us or by who led before.
        self.status.decision = Some(applied.decided.clone());
        match &applied.result {
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
        self.applied = Some(applied);
        self.written(hands, &before).await && wrote
    }

    /// Makes them; whether that needs no other try.
    async fn make_now(&self, hands: &Hands<'_>, mut decided: Decided) -> (Applied, bool) {
        let mut ask = self.ask.clone();
        ask.pinned = Some(decided.clone());
        let spares = self.status.spare_nodes;
        ask.spare_nodes = spares.map_or(0, |count| u32::try_from(count).unwrap_or_default());
        let sized = tokio::task::block_in_place(|| hands.sizer.size(&ask));
        if let Ok(sized) = &sized {
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
        // What cannot be sized waits for another spec; what was not written is written again.
        let wrote = result.is_ok() || sized.is_err();
        let applied = Applied {
            generation: self.object.metadata.generation,
            decided,
            prices: self.ask.prices.clone(),
            spare_nodes: spares,
            result,
        };
        (applied, wrote)
    }

    /// Writes the replicas that what comes needs, and keeps pods warm beside them; whether all was written.
    pub(super) async fn follow(
        &mut self,
        hands: &Hands<'_>,
        wanted: Option<&Result<Following, String>>,
    ) -> bool {
        let began = Instant::now();
        let before = self.status.clone();
        let Some(scaling) = self.object.spec.scaling.clone().filter(|_| hands.acts) else {
            self.status.warm = None;
            return self.written(hands, &before).await;
        };
        let following = wanted.and_then(|wanted| wanted.as_ref().ok());
        let least = u32::try_from(scaling.min_replicas.unwrap_or(0)).unwrap_or_default();
        let most = u32::try_from(scaling.max_replicas).unwrap_or(u32::MAX);
        let mut whole = true;
        let mut scaled = None;
        match wanted.filter(|_| scaling.by.unwrap_or_default() == ScaledBy::Operator) {
            None => {}
            Some(Err(why)) => {
                condition(&mut self.status, ("Scaled", Status::Unknown), "Held", why);
            }
            Some(Ok(wanted)) => {
                let wanted = wanted.replicas.clamp(least, most.max(least));
                match self.reach(hands, wanted).await {
                    Ok(reached) => scaled = reached,
                    Err(()) => whole = false,
                }
            }
        }
        let adopted = self.adopt(hands, began).await;
        self.tell_scaled(hands, scaled, adopted);
        whole &= self.keep_warm(hands, &scaling, following).await;
        if let Some(warm) = following.and_then(|one| one.warm) {
            let auto = scaling.spare_nodes.is_some_and(|one| one.count().is_none());
            self.status.spare_nodes = auto.then(|| i32::try_from(warm).unwrap_or(i32::MAX));
        }
        self.written(hands, &before).await && whole
    }

    /// Writes a number of replicas where there are others; how many there were and are, where it was.
    async fn reach(&mut self, hands: &Hands<'_>, wanted: u32) -> Result<Option<(u32, u32)>, ()> {
        let (namespace, name) = (&self.ask.namespace, &self.ask.name);
        let Some((version, there)) = known(hands, namespace, name, self.scaled.own.as_ref()) else {
            return Ok(None);
        };
        let scaled = (there != wanted).then_some((there, wanted));
        if scaled.is_some() {
            match scale(hands.term, hands.writer, namespace, name, wanted).await {
                Wrote::Done => self.scaled.own = Some((version, wanted)),
                // Somebody was faster, or another leads: the next look sees what is.
                Wrote::Changed | Wrote::Fenced | Wrote::Failed(_) | Wrote::Refused(_) => {
                    return Err(());
                }
            }
        }
        let words = format!("{wanted} replicas follow what comes");
        condition(
            &mut self.status,
            ("Scaled", Status::True),
            "Follows",
            &words,
        );
        Ok(scaled)
    }

    /// Says that there are other replicas, and how many of them were warm before.
    fn tell_scaled(&mut self, hands: &Hands<'_>, scaled: Option<(u32, u32)>, adopted: u32) {
        let Some((from, to)) = scaled else {
            if adopted > 0 {
                let words = format!("{adopted} warm pods became replicas");
                self.events.push(("Adopted", false, words));
            }
            return;
        };
        let mut words = format!("{to} replicas follow what comes");
        if to == 0 {
            "nothing comes: 0 replicas, and its quota is free".clone_into(&mut words);
        }
        if adopted > 0 {
            let _ = write!(words, ", {adopted} of them warm before");
        }
        let cold = to.saturating_sub(from).saturating_sub(adopted);
        if cold > 0 && self.status.warm.is_some() {
            let lent = self.status.warm.as_ref().map_or(0, |warm| warm.lent);
            let lent = u32::try_from(lent).unwrap_or_default().min(cold);
            hands.writer.metrics.cold(lent, cold - lent);
            let _ = write!(words, "; {cold} start from nothing");
            if lent > 0 {
                let _ = write!(words, ", {lent} of them since warm pods are lent");
            }
        }
        self.events.push(("Scaled", false, words));
    }
}

/// The version of a Deployment and the replicas that it is to have; what was written of this very version counts until
/// the watch shows another. `None`: it is not there.
pub(super) fn known(
    hands: &Hands<'_>,
    namespace: &str,
    name: &str,
    written: Option<&(String, u32)>,
) -> Option<(String, u32)> {
    let (version, there) = hands.state.replicas(namespace, name)?;
    let known = written.filter(|(of, _)| *of == version);
    Some((version, known.map_or(there, |(_, known)| *known)))
}
