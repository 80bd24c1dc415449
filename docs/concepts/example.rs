// What the worked examples of the concept pages share. They run as tests of `gpuwise-size`.

use gpuwise_domain::{
    catalogue::*, deployment::Sizing, engine::*, gpu::*, layout::*, model::*, offer::*, precision::*,
    workload::*,
};
use gpuwise_read::catalogue::{ModelCatalogue, read_gpus};
use gpuwise_size::{constants::*, knowledge::*, search::*, setup::*};
use gpuwise_units::{HourlyPrice, Tokens};

/// A model of the catalogue, by the file that it lies in and its id.
pub fn model(file: &str, id: &str) -> Architecture {
    let path = format!("{}/../../catalogue/models/{file}", env!("CARGO_MANIFEST_DIR"));
    let mut models = ModelCatalogue::default();
    models.add(file, &std::fs::read_to_string(path).unwrap()).unwrap();
    models.resolve(id).unwrap().1
}

/// A GPU of the catalogue.
pub fn gpu(name: &str) -> Gpu {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalogue/gpus.toml");
    let gpus = read_gpus("gpus.toml", &std::fs::read_to_string(path).unwrap()).unwrap();
    gpus.into_iter().find(|gpu| gpu.name == name).unwrap()
}

/// The model as published, tensor parallel over `ranks` of these GPUs, under the newest vLLM.
pub fn setup<'a>(architecture: &'a Architecture, gpu: &'a Gpu, ranks: u32) -> Setup<'a> {
    Setup {
        architecture,
        device: Device::whole(gpu),
        engine: Engine::newest(EngineKind::Vllm),
        bucket: VersionBucket::new(""),
        layout: Layout::tensor(ranks),
        weights: Weights::published(architecture),
        cache: CacheFormat::HALF,
        settings: Settings {
            batched_tokens: 8192,
            sequences: 1024,
            max_context: 8192,
            memory_fraction: 0.9,
            block: 16,
            eager: false,
        },
        draft: None,
        adapters: None,
        corrections: Corrections::default(),
    }
}

/// Constants with these base values, whatever the fitted ones are.
pub fn constants(values: &[(Parameter, f64)]) -> Constants {
    let mut constants = Constants::prior(&[], &[]);
    for (parameter, value) in values {
        constants.base[*parameter as usize] = value.ln();
    }
    constants
}

/// Llama-3.1-8B for 1,000 tokens in and 200 out at a rate, where one H100 rents for so many dollars
/// an hour.
pub fn plan(dollars: &str, rate: &str) -> Sizing {
    let model = model("llama.json", "meta-llama/Llama-3.1-8B");
    let h100 = gpu("H100 SXM5 80GB");
    let offer = Offer {
        provider: "a provider".into(),
        instance: "one H100".into(),
        region: "here".into(),
        gpu: h100.name.clone(),
        gpu_thousandths: 1000,
        vcpus: None,
        memory: None,
        on_demand: Some(HourlyPrice::usd(dollars).unwrap()),
        reserved: None,
        spot: None,
        date: "2026-11-01".into(),
        source: "made up".into(),
    };
    let catalogue = Catalogue { gpus: vec![h100], offers: vec![offer], ..Catalogue::default() };
    let workload = Workload {
        traffic: Traffic::Open { rate: rate.parse().unwrap(), burstiness: 1.0 },
        lengths: Lengths {
            input: LengthDistribution::fixed(Tokens(1000)),
            output: LengthDistribution::fixed(Tokens(200)),
        },
        prefix_hit: 0.0,
        slo: Slo::default(),
        limits: Limits::default(),
    };
    let knowledge = Knowledge {
        serving: constants(&[]),
        local: constants(&[]),
        ranges: Ranges::default(),
        cells: Cells::default(),
        feedback: Feedback::default(),
    };
    gpuwise_size::search::plan(&Request {
        name: "Llama-3.1-8B".into(),
        origin: "catalogue".into(),
        architecture: &model,
        workload: &workload,
        catalogue: &catalogue,
        knowledge: &knowledge,
        facts: None,
        engines: &[],
        draft: None,
        choices: Choices::usual(Engine::newest(EngineKind::Vllm)),
    })
}

/// Fails where two figures differ by more than one percent.
pub fn near(figure: f64, by_hand: f64) {
    let off = (figure / by_hand - 1.0).abs();
    assert!(off < 0.01, "{figure} is not {by_hand}");
}
