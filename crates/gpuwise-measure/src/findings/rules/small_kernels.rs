//! The device waits between small kernels that come as fast as they can be launched.

use crate::findings::{
    ledger::{Cause, Ledger},
    lost::Lost,
    replay::Whole,
    rule::{CERTAIN_HOST, Profile, Rank, Row, Rule, evidence},
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};

pub(in crate::findings) const CAUSE: Cause = Cause("small_kernels");

const SHARE: Row = Row {
    name: "small_kernels_share",
    value: 0.05,
    unit: "share of the span",
    meaning: "waiting between small kernels that come at the pace of launches, from which small kernels is said",
    source: "AMD-AGI/TraceLens short-kernel analysis",
};

pub(in crate::findings) const SMALL: Row = Row {
    name: "small_kernel_ns",
    value: 10000.0,
    unit: "ns",
    meaning: "a kernel shorter than this is small: it takes about as long as its launch",
    source: "NVIDIA, Getting Started with CUDA Graphs (2019): launch overheads of microseconds; AMD-AGI/TraceLens counts kernels under 10 us",
};

pub(in crate::findings) const PACE: Row = Row {
    name: "launch_pace_ns",
    value: 15000.0,
    unit: "ns",
    meaning: "launches that follow one another within this come as fast as an eager framework can launch",
    source: "-",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "small_kernels",
        title: "small kernels",
        signal: "Waiting before kernels shorter than `small_kernel_ns` whose launches follow one another within `launch_pace_ns` is `small_kernels_share` or more: the host launches as fast as it can, and there are too many launches.",
        advice: "Fuse them (torch.compile, foreach optimizers, fused kernels) or replay them as a CUDA graph.",
        gain: "high: the trace played again with one launch for those that follow one another so; low: `certain_host` of what it gains without the waiting.",
        source: "AMD-AGI/TraceLens short-kernel analysis",
    },
    thresholds: &[SHARE, SMALL, PACE, CERTAIN_HOST],
    charge,
    find,
    whole: |host| Whole::AtMost(&host.launching),

    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let certain = profile.limits.of(&CERTAIN_HOST);
        let (share, first) = (lost.of_the_time(), lost.first());
        let statement = format!(
            "The GPU waited {share} between small kernels launched as fast as the host can, most of them from {first}"
        );
        let advice = format!("{}; first {}.", profile.stack.fuse(), lost.listed());
        let count = |figure: &str| {
            let count = lost.noted(figure).iter().sum();
            evidence(figure, count, "count", None)
        };
        let more = vec![count("kernels"), count("small_kernels")];
        lost.finding(certain, statement, &[&advice], more)
    })
}

/// Waiting is charged with the gaps; here kernels are counted.
fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let small = rank.limits.of(&SMALL);
    let (mut all, mut smaller) = (0.0, 0.0);
    for kernel in rank.ordered.kernels(rank.timeline) {
        all += 1.0;
        if (kernel.duration() as f64) < small {
            smaller += 1.0;
        }
    }
    ledger.note(CAUSE, "kernels", all);
    ledger.note(CAUSE, "small_kernels", smaller);
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, check};
    #[test]
    fn small_kernels() {
        let every = |made: &mut Made, pace: i64| {
            for round in 0..100 {
                made.operator("aten::add", round * pace, round * pace + 5);
                made.kernel("small", round * pace + 5, round * pace + 7, 4);
            }
        };
        check(
            "small_kernels",
            |made| every(made, 8),
            |made| every(made, 90),
        );
    }
}
