//! The device waits for the framework on the host.

use crate::findings::{
    ledger::Cause,
    lost::Lost,
    replay::Whole,
    rule::{Profile, Row, Rule},
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};

pub(in crate::findings) const CAUSE: Cause = Cause("host_bound");

const CERTAIN: Row = Row {
    name: "certain_launch",
    value: 0.44,
    unit: "share of the gain",
    meaning: "what launching all at once is known to bring at least of the time that the device waits for launches: the least favourable case, kernels of 2.9 µs one behind another from C, takes 3.8 µs each, and 3.4 µs in a graph",
    source: "NVIDIA, Getting Started with CUDA Graphs (2019)",
};

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
        gain: "high: the trace played again without the host's time outside of waits; low: `certain_launch` of what it gains without its time in those gaps.",
        source: "AMD-AGI/TraceLens cpu_idle_analysis; PyTorch performance tuning guide",
    },
    thresholds: &[SHARE, CERTAIN],

    find,
    whole: |host| Whole::AtMost(&host.framework),

    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let certain = profile.limits.of(&CERTAIN);

        let (share, first, count) = (lost.of_the_time(), lost.first(), lost.count);
        let statement = format!(
            "The GPU stood idle {share} in {count} gaps until the host launched the next work, most of it before {first}"
        );
        let advice = format!(
            "Launch in advance or all at once: {}, larger batches. Most of the waiting is before {}.",
            profile.stack.launch_less(),
            lost.listed()
        );
        lost.finding(certain, statement, &[&advice], Vec::new())
    })
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, check, gaps};
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
