//! Deployments of somebody's that ask to be on the GPU that they need: by the patch of `gpuwise audit`, watched and
//! taken back as GpuWorkloads are.

use super::{
    super::{
        clock,
        meter::Measured,
        seen::PLAN,
        served::is_rolled_out,
        traces::{Outcome, Stepped},
        watches::{Own, TIERED},
        writes::Wrote,
    },
    Audited, Hands, Looked,
    noted::{Kept, SAID, STATE, kept, limits},
    say::event_of,
    steps::phase_over,
};
use crate::{
    manifests::NAME,
    resources::{ChangeReason, Phase},
    tiers::{self, Look, Next, Rollout, SloSeen},
};
use jiff::Timestamp;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What was last proposed of Deployments, by uid: said once.
#[derive(Default)]
pub(super) struct Proposed(BTreeMap<String, String>);

impl Proposed {
    pub(super) async fn look(
        &mut self,
        hands: &mut Hands<'_>,
        fresh: Option<&Measured>,
        audit: Option<&Result<Vec<Audited>, String>>,
    ) -> Looked {
        let mut looked = Looked::ALL;
        let state = hands.state;
        for one in state.objects(Own::Tiered) {
            if one.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let labels = one.metadata.labels.as_ref();
            let auto = labels
                .and_then(|all| all.get(TIERED))
                .is_some_and(|mode| mode == "auto");
            let uid = one.metadata.uid.clone().unwrap_or_default();
            let slo = fresh.and_then(|new| new.slos.get(&uid).cloned());
            let step = Step {
                one,
                acts: hands.acts && auto,
                now: clock::now(),
            };
            looked = looked.and(step.carry(hands, slo, audit, &mut self.0).await);
        }
        looked
    }
}

fn text(of: Option<&String>) -> String {
    of.cloned().unwrap_or_default()
}

/// What is said: the reason of an event, whether somebody should look, and the words.
pub(super) type Said = (&'static str, bool, String);

pub(super) struct Step<'a> {
    pub one: &'a DynamicObject,
    pub acts: bool,
    pub now: Timestamp,
}

impl Step<'_> {
    async fn carry(
        &self,
        hands: &mut Hands<'_>,
        slo: Option<SloSeen>,
        audit: Option<&Result<Vec<Audited>, String>>,
        proposed: &mut BTreeMap<String, String>,
    ) -> Looked {
        let mut kept = kept(self.one);
        let before = kept.clone();
        let mut patch = json!({});
        let mut said = None;
        let mut over = None;
        if self.acts {
            said = self.go_on(hands, &mut kept, slo, (&mut patch, &mut over));
        }
        if said.is_none() && kept.status.change.is_none() {
            said = self.tier(hands, audit, &mut kept, &mut patch, proposed);
        }
        let ends = tiers::ends(&kept.status, &limits(self.one), self.now);
        let ends = ends.filter(|_| self.acts);
        if kept == before && said.is_none() {
            return Looked { whole: true, ends };
        }
        let settled = kept.status.change.is_none();
        let whole = self.write(hands, &kept, patch, said).await;
        if let (true, Some(traces), Some(step)) = (whole, hands.traces, over) {
            traces.moved(&self.one.metadata, &before.moved, step, settled);
        }
        Looked { whole, ends }
    }

    /// Goes on with a change, or takes it back.
    fn go_on(
        &self,
        hands: &mut Hands<'_>,
        kept: &mut Kept,
        slo: Option<SloSeen>,
        (patch, over): (&mut Value, &mut Option<Stepped>),
    ) -> Option<Said> {
        let limits = &limits(self.one);
        let words = match &slo {
            Some(SloSeen::Missed(words)) => words.clone(),
            _ => String::new(),
        };
        let plan = kept
            .status
            .decision
            .as_ref()
            .map_or("", |one| one.plan.as_str());
        let done = is_rolled_out(self.one, plan);
        let rollout = if done {
            Rollout::Done
        } else {
            Rollout::UnderWay
        };
        let look = Look {
            now: self.now,
            rollout,
            slo,
        };
        match tiers::next(&mut kept.status, &look, limits) {
            Next::Stay => None,
            Next::Verify => {
                *over = phase_over(&kept.status, self.now, Outcome::Ok);
                tiers::verify(&mut kept.status, self.now);
                let watched = format!(
                    "all pods are new; the SLO is watched for {} s",
                    limits.verify.as_secs()
                );
                Some(("RolledOut", false, watched))
            }
            Next::Settle => {
                *over = phase_over(&kept.status, self.now, Outcome::Ok);
                let change = kept.status.change.clone().unwrap_or_default();
                tiers::settle(&mut kept.status);
                let how = match (change.phase, change.told) {
                    (Phase::RollingBack, _) => "it is as before".to_owned(),
                    (_, 0) => "it stays; whether its SLO is kept could not be told".to_owned(),
                    (_, told) => format!("it kept its SLO in {told} looks and stays"),
                };
                Some(("Settled", false, format!("{how}{}", self.bill(hands))))
            }
            Next::Back(why) => {
                let plan = hands.plan();
                let reason = if why == ChangeReason::NotReady {
                    "its new pods did not get ready in time".to_owned()
                } else {
                    format!("its SLO was missed: {words}")
                };
                let failed = Outcome::Failed(reason.clone());
                *over = phase_over(&kept.status, self.now, failed);
                tiers::back(&mut kept.status, (why, &reason), &plan, limits, self.now);
                if let Some(decided) = &mut kept.status.decision {
                    decided.plan.clone_from(&plan);
                }
                *patch = std::mem::take(&mut kept.undo);
                Some((
                    "RolledBack",
                    true,
                    format!("{reason}: as before (plan {plan})"),
                ))
            }
        }
    }

    fn bill(&self, hands: &Hands<'_>) -> String {
        let meta = &self.one.metadata;
        let (namespace, name) = (text(meta.namespace.as_ref()), text(meta.name.as_ref()));
        let bill = hands.state.bill_of_deployment(&namespace, &name);
        let money = hands.state.prices().map(|book| book.currency);
        match bill.zip(money) {
            Some((micros, money)) => format!(
                "; its pods hold {} {money} an hour",
                super::money::decimal(micros)
            ),
            None => String::new(),
        }
    }

    /// Writes all of it at once, if nobody has changed the Deployment since; whether that went.
    async fn write(
        &self,
        hands: &Hands<'_>,
        kept: &Kept,
        mut patch: Value,
        said: Option<Said>,
    ) -> bool {
        let meta = &self.one.metadata;
        let namespace = text(meta.namespace.as_ref());
        let name = text(meta.name.as_ref());
        if self.acts
            && said
                .as_ref()
                .is_none_or(|(reason, ..)| *reason != "TierProposed")
        {
            let mut notes = json!({STATE: serde_json::to_string(kept).unwrap_or_default()});
            if let Some((_, _, words)) = &said {
                notes[SAID] = words.as_str().into();
            }
            if let Some(decided) = &kept.status.decision {
                notes[PLAN] = decided.plan.as_str().into();
            }
            patch["metadata"] = json!({
                "uid": meta.uid, "resourceVersion": meta.resource_version, "annotations": notes,
            });
            let kind = GroupVersionKind::gvk("apps", "v1", "Deployment");
            let api: Api<DynamicObject> = Api::namespaced_with(
                hands.writer.client.clone(),
                &namespace,
                &ApiResource::from_gvk(&kind),
            );
            let params = PatchParams {
                field_manager: Some(NAME.into()),
                ..PatchParams::default()
            };
            let write = async {
                api.patch(&name, &params, &Patch::Strategic(patch))
                    .await
                    .map(drop)
            };
            if hands.writer.fenced(hands.term, "PATCH", write).await != Wrote::Done {
                return false;
            }
        }
        if let Some((reason, warns, words)) = said.filter(|_| hands.says) {
            let involved = json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "name": name, "namespace": namespace, "uid": meta.uid,
            });
            event_of(hands.term, hands.writer, &involved, (reason, warns), &words).await;
        }
        true
    }
}
