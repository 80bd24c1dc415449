//! GPU memory against model size, and rules of thumb against tables worked out elsewhere.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::similar_names,
    clippy::type_complexity,
    reason = "tests may fail at once, and say what they skip"
)]

use crate::fixture;
use gpuwise_domain::{
    catalogue::Catalogue,
    engine::{Engine, EngineKind},
    estimate::Estimate,
    gpu::Device,
    model::Architecture,
    offer::Terms,
    precision::CacheFormat,
    training::{Adapter, AdapterKind, BaseStorage, Method, Offload, Optimizer, Recipe},
    training_plan::{Reliability, TrainingJob},
};
use gpuwise_size::{
    sweep::{self, Entry, Ground, Row, TrainingMethod},
    training::search::{
        Cluster, Degrees, Formulas, Machines, TrainChoices, TrainRequest, cluster, train,
    },
};

fn row(model: &str, format: &str, context: u64, concurrency: u64) -> Row {
    let catalogue = fixture::catalogue();
    let architecture = fixture::model(model);
    let entry = Entry {
        name: model.into(),
        class: None,
        architecture: &architecture,
    };
    let ground = Ground {
        device: Device::whole(catalogue.gpu("H100 SXM5 80GB").unwrap()),
        engine: Engine::newest(EngineKind::Vllm),
        catalogue: &catalogue,
        terms: Terms::OnDemand,
        cache: CacheFormat::HALF,
    };
    sweep::inference(&entry, &ground, format, context, concurrency).unwrap()
}

#[test]
fn weights_and_cache_are_what_the_shape_says() {
    for (model, requests, weights, cache, at_least) in [
        // Parameters x 2 bytes; 131,072, 327,680 and 516,096 bytes a token.
        ("meta-llama/Llama-3.1-8B", 1, 16.06e9, 131_072.0 * 8192.0, 1),
        (
            "meta-llama/Llama-3.1-8B",
            64,
            16.06e9,
            64.0 * 131_072.0 * 8192.0,
            1,
        ),
        (
            "meta-llama/Llama-3.1-70B",
            1,
            141.1e9,
            327_680.0 * 8192.0,
            2,
        ),
        (
            "meta-llama/Llama-3.1-405B",
            1,
            811.7e9,
            516_096.0 * 8192.0,
            11,
        ),
    ] {
        let row = row(model, "bf16", 8192, requests);
        let need = row.need.as_ref().unwrap();
        let copies = (need.weights.as_f64() / weights).round().max(1.0);
        let off = need.weights.as_f64() / (weights * copies) - 1.0;
        assert!(off.abs() < 0.01, "{model}: weights {off}");
        let off = need.held.as_f64() / cache - 1.0;
        assert!(off.abs() < 0.01, "{model}: cache {off}");
        assert!(need.gpus >= at_least, "{model}: {} GPUs", need.gpus);
        assert!(need.total().as_f64() <= f64::from(need.gpus) * 85.9e9);
        assert!(need.per_hour.is_some());
    }
}

#[test]
fn weights_are_held_once_where_a_host_holds_all_requests() {
    // 70.6e9 parameters in FP8, embedding and head in 16 bits.
    for (requests, context, replicas) in [
        (1, 8192, 1),
        (32, 8192, 1),
        (16, 32_768, 1),
        (512, 131_072, 2),
    ] {
        let row = row("meta-llama/Llama-3.1-70B", "fp8", context, requests);
        let need = row.need.as_ref().unwrap();
        assert!(
            (need.replicas == 1) == (replicas == 1),
            "{requests} × {context}: {}",
            need.layout
        );
        let each = need.weights.as_f64() / f64::from(need.replicas);
        assert!(
            (each / 72.7e9 - 1.0).abs() < 0.01,
            "{requests} × {context}: {each}"
        );
    }
}

#[test]
fn more_requests_or_tokens_never_take_less() {
    let gpus = |context, requests| {
        let need = row("meta-llama/Llama-3.1-70B", "fp8", context, requests)
            .need
            .unwrap();
        (need.gpus, need.held)
    };
    let mut last = gpus(1024, 1);
    for (context, requests) in [(8192, 1), (8192, 16), (32_768, 16), (32_768, 128)] {
        let next = gpus(context, requests);
        assert!(
            next.0 >= last.0 && next.1 > last.1,
            "{context} x {requests}"
        );
        last = next;
    }
}

#[test]
fn a_format_that_is_none_is_refused_and_what_fits_nowhere_says_so() {
    let catalogue = fixture::catalogue();
    let architecture = fixture::model("meta-llama/Llama-3.1-405B");
    let entry = Entry {
        name: String::new(),
        class: None,
        architecture: &architecture,
    };
    let ground = Ground {
        device: Device::whole(catalogue.gpu("T4").unwrap()),
        engine: Engine::newest(EngineKind::Vllm),
        catalogue: &catalogue,
        terms: Terms::OnDemand,
        cache: CacheFormat::HALF,
    };
    assert!(sweep::inference(&entry, &ground, "nonsense", 8192, 1).is_err());
    let row = sweep::inference(&entry, &ground, "bf16", 10_000_000, 1).unwrap();
    assert!(row.need.is_err() && row.off().is_none());
}

/// Each row of a table worked out by other people's arithmetic.
#[test]
fn the_rule_and_the_ranges_agree_with_a_table_worked_out_elsewhere() {
    let Some(data) = gpuwise_needs::data("") else {
        return;
    };
    let text = std::fs::read_to_string(data.join("catalogue/liqid_rule_check.csv")).unwrap();
    let caches = [
        ("Llama-3.1-8B", 131_072),
        ("Llama-3.1-70B", 327_680),
        ("Llama-3.1-405B", 516_096),
    ];
    let mut compared = 0;
    for line in text.lines().skip(1) {
        let (head, rest) = line.split_once(',').unwrap();
        let (parameters, rest) = rest.split_once(',').unwrap();
        let parameters: u64 = parameters.parse().unwrap();
        let cells: Vec<&str> = rest.rsplit(',').collect();
        let gigabytes: f64 = cells[4].parse().unwrap();
        let of_rule = |bits: f64| sweep::rule_bytes(parameters, bits).as_f64();
        let cache = caches.iter().find(|(name, _)| *name == head).unwrap().1;
        let ways = sweep::usual_assumptions(parameters, cache);
        let said = |words: &str| ways.iter().find(|way| way.words == words).unwrap().bytes;
        let ours = match rest.split(',').next().unwrap().trim_matches('"') {
            "Liqid rule FP32" => of_rule(32.0),
            "Liqid rule FP16/BF16" => of_rule(16.0),
            "Liqid rule FP8/INT8" => of_rule(8.0),
            "Liqid rule INT4" => of_rule(4.0),
            "inference weights FP32" => said("FP32 weights alone"),
            "inference BF16 weights + KV 32 seq x 8192" => {
                said("BF16 weights and the cache of 32 requests of 8,192 tokens")
            }
            "inference BF16 weights + KV 16 seq x 131072" => {
                said("BF16 weights and the cache of 16 requests of 131,072 tokens")
            }
            "pure BF16 Adam x1.25" => {
                said("full training all in BF16 × 1.25 (10 bytes a parameter)")
            }
            _ => continue,
        };
        let off = ours / 1e9 - gigabytes;
        assert!(off.abs() <= 0.06, "{line}: {}", ours / 1e9);
        compared += 1;
    }
    assert_eq!(compared, 24);
}

#[test]
fn training_takes_its_states_and_adapters_take_little() {
    let catalogue = fixture::catalogue();
    let ground = Ground {
        device: Device::whole(catalogue.gpu("H100 SXM5 80GB").unwrap()),
        engine: Engine::newest(EngineKind::Vllm),
        catalogue: &catalogue,
        terms: Terms::OnDemand,
        cache: CacheFormat::HALF,
    };
    // Bytes a parameter of weights and states at the peak, by hand: FP32 weights and moments 12, with
    // gradients 16, with a second copy 18; frozen 2 and 0.5.
    for (model, way, least, most, gpus) in [
        (
            "meta-llama/Llama-3.1-8B",
            sweep::TrainingMethod::Full,
            12.0,
            18.5,
            2..=4,
        ),
        (
            "meta-llama/Llama-3.1-8B",
            sweep::TrainingMethod::Lora,
            2.0,
            2.3,
            1..=1,
        ),
        (
            "meta-llama/Llama-3.1-8B",
            sweep::TrainingMethod::Qlora,
            0.5,
            1.0,
            1..=1,
        ),
        (
            "meta-llama/Llama-3.1-70B",
            sweep::TrainingMethod::Full,
            12.0,
            18.5,
            16..=32,
        ),
        (
            "meta-llama/Llama-3.1-70B",
            sweep::TrainingMethod::Qlora,
            0.5,
            0.8,
            1..=1,
        ),
        (
            "meta-llama/Llama-3.1-405B",
            sweep::TrainingMethod::Full,
            12.0,
            18.5,
            90..=400,
        ),
    ] {
        let architecture = fixture::model(model);
        let entry = Entry {
            name: model.into(),
            class: None,
            architecture: &architecture,
        };
        let row = sweep::training(&entry, &ground, way, 4096);
        let need = row.need.as_ref().unwrap();
        let each = (need.weights.as_f64() + need.held.as_f64()) / row.parameters as f64;
        assert!(
            (least..=most).contains(&each),
            "{model} {way:?}: {each} bytes"
        );
        assert!(
            gpus.contains(&need.gpus),
            "{model} {way:?}: {} GPUs",
            need.gpus
        );
        assert!(row.off().unwrap() < 0.0 || way != sweep::TrainingMethod::Full);
    }
}

/// The table and `train` on exactly so many GPUs give one answer to "how many does it need".
#[test]
fn so_many_gpus_as_the_table_says_are_enough_to_train_and_fewer_are_not() {
    let catalogue = fixture::catalogue();
    for (name, gpu, way) in [
        (
            "meta-llama/Llama-3.1-8B",
            "H100 SXM5 80GB",
            TrainingMethod::Full,
        ),
        (
            "meta-llama/Llama-3.1-8B",
            "RTX A6000",
            TrainingMethod::Qlora,
        ),
        (
            "meta-llama/Llama-3.1-70B",
            "H100 SXM5 80GB",
            TrainingMethod::Full,
        ),
        (
            "meta-llama/Llama-3.1-70B",
            "A100 SXM4 80GB",
            TrainingMethod::Lora,
        ),
        (
            "meta-llama/Llama-3.1-405B",
            "H100 SXM5 80GB",
            TrainingMethod::Full,
        ),
        (
            "meta-llama/Llama-3.1-405B",
            "H100 SXM5 80GB",
            TrainingMethod::Qlora,
        ),
    ] {
        let architecture = fixture::model(name);
        let entry = Entry {
            name: name.into(),
            class: None,
            architecture: &architecture,
        };
        let gpu = catalogue.gpu(gpu).unwrap();
        let ground = Ground {
            device: Device::whole(gpu),
            engine: Engine::newest(EngineKind::Vllm),
            catalogue: &catalogue,
            terms: Terms::OnDemand,
            cache: CacheFormat::HALF,
        };
        let need = sweep::training(&entry, &ground, way, 4096).need.unwrap();
        let fits = |gpus: u64| {
            let physics = Formulas {
                architecture: &architecture,
                facts: &catalogue.training,
                knowledge: None,
            };
            // As a user asks: nothing fixed but what is trained.
            let request = train_request(
                &architecture,
                &catalogue,
                way,
                cluster(&catalogue, gpu, gpus),
            );
            let plans = train(&request, &physics).ranked;
            plans.first().is_some_and(|plan| !plan.tight())
        };
        assert!(fits(need.gpus.into()), "{name}: {} GPUs", need.gpus);
        if need.gpus > 1 {
            let fewer = if need.gpus <= 16 {
                need.gpus / 2
            } else {
                need.gpus - 8
            };
            assert!(!fits(fewer.into()), "{name}: {fewer} GPUs are enough");
        }
    }
}

fn train_request<'a>(
    architecture: &'a Architecture,
    catalogue: &'a Catalogue,
    way: TrainingMethod,
    machines: Cluster<'a>,
) -> TrainRequest<'a> {
    let lora = |base| {
        Method::Adapter(Adapter {
            name: None,
            kind: AdapterKind::Lora,
            rank: Some(16),
            modules: Vec::new(),
            trainable: None,
            base,
        })
    };
    let (method, recipe) = match way {
        TrainingMethod::Full => (Method::Full, Recipe::MixedBf16),
        TrainingMethod::Lora => (lora(BaseStorage::SixteenBit), Recipe::PureBf16),
        TrainingMethod::Qlora => (lora(BaseStorage::Nf4 { double: true }), Recipe::PureBf16),
    };
    let known = Estimate::exact(1e6);
    TrainRequest {
        name: "a model".into(),
        origin: "a test".into(),
        architecture,
        job: TrainingJob::default(),
        catalogue,
        reliability: Reliability {
            gpu_hours_per_stop: known,
            restart_seconds: known,
            storage_per_gpu: known,
            sources: ["a".into(), "b".into(), "c".into()],
        },
        choices: TrainChoices {
            method,
            alignment: None,
            recipe,
            without_bf16: None,
            optimizer: Optimizer::AdamW,
            framework: None,
            loss: None,
            recompute: None,
            sharding: None,
            offload: Offload::default(),
            compiled: false,
            sequence: 4096,
            micro_batch: None,
            global_batch: None,
            degrees: Degrees::default(),
        },
        machines: Machines::Given(machines),
        terms: gpuwise_domain::offer::Terms::OnDemand,
        rank: None,
        top: 5,
    }
}
