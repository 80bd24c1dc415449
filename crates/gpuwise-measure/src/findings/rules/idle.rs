//! The device and the host both rest.

use crate::findings::{
    ledger::Cause,
    lost::Lost,
    replay::Whole,
    rule::{CERTAIN_HOST, Profile, Row, Rule},
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};

pub(in crate::findings) const CAUSE: Cause = Cause("idle");

const SHARE: Row = Row {
    name: "idle_share",
    value: 0.05,
    unit: "share of the span",
    meaning: "idle time in which the host rests as well, from which idle is said",
    source: "-",
};

pub(in crate::findings) const REST: Row = Row {
    name: "rest_ns",
    value: 500000.0,
    unit: "ns",
    meaning: "no operator and no call for so long, and for 20 times the usual rest between operators, is idleness of the host",
    source: "-",
};

pub(in crate::findings) const REST_SHARE: Row = Row {
    name: "rest_share",
    value: 0.03,
    unit: "share of the step",
    meaning: "a rest is at least so much of the median step, or of the span where there are no steps",
    source: "-",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "idle",
        title: "host at rest",
        signal: "Idle time in which the host ran no operator and no call for `rest_ns` or longer, and for 20 times its usual rest, is `idle_share` or more.",
        advice: "Look what Python did there: evaluation, logging, checkpoints, waiting for input; lend the GPU if it is by design.",
        gain: "high: that idle time; low: `certain_host` of it.",
        source: "-",
    },
    thresholds: &[SHARE, REST, REST_SHARE, CERTAIN_HOST],

    find,
    whole: |host| Whole::Always(&host.rests),

    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let certain = profile.limits.of(&CERTAIN_HOST);

        let (share, first, count) = (lost.of_the_time(), lost.first(), lost.count);
        let statement = format!(
            "The GPU stood idle {share} in {count} rests of the host, which ran no operator; the longest before {first}"
        );
        let names = if profile.stack.is_pytorch() {
            " Profile with `with_stack=True` to have its names."
        } else {
            ""
        };
        let advice = format!(
            "See what the program did in these places: evaluation, logging, checkpoints, input.{names}"
        );
        lost.finding(certain, statement, &[&advice], Vec::new())
    })
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, check};
    #[test]
    fn host_at_rest() {
        let resting = |made: &mut Made, busy: bool| {
            for round in 0..40 {
                let at = round * 100 + if round >= 20 { 9000 } else { 0 };
                made.operator("aten::mm", at, at + 95);
                made.kernel("some_kernel", at + 8, at + 99, 6);
            }
            if busy {
                made.operator("aten::nonzero", 1995, 11_000);
            }
        };
        check(
            "idle",
            |made| resting(made, false),
            |made| resting(made, true),
        );
    }
}
