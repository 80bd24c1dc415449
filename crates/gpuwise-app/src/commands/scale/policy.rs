//! The policy by which a broker scales a service as it was planned.

use gpuwise_domain::{deployment::Saved, scale::ScalePlan};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    broker::{SCALE_POLICY_SCHEMA, ScalePolicy},
    scale::RequestTokensPart,
};

/// Replicas beyond those that the trace needed: a policy's most is there for mistakes, not for rises.
const ROOM: u32 = 2;

/// As a JSON document; `saved` is the deployment that was planned.
pub(super) fn of(plan: &ScalePlan, saved: &Saved) -> String {
    let lengths = saved.workload.as_ref().map(|workload| &workload.lengths);
    let tokens = lengths.map(|lengths| RequestTokensPart {
        prompt: rounded(lengths.input.mean),
        answer: rounded(lengths.output.mean),
    });
    let most = (plan.most + plan.warm_most).max(1);
    let policy = ScalePolicy {
        schema: Some(SCALE_POLICY_SCHEMA.into()),
        min: Some(plan.service.min),
        idle: (plan.service.min == 0).then(|| seconds(plan.service.idle)),
        max: Some(most.saturating_mul(ROOM)),
        rate: Some(rounded(plan.service.rate)),
        tokens: tokens.filter(|tokens| tokens.prompt > 0.0 && tokens.answer > 0.0),
        objective: Some(plan.objective),
        wait: Some(seconds(plan.service.wait)),
        start: Some(time(plan.start)),
        wake: Some(seconds(plan.service.wake)),
        warm_cost: plan.service.warm_cost,
        ..ScalePolicy::default()
    };
    let mut text = serde_json::to_string_pretty(&policy).unwrap_or_default();
    text.push('\n');
    text
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn time(time: Nanoseconds) -> String {
    seconds(time.seconds().get())
}

fn seconds(seconds: f64) -> String {
    format!("{}s", rounded(seconds))
}
