//! Engines as tables write them, and the profile under which their constants are kept.

use alloc::string::String;
use gpuwise_domain::{
    engine::{Engine, EngineKind, Month, Release},
    gpu::Gpu,
    question::Question,
};

/// The engine that a text names, with its release and month where it states them.
pub fn engine_of(written: &str) -> Option<Engine> {
    let lower = written.to_ascii_lowercase();
    let has = |part: &str| lower.contains(part);
    let kind = if has("vllm") {
        EngineKind::Vllm
    } else if has("sglang") {
        EngineKind::Sglang
    } else if has("tensorrt") || has("trtllm") || has("trt-llm") {
        EngineKind::TensorRtLlm
    } else if has("llama.cpp") || has("llamacpp") || has("llama-server") {
        EngineKind::LlamaCpp
    } else if has("deepspeed") {
        EngineKind::DeepSpeedMii
    } else if has("transformers") || has("peft") {
        EngineKind::Transformers
    } else {
        return None;
    };
    let words =
        || lower.split(|c: char| c.is_whitespace() || matches!(c, ',' | '(' | ')' | '-' | '+'));
    // The engine's own version stands behind its name; other versions in the text are of other things.
    let name_at = words()
        .position(|word| engine_word(word, kind))
        .unwrap_or(0);
    let release = words().skip(name_at).find_map(release);
    Some(Engine {
        kind,
        release,
        month: month(&lower),
        written: written.into(),
    })
}

fn engine_word(word: &str, kind: EngineKind) -> bool {
    match kind {
        EngineKind::Vllm => word.contains("vllm"),
        EngineKind::Sglang => word.contains("sglang"),
        EngineKind::TensorRtLlm => word.contains("tensorrt") || word.contains("trt"),
        EngineKind::LlamaCpp => word.contains("llama"),
        EngineKind::DeepSpeedMii => word.contains("deepspeed"),
        EngineKind::Transformers => word.contains("transformers") || word.contains("peft"),
    }
}

fn release(word: &str) -> Option<Release> {
    let word = word.trim_start_matches('v');
    let year = word.starts_with("20")
        && word.len() >= 4
        && word.as_bytes()[..4].iter().all(u8::is_ascii_digit);
    if year { None } else { word.parse().ok() }
}

/// `2025-01` anywhere in the text, or `early 2026`.
fn month(lower: &str) -> Option<Month> {
    let bytes = lower.as_bytes();
    for at in 0..bytes.len().saturating_sub(3) {
        let digits = &bytes[at..at + 4];
        let inside = at > 0 && bytes[at - 1].is_ascii_digit();
        if inside || !digits.starts_with(b"20") || !digits.iter().all(u8::is_ascii_digit) {
            continue;
        }
        let year = lower[at..at + 4].parse().ok()?;
        let stated = lower
            .get(at + 4..at + 7)
            .and_then(|rest| rest.strip_prefix('-'))
            .and_then(|digits| digits.parse().ok())
            .filter(|month| (1..=12).contains(month));
        let early = lower[..at].trim_end().ends_with("early");
        let month = stated.unwrap_or(if early { 2 } else { 6 });
        return Some(Month { year, month });
    }
    None
}

/// Whether a metric is that of a static batch: those tables were made with the engines of 2023-24.
pub(crate) fn is_static_batch(metric: &str) -> bool {
    matches!(
        metric,
        "batch_latency"
            | "total_token_throughput"
            | "ttft_batch"
            | "e2e_latency"
            | "first_token_latency"
            | "avg_power"
    )
}

/// The profile of an engine as people run it.
pub fn profile_of_engine(engine: &Engine, gpu: &Gpu) -> String {
    profile_of(engine, gpu, &Question::default())
}

/// The profile of an engine: its kind and, where its behaviour changed much, its age.
///
/// Rows of benchmark submissions (they name a scenario) are tuned by hand and have their own;
/// llama.cpp has one for each backend, by the maker of the GPU.
pub fn profile_of(engine: &Engine, gpu: &Gpu, question: &Question) -> String {
    let submitted = question.extra("scenario").is_some();
    let year = engine.month.map(gpuwise_domain::engine::Month::index);
    let old_month = year.is_some_and(|index| index < 2025 * 12 + 2);
    let unstated = engine.release.is_none() && engine.month.is_none();
    let static_batch = is_static_batch(&question.metric);
    let name = match engine.kind {
        EngineKind::Vllm if submitted => "vllm-submitted",
        // Builds between releases, run for models that no release had tuned yet.
        EngineKind::Vllm if engine.written.contains("nightly") => "vllm-nightly",
        EngineKind::TensorRtLlm if submitted => "trtllm-submitted",
        EngineKind::Vllm => {
            let old_release = engine.release.is_some_and(|r| r.numbers < [0, 8, 0]);
            // Since 0.14 a step is planned while the one before it runs.
            let waits = engine.release.is_some_and(|r| r.numbers < [0, 14, 0]);
            if old_release || old_month || (unstated && static_batch) {
                "vllm-2024"
            } else if waits {
                "vllm-sync"
            } else {
                "vllm"
            }
        }
        EngineKind::TensorRtLlm => {
            let old_release = engine.release.is_some_and(|r| r.numbers < [0, 20, 0]);
            // Published tables of 2024 name the commit of the documents that hold them.
            let old_month = old_month || engine.written.contains("docs@");
            if old_release || old_month || static_batch {
                "trtllm-2024"
            } else if engine.written.contains("-dev") {
                "trtllm-dev"
            } else {
                "trtllm"
            }
        }
        EngineKind::Sglang => "sglang",
        EngineKind::LlamaCpp => match gpu.vendor.as_str() {
            "NVIDIA" => "llamacpp-cuda",
            "AMD" => "llamacpp-rocm",
            "Apple" => "llamacpp-metal",
            "Intel" => "llamacpp-sycl",
            _ => "llamacpp",
        },
        EngineKind::DeepSpeedMii => "deepspeed-mii",
        EngineKind::Transformers => "transformers",
    };
    name.into()
}
