//! The device waits for calls that load modules, allocate or compile.

use crate::findings::{
    ledger::Cause,
    lost::Lost,
    replay::Whole,
    rule::{CERTAIN_HOST, Profile, Row, Rule},
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};

pub(in crate::findings) const CAUSE: Cause = Cause("first_use");

const SHARE: Row = Row {
    name: "first_use_share",
    value: 0.05,
    unit: "share of the span",
    meaning: "idle time in such calls from which first use is said",
    source: "-",
};

/// Longer calls do it.
pub(in crate::findings) const CALL: Row = Row {
    name: "first_use_call_ns",
    value: 300000.0,
    unit: "ns",
    meaning: "a launching or allocating call longer than this loads modules, allocates or compiles",
    source: "-",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "first_use",
        title: "first use",
        signal: "Idle time in calls that launch or allocate and last `first_use_call_ns` or longer (modules are loaded, libraries initialised, algorithms tried) is `first_use_share` or more.",
        advice: "Warm up before measuring; load modules eagerly (CUDA_MODULE_LOADING=EAGER); keep allocations (no cudaFree in the loop); cache compiled kernels. It is paid once.",
        gain: "high: that idle time; low: `certain_host` of it. A long run pays it once.",
        source: "NVIDIA CUDA programming guide, lazy loading",
    },
    thresholds: &[SHARE, CALL, CERTAIN_HOST],

    find,
    whole: |host| Whole::Always(&host.long_calls),

    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let certain = profile.limits.of(&CERTAIN_HOST);

        let (share, first) = (lost.of_the_time(), lost.first());
        let statement = format!(
            "The GPU stood idle {share} in long calls such as {first}, which load or allocate on first use"
        );
        let advice = format!(
            "Longest: {}. Warm up before the loop{}, keep allocations; a long run pays this once.",
            lost.listed(),
            if profile.stack.is_nvidia() {
                ", set `CUDA_MODULE_LOADING=EAGER`"
            } else {
                ""
            }
        );
        lost.finding(certain, statement, &[&advice], Vec::new())
    })
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, check};
    use gpuwise_domain::profile::timeline::MemoryKind;
    #[test]
    fn first_use() {
        let launch = |made: &mut Made, length: i64| {
            made.kernel("first", 10, 20, 6);
            let call = made.call("cudaLaunchKernel", 30, 30 + length);
            made.work("second", 34 + length, 1000 + length, call);
        };
        check(
            "first_use",
            |made| launch(made, 5000),
            |made| launch(made, 200),
        );
    }

    /// A copy of a few bytes, behind nothing, whose call takes 5 ms: it did not wait for the device.
    #[test]
    fn a_long_call_for_a_short_copy_behind_nothing() {
        let copying = |made: &mut Made, behind: i64| {
            made.kernel("first", 10, behind, 6);
            made.copy(5100, 5101, 4, MemoryKind::Pinned);
            let call = made.call("cudaMemcpyAsync", 100, 5103);
            made.0.work.last_mut().expect("a copy").call = call;
            made.kernel("second", 5150, 6000, 6);
        };
        check(
            "first_use",
            |made| copying(made, 20),
            |made| copying(made, 5090),
        );
    }
}
