//! The device waits for the framework on the host.

use crate::findings::{
    ledger::Cause,
    lost::Lost,
    rule::{CERTAIN_HOST, Profile, Row, Rule},
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};

pub(in crate::findings) const CAUSE: Cause = Cause("host_bound");

const SHARE: Row = Row {
    name: "host_bound_share",
    value: 0.1,
    unit: "share of the span",
    meaning: "idle time while the host ran the framework from which host bound is said",
    source: "TensorFlow profiler guide: more than 10 to 15 % of a step idle is worth a look",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "host_bound",
        title: "host bound",
        signal: "Idle time in which the host ran the framework before the next launch, with no other cause, is `host_bound_share` or more.",
        advice: "CUDA graphs, torch.compile, larger batches, less Python between launches; a faster core for the launching thread.",
        gain: "high: that idle time; low: `certain_host` of it.",
        source: "AMD-AGI/TraceLens cpu_idle_analysis; PyTorch performance tuning guide",
    },
    thresholds: &[SHARE, CERTAIN_HOST],
    
    find,
    
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let low = lost.high() * profile.limits.of(&CERTAIN_HOST);

        let (share, first, count) = (lost.of_the_time(), lost.first(), lost.count);
        let statement = format!(
            "The GPU stood idle {share} in {count} gaps until the host launched the next work, most of it before {first}"
        );
        let advice = format!(
            "Launch in advance or all at once: CUDA graphs, `torch.compile(mode=\"reduce-overhead\")`, larger batches. Most of the waiting is before {}.",
            lost.listed()
        );
        lost.finding(low, statement, &[&advice], Vec::new())
    })
}

#[cfg(test)]
mod tests {
use crate::findings::testing::{check, gaps, Made};
#[test]
fn host_bound() {
    let operator = |made: &mut Made, at| {
        made.operator("aten::mm", at, at + 92);
    };
    check(
        "host_bound",
        |made| gaps(made, operator),
        |made| {
            for round in 0..10 {
                made.kernel("some_kernel", round * 100 + 1, round * 100 + 100, 500);
            }
        },
    );
}
}
