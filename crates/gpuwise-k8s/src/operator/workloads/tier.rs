//! What an audit makes of a workload.

use super::{Audited, Hands, Sized, one::One, say::condition};
use crate::{
    resources::{ChangeReason, Decided, Status, TieringMode},
    tiers,
};
use jiff::Timestamp;

impl One {
    /// What an audit makes of it.
    pub(super) fn tier(
        &mut self,
        hands: &mut Hands<'_>,
        audit: &Result<Vec<Audited>, String>,
        now: Timestamp,
    ) {
        let mode = self
            .object
            .spec
            .tiering
            .as_ref()
            .map_or(TieringMode::default(), |one| one.mode);
        let idle = self.status.change.is_none();
        let Some(held) = self
            .status
            .decision
            .clone()
            .filter(|_| mode != TieringMode::Off && idle)
        else {
            return;
        };
        let found = match audit {
            Err(why) => {
                condition(
                    &mut self.status,
                    ("Tiered", Status::Unknown),
                    "NoAudit",
                    why,
                );
                return;
            }
            Ok(all) => all.iter().find(|one| {
                one.namespace == self.ask.namespace
                    && one.kind == "Deployment"
                    && one.name == self.ask.name
            }),
        };
        let Some(found) = found else { return };
        let proposed = self.proposed(hands, found, &held, now);
        let (sized, why) = match proposed {
            Ok(proposed) => proposed,
            Err(words) => {
                let holds = Status::from(found.verdict == tiers::Verdict::Stays);
                let avoided = self.avoided(now);
                let avoided = avoided.iter().map(|one| {
                    format!(
                        "; {} is not tried before {}: {}",
                        one.gpu, one.until, one.why
                    )
                });
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
            self.begin(
                decided,
                why,
                &plan,
                (hands, sized.micros, &sized.money),
                now,
            );
            return;
        }
        let said = format!(
            "{} would become {}: {} (plan {plan})",
            held.words(),
            decided.words(),
            decided.why
        );
        condition(
            &mut self.status,
            ("Tiered", Status::False),
            "Proposed",
            &said,
        );
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
}
