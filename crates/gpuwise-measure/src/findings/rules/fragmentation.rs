//! Much of the memory that is held lies in no tensor.

use crate::findings::{
    lost::percent,
    rule::{Profile, Row, Rule, evidence},
    stack::Stack,
    work::{DeviceMemory, device_memory},
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition, Gain};

const SLACK: Row = Row {
    name: "fragmentation_slack",
    value: 0.1,
    unit: "share of reserved bytes",
    meaning: "reserved bytes in no tensor, at the peak, from which fragmentation is said",
    source: "PyTorch documentation, CUDA semantics, memory management",
};

const PRESSURE: Row = Row {
    name: "fragmentation_pressure",
    value: 0.5,
    unit: "share of the device",
    meaning: "slack below this use of the device costs nobody anything",
    source: "-",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "fragmentation",
        title: "allocator fragmentation",
        signal: "Of the reserved bytes `fragmentation_slack` or more lie in no tensor at the peak, on a device of which `fragmentation_pressure` or more is reserved.",
        advice: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, fixed shapes, fewer allocations of odd sizes.",
        gain: "high: those bytes; low: half of them.",
        source: "PyTorch documentation, CUDA semantics, memory management",
    },
    thresholds: &[SLACK, PRESSURE],

    find,

    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    let limits = (profile.limits.of(&SLACK), profile.limits.of(&PRESSURE));
    device_memory(profile.figures)
        .filter_map(|one| said(&one, one.memory.slack_at_peak?, limits, profile.stack))
        .collect()
}

fn said(
    one: &DeviceMemory<'_>,
    slack: u64,
    limits: (f64, f64),
    software: Stack,
) -> Option<Finding> {
    let variable = if software.is_amd() {
        "PYTORCH_HIP_ALLOC_CONF"
    } else {
        "PYTORCH_CUDA_ALLOC_CONF"
    };
    let share = slack as f64 / (one.reserved as f64).max(1.0);
    let pressure = one.pressure();
    (share >= limits.0 && pressure >= limits.1).then(|| Finding {
        class: RULE.definition.class.to_owned(),
        scope: one.scope(),
        statement: format!(
            "{} of the reserved memory lie in no tensor at the peak, on a GPU of which {} are reserved",
            percent(share),
            percent(pressure)
        ),
        evidence: vec![
            evidence("slack_share", share, "share of reserved bytes", Some(limits.0)),
            evidence("reserved_share", pressure, "share of the device", Some(limits.1)),
            evidence("slack_at_peak", slack as f64, "bytes", None),
        ],
        places: vec![one.place()],
        gain: Gain::Memory {
            low: slack / 2,
            high: slack,
        },
        advice: vec![format!(
            "`{variable}=expandable_segments:True`; fixed shapes (pad to buckets); no large tensors freed and allocated anew in the loop."
        )],
    })
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{check, holding};

    #[test]
    fn fragmentation() {
        let gib = 1_u64 << 30;
        check(
            "fragmentation",
            |made| holding(made, gib / 100 * 40, gib / 100 * 85),
            |made| holding(made, gib / 100, gib / 10),
        );
    }
}
