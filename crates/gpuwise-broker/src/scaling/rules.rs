//! A scaling policy as the controller takes it.

use super::sleeps;
use gpuwise_scale::controller::{RequestTokens, Rules};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    broker::{LeaseAsk, LeaseSize, SCALE_POLICY_SCHEMA, ScalePolicy},
    scale::RequestTokensPart,
};

type Wrong = (&'static str, String);

/// What the controller goes by.
///
/// # Errors
/// When a field cannot be so, or is beyond its bounds: which one, and what was expected.
pub fn rules(
    policy: &ScalePolicy,
    ask: &LeaseAsk,
    size: Option<&LeaseSize>,
) -> Result<Rules, Wrong> {
    let rules = as_said(policy, ask, size)?;
    match rules.problem() {
        Some(problem) => Err((problem.field, problem.to_string())),
        None => Ok(rules),
    }
}

/// The same without bounds: a policy that is in a log already was taken, and stays what it was.
pub(super) fn as_said(
    policy: &ScalePolicy,
    ask: &LeaseAsk,
    size: Option<&LeaseSize>,
) -> Result<Rules, Wrong> {
    if let Some(schema) = policy
        .schema
        .as_deref()
        .filter(|one| *one != SCALE_POLICY_SCHEMA)
    {
        let what = format!("{schema:?}: expected {SCALE_POLICY_SCHEMA}");
        return Err(("schema", what));
    }
    let usual = Rules::default();
    let most = policy
        .max
        .ok_or_else(|| ("max", "say how many replicas there may be".into()))?;
    let rules = Rules {
        period: time("period", policy.period.as_ref(), usual.period)?,
        rate: rate(policy, size)?,
        objective: share("objective", policy.objective)?.unwrap_or(usual.objective),
        wait: time("wait", policy.wait.as_ref(), usual.wait)?,
        start: time("start", policy.start.as_ref(), usual.start)?,
        wake: time("wake", policy.wake.as_ref(), usual.wake)?,
        warm_cost: share("warm_cost", policy.warm_cost)?,
        min: policy.min.unwrap_or(usual.min),
        max: most,
        idle: time("idle", policy.idle.as_ref(), usual.idle)?,
        tokens: tokens(policy, size)?,
    };
    LatencyTargets::of(policy)?;
    if most == 0 || most < rules.min {
        let what = format!("{most}: expected {} or more", rules.min.max(1));
        return Err(("max", what));
    }
    if rules.objective <= 0.0 || rules.objective >= 1.0 {
        return Err((
            "objective",
            "expected a share between 0 and 1, such as 0.99".into(),
        ));
    }
    if rules.warm_cost.is_some() && !sleeps(ask) {
        let what = "only what sleeps can be kept warm: suspend is to be sleep or cuda-checkpoint";
        return Err(("warm_cost", what.into()));
    }
    Ok(rules)
}

/// Requests a second that one replica serves: as said, else what it was sized for.
fn rate(policy: &ScalePolicy, size: Option<&LeaseSize>) -> Result<f64, Wrong> {
    let sized = || size?.sustained;
    let rate = policy.rate.or_else(sized);
    let rate = rate.ok_or_else(|| {
        let what = "say how many requests a second a replica serves within its SLO";
        ("rate", what.into())
    })?;
    if rate > 0.0 {
        return Ok(rate);
    }
    Err(("rate", format!("{rate:?}: expected a number above 0")))
}

/// Tokens of a request of those that the rate counts: as said, else those that it was sized for with that rate.
fn tokens(policy: &ScalePolicy, size: Option<&LeaseSize>) -> Result<Option<RequestTokens>, Wrong> {
    let sized = || size.filter(|_| policy.rate.is_none())?.tokens;
    let Some(RequestTokensPart { prompt, answer }) = policy.tokens.or_else(sized) else {
        return Ok(None);
    };
    for (field, count) in [("tokens.prompt", prompt), ("tokens.answer", answer)] {
        if !(count.is_finite() && count > 0.0) {
            return Err((field, format!("{count}: expected a number above 0")));
        }
    }
    Ok(Some(RequestTokens { prompt, answer }))
}

/// Beyond which a request is late that did not wait too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct LatencyTargets {
    /// From when it came until its first token.
    pub ttft: Option<Nanoseconds>,
    /// From one token to the next, in the mean.
    pub tpot: Option<Nanoseconds>,
}

impl LatencyTargets {
    pub(super) fn of(policy: &ScalePolicy) -> Result<Self, Wrong> {
        let of = |field, said: &Option<String>| {
            let said = said.as_ref();
            said.map(|_| time(field, said, Nanoseconds(0))).transpose()
        };
        Ok(Self {
            ttft: of("ttft", &policy.ttft)?,
            tpot: of("tpot", &policy.tpot)?,
        })
    }
}

fn time(
    field: &'static str,
    said: Option<&String>,
    usual: Nanoseconds,
) -> Result<Nanoseconds, Wrong> {
    let Some(text) = said else {
        return Ok(usual);
    };
    let wrong = |error: &dyn std::fmt::Display| (field, format!("{text:?}: {error}"));
    let time: Nanoseconds = text.parse().map_err(|error| wrong(&error))?;
    if time == Nanoseconds(0) {
        return Err(wrong(&"expected some time, such as 10s"));
    }
    Ok(time)
}

fn share(field: &'static str, said: Option<f64>) -> Result<Option<f64>, Wrong> {
    match said {
        Some(share) if !(0.0..=1.0).contains(&share) => {
            Err((field, format!("{share}: expected a share from 0 to 1")))
        }
        said => Ok(said),
    }
}
