//! Timelines made by hand, on which each finding is tried in its own module; and what holds for all.

use crate::{
    figures::{Classifier, Input, Measured, Settings, of_profile, of_rank},
    findings::{
        self, Signals, Thresholds,
        host::Host,
        ledger::Removed,
        replay::{Replay, Whole},
        rule::Rank,
        work::Ordered,
    },
    joined::{Axis, assign, join},
    operators::Gpus,
};
use gpuwise_domain::profile::{
    figures::{ProfileFigures, RankFigures},
    finding::{Finding, Gain},
    joined::{Joined, RecordedMetric, RecordedSample, RecordedSeries, Recording, RecordingClock},
    timeline::{
        CopyShape, Detail, Device, Direction, HostSpan, Index, Lack, MemoryEvent, MemoryKind,
        NameId, Needed, Operands, Stream, Thread, Timeline, Work, WorkClass,
    },
};
use gpuwise_domain::telemetry::GpuIdentity;
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

/// Hands over a whole timeline as rules see it.
pub(super) fn with_rank<T>(timeline: &Timeline, look: impl FnOnce(&Rank<'_>) -> T) -> T {
    let (names, limits) = (classifier(), Thresholds::default());
    let settings = Settings {
        names: &names,
        window: None,
        device: None,
        peaks: &BTreeMap::new(),
    };
    let ordered = Ordered::new(timeline, &settings);
    let host = Host::new(timeline, &ordered, &names, &limits, ordered.span());
    look(&Rank {
        timeline,
        ordered: &ordered,
        host: &host,
        limits: &limits,
        alone: ordered.alone(timeline),
        names: &names,
        reach: None,
        cpu: None,
    })
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

/// A GPU that works for two seconds, and series of it and its host beside, a sample each second from its
/// first work on.
pub(super) fn beside(series: &[(RecordedMetric, Vec<f64>)]) -> ProfileFigures {
    let mut made = Made::new();
    made.kernel("some_kernel", 10, 2_000_010, 6);
    let one = measured(&made.0, &classifier());
    let mut figures = of_profile(vec![one]);
    figures.joined = recorded(&made.0, &figures.ranks, series);
    figures
}

/// Series a sample each second, laid beside a timeline whose first work ran in 2033.
pub(super) fn recorded(
    timeline: &Timeline,
    ranks: &[RankFigures],
    series: &[(RecordedMetric, Vec<f64>)],
) -> Joined {
    const START: i64 = 2_000_000_000_000_000_000;
    let series = series.iter().map(|(metric, values)| RecordedSeries {
        gpu: matches!(metric, RecordedMetric::Gpu(_)).then(GpuIdentity::default),
        metric: metric.clone(),
        of: String::new(),
        samples: (0..)
            .zip(values)
            .map(|(second, value)| RecordedSample {
                at_ns: START + second * 1_000_000_000,
                value: *value,
            })
            .collect(),
    });
    let recording = Recording {
        form: "CSV".into(),
        clock: RecordingClock::Wall { zoneless: false },
        series: series.collect(),
        notes: Vec::new(),
    };
    let figures: Vec<&RankFigures> = ranks.iter().collect();
    let axis = Axis::of(&[timeline], &figures, Some(START));
    let mut file = join(&axis, "beside.csv", recording, None).expect("it overlaps");
    assign(&mut file, ranks);
    Joined {
        span_ns: axis.span_ns,
        started_at_ns: axis.started_at_ns,
        files: vec![file],
    }
}

/// What is found of a profile by what was recorded beside it alone.
pub(super) fn classes_beside(figures: &ProfileFigures) -> Vec<String> {
    let found = findings::of_profile(&[], figures, &Thresholds::default());
    found.into_iter().map(|one| one.class).collect()
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

/// A kernel of an operator on BF16 tensors of these shapes.
pub(super) fn shaped(
    made: &mut Made,
    operator: &str,
    shapes: &[&[u64]],
    kernel: &str,
    from: i64,
    to: i64,
) {
    made.0.operands.push(Operands {
        types: vec!["c10::BFloat16".to_owned(); shapes.len()],
        shapes: shapes.iter().map(|shape| shape.to_vec()).collect(),
        values: Vec::new(),
    });
    let operands = Index::of(made.0.operands.len() - 1);
    let index = made.operator(operator, from - EARLY, from - EARLY + 10);
    made.0.operators[index.get().expect("added")].operands = operands;
    made.kernel(kernel, from, to, EARLY).operator = index;
}

/// Launched so long before that no kernel waits for the host.
pub(super) const EARLY: i64 = 100_000;

/// The gain of a finding on a GPU of the catalogue, at least and at most.
pub(super) fn found_on(gpu: &str, made: Made, class: &str) -> (f64, f64) {
    let found = all_on(gpu, made);
    let finding = found.iter().find(|one| one.class == class);
    match finding.map(|finding| finding.gain) {
        Some(Gain::Time { low, high }) => (low, high),
        other => panic!("{class}: {other:?}"),
    }
}

/// What is found on a GPU of the catalogue.
pub(super) fn classes_on(gpu: &str, made: Made) -> Vec<String> {
    all_on(gpu, made).into_iter().map(|one| one.class).collect()
}

fn all_on(gpu: &str, made: Made) -> Vec<Finding> {
    let (signals, one) = signals_on(gpu, made);
    findings::of_profile(&[signals], &of_profile(vec![one]), &Thresholds::default())
}

fn signals_on(gpu: &str, mut made: Made) -> (Signals, Measured) {
    let text = include_str!("../../../../catalogue/gpus.toml");
    let rows = gpuwise_read::catalogue::read_gpus("gpus.toml", text).expect("usable rows");
    let row = rows.iter().find(|row| row.name == gpu).expect("a row");
    made.0.devices[0].compute_capability = row
        .compute_capability
        .map(|(major, minor)| (u32::from(major), u32::from(minor)));
    let (names, limits) = (classifier(), Thresholds::default());
    let one = measured(&made.0, &names);
    let settings = Settings {
        names: &names,
        window: None,
        device: None,
        peaks: &BTreeMap::new(),
    };
    let gpus = Gpus {
        rows: &BTreeMap::new(),
        stated: Some(row),
        measured: &|_, _| None,
    };
    (
        findings::signals_on(&gpus, &made.0, None, &settings, &limits),
        one,
    )
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

/// What holds of the charges of every rank: no moment is charged twice, no more idle time is charged
/// than there is, and places with what lies elsewhere sum to their amount.
fn laws(signals: &Signals, idle_ns: i64) -> Result<(), String> {
    let charged: i64 = signals.charges.values().map(|one| one.idle_ns).sum();
    if charged > idle_ns {
        return Err(format!("{charged} ns of {idle_ns} idle are charged"));
    }
    let mut idle = Vec::new();
    for (cause, one) in &signals.charges {
        let here: i64 = one.places.iter().filter_map(|place| place.lost_ns).sum();
        let all = one.count as usize <= one.places.len();
        if here > one.ns || all && here != one.ns {
            return Err(format!("{cause:?}: {here} ns in places, {} in all", one.ns));
        }
        if one.idle_ns == one.ns {
            idle.extend(one.places.iter().map(|p| (p.start_ns, p.end_ns)));
        }
        if one
            .gained
            .is_some_and(|g| g.low_ns > g.high_ns || g.high_ns > signals.span_ns)
        {
            return Err(format!("{cause:?}: {:?} of {}", one.gained, one.ns));
        }
    }
    idle.sort_unstable();
    let twice = idle.windows(2).find(|pair| pair[0].1 > pair[1].0);
    twice.map_or(Ok(()), |pair| Err(format!("charged twice: {pair:?}")))
}

#[test]
fn the_profilers_own_pause_is_nobodys_fault() {
    // 6 ms of a buffer flush between two kernels of an otherwise busy rank.
    let with = |name: &str| {
        let mut made = Made::new();
        for round in 0..10 {
            let at = round * 1000 + if round >= 5 { 6000 } else { 0 };
            made.kernel(
                "some_kernel",
                at + 10,
                at + 1000,
                if round == 5 { 6 } else { 500 },
            );
        }
        let span = made.span(name, 5000, 11_004);
        made.0.overhead.push(span);
        made
    };
    let idle = |made: &Made| measured(&made.0, &classifier()).figures.whole.idle;
    let own = with("CUPTI Buffer flush");
    let figures = idle(&own);
    assert_eq!(figures.overhead_ns, 6_004_000);
    assert!(figures.longest[0].end_ns - figures.longest[0].start_ns < 100_000);
    assert_eq!(classes(&[own]), Vec::<String>::new());
    // The driver loads code without a profiler, too.
    let driver = with("Lazy Function Loading");
    assert_eq!(idle(&driver).overhead_ns, 0);
    assert_eq!(classes(&[driver]), ["host_bound"]);
}

#[test]
fn nothing_is_found_without_kernels_or_names() {
    let mut made = Made::new();
    gaps(&mut made, |made, at| {
        made.operator("aten::mm", at, at + 92);
    });
    for needed in [Needed::Kernels, Needed::Names] {
        let mut lacking = Made(made.0.clone());
        lacking.0.lacks.push(Lack {
            needed,
            place: "the table".to_owned(),
        });
        assert!(classes(&[lacking]).is_empty());
    }
    // Copies alone say nothing of how idle a device is.
    for work in &mut made.0.work {
        work.class = WorkClass::Copy;
    }
    let figures = measured(&made.0, &classifier()).figures;
    assert_eq!(figures.whole.window, None);
    assert!(classes(&[made]).is_empty());
}

proptest! {
    /// However work, calls, ranges and the profiler's overhead lie, the laws of charging hold; and a
    /// rank that is played again without a change is as long as it was.
    #[test]
    fn charges_are_bounded(
        work in proptest::collection::vec((0_i64..3000, 0_i64..300, 0_i64..3000, 0_i64..900, 0_u32..2), 1..40),
        waits in proptest::collection::vec((0_i64..3000, 0_i64..900), 0..8),
        loads in proptest::collection::vec((0_i64..3000, 0_i64..900), 0..8),
        overheads in proptest::collection::vec((0_i64..3000, 0_i64..900), 0..4),
        copies in proptest::collection::vec((0_i64..3000, 20_i64..900), 0..6),
    ) {
        let mut made = Made::new();
        for (start, long, call, held, stream) in work {
            let call = made.call("cudaLaunchKernel", call, call + held);
            let name = if stream == 0 { "some_kernel" } else { "ncclDevKernel_AllReduce" };
            made.work(name, start, start + long, call).stream = stream;
        }
        for (start, long) in waits {
            made.call("cudaDeviceSynchronize", start, start + long);
        }
        for (start, long) in loads {
            made.range("enumerate(DataLoader)#_X.__next__", start, start + long);
        }
        for (start, long) in overheads {
            let span = made.span("Buffer Flush", start, start + long);
            made.0.overhead.push(span);
        }
        for (start, long) in copies {
            made.copy(start, start + long, 2_000_000, MemoryKind::Pageable);
        }
        let measured = measured(&made.0, &classifier());
        let signals = charged(&made.0, &measured);
        prop_assert_eq!(laws(&signals, measured.figures.whole.idle_ns), Ok(()));
        for finding in found(&[made]) {
            let Gain::Time { low, high } = finding.gain else { continue };
            prop_assert!(0.0 <= low && low <= high && high <= 1.0);
            prop_assert!(findings::definitions().any(|one| one.class == finding.class));
            let of = |name: &str| finding.evidence.iter().find(|e| e.figure == name).map_or(0.0, |e| e.value);
            let here: i64 = finding.places.iter().filter_map(|place| place.lost_ns).sum();
            prop_assert!((here as f64 + of("elsewhere_ns") - of("lost_ns")).abs() <= finding.places.len() as f64);
        }
    }

    /// Whatever kernels follow one another, no fix is charged one that another would spare, nor more of it
    /// than there is.
    #[test]
    fn a_kernel_is_spared_once(kernels in proptest::collection::vec((0_usize..11, 3_i64..300), 1..24)) {
        const KINDS: [(&str, &[&[u64]], &str); 11] = [
            ("aten::pow", &[&[16, 512, 512]], "vectorized_elementwise_kernel<pow_tensor_scalar>"),
            ("aten::mean", &[&[16, 512, 512]], "reduce_kernel<MeanOps<float>>"),
            ("aten::rsqrt", &[&[16, 512, 1]], "vectorized_elementwise_kernel<rsqrt_kernel_cuda>"),
            ("aten::copy_", &[&[16, 512, 512], &[16, 512, 512]], "elementwise_kernel<direct_copy_kernel>"),
            ("aten::bmm", &[&[16, 512, 64], &[16, 64, 512]], "cutlass_80_tensorop_bf16_gemm_align8"),
            ("aten::_softmax", &[&[16, 512, 512]], "softmax_warp_forward"),
            ("aten::bmm", &[&[16, 512, 512], &[16, 512, 64]], "sm90_xmma_gemm_bf16bf16"),
            ("aten::mul", &[&[16, 512, 512], &[]], "vectorized_elementwise_kernel<MulFunctor>"),
            ("aten::add", &[&[16, 512, 512], &[16, 512, 512]], "vectorized_elementwise_kernel<CUDAFunctor_add>"),
            ("aten::mm", &[&[8, 4099], &[4099, 4099]], "cutlass_80_tensorop_bf16_gemm_align1"),
            ("aten::_flash_attention_forward", &[&[1, 512, 16, 64]], "flash::flash_fwd_kernel<Flash_fwd_kernel_traits>"),
        ];
        let mut made = Made::new();
        let mut at = 0;
        for (kind, long) in &kernels {
            let (operator, shapes, kernel) = KINDS[*kind];
            shaped(&mut made, operator, shapes, kernel, at, at + long);
            at += long;
        }
        made.range("Optimizer.step#Adam.step", -EARLY + 500, -EARLY + 1500);
        let (signals, measured) = signals_on("H100 SXM5 80GB", made);
        prop_assert_eq!(laws(&signals, measured.figures.whole.idle_ns), Ok(()));
        let spares = ["unfused_attention", "unfused_optimizer", "unfused_normalization", "unfused_elementwise", "gemm_shapes", "older_kernels", "small_batch"];
        let charges = signals.charges.iter().filter(|(cause, _)| spares.contains(&cause.class()));
        let mut places: Vec<(i64, i64)> = Vec::new();
        for place in charges.flat_map(|(_, charged)| &charged.places) {
            prop_assert!(place.lost_ns.is_some_and(|ns| ns <= place.end_ns - place.start_ns));
            places.push((place.start_ns, place.end_ns));
        }
        let all = places.len();
        places.sort_unstable();
        places.dedup();
        prop_assert_eq!(all, places.len());
    }

    /// Launches in order, calls that wait for what was launched: played again without a change, every
    /// piece lies where it lay.
    #[test]
    fn nothing_changes_without_a_change(
        work in proptest::collection::vec((1_i64..200, 1_i64..300, 0_u32..2, 0_u32..5), 1..40),
    ) {
        let mut made = Made::new();
        let (mut host, mut ends) = (0, [0_i64; 2]);
        for (pause, long, stream, wait) in work {
            host += pause;
            let call = made.call("cudaLaunchKernel", host, host + 5);
            let start = (host + 6).max(ends[stream as usize] + 1);
            made.work("some_kernel", start, start + long, call).stream = stream;
            ends[stream as usize] = start + long;
            host += 5;
            if wait == 0 {
                let until = ends[0].max(ends[1]).max(host) + 3;
                made.call("cudaDeviceSynchronize", host, until);
                host = until;
            }
        }
        let gained = with_rank(&made.0, |rank| Replay::new(rank).gained(&Removed::default(), Whole::Charged, None));
        prop_assert_eq!((gained.low_ns, gained.high_ns), (0, 0));
    }
}
