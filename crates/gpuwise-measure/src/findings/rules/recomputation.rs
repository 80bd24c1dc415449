//! Activations are computed twice though memory would hold them.

use crate::{
    figures::{intervals::Intervals, names::Remembered},
    findings::{
        ledger::{Cause, Ledger},
        lost::Lost,
        rule::{CERTAIN_KERNEL, Profile, Rank, Row, Rule, evidence},
    },
};
use gpuwise_domain::profile::{
    finding::{Finding, FindingDefinition},
    timeline::{HostSpan, Timeline},
};

const CAUSE: Cause = Cause("recomputation");

const SHARE: Row = Row {
    name: "recomputation_share",
    value: 0.03,
    unit: "share of the span",
    meaning: "kernels of the forward pass that run again though memory has room, from which it is said",
    source: "-",
};

const FREE: Row = Row {
    name: "recomputation_free",
    value: 0.1,
    unit: "share of the device",
    meaning: "memory that is left free when activations are kept",
    source: "-",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "recomputation",
        title: "recomputation that memory would not need",
        signal: "Kernels launched under `CheckpointFunctionBackward` before its own backward pass, or under a module's forward within the backward pass (`with_modules=True` or `with_stack=True`), take `recomputation_share` of the span or more, and at the peak more than `recomputation_free` of the device was not reserved. Needs the allocator's events (`profile_memory=True`) and the device's memory; without them nothing is said.",
        advice: "Checkpoint fewer layers, as many as memory needs.",
        gain: "high: their time, as far as what they allocate fits beside the peak; low: `certain_kernel` of it.",
        source: "Chen et al., Training Deep Nets with Sublinear Memory Cost (2016); PyTorch documentation, torch.utils.checkpoint",
    },
    thresholds: &[SHARE, FREE, CERTAIN_KERNEL],
    charge,
    find,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let least = |figure: &str| {
            lost.noted(figure)
                .iter()
                .copied()
                .fold(f64::INFINITY, f64::min)
        };
        let (room, fits) = (least("room"), least("fits").min(1.0));
        let statement = format!(
            "Work of the forward pass ran again for {}, though {:.1} GB were free at the peak",
            lost.of_the_time(),
            room / 1e9
        );
        let advice = if fits >= 1.0 {
            "Memory holds all activations: leave `torch.utils.checkpoint` out (`gradient_checkpointing_disable()` in transformers).".to_owned()
        } else {
            format!(
                "Memory holds about {:.0} % of what is computed again: keep the activations of so many layers and call `torch.utils.checkpoint` for the others, or choose by operator (`checkpoint(…, context_fn=…)` with `create_selective_checkpoint_contexts`).",
                fits * 100.0
            )
        };
        let certain = profile.limits.of(&CERTAIN_KERNEL);
        let more = vec![evidence("room", room, "bytes", None)];
        lost.finding(certain, statement, &[&advice], more)
    })
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let Some(room) = room(rank) else { return };
    let again = again(rank.timeline);
    if again.is_empty() || room <= 0.0 {
        return;
    }
    let needed = allocated(rank.timeline, &again).max(1.0);
    let fits = (room / needed).min(1.0);
    let kernels: Vec<(usize, f64, f64)> = rank
        .ordered
        .kernels(rank.timeline)
        .filter(|kernel| {
            let launched = rank.timeline.call_of(kernel.work).map(|call| call.start_ns);
            launched.is_some_and(|at| again.overlap_range(at, at + 1) > 0)
                && !ledger.is_spared(kernel.place)
        })
        .map(|kernel| {
            let part = kernel.duration() as f64 * fits;
            (kernel.place, part, part)
        })
        .collect();
    ledger.charge_spared(CAUSE, rank.alone, kernels.into_iter());
    ledger.note(CAUSE, "room", room);
    ledger.note(CAUSE, "fits", fits);
}

/// Bytes of a device beyond the peak and what stays free; of the one that has least.
fn room(rank: &Rank<'_>) -> Option<f64> {
    let free = 1.0 - rank.limits.of(&FREE);
    let devices = rank.timeline.devices.iter().filter_map(|device| {
        let events = rank
            .timeline
            .memory
            .iter()
            .filter(|one| one.device == Some(device.number));
        let peak = events.filter_map(|one| one.reserved).max()?;
        Some(device.total_memory? as f64 * free - peak as f64)
    });
    devices.min_by(f64::total_cmp)
}

/// When the host ran the forward pass again.
fn again(timeline: &Timeline) -> Intervals {
    let mut kinds = Remembered::new(&timeline.names);
    let mut kind = |span: &HostSpan| {
        kinds.of(span.name, |name| {
            (
                name.contains("CheckpointFunctionBackward"),
                name.contains("evaluate_function"),
            )
        })
    };
    let (mut checkpoints, mut nodes) = (Vec::new(), Vec::new());
    for operator in &timeline.operators {
        match kind(operator) {
            // Nodes of the backward pass carry the checkpoint's name as well.
            (true, false) => checkpoints.push(*operator),
            (_, true) => nodes.push(*operator),
            _ => {}
        }
    }
    let within = |one: &HostSpan, other: &HostSpan| {
        one.thread == other.thread && one.start_ns >= other.start_ns && one.end_ns <= other.end_ns
    };
    nodes.sort_by_key(|node| node.start_ns);
    let mut ranges = Vec::new();
    for checkpoint in &checkpoints {
        let after = nodes.partition_point(|node| node.start_ns <= checkpoint.start_ns);
        let first = nodes.get(after).filter(|node| within(node, checkpoint));
        ranges.push((
            checkpoint.start_ns,
            first.map_or(checkpoint.end_ns, |node| node.start_ns),
        ));
    }
    for module in &timeline.modules {
        let after = nodes.partition_point(|node| node.start_ns <= module.start_ns);
        let near = nodes
            .get(after.saturating_sub(4)..after)
            .unwrap_or_default();
        if near.iter().any(|node| within(module, node)) {
            ranges.push((module.start_ns, module.end_ns));
        }
    }
    Intervals::union(ranges)
}

/// Bytes that were taken on devices meanwhile and not given back within the same range.
fn allocated(timeline: &Timeline, ranges: &Intervals) -> f64 {
    let mut events: Vec<(i64, i64)> = timeline
        .memory
        .iter()
        .filter(|event| event.device.is_some())
        .map(|event| (event.at_ns, event.bytes))
        .collect();
    events.sort_unstable();
    let of = |&(start, end): &(i64, i64)| {
        let from = events.partition_point(|event| event.0 < start);
        let to = events.partition_point(|event| event.0 < end);
        let within = events.get(from..to).unwrap_or_default();
        within.iter().map(|event| event.1).sum::<i64>().max(0) as f64
    };
    ranges.ranges().iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{EARLY, Made, check};
    use gpuwise_domain::profile::timeline::MemoryEvent;

    /// Three tenths of the work are done again, while so many bytes of a GiB are reserved.
    fn checkpointed(made: &mut Made, reserved: u64) {
        for round in 0..10 {
            let at = round * 1000;
            let host = at - EARLY;
            made.operator("CheckpointFunctionBackward", host, host + 100);
            made.operator(
                "autograd::engine::evaluate_function: MmBackward0",
                host + 50,
                host + 90,
            );
            made.kernel("some_kernel", at, at + 300, EARLY - 10);
            made.kernel("some_kernel", at + 300, at + 1000, EARLY - 360);
            made.0.memory.push(MemoryEvent {
                at_ns: (host + 10) * 1000,
                device: Some(0),
                bytes: 1 << 20,
                allocated: Some(reserved),
                reserved: Some(reserved),
            });
        }
    }

    #[test]
    fn recomputation() {
        check(
            "recomputation",
            |made| checkpointed(made, 1 << 28),
            |made| checkpointed(made, 1 << 30),
        );
        check(
            "recomputation",
            |made| checkpointed(made, 1 << 28),
            |made| {
                checkpointed(made, 1 << 28);
                made.0.memory.clear();
            },
        );
    }
}
