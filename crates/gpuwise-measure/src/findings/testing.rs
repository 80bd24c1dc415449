//! Timelines made by hand, on which each finding is tried in its own module; and what holds for all.

use crate::{
    figures::{Classifier, Input, Measured, Settings, of_profile, of_rank},
    findings::{self, Cause, Signals, Thresholds},
};
use gpuwise_domain::profile::{
    figures::ProfileFigures,
    finding::{Finding, Gain},
    timeline::{
        CopyShape, Detail, Device, Direction, HostSpan, Index, MemoryEvent, MemoryKind, NameId,
        Operands, Stream, Thread, Timeline, Work, WorkClass,
    },
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The rules of the catalogue.
pub(super) fn classifier() -> Classifier {
    let text = include_str!("../../../../catalogue/kernels.toml");
    let rules = gpuwise_read::kernel_rules::read("kernels.toml", text).expect("usable rules");
    Classifier::new(&rules)
}

/// Measures a whole timeline.
pub(super) fn measured(timeline: &Timeline, names: &Classifier) -> Measured {
    of_rank(
        &Input {
            file: "test",
            rank: None,
            timeline,
        },
        &Settings {
            names,
            window: None,
            device: None,
            peaks: &BTreeMap::new(),
        },
    )
}

/// A timeline in the making; times in microseconds.
pub(super) struct Made(pub(super) Timeline);

impl Made {
    pub(super) fn new() -> Self {
        Self(Timeline {
            devices: vec![Device {
                compute_capability: Some((8, 0)),
                total_memory: Some(1 << 30),
                ..Device::default()
            }],
            streams: vec![
                Stream {
                    device: 0,
                    number: 7,
                },
                Stream {
                    device: 0,
                    number: 20,
                },
            ],
            threads: vec![Thread::default()],
            ..Timeline::default()
        })
    }

    pub(super) fn name(&mut self, text: &str) -> NameId {
        let known = self.0.names.iter().find(|(_, name)| *name == text);
        let known = known.map(|(id, _)| id);
        known.unwrap_or_else(|| self.0.names.add(text))
    }

    pub(super) fn span(&mut self, name: &str, from: i64, to: i64) -> HostSpan {
        HostSpan {
            start_ns: from * 1000,
            end_ns: to * 1000,
            name: self.name(name),
            thread: 0,
            operands: Index::NONE,
        }
    }

    pub(super) fn operator(&mut self, name: &str, from: i64, to: i64) -> Index {
        let span = self.span(name, from, to);
        self.0.operators.push(span);
        Index::of(self.0.operators.len() - 1)
    }

    pub(super) fn range(&mut self, name: &str, from: i64, to: i64) {
        let span = self.span(name, from, to);
        self.0.annotations.push(span);
    }

    pub(super) fn call(&mut self, name: &str, from: i64, to: i64) -> Index {
        let span = self.span(name, from, to);
        self.0.calls.push(span);
        Index::of(self.0.calls.len() - 1)
    }

    pub(super) fn work(&mut self, name: &str, from: i64, to: i64, call: Index) -> &mut Work {
        let name = self.name(name);
        self.0.work.push(Work {
            start_ns: from * 1000,
            end_ns: to * 1000,
            name,
            stream: 0,
            call,
            operator: Index::NONE,
            detail: Index::NONE,
            class: WorkClass::Kernel,
        });
        self.0.work.last_mut().expect("just added")
    }

    /// A kernel, launched `before` it starts by a call of 5 µs.
    pub(super) fn kernel(&mut self, name: &str, from: i64, to: i64, before: i64) -> &mut Work {
        let call = self.call("cudaLaunchKernel", from - before, from - before + 5);
        self.work(name, from, to, call)
    }

    pub(super) fn detail(&mut self, detail: Detail) -> Index {
        self.0.details.push(detail);
        Index::of(self.0.details.len() - 1)
    }

    pub(super) fn copy(&mut self, from: i64, to: i64, bytes: u64, source: MemoryKind) {
        let detail = self.detail(Detail::Copy(CopyShape {
            bytes: Some(bytes),
            direction: Some(Direction::HostToDevice),
            source,
            target: MemoryKind::Device,
        }));
        let call = self.call("cudaMemcpyAsync", from - 8, from - 3);
        let work = self.work("Memcpy HtoD", from, to, call);
        work.detail = detail;
        work.class = WorkClass::Copy;
    }
}

/// What a whole timeline is charged.
pub(super) fn charged(timeline: &Timeline, measured: &Measured) -> Signals {
    let (names, limits) = (classifier(), Thresholds::default());
    let settings = Settings {
        names: &names,
        window: None,
        device: None,
        peaks: &BTreeMap::new(),
    };
    findings::signals(
        timeline,
        measured.figures.steps.as_ref(),
        &settings,
        &limits,
    )
}

pub(super) fn found(ranks: &[Made]) -> Vec<Finding> {
    let (names, limits) = (classifier(), Thresholds::default());
    let (mut all, mut signals) = (Vec::new(), Vec::new());
    for Made(timeline) in ranks {
        let one = measured(timeline, &names);
        signals.push(charged(timeline, &one));
        all.push(one);
    }
    findings::of_profile(&signals, &of_profile(all), &limits)
}

pub(super) fn classes(ranks: &[Made]) -> Vec<String> {
    found(ranks).into_iter().map(|one| one.class).collect()
}

/// The first finding of `fires` is `class`; `quiet` has none of it.
pub(super) fn check(class: &str, fires: impl FnOnce(&mut Made), quiet: impl FnOnce(&mut Made)) {
    let (mut yes, mut no) = (Made::new(), Made::new());
    fires(&mut yes);
    quiet(&mut no);
    let (said, not) = (classes(&[yes]), classes(&[no]));
    assert_eq!(said.first().map(String::as_str), Some(class), "{said:?}");
    assert!(!not.iter().any(|one| one == class), "{not:?}");
}

/// Ten kernels of 100 µs, each after a gap of 100 µs in which `between` happens.
pub(super) fn gaps(made: &mut Made, between: impl Fn(&mut Made, i64)) {
    for round in 0..10 {
        let at = round * 200;
        between(made, at);
        made.kernel("some_kernel", at + 100, at + 200, 6);
    }
}

/// Copies of 2 MB, each followed by a kernel.
pub(super) fn copying(made: &mut Made, source: MemoryKind) {
    for round in 0..10 {
        let at = round * 1000 + 10;
        made.copy(at, at + 500, 2_000_000, source);
        made.kernel("some_kernel", at + 501, at + 989, 300);
    }
}

/// Matrix products on units other than tensor cores.
pub(super) fn products(made: &mut Made, operand: &str, capability: (u32, u32)) {
    made.0.devices[0].compute_capability = Some(capability);
    made.0.operands.push(Operands {
        types: vec![operand.to_owned(); 2],
        ..Operands::default()
    });
    for round in 0..10 {
        let operator = made.operator("aten::mm", round * 100, round * 100 + 50);
        made.0.operators[operator.get().expect("added")].operands = Index::of(0);
        let work = made.kernel(
            "ampere_sgemm_128x64_tn",
            round * 100 + 10,
            round * 100 + 109,
            500,
        );
        work.operator = operator;
    }
}

/// What the allocator holds of a device of 1 GiB.
pub(super) fn holding(made: &mut Made, allocated: u64, reserved: u64) {
    made.kernel("some_kernel", 10, 100, 6);
    for at in 0..3 {
        made.0.memory.push(MemoryEvent {
            at_ns: at,
            device: Some(0),
            bytes: 512,
            allocated: Some(allocated),
            reserved: Some(reserved),
        });
    }
}

#[test]
fn nothing_is_said_of_nothing() {
    assert!(classes(&[Made::new()]).is_empty());
    assert!(
        findings::of_profile(&[], &ProfileFigures::default(), &Thresholds::default()).is_empty()
    );
}

proptest! {
    /// However work, calls and ranges lie: no more idle time is charged than there is, and gains are
    /// shares.
    #[test]
    fn charges_are_bounded(
        work in proptest::collection::vec((0_i64..3000, 0_i64..300, 0_i64..3000, 0_i64..900), 1..40),
        waits in proptest::collection::vec((0_i64..3000, 0_i64..900), 0..8),
        loads in proptest::collection::vec((0_i64..3000, 0_i64..900), 0..8),
    ) {
        let mut made = Made::new();
        for (start, long, call, held) in work {
            let call = made.call("cudaLaunchKernel", call, call + held);
            made.work("some_kernel", start, start + long, call);
        }
        for (start, long) in waits {
            made.call("cudaDeviceSynchronize", start, start + long);
        }
        for (start, long) in loads {
            made.range("enumerate(DataLoader)#_X.__next__", start, start + long);
        }
        let measured = measured(&made.0, &classifier());
        let idle = measured.figures.whole.idle_ns;
        let signals = charged(&made.0, &measured);
        let of_idle = ["data_loading", "synchronisation", "pageable_copies", "first_use", "idle", "host_bound"].map(Cause);
        let charged: i64 = of_idle.iter().filter_map(|cause| signals.charges.get(cause)).map(|one| one.ns).sum();
        prop_assert!(charged <= idle, "{} of {}", charged, idle);
        for finding in found(&[made]) {
            let Gain::Time { low, high } = finding.gain else { continue };
            prop_assert!(0.0 <= low && low <= high && high <= 1.0);
            prop_assert!(findings::definitions().any(|one| one.class == finding.class));
        }
    }
}
