//! Modules, ranges and operators of made-up timelines, worked by hand.

use crate::support::classifier;
use gpuwise_domain::{
    gpu::{Gpu, PeakRates},
    profile::{
        figures::{
            BestBasis, NamedTime, NodeKind, OperatorNode, OperatorTree, Pass, RankFigures,
            RooflineSide, Shortfall, Step, StepFigures, StepSource, TimedBy,
        },
        timeline::{
            Backward, Detail, Device, HostSpan, Index, LaunchShape, Operands, Origin, Stream,
            Timeline, Work, WorkClass,
        },
    },
};
use gpuwise_measure::{
    figures::Settings,
    operators::{Gpus, Product, Times, of_rank},
};
use gpuwise_units::{BytesPerSecond, FlopPerSecond};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// 100 TFLOP/s in BF16 and 1 TB/s, 100 multiprocessors.
fn gpu() -> Gpu {
    Gpu {
        name: "Made".into(),
        vendor: "NVIDIA".into(),
        generation: "Hopper".into(),
        compute_capability: Some((9, 0)),
        aliases: Vec::new(),
        units: Some(100),
        l2: None,
        memory_kind: "HBM3".into(),
        memory_marketing_gb: 80.0,
        memory_reported: None,
        memory_visible: None,
        bandwidth: BytesPerSecond::new(1e12),
        peak: PeakRates {
            bf16: Some(FlopPerSecond::new(1e14)),
            fp32: Some(FlopPerSecond::new(1e13)),
            ..PeakRates::default()
        },
        scale_up: None,
        bridge: None,
        host_link: None,
        power_limit: None,
        idle_power: None,
        mig: false,
        announced: false,
        form_factor: String::new(),
        launch: String::new(),
        source: String::new(),
        notes: String::new(),
    }
}

struct Trace(Timeline);

impl Trace {
    fn new() -> Self {
        Self(Timeline {
            devices: vec![Device {
                name: Some("Made".into()),
                ..Device::default()
            }],
            streams: vec![Stream {
                device: 0,
                number: 7,
            }],
            ..Timeline::default()
        })
    }

    fn span(&mut self, name: &str, start_ns: i64, end_ns: i64) -> HostSpan {
        let known = self.0.names.iter().find(|(_, text)| *text == name);
        let name = known.map(|(id, _)| id);
        HostSpan {
            start_ns,
            end_ns,
            name: name.unwrap_or_else(|| self.0.names.add("")),
            thread: 0,
            operands: Index::NONE,
        }
    }

    fn named(&mut self, name: &str) {
        if self.0.names.iter().all(|(_, text)| text != name) {
            self.0.names.add(name);
        }
    }

    fn module(&mut self, name: &str, start: i64, end: i64) {
        let name = format!("nn.Module: {name}");
        self.named(&name);
        let span = self.span(&name, start, end);
        self.0.modules.push(span);
    }

    /// An operator that launches one kernel at `at`, which runs for `ns`.
    fn operator(&mut self, name: &str, shapes: &[[u64; 2]], kernel: &str, at: i64, ns: i64) {
        self.named(name);
        self.named(kernel);
        let operands = Operands {
            shapes: shapes.iter().map(|shape| shape.to_vec()).collect(),
            types: vec!["c10::BFloat16".into(); shapes.len()],
            values: Vec::new(),
        };
        let place = self.0.operands.iter().position(|known| *known == operands);
        let place = place.unwrap_or_else(|| {
            self.0.operands.push(operands);
            self.0.operands.len() - 1
        });
        let mut operator = self.span(name, at, at + 10);
        operator.operands = Index::of(place);
        let call = self.span(name, at + 1, at + 5);
        self.0.operators.push(operator);
        self.0.calls.push(call);
        let name = self.span(kernel, 0, 0).name;
        self.0.work.push(Work {
            start_ns: at + 100,
            end_ns: at + 100 + ns,
            name,
            stream: 0,
            call: Index::of(self.0.calls.len() - 1),
            operator: Index::of(self.0.operators.len() - 1),
            detail: Index::NONE,
            class: WorkClass::Kernel,
        });
    }

    fn tree(&self, measured: &dyn Fn(&Gpu, Product) -> Option<f64>) -> OperatorTree {
        let names = classifier();
        let rows = BTreeMap::from([("Made".to_owned(), gpu())]);
        let settings = Settings {
            names: &names,
            window: None,
            device: None,
            peaks: &BTreeMap::new(),
        };
        let gpus = Gpus {
            rows: &rows,
            stated: None,
            measured,
        };
        of_rank("test", &self.0, &settings, &gpus)
    }
}

fn line(node: &OperatorNode) -> (u16, &str, u64, i64) {
    (node.depth, &node.name, node.count, node.kernel_ns)
}

/// Two blocks, each with one product, and one product outside of any module.
#[test]
fn operators_lie_in_their_modules() {
    let mut trace = Trace::new();
    trace.module("Model_0", 0, 1000);
    trace.module("Block_0", 10, 300);
    trace.module("Block_1", 310, 900);
    let shape = [[1000, 1000], [1000, 1000]];
    trace.operator("aten::mm", &shape, "gemm_a", 20, 40_000);
    trace.operator("aten::mm", &shape, "gemm_a", 320, 60_000);
    trace.operator("aten::mm", &shape, "gemm_a", 2000, 30_000);
    let tree = trace.tree(&|_, _| None);
    let lines: Vec<_> = tree.nodes.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            (0, "Model_*", 2, 100_000),
            (1, "Block_*", 2, 100_000),
            (2, "aten::mm", 2, 100_000),
            (0, "aten::mm", 1, 30_000),
        ]
    );
    assert_eq!((tree.kernel_ns, tree.unlinked_ns), (130_000, 0));
    assert_eq!(tree.nodes[0].kind, NodeKind::Module);

    // 2·10⁹ operations over 0.89 of 10¹⁴ a second are 22.47 µs; 6 MB over 0.95 of 10¹² are 6.3.
    let product = &tree.nodes[3];
    let work = product.work.as_ref().expect("shapes");
    assert_eq!((work.flops, work.bytes), (Some(2e9), Some(6e6)));
    assert_eq!(work.side, Some(RooflineSide::Compute));
    let best = work.best.expect("a device that is known");
    assert_eq!(best.basis, BestBasis::Roofline);
    assert!((best.ns - 2e9 / 0.89e14 * 1e9).abs() < 1e-6, "{}", best.ns);
    assert!((product.share_of_best().unwrap() - 22.47 / 30.0).abs() < 1e-3);
    assert!((product.flops_per_second().unwrap() - 2e9 / 30e-6).abs() < 1.0);
}

/// Measured times count where they are slower than the roofline, never where they would beat it.
#[test]
fn no_best_time_beats_the_silicon() {
    let mut trace = Trace::new();
    let shape = [[1000, 1000], [1000, 1000]];
    trace.operator("aten::mm", &shape, "gemm_a", 20, 40_000);
    let best = |seconds: f64| {
        let tree = trace.tree(&move |_, product| {
            assert_eq!((product.m, product.n, product.k), (1000.0, 1000.0, 1000.0));
            Some(seconds)
        });
        tree.nodes[0]
            .work
            .as_ref()
            .and_then(|work| work.best)
            .unwrap()
            .ns
    };
    assert!((best(30e-6) - 30_000.0).abs() < 1e-6);
    assert!((best(1e-6) - 2e9 / 0.89e14 * 1e9).abs() < 1e-6);
}

/// An Ampere kernel on Hopper, an odd dimension, 130 blocks for 100 multiprocessors.
#[test]
fn what_falls_short_is_said() {
    let mut trace = Trace::new();
    let kernel = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn";
    trace.operator(
        "aten::mm",
        &[[1001, 1000], [1000, 1000]],
        kernel,
        20,
        80_000,
    );
    trace.0.details.push(Detail::Launch(LaunchShape {
        grid: Some([130, 1, 1]),
        ..LaunchShape::default()
    }));
    trace.0.work[0].detail = Index::of(0);
    let tree = trace.tree(&|_, _| None);
    let work = tree.nodes[0].work.as_ref().unwrap();
    assert_eq!(
        work.shortfalls,
        [
            Shortfall::OlderKernel {
                generation: "Ampere"
            },
            Shortfall::Misaligned {
                dimension: 1001,
                multiple: 8
            },
            Shortfall::WaveQuantization { waves: 1.3 },
        ]
    );
    // The same at nearly the best time: nothing is to be explained.
    trace.0.work[0].end_ns = trace.0.work[0].start_ns + 24_000;
    let tree = trace.tree(&|_, _| None);
    assert!(tree.nodes[0].work.as_ref().unwrap().shortfalls.is_empty());
}

proptest! {
    /// No kernel is lost and none counts twice, whatever holds it.
    #[test]
    fn times_sum_up(
        modules in prop::collection::vec((0..5_u8, 0..1000_i64, 1..500_i64), 0..12),
        kernels in prop::collection::vec((0..3_u64, 0..1500_i64, 1..10_000_i64), 1..40),
    ) {
        let mut trace = Trace::new();
        for (name, start, long) in modules {
            trace.module(&format!("M{name}_{start}"), start, start + long);
        }
        let mut all = 0;
        for (shape, at, ns) in kernels {
            trace.operator("aten::mm", &[[8, 8 + shape], [8 + shape, 8]], "gemm", at, ns);
            all += ns;
        }
        let tree = trace.tree(&|_, _| None);
        let of = |kind: NodeKind| tree.nodes.iter().filter(move |node| node.kind == kind);
        prop_assert_eq!(of(NodeKind::Operator).map(|node| node.kernel_ns).sum::<i64>(), all);
        prop_assert_eq!(tree.kernel_ns, all);
        for (at, scope) in tree.nodes.iter().enumerate() {
            let inner = tree.nodes.iter().filter(|node| node.parent == Some(at as u32));
            if scope.kind == NodeKind::Module {
                prop_assert_eq!(inner.map(|node| node.kernel_ns).sum::<i64>(), scope.kernel_ns);
            }
        }
    }
}

fn times(trace: &Trace, steps: &[(i64, i64)]) -> Vec<NamedTime> {
    let names = classifier();
    let settings = Settings {
        names: &names,
        window: None,
        device: None,
        peaks: &BTreeMap::new(),
    };
    let steps: Vec<Step> = steps
        .iter()
        .map(|(start_ns, end_ns)| Step {
            start_ns: *start_ns,
            end_ns: *end_ns,
            ..Step::default()
        })
        .collect();
    let figures = RankFigures {
        steps: Some(StepFigures {
            source: StepSource::Annotation,
            steps,
            median_ns: 0,
            spread: None,
            outliers: Vec::new(),
        }),
        ..RankFigures::default()
    };
    let mut times = Times::default();
    times.add(&trace.0, &settings, &figures);
    times.rows()
}

/// Three steps: the product runs in each, the other operator in one; devices lag behind.
#[test]
fn what_a_step_spends_is_what_it_launched() {
    let mut trace = Trace::new();
    for (at, ns) in [(10, 3_000), (1_010, 4_000), (2_010, 8_000)] {
        trace.operator("aten::mm", &[], "gemm", at, ns);
    }
    trace.operator("aten::add", &[], "elementwise", 1_050, 600);
    trace.operator("aten::add", &[], "elementwise", 5_000, 900);
    let rows = times(&trace, &[(0, 1_000), (1_000, 2_000), (2_000, 3_000)]);
    let of = |by, name: &str| {
        let found = rows
            .iter()
            .find(|row| row.by == by && row.name.as_deref() == Some(name));
        found.unwrap_or_else(|| panic!("{name}")).clone()
    };
    let product = of(TimedBy::Operator, "aten::mm");
    assert_eq!((product.calls, product.sum_ns), (3, 15_000));
    let steps = product.steps.expect("steps");
    assert_eq!(steps.count, 3);
    assert!((steps.mean_ns - 5_000.0).abs() < 1e-6);
    // (2² + 1² + 3²) × 10⁶ / 2.
    assert!((steps.variance - 7e6).abs() < 1e-3, "{steps:?}");
    // 600 in one step of three, and 900 in none.
    let other = of(TimedBy::Kernel, "elementwise");
    assert_eq!((other.calls, other.sum_ns), (2, 1_500));
    let steps = other.steps.expect("steps");
    assert!((steps.mean_ns - 200.0).abs() < 1e-6);
    assert!((steps.variance - 120_000.0).abs() < 1e-3, "{steps:?}");
    assert!((other.call_variance.expect("two calls") - 45_000.0).abs() < 1e-3);
    assert!(
        times(&trace, &[(0, 1_000)])
            .iter()
            .all(|row| row.steps.is_none())
    );
}

proptest! {
    /// However many names there are, rows are few and their times sum to all.
    #[test]
    fn rows_are_few_and_sum_to_all(kernels in prop::collection::vec((0_u32..300, 1_i64..10_000), 1..400)) {
        let mut trace = Trace::new();
        for ((name, ns), at) in kernels.iter().zip((0..).step_by(20)) {
            trace.operator("aten::op", &[], &format!("kernel_{name}"), at, *ns);
        }
        let rows = times(&trace, &[(0, 1_000), (1_000, 2_000)]);
        prop_assert!(rows.len() <= 100);
        let all: i64 = kernels.iter().map(|(_, ns)| ns).sum();
        for by in TimedBy::ALL {
            let of = rows.iter().filter(|row| row.by == by);
            prop_assert_eq!(of.map(|row| row.sum_ns).sum::<i64>(), all);
        }
    }
}

impl Trace {
    /// The operators at two places as a forward operator and the one that computes its gradient.
    fn gradient(&mut self, operator: usize, forward: Option<usize>) {
        self.0.backward.push(Backward {
            operator: Index::of(operator),
            forward: forward.map_or(Index::NONE, Index::of),
        });
    }

    fn lines(&self) -> Vec<(u16, String, Option<&'static str>, i64)> {
        let tree = self.tree(&|_, _| None);
        let nodes = tree.nodes.into_iter();
        nodes
            .map(|node| {
                let pass = node.pass.map(Pass::name);
                (node.depth, node.name, pass, node.kernel_ns)
            })
            .collect()
    }
}

/// The gradient of a product stands in the module of the product; that of no operator apart.
#[test]
fn gradients_stand_with_what_they_are_of() {
    let mut trace = Trace::new();
    trace.module("Block_0", 10, 300);
    let shape = [[10, 10], [10, 10]];
    trace.operator("aten::mm", &shape, "gemm", 20, 40);
    trace.operator("aten::mm", &shape, "gemm", 2000, 90);
    trace.operator("aten::add_", &shape, "add", 3000, 30);
    trace.gradient(1, Some(0));
    trace.gradient(2, None);
    let expected = [
        (0, "Block_*", None, 130),
        (1, "aten::mm", Some("backward"), 90),
        (1, "aten::mm", None, 40),
        (0, "backward, not linked", None, 30),
        (1, "aten::add_", Some("backward, not linked"), 30),
    ];
    let expected = expected.map(|(depth, name, pass, ns)| (depth, name.to_owned(), pass, ns));
    assert_eq!(trace.lines(), expected);
}

/// With activation checkpointing modules are called again within the backward pass.
#[test]
fn what_is_computed_again_stands_in_its_module() {
    let mut trace = Trace::new();
    trace.module("Net_0", 0, 300);
    let shape = [[10, 10], [10, 10]];
    trace.operator("aten::mm", &shape, "gemm", 20, 40);
    trace.operator("Checkpoint", &shape, "gemm", 2000, 5);
    trace.0.operators[1].end_ns = 2900;
    trace.module("Block_0", 2100, 2800);
    trace.operator("aten::mm", &shape, "gemm", 2200, 70);
    trace.gradient(1, Some(0));
    let expected = [
        (0, "Net_*", None, 115),
        (1, "Block_*", None, 70),
        (2, "aten::mm", Some("recomputation"), 70),
        (1, "aten::mm", None, 40),
        (1, "Checkpoint", Some("backward"), 5),
    ];
    let expected = expected.map(|(depth, name, pass, ns)| (depth, name.to_owned(), pass, ns));
    assert_eq!(trace.lines(), expected);
}

/// What the compiler says goes before what the host ran.
#[test]
fn compiled_work_lies_where_the_program_says() {
    let mut trace = Trace::new();
    let shape = [[10, 10], [10, 10]];
    for (at, path, ns) in [
        (20, "jit(f)/jvp(Net)/layer_0/dot", 40),
        (40, "jit(f)/jvp(Net)/layer_1/dot", 50),
        (60, "jit(f)/transpose(jvp(Net))/layer_1/dot", 100),
    ] {
        trace.operator("execute", &shape, "fusion", at, ns);
        trace.named(path);
        let path = trace.span(path, 0, 0).name;
        trace.0.origins.push(Origin {
            path: Index::of(path.0 as usize),
            ..Origin::NONE
        });
    }
    let expected = [
        (0, "jit(f)", None, 190),
        (1, "Net", None, 190),
        (2, "layer_*", None, 190),
        (3, "dot", Some("backward"), 100),
        (3, "dot", None, 90),
    ];
    let expected = expected.map(|(depth, name, pass, ns)| (depth, name.to_owned(), pass, ns));
    assert_eq!(trace.lines(), expected);
}
