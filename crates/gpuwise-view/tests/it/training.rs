//! Training plans as they are shown, and recipes as their tools would read them.

use gpuwise_domain::{
    deployment::{Dropped, ModelSummary, Rental, Test},
    estimate::{Basis, Estimate},
    fix::Fix,
    limit::Limit,
    note::Note,
    offer::Terms,
    reason::Reason,
    training::{
        Adapter, AdapterKind, BaseStorage, Framework, LossKernel, MemoryCause, Method, Offload,
        Optimizer, Phase, RankMemory, Recipe, Recompute, Sharding, StepCause, StepTime,
        TrainingLayout, TrainingMemory, TrainingSetup,
    },
    training_plan::{
        CheckpointPlan, MoneyRange, TrafficKind, TrafficNeed, TrainingAsked, TrainingJob,
        TrainingNeeds, TrainingPlan, TrainingQuestion, TrainingRun, TrainingSizing,
    },
};
use gpuwise_units::{Bytes, Currency, HourlyPrice, Money, Tokens};
use gpuwise_view::{
    Style, record,
    training::{self as view, emit},
};
use serde_json::Value;

const GIB: f64 = 1_073_741_824.0;

fn dollars(amount: i64) -> Money {
    Money {
        micros: amount * 1_000_000,
        currency: Currency::USD,
    }
}

pub(crate) fn model() -> ModelSummary {
    ModelSummary {
        name: "org/A-model".into(),
        parameters: 8_030_000_000,
        layers: 32,
        ..ModelSummary::default()
    }
}

pub(crate) fn setup(layout: TrainingLayout, framework: Framework) -> TrainingSetup {
    TrainingSetup {
        method: Method::Full,
        alignment: None,
        recipe: Recipe::MixedBf16,
        optimizer: Optimizer::AdamW,
        recompute: Recompute::Full,
        loss: LossKernel::Eager,
        framework,
        sequence: Tokens(8192),
        micro_batch: 2,
        global_batch: 512,
        layout,
        sharding: Sharding::Full,
        offload: Offload::default(),
        compiled: false,
        step_in_backward: false,
    }
}

pub(crate) fn plan(setup: TrainingSetup) -> TrainingPlan {
    let within = |value: f64| Estimate::with_factors(value, 0.9, 1.1);
    let gpus = setup.layout.gpus();
    TrainingPlan {
        gpu: "H100 SXM5 80GB".into(),
        gpus,
        gpus_per_host: 8,
        domain: 8,
        memory: TrainingMemory {
            ranks: vec![RankMemory {
                stage: 0,
                causes: vec![
                    (MemoryCause::Weights, Bytes::new(20 << 30)),
                    (MemoryCause::Activations, Bytes::new(30 << 30)),
                ],
                phases: vec![
                    (Phase::Forward, Bytes::new(50 << 30)),
                    (Phase::OptimizerStep, Bytes::new(40 << 30)),
                ],
                peak: within(50.0 * GIB),
                reserved: within(52.0 * GIB),
            }],
            host: Bytes::ZERO,
            trainable: 8_000_000_000,
            assumptions: Vec::new(),
            basis: Basis::Calibrated,
        },
        visible: Bytes::new(79 << 30),
        usable: Bytes::new(76 << 30),
        step: StepTime {
            parts: vec![(StepCause::Matmul, 6.0), (StepCause::DataParallel, 2.0)],
            step: within(8.0),
            tokens_per_second_per_gpu: within(8000.0),
            model_flops_per_gpu: within(4e14),
            mfu: Some(within(0.4)),
            hfu: None,
            basis: Basis::Calibrated,
            assumptions: Vec::new(),
        },
        run: Some(TrainingRun {
            steps: 480,
            stepping: within(3840.0),
            evaluating: 0.0,
            saving: within(12.0),
            lost: within(3.0),
            total: within(3855.0),
            failures: within(0.002),
            cost: Some(MoneyRange {
                value: dollars(128),
                low: dollars(115),
                high: dollars(141),
            }),
            energy: Some(within(3.6e8)),
        }),
        checkpoints: CheckpointPlan {
            bytes: Bytes::new(105 << 30),
            write: within(12.0),
            interval: within(7200.0),
            steps: 900,
            mtbf: within(2.8e6),
            lost_share: within(0.003),
        },
        needs: TrainingNeeds {
            traffic: vec![TrafficNeed {
                kind: TrafficKind::Data,
                bytes: 4e10,
                hidden_behind: 6.0,
                bits_per_second: 5e10,
                across_hosts: gpus > 8,
            }],
            network_has: Some(4e11),
            capacity: Some(Bytes::new(300 << 30)),
            data: Some(2e6),
            checkpoint_write: 9e9,
        },
        rental: Some(Rental {
            provider: "a cloud".into(),
            instance: "eight".into(),
            region: String::new(),
            terms: Terms::OnDemand,
            instances: 2,
            gpu_thousandths: 8000,
            idle: 0,
            price: Some(HourlyPrice(dollars(20))),
            date: "2026-07-20".into(),
            source: "a test".into(),
        }),
        basis: Basis::Calibrated,
        bottleneck: Some(Limit {
            cause: StepCause::Matmul,
            share: 0.75,
        }),
        derivations: Vec::new(),
        setup,
    }
}

fn sizing(plans: Vec<TrainingPlan>) -> TrainingSizing {
    TrainingSizing {
        question: TrainingQuestion {
            model: model(),
            asked: TrainingAsked {
                method: Method::Full,
                alignment: None,
                recipe: Recipe::MixedBf16,
                optimizer: Optimizer::AdamW,
                sequence: 8192,
                global_batch: Some(512),
            },
            job: TrainingJob {
                tokens: Some(2_000_000_000),
                within: Some(86_400.0),
                budget: Some(dollars(500)),
                evaluation: None,
            },
        },
        ranked: plans,
        dropped: vec![Dropped {
            label: "16 × H100 SXM5 80GB, Megatron TP8 DP2".into(),
            gpu: "H100 SXM5 80GB".into(),
            test: Test::Memory,
            shortfall: Reason::Overfull {
                ratio: 1.12,
                range: false,
            },
            fixes: vec![Fix::flag("--recompute", "full")],
            ratio: 1.12,
        }],
        considered: 1234,
        notes: vec![Note::Model("a note".into())],
        charts: (),
    }
}

fn style() -> Style {
    Style {
        width: 100,
        colour: false,
    }
}

#[test]
fn the_first_screen_fits_and_says_all() {
    let shown = view::text(
        &sizing(vec![plan(setup(
            TrainingLayout::data(16),
            Framework::PyTorch,
        ))]),
        true,
        style(),
    );
    for line in shown.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    for wanted in [
        "org/A-model",
        "16 × H100",
        "PyTorch",
        "matmuls: 75 %",
        "480 steps",
        "$128.0",
        "kWh",
        "a checkpoint of 105 GiB every 2 h",
        "it has 400 Gbit/s",
        "2 × eight of a cloud",
        "optimizer step",
        "TP8 DP2",
        "a note",
    ] {
        assert!(shown.contains(wanted), "{wanted:?} is missing:\n{shown}");
    }
    insta::assert_snapshot!("training_text", shown);
}

#[test]
fn what_is_short_is_said_with_every_cure() {
    let none = sizing(Vec::new());
    let shown = view::text(&none, false, style());
    assert!(shown.contains("No plan meets what was asked."), "{shown}");
    assert!(shown.contains("Fix      --recompute full"), "{shown}");
    assert!(view::markdown(&none).contains("## No plan"));
    assert!(view::csv(&none).starts_with("label,"));
    assert_eq!(record::json(&none)["feasible"], Value::Bool(false));
}

#[test]
fn documents_have_every_figure() {
    let all = sizing(vec![plan(setup(
        TrainingLayout::data(16),
        Framework::PyTorch,
    ))]);
    let json = record::json(&all);
    assert_eq!(json["plans"][0]["run"]["cost"]["amount"], 128.0);
    assert_eq!(json["plans"][0]["setup"]["accumulation"], 16);
    assert_eq!(
        json["plans"][0]["memory"]["ranks"][0]["causes"][1]["cause"],
        "activations"
    );
    let csv = view::csv(&all);
    let mut lines = csv.lines();
    let (head, row) = (lines.next().unwrap(), lines.next().unwrap());
    let count = |line: &str| {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(line.as_bytes());
        reader.records().next().unwrap().unwrap().len()
    };
    assert_eq!(count(head), count(row));
    let names: std::collections::BTreeSet<&str> = head.split(',').collect();
    assert_eq!(
        names.len(),
        count(head),
        "every column has a name of its own"
    );
    assert!(row.contains("full") && row.contains("pytorch"), "{row}");
    insta::assert_snapshot!("training_markdown", view::markdown(&all));
}

pub(crate) fn adapter(base: BaseStorage, kind: AdapterKind, modules: &[&str]) -> Method {
    Method::Adapter(Adapter {
        kind,
        name: None,
        rank: Some(16),
        modules: modules.iter().map(|module| (*module).to_owned()).collect(),
        trainable: None,
        base,
    })
}

pub(crate) fn yaml(form: emit::RecipeForm, setup: TrainingSetup) -> Value {
    let text = emit::recipe(form, &plan(setup), &model()).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Values at paths such as `fsdp_config.fsdp_version`.
pub(crate) fn check(found: &Value, wanted: &[(&str, Value)]) {
    for (path, value) in wanted {
        let at = path.split('.').fold(found, |at, key| &at[key]);
        assert_eq!(at, value, "{path} of {found}");
    }
}

#[test]
fn torchtune_is_given_what_it_reads() {
    let mut full = setup(TrainingLayout::data(16), Framework::PyTorch);
    full.recipe = Recipe::PureBf16;
    full.loss = LossKernel::Chunked;
    full.sharding = Sharding::Hybrid { group: 8 };
    let found = yaml(emit::RecipeForm::Torchtune, full.clone());
    check(
        &found,
        &[
            ("batch_size", 2.into()),
            ("gradient_accumulation_steps", 16.into()),
            ("dtype", "bf16".into()),
            ("optimizer._component_", "torch.optim.AdamW".into()),
            (
                "loss._component_",
                "torchtune.modules.loss.LinearCrossEntropyLoss".into(),
            ),
            ("enable_activation_checkpointing", true.into()),
            ("data_parallel_shard_dim", 8.into()),
            ("data_parallel_replicate_dim", 2.into()),
            ("tokenizer.max_seq_len", 8192.into()),
        ],
    );
    let mut qlora = full.clone();
    qlora.layout = TrainingLayout::data(1);
    qlora.method = adapter(
        BaseStorage::Nf4 { double: true },
        AdapterKind::Dora,
        &["q_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    );
    qlora.optimizer = Optimizer::PagedAdamW8bit;
    let found = yaml(emit::RecipeForm::Torchtune, qlora);
    check(
        &found,
        &[
            ("model.lora_rank", 16.into()),
            ("model.use_dora", true.into()),
            ("model.quantize_base", true.into()),
            ("model.apply_lora_to_mlp", true.into()),
            (
                "model.lora_attn_modules",
                serde_json::json!(["q_proj", "output_proj"]),
            ),
            (
                "optimizer._component_",
                "bitsandbytes.optim.PagedAdamW8bit".into(),
            ),
            ("gradient_accumulation_steps", 256.into()),
        ],
    );
    full.recipe = Recipe::MixedBf16;
    let refused = emit::recipe(emit::RecipeForm::Torchtune, &plan(full), &model()).unwrap_err();
    assert!(
        refused.to_string().contains("--recipe pure-bf16"),
        "{refused}"
    );
}

#[test]
fn axolotl_is_given_what_it_reads() {
    let full = setup(TrainingLayout::data(16), Framework::HuggingFace);
    check(
        &yaml(emit::RecipeForm::Axolotl, full.clone()),
        &[
            ("sequence_len", 8192.into()),
            ("micro_batch_size", 2.into()),
            ("gradient_accumulation_steps", 16.into()),
            ("bf16", true.into()),
            ("gradient_checkpointing", true.into()),
            ("optimizer", "adamw_torch_fused".into()),
            ("dp_shard_size", 16.into()),
            ("fsdp_version", 2.into()),
            ("fsdp_config.reshard_after_forward", true.into()),
        ],
    );
    let mut qlora = full;
    qlora.layout = TrainingLayout::data(1);
    qlora.sharding = Sharding::None;
    qlora.method = adapter(
        BaseStorage::Nf4 { double: true },
        AdapterKind::Lora,
        &["a\"b: #x"],
    );
    let found = yaml(emit::RecipeForm::Axolotl, qlora.clone());
    check(
        &found,
        &[
            ("adapter", "qlora".into()),
            ("load_in_4bit", true.into()),
            ("lora_r", 16.into()),
            ("lora_target_modules", serde_json::json!(["a\"b: #x"])),
            ("fsdp_config", Value::Null),
        ],
    );
    qlora.method = adapter(BaseStorage::SixteenBit, AdapterKind::Boft, &[]);
    assert!(emit::recipe(emit::RecipeForm::Axolotl, &plan(qlora), &model()).is_err());
}

#[test]
fn accelerate_is_given_what_it_reads() {
    let mut full = setup(TrainingLayout::data(16), Framework::HuggingFace);
    let hybrid = Sharding::Hybrid { group: 8 };
    for (sharding, kind, reshard) in [
        (Sharding::Full, "FSDP", Value::Bool(true)),
        (Sharding::Gradients, "FSDP", Value::Bool(false)),
        (hybrid, "FSDP", Value::Bool(true)),
        (Sharding::Optimizer, "DEEPSPEED", Value::Null),
        (Sharding::None, "MULTI_GPU", Value::Null),
    ] {
        full.sharding = sharding;
        let found = yaml(emit::RecipeForm::Accelerate, full.clone());
        check(
            &found,
            &[
                ("distributed_type", kind.into()),
                ("num_processes", 16.into()),
                ("num_machines", 2.into()),
                ("mixed_precision", "bf16".into()),
                ("fsdp_config.fsdp_reshard_after_forward", reshard),
            ],
        );
        let group = found["parallelism_config"]["parallelism_config_dp_shard_size"].as_u64();
        assert_eq!(group, (sharding == hybrid).then_some(8));
    }
}

#[test]
fn megatron_is_given_its_flags() {
    let layout = TrainingLayout {
        tensor: 4,
        pipeline: 2,
        interleave: 17,
        context: 1,
        expert: 1,
        data: 2,
        sequence_parallel: true,
    };
    let mut full = setup(layout, Framework::Megatron);
    full.sharding = Sharding::Optimizer;
    full.loss = LossKernel::VocabularyParallel;
    full.recipe = Recipe::Fp8Block;
    let text = emit::recipe(emit::RecipeForm::Megatron, &plan(full.clone()), &model()).unwrap();
    for flag in [
        "--tensor-model-parallel-size 4",
        "--pipeline-model-parallel-size 2",
        "--num-virtual-stages-per-pipeline-rank 17",
        "--sequence-parallel",
        "--micro-batch-size 2",
        "--global-batch-size 512",
        "--seq-length 8192",
        "--bf16",
        "--fp8-recipe blockwise",
        "--recompute-granularity full",
        "--use-distributed-optimizer",
        "--optimizer adam",
        "--train-iters 480",
        "--save-interval 900",
        // 34 virtual stages take 32 layers where embedding and head count as two.
        "--account-for-embedding-in-pipeline-split",
        "torchrun --nnodes 2 --nproc-per-node 8",
    ] {
        assert!(text.contains(flag), "{flag} is missing:\n{text}");
    }
    assert!(!text.contains("--expert-model-parallel-size"));
    let other =
        emit::recipe(emit::RecipeForm::Accelerate, &plan(full.clone()), &model()).unwrap_err();
    assert!(other.to_string().contains("--emit megatron"), "{other}");
    full.method = adapter(BaseStorage::SixteenBit, AdapterKind::Lora, &[]);
    assert!(emit::recipe(emit::RecipeForm::Megatron, &plan(full), &model()).is_err());
}
