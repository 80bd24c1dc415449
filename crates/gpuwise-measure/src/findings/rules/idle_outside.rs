//! The GPU idles outside of the trace, which a trace of some steps does not show.

use crate::findings::{
    beside::{finding, of_devices},
    lost::{percent, time},
    rule::{Profile, Row, Rule, evidence},
};
use gpuwise_domain::{
    profile::{
        finding::{Finding, FindingDefinition},
        joined::{Joined, JoinedSeries},
    },
    telemetry::Quantity,
};

const SHARE: Row = Row {
    name: "idle_outside_share",
    value: 0.1,
    unit: "share of the time recorded outside of the trace",
    meaning: "idle time outside of the trace from which it is said",
    source: "-",
};

const IDLE: Row = Row {
    name: "idle_outside_use",
    value: 0.05,
    unit: "ratio",
    meaning: "use below which a sample is idle",
    source: "-",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "idle_outside",
        title: "idle outside of the trace",
        signal: "By the use of the trace's GPUs that was recorded before and after it (`--with`), they stood idle (below `idle_outside_use`) for `idle_outside_share` or more of that time.",
        advice: "Look at what the job does there: start, evaluation, checkpoints, waiting for data or for others.",
        gain: "not told: the trace does not show that time.",
        source: "-",
    },
    thresholds: &[SHARE, IDLE],
    find,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    let joined = &profile.figures.joined;
    let limit = profile.limits.of(&SHARE);
    // The first of these that is recorded; the driver's use is that of any kernel.
    let uses = [
        Quantity::SmActive,
        Quantity::EngineActive,
        Quantity::GpuUtil,
    ];
    let series = uses
        .into_iter()
        .map(|quantity| of_devices(joined, quantity));
    let Some(series) = series.into_iter().find(|series| !series.is_empty()) else {
        return Vec::new();
    };
    let idle = profile.limits.of(&IDLE);
    let (mut stood, mut all) = ((0_i64, 0_i64), 0_i64);
    for one in series {
        let (own, longest, recorded) = outside(joined, one, idle);
        stood = (own.saturating_add(stood.0), longest.max(stood.1));
        all = recorded.saturating_add(all);
    }
    let share = stood.0 as f64 / (all as f64).max(1.0);
    if all == 0 || share < limit {
        return Vec::new();
    }
    let statement = format!(
        "Outside of the trace its GPUs stood idle for {} of the time that was recorded, for up to {} at a stretch",
        percent(share),
        time(stood.1 as f64)
    );
    let mut said = finding(
        "idle_outside",
        statement,
        &["A trace of that time shows why: evaluation, checkpoints, start, or waiting for data."],
    );
    said.evidence = vec![
        evidence(
            "idle_outside",
            share,
            "share of the time recorded outside of the trace",
            Some(limit),
        ),
        evidence("longest_ns", stood.1 as f64, "ns", None),
        evidence("recorded_outside_ns", all as f64, "ns", None),
    ];
    vec![said]
}

/// Idle time outside of the span, the longest stretch of it, and all that was recorded there, in ns. A
/// sample counts until the next.
fn outside(joined: &Joined, one: &JoinedSeries, idle: f64) -> (i64, i64, i64) {
    let samples = &one.series.samples;
    let (mut stood, mut longest, mut all, mut stretch) = (0_i64, 0_i64, 0_i64, 0_i64);
    for (sample, next) in samples.iter().zip(samples.iter().skip(1)) {
        let whole = next.at_ns.saturating_sub(sample.at_ns);
        let within = (next.at_ns.min(joined.span_ns) - sample.at_ns.max(0)).max(0);
        let beyond = whole - within;
        all = beyond.saturating_add(all);
        if sample.value < idle {
            stood = beyond.saturating_add(stood);
            stretch = beyond.saturating_add(stretch);
            longest = longest.max(stretch);
        } else {
            stretch = 0;
        }
    }
    (stood, longest, all)
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{beside, classes_beside};
    use gpuwise_domain::{profile::joined::RecordedMetric::Gpu, telemetry::Quantity};

    #[test]
    fn idle_outside() {
        let check = |uses: &[f64], expected: bool| {
            let found = classes_beside(&beside(&[(Gpu(Quantity::SmActive), uses.to_vec())]));
            assert_eq!(
                found.contains(&"idle_outside".into()),
                expected,
                "{uses:?}: {found:?}"
            );
        };
        // Samples lie a second apart, from the first work on; the trace takes two.
        check(&[0.9, 0.9, 0.9, 0.0, 0.0, 0.0, 0.9], true);
        check(&[0.9, 0.9, 0.9, 0.9, 0.8, 0.9, 0.9], false);
        check(&[0.0, 0.0, 0.9, 0.9, 0.9, 0.9, 0.9], false);
    }
}
