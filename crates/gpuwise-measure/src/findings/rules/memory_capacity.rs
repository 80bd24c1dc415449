//! Nearly all memory of a device is held.

use crate::findings::{
    lost::percent,
    rule::{Profile, Row, Rule, evidence},
    work::{DeviceMemory, device_memory},
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition, Gain};

const FULL: Row = Row {
    name: "memory_full",
    value: 0.9,
    unit: "share of the device",
    meaning: "memory taken from the driver from which memory capacity is said",
    source: "pytorch/kineto tb_plugin torch_tb_profiler memory view",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "memory_capacity",
        title: "memory nearly full",
        signal: "Memory that the allocator took from the driver is `memory_full` of the device or more.",
        advice: "Activation checkpointing, sharding, a smaller batch, or a tier with more memory.",
        gain: "bytes above `memory_full` of the device.",
        source: "pytorch/kineto tb_plugin memory view",
    },
    thresholds: &[FULL],

    find,
    ends_run: true,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    let full = profile.limits.of(&FULL);
    device_memory(profile.figures)
        .filter_map(|one| said(&one, full))
        .collect()
}

fn said(one: &DeviceMemory<'_>, full: f64) -> Option<Finding> {
    let (reserved, capacity, share) = (one.reserved, one.capacity, one.pressure());
    let above = reserved.saturating_sub((full * capacity as f64) as u64);
    (share >= full).then(|| Finding {
        class: RULE.definition.class.to_owned(),
        scope: one.scope(),
        statement: format!(
            "The allocator holds {} of the GPU's memory at its peak: a larger batch or sequence ends in out of memory",
            percent(share)
        ),
        evidence: vec![
            evidence("reserved_share", share, "share of the device", Some(full)),
            evidence("peak_reserved", reserved as f64, "bytes", None),
            evidence("capacity", capacity as f64, "bytes", None),
        ],
        places: vec![one.place()],
        gain: Gain::Memory {
            low: above,
            high: above,
        },
        advice: vec![
            "Activation checkpointing, a smaller micro-batch with accumulation, sharded optimizer and weights, or a GPU with more memory.".to_owned(),
        ],
    })
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{check, holding};

    #[test]
    fn memory_capacity() {
        let gib = 1_u64 << 30;
        check(
            "memory_capacity",
            |made| holding(made, gib / 100 * 93, gib / 100 * 95),
            |made| holding(made, gib / 100 * 60, gib / 100 * 61),
        );
    }
}
