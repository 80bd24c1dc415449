//! The readers of what a command opens: a configuration, headers of weight files, the catalogue.
//! Files are those of the repository's catalogue; headers are written as their formats have them.

use divan::{Bencher, black_box, counter::BytesCount};
use gpuwise_read::{
    catalogue::{
        ModelCatalogue, read_benchmarks, read_engine_facts, read_evidence, read_gpus, read_hosts,
        read_mig_profiles, read_offers, read_quality,
    },
    config::read_config,
    gguf, kineto, safetensors,
};
use std::fmt::Write as _;

macro_rules! catalogue {
    ($path:literal) => {
        include_str!(concat!("../../../catalogue/", $path))
    };
}

const MODELS: [(&str, &str); 5] = [
    ("llama.json", catalogue!("models/llama.json")),
    ("qwen.json", catalogue!("models/qwen.json")),
    ("deepseek.json", catalogue!("models/deepseek.json")),
    ("gpt_oss.json", catalogue!("models/gpt_oss.json")),
    ("nemotron.json", catalogue!("models/nemotron.json")),
];
/// A dense model, one with experts and latent attention, and one whose layers differ.
const CONFIGS: [&str; 3] = [
    "meta-llama/Llama-3.1-70B-Instruct",
    "deepseek-ai/DeepSeek-V3",
    "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
];
const TENSORS: u64 = 1000;
/// Entries of the vocabulary that a GGUF header carries and that must be skipped.
const VOCABULARY: u64 = 128_256;
const ROWS: u64 = 4096;

fn main() {
    divan::main();
}

fn models() -> ModelCatalogue {
    let mut models = ModelCatalogue::default();
    for (file, text) in MODELS {
        models.add(file, text).expect("a file of models");
    }
    models
}

#[divan::bench(args = CONFIGS, max_time = 0.5)]
fn config_json(bencher: Bencher<'_, '_>, name: &str) {
    let models = models();
    let entry = models.entry(name).expect("a model of the catalogue");
    let text = models.config(entry).expect("its configuration").to_string();
    bencher
        .counter(BytesCount::of_str(&text))
        .bench_local(|| read_config(black_box(&text)).expect("it is valid"));
}

/// The name of a tensor: ten kinds in each layer.
fn tensor_name(at: u64) -> String {
    format!("model.layers.{}.self_attn.part_{}.weight", at / 10, at % 10)
}

#[divan::bench(max_time = 0.5)]
fn safetensors_header_of_1000_tensors(bencher: Bencher<'_, '_>) {
    let bytes = 2 * ROWS * ROWS;
    let mut json = String::from(r#"{"__metadata__":{"format":"pt"}"#);
    for at in 0..TENSORS {
        let (name, begin) = (tensor_name(at), at * bytes);
        let end = begin + bytes;
        write!(
            json,
            r#","{name}":{{"dtype":"BF16","shape":[{ROWS},{ROWS}],"data_offsets":[{begin},{end}]}}"#
        )
        .expect("text can be written to a string");
    }
    json.push('}');
    bencher.counter(BytesCount::of_str(&json)).bench_local(|| {
        safetensors::read_header(black_box(json.as_bytes()), TENSORS * bytes).expect("it is valid")
    });
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// A GGUF header, version 3: an architecture, a vocabulary, tensors in single precision.
fn gguf_header() -> (Vec<u8>, u64) {
    let mut out = b"GGUF".to_vec();
    out.extend(3_u32.to_le_bytes());
    out.extend(TENSORS.to_le_bytes());
    out.extend(2_u64.to_le_bytes());
    put_text(&mut out, "general.architecture");
    out.extend(8_u32.to_le_bytes());
    put_text(&mut out, "llama");
    put_text(&mut out, "tokenizer.ggml.tokens");
    out.extend(9_u32.to_le_bytes());
    out.extend(8_u32.to_le_bytes());
    out.extend(VOCABULARY.to_le_bytes());
    for token in 0..VOCABULARY {
        put_text(&mut out, &format!("token{token}"));
    }
    let bytes = 4 * ROWS * ROWS;
    for at in 0..TENSORS {
        put_text(&mut out, &tensor_name(at));
        out.extend(2_u32.to_le_bytes());
        out.extend(ROWS.to_le_bytes());
        out.extend(ROWS.to_le_bytes());
        out.extend(0_u32.to_le_bytes());
        out.extend((at * bytes).to_le_bytes());
    }
    out.resize(out.len().next_multiple_of(32), 0);
    let length = out.len() as u64 + TENSORS * bytes;
    (out, length)
}

#[divan::bench(max_time = 0.5)]
fn gguf_header_of_1000_tensors_and_a_vocabulary(bencher: Bencher<'_, '_>) {
    let (header, length) = gguf_header();
    bencher
        .counter(BytesCount::of_slice(&header))
        .bench_local(|| gguf::read_header(black_box(&header), length).expect("it is valid"));
}

/// Reads a catalogue file, and how many rows it has.
type Reader = fn(&str, &str) -> usize;

/// What each command reads at its start.
const FILES: [(&str, &str, Reader); 7] = [
    ("gpus.toml", catalogue!("gpus.toml"), |file, text| {
        read_gpus(file, text).expect("GPUs").len()
    }),
    (
        "mig_profiles.csv",
        catalogue!("mig_profiles.csv"),
        |file, text| read_mig_profiles(file, text).expect("MIG profiles").len(),
    ),
    ("hosts.csv", catalogue!("hosts.csv"), |file, text| {
        read_hosts(file, text).expect("hosts").len()
    }),
    ("offers.csv", catalogue!("offers.csv"), |file, text| {
        read_offers(file, text).expect("offers").len()
    }),
    ("quality.csv", catalogue!("quality.csv"), |file, text| {
        read_quality(file, text).expect("quality").len()
    }),
    (
        "benchmarks.csv",
        catalogue!("benchmarks.csv"),
        |file, text| read_benchmarks(file, text).expect("benchmarks").len(),
    ),
    (
        "engines/vllm.toml",
        catalogue!("engines/vllm.toml"),
        |file, text| read_engine_facts(file, text).expect("facts").settings.len(),
    ),
];

#[divan::bench(args = FILES.map(|(file, ..)| file), max_time = 0.5)]
fn catalogue_file(bencher: Bencher<'_, '_>, file: &str) {
    let (name, text, read) = FILES
        .into_iter()
        .find(|(name, ..)| *name == file)
        .expect("one of the files");
    bencher
        .counter(BytesCount::of_str(text))
        .bench_local(|| read(black_box(name), black_box(text)));
}

#[divan::bench(args = MODELS.map(|(file, _)| file), max_time = 0.5)]
fn model_file(bencher: Bencher<'_, '_>, file: &str) {
    let (name, text) = MODELS
        .into_iter()
        .find(|(name, _)| *name == file)
        .expect("one of the files");
    bencher.counter(BytesCount::of_str(text)).bench_local(|| {
        let mut models = ModelCatalogue::default();
        models
            .add(black_box(name), black_box(text))
            .expect("a file of models");
        models
    });
}

/// Published measurements, which are stored compressed.
#[divan::bench(sample_size = 1, max_time = 1)]
fn evidence(bencher: Bencher<'_, '_>) {
    let bytes = include_bytes!("../../../catalogue/evidence.csv.gz");
    bencher
        .counter(BytesCount::of_slice(bytes))
        .bench_local(|| read_evidence("evidence.csv.gz", black_box(bytes)).expect("evidence"));
}

/// A trace of the PyTorch profiler, as it comes with stacks: six of ten events are Python functions.
fn kineto_trace(turns: usize) -> String {
    let mut text = String::from("{\"schemaVersion\": 1, \"traceEvents\": [");
    for turn in 0..turns {
        let comma = if turn == 0 { "" } else { ",\n" };
        let _ = write!(
            text,
            r#"{comma}{{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": {turn}0.125, "dur": 9, "args": {{"External id": {turn}, "Record function id": 0, "Concrete Inputs": ["", ""], "Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Dims": [[1024, 4096], [4096, 4096]]}}}},
{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": {turn}1.5, "dur": 1, "args": {{"External id": {turn}, "cbid": 211, "correlation": {turn}}}}},
{{"ph": "s", "id": {turn}, "pid": 1, "tid": 1, "ts": {turn}1.5, "cat": "ac2g", "name": "ac2g"}},
{{"ph": "X", "cat": "kernel", "name": "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int, at::native::FillFunctor<float>)", "pid": 0, "tid": 7, "ts": {turn}2.75, "dur": 3.001, "args": {{"External id": {turn}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {turn}, "registers per thread": 16, "shared memory": 0, "blocks per SM": 0.59, "warps per SM": 2.4, "grid": [64, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 4}}}}"#
        );
        for depth in 0..6 {
            let _ = write!(
                text,
                ",\n{{\"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"torch/nn/modules/module.py(1520): _call_impl\", \"pid\": 1, \"tid\": 1, \"ts\": {turn}{depth}.25, \"dur\": 9, \"args\": {{\"Python parent id\": {depth}, \"Python id\": {turn}, \"Ev Idx\": {turn}}}}}"
            );
        }
    }
    text + "]}"
}

#[divan::bench(max_time = 1)]
fn kineto(bencher: Bencher<'_, '_>) {
    let text = kineto_trace(10_000);
    bencher
        .counter(BytesCount::of_str(&text))
        .bench_local(|| kineto::read_bytes(black_box(text.as_bytes())).expect("it is valid"));
}
