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
    timeline::{HostSpan, Timeline},
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

/// Taking a tensor apart is followed by so many times the usual pause: Python makes an object of each part.
const AFTER_UNBIND: i64 = 20;

/// Fewer reads are no loop over a tensor.
const FEWEST: usize = 16;

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "cpu_scalar_reads",
        title: "numbers read one by one, CPU only",
        signal: "In a trace of the PyTorch profiler without any GPU work, 16 or more `aten::item` follow one another, with nothing but taking elements (`aten::select`, `aten::unbind`) and less than `cpu_pace_ns` between, for `cpu_scalar_reads_share` of the span or more.",
        advice: "One call for the whole tensor: `tolist()`, or a reduction.",
        gain: "of the median step, high: those loops; low: `certain_host` of them without the time that recording took.",
        source: "PyTorch performance tuning guide, avoid unnecessary synchronisation and item()",
    },
    thresholds: &[SHARE, PACE, CERTAIN_HOST],
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
    let (loops, reads) = loops(rank.timeline, cpu, rank.limits.of(&PACE) as i64);
    let ranges = Intervals::union(
        loops
            .iter()
            .map(|(first, last)| (first.start_ns, last.end_ns)),
    );
    let ranges = cpu.in_steps(&ranges);
    let Some((_, last)) = loops.first() else {
        return;
    };
    for &range in ranges.ranges() {
        ledger.charge_host(CAUSE, range, last.name);
    }
    ledger.note(CAUSE, "reads", reads as f64);
    ledger.gained(CAUSE, cpu.gained(&ranges, |_| (0.0, 0.0)));
}

/// What an operator is for in such a loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Take,
    TakeApart,
    Other,
}

/// The first and last operator of each loop, and how many numbers were read in all.
fn loops(timeline: &Timeline, cpu: &Cpu, pace: i64) -> (Vec<(HostSpan, HostSpan)>, usize) {
    let mut uses = Remembered::new(&timeline.names);
    let mut found = Vec::new();
    let (mut open, mut reads, mut all): (Vec<HostSpan>, usize, usize) = (Vec::new(), 0, 0);
    let mut before = Use::Other;
    let mut close = |open: &mut Vec<HostSpan>, reads: &mut usize| {
        if let (true, Some(first), Some(last)) = (*reads >= FEWEST, open.first(), open.last()) {
            found.push((*first, *last));
            all += *reads;
        }
        open.clear();
        *reads = 0;
    };
    for operator in &cpu.top {
        let used = uses.of(operator.name, |name| match name {
            "aten::item" | "aten::_local_scalar_dense" => Use::Read,
            "aten::unbind" => Use::TakeApart,
            "aten::select" | "aten::detach" => Use::Take,
            _ => Use::Other,
        });
        let pause = if before == Use::TakeApart {
            pace * AFTER_UNBIND
        } else {
            pace
        };
        let late = open
            .last()
            .is_some_and(|last| operator.start_ns - last.end_ns > pause);
        before = used;
        if late || used == Use::Other {
            close(&mut open, &mut reads);
        }
        if used != Use::Other {
            open.push(*operator);
            reads += usize::from(used == Use::Read);
        }
    }
    close(&mut open, &mut reads);
    (found, all)
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
