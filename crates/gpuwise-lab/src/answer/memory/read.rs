//! What a row of a table says about memory: the setup, and which of its settings are stated.

use super::{MemoryAnswer, ranges::Spread};
use crate::answer::{
    engine::{bucket_of, engine_of},
    layout::stated_layout,
    precision::{cache, weights},
    reading::{Refusal, smallest_layout},
    releases::{first_engine, newest_patch, release_of, vllm_settings},
    settings::settings,
};
use gpuwise_domain::{
    catalogue::Catalogue,
    engine::{Engine, EngineKind},
    gpu::{Device, Gpu},
    layout::Layout,
    model::{Architecture, Mixer, Window},
    precision::CacheFormat,
    question::Question,
    recipe::RecipeSettings,
};
use gpuwise_size::{
    knowledge::Corrections,
    memory::{MemoryPlan, plan_of_visible, visible_memory},
    setup::{Draft, Setup, Weights},
};
use std::borrow::Cow;

const GIB: f64 = 1073741824.0;

/// A question about memory understood.
pub(super) struct Read<'a> {
    /// How the model is served.
    pub(super) setup: Setup<'a>,
    /// Memory of the GPU as the engine saw it, where stated.
    visible: Option<f64>,
    /// Whether the row states the release and a limit of the step, so that the profile is known.
    pub(super) settled: bool,
    pub(super) release_stated: bool,
    notes: Vec<String>,
}

impl Read<'_> {
    /// The plan, on memory as stated or as the catalogue has it.
    pub(super) fn plan(&self) -> MemoryPlan {
        let visible = self
            .visible
            .map_or_else(|| visible_memory(&self.setup.device), |bytes| (bytes, true));
        plan_of_visible(&self.setup, visible)
    }

    /// An answer in the question's unit: `value` is in bytes where the unit is one of bytes.
    pub(super) fn said(
        &self,
        question: &Question,
        value: f64,
        spread: Spread,
        what: &str,
    ) -> MemoryAnswer {
        let value = value / scale(&question.unit);
        let mut reason = String::from(what);
        for note in &self.notes {
            reason.push_str("; ");
            reason.push_str(note);
        }
        MemoryAnswer {
            value,
            low: value * spread.low,
            high: value * spread.high,
            basis: spread.basis,
            reason,
        }
    }
}

/// Bytes of a unit; 1 for counts.
pub(super) fn scale(unit: &str) -> f64 {
    match unit {
        "KiB" => 1024.0,
        "MiB" => 1048576.0,
        "GiB" => GIB,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => 1.0,
    }
}

/// A number among the further inputs.
pub(super) fn number(question: &Question, key: &str) -> Option<f64> {
    question
        .extra(key)?
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number > 0.0)
}

/// The model as the row's note has it: `ssm dtype fp16` sets the width of recurrent states, and
/// `hybrid kv manager off` lets layers with a window keep the whole context.
pub(super) fn adjusted<'a>(
    question: &Question,
    architecture: &'a Architecture,
) -> Cow<'a, Architecture> {
    let note = question.extra("note").unwrap_or("").to_ascii_lowercase();
    let after = |words: &str| {
        let rest = note.split(words).nth(1).unwrap_or("").trim_start();
        rest.split([' ', ',', ';']).next().unwrap_or("")
    };
    let width = match after("ssm dtype") {
        "fp16" | "bf16" | "float16" | "bfloat16" => Some(2),
        "fp32" | "float32" => Some(4),
        _ => None,
    };
    let whole = matches!(after("hybrid kv manager"), "off" | "disabled");
    if width.is_none() && !whole {
        return Cow::Borrowed(architecture);
    }
    let mut adjusted = architecture.clone();
    for run in &mut adjusted.layers {
        match &mut run.layer.mixer {
            Mixer::Recurrent(state) => state.state_bytes = width.unwrap_or(state.state_bytes),
            Mixer::Attention { window, .. } => {
                if whole {
                    *window = Window::Full;
                }
            }
            // Neither has a state whose width the note sets, nor a window that the engine widens.
            Mixer::Latent { .. } | Mixer::Compressed { .. } | Mixer::None => {}
        }
    }
    Cow::Owned(adjusted)
}

/// Reads a question about memory. Where the answer does not depend on the GPU, an unstated or
/// unknown one is no obstacle.
pub(super) fn read<'a>(
    question: &Question,
    architecture: &'a Architecture,
    catalogue: &'a Catalogue,
    needs_gpu: bool,
) -> Result<Read<'a>, Refusal> {
    let mut notes = Vec::new();
    let gpu = gpu_of(question, catalogue, needs_gpu)?;
    let device = Device::whole(gpu);
    let stated = engine_of(&question.engine);
    let engine = engine(question, stated.clone(), &mut notes);
    let domain = gpu.scale_up.as_ref().map_or(8, |link| link.domain);
    let read_layout = stated_layout(question, architecture.has_experts(), domain);
    notes.extend(read_layout.notes);
    let gpus = question.gpus.unwrap_or(1);
    let weights = weights(question, architecture, &mut notes);
    let layout = read_layout.layout.unwrap_or(Layout::tensor(gpus));
    let none = RecipeSettings::default();
    let mut setup = Setup {
        architecture,
        device,
        cache: cache_format(question, (architecture, gpu), &weights, &engine),
        weights,
        settings: settings(question, &engine, &device, layout, &none),
        bucket: bucket_of(&engine, device.gpu, question),
        layout,
        engine,
        draft: draft(question),
        adapters: None,
        corrections: Corrections::default(),
    };
    let tokens_stated = number(question, "max_num_batched_tokens").is_some();
    let sequences_stated = number(question, "max_num_seqs").is_some();
    if setup.engine.kind == EngineKind::Vllm {
        let fraction_stated = number(question, "gpu_memory_utilization").is_some();
        vllm_settings(&mut setup, fraction_stated, tokens_stated, sequences_stated);
    }
    if let Some(block) = block_of(question) {
        setup.settings.block = block;
    }
    if setup.engine.kind == EngineKind::LlamaCpp {
        // llama.cpp deals whole layers out over GPUs; what a machine has, it uses.
        setup.layout = Layout {
            pipeline: gpus.max(1),
            ..Layout::SINGLE
        };
    } else if read_layout.layout.is_none() && gpus > 1 {
        setup.layout = smallest_layout(&setup, gpus);
        let own = settings(question, &setup.engine, &setup.device, setup.layout, &none);
        if setup.engine.kind == EngineKind::Sglang {
            setup.settings.memory_fraction = own.memory_fraction;
        }
    }
    let release_stated = stated.is_some_and(|engine| engine.release.is_some());
    Ok(Read {
        visible: number(question, "gpu_memory_gib").map(|gib| gib * GIB),
        settled: release_stated && (sequences_stated || tokens_stated),
        release_stated,
        setup,
        notes,
    })
}

/// The GPU; any where the answer does not depend on it.
fn gpu_of<'a>(
    question: &Question,
    catalogue: &'a Catalogue,
    needed: bool,
) -> Result<&'a Gpu, Refusal> {
    if let Some(gpu) = catalogue.gpu(&question.gpu) {
        return Ok(gpu);
    }
    let engine = question.engine.to_ascii_lowercase();
    let vendor = if engine.contains("rocm") || engine.contains("atom") {
        "AMD"
    } else {
        "NVIDIA"
    };
    let mut alike = catalogue.gpus.iter().filter(|gpu| gpu.vendor == vendor);
    let stand_in = if needed {
        None
    } else {
        alike.next().or(catalogue.gpus.first())
    };
    stand_in.ok_or_else(|| {
        if question.gpu.trim().is_empty() {
            return Refusal::Unstated("the row names no GPU, and the answer depends on it".into());
        }
        Refusal::UnknownGpu {
            name: question.gpu.clone(),
            like: catalogue.gpus_like(&question.gpu).join(", "),
        }
    })
}

/// The engine, at the release that was current in the month that the row states.
fn engine(question: &Question, stated: Option<Engine>, notes: &mut Vec<String>) -> Engine {
    let mut engine = stated.unwrap_or_else(|| {
        notes.push("no engine stated: read as the newest vLLM".into());
        Engine::newest(EngineKind::Vllm)
    });
    if engine.release.is_none()
        && let Some(release) = release_of(&engine)
    {
        notes.push(format!(
            "release not stated: read as {release}, the newest of that month"
        ));
        engine.release = Some(release);
    }
    engine.release = newest_patch(&engine).or(engine.release);
    let said = format!(
        "{} {}",
        question.engine,
        question.extra("note").unwrap_or("")
    );
    first_engine(&mut engine, &said);
    engine
}

/// The cache's format: as stated, else as the engine takes it by itself; rows of NVFP4 under vLLM are of ModelOpt's
/// common recipe, which quantizes the cache.
fn cache_format(
    question: &Question,
    (architecture, gpu): (&Architecture, &Gpu),
    weights: &Weights,
    engine: &Engine,
) -> CacheFormat {
    let precision = question.precision.to_ascii_lowercase();
    if precision.contains("kv") {
        return cache(question);
    }
    let named = *weights != Weights::published(architecture) && precision.contains("nvfp4");
    if named && engine.kind == EngineKind::Vllm && engine.at_least([0, 12, 0]) {
        return CacheFormat::FP8;
    }
    weights.cache(engine, architecture, gpu)
}

/// Prediction layers, where the note says that they draft.
fn draft(question: &Question) -> Option<Draft<'static>> {
    let note = question.extra("note")?.to_ascii_lowercase();
    note.contains("mtp").then_some(Draft {
        tokens: 1,
        acceptance: 0.0,
        model: None,
    })
}

/// `block 64` or `attention block size 832` in the note, or a key of its own.
fn block_of(question: &Question) -> Option<u64> {
    if let Some(block) = number(question, "block_size") {
        return Some(block as u64);
    }
    let note = question.extra("note")?.to_ascii_lowercase();
    let rest = note.split("block ").nth(1)?;
    let rest = rest.strip_prefix("size ").unwrap_or(rest);
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|block| *block > 0)
}
