//! The fit finds what made the rows; labels of rows are read by their rules.

use crate::fixture;
use gpuwise_domain::{
    media::MediaBenchmark,
    network::{InputSize, Walk},
    precision::Compute,
    question::Question,
};
use gpuwise_lab::media::{
    fit::{Row, fit},
    question::{Objective, benchmark, read},
};
use gpuwise_read::catalogue::{ModelCatalogue, NetworkCatalogue, read_media_benchmarks};
use gpuwise_size::media::{Constants, Parameter, walk::walk};

fn benchmarks() -> Vec<MediaBenchmark> {
    let file = "media_benchmarks.csv";
    read_media_benchmarks(file, &fixture::text(file)).expect("benchmarks")
}

fn walked(id: &str, input: InputSize) -> Walk {
    let mut networks = NetworkCatalogue::default();
    for file in ["networks/text.json", "networks/vision.json"] {
        networks.add(file, &fixture::text(file)).expect("networks");
    }
    let network = networks
        .resolve(id, &ModelCatalogue::default())
        .expect("a network");
    walk(&network, &input).expect("walked")
}

fn question(model: &str, gpu: &str, precision: &str, engine: &str, extra: &str) -> Question {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').expect("a pair");
        (key.to_string(), value.to_string())
    };
    Question {
        model: model.into(),
        gpu: gpu.into(),
        gpus: Some(8),
        precision: precision.into(),
        engine: engine.into(),
        metric: "sample_throughput".into(),
        unit: "samples/s".into(),
        extra: extra.split("; ").map(pair).collect(),
        ..Question::default()
    }
}

#[test]
fn constants_that_made_rows_are_found_again() {
    let catalogue = fixture::catalogue();
    let mut truth = Constants::default();
    for (parameter, value) in [
        (Parameter::Matmul, 0.45),
        (Parameter::Convolution, 0.62),
        (Parameter::Activation, 0.35),
    ] {
        truth.values[parameter as usize] = value;
    }
    let listed = benchmarks();
    let resnet = walked("microsoft/resnet-50", InputSize::image(224, 224));
    let bert = walked("google-bert/bert-large-uncased", InputSize::text(178));
    let extra = |name: &str| format!("division=closed; scenario=Offline; benchmark={name}");
    let mut rows = Vec::new();
    for gpu in [
        "L4",
        "L40S",
        "A100 SXM4 80GB",
        "H100 SXM5 80GB",
        "H100 PCIe 80GB",
    ] {
        for (name, walk) in [("resnet50", &resnet), ("bert-99", &bert)] {
            let asked = question(name, gpu, "int8", "TensorRT 10", &extra(name));
            let found = benchmark(&asked, &listed).expect("a benchmark");
            let run = read(&asked, found, walk, &catalogue).expect("read").run;
            let target = run.figure(&truth).expect("a figure").ln();
            rows.push(Row {
                run,
                target,
                weight: 16.0,
            });
        }
    }
    let found = fit(&rows);
    for row in &rows {
        let error = row.run.figure(&found).expect("a figure").ln() - row.target;
        assert!(
            error.abs() < 0.05,
            "{}: {error:+.3}",
            row.run.device.gpu.name
        );
    }
    assert_eq!(found, fit(&rows), "the same rows give the same constants");
}

#[test]
fn labels_mean_what_the_rules_say() {
    let catalogue = fixture::catalogue();
    let listed = benchmarks();
    let walk = walked("google-bert/bert-large-uncased", InputSize::text(16));
    let cases: [(&str, &str, &str, Compute, bool, bool); 10] = [
        (
            "resnet50",
            "int8",
            "TensorRT 10.2",
            Compute::Int8,
            true,
            false,
        ),
        (
            "bert-99",
            "int8",
            "TensorRT 10.2",
            Compute::Int8,
            true,
            false,
        ),
        (
            "bert-99.9",
            "fp16",
            "TensorRT 10.2",
            Compute::Fp8,
            true,
            false,
        ),
        (
            "bert-99",
            "fp32",
            "KILT with ONNX Runtime",
            Compute::Full,
            false,
            false,
        ),
        (
            "dlrm-v2-99.9",
            "int8",
            "TensorRT 10.2",
            Compute::Half,
            true,
            false,
        ),
        (
            "dlrm-v2-99",
            "int8",
            "TensorRT 10.2",
            Compute::Int8,
            true,
            false,
        ),
        (
            "stable-diffusion-xl",
            "{'clip1': 'fp32', 'unet': 'fp8', 'vae': 'fp32'}",
            "TensorRT",
            Compute::Fp8,
            true,
            false,
        ),
        (
            "stable-diffusion-xl",
            "bf16",
            "flax",
            Compute::Half,
            true,
            false,
        ),
        (
            "retinanet",
            "fp32",
            "pytorch v2.7.1",
            Compute::Full,
            false,
            false,
        ),
        ("retinanet", "int8", "TensorRT", Compute::Int8, true, true),
    ];
    for (name, label, engine, main, compiled, open) in cases {
        let division = if open { "open" } else { "closed" };
        let extra = format!("division={division}; scenario=Offline; benchmark={name}");
        let asked = question(name, "H100 SXM5 80GB", label, engine, &extra);
        let found = benchmark(&asked, &listed).expect(name);
        let reading = read(&asked, found, &walk, &catalogue).expect(name);
        assert_eq!(reading.run.numbers.main, main, "{name} {label}");
        assert_eq!(reading.run.numbers.compiled, compiled, "{name} {engine}");
        assert_eq!(!reading.set_aside.is_empty(), open, "{name}");
    }
}

#[test]
fn scenarios_ask_for_what_they_measure() {
    let catalogue = fixture::catalogue();
    let listed = benchmarks();
    let walk = walked("microsoft/resnet-50", InputSize::image(224, 224));
    let wanted = |scenario: &str, metric: &str, gpu: &str| {
        let extra = format!("division=closed; scenario={scenario}; benchmark=resnet50");
        let asked = Question {
            metric: metric.into(),
            ..question("resnet50", gpu, "int8", "TensorRT", &extra)
        };
        let found = benchmark(&asked, &listed).expect("a benchmark");
        read(&asked, found, &walk, &catalogue).map(|reading| reading.run.wanted)
    };
    assert_eq!(
        wanted("Offline", "sample_throughput", "L4"),
        Ok(Objective::Samples)
    );
    assert_eq!(
        wanted("Server", "sample_throughput", "L4"),
        Ok(Objective::Served)
    );
    assert_eq!(
        wanted("SingleStream", "latency_mean", "L4"),
        Ok(Objective::Alone { samples: 1.0 })
    );
    assert_eq!(
        wanted("multistream", "latency_mean", "L4"),
        Ok(Objective::Alone { samples: 1.0 })
    );
    assert!(wanted("Server", "latency_p99", "L4").is_err());
    assert!(wanted("Offline", "sample_throughput", "no such GPU").is_err());
    let other = question(
        "llama2-70b-99",
        "L4",
        "fp8",
        "TensorRT",
        "benchmark=llama2-70b-99",
    );
    assert_eq!(benchmark(&other, &listed), None);
}
