//! What a Deployment of somebody's says of itself in annotations, and what is kept of it there.

use super::MeterAsk;
use crate::{
    resources::{Decided, GpuWorkloadStatus, WorkloadSlo},
    tiers::Limits,
};
use jiff::SignedDuration;
use kube::api::DynamicObject;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What becomes of a Deployment is kept here.
pub(super) const STATE: &str = "gpuwise.dev/tier-state";
/// The same in words.
pub(super) const SAID: &str = "gpuwise.dev/tier-reason";

/// What is kept of a Deployment beside what is kept of a GpuWorkload: how to go back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Kept {
    pub status: GpuWorkloadStatus,
    pub undo: Value,
    /// When it was last moved (RFC 3339): what an audit says of the days before is not of what it has now.
    pub moved: String,
}

/// An annotation of a Deployment.
pub(super) fn note<'a>(one: &'a DynamicObject, name: &str) -> Option<&'a str> {
    one.metadata
        .annotations
        .as_ref()?
        .get(name)
        .map(String::as_str)
}

pub(super) fn slo(one: &DynamicObject) -> WorkloadSlo {
    WorkloadSlo {
        ttft: note(one, "gpuwise.dev/slo-ttft").map(str::to_owned),
        tpot: note(one, "gpuwise.dev/slo-tpot").map(str::to_owned),
    }
}

pub(super) fn kept(one: &DynamicObject) -> Kept {
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
        warm: 0,
        ready: 0,
        starting: 0,
    })
}

pub(super) fn limits(one: &DynamicObject) -> Limits {
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
