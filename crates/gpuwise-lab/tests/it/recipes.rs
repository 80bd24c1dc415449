//! What published launch scripts set is read into the rows that they made, and into no others.

use crate::fixture;
use gpuwise_domain::{
    precision::CacheFormat,
    question::{Load, Question},
};
use gpuwise_lab::answer::{Reading, read};

/// A row of a sweep: TP8, 1,024 tokens in and out.
fn row(engine: &str, model: &str, gpu: &str, precision: &str, in_flight: f64) -> Question {
    Question {
        model: model.into(),
        gpu: gpu.into(),
        gpus: Some(8),
        tensor: Some(8),
        pipeline: Some(1),
        data: Some(1),
        precision: precision.into(),
        engine: engine.into(),
        input: Some(1024.0),
        output: Some(1024.0),
        load: Load::InFlight(in_flight),
        metric: "ttft_mean".into(),
        unit: "ms".into(),
        extra: vec![
            ("mode".into(), "agg".into()),
            ("moe_tp".into(), "8".into()),
            ("moe_ep".into(), "1".into()),
        ],
        ..Question::default()
    }
}

fn check(question: &Question, found: impl Fn(&Reading<'_>)) {
    let catalogue = fixture::catalogue();
    let model = fixture::model(&question.model);
    found(&read(question, &model, &catalogue).expect("a reading"));
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} for {expected}");
}

const DEEPSEEK: &str = "deepseek-ai/DeepSeek-R1";
const B200: &str = "B200 SXM 180GB";

#[test]
fn a_script_sets_the_cache_the_chunk_and_the_interval_of_its_own_load() {
    check(&row("sglang 0.5.9", DEEPSEEK, B200, "fp8", 8.0), |found| {
        assert_eq!(found.setup.cache, CacheFormat::FP8);
        assert_eq!(found.setup.settings.batched_tokens, 32768);
        near(found.run.gather.steps, 10.0);
    });
    check(&row("sglang 0.5.9", DEEPSEEK, B200, "fp8", 64.0), |found| {
        near(found.run.gather.steps, 30.0);
    });
    check(&row("trtllm 1.2.0", DEEPSEEK, B200, "fp4", 64.0), |found| {
        assert_eq!(found.setup.cache, CacheFormat::FP8);
        near(found.setup.settings.memory_fraction, 0.8);
        near(found.run.gather.steps, 1.0);
    });
}

#[test]
fn other_rows_keep_the_defaults_of_their_engine() {
    let sweep = row("sglang 0.5.9", DEEPSEEK, B200, "fp8", 64.0);
    let other = Question {
        input: Some(1000.0),
        ..sweep.clone()
    };
    let unsaid = Question {
        extra: Vec::new(),
        ..sweep.clone()
    };
    let elsewhere = row("sglang 0.5.9", DEEPSEEK, "H200 SXM 141GB", "fp8", 64.0);
    for question in [other, unsaid, elsewhere] {
        check(&question, |found| {
            assert_eq!(found.setup.cache, CacheFormat::HALF);
            near(found.run.gather.steps, 1.0);
        });
    }
}

#[test]
fn what_the_row_states_goes_before_the_script() {
    let mut question = row("sglang 0.5.9", DEEPSEEK, B200, "fp8, kv bf16", 64.0);
    question
        .extra
        .push(("max_num_batched_tokens".into(), "4096".into()));
    check(&question, |found| {
        assert_eq!(found.setup.cache, CacheFormat::HALF);
        assert_eq!(found.setup.settings.batched_tokens, 4096);
    });
}

#[test]
fn tensor_ranks_beyond_any_model_are_a_pool_of_workers() {
    let of = |gpus: u32, in_flight: f64| Question {
        gpus: Some(gpus),
        tensor: Some(gpus),
        input: Some(8192.0),
        extra: vec![
            ("mode".into(), "agg".into()),
            ("moe_tp".into(), gpus.to_string()),
            ("moe_ep".into(), "1".into()),
        ],
        ..row("trtllm", DEEPSEEK, "GB200 186GB", "fp4", in_flight)
    };
    for (gpus, in_flight) in [
        (12, 40.0),
        (28, 3.0),
        (28, 2150.0),
        (48, 1075.0),
        (64, 538.0),
    ] {
        check(&of(gpus, in_flight), |found| {
            let prefill = found.prefill.as_ref().expect("prefill workers");
            let computing = prefill.workers as u32 * prefill.setup.layout.replica_gpus();
            let layout = found.setup.layout;
            assert_eq!(computing + layout.gpus(), gpus, "{gpus} GPUs, {in_flight}");
            assert!(found.doubtful);
        });
    }
}
