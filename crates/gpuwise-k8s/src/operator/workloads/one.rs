//! One workload at one look: what it is to have, what is written of that, what is said.

use super::{
    super::meter::Measured,
    Audited, Hands, PriceBook, Sized, WorkloadAsk,
    apply::{apply, scale},
    say::{condition, event, write},
    warm::adopt,
};
use crate::{
    operator::writes::Wrote,
    resources::{
        ChangeReason, Decided, GpuWorkloadSpec, GpuWorkloadStatus, Object, Phase, Saved, ScaledBy,
        Status, TieringMode,
    },
    tiers::{self, Limits, Look, Next, Rollout, SloSeen},
};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// What was written of a workload: for which generation and decision, and how that went.
#[derive(Debug, Clone)]
pub(super) struct Applied {
    generation: i64,
    decided: Decided,
    prices: Option<PriceBook>,
    /// Kinds and names, or why not.
    result: Result<String, String>,
}

/// Something to be said once a status is written.
type Said = (&'static str, bool, String);

pub(super) struct One {
    pub object: Object<GpuWorkloadSpec>,
    pub version: String,
    pub status: GpuWorkloadStatus,
    pub ask: WorkloadAsk,
    pub applied: Option<Applied>,
    pub events: Vec<Said>,
}

impl One {
    pub(super) async fn look(
        &mut self,
        hands: &mut Hands<'_>,
        measured: Option<&Measured>,
        audit: Option<&Result<Vec<Audited>, String>>,
    ) {
        let before = self.status.clone();
        let now = Timestamp::now();
        let changed = self.changed(hands);
        if changed {
            self.decide(hands, now);
        }
        self.status.observed_generation = self.object.metadata.generation;
        let slo = measured.and_then(|new| new.slos.get(&self.object.metadata.uid).cloned());
        self.kept(hands, slo.as_ref());
        if hands.acts {
            self.step(hands, slo, now);
        }
        if let Some(found) = audit.filter(|_| !changed) {
            self.tier(hands, found, now);
        }
        self.prove(hands);
        if let Some(decided) = &self.status.decision {
            self.status.replicas = decided.replicas;
            self.status.selector = format!("gpuwise.dev/workload={}", self.object.metadata.name);
        }
        if !self.written(hands, &before).await {
            return;
        }
        self.make(hands).await;
        let replicas = measured.and_then(|new| new.replicas.get(&self.object.metadata.uid));
        self.follow(hands, replicas).await;
    }

    /// Whether its SLO is kept, as its condition says.
    pub(super) fn slo(&self) -> &'static str {
        let mut all = self.status.conditions.iter();
        match all.find(|one| one.kind == "SloKept").map(|one| one.status) {
            Some(Status::True) => "True",
            Some(Status::False) => "False",
            Some(Status::Unknown) | None => "Unknown",
        }
    }

    /// Whether it is to be decided anew: its spec is another, its GPU is gone, or nothing was decided.
    fn changed(&self, hands: &Hands<'_>) -> bool {
        let generation = self.object.metadata.generation;
        let failed = || {
            let sized = self.status.conditions.iter().find(|one| one.kind == "Sized");
            sized.is_none_or(|one| one.status != Status::True)
        };
        match &self.status.decision {
            None => {
                // What could not be sized is tried again where the spec or the cluster's GPUs are others.
                let tried = self.applied.as_ref().is_some_and(|applied| {
                    applied.generation == generation && applied.result == Err(self.products())
                });
                !(tried && failed())
            }
            Some(decided) => {
                let gone = !decided.product.is_empty()
                    && !decided
                        .product
                        .split(',')
                        .any(|product| self.ask.products.contains(product));
                self.status.observed_generation != generation
                    || (gone && !self.ask.products.is_empty())
                    || (!hands.acts && self.applied.is_none())
            }
        }
    }

    fn products(&self) -> String {
        let all: Vec<&str> = self.ask.products.iter().map(String::as_str).collect();
        all.join(",")
    }

    /// Decides by what the spec says.
    fn decide(&mut self, hands: &mut Hands<'_>, now: Timestamp) {
        let mut ask = self.ask.clone();
        ask.avoided = self.avoided(now);
        let sized = tokio::task::block_in_place(|| hands.sizer.size(&ask));
        self.status.observed_generation = self.object.metadata.generation;
        match sized {
            Err(why) => {
                condition(&mut self.status, ("Sized", Status::False), "NoPlan", &why);
                if self.status.decision.is_none() {
                    self.applied = Some(Applied {
                        generation: self.object.metadata.generation,
                        decided: Decided::default(),
                        prices: None,
                        result: Err(self.products()),
                    });
                }
            }
            Ok(sized) => {
                let words = sized.decided.why.clone();
                condition(&mut self.status, ("Sized", Status::True), "Sized", &words);
                let plan = hands.plan();
                let gone = self.status.decision.as_ref().is_some_and(|decided| {
                    !self.ask.products.iter().any(|one| decided.product.contains(one.as_str()))
                });
                let reason = if gone { ChangeReason::GpuGone } else { ChangeReason::Spec };
                let decided = Decided { plan: plan.clone(), ..sized.decided };
                match &self.status.decision {
                    Some(old) if hands.acts && old.differs(&decided) => {
                        self.begin(decided, reason, &plan, (hands, sized.micros, &sized.money), now);
                    }
                    _ => self.status.decision = Some(decided),
                }
            }
        }
    }

    fn avoided(&self, now: Timestamp) -> Vec<crate::resources::Avoided> {
        let holds = |until: &str| until.parse::<Timestamp>().is_ok_and(|until| until > now);
        let all = self.status.avoided.iter();
        all.filter(|one| holds(&one.until)).cloned().collect()
    }

    fn limits(&self) -> Limits {
        let tiering = self.object.spec.tiering.clone().unwrap_or_default();
        let seconds = |said: Option<i64>, usual| SignedDuration::from_secs(said.unwrap_or(usual));
        Limits {
            rollout: seconds(tiering.rollout_seconds, 1860),
            verify: seconds(tiering.verify_seconds, 600),
            avoid: seconds(tiering.avoid_seconds, 7 * 86_400),
        }
    }

    /// Begins a change to another decision.
    fn begin(
        &mut self,
        decided: Decided,
        why: ChangeReason,
        plan: &str,
        (hands, micros, money): (&Hands<'_>, Option<i64>, &str),
        now: Timestamp,
    ) {
        let from = self.status.decision.as_ref().map(Decided::words).unwrap_or_default();
        let before = self.bill(hands).or_else(|| self.cost(hands));
        let saves = before.zip(micros).map(|(before, after)| before - after);
        let words = format!(
            "{from} becomes {}: {}{} (plan {plan})",
            decided.words(),
            decided.why,
            saves.map_or(String::new(), |saves| format!(
                "; {} {money} an hour {}",
                decimal(saves.saturating_abs()),
                if saves < 0 { "more" } else { "less" }
            )),
        );
        self.status.saved = Some(Saved {
            plan: plan.to_owned(),
            before_per_hour: before.map(|micros| priced(micros, money)),
            predicted_per_hour: saves.map(|micros| priced(micros, money)),
            measured_per_hour: None,
            proven: None,
        });
        tiers::begin(&mut self.status, decided, why, plan, now);
        condition(&mut self.status, ("Tiered", Status::False), "RollingOut", &words);
        self.events.push(("Moving", false, words));
    }

    /// What it costs an hour as it was decided, in millionths.
    fn cost(&self, hands: &Hands<'_>) -> Option<i64> {
        let mut ask = self.ask.clone();
        ask.pinned.clone_from(&self.status.decision);
        let sized = tokio::task::block_in_place(|| hands.sizer.size(&ask));
        sized.ok()?.micros
    }

    /// What its pods hold on their nodes, by the price book, in millionths an hour.
    fn bill(&self, hands: &Hands<'_>) -> Option<i64> {
        hands.state.bill(&self.ask.namespace, &self.ask.name)
    }

    /// Says what was measured of its SLO.
    fn kept(&mut self, hands: &Hands<'_>, slo: Option<&SloSeen>) {
        let (holds, reason, words) = match slo {
            Some(SloSeen::Kept(words)) => (Status::True, "Kept", words.as_str()),
            Some(SloSeen::Missed(words)) => (Status::False, "Missed", words.as_str()),
            Some(SloSeen::Untold(words)) => (Status::Unknown, "Untold", words.as_str()),
            None if hands.measures => return,
            None => (
                Status::Unknown,
                "NoPrometheus",
                "nobody measures it: the operator was given no --prometheus",
            ),
        };
        // Figures change at each look: they are written where the answer does, or while it is being verified.
        let known = self.status.conditions.iter().find(|one| one.kind == "SloKept");
        let same = known.is_some_and(|one| one.status == holds && one.reason == reason);
        let watched = self.status.change.is_some() || self.status.missed > 0;
        if !same || (watched && holds != Status::Unknown) {
            condition(&mut self.status, ("SloKept", holds), reason, words);
        }
    }

    /// Goes on with a change, or goes back where the SLO is missed.
    fn step(&mut self, hands: &mut Hands<'_>, slo: Option<SloSeen>, now: Timestamp) {
        let limits = self.limits();
        let rollout = self.rollout(hands);
        let look = Look { now, rollout, slo };
        let words = match &look.slo {
            Some(SloSeen::Missed(words) | SloSeen::Kept(words) | SloSeen::Untold(words)) => {
                words.clone()
            }
            None => String::new(),
        };
        match tiers::next(&mut self.status, &look, &limits) {
            Next::Stay => {}
            Next::Verify => {
                tiers::verify(&mut self.status, now);
                let said = format!(
                    "all pods are on {}; the SLO is watched for {} s",
                    self.status.decision.as_ref().map(Decided::words).unwrap_or_default(),
                    limits.verify.as_secs()
                );
                condition(&mut self.status, ("Tiered", Status::False), "Verifying", &said);
                self.events.push(("RolledOut", false, said));
            }
            Next::Settle => self.settled(),
            Next::Back(why) => {
                let plan = hands.plan();
                let failed = self.status.decision.clone().unwrap_or_default();
                let reason = match why {
                    ChangeReason::NotReady => format!(
                        "{} was not ready within {} s",
                        failed.words(),
                        limits.rollout.as_secs()
                    ),
                    _ => format!("{} missed its SLO: {words}", failed.words()),
                };
                tiers::back(&mut self.status, (why, &reason), &plan, &limits, now);
                if let Some(decided) = &mut self.status.decision {
                    decided.plan.clone_from(&plan);
                }
                if let Some(saved) = &mut self.status.saved {
                    saved.proven = Some(false);
                }
                let said = format!(
                    "{reason}: back to {} (plan {plan})",
                    self.status.decision.as_ref().map(Decided::words).unwrap_or_default()
                );
                condition(&mut self.status, ("Tiered", Status::False), "RollingBack", &said);
                self.events.push(("RolledBack", true, said));
            }
        }
    }

    /// A change is over.
    fn settled(&mut self) {
        let change = self.status.change.clone().unwrap_or_default();
        tiers::settle(&mut self.status);
        let now = self.status.decision.as_ref().map(Decided::words).unwrap_or_default();
        if change.phase == Phase::RollingBack {
            let said = format!("it is back on {now}");
            condition(&mut self.status, ("Tiered", Status::True), "RolledBack", &said);
            self.events.push(("Settled", false, said));
            return;
        }
        let (reason, said) = if change.told > 0 {
            ("Kept", format!("{now} kept its SLO in {} looks and stays", change.told))
        } else {
            ("Unverified", format!("{now} stays; whether its SLO is kept could not be told"))
        };
        condition(&mut self.status, ("Tiered", Status::True), reason, &said);
        self.events.push(("Settled", false, said));
    }

    /// Whether all its pods are those of its decision.
    fn rollout(&self, hands: &Hands<'_>) -> Rollout {
        let plan = self.status.decision.as_ref().map(|decided| decided.plan.clone());
        let done = hands.state.rolled_out(
            &self.ask.namespace,
            &self.ask.name,
            plan.as_deref().unwrap_or_default(),
        );
        if done { Rollout::Done } else { Rollout::UnderWay }
    }

    /// What an audit makes of it.
    fn tier(
        &mut self,
        hands: &mut Hands<'_>,
        audit: &Result<Vec<Audited>, String>,
        now: Timestamp,
    ) {
        let mode = self.object.spec.tiering.as_ref().map_or(TieringMode::default(), |one| one.mode);
        let idle = self.status.change.is_none();
        let Some(held) = self.status.decision.clone().filter(|_| mode != TieringMode::Off && idle)
        else {
            return;
        };
        let found = match audit {
            Err(why) => {
                condition(&mut self.status, ("Tiered", Status::Unknown), "NoAudit", why);
                return;
            }
            Ok(all) => all.iter().find(|one| {
                one.namespace == self.ask.namespace && one.kind == "Deployment" && one.name == self.ask.name
            }),
        };
        let Some(found) = found else { return };
        let proposed = self.proposed(hands, found, &held, now);
        let (sized, why) = match proposed {
            Ok(proposed) => proposed,
            Err(words) => {
                let holds = Status::from(found.verdict == tiers::Verdict::Stays);
                let avoided = self.avoided(now);
                let avoided = avoided
                    .iter()
                    .map(|one| format!("; {} is not tried before {}: {}", one.gpu, one.until, one.why));
                let said = format!("{}; {words}{}", found.reason, avoided.collect::<String>());
                condition(&mut self.status, ("Tiered", holds), "Stays", &said);
                return;
            }
        };
        let plan = hands.plan();
        let decided = Decided {
            plan: plan.clone(),
            why: format!("{}; {}", found.reason, sized.decided.why),
            ..sized.decided
        };
        if hands.acts && mode == TieringMode::Auto {
            self.begin(decided, why, &plan, (hands, sized.micros, &sized.money), now);
            return;
        }
        let said = format!(
            "{} would become {}: {} (plan {plan})",
            held.words(),
            decided.words(),
            decided.why
        );
        condition(&mut self.status, ("Tiered", Status::False), "Proposed", &said);
    }

    /// What its measured traffic needs, where that is worth a change.
    fn proposed(
        &self,
        hands: &Hands<'_>,
        found: &Audited,
        held: &Decided,
        now: Timestamp,
    ) -> Result<(Sized, ChangeReason), String> {
        use tiers::Verdict;
        if !matches!(found.verdict, Verdict::TooLarge | Verdict::TooSmall) {
            return Err("nothing else is proposed for it".into());
        }
        let traffic = found
            .traffic
            .clone()
            .ok_or("what comes cannot be told from its engine's metrics")?;
        let mut ask = self.ask.clone();
        ask.avoided = self.avoided(now);
        ask.traffic = Some(traffic);
        let sized = tokio::task::block_in_place(|| hands.sizer.size(&ask))?;
        let cost = self.bill(hands).or_else(|| self.cost(hands));
        let why = tiers::worth(found.verdict, (held, cost), (&sized.decided, sized.micros))?;
        Ok((sized, why))
    }

    /// Holds what its pods hold now against what was predicted.
    fn prove(&mut self, hands: &Hands<'_>) {
        let over = !self.status.change.as_ref().is_some_and(|one| one.phase == Phase::RollingOut);
        let back = self.status.change.as_ref().is_some_and(|one| one.why.is_back());
        let bill = self.bill(hands).filter(|_| over && !back);
        let kept = self.status.change.is_none()
            && self
                .status
                .conditions
                .iter()
                .any(|one| one.kind == "Tiered" && one.reason == "Kept");
        let Some(saved) = self.status.saved.as_mut().filter(|saved| saved.proven.is_none()) else {
            return;
        };
        let amount = |text: &Option<String>| {
            let text = text.as_deref()?;
            let (number, money) = text.split_once(' ')?;
            Some((micros(number)?, money.to_owned()))
        };
        let (Some((before, money)), Some(now)) = (amount(&saved.before_per_hour), bill) else {
            return;
        };
        let measured = before - now;
        saved.measured_per_hour = Some(priced(measured, &money));
        let Some((predicted, _)) = amount(&saved.predicted_per_hour).filter(|_| kept) else {
            return;
        };
        let proven = tiers::came(predicted, measured);
        saved.proven = Some(proven);
        let said = format!(
            "{} {money} an hour were to be saved, and its pods hold {} {money} an hour less",
            decimal(predicted),
            decimal(measured)
        );
        let reason = if proven { "Proven" } else { "FellShort" };
        condition(&mut self.status, ("Tiered", Status::True), reason, &said);
        self.events.push((reason, !proven, said));
    }

    /// Writes the status where it is another, and then says what is to be said; whether what was read still holds.
    async fn written(&mut self, hands: &Hands<'_>, before: &GpuWorkloadStatus) -> bool {
        if self.status == *before {
            return true;
        }
        match write(hands.term, hands.writer, &self.object, &self.version, &self.status).await {
            Ok(version) => self.version = version,
            Err(_) => return false,
        }
        if hands.acts {
            for (reason, warns, words) in std::mem::take(&mut self.events) {
                event(hands.term, hands.writer, &self.object, (reason, warns), &words).await;
            }
        }
        true
    }

    /// Makes the objects of its decision, where that was not done; what it costs is said by the prices of now.
    async fn make(&mut self, hands: &Hands<'_>) {
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
            decided.cost_per_hour.clone_from(&sized.decided.cost_per_hour);
        }
        let result = match &sized {
            Ok(sized) if hands.acts => {
                let (own, plan) = (&self.object, &decided.plan);
                apply(hands.term, hands.writer, own, &sized.objects, plan).await
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
            Ok(names) => condition(&mut self.status, ("Applied", Status::True), "Applied", names),
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
    async fn follow(&mut self, hands: &Hands<'_>, wanted: Option<&Result<u32, String>>) {
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
                    let wrote =
                        scale(hands.term, hands.writer, &self.ask.namespace, &self.ask.name, wanted)
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
                        condition(&mut self.status, ("Scaled", Status::True), "Follows", &words);
                        self.events.push(("Scaled", false, words));
                    }
                } else if there.is_some() {
                    let words = format!("{wanted} replicas follow what comes");
                    condition(&mut self.status, ("Scaled", Status::True), "Follows", &words);
                }
            }
        }
        self.written(hands, &before).await;
    }
}

/// Millionths as a decimal number.
pub(super) fn decimal(micros: i64) -> String {
    let text = format!("{}.{:06}", micros.abs() / 1_000_000, micros.abs() % 1_000_000);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{}{text}", if micros < 0 { "-" } else { "" })
}

fn priced(micros: i64, money: &str) -> String {
    format!("{} {money}", decimal(micros))
}

/// The millionths of what [`decimal`] wrote.
fn micros(text: &str) -> Option<i64> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part: i64 = format!("{part:0<6}").get(..6)?.parse().ok()?;
    Some(sign * (whole.parse::<i64>().ok()?.checked_mul(1_000_000)?.checked_add(part)?))
}
