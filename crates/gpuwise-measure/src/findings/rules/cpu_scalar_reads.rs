//! Without a GPU: a tensor is read number by number.

use crate::{
    figures::{intervals::Intervals, names::Remembered},
    findings::{
        cpu::Cpu,
        ledger::{Cause, Ledger},
        lost::Lost,
        rule::{CERTAIN_HOST, Profile, Rank, Row, Rule, evidence},
    },
};
use gpuwise_domain::profile::{
    finding::{Finding, FindingDefinition},
    timeline::{NameId, Timeline},
};

const CAUSE: Cause = Cause("cpu_scalar_reads");

const SHARE: Row = Row {
    name: "cpu_scalar_reads_share",
    value: 0.05,
    unit: "share of the span",
    meaning: "time in loops that read tensors number by number, from which it is said",
    source: "-",
};

const PACE: Row = Row {
    name: "cpu_pace_ns",
    value: 50000.0,
    unit: "ns",
    meaning: "operators that follow one another within this are called in a loop of Python that does little else",
    source: "-",
};

pub(super) const RECORDING: Row = Row {
    name: "cpu_recording",
    value: 3.0,
    unit: "times",
    meaning: "loops of small operators take at most so many times as long while the profiler records them",
    source: "loops of aten::item and of AdamW with and without the profiler, PyTorch 2.15 on two cores: 2.1 to 2.8 times",
};

/// Taking a tensor apart is followed by so many times the usual pause: Python makes an object of each part,
/// and drops it.
const MAKING: i64 = 20;

/// Fewer reads are no loop over a tensor.
const FEWEST: usize = 16;

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "cpu_scalar_reads",
        title: "numbers read one by one, CPU only",
        signal: "In a trace of the PyTorch profiler without any GPU work, 16 or more `aten::item` follow one another, with nothing but taking elements (`aten::select`, `aten::unbind`) and less than `cpu_pace_ns` between, for `cpu_scalar_reads_share` of the span or more.",
        advice: "One call for the whole tensor: `tolist()`, or a reduction.",
        gain: "high: those loops, up to the operators before and after them, in the steps in which they take the most, with the rest of the step faster by what recording each of its operators took at most (`cpu_recording`); low, in those in which it takes the least: `certain_host` of them at a `cpu_recording`th of what was recorded.",
        source: "PyTorch performance tuning guide, avoid unnecessary synchronisation and item()",
    },
    thresholds: &[SHARE, PACE, RECORDING, CERTAIN_HOST],
    charge,
    find,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let reads: f64 = lost.noted("reads").iter().sum();
        let statement = format!(
            "CPU only: {reads:.0} numbers were read from tensors one by one, for {}",
            lost.of_the_time()
        );
        let certain = profile.limits.of(&CERTAIN_HOST);
        let more = vec![evidence("scalar_reads", reads, "count", None)];
        let advice = "Replace `x.item() for x in values` by `x for x in values.tolist()`, or compute what is wanted of them on the tensor (`values.sum().item()`).";
        lost.finding(certain, statement, &[advice], more)
    })
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let Some(cpu) = rank.cpu else { return };
    let loops = Loops::of(rank.timeline, cpu, rank.limits.of(&PACE) as i64);
    let ranges = cpu.in_steps(&loops.ranges);
    let Some(name) = loops.name else { return };
    for &range in ranges.ranges() {
        ledger.charge_host(CAUSE, range, name);
    }
    let slowed = rank.limits.of(&RECORDING);
    ledger.note(CAUSE, "reads", loops.reads as f64);
    ledger.gained(CAUSE, cpu.gained(&ranges, slowed, |_| (0.0, 0.0)));
}

/// What an operator is for in such a loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Take,
    TakeApart,
    Other,
}

/// The loops over elements of a trace.
struct Loops {
    /// Each up to the operators before and after it: Python makes and drops the parts of the tensor there.
    ranges: Intervals,
    /// Numbers that were read in all.
    reads: usize,
    name: Option<NameId>,
}

impl Loops {
    fn of(timeline: &Timeline, cpu: &Cpu, pace: i64) -> Self {
        let mut uses = Remembered::new(&timeline.names);
        let uses: Vec<Use> = cpu
            .top
            .iter()
            .map(|operator| uses.of(operator.name, used))
            .collect();
        let (mut ranges, mut reads, mut name) = (Vec::new(), 0, None);
        let mut from = 0;
        while from < uses.len() {
            let to = end(cpu, &uses, from, pace);
            let within = uses.get(from..to).unwrap_or_default();
            let read = within.iter().filter(|one| **one == Use::Read).count();
            if read >= FEWEST
                && let Some(range) = around(cpu, from, to, pace)
            {
                ranges.push(range);
                reads += read;
                name = cpu.top.get(to - 1).map(|last| last.name);
            }
            from = to.max(from + 1);
        }
        Self {
            ranges: Intervals::union(ranges),
            reads,
            name,
        }
    }
}

/// The place after the last operator of a loop that may begin at one.
fn end(cpu: &Cpu, uses: &[Use], from: usize, pace: i64) -> usize {
    let mut at = from;
    while let (Some(operator), Some(used)) = (cpu.top.get(at), uses.get(at)) {
        let before = at.checked_sub(1).filter(|before| *before >= from);
        let late = before.is_some_and(|before| {
            let apart = uses.get(before) == Some(&Use::TakeApart);
            let pause = if apart { pace * MAKING } else { pace };
            cpu.top
                .get(before)
                .is_some_and(|last| operator.start_ns - last.end_ns > pause)
        });
        if late || *used == Use::Other {
            break;
        }
        at += 1;
    }
    at
}

/// From the operator before a loop to the one after it, where they are near.
fn around(cpu: &Cpu, from: usize, to: usize, pace: i64) -> Option<(i64, i64)> {
    let (first, last) = (cpu.top.get(from)?, cpu.top.get(to.checked_sub(1)?)?);
    let before = from.checked_sub(1).and_then(|before| cpu.top.get(before));
    let near = pace * MAKING;
    let start = before.map_or(first.start_ns, |one| one.end_ns.max(first.start_ns - near));
    let end = cpu
        .top
        .get(to)
        .map_or(last.end_ns, |next| next.start_ns.min(last.end_ns + near));
    Some((start, end))
}

fn used(name: &str) -> Use {
    match name {
        "aten::item" | "aten::_local_scalar_dense" => Use::Read,
        "aten::unbind" => Use::TakeApart,
        "aten::select" | "aten::detach" => Use::Take,
        _ => Use::Other,
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, check};

    /// A step in which an operator works and as many numbers are read.
    fn steps(made: &mut Made, reads: i64) {
        for round in 0..10 {
            let at = round * 1000;
            made.range("ProfilerStep#1", at, at + 1000);
            for read in 0..reads {
                made.operator("aten::item", at + read * 10, at + read * 10 + 8);
            }
            made.operator("aten::mm", at + reads * 10, at + 1000);
        }
    }

    #[test]
    fn cpu_scalar_reads() {
        check(
            "cpu_scalar_reads",
            |made| steps(made, 50),
            |made| steps(made, 2),
        );
    }
}
