//! Plans made by hand, with plausible figures.

use gpuwise_domain::{
    deployment::{
        Cost, Deployment, Dropped, Figures, FrontPoint, Headroom, LoadPoint, MemoryPart,
        MemoryReport, ModelSummary, Objective, Quality, Rental, ServingCharts, ServingQuestion,
        Settings, Sizing, Test,
    },
    engine::{EngineKind, Release},
    estimate::{Basis, Derivation, Estimate},
    fix::Flag,
    layout::Layout,
    limit::{Limit, LimitingFactor, ServingCause},
    note::Note,
    offer::Terms,
    reason::Reason,
    workload::{LengthDistribution, Lengths, Limits, Slo, Target, Traffic, Workload},
};
use gpuwise_units::{Bytes, HourlyPrice, Money, PerSecond, Percentile, Seconds, Tokens};

pub(crate) fn gib(gib: f64) -> Bytes {
    Bytes::from_f64(gib * (1u64 << 30) as f64)
}

fn estimate(value: f64, low: f64, high: f64) -> Estimate {
    Estimate { value, low, high }
}

pub(crate) fn part(name: &str, size: f64) -> MemoryPart {
    MemoryPart {
        name: name.into(),
        bytes: gib(size),
        outside_budget: name == "CUDA context",
        formula: format!("{name}: sum of its tensors"),
    }
}

pub(crate) fn memory(device: &str, visible: f64, weights: f64) -> MemoryReport {
    let budget = visible * 0.9;
    let left = budget - weights - 4.2;
    MemoryReport {
        device: device.into(),
        reported: Some(gib(visible * 1.006)),
        visible: gib(visible),
        visible_known: true,
        budget: gib(budget),
        weights: vec![
            part("embedding", weights * 0.03),
            part("attention", weights * 0.17),
            part("MLP", weights * 0.8),
        ],
        overheads: vec![
            part("activations", 2.6),
            part("CUDA graphs", 1.1),
            part("CUDA context", 0.5),
        ],
        cache: gib(left.max(0.0)),
        shortfall: gib((-left).max(0.0)),
        cache_tokens: if left > 0.0 {
            (left * 6553.6) as u64
        } else {
            0
        },
        sequences: if left > 0.0 {
            left * 6553.6 / 2300.0
        } else {
            0.0
        },
    }
}

pub(crate) struct Row {
    pub gpu: &'static str,
    pub layout: Layout,
    pub weights: &'static str,
    pub ttft: (f64, f64, f64),
    pub tpot: (f64, f64, f64),
    pub load: f64,
    pub price: Option<&'static str>,
    pub provider: &'static str,
    pub idle: u32,
    pub basis: Basis,
}

pub(crate) fn deployment(row: &Row) -> Deployment {
    let price = row
        .price
        .map(|text| HourlyPrice(Money::from_decimal(text, "USD".parse().unwrap()).unwrap()));
    let dollars = price.map(|p| p.0.as_f64());
    let (visible, stored) = match row.gpu {
        "H200 SXM 141GB" => (139.8, 33.0),
        "MI300X 192GB" => (191.5, 66.0),
        _ if row.weights == "bf16" => (79.2, 33.0),
        _ => (79.2, 33.5),
    };
    let (t, o) = (row.ttft, row.tpot);
    Deployment {
        model: "meta-llama/Llama-3.1-70B-Instruct".into(),
        engine: EngineKind::Vllm,
        release: Some(Release {
            numbers: [0, 15, 1],
        }),
        gpu: row.gpu.into(),
        slice: None,
        layout: row.layout,
        prefill: None,
        weights: row.weights.into(),
        weights_published: row.weights == "bf16",
        cache: "bf16".into(),
        quality: match row.weights {
            "bf16" => Quality::Published,
            "fp8" => Quality::Loss {
                percent: 0.4,
                evaluation: "OpenLLM v1".into(),
                same_model: true,
                source: "https://example.org/evaluation".into(),
                measured: false,
            },
            _ => Quality::Unknown,
        },
        settings: Settings {
            batched_tokens: 8192,
            sequences: 256,
            max_context: 131_072,
            memory_fraction: 0.9,
            block: 16,
            eager: false,
        },
        draft_tokens: 0,
        acceptance: None,
        draft_model: None,
        host_cache: Bytes::ZERO,
        adapters: None,
        rental: Some(Rental {
            provider: row.provider.into(),
            instance: format!("gpu_{}x", row.layout.gpus() + row.idle),
            region: "us-east-1".into(),
            terms: Terms::OnDemand,
            instances: 1,
            gpu_thousandths: (row.layout.gpus() + row.idle) * 1000,
            idle: row.idle,
            price,
            date: "2026-07-20".into(),
            source: "price list".into(),
        }),
        memory: memory(row.gpu, visible, stored),
        figures: Figures {
            ttft: estimate(t.0, t.1, t.2),
            ttft_at: Some(Percentile::P95),
            tpot: estimate(o.0, o.1, o.2),
            tpot_at: Some(Percentile::P95),
            end_to_end: estimate(t.0 + o.0 * 300.0, t.1 + o.1 * 300.0, t.2 + o.2 * 300.0),
            end_to_end_at: Some(Percentile::P95),
            requests: estimate(8.0, 8.0, 8.0),
            output_throughput: estimate(2400.0, 2400.0, 2400.0),
            running: 41.3,
            utilization: row.load,
            power: Some(estimate(2150.0, 1800.0, 2500.0)),
            joules_per_token: Some(estimate(0.896, 0.75, 1.04)),
        },
        cost: Cost {
            per_hour: price,
            per_million_input: dollars.map(|d| d * 0.0102),
            per_million_output: dollars.map(|d| d * 0.0478),
        },
        basis: row.basis,
        bottleneck: Some(Limit {
            cause: ServingCause::Weights,
            share: 0.71,
        }),
        headroom: Headroom {
            rate: 8.0 / row.load,
            factor: 1.0 / row.load,
            limited_by: Some(LimitingFactor::Tpot),
        },
        derivations: vec![derivation()],
    }
}

pub(crate) fn derivation() -> Derivation {
    Derivation::computed(
        "TPOT p95",
        "29 ms",
        "step(batch at p95) × (1 + prefill share)",
        vec![
            Derivation::computed(
                "decode step",
                "24.1 ms",
                "weights / bandwidth + cache / bandwidth + collectives",
                vec![
                    Derivation::fact("weights a GPU", "33.5 GiB", "safetensors header"),
                    Derivation::fact(
                        "achieved bandwidth",
                        "2.81 TB/s",
                        "84 % of 3.35 TB/s, fitted on 212 rows",
                    ),
                ],
            ),
            Derivation::fact("prefill share", "0.19", "8 requests/s × 2000 tokens"),
        ],
    )
}

pub(crate) fn sizing() -> Sizing {
    let deployments = vec![
        deployment(&Row {
            gpu: "H100 SXM5 80GB",
            layout: Layout {
                replicas: 2,
                ..Layout::tensor(2)
            },
            weights: "fp8",
            ttft: (0.482, 0.39, 0.622),
            tpot: (0.0294, 0.0251, 0.0334),
            load: 0.71,
            price: Some("11.96"),
            provider: "lambda",
            idle: 0,
            basis: Basis::Calibrated,
        }),
        deployment(&Row {
            gpu: "H100 SXM5 80GB",
            layout: Layout::tensor(4),
            weights: "bf16",
            ttft: (0.61, 0.48, 0.8),
            tpot: (0.0312, 0.0262, 0.0371),
            load: 0.82,
            price: Some("13.156"),
            provider: "nebius",
            idle: 0,
            basis: Basis::Calibrated,
        }),
        deployment(&Row {
            gpu: "H200 SXM 141GB",
            layout: Layout::tensor(4),
            weights: "bf16",
            ttft: (0.55, 0.43, 0.72),
            tpot: (0.0234, 0.0197, 0.0278),
            load: 0.58,
            price: Some("28.8"),
            provider: "aws",
            idle: 4,
            basis: Basis::Calibrated,
        }),
        deployment(&Row {
            gpu: "MI300X 192GB",
            layout: Layout::tensor(2),
            weights: "bf16",
            ttft: (0.79, 0.48, 1.31),
            tpot: (0.036, 0.0215, 0.054),
            load: 0.93,
            price: None,
            provider: "azure",
            idle: 0,
            basis: Basis::Extrapolated,
        }),
    ];
    Sizing {
        question: ServingQuestion {
            model: model(),
            workload: workload(),
            objective: Objective::Cost,
        },
        ranked: deployments,
        dropped: dropped(),
        considered: 1482,
        notes: vec![
            Note::Model("Prompts are all of the mean length.".into()),
            Note::Model("The prefix cache is cold.".into()),
        ],
        charts: ServingCharts {
            points: points(),
            curve: curve(),
        },
    }
}

pub(crate) fn model() -> ModelSummary {
    ModelSummary {
        name: "meta-llama/Llama-3.1-70B-Instruct".into(),
        origin: "catalogue".into(),
        model_type: "llama".into(),
        parameters: 70_553_706_496,
        active_parameters: 70_553_706_496,
        layers: 80,
        published: "bf16".into(),
        weight_bytes: Bytes::new(141_107_412_992),
        cache_bytes_per_token: 327_680,
        max_context: Some(131_072),
        assumptions: Vec::new(),
    }
}

fn workload() -> Workload {
    let target = |seconds| {
        Some(Target {
            percentile: Some(Percentile::P95),
            at_most: Seconds::new(seconds),
        })
    };
    Workload {
        traffic: Traffic::Open {
            rate: PerSecond::new(8.0),
            burstiness: 1.0,
        },
        lengths: Lengths {
            input: LengthDistribution::fixed(Tokens(2000)),
            output: LengthDistribution::fixed(Tokens(300)),
        },
        prefix_hit: 0.0,
        slo: Slo {
            ttft: target(1.0),
            tpot: target(0.04),
            ..Slo::default()
        },
        limits: Limits::default(),
    }
}

fn points() -> Vec<FrontPoint> {
    let rows = [
        (
            "4 × H100 SXM5 80GB 2 × TP2 fp8",
            "H100 SXM5 80GB",
            Some(11.96),
            9.3,
            true,
        ),
        (
            "4 × H100 SXM5 80GB TP4 bf16",
            "H100 SXM5 80GB",
            Some(13.156),
            9.97,
            false,
        ),
        (
            "4 × H200 SXM 141GB TP4 bf16",
            "H200 SXM 141GB",
            Some(28.8),
            7.57,
            true,
        ),
        (
            "8 × H100 SXM5 80GB TP8 bf16",
            "H100 SXM5 80GB",
            Some(23.92),
            8.1,
            true,
        ),
        (
            "8 × H200 SXM 141GB TP8 fp8",
            "H200 SXM 141GB",
            Some(57.6),
            5.2,
            true,
        ),
        (
            "8 × L40S 48GB TP8 fp8",
            "L40S 48GB",
            Some(14.4),
            11.8,
            false,
        ),
        (
            "8 × A100 SXM4 80GB TP8 bf16",
            "A100 SXM4 80GB",
            Some(14.32),
            11.4,
            false,
        ),
        (
            "8 × B200 SXM 180GB TP8 fp8",
            "B200 SXM 180GB",
            Some(79.9),
            4.3,
            true,
        ),
        (
            "2 × MI300X 192GB TP2 bf16",
            "MI300X 192GB",
            None,
            11.6,
            false,
        ),
    ];
    let point =
        |(label, gpu, per_hour, end_to_end, on_front): (&str, &str, Option<f64>, f64, bool)| {
            FrontPoint {
                label: label.into(),
                gpu: gpu.into(),
                per_hour: per_hour.map(hourly),
                ttft: end_to_end * 0.05,
                tpot: end_to_end * 0.0031,
                end_to_end,
                joules_per_token: Some(0.9),
                on_front,
            }
        };
    rows.into_iter().map(point).collect()
}

/// Dollars an hour.
pub(crate) fn hourly(dollars: f64) -> HourlyPrice {
    HourlyPrice::usd(&format!("{dollars:.6}")).unwrap()
}

pub(crate) fn dropped() -> Vec<Dropped> {
    let row =
        |label: &str, gpu: &str, test, shortfall: &str, fix: Option<&'static str>, ratio| Dropped {
            label: label.into(),
            gpu: gpu.into(),
            test,
            shortfall: Reason::Unsupported(shortfall.into()),
            fixes: fix
                .map(|words| Flag::switch(words).into())
                .into_iter()
                .collect(),
            ratio,
        };
    vec![
        row(
            "4 × L40S 48GB TP4 bf16",
            "L40S 48GB",
            Test::Tpot,
            "p95 71 ms, 40 ms promised",
            Some("fp8 weights on 8"),
            1.78,
        ),
        row(
            "2 × A100 SXM4 80GB TP2 bf16",
            "A100 SXM4 80GB",
            Test::Memory,
            "weights 65.7 GiB of 71.0 GiB, 1.1 GiB of cache left",
            Some("4 GPUs"),
            1.22,
        ),
        row(
            "1 × H100 SXM5 80GB fp8",
            "H100 SXM5 80GB",
            Test::Throughput,
            "2.9 of 8 requests/s",
            Some("3 replicas"),
            2.76,
        ),
        row(
            "8 × L4 24GB TP8 bf16",
            "L4 24GB",
            Test::Tpot,
            "p95 190 ms, 40 ms promised",
            None,
            4.75,
        ),
        row(
            "8 × T4 16GB TP8 bf16",
            "T4 16GB",
            Test::Support,
            "no bf16 in silicon",
            Some("fp16 weights"),
            0.0,
        ),
    ]
}

fn curve() -> Vec<LoadPoint> {
    (1..=14)
        .map(|step| {
            let load = f64::from(step);
            let wait = 1.0 / (1.0 - (load / 15.0).min(0.97));
            let ttft = 0.2 * wait;
            let tpot = 0.018 + 0.0014 * load;
            LoadPoint {
                load,
                ttft: estimate(ttft, ttft * 0.8, ttft * 1.3),
                tpot: estimate(tpot, tpot * 0.86, tpot * 1.14),
                kept: ttft < 1.0 && load <= 11.0,
            }
        })
        .collect()
}

/// Nothing keeps the SLO.
pub(crate) fn infeasible() -> Sizing {
    Sizing {
        ranked: Vec::new(),
        charts: ServingCharts::default(),
        ..sizing()
    }
}

/// No deployment has a price.
pub(crate) fn unpriced() -> Sizing {
    let mut sizing = sizing();
    for deployment in &mut sizing.ranked {
        deployment.rental = None;
        deployment.cost = Cost::default();
    }
    for point in &mut sizing.charts.points {
        point.per_hour = None;
    }
    sizing
}

/// Names that are long, and that would break markup or a terminal.
pub(crate) fn hostile() -> Sizing {
    let evil =
        "<script>alert(\"x\")</script> & | 'quoted' \u{1b}[31m\nsecond line ÄÖ漢字 `code` *bold*";
    let long = "An-Organisation-With-A-Long-Name/A-Model-Whose-Name-Is-Longer-Than-Any-Terminal-Is-Wide-Instruct-v2";
    let mut sizing = sizing();
    sizing.question.model.name = format!("{long} {evil}");
    sizing.question.model.assumptions = vec![evil.into()];
    sizing.notes.push(Note::Model(evil.into()));
    for deployment in &mut sizing.ranked {
        deployment.gpu = format!("RTX PRO 6000 Blackwell Workstation {evil}");
        deployment.memory.device.clone_from(&deployment.gpu);
        if let Some(rental) = &mut deployment.rental {
            rental.provider = evil.into();
        }
        if let Some(part) = deployment.memory.weights.first_mut() {
            part.name = evil.into();
        }
    }
    for point in &mut sizing.charts.points {
        point.label = evil.into();
    }
    for dropped in &mut sizing.dropped {
        dropped.label = evil.into();
        dropped.shortfall = Reason::Unsupported(format!("{long} {long}"));
    }
    sizing
}
