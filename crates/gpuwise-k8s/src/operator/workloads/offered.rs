//! What an audit makes of a Deployment of somebody's.

use super::{
    Audited, Hands,
    money::decimal,
    noted::{Kept, limits, slo},
    plain::{Said, Step},
};
use crate::{
    resources::{Avoided, ChangeReason, Decided},
    tiers::{self, Verdict},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

impl Step<'_> {
    /// What an audit makes of it.
    pub(super) fn tier(
        &self,
        hands: &mut Hands<'_>,
        audit: Option<&Result<Vec<Audited>, String>>,
        kept: &mut Kept,
        patch: &mut Value,
        proposed: &mut BTreeMap<String, String>,
    ) -> Option<Said> {
        let meta = &self.one.metadata;
        let all = audit?.as_ref().ok()?;
        let found = all.iter().find(|one| {
            Some(&one.namespace) == meta.namespace.as_ref()
                && Some(&one.name) == meta.name.as_ref()
                && one.kind == "Deployment"
                && one.verdict == Verdict::TooLarge
        })?;
        let title = found.title.clone()?;
        // How many there are is for others to say.
        let change = found.patch.clone();
        let usable = change.filter(|change| change.pointer("/spec/replicas").is_none());
        if self.rests(kept, &title) {
            return None;
        }
        let saves = found.saving.map_or(String::new(), |micros| {
            format!("; saves {} USD an hour", decimal(micros))
        });
        let words = format!("{}: {title}{saves}", found.reason);
        if let Some(why) = self.why_not(usable.is_some()) {
            let words = format!("{words}; {why}");
            let uid = meta.uid.clone().unwrap_or_default();
            let known = proposed.insert(uid, words.clone());
            return (known.as_ref() != Some(&words)).then_some(("TierProposed", false, words));
        }
        self.begin(hands, kept, usable?, (title, words), patch)
    }

    /// Whether it was moved lately, or is not to get what is proposed for a while.
    fn rests(&self, kept: &Kept, title: &str) -> bool {
        let pause = limits(self.one).avoid;
        let since = kept.moved.parse::<Timestamp>();
        let lately = since.is_ok_and(|since| self.now.duration_since(since) < pause);
        let failed = |one: &Avoided| one.gpu == title && one.holds(self.now);
        lately || kept.status.avoided.iter().any(failed)
    }

    /// Why what is proposed is not done.
    fn why_not(&self, usable: bool) -> Option<&'static str> {
        let slo = slo(self.one);
        let recreate = self.one.data.pointer("/spec/strategy/type") == Some(&json!("Recreate"));
        if !usable {
            Some("it cannot be changed in place")
        } else if !self.acts {
            Some("label it gpuwise.dev/tier=auto, under an operator that acts, and it is done")
        } else if recreate {
            Some("its strategy is Recreate: nobody would answer meanwhile")
        } else if slo.ttft.is_none() && slo.tpot.is_none() {
            Some(
                "without an SLO nobody could take it back: annotate it gpuwise.dev/slo-ttft or gpuwise.dev/slo-tpot",
            )
        } else {
            None
        }
    }

    /// Begins a change; what undoes it is kept.
    fn begin(
        &self,
        hands: &mut Hands<'_>,
        kept: &mut Kept,
        mut change: Value,
        (title, words): (String, String),
        patch: &mut Value,
    ) -> Option<Said> {
        let plan = hands.plan();
        change["spec"]["strategy"] = json!({
            "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
        });
        kept.undo = tiers::undo(&change, &Value::Object(self.one.data.as_object()?.clone()));
        if kept.status.decision.is_none() {
            let product = self
                .one
                .data
                .pointer("/spec/template/spec/nodeSelector/nvidia.com~1gpu.product");
            kept.status.decision = Some(Decided {
                gpu: product
                    .and_then(Value::as_str)
                    .unwrap_or("as before")
                    .to_owned(),
                ..Decided::default()
            });
        }
        let decided = Decided {
            gpu: title,
            plan: plan.clone(),
            why: words.clone(),
            ..Decided::default()
        };
        tiers::begin(
            &mut kept.status,
            decided,
            ChangeReason::TooLarge,
            &plan,
            self.now,
        );
        kept.moved = format!("{:.0}", self.now);
        *patch = change;
        Some(("Moving", false, format!("{words} (plan {plan})")))
    }
}
