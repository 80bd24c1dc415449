//! The device waits because the host had waited for it.

use crate::findings::{
    host::Wait,
    ledger::Cause,
    lost::Lost,
    rule::{CERTAIN_HOST, Profile, Row, Rule},
    stack::Framework,
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};

pub(in crate::findings) const CAUSE: Cause = Cause("synchronisation");

const SHARE: Row = Row {
    name: "synchronisation_share",
    value: 0.05,
    unit: "share of the span",
    meaning: "idle time that synchronising calls cause, from which it is said",
    source: "Nsight Systems User Guide, expert system: synchronisation APIs",
};

pub(in crate::findings) const RESTART: Row = Row {
    name: "restart_ns",
    value: 100000.0,
    unit: "ns",
    meaning: "after a waiting call the host needs up to so long to reach the next launch",
    source: "-",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "synchronisation",
        title: "synchronisation",
        signal: "Idle time within calls that wait for the device, and idle time after them up to what they had held the host back while the device was busy, is `synchronisation_share` or more.",
        advice: "Take `.item()`, `.cpu()`, printing and cudaDeviceSynchronize out of the loop, or do them every n steps; copy without blocking from pinned memory.",
        gain: "high: that idle time; low: `certain_host` of it.",
        source: "Nsight Systems expert system, synchronisation rules",
    },
    thresholds: &[SHARE, RESTART, CERTAIN_HOST],

    find,
    waits: Some(Wait::Synchronisation),

    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let certain = profile.limits.of(&CERTAIN_HOST);

        let (share, first) = (lost.of_the_time(), lost.first());
        let statement = format!(
            "The GPU stood idle {share} because the host waited for it, mostly in {first}, and had to start anew"
        );
        let advice = format!(
            "Calls that waited: {}. Take {} and explicit synchronisation out of the loop, or do them every n steps.",
            lost.listed(),
            match profile.stack.framework {
                Some(Framework::PyTorch) => "`.item()`, `.cpu()`, `print` of tensors",
                Some(Framework::Xla) => "`block_until_ready`, `device_get`, `print` of arrays",
                None => "blocking copies",
            }
        );
        lost.finding(certain, statement, &[&advice], Vec::new())
    })
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{check, gaps};
    #[test]
    fn synchronisation() {
        check(
            "synchronisation",
            |made| {
                gaps(made, |made, at| {
                    made.call("cudaStreamSynchronize", at - 80, at + 3);
                    made.operator("aten::item", at - 90, at + 5);
                });
            },
            |made| {
                gaps(made, |made, at| {
                    made.operator("aten::mm", at, at + 92);
                });
            },
        );
    }
}
