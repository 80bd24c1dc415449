//! Engines as tables write them, and the bucket under which their constants are kept.

use gpuwise_domain::{
    engine::{Channel, Engine, EngineKind, Month, Release, VersionBucket},
    gpu::Gpu,
    question::Question,
};
use gpuwise_size::engines::{self, trtllm, vllm};

/// How tables name an engine: anywhere in the text, and in the word behind which its version stands.
struct Names {
    kind: EngineKind,
    in_text: &'static [&'static str],
    in_word: &'static [&'static str],
}

const fn names(
    kind: EngineKind,
    in_text: &'static [&'static str],
    in_word: &'static [&'static str],
) -> Names {
    Names {
        kind,
        in_text,
        in_word,
    }
}

/// The first that fits is meant: a text may name what an engine stands on, too.
const NAMES: [Names; 6] = [
    names(EngineKind::Vllm, &["vllm"], &["vllm"]),
    names(EngineKind::Sglang, &["sglang"], &["sglang"]),
    names(
        EngineKind::TensorRtLlm,
        &["tensorrt", "trtllm", "trt-llm"],
        &["tensorrt", "trt"],
    ),
    names(
        EngineKind::LlamaCpp,
        &["llama.cpp", "llamacpp", "llama-server"],
        &["llama"],
    ),
    names(EngineKind::DeepSpeedMii, &["deepspeed"], &["deepspeed"]),
    names(
        EngineKind::Transformers,
        &["transformers", "peft"],
        &["transformers", "peft"],
    ),
];

/// The engine that a text names, with its release and month where it states them.
pub fn engine_of(written: &str) -> Option<Engine> {
    let lower = written.to_ascii_lowercase();
    let named = |names: &&Names| names.in_text.iter().any(|name| lower.contains(name));
    let Names { kind, in_word, .. } = NAMES.iter().find(named)?;
    let words =
        || lower.split(|c: char| c.is_whitespace() || matches!(c, ',' | '(' | ')' | '-' | '+'));
    // The engine's own version stands behind its name; other versions in the text are of other things.
    let name_at = words()
        .position(|word| in_word.iter().any(|name| word.contains(name)))
        .unwrap_or(0);
    let release = words().skip(name_at).find_map(release);
    Some(Engine {
        kind: *kind,
        release,
        month: month(&lower),
        channel: Channel::of(written),
        written: written.into(),
    })
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

/// The bucket of an engine in a row: that of its release as people run it, but for rows of benchmark
/// submissions (they name a scenario), which are tuned by hand, and for tables of the engines of
/// 2023-24 that state no release.
pub fn bucket_of(engine: &Engine, gpu: &Gpu, question: &Question) -> VersionBucket {
    let submitted = question.extra("scenario").is_some();
    let static_batch = is_static_batch(&question.metric);
    let unstated = engine.release.is_none() && engine.month.is_none();
    match engine.kind {
        EngineKind::Vllm if submitted => VLLM_SUBMITTED,
        EngineKind::TensorRtLlm if submitted => drafting(TRTLLM_SUBMITTED, engine),
        EngineKind::Vllm if unstated && static_batch && engine.channel != Channel::Nightly => {
            vllm::FIRST_ENGINE
        }
        // Published tables of 2024 name the commit of the documents that hold them.
        EngineKind::TensorRtLlm if static_batch || engine.written.contains("docs@") => {
            drafting(trtllm::STATIC_BATCHES, engine)
        }
        kind => drafting(engines::model(kind).bucket(engine, gpu), engine),
    }
}

const VLLM_SUBMITTED: VersionBucket = VersionBucket::new("vllm-submitted");
const TRTLLM_SUBMITTED: VersionBucket = VersionBucket {
    quantized_cache: true,
    ..VersionBucket::new("trtllm-submitted")
};

/// The image whose published sweeps draft with prediction layers wherever a model has them
/// (`docs/decisions/0003-reading-rows.md`, rule 14).
const SWEEPS_DRAFT: &str = "1.2.0rc6.post3";

fn drafting(bucket: VersionBucket, engine: &Engine) -> VersionBucket {
    VersionBucket {
        drafting_sweeps: engine.written.contains(SWEEPS_DRAFT),
        ..bucket
    }
}
