//! The search for training layouts against brute force, and what it says where nothing goes.

use crate::fixture::{catalogue, model};
use gpuwise_domain::{
    catalogue::Catalogue,
    deployment::Test,
    estimate::{Basis, Derivation, Estimate},
    fix::Fix,
    training::{
        Framework, Method, Offload, Optimizer, RankMemory, Recipe, Recompute, Sharding, StepCause,
        StepTime, TrainingLayout, TrainingMemory, TrainingSetup,
    },
    training_plan::{Reliability, TrafficKind, TrainingJob},
};
use gpuwise_size::training::search::{
    Cluster, Degrees, Machines, Market, Physics, RankBy, Shape, TrainChoices, TrainRequest, best,
    cluster, refusals, train,
};
use gpuwise_units::{Bytes, Currency, Money, Tokens};
use proptest::prelude::*;

/// Memory and time by formulas of a few lines, in which every degree costs something.
struct Toy {
    states: f64,
    kept: f64,
    usable: f64,
    work: f64,
    /// The upper end of memory's range over its value.
    range: f64,
}

fn share(recompute: Recompute) -> (f64, f64) {
    match recompute {
        Recompute::None => (1.0, 1.0),
        Recompute::Selective => (0.7, 1.05),
        Recompute::Full => (0.15, 1.33),
    }
}

impl Toy {
    fn bytes(&self, setup: &TrainingSetup) -> f64 {
        let l = &setup.layout;
        let data = f64::from(l.data * l.context);
        let sharded = match setup.sharding {
            Sharding::None => 1.0,
            Sharding::Optimizer => 0.25 + 0.75 / data,
            Sharding::Gradients => 0.2 + 0.8 / data,
            Sharding::Full => 0.05 + 0.95 / data,
            Sharding::Hybrid { group } => 0.05 + 0.95 / f64::from(group),
        };
        let split = f64::from(l.tensor * l.pipeline);
        let tokens = setup.micro_batch as f64 * setup.sequence.0 as f64 / f64::from(l.context);
        let alive = f64::from(l.pipeline.min(4));
        self.states * sharded / split
            + self.kept * tokens * share(setup.recompute).0 * alive / split
    }

    fn seconds(&self, setup: &TrainingSetup) -> f64 {
        let l = &setup.layout;
        let micro = (setup.global_batch / u64::from(l.data) / setup.micro_batch) as f64;
        let bubble = f64::from(l.pipeline - 1) / (micro * f64::from(l.interleave));
        let efficient = 1.0 + 0.5 / setup.micro_batch as f64;
        let links = 1.0
            + 0.06 * f64::from(l.tensor - 1)
            + 0.03 * f64::from(l.context - 1)
            + 0.01 * f64::from(l.expert - 1)
            + 0.004 * f64::from(l.interleave - 1);
        let sharded = match setup.sharding {
            Sharding::None => 1.0,
            Sharding::Optimizer => 1.01,
            Sharding::Gradients => 1.02,
            Sharding::Full => 1.08,
            Sharding::Hybrid { .. } => 1.05,
        };
        let framework = if setup.framework == Framework::Megatron {
            0.97
        } else {
            1.0
        };
        self.work / l.gpus() as f64
            * setup.global_batch as f64
            * share(setup.recompute).1
            * (1.0 + bubble)
            * efficient
            * links
            * sharded
            * framework
    }
}

impl Physics for Toy {
    fn memory(&self, setup: &TrainingSetup, _: &Cluster<'_>) -> Result<TrainingMemory, String> {
        let bytes = Estimate::with_factors(self.bytes(setup), 1.0, self.range);
        Ok(TrainingMemory {
            ranks: vec![RankMemory {
                stage: 0,
                causes: Vec::new(),
                phases: Vec::new(),
                peak: bytes,
                reserved: bytes,
            }],
            host: Bytes::ZERO,
            trainable: 1_000_000_000,
            assumptions: Vec::new(),
            basis: Basis::Exact,
        })
    }

    fn step(&self, setup: &TrainingSetup, cluster: &Cluster<'_>) -> Result<StepTime, String> {
        let seconds = self.seconds(setup);
        let tokens = setup.global_batch as f64 * setup.sequence.0 as f64;
        Ok(StepTime {
            parts: vec![(StepCause::Matmul, seconds)],
            step: Estimate::with_factors(seconds, 0.9, 1.1),
            tokens_per_second_per_gpu: Estimate::exact(tokens / seconds / cluster.gpus as f64),
            model_flops_per_gpu: Estimate::exact(1.0),
            mfu: None,
            hfu: None,
            basis: Basis::Exact,
            assumptions: Vec::new(),
        })
    }

    fn usable(&self, _: &Cluster<'_>) -> Bytes {
        Bytes::new(self.usable as u64)
    }

    fn checkpoint(&self, _: &TrainingSetup) -> Bytes {
        Bytes::new(14_000_000_000)
    }

    fn fixes(&self, _: &TrainingSetup, _: &Cluster<'_>) -> Vec<(Fix, TrainingSetup)> {
        Vec::new()
    }

    fn derivations(&self, _: &TrainingSetup, _: &Cluster<'_>) -> Vec<Derivation> {
        Vec::new()
    }
}

fn choices(sequence: u64, global_batch: u64) -> TrainChoices {
    TrainChoices {
        method: Method::Full,
        alignment: None,
        recipe: Recipe::MixedBf16,
        without_bf16: None,
        optimizer: Optimizer::AdamW,
        framework: None,
        loss: None,
        recompute: None,
        sharding: None,
        offload: Offload::default(),
        compiled: false,
        sequence,
        micro_batch: None,
        global_batch: Some(global_batch),
        degrees: Degrees::default(),
    }
}

/// Every number in every place, kept where the rules of the frameworks allow it.
#[expect(clippy::too_many_lines, reason = "loops in loops, on purpose")]
fn brute_force(
    shape: &Shape,
    choices: &TrainChoices,
    gpus: u32,
    host: u32,
    toy: &Toy,
) -> Option<(f64, f64)> {
    let batch = choices.global_batch.expect("a batch");
    // How far the range of memory reaches beyond what there is, and seconds: the least of both.
    let mut least: Option<(f64, f64)> = None;
    let mut try_one = |framework, layout: TrainingLayout, sharding| {
        for power in 0..=8 {
            let micro_batch = 1_u64 << power;
            let rank = micro_batch * u64::from(layout.data);
            if !batch.is_multiple_of(rank) {
                continue;
            }
            let waves = batch / rank;
            if layout.interleave > 1 && !waves.is_multiple_of(u64::from(layout.pipeline)) {
                continue;
            }
            for recompute in [Recompute::Full, Recompute::None, Recompute::Selective] {
                if recompute == Recompute::Selective && framework != Framework::Megatron {
                    continue;
                }
                let setup = TrainingSetup {
                    method: choices.method.clone(),
                    alignment: None,
                    recipe: choices.recipe,
                    optimizer: choices.optimizer,
                    recompute,
                    loss: gpuwise_domain::training::LossKernel::Chunked,
                    framework,
                    sequence: Tokens(choices.sequence),
                    micro_batch,
                    global_batch: batch,
                    layout,
                    sharding,
                    offload: choices.offload,
                    compiled: false,
                    step_in_backward: false,
                };
                let (bytes, room) = (toy.bytes(&setup), (toy.usable as u64) as f64);
                let one = ((bytes * toy.range / room).max(1.0), toy.seconds(&setup));
                if bytes <= room && least.is_none_or(|least| one < least) {
                    least = Some(one);
                }
            }
        }
    };
    let dealt = |stages: u64| {
        shape.layers.is_multiple_of(stages) || (shape.layers + 2).is_multiple_of(stages)
    };
    let alone = TrainingLayout::data(gpus);
    let mut plain = vec![Sharding::None];
    if gpus > 1 {
        plain.extend([Sharding::Gradients, Sharding::Full]);
    }
    if gpus > host && gpus.is_multiple_of(host) && host > 1 {
        plain.push(Sharding::Hybrid { group: host });
    }
    for sharding in plain {
        try_one(Framework::PyTorch, alone, sharding);
    }
    for tensor in 1..=gpus.min(host) {
        for pipeline in 1..=gpus {
            for context in 1..=gpus {
                let used = tensor * pipeline * context;
                if !gpus.is_multiple_of(used) || !shape.heads.is_multiple_of(u64::from(tensor)) {
                    continue;
                }
                let chunks = 2 * u64::from(context);
                let long = choices.sequence / u64::from(context) >= 4096;
                if context > 1 && (!choices.sequence.is_multiple_of(chunks) || !long) {
                    continue;
                }
                for interleave in 1..=8 {
                    let stages = u64::from(pipeline * interleave);
                    let even = dealt(stages);
                    let first = dealt(u64::from(pipeline));
                    let plain = stages == 1;
                    if stages > shape.layers
                        || !(plain || even && first)
                        || (interleave > 1 && pipeline == 1)
                    {
                        continue;
                    }
                    let data = gpus / used;
                    for expert in 1..=(tensor * context * data) {
                        let shared = expert == 1
                            || shape.experts > 0 && shape.experts.is_multiple_of(u64::from(expert));
                        if !shared || !(tensor * context * data).is_multiple_of(expert) {
                            continue;
                        }
                        let layout = TrainingLayout {
                            tensor,
                            pipeline,
                            interleave,
                            context,
                            expert,
                            data,
                            sequence_parallel: tensor > 1,
                        };
                        let sharding = if data * context > 1 {
                            Sharding::Optimizer
                        } else {
                            Sharding::None
                        };
                        try_one(Framework::Megatron, layout, sharding);
                    }
                }
            }
        }
    }
    least
}

fn gpu_catalogue() -> Catalogue {
    catalogue()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_search_finds_what_brute_force_finds(
        heads in prop::sample::select(vec![8_u64, 12, 32]),
        layers in prop::sample::select(vec![6_u64, 8, 30]),
        experts in prop::sample::select(vec![0_u64, 8]),
        gpus in prop::sample::select(vec![1_u32, 2, 6, 8, 16]),
        host in prop::sample::select(vec![2_u32, 4, 8]),
        sequence in prop::sample::select(vec![2048_u64, 8192, 32768]),
        batch in prop::sample::select(vec![16_u64, 24, 48]),
        states in 1e9..4e11_f64,
        kept in 1e4..4e6_f64,
        range in 1.0..1.6_f64,
    ) {
        let known = gpu_catalogue();
        let shape = Shape { heads, layers, experts };
        let toy = Toy { states, kept, usable: 7e10, work: 1.0, range };
        let choices = choices(sequence, batch);
        let place = Cluster {
            gpu: known.gpu("H100").expect("a GPU"),
            gpus: u64::from(gpus),
            domain: host,
            per_host: host,
            network: None,
        };
        let found = best(&shape, &choices, &place, &toy);
        let wanted = brute_force(&shape, &choices, gpus, host, &toy);
        let had = found.best.as_ref().map(|best| (best.filled.max(1.0), best.step.step.value));
        match (had, wanted) {
            (Some(had), Some(wanted)) => {
                prop_assert!((had.0 / wanted.0 - 1.0).abs() < 1e-12, "{had:?} against {wanted:?}");
                prop_assert!((had.1 / wanted.1 - 1.0).abs() < 1e-12, "{had:?} against {wanted:?}");
            }
            (None, None) => prop_assert!(found.nearest().is_some() || found.kinds.is_empty()),
            other => prop_assert!(false, "{other:?}"),
        }
    }
}

#[test]
fn choices_that_cannot_be_met_are_said_with_the_nearest() {
    let known = gpu_catalogue();
    let gpu = known.gpu("H100").expect("a GPU");
    let shape = Shape::of(&model("meta-llama/Llama-3.1-8B"));
    assert_eq!((shape.heads, shape.layers, shape.experts), (32, 32, 0));
    let check = |change: &dyn Fn(&mut TrainChoices), gpus, why: &str, nearest: &[&str]| {
        let mut asked = choices(8192, 64);
        change(&mut asked);
        let said = refusals(&shape, &asked, &cluster(&known, gpu, gpus));
        let first = said
            .first()
            .unwrap_or_else(|| panic!("nothing is refused of {why}"));
        assert!(first.why.to_string().contains(why), "{:?}", first.why);
        let changes = first.nearest.iter().take(nearest.len());
        let flags: Vec<String> = changes
            .map(|change| change.flag(&gpu.name).to_string())
            .collect();
        assert_eq!(flags, nearest, "{why}");
    };
    check(
        &|c| c.degrees.tensor = Some(3),
        8,
        "3 does not divide the 32 attention heads",
        &["--tp 2", "--tp 4"],
    );
    check(
        &|c| c.degrees.pipeline = Some(40),
        80,
        "8 stages without a layer",
        &["--pp 20"],
    );
    check(
        &|c| {
            c.degrees.pipeline = Some(5);
            c.degrees.interleave = Some(8);
        },
        10,
        "32 layers cannot be dealt to 5 × 8 virtual stages",
        &["--vp 6"],
    );
    check(
        &|c| c.degrees.expert = Some(4),
        8,
        "no experts",
        &["--ep 1"],
    );
    check(
        &|c| c.degrees.tensor = Some(16),
        8,
        "TP16 is 16, which does not make 8 GPUs",
        &["--tp 8"],
    );
    check(
        &|c| {
            c.degrees.data = Some(8);
            c.global_batch = Some(100);
        },
        8,
        "a global batch of 100",
        &["--global-batch 96", "--global-batch 104"],
    );
    check(
        &|c| {
            c.degrees.context = Some(3);
            c.sequence = 8192;
        },
        3,
        "two a rank",
        &["--seq 8190", "--seq 8196"],
    );
    check(
        &|c| {
            c.framework = Some(Framework::Torchtune);
            c.degrees.tensor = Some(2);
        },
        8,
        "data-parallel ranks alone",
        &["--framework megatron"],
    );
    check(
        &|c| {
            c.framework = Some(Framework::HuggingFace);
            c.recompute = Some(Recompute::Selective);
        },
        8,
        "Hugging Face recomputes whole layers or nothing",
        &["--recompute full", "--recompute none"],
    );
}

fn request<'a>(
    architecture: &'a gpuwise_domain::model::Architecture,
    known: &'a Catalogue,
    machines: Machines<'a>,
    job: TrainingJob,
) -> TrainRequest<'a> {
    TrainRequest {
        name: "a model".into(),
        origin: "a test".into(),
        architecture,
        job,
        catalogue: known,
        reliability: Reliability {
            gpu_hours_per_stop: Estimate::with_factors(50_000.0, 0.5, 2.0),
            restart_seconds: Estimate::with_factors(600.0, 0.5, 2.0),
            storage_per_gpu: Estimate::with_factors(1e8, 0.5, 2.0),
            sources: ["a".into(), "b".into(), "c".into()],
        },
        choices: choices(8192, 128),
        machines,
        terms: gpuwise_domain::offer::Terms::OnDemand,
        rank: None,
        top: 5,
    }
}

fn market<'a>() -> Market<'a> {
    Market {
        gpus: Vec::new(),
        providers: Vec::new(),
        regions: Vec::new(),
        owned: vec![],
        terms: gpuwise_domain::offer::Terms::OnDemand,
        most: 1024,
    }
}

/// Seconds of a step follow from no GPU here, so that only count and price decide.
const TOY: Toy = Toy {
    states: 1.2e11,
    kept: 4e5,
    usable: 7e10,
    work: 40.0,
    range: 1.0,
};

#[test]
fn a_deadline_takes_more_gpus_and_a_budget_refuses() {
    let known = gpu_catalogue();
    let architecture = model("meta-llama/Llama-3.1-8B");
    let day = 86_400.0;
    let plan = |within: Option<f64>, budget: Option<i64>| {
        let job = TrainingJob {
            tokens: Some(2_000_000_000),
            within,
            budget: budget.map(|units| Money {
                micros: units * 1_000_000,
                currency: Currency::USD,
            }),
            evaluation: None,
        };
        let asked = request(&architecture, &known, Machines::Offered(market()), job);
        train(&asked, &TOY)
    };
    let free = plan(None, None);
    let best = &free.ranked[0];
    let took = best.run.as_ref().expect("a run").total.value;
    let late = plan(Some(took / 3.0), None);
    let faster = late.ranked[0].run.as_ref().expect("a run");
    assert!(faster.total.value <= took / 3.0);
    assert!(late.ranked[0].gpus > best.gpus);
    assert!(took > day / 100.0);
    // One of each GPU, cheapest first.
    let costs: Vec<i64> = free
        .ranked
        .iter()
        .filter_map(|plan| Some(plan.run.as_ref()?.cost?.value.micros))
        .collect();
    assert!(costs.is_sorted(), "{costs:?}");
    let poor = plan(None, Some(1));
    assert!(poor.ranked.is_empty());
    assert!(
        poor.dropped.iter().any(|d| d.test == Test::Limits),
        "{:?}",
        poor.dropped
    );
    assert_eq!(free, plan(None, None), "the same question, the same answer");
}

#[test]
fn hosts_of_ones_own_are_all_used_unless_gpu_hours_are_what_counts() {
    let known = gpu_catalogue();
    let architecture = model("meta-llama/Llama-3.1-8B");
    // A model small enough for one GPU: more of them only fail more often.
    let toy = Toy {
        states: 1e10,
        ..TOY
    };
    let gpus = |owned: u32, rank: Option<RankBy>| {
        let gpu = known.gpu("H100").expect("a GPU");
        let market = Market {
            owned: vec![(gpu, owned)],
            ..market()
        };
        let job = TrainingJob {
            tokens: Some(2_000_000_000),
            ..TrainingJob::default()
        };
        let mut asked = request(&architecture, &known, Machines::Offered(market), job);
        asked.choices.global_batch = None;
        asked.rank = rank;
        let best = train(&asked, &toy).ranked.swap_remove(0);
        (best.gpus, best.run.expect("a run").total.value)
    };
    for owned in [2, 3, 6, 8] {
        let (count, seconds) = gpus(owned, None);
        assert_eq!(count, u64::from(owned));
        assert_eq!(gpus(owned, Some(RankBy::Time)), (count, seconds));
        let (fewest, longer) = gpus(owned, Some(RankBy::Cost));
        assert!(fewest as f64 * longer <= count as f64 * seconds && longer >= seconds);
    }
    assert_eq!(gpus(8, Some(RankBy::Cost)).0, 1);
}

#[test]
fn a_plan_that_may_run_out_comes_after_those_that_do_not() {
    let known = gpu_catalogue();
    let architecture = model("meta-llama/Llama-3.1-8B");
    let plans = |range: f64| {
        let toy = Toy { range, ..TOY };
        let market = Market {
            gpus: vec![known.gpu("H100").expect("a GPU")],
            ..market()
        };
        let job = TrainingJob {
            tokens: Some(2_000_000_000),
            ..TrainingJob::default()
        };
        let machines = Machines::Offered(market);
        train(&request(&architecture, &known, machines, job), &toy).ranked
    };
    let sure = plans(1.0);
    assert!(!sure[0].tight());
    // What just fits does not with its range: more GPUs are taken rather than none left.
    let unsure = plans(1.5);
    assert!(!unsure[0].tight());
    let held = |plan: &gpuwise_domain::training_plan::TrainingPlan| {
        plan.memory.fullest().expect("a rank").reserved
    };
    assert!(held(&unsure[0]).high <= TOY.usable && held(&unsure[0]).value <= held(&sure[0]).value);
}

#[test]
fn small_hosts_are_joined_only_where_their_network_is_known() {
    let known = gpu_catalogue();
    let architecture = model("meta-llama/Llama-3.1-8B");
    for gpu in &known.gpus {
        let market = Market {
            gpus: vec![gpu],
            ..market()
        };
        let job = TrainingJob {
            tokens: Some(50_000_000_000),
            within: Some(86_400.0),
            ..TrainingJob::default()
        };
        let machines = Machines::Offered(market);
        for plan in train(&request(&architecture, &known, machines, job), &TOY).ranked {
            let hosts = plan.gpus > u64::from(plan.gpus_per_host.max(plan.domain));
            let network = plan.needs.network_has.is_some();
            assert!(!hosts || network || plan.gpus_per_host >= 8, "{plan:?}");
        }
    }
}

#[test]
fn the_bill_is_price_by_time_rounded_once() {
    let known = gpu_catalogue();
    let architecture = model("meta-llama/Llama-3.1-8B");
    let job = TrainingJob {
        tokens: Some(1_000_000_000),
        ..TrainingJob::default()
    };
    let gpu = known.gpu("H100").expect("a GPU");
    let machines = Machines::Given(cluster(&known, gpu, 16));
    let answer = train(&request(&architecture, &known, machines, job), &TOY);
    let plan = &answer.ranked[0];
    let run = plan.run.as_ref().expect("a run");
    assert_eq!(run.steps, 954, "⌈10⁹ / (128 · 8192)⌉");
    let parts = run.stepping.value + run.evaluating + run.saving.value + run.lost.value;
    assert!((parts / run.total.value - 1.0).abs() < 1e-9);
    let rental = plan.rental.as_ref().expect("an offer");
    assert_eq!((rental.instances, rental.gpu_thousandths), (2, 8_000));
    let hour = rental.price.expect("a price").0.as_f64() * 2.0;
    let cost = run.cost.expect("a cost");
    assert!((cost.value.as_f64() - hour * run.total.value / 3600.0).abs() < 1e-3);
    assert!(cost.low < cost.value && cost.value < cost.high);
    assert!(answer.dropped.iter().any(|d| d.test == Test::Dominated));
}

#[test]
fn what_traffic_needs_is_as_counted_by_hand() {
    let known = gpu_catalogue();
    let architecture = model("meta-llama/Llama-3.1-8B");
    let gpu = known.gpu("H100").expect("a GPU");
    let machines = Machines::Given(Cluster {
        gpu,
        gpus: 16,
        domain: 8,
        per_host: 8,
        network: Some(5e10),
    });
    let mut asked = request(&architecture, &known, machines, TrainingJob::default());
    asked.choices.framework = Some(Framework::Megatron);
    asked.choices.degrees = Degrees {
        tensor: Some(2),
        pipeline: Some(2),
        interleave: Some(1),
        context: Some(1),
        expert: Some(1),
        data: Some(4),
    };
    asked.choices.micro_batch = Some(2);
    asked.choices.recompute = Some(Recompute::None);
    let answer = train(&asked, &TOY);
    let plan = answer.ranked.first().expect("a plan");
    let of = |kind: TrafficKind| {
        let needs = &plan.needs.traffic;
        needs
            .iter()
            .find(|need| need.kind == kind)
            .expect("traffic")
    };
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} is not {b}");
    // 128 sequences over 4 ranks in micro-batches of 2: 16 of 2 · 8192 tokens; 16 of 32 layers each.
    let message = 2.0 * 8192.0 * 4096.0 * 2.0;
    // Four rings a layer, of two ranks: 2 · 1/2 of the message each.
    near(of(TrafficKind::Tensor).bytes, 4.0 * message * 16.0 * 16.0);
    // There and back, each tensor rank its half.
    near(of(TrafficKind::Pipeline).bytes, 2.0 * message / 2.0 * 16.0);
    // Toy trains 10⁹ parameters: a quarter on each rank, reduced and gathered at 2 bytes, 3 of 4 parts.
    let data = of(TrafficKind::Data);
    near(data.bytes, 2.0 * 0.25e9 * 2.0 * 0.75);
    // It hides behind one micro-batch of 16.
    near(data.hidden_behind, plan.step.step.value / 16.0);
    // TP2 × DP4 is within a host of 8; PP2 × that is not.
    assert!(!data.across_hosts && of(TrafficKind::Pipeline).across_hosts);
    assert!(!of(TrafficKind::Tensor).across_hosts);
    near(plan.needs.network_has.expect("known"), 4e11);
}
