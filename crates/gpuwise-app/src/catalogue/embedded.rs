//! The catalogue that the binary carries.

use super::Kind;
use gpuwise_domain::engine::EngineKind;
use gpuwise_lab::OwnRows;

macro_rules! files {
    ($($kind:ident $path:literal),* $(,)?) => {
        /// Every catalogue file by what it holds, its name and its text.
        pub(super) const FILES: &[(Kind, &str, &str)] = &[
            $((Kind::$kind, $path, include_str!(concat!("../../../../catalogue/", $path)))),*
        ];
    };
}

files! {
    Gpus "gpus.toml",
    MigProfiles "mig_profiles.csv",
    Hosts "hosts.csv",
    VgpuProfiles "vgpu_profiles.csv",
    SharingMeans "isolation.toml",
    Offers "offers.csv",
    Quality "quality.csv",
    Benchmarks "benchmarks.csv",
    Recipes "recipes.csv",
    SizeClasses "size_classes.csv",
    MediaBenchmarks "media_benchmarks.csv",
    Training "training.toml",
    Models "models/classic.json",
    Models "models/cohere.json",
    Models "models/deepseek.json",
    Models "models/falcon.json",
    Models "models/gemma.json",
    Models "models/glm.json",
    Models "models/gpt_oss.json",
    Models "models/granite.json",
    Models "models/kimi.json",
    Models "models/llama.json",
    Models "models/mimo_step.json",
    Models "models/minimax.json",
    Models "models/mistral.json",
    Models "models/nemotron.json",
    Models "models/olmo.json",
    Models "models/other.json",
    Models "models/phi.json",
    Models "models/qwen.json",
    Models "models/t5_whisper.json",
    Models "models/vision_language.json",
    Networks "networks/diffusion.json",
    Networks "networks/large_diffusion.json",
    Networks "networks/recommender.json",
    Networks "networks/speech.json",
    Networks "networks/text.json",
    Networks "networks/vision.json",
}

macro_rules! engines {
    ($($kind:ident $path:literal),* $(,)?) => {
        /// Files of facts about engines.
        const ENGINES: &[(EngineKind, &str, &str)] = &[
            $((EngineKind::$kind, $path, include_str!(concat!("../../../../catalogue/", $path)))),*
        ];
    };
}

engines! {
    Vllm "engines/vllm.toml",
    Sglang "engines/sglang.toml",
    TensorRtLlm "engines/trtllm.toml",
    LlamaCpp "engines/llamacpp.toml",
    LmDeploy "engines/lmdeploy.toml",
    Transformers "engines/transformers.toml",
}

/// The file of an engine's facts, by its name and its text.
pub(super) fn engine(kind: EngineKind) -> Option<(&'static str, &'static str)> {
    let own = ENGINES.iter().find(|(of, ..)| *of == kind)?;
    Some((own.1, own.2))
}

macro_rules! own {
    ($($rows:ident $path:literal),* $(,)?) => {
        /// Rows that are read where they are used.
        pub(super) const OWN: &[(OwnRows, &str, &str)] = &[
            $((OwnRows::$rows, $path, include_str!(concat!("../../../../catalogue/", $path)))),*,
            (OwnRows::Operators, "operators.csv", OPERATORS),
        ];
    };
}

own! {
    KernelNames "kernels.toml",
    KernelCounters "kernel_counters.toml",
    Audit "audit.toml",
    TelemetryThresholds "telemetry.toml",
    TelemetryFields "telemetry_fields.csv",
    DcgmFields "telemetry_dcgm.csv",
    XidErrors "telemetry_xid.csv",
    Costs "tco.toml",
    HostBalance "balance.toml",
    Reliability "reliability.toml",
    TierRules "tier_rules.toml",
    PcieCollectives "pcie.toml",
    Constants "constants.toml",
    WeightLoaders "weight_loaders.csv",
}

/// Fitted operator functions.
pub(super) const OPERATORS: &str = include_str!("../../../../catalogue/operators.csv");

pub(super) const EVIDENCE: &[u8] = include_bytes!("../../../../catalogue/evidence.csv.gz");

pub(super) const MEDIA: &str = include_str!("../../../../catalogue/media.toml");

/// Every file of text that the binary carries, as name and text.
pub fn carried() -> impl Iterator<Item = (&'static str, &'static str)> {
    let read = FILES.iter().map(|(_, file, text)| (*file, *text));
    let own = OWN.iter().map(|(_, file, text)| (*file, *text));
    let engines = ENGINES.iter().map(|(_, file, text)| (*file, *text));
    read.chain([("media.toml", MEDIA)])
        .chain(own)
        .chain(engines)
}
