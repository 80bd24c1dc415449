//! Deployments of somebody's that ask to be on the GPU that they need: by the patch of `gpuwise audit`, watched and
//! taken back as GpuWorkloads are.

use super::{
    super::{
        meter::Measured,
        served::is_rolled_out,
        watches::{Own, TIERED},
        writes::Wrote,
    },
    Audited, Hands, MeterAsk,
    say::event_of,
};
use crate::{
    manifests::NAME,
    resources::{ChangeReason, Decided, GpuWorkloadStatus, WorkloadSlo},
    tiers::{self, Limits, Look, Next, Rollout, SloSeen, Verdict},
};
use jiff::{SignedDuration, Timestamp};
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What becomes of a Deployment is kept here.
const STATE: &str = "gpuwise.dev/tier-state";
/// The same in words.
const SAID: &str = "gpuwise.dev/tier-reason";
const PLAN: &str = "gpuwise.dev/plan";

/// What is kept of a Deployment beside what is kept of a GpuWorkload: how to go back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    status: GpuWorkloadStatus,
    undo: Value,
    /// When it was last moved (RFC 3339): what an audit says of the days before is not of what it has now.
    moved: String,
}

/// What was last proposed of Deployments, by uid: said once.
#[derive(Default)]
pub(super) struct Proposed(BTreeMap<String, String>);

/// An annotation of a Deployment.
fn note<'a>(one: &'a DynamicObject, name: &str) -> Option<&'a str> {
    one.metadata
        .annotations
        .as_ref()?
        .get(name)
        .map(String::as_str)
}

fn slo(one: &DynamicObject) -> WorkloadSlo {
    WorkloadSlo {
        ttft: note(one, "gpuwise.dev/slo-ttft").map(str::to_owned),
        tpot: note(one, "gpuwise.dev/slo-tpot").map(str::to_owned),
    }
}

fn kept(one: &DynamicObject) -> Kept {
    let text = note(one, STATE);
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// What is to be measured of a Deployment.
pub(super) fn ask(one: &DynamicObject) -> Option<MeterAsk> {
    Some(MeterAsk {
        uid: one.metadata.uid.clone()?,
        namespace: one.metadata.namespace.clone()?,
        name: one.metadata.name.clone()?,
        decided: Decided::default(),
        slo: slo(one),
        scaling: None,
    })
}

fn limits(one: &DynamicObject) -> Limits {
    let said = |name: &str| note(one, name).and_then(|text| text.parse::<i64>().ok());
    let seconds = |name: &str, usual| {
        SignedDuration::from_secs(
            said(name)
                .filter(|s| (1..=604_800).contains(s))
                .unwrap_or(usual),
        )
    };
    Limits {
        rollout: seconds("gpuwise.dev/tier-rollout-seconds", 1860),
        verify: seconds("gpuwise.dev/tier-verify-seconds", 600),
        avoid: SignedDuration::from_hours(7 * 24),
    }
}

impl Proposed {
    pub(super) async fn look(
        &mut self,
        hands: &mut Hands<'_>,
        fresh: Option<&Measured>,
        audit: Option<&Result<Vec<Audited>, String>>,
    ) {
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
                now: Timestamp::now(),
            };
            step.carry(hands, slo, audit, &mut self.0).await;
        }
    }
}

fn text(of: Option<&String>) -> String {
    of.cloned().unwrap_or_default()
}

struct Step<'a> {
    one: &'a DynamicObject,
    acts: bool,
    now: Timestamp,
}

impl Step<'_> {
    async fn carry(
        &self,
        hands: &mut Hands<'_>,
        slo: Option<SloSeen>,
        audit: Option<&Result<Vec<Audited>, String>>,
        proposed: &mut BTreeMap<String, String>,
    ) {
        let mut kept = kept(self.one);
        let before = kept.clone();
        let limits = limits(self.one);
        let mut patch = json!({});
        let mut said: Option<(&'static str, bool, String)> = None;
        if self.acts {
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
            match tiers::next(&mut kept.status, &look, &limits) {
                Next::Stay => {}
                Next::Verify => {
                    tiers::verify(&mut kept.status, self.now);
                    let watched = format!(
                        "all pods are new; the SLO is watched for {} s",
                        limits.verify.as_secs()
                    );
                    said = Some(("RolledOut", false, watched));
                }
                Next::Settle => {
                    let told = kept.status.change.as_ref().map_or(0, |change| change.told);
                    tiers::settle(&mut kept.status);
                    let bill = self.bill(hands);
                    said = Some((
                        "Settled",
                        false,
                        format!("it stays: its SLO was told in {told} looks{bill}"),
                    ));
                }
                Next::Back(why) => {
                    let plan = hands.plan();
                    let reason = if why == ChangeReason::NotReady {
                        "its new pods did not get ready in time".to_owned()
                    } else {
                        format!("its SLO was missed: {words}")
                    };
                    tiers::back(&mut kept.status, (why, &reason), &plan, &limits, self.now);
                    if let Some(decided) = &mut kept.status.decision {
                        decided.plan.clone_from(&plan);
                    }
                    patch = std::mem::take(&mut kept.undo);
                    said = Some((
                        "RolledBack",
                        true,
                        format!("{reason}: as before (plan {plan})"),
                    ));
                }
            }
        }
        if said.is_none() && kept.status.change.is_none() {
            said = self.tier(hands, audit, &mut kept, &mut patch, proposed);
        }
        if kept == before && said.is_none() {
            return;
        }
        self.write(hands, &kept, patch, said).await;
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

    /// What an audit makes of it.
    fn tier(
        &self,
        hands: &mut Hands<'_>,
        audit: Option<&Result<Vec<Audited>, String>>,
        kept: &mut Kept,
        patch: &mut Value,
        proposed: &mut BTreeMap<String, String>,
    ) -> Option<(&'static str, bool, String)> {
        let meta = &self.one.metadata;
        let all = audit?.as_ref().ok()?;
        let found = all.iter().find(|one| {
            Some(&one.namespace) == meta.namespace.as_ref()
                && Some(&one.name) == meta.name.as_ref()
                && one.kind == "Deployment"
                && one.verdict == Verdict::TooLarge
        })?;
        let title = found.title.clone()?;
        let change = found.patch.clone();
        // How many there are is for others to say.
        let usable = change.filter(|change| change.pointer("/spec/replicas").is_none());
        let recreate = self.one.data.pointer("/spec/strategy/type") == Some(&json!("Recreate"));
        let failed = |one: &crate::resources::Avoided| {
            one.gpu == title
                && one
                    .until
                    .parse::<Timestamp>()
                    .is_ok_and(|until| until > self.now)
        };
        let pause = limits(self.one).avoid;
        let since = kept.moved.parse::<Timestamp>();
        let lately = since.is_ok_and(|since| self.now.duration_since(since) < pause);
        let avoided = lately || kept.status.avoided.iter().any(failed);
        let slo = slo(self.one);
        let none = slo.ttft.is_none() && slo.tpot.is_none();
        let why_not = match (&usable, self.acts) {
            _ if avoided => return None,
            (None, _) => Some("it cannot be changed in place"),
            (_, false) => {
                Some("label it gpuwise.dev/tier=auto, under an operator that acts, and it is done")
            }
            _ if recreate => Some("its strategy is Recreate: nobody would answer meanwhile"),
            _ if none => Some(
                "without an SLO nobody could take it back: annotate it gpuwise.dev/slo-ttft or gpuwise.dev/slo-tpot",
            ),
            _ => None,
        };
        let saves = found.saving.map_or(String::new(), |micros| {
            format!("; saves {} USD an hour", super::money::decimal(micros))
        });
        let words = format!("{}: {title}{saves}", found.reason);
        if let Some(why) = why_not {
            let words = format!("{words}; {why}");
            let uid = meta.uid.clone().unwrap_or_default();
            let known = proposed.insert(uid, words.clone());
            return (known.as_ref() != Some(&words)).then_some(("TierProposed", false, words));
        }
        let plan = hands.plan();
        let mut change = usable?;
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

    /// Writes all of it at once, if nobody has changed the Deployment since.
    async fn write(
        &self,
        hands: &Hands<'_>,
        kept: &Kept,
        mut patch: Value,
        said: Option<(&'static str, bool, String)>,
    ) {
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
                return;
            }
        }
        if let Some((reason, warns, words)) = said.filter(|_| hands.says) {
            let involved = json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "name": name, "namespace": namespace, "uid": meta.uid,
            });
            event_of(hands.term, hands.writer, &involved, (reason, warns), &words).await;
        }
    }
}
