//! Plans: what must hold of every plan, whatever the constants are.

use crate::fixture::{catalogue, model, prior};
use gpuwise_domain::{
    catalogue::Catalogue,
    deployment::{Objective, Quality, Sizing, Test},
    engine::{Engine, EngineKind},
    layout::Layout,
    model::Architecture,
    workload::{LengthDistribution, Lengths, Limits, Slo, Target, Traffic, Workload},
};
use gpuwise_size::{
    knowledge::Knowledge,
    search::{Choices, Fixed, Request, plan},
};
use gpuwise_units::{HourlyPrice, PerSecond, Percentile, Seconds, Tokens};
use proptest::prelude::*;

pub(crate) fn workload(rate: f64, ttft: f64, tpot: f64) -> Workload {
    let target = |seconds: f64| {
        Some(Target {
            percentile: Some(Percentile::P95),
            at_most: Seconds::new(seconds),
        })
    };
    Workload {
        traffic: Traffic::Open {
            rate: PerSecond::new(rate),
            burstiness: 1.0,
        },
        lengths: Lengths {
            input: LengthDistribution::fixed(Tokens(2000)),
            output: LengthDistribution::fixed(Tokens(300)),
        },
        prefix_hit: 0.0,
        slo: Slo {
            ttft: target(ttft),
            tpot: target(tpot),
            ..Slo::default()
        },
        limits: Limits::default(),
    }
}

pub(crate) struct Case {
    pub(crate) architecture: Architecture,
    pub(crate) catalogue: Catalogue,
    pub(crate) knowledge: Knowledge,
    pub(crate) workload: Workload,
    pub(crate) choices: Choices,
}

impl Case {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            architecture: model(name),
            catalogue: catalogue(),
            knowledge: prior(),
            workload: workload(2.0, 2.0, 0.05),
            choices: Choices::usual(Engine::newest(EngineKind::Vllm)),
        }
    }

    pub(crate) fn on(mut self, gpus: &[&str]) -> Self {
        self.workload.limits.gpus = gpus.iter().map(ToString::to_string).collect();
        self
    }

    pub(crate) fn plan(&self) -> Sizing {
        plan(&self.request())
    }

    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            name: "test/model".into(),
            origin: "test".into(),
            architecture: &self.architecture,
            workload: &self.workload,
            catalogue: &self.catalogue,
            knowledge: &self.knowledge,
            facts: None,
            engines: &[],
            draft: None,
            choices: self.choices.clone(),
        }
    }
}

#[test]
fn a_plan_keeps_its_promise() {
    let sizing = Case::new("meta-llama/Llama-3.1-8B").plan();
    assert!(!sizing.ranked.is_empty());
    for deployment in &sizing.ranked {
        assert!(
            deployment.figures.ttft.value <= 2.0,
            "{}: TTFT",
            deployment.gpu
        );
        assert!(
            deployment.figures.tpot.value <= 0.05,
            "{}: TPOT",
            deployment.gpu
        );
        assert!(
            deployment.headroom.factor >= 1.0,
            "{}: headroom",
            deployment.gpu
        );
        assert!(deployment.figures.ttft.low <= deployment.figures.ttft.value);
        assert!(deployment.figures.ttft.high >= deployment.figures.ttft.value);
        let memory = &deployment.memory;
        let inside = memory.weight_bytes().count() + memory.cache.count();
        assert!(
            inside <= memory.visible.count(),
            "{}: memory",
            deployment.gpu
        );
    }
}

#[test]
fn the_cheapest_comes_first_and_nothing_is_quantized_silently() {
    let sizing = Case::new("meta-llama/Llama-3.1-8B").plan();
    let published: Vec<_> = sizing
        .ranked
        .iter()
        .filter(|d| d.weights_published)
        .collect();
    assert!(
        sizing
            .ranked
            .first()
            .is_some_and(|best| best.weights_published)
    );
    let prices: Vec<_> = published.iter().filter_map(|d| d.cost.per_hour).collect();
    assert!(prices.is_sorted(), "{prices:?}");
    for other in sizing.ranked.iter().filter(|d| !d.weights_published) {
        assert_ne!(other.quality, Quality::Published);
    }
}

#[test]
fn an_offer_is_rented_in_its_real_size() {
    for deployment in Case::new("meta-llama/Llama-3.1-70B").plan().ranked {
        let Some(rental) = deployment.rental else {
            continue;
        };
        let slices = if deployment.slice.is_some() { 7 } else { 1 };
        let paid = rental.instances * rental.gpu_thousandths / 1000 * slices;
        assert!(
            paid >= deployment.layout.gpus(),
            "{} {paid}",
            rental.instance
        );
        if deployment.slice.is_none() {
            assert_eq!(
                rental.idle,
                paid - deployment.layout.gpus(),
                "{}",
                rental.instance
            );
        }
    }
}

#[test]
fn what_does_not_fit_says_by_how_much() {
    let sizing = Case::new("meta-llama/Llama-3.1-405B").on(&["T4"]).plan();
    assert!(sizing.ranked.is_empty());
    let dropped = sizing.dropped.first().expect("a reason");
    assert_eq!((dropped.gpu.as_str(), dropped.test), ("T4", Test::Memory));
    assert!(
        dropped.ratio > 1.0 && dropped.shortfall.to_string().contains("GiB"),
        "{}",
        dropped.shortfall
    );
}

#[test]
fn a_promise_beyond_the_hardware_names_the_test() {
    let mut case = Case::new("meta-llama/Llama-3.1-70B");
    case.workload = workload(1.0, 2.0, 0.001);
    let sizing = case.on(&["A100 SXM4 80GB"]).plan();
    assert!(sizing.ranked.is_empty());
    assert!(
        sizing.dropped.iter().any(|d| d.test == Test::Tpot),
        "{:?}",
        sizing.dropped
    );
}

#[test]
fn a_gpu_without_the_silicon_gets_no_fp8() {
    let mut case = Case::new("meta-llama/Llama-3.1-8B").on(&["A100 SXM4 80GB"]);
    case.choices.weights = vec!["fp8".into()];
    let sizing = case.plan();
    assert!(sizing.ranked.is_empty());
    assert!(
        sizing.dropped.iter().all(|d| d.test == Test::Support),
        "{:?}",
        sizing.dropped
    );
}

#[test]
fn a_slice_holds_one_replica_and_no_tensor_parallelism() {
    let mut case = Case::new("meta-llama/Llama-3.2-1B");
    case.workload = workload(0.2, 2.0, 0.1);
    let case = case.on(&["H100 SXM5 80GB"]);
    let sizing = case.plan();
    let sliced = sizing.ranked.iter().filter(|d| d.slice.is_some());
    for deployment in sliced.clone() {
        assert_eq!(deployment.layout.replica_gpus(), 1);
    }
    assert!(
        sliced.count() > 0,
        "a small model at a small load belongs on a slice"
    );
}

#[test]
fn a_budget_is_kept() {
    let mut case = Case::new("meta-llama/Llama-3.1-8B");
    let budget = HourlyPrice::usd("1.50").expect("a price");
    case.workload.limits.budget = Some(budget);
    for deployment in case.plan().ranked {
        assert!(
            deployment
                .cost
                .per_hour
                .is_some_and(|hour| hour.0.micros <= budget.0.micros)
        );
    }
}

#[test]
fn what_has_no_known_price_is_within_no_budget_and_of_no_provider() {
    let mut case = Case::new("meta-llama/Llama-3.1-8B").on(&["L40S"]);
    case.catalogue.offers.retain(|offer| offer.gpu != "L40S");
    assert!(!case.plan().ranked.is_empty());
    let unlimited = case.workload.limits.clone();
    case.workload.limits.budget = HourlyPrice::usd("1000").ok();
    let sizing = case.plan();
    assert!(sizing.ranked.is_empty());
    assert!(
        sizing
            .dropped
            .iter()
            .all(|d| d.test == Test::Limits && d.shortfall.to_string().contains("not known")),
        "{:?}",
        sizing.dropped
    );
    case.workload.limits = unlimited.clone();
    case.workload.limits.providers = vec!["aws".into()];
    assert!(case.plan().ranked.is_empty());
    // Nothing more is paid for hosts of one's own.
    case.workload.limits = unlimited;
    case.workload.limits.budget = HourlyPrice::usd("1").ok();
    case.workload.limits.owned = vec![("L40S".into(), 8)];
    assert!(!case.plan().ranked.is_empty());
}

#[test]
fn spares_are_added() {
    let mut case = Case::new("meta-llama/Llama-3.1-8B").on(&["L40S"]);
    let without = case.plan().ranked[0].layout.replicas;
    case.workload.limits.spare_replicas = 2;
    assert_eq!(case.plan().ranked[0].layout.replicas, without + 2);
}

#[test]
fn objectives_rank() {
    let mut case = Case::new("meta-llama/Llama-3.1-8B");
    case.choices.objective = Objective::Latency;
    let fastest = case.plan();
    let times: Vec<f64> = fastest
        .ranked
        .iter()
        .filter(|d| d.weights_published)
        .map(|d| d.figures.end_to_end.value)
        .collect();
    assert!(times.is_sorted_by(|a, b| a <= &(b * 1.0001)), "{times:?}");
}

#[test]
fn the_front_has_no_dominated_point() {
    let sizing = Case::new("meta-llama/Llama-3.1-8B").plan();
    let front: Vec<_> = sizing.charts.points.iter().filter(|p| p.on_front).collect();
    assert!(!front.is_empty());
    for point in &front {
        let better = sizing.charts.points.iter().find(|other| {
            other.per_hour < point.per_hour
                && other.per_hour.is_some()
                && other.end_to_end < point.end_to_end
        });
        assert!(
            better.is_none(),
            "{} is dominated by {:?}",
            point.label,
            better
        );
    }
}

#[test]
fn two_plans_are_one() {
    let case = Case::new("mistralai/Mixtral-8x7B-v0.1");
    assert_eq!(case.plan(), case.plan());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// More load never costs less.
    #[test]
    fn more_load_costs_no_less(rate in 0.1f64..20.0, factor in 1.0f64..8.0) {
        let mut case = Case::new("meta-llama/Llama-3.1-8B");
        let price = |sizing: Sizing| sizing.ranked.first().and_then(|d| d.cost.per_hour);
        case.workload = workload(rate, 2.0, 0.05);
        let few = price(case.plan());
        case.workload = workload(rate * factor, 2.0, 0.05);
        let more = price(case.plan());
        if let (Some(few), Some(more)) = (few, more) {
            prop_assert!(more >= few, "{few} at {rate}, {more} at {}", rate * factor);
        }
    }

    /// A longer bound never costs more.
    #[test]
    fn a_looser_promise_costs_no_more(tpot in 0.02f64..0.1, factor in 1.0f64..4.0) {
        let mut case = Case::new("meta-llama/Llama-3.1-8B");
        case.workload = workload(2.0, 2.0, tpot);
        let price = |sizing: Sizing| sizing.ranked.first().and_then(|d| d.cost.per_hour);
        let tight = price(case.plan());
        case.workload = workload(2.0, 2.0, tpot * factor);
        let loose = price(case.plan());
        if let (Some(tight), Some(loose)) = (tight, loose) {
            prop_assert!(loose <= tight, "{tight} at {tpot}, {loose} at {}", tpot * factor);
        }
    }
}

#[test]
fn pools_apart_keep_prompts_out_of_decode_steps() {
    let mut case = Case::new("meta-llama/Llama-3.1-70B");
    case.workload = workload(8.0, 2.0, 0.03);
    case.choices.disaggregated = true;
    case.choices.top = 20;
    let sizing = case.on(&["H100 SXM5 80GB", "H200 SXM 141GB"]).plan();
    let apart: Vec<_> = sizing
        .ranked
        .iter()
        .filter(|d| d.prefill.is_some())
        .collect();
    assert!(!apart.is_empty());
    for deployment in apart {
        assert!(deployment.figures.ttft.value <= 2.0 && deployment.figures.tpot.value <= 0.03);
        let rental = deployment.rental.as_ref().expect("an offer");
        assert!(rental.instances * rental.gpu_thousandths / 1000 >= deployment.devices());
    }
}

#[test]
fn nothing_decodes_faster_than_memory_can_be_read() {
    let mut case = Case::new("meta-llama/Llama-3.1-8B");
    // A set of constants as bold as a fit could make it.
    for log in &mut case.knowledge.serving.base {
        *log += 0.4;
    }
    case.choices.top = 40;
    case.workload = workload(0.01, 20.0, 5.0);
    let weights = 7.0e9 * 2.0;
    for deployment in case.plan().ranked.iter().filter(|d| d.weights == "bf16") {
        let gpu = case.catalogue.gpu(&deployment.gpu).expect("a GPU");
        let share = if deployment.slice.is_some() {
            0.125
        } else {
            1.0
        };
        let floor = weights / f64::from(deployment.layout.replica_gpus()) / gpu.bandwidth.get();
        assert!(
            deployment.figures.tpot.value >= floor.min(floor / share),
            "{}: {} below {floor}",
            deployment.gpu,
            deployment.figures.tpot.value
        );
    }
}

#[test]
fn stages_do_not_shorten_one_prompt() {
    let case = Case::new("meta-llama/Llama-3.1-70B");
    let first = |layout: Layout| {
        let mut case = Case::new("meta-llama/Llama-3.1-70B");
        case.architecture = case.architecture.clone();
        case.workload = workload(0.01, 100.0, 10.0);
        case.choices.weights = vec!["fp8".into()];
        case.choices.slices = false;
        case.choices.fixed = Some(Fixed {
            layout: Some(layout),
            ..Fixed::default()
        });
        let sizing = case.on(&["H200 SXM 141GB"]).plan();
        sizing.ranked.first().map(|d| d.figures.ttft.value)
    };
    let staged = first(Layout {
        pipeline: 4,
        ..Layout::SINGLE
    });
    let whole = first(Layout::SINGLE);
    if let (Some(staged), Some(whole)) = (staged, whole) {
        assert!(
            staged > 0.9 * whole,
            "{staged} with four stages, {whole} with one"
        );
    } else {
        panic!(
            "both fit: {staged:?} {whole:?} {}",
            case.architecture.layer_count()
        );
    }
}

#[test]
fn where_no_allowed_gpu_will_do_the_best_of_all_is_named() {
    let sizing = Case::new("meta-llama/Llama-3.1-70B").on(&["T4"]).plan();
    assert!(sizing.ranked.is_empty());
    assert!(
        sizing
            .notes
            .iter()
            .any(|note| note.to_string().contains("the best that suffices is")),
        "{:?}",
        sizing.notes
    );
}
