//! A change of a workload: begun, gone on with, taken back, proven.

use super::{
    Hands,
    money::{decimal, micros, priced},
    one::One,
    say::condition,
};
use crate::{
    operator::traces::Outcome,
    resources::{ChangeReason, Decided, Phase, Saved, Status},
    tiers::{self, Limits, Look, Next, Rollout, SloSeen},
};
use jiff::{SignedDuration, Timestamp};

impl One {
    pub(super) fn limits(&self) -> Limits {
        let tiering = self.object.spec.tiering.clone().unwrap_or_default();
        let seconds = |said: Option<i64>, usual| SignedDuration::from_secs(said.unwrap_or(usual));
        Limits {
            rollout: seconds(tiering.rollout_seconds, 1860),
            verify: seconds(tiering.verify_seconds, 600),
            avoid: seconds(tiering.avoid_seconds, 7 * 86_400),
        }
    }

    /// Begins a change to another decision.
    pub(super) fn begin(
        &mut self,
        decided: Decided,
        why: ChangeReason,
        plan: &str,
        (hands, micros, money): (&Hands<'_>, Option<i64>, &str),
        now: Timestamp,
    ) {
        let from = self
            .status
            .decision
            .as_ref()
            .map(Decided::words)
            .unwrap_or_default();
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
            kept: None,
            proven: None,
        });
        let replaced = format!("plan {plan} took its place");
        self.phase_over(now, Outcome::Failed(replaced));
        tiers::begin(&mut self.status, decided, why, plan, now);
        condition(
            &mut self.status,
            ("Tiered", Status::False),
            "RollingOut",
            &words,
        );
        self.events.push(("Moving", false, words));
    }

    /// Says what was measured of its SLO.
    pub(super) fn kept(&mut self, hands: &Hands<'_>, slo: Option<&SloSeen>) {
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
        let known = self
            .status
            .conditions
            .iter()
            .find(|one| one.kind == "SloKept");
        let same = known.is_some_and(|one| one.status == holds && one.reason == reason);
        let watched = self.status.change.is_some() || self.status.missed > 0;
        if !same || (watched && holds != Status::Unknown) {
            condition(&mut self.status, ("SloKept", holds), reason, words);
        }
    }

    /// Goes on with a change, or goes back where the SLO is missed.
    pub(super) fn step(&mut self, hands: &mut Hands<'_>, slo: Option<SloSeen>, now: Timestamp) {
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
                self.phase_over(now, Outcome::Ok);
                tiers::verify(&mut self.status, now);
                let said = format!(
                    "all pods are on {}; the SLO is watched for {} s",
                    self.status
                        .decision
                        .as_ref()
                        .map(Decided::words)
                        .unwrap_or_default(),
                    limits.verify.as_secs()
                );
                condition(
                    &mut self.status,
                    ("Tiered", Status::False),
                    "Verifying",
                    &said,
                );
                self.events.push(("RolledOut", false, said));
            }
            Next::Settle => {
                self.phase_over(now, Outcome::Ok);
                self.settled();
            }
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
                self.phase_over(now, Outcome::Failed(reason.clone()));
                tiers::back(&mut self.status, (why, &reason), &plan, &limits, now);
                if let Some(decided) = &mut self.status.decision {
                    decided.plan.clone_from(&plan);
                }
                if let Some(saved) = &mut self.status.saved {
                    saved.kept = Some(why != ChangeReason::SloMissed);
                    saved.proven = Some(false);
                }
                let said = format!(
                    "{reason}: back to {} (plan {plan})",
                    self.status
                        .decision
                        .as_ref()
                        .map(Decided::words)
                        .unwrap_or_default()
                );
                condition(
                    &mut self.status,
                    ("Tiered", Status::False),
                    "RollingBack",
                    &said,
                );
                self.events.push(("RolledBack", true, said));
            }
        }
    }

    /// A change is over.
    fn settled(&mut self) {
        let change = self.status.change.clone().unwrap_or_default();
        tiers::settle(&mut self.status);
        let now = self
            .status
            .decision
            .as_ref()
            .map(Decided::words)
            .unwrap_or_default();
        if change.phase == Phase::RollingBack {
            let said = format!("it is back on {now}");
            condition(
                &mut self.status,
                ("Tiered", Status::True),
                "RolledBack",
                &said,
            );
            self.events.push(("Settled", false, said));
            return;
        }
        if let Some(saved) = &mut self.status.saved {
            saved.kept = (change.told > 0).then_some(true);
        }
        let (reason, said) = if change.told > 0 {
            (
                "Kept",
                format!("{now} kept its SLO in {} looks and stays", change.told),
            )
        } else {
            (
                "Unverified",
                format!("{now} stays; whether its SLO is kept could not be told"),
            )
        };
        condition(&mut self.status, ("Tiered", Status::True), reason, &said);
        self.events.push(("Settled", false, said));
    }

    /// Whether all its pods are those of its decision.
    pub(super) fn rollout(&self, hands: &Hands<'_>) -> Rollout {
        let plan = self
            .status
            .decision
            .as_ref()
            .map(|decided| decided.plan.clone());
        let done = hands.state.rolled_out(
            &self.ask.namespace,
            &self.ask.name,
            plan.as_deref().unwrap_or_default(),
        );
        if done {
            Rollout::Done
        } else {
            Rollout::UnderWay
        }
    }

    /// Holds what its pods hold now against what was predicted.
    pub(super) fn prove(&mut self, hands: &Hands<'_>) {
        let over = !self
            .status
            .change
            .as_ref()
            .is_some_and(|one| one.phase == Phase::RollingOut);
        let back = self
            .status
            .change
            .as_ref()
            .is_some_and(|one| one.why.is_back());
        let bill = self.bill(hands).filter(|_| over && !back);
        let Some(saved) = self
            .status
            .saved
            .as_mut()
            .filter(|saved| saved.proven.is_none())
        else {
            return;
        };
        let kept = saved.kept == Some(true);
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
}
