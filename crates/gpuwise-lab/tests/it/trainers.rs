//! torchtune and torchtitan by their own rules; benchmarks of training without runs; refitting.

use crate::fixture::training_facts;
use crate::fixture::{catalogue, model};
use gpuwise_domain::{
    catalogue::Catalogue,
    estimate::{Basis, Estimate},
    question::{Load, Question},
    training::{BaseStorage, LossKernel, Method, Optimizer, Recipe, Recompute, TrainingSetup},
};
use gpuwise_lab::{
    answer::{Answer, about_training_memory, about_training_time, read_training},
    training::{TrainingRow, fifth, refit, training_row},
};
use std::sync::LazyLock;

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue {
    training: training_facts(),
    ..catalogue()
});

const LLAMA: &str = "meta-llama/Llama-3.1-8B";

fn asked(engine: &str, gpus: u32, metric: &str, extra: &[(&str, &str)]) -> Question {
    Question {
        model: LLAMA.into(),
        gpu: "H100 SXM5 80GB".into(),
        gpus: Some(gpus),
        engine: engine.into(),
        input: Some(4096.0),
        metric: metric.into(),
        unit: "GiB".into(),
        extra: (extra.iter())
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect(),
        ..Question::default()
    }
}

fn setup(question: &Question) -> TrainingSetup {
    let architecture = model(&question.model);
    let reading = read_training(question, &architecture, &CATALOGUE).expect("of training");
    reading.expect("understood").setup
}

fn memory(question: &Question) -> Estimate {
    let answer = about_training_memory(question, &model(&question.model), &CATALOGUE);
    answer.expect("of memory").estimate.expect("a figure")
}

fn speed(question: &Question) -> Answer {
    let known = model(&question.model);
    about_training_time(question, Some(&known), &CATALOGUE).expect("of speed")
}

#[test]
fn what_a_row_leaves_open_is_what_the_recipe_sets() {
    let of = |engine, gpus, extra: &[(&str, &str)]| {
        setup(&asked(engine, gpus, "peak_memory_active", extra))
    };
    let full = of("torchtune", 1, &[("method", "full")]);
    assert_eq!(full.recipe, Recipe::PureBf16);
    assert_eq!(full.optimizer, Optimizer::PagedAdamW8bit);
    assert_eq!(full.recompute, Recompute::Full);
    assert_eq!(full.loss, LossKernel::Chunked);
    assert!(full.step_in_backward && !full.compiled);
    let several = of("torchtune", 8, &[("method", "full")]);
    assert_eq!(several.optimizer, Optimizer::AdamW);
    assert!(!several.step_in_backward);
    let lora = of("torchtune", 8, &[("method", "LoRA")]);
    assert_eq!(lora.recompute, Recompute::None);
    let Method::Adapter(adapter) = &lora.method else {
        panic!("an adapter");
    };
    assert_eq!(adapter.modules.len(), 6);
    let titan = of(
        "torchtitan",
        8,
        &[("techniques", "FSDP + torch.compile + Float8")],
    );
    assert_eq!(titan.recipe, Recipe::Fp8);
    assert_eq!(titan.recompute, Recompute::Selective);
    assert!(titan.compiled && titan.layout.data == 8);
    let context = of(
        "torchtitan",
        8,
        &[("techniques", "FSDP + CP + torch.compile")],
    );
    assert_eq!((context.layout.context, context.layout.data), (8, 1));
    let tensor = of(
        "torchtitan",
        64,
        &[
            ("techniques", "FSDP, TP 8, async TP"),
            ("local_batch", "16"),
        ],
    );
    assert_eq!((tensor.layout.tensor, tensor.layout.data), (8, 8));
    assert_eq!((tensor.micro_batch, tensor.global_batch), (16, 128));
}

#[test]
fn techniques_that_are_added_keep_those_before() {
    let of = |list: &str| {
        setup(&asked(
            "torchtune",
            1,
            "peak_memory_active",
            &[("techniques", list)],
        ))
    };
    let bare = of("Baseline");
    assert_eq!(bare.loss, LossKernel::Eager);
    assert_eq!(bare.recompute, Recompute::None);
    assert_eq!(bare.optimizer, Optimizer::AdamW);
    let chunked = of("+ Chunked Cross Entropy");
    assert_eq!(chunked.loss, LossKernel::Chunked);
    assert!(chunked.compiled && chunked.recompute == Recompute::None);
    let last = of("+ 8-bit AdamW");
    assert_eq!(last.optimizer, Optimizer::AdamW8bit);
    assert!(last.step_in_backward && last.offload.activations);
    assert_eq!(last.recompute, Recompute::Full);
    let quantized = of("QLoRA");
    assert!(matches!(
        &quantized.method,
        Method::Adapter(adapter) if matches!(adapter.base, BaseStorage::Nf4 { .. })
    ));
}

#[test]
fn each_technique_that_saves_memory_does() {
    let steps = [
        "baseline + packed",
        "baseline + packed + compile",
        "baseline + packed + compile + chunked cross entropy",
        "baseline + packed + compile + chunked cross entropy + activation checkpointing",
        "baseline + packed + compile + chunked cross entropy + activation checkpointing + optimizer in backward",
        "baseline + packed + compile + chunked cross entropy + activation checkpointing + optimizer in backward + 8-bit AdamW",
    ];
    let held = |list: &str, extra: &[(&str, &str)]| {
        let mut all = vec![("techniques", list), ("local_batch", "2")];
        all.extend(extra);
        memory(&asked("torchtune", 1, "peak_memory_active", &all)).value
    };
    for pair in steps.windows(2) {
        let (before, after) = (held(pair[0], &[]), held(pair[1], &[]));
        assert!(after < before, "{}: {after} of {before} GiB", pair[1]);
    }
    let last = steps[5];
    let (lora, qlora) = (
        held(last, &[("method", "LoRA")]),
        held(last, &[("method", "QLoRA")]),
    );
    assert!(qlora < lora && lora < held(last, &[]));
    // Weights in BF16 alone are 16.06 x 10^9 bytes; in NF4 a third of that, head and table apart.
    assert!(lora > 14.9 && qlora > 5.0 && qlora < 10.0, "{lora} {qlora}");
}

#[test]
fn torchtitan_shards_sixteen_bytes_a_parameter() {
    let of = |gpus, recompute: &str| {
        let extra = [
            ("techniques", "FSDP + compile"),
            ("local_batch", "1"),
            ("ac", recompute),
        ];
        memory(&asked("torchtitan", gpus, "peak_memory_per_gpu", &extra)).value
    };
    // Twice the ranks, half of the states: FP32 weights and two moments.
    let (eight, sixteen) = (of(8, "full"), of(16, "full"));
    let states = 8.03e9 * 12.0 / 1073741824.0;
    let saved = states / 16.0;
    assert!(eight - sixteen > 0.95 * saved && eight - sixteen < 1.5 * saved);
    assert!(of(8, "selective") > eight && of(8, "none") > of(8, "selective"));
}

#[test]
fn tokens_of_all_gpus_are_those_of_one_times_their_number() {
    let extra = [("techniques", "FSDP"), ("local_batch", "2")];
    let each = speed(&asked(
        "torchtitan",
        8,
        "train_tokens_per_s_per_gpu",
        &extra,
    ));
    let all = speed(&asked("torchtitan", 8, "train_tokens_per_s", &extra));
    let total = speed(&asked("torchtitan", 8, "total_throughput", &extra));
    let value = |answer: &Answer| answer.estimate.expect("a figure").value;
    assert!((value(&all) / value(&each) - 8.0).abs() < 1e-9);
    assert!((value(&total) / value(&all) - 1.0).abs() < 1e-12);
    // Nothing of it was fitted on.
    assert_eq!(each.basis, Some(Basis::Extrapolated));
    let mut of_one = asked("torchtitan", 8, "train_tokens_per_s", &extra);
    of_one.unit = "tokens/s/GPU".into();
    assert!((value(&speed(&of_one)) / value(&each) - 1.0).abs() < 1e-12);
    // Of a server that is asked the same, training has nothing to say.
    let served = Question {
        engine: "vllm 0.13.0".into(),
        extra: Vec::new(),
        ..asked("", 8, "total_throughput", &[])
    };
    assert!(about_training_time(&served, Some(&model(LLAMA)), &CATALOGUE).is_none());
}

fn benchmark(name: &str, gpu: &str, engine: &str, gpus: u32, batch: f64) -> Question {
    Question {
        model: name.into(),
        gpu: gpu.into(),
        gpus: Some(gpus),
        engine: engine.into(),
        load: Load::InFlight(batch),
        metric: "time_to_train_olympic_mean".into(),
        unit: "min".into(),
        extra: vec![("benchmark".into(), name.into())],
        ..Question::default()
    }
}

#[test]
fn benchmarks_without_runs_of_their_own_stay_below_the_silicon() {
    for (name, batch) in [("llama31_8b", 32.0), ("flux1", 512.0)] {
        let known = CATALOGUE.training.benchmark(name).expect("a benchmark");
        for gpu in ["H100 SXM5 80GB", "B200 SXM 180GB", "MI355X", "GB300 279GB"] {
            let question = benchmark(name, gpu, "NeMo 25.04", 8, batch);
            let answer = about_training_time(&question, None, &CATALOGUE).expect("of training");
            let minutes = answer.estimate.expect("a figure");
            assert!(minutes.low < minutes.value && minutes.value < minutes.high);
            let peak = &CATALOGUE.gpu(gpu).expect("a GPU").peak;
            let compute = if known.eight_bit {
                gpuwise_domain::precision::Compute::Fp8
            } else {
                gpuwise_domain::precision::Compute::Half
            };
            let work = known.samples[0].1 * known.sample_flops;
            let least = work / (8.0 * 0.9 * peak.of(compute).expect("a peak").get()) / 60.0;
            assert!(
                minutes.low > 0.999 * least,
                "{name} on {gpu}: {} of {least}",
                minutes.low
            );
        }
    }
}

#[test]
fn four_bits_count_since_the_containers_that_have_them() {
    let minutes = |gpu: &str, engine: &str| {
        let question = benchmark("llama31_8b", gpu, engine, 8, 32.0);
        let answer = about_training_time(&question, None, &CATALOGUE).expect("of training");
        answer.estimate.expect("a figure").value
    };
    let (old, new) = (
        "NeMo Framework Release 25.04",
        "NeMo Framework Release 25.09",
    );
    assert!(minutes("B200 SXM 180GB", new) < minutes("B200 SXM 180GB", old));
    let hopper = ["H200 SXM 141GB"; 2];
    assert!((minutes(hopper[0], new) / minutes(hopper[1], old) - 1.0).abs() < 1e-12);
}

/// Rows of Megatron in three layouts on two GPUs, at a multiple of what the catalogue predicts.
fn rows(factor: f64) -> Vec<(Question, f64)> {
    let mut out = Vec::new();
    for gpu in ["H100 SXM5 80GB", "GB200 186GB"] {
        for (tensor, batch) in [(1, 64.0), (2, 128.0), (4, 256.0)] {
            let mut question = Question {
                model: "meta-llama/Llama-3.1-70B".into(),
                gpu: gpu.into(),
                gpus: Some(64),
                tensor: Some(tensor),
                pipeline: Some(4),
                precision: "FP8".into(),
                engine: "Megatron-Bridge".into(),
                input: Some(8192.0),
                load: Load::InFlight(batch),
                metric: "train_tokens_per_s_per_gpu".into(),
                extra: vec![("MBS".into(), "1".into()), ("VP".into(), "5".into())],
                ..Question::default()
            };
            let value = speed(&question).estimate.expect("a figure").value;
            question.value = Some(value * factor);
            out.push((question, value));
        }
    }
    out
}

/// PyTorch's pipelines have one stage a rank: with one micro-batch in flight, one rank of four computes.
#[test]
fn a_pipeline_of_pytorch_waits_for_its_stages() {
    let rate = |engine: &str, stages: u32, method: &str| {
        let question = Question {
            model: "meta-llama/Llama-3.1-8B".into(),
            gpu: "H100 SXM5 80GB".into(),
            gpus: Some(4),
            tensor: Some(1),
            pipeline: Some(stages),
            precision: "bf16".into(),
            engine: engine.into(),
            input: Some(4096.0),
            load: Load::InFlight(f64::from(4 / stages)),
            metric: "train_tokens_per_s_per_gpu".into(),
            extra: vec![
                ("VP".into(), "n/a".into()),
                ("method".into(), method.into()),
            ],
            ..Question::default()
        };
        speed(&question).estimate.expect("a figure").value
    };
    for engine in ["PyTorch FSDP", "NeMo AutoModel", "torchtitan"] {
        for method in ["lora", "full"] {
            let (alone, piped) = (rate(engine, 1, method), rate(engine, 4, method));
            assert!(piped < 0.4 * alone, "{engine} {method}: {piped} of {alone}");
        }
    }
}

#[test]
fn refitting_follows_the_rows_and_repeats_itself() {
    let of = |factor: f64| {
        let asked = rows(factor);
        let rows: Vec<TrainingRow<'_>> = (asked.iter())
            .filter_map(|(question, _)| {
                let architecture = model(&question.model);
                training_row(question, &question.model, Some(&architecture), &CATALOGUE)
            })
            .collect();
        assert_eq!(rows.len(), asked.len());
        let borrowed: Vec<&TrainingRow<'_>> = rows.iter().collect();
        let facts = refit(&borrowed, &CATALOGUE.training);
        assert_eq!(facts, refit(&borrowed, &CATALOGUE.training));
        let fit = Catalogue {
            training: facts,
            ..CATALOGUE.clone()
        };
        let mut off = 0.0;
        for (question, before) in &asked {
            let known = model(&question.model);
            let answer = about_training_time(question, Some(&known), &fit).expect("of speed");
            let value = answer.estimate.expect("a figure").value;
            off += (value / (before * factor)).ln();
        }
        off / asked.len() as f64
    };
    for factor in [0.8, 1.0, 1.1] {
        let off = of(factor);
        assert!(off.abs() < 0.06, "{factor}: {off}");
    }
}

#[test]
fn rows_that_ask_the_same_are_left_out_together() {
    let one = asked("torchtitan", 8, "mfu", &[("local_batch", "2")]);
    let other = Question {
        id: "7".into(),
        metric: "train_tokens_per_s_per_gpu".into(),
        unit: "tokens/s/GPU".into(),
        value: Some(3.0),
        ..one.clone()
    };
    assert_eq!(fifth(&one), fifth(&other));
    let folds: std::collections::BTreeSet<u64> = (1..40)
        .map(|gpus| fifth(&asked("torchtitan", gpus, "mfu", &[])))
        .collect();
    assert_eq!(folds.into_iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
}

#[test]
fn a_technique_is_read_under_both_names_and_an_unknown_one_is_refused() {
    let row = |key, list| {
        let extra = [(key, list), ("local_batch", "2")];
        asked("torchtune", 1, "peak_memory_active", &extra)
    };
    let lists = [
        "baseline",
        "+ packed",
        "+ activation checkpointing",
        "+ 8-bit AdamW",
    ];
    for list in lists {
        let [one, many] = ["technique", "techniques"].map(|key| setup(&row(key, list)));
        assert_eq!(one, many, "{list}");
    }
    // Longer sequences take more, less of them is kept, states of eight bits are smaller.
    let [bare, packed, again, eight] = lists.map(|list| memory(&row("technique", list)).value);
    assert!(bare < packed && again < packed && eight < again);
    let question = row("technique", "packed + warp drive");
    let architecture = model(&question.model);
    let refused = read_training(&question, &architecture, &CATALOGUE).expect("of training");
    let said = refused.expect_err("not a technique").to_string();
    assert!(said.contains("\"warpdrive\""), "{said}");
}
