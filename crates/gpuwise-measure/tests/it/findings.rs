//! Findings on small timelines made by hand: each rule has a case that fires and one that must not.

use crate::support::{classifier, measured, trace};
use gpuwise_domain::profile::{
    figures::ProfileFigures,
    finding::{Finding, Gain},
    timeline::{
        CopyShape, Detail, Device, Direction, HostSpan, Index, LaunchShape, MemoryEvent,
        MemoryKind, NameId, Operands, Rank, Stream, Thread, Timeline, Work, WorkClass,
    },
};
use gpuwise_measure::{
    figures::{Measured, Settings, of_profile},
    findings::{self, Cause, DEFINITIONS, Signals, Thresholds},
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The thresholds of the catalogue.
fn limits() -> Thresholds {
    let text = include_str!("../../../../catalogue/findings.toml");
    let rows = gpuwise_read::finding_thresholds::read("findings.toml", text).expect("usable rows");
    Thresholds::new(&rows).expect("all thresholds")
}

/// A timeline in the making; times in microseconds.
struct Made(Timeline);

impl Made {
    fn new() -> Self {
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

    fn name(&mut self, text: &str) -> NameId {
        let known = self.0.names.iter().find(|(_, name)| *name == text);
        let known = known.map(|(id, _)| id);
        known.unwrap_or_else(|| self.0.names.add(text))
    }

    fn span(&mut self, name: &str, from: i64, to: i64) -> HostSpan {
        HostSpan {
            start_ns: from * 1000,
            end_ns: to * 1000,
            name: self.name(name),
            thread: 0,
            operands: Index::NONE,
        }
    }

    fn operator(&mut self, name: &str, from: i64, to: i64) -> Index {
        let span = self.span(name, from, to);
        self.0.operators.push(span);
        Index::of(self.0.operators.len() - 1)
    }

    fn range(&mut self, name: &str, from: i64, to: i64) {
        let span = self.span(name, from, to);
        self.0.annotations.push(span);
    }

    fn call(&mut self, name: &str, from: i64, to: i64) -> Index {
        let span = self.span(name, from, to);
        self.0.calls.push(span);
        Index::of(self.0.calls.len() - 1)
    }

    fn work(&mut self, name: &str, from: i64, to: i64, call: Index) -> &mut Work {
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
    fn kernel(&mut self, name: &str, from: i64, to: i64, before: i64) -> &mut Work {
        let call = self.call("cudaLaunchKernel", from - before, from - before + 5);
        self.work(name, from, to, call)
    }

    fn detail(&mut self, detail: Detail) -> Index {
        self.0.details.push(detail);
        Index::of(self.0.details.len() - 1)
    }

    fn copy(&mut self, from: i64, to: i64, bytes: u64, source: MemoryKind) {
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
fn charged(timeline: &Timeline, measured: &Measured) -> Signals {
    let (names, limits) = (classifier(), limits());
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

fn found(ranks: &[Made]) -> Vec<Finding> {
    let (names, limits) = (classifier(), limits());
    let (mut all, mut signals) = (Vec::new(), Vec::new());
    for Made(timeline) in ranks {
        let one = measured(timeline, &names);
        signals.push(charged(timeline, &one));
        all.push(one);
    }
    findings::of_profile(&signals, &of_profile(all), &limits)
}

fn classes(ranks: &[Made]) -> Vec<String> {
    found(ranks).into_iter().map(|one| one.class).collect()
}

/// The first finding of `fires` is `class`; `quiet` has none of it.
fn check(class: &str, fires: impl FnOnce(&mut Made), quiet: impl FnOnce(&mut Made)) {
    let (mut yes, mut no) = (Made::new(), Made::new());
    fires(&mut yes);
    quiet(&mut no);
    let (said, not) = (classes(&[yes]), classes(&[no]));
    assert_eq!(said.first().map(String::as_str), Some(class), "{said:?}");
    assert!(!not.iter().any(|one| one == class), "{not:?}");
}

/// Ten kernels of 100 µs, each after a gap of 100 µs in which `between` happens.
fn gaps(made: &mut Made, between: impl Fn(&mut Made, i64)) {
    for round in 0..10 {
        let at = round * 200;
        between(made, at);
        made.kernel("some_kernel", at + 100, at + 200, 6);
    }
}

#[test]
fn data_loading() {
    let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    check(
        "data_loading",
        |made| gaps(made, |made, at| made.range(loader, at, at + 92)),
        |made| {
            made.range(loader, 50, 60);
            gaps(made, |made, at| {
                made.operator("aten::mm", at, at + 92);
            });
        },
    );
}

#[test]
fn host_bound() {
    let operator = |made: &mut Made, at| {
        made.operator("aten::mm", at, at + 92);
    };
    check(
        "host_bound",
        |made| gaps(made, operator),
        |made| {
            for round in 0..10 {
                made.kernel("some_kernel", round * 100 + 1, round * 100 + 100, 500);
            }
        },
    );
}

#[test]
fn small_kernels() {
    let every = |made: &mut Made, pace: i64| {
        for round in 0..100 {
            made.operator("aten::add", round * pace, round * pace + 5);
            made.kernel("small", round * pace + 5, round * pace + 7, 4);
        }
    };
    check(
        "small_kernels",
        |made| every(made, 8),
        |made| every(made, 90),
    );
}

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

#[test]
fn copies() {
    let copying = |made: &mut Made, source| {
        for round in 0..10 {
            let at = round * 1000 + 10;
            made.copy(at, at + 500, 2_000_000, source);
            made.kernel("some_kernel", at + 501, at + 989, 300);
        }
    };
    check(
        "pageable_copies",
        |made| copying(made, MemoryKind::Pageable),
        |made| copying(made, MemoryKind::Pinned),
    );
    check(
        "pcie",
        |made| copying(made, MemoryKind::Pinned),
        |made| {
            copying(made, MemoryKind::Pinned);
            // The same copies, with something computed beside them.
            for round in 0..10 {
                made.kernel("beside", round * 1000 + 5, round * 1000 + 600, 300)
                    .stream = 1;
            }
        },
    );
}

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

#[test]
fn communication() {
    let all_reduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
    let reducing = |made: &mut Made, hidden: bool| {
        for round in 0..10 {
            let at = round * 1000 + 10;
            made.kernel(all_reduce, at, at + 400, 6).stream = 1;
            let start = if hidden { at } else { at + 400 };
            made.kernel("some_kernel", start, at + 995, 500);
        }
    };
    check(
        "communication",
        |made| reducing(made, false),
        |made| reducing(made, true),
    );
}

#[test]
fn straggler() {
    let rank = |number: u32, wait: i64| {
        let mut made = Made::new();
        made.0.rank = Some(Rank {
            number,
            world_size: Some(2),
            backend: None,
        });
        for round in 0..10 {
            let at = round * 1000 + 10;
            made.kernel("some_kernel", at, at + 900 - wait, 500);
            made.kernel("ncclDevKernel_AllReduce", at + 900 - wait, at + 950, 500);
        }
        made
    };
    let late = classes(&[rank(0, 500), rank(1, 0)]);
    assert_eq!(
        late.first().map(String::as_str),
        Some("straggler"),
        "{late:?}"
    );
    let even = classes(&[rank(0, 100), rank(1, 100)]);
    assert!(!even.iter().any(|class| class == "straggler"), "{even:?}");
}

#[test]
fn throttled_clock() {
    let slower = |made: &mut Made, same: bool| {
        let shape = made.detail(Detail::Launch(LaunchShape {
            grid: Some([128, 1, 1]),
            ..LaunchShape::default()
        }));
        let mut at = 10;
        for round in 0..200_i64 {
            let late = round >= 100;
            let name = if late && !same {
                "other"
            } else {
                "some_kernel"
            };
            let length = if late { 90 } else { 50 };
            made.kernel(name, at, at + length, 500).detail = shape;
            at += length;
        }
    };
    check(
        "throttled_clock",
        |made| slower(made, true),
        |made| slower(made, false),
    );
}

#[test]
fn tensor_cores() {
    let products = |made: &mut Made, operand: &str, capability| {
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
    };
    check(
        "wrong_precision",
        |made| products(made, "float", (8, 0)),
        |made| products(made, "float", (6, 1)),
    );
    check(
        "tensor_cores_unused",
        |made| products(made, "c10::Half", (8, 0)),
        |made| products(made, "float", (8, 0)),
    );
}

#[test]
fn low_occupancy() {
    let blocks = |made: &mut Made, blocks: f64| {
        let detail = made.detail(Detail::Launch(LaunchShape {
            blocks_per_multiprocessor: Some(blocks),
            ..LaunchShape::default()
        }));
        for round in 0..10 {
            made.kernel("some_kernel", round * 100, round * 100 + 99, 500)
                .detail = detail;
        }
    };
    check(
        "low_occupancy",
        |made| blocks(made, 0.1),
        |made| blocks(made, 2.0),
    );
}

#[test]
fn memory() {
    let holding = |made: &mut Made, allocated: u64, reserved: u64| {
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
    };
    let gib = 1_u64 << 30;
    check(
        "memory_capacity",
        |made| holding(made, gib / 100 * 93, gib / 100 * 95),
        |made| holding(made, gib / 100 * 60, gib / 100 * 61),
    );
    check(
        "fragmentation",
        |made| holding(made, gib / 100 * 40, gib / 100 * 85),
        |made| holding(made, gib / 100, gib / 10),
    );
}

#[test]
fn compute_bound() {
    let with = |hfu| {
        let mut figures = of_profile(vec![measured(&Made::new().0, &classifier())]);
        figures.ranks[0].flops.hfu = hfu;
        let found = findings::of_profile(&[], &figures, &limits());
        found.iter().any(|one| one.class == "compute_bound")
    };
    assert!(with(Some(0.7)));
    assert!(!with(Some(0.3)));
    assert!(!with(None));
}

#[test]
fn nothing_is_said_of_nothing() {
    assert!(classes(&[Made::new()]).is_empty());
    assert!(findings::of_profile(&[], &ProfileFigures::default(), &limits()).is_empty());
}

#[test]
fn every_class_is_defined_once() {
    let mut known: Vec<&str> = DEFINITIONS.iter().map(|one| one.class).collect();
    known.sort_unstable();
    known.dedup();
    assert_eq!(known.len(), DEFINITIONS.len());
}

#[test]
fn thresholds_are_asked_for_by_name() {
    let text = include_str!("../../../../catalogue/findings.toml");
    let mut rows = gpuwise_read::finding_thresholds::read("t", text).expect("usable rows");
    let mut renamed = rows.clone();
    renamed[0].name = "no_such_threshold".to_owned();
    let error = Thresholds::new(&renamed).expect_err("an unknown name");
    assert!(error.to_string().contains("no_such_threshold"), "{error}");
    rows.remove(0);
    let error = Thresholds::new(&rows).expect_err("one is missing");
    assert!(error.to_string().contains("missing"), "{error}");
}

/// The step without a loader's wait against the run in which the wait was cured.
#[test]
fn cured_loader() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    let median = |file: &str| {
        let timeline = trace(&folder.join("traces").join(file));
        let measured = measured(&timeline, &classifier());
        let signals = charged(&timeline, &measured);
        let (now, without) = findings::step_without(Cause::Loader, &[signals]).expect("steps");
        (now as f64, without as f64)
    };
    let (_, predicted) = median("tb_resnet50_nw0_a.json.gz");
    let (cured, _) = median("tb_resnet50_nw4_a.json.gz");
    assert!(
        (predicted / cured - 1.0).abs() <= 0.03,
        "{predicted} {cured}"
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
        let of_idle = [Cause::Loader, Cause::Synchronisation, Cause::Pageable, Cause::FirstUse, Cause::Rest, Cause::Host];
        let charged: i64 = of_idle.iter().filter_map(|cause| signals.charges.get(cause)).map(|one| one.ns).sum();
        prop_assert!(charged <= idle, "{} of {}", charged, idle);
        for finding in found(&[made]) {
            let Gain::Time { low, high } = finding.gain else { continue };
            prop_assert!(0.0 <= low && low <= high && high <= 1.0);
            prop_assert!(DEFINITIONS.iter().any(|one| one.class == finding.class));
        }
    }
}

/// The reference page says what the code and the catalogue say; `GPUWISE_UPDATE_DOCS=1` writes it.
#[test]
fn reference_page() {
    use gpuwise_domain::profile::finding::FindingDefinition;
    use std::fmt::Write as _;
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/findings.md"
    );
    let mut text = String::from(
        "# Findings\n\nWhat `gpuwise profile`, `watch` and `audit` can find: what must be seen, what to do, how the gain is bounded, and where that comes from. Nothing is said of a quantity that the input lacks. How time is charged to causes, and in which order findings stand: [Findings of traces](../concepts/findings.md).\n\nThis page is generated from the code and the catalogue.\n",
    );
    let mut table = |title: &str, rows: &[FindingDefinition]| {
        write!(text, "\n## {title}\n\n| finding | signal | what to do | gain | source |\n|---|---|---|---|---|\n").expect("a string");
        for row in rows {
            writeln!(
                text,
                "| `{}`, {} | {} | {} | {} | {} |",
                row.class, row.title, row.signal, row.advice, row.gain, row.source
            )
            .expect("a string");
        }
    };
    table("In traces", DEFINITIONS);
    table("In telemetry", gpuwise_measure::telemetry::DEFINITIONS);
    text.push_str("\n## Thresholds of findings in traces\n\nRows of `catalogue/findings.toml`. Those of telemetry are in `catalogue/telemetry.toml`.\n\n| threshold | value | unit | what it decides | source |\n|---|--:|---|---|---|\n");
    let catalogue = include_str!("../../../../catalogue/findings.toml");
    for row in gpuwise_read::finding_thresholds::read("findings.toml", catalogue).expect("rows") {
        writeln!(
            text,
            "| `{}` | {} | {} | {} | {} |",
            row.name, row.value, row.unit, row.meaning, row.source
        )
        .expect("a string");
    }
    if std::env::var_os("GPUWISE_UPDATE_DOCS").is_some() {
        std::fs::write(page, &text).expect("a page that can be written");
    }
    let known = std::fs::read_to_string(page).unwrap_or_default();
    assert!(
        known == text,
        "{page} is stale: run this test with GPUWISE_UPDATE_DOCS=1"
    );
}
