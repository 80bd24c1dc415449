//! One way of serving one model: everything that memory and speed depend on.

use crate::{
    engines::{self, EngineModel},
    knowledge::Corrections,
    speed::silicon,
};
use alloc::{borrow::Cow, string::String};
pub use gpuwise_domain::deployment::{Adapters, Settings};
use gpuwise_domain::{
    engine::{Engine, EngineKind, VersionBucket},
    gpu::{Device, Gpu},
    layout::Layout,
    model::{Architecture, Mixer, Role, Tensor},
    precision::{Assignment, CacheFormat, Compute, Quantization, Roles, WeightFormat},
};

/// A model on devices under an engine, with its settings.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    pub architecture: &'a Architecture,
    /// What each rank runs on.
    pub device: Device<'a>,
    pub engine: Engine,
    /// The profile under which the engine's constants are kept.
    pub bucket: VersionBucket,
    /// How the model is spread.
    pub layout: Layout,
    pub weights: Weights,
    pub cache: CacheFormat,
    pub settings: Settings,
    /// Drafting, where it is stated; `None`: what the engine does by itself.
    pub draft: Option<Draft<'a>>,
    /// LoRA adapters loaded beside the base.
    pub adapters: Option<Adapters>,
    /// What the user measured of its steps.
    pub corrections: Corrections,
}

/// Speculative decoding: `tokens` are drafted a step, each accepted with this probability given
/// that those before it were.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Draft<'a> {
    /// Tokens drafted a step; 0: none.
    pub tokens: u32,
    /// Probability that a drafted token is accepted (0 to 1).
    pub acceptance: f64,
    /// The model that drafts; `None`: prediction layers of the model itself.
    pub model: Option<&'a Architecture>,
}

impl Setup<'_> {
    pub fn engine_model(&self) -> &'static dyn EngineModel {
        engines::model(self.engine.kind)
    }

    /// Under what the constants of its silicon are kept.
    pub fn silicon(&self) -> Cow<'_, str> {
        silicon(self.device.gpu, self.engine.kind)
    }

    /// The model that drafts as a setup of its own, where one does: its weights as published, over
    /// the tensor-parallel ranks of a stage, with the model's cache format and settings.
    pub fn drafter(&self) -> Option<Self> {
        let draft = self.draft.filter(|draft| draft.tokens > 0)?;
        let architecture = draft.model?;
        Some(Self {
            architecture,
            weights: Weights::published(architecture),
            layout: Layout::tensor(self.layout.tensor),
            draft: None,
            adapters: None,
            corrections: Corrections::default(),
            ..self.clone()
        })
    }
}

impl Draft<'_> {
    /// Tokens that a step yields in the mean: `(1 − α^(k+1)) / (1 − α)` (Leviathan et al. 2023, eq. 1).
    pub fn tokens_per_step(self) -> f64 {
        let next = f64::from(self.tokens) + 1.0;
        if self.acceptance >= 1.0 {
            return next;
        }
        (1.0 - libm::pow(self.acceptance, next)) / (1.0 - self.acceptance)
    }
}

/// The stored format of each role's tensors.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// For roles that are not quantized.
    pub native: WeightFormat,
    pub quantization: Option<Quantization>,
}

impl Weights {
    pub fn published(architecture: &Architecture) -> Self {
        Self {
            native: architecture.native,
            quantization: architecture.quantization.clone(),
        }
    }

    /// The format of the key-value cache that the engine takes by itself.
    ///
    /// vLLM and SGLang: FP8 for DeepSeek-V4, which they serve with no other; FP8 for sparse attention, vLLM since 0.11,
    /// SGLang since 0.5.4 on compute capability 10.0 and above (`server_args.py`, "DeepSeek NSA"). What the
    /// checkpoint asks for: of ModelOpt (`kv_cache_quant_algo`) vLLM since 0.12, SGLang since 0.5.6
    /// (`configure_kv_cache_dtype`) and TensorRT-LLM; of compressed-tensors (`kv_cache_scheme`) vLLM since 0.16 (its
    /// pull request 30141). For TensorRT-LLM an export that is named alone is ModelOpt's, whose recipes for NVFP4 and FP8
    /// by tensor quantize the cache.
    pub fn cache(&self, engine: &Engine, architecture: &Architecture, gpu: &Gpu) -> CacheFormat {
        let layers = |wanted: fn(&Mixer) -> bool| {
            architecture
                .attention_layers()
                .any(|(_, mixer)| wanted(mixer))
        };
        let sparse = layers(|mixer| {
            matches!(
                mixer,
                Mixer::Latent {
                    top_tokens: 1..,
                    ..
                }
            )
        });
        let compressed = layers(|mixer| matches!(mixer, Mixer::Compressed { .. }));
        let blackwell = gpu.compute_capability.is_some_and(|own| own >= (10, 0));
        let chosen = match engine.kind {
            EngineKind::Vllm => compressed || sparse && engine.at_least([0, 11, 0]),
            EngineKind::Sglang => compressed || sparse && blackwell && engine.at_least([0, 5, 4]),
            _ => false,
        };
        if chosen {
            return CacheFormat::FP8;
        }
        self.cache_asked(engine).unwrap_or(CacheFormat::HALF)
    }

    /// The format that the checkpoint asks for, where the engine's release does as it says.
    fn cache_asked(&self, engine: &Engine) -> Option<CacheFormat> {
        let quantization = self.quantization.as_ref()?;
        let at_least = |numbers| engine.at_least(numbers);
        let (asked, takes) = match (quantization.method.as_str(), engine.kind) {
            ("modelopt", EngineKind::Vllm) => (quantization.cache, at_least([0, 12, 0])),
            ("modelopt", EngineKind::Sglang) => (quantization.cache, at_least([0, 5, 6])),
            ("modelopt", EngineKind::TensorRtLlm) => (quantization.cache, true),
            ("compressed-tensors", EngineKind::Vllm) => (quantization.cache, at_least([0, 16, 0])),
            ("nvfp4" | "fp8", EngineKind::TensorRtLlm) => (Some(CacheFormat::FP8), true),
            _ => return None,
        };
        asked.filter(|_| takes)
    }

    pub fn format(&self, tensor: &Tensor) -> WeightFormat {
        match self.assignment(tensor) {
            Some((format, _)) => format,
            None => self.native,
        }
    }

    /// Bytes of one copy set of a tensor.
    pub fn bytes(&self, tensor: &Tensor) -> u64 {
        self.format(tensor)
            .bytes(tensor.rows, tensor.columns, tensor.copies)
    }

    /// In what a tensor's matmul multiplies on a device: the scheme's precision where the silicon
    /// has it, BF16 otherwise.
    pub fn compute(&self, tensor: &Tensor, device: &Device<'_>) -> Compute {
        let wanted = match self.assignment(tensor) {
            Some((_, compute)) => compute,
            None if self.native == WeightFormat::F32 => Compute::Full,
            None => Compute::Half,
        };
        // FP4 steps down to FP8 only where the scheme keeps FP8 activations; Marlin-like kernels use BF16.
        if device.peak(wanted).is_some() {
            wanted
        } else {
            Compute::Half
        }
    }

    /// Whether the format is for storage only: dequantized before multiplying.
    pub fn weight_only(&self, tensor: &Tensor, device: &Device<'_>) -> bool {
        let format = self.format(tensor);
        format.bytes_per_element() < 1.9 && self.compute(tensor, device) == Compute::Half
    }

    fn assignment(&self, tensor: &Tensor) -> Option<(WeightFormat, Compute)> {
        if !tensor.is_matrix() && !tensor.role.is_routed_expert() {
            return None;
        }
        let assignment = self.quantization.as_ref()?.assignment(tensor.role)?;
        tensor
            .is_matrix()
            .then_some((assignment.format, assignment.compute))
    }

    /// A short name: `bf16`, `fp8`, `nvfp4` (experts)…
    pub fn name(&self) -> String {
        let Some(quantization) = &self.quantization else {
            return self.native.name.into();
        };
        let mut names: alloc::vec::Vec<&str> = alloc::vec::Vec::new();
        for assignment in &quantization.assignments {
            if !assignment.roles.is_empty() && !names.contains(&assignment.format.name) {
                names.push(assignment.format.name);
            }
        }
        if names.is_empty() {
            self.native.name.into()
        } else {
            names.join("+")
        }
    }
}

/// The scheme that a published export of this precision uses for this architecture.
///
/// GGUF files quantize embedding and head too. Four-bit exports leave latent attention as it is, and, of models
/// with experts, recurrent mixers with the attention beside them and the shared experts. Of dense models with
/// recurrent mixers they quantize both (Qwen3.8-27B in NVFP4 loads 19.75 GiB: noonghunna/club-3090#1047).
pub fn exported(architecture: &Architecture, quantization: Quantization) -> Weights {
    if let Some(file) = gguf(&quantization) {
        return Weights {
            native: architecture.native,
            quantization: Some(file),
        };
    }
    let four_bit = quantization
        .assignments
        .iter()
        .any(|a| a.format.bytes_per_element() < 0.75);
    let any = |wanted: fn(&Mixer) -> bool| {
        architecture
            .attention_layers()
            .any(|(_, mixer)| wanted(mixer))
    };
    let latent = any(|mixer| matches!(mixer, Mixer::Latent { .. } | Mixer::Compressed { .. }));
    let recurrent = any(|mixer| matches!(mixer, Mixer::Recurrent(_)));
    let mut left = Roles::NONE;
    let sparse_hybrid = recurrent && architecture.has_experts();
    if four_bit && (latent || sparse_hybrid) {
        left = left.union(Roles::attention());
    }
    if four_bit && sparse_hybrid {
        left = left.with(Role::SharedUp).with(Role::SharedDown);
    }
    let mut quantization = quantization;
    for assignment in &mut quantization.assignments {
        assignment.roles = assignment.roles.without(left);
    }
    Weights {
        native: architecture.native,
        quantization: Some(quantization),
    }
}

/// The same weights where recurrent mixers and the attention beside them are in 16 bits, as some four-bit exports of
/// such models leave them; else these.
pub fn left_in_sixteen_bits(architecture: &Architecture, weights: &Weights) -> Weights {
    let mut left = weights.clone();
    let recurrent = architecture
        .attention_layers()
        .any(|(_, mixer)| matches!(mixer, Mixer::Recurrent(_)));
    if let Some(quantization) = left.quantization.as_mut().filter(|_| recurrent) {
        for assignment in &mut quantization.assignments {
            assignment.roles = assignment.roles.without(Roles::attention());
        }
    }
    left
}

/// The scheme of a GGUF file: the head in Q6_K unless it has eight bits, and, in the four- and
/// five-bit K-mixes, values and down projections of half of the layers in Q6_K. Half Q4_K and half
/// Q6_K are stood in for by Q5_K, which lies 0.03 bits below their mean.
fn gguf(quantization: &Quantization) -> Option<Quantization> {
    let first = quantization.assignments.first()?;
    let format = first.format;
    let wider = match format {
        WeightFormat::Q4_K => WeightFormat::Q5_K,
        WeightFormat::Q5_K => WeightFormat::Q6_K,
        WeightFormat::Q4_0 | WeightFormat::Q6_K | WeightFormat::Q8_0 => format,
        _ => return None,
    };
    let head = if format == WeightFormat::Q8_0 {
        format
    } else {
        WeightFormat::Q6_K
    };
    let widened = if wider == format {
        Roles::NONE
    } else {
        Roles::of(&[Role::Value, Role::MlpDown])
    };
    let rest = Roles::linear().with(Role::Embedding).without(widened);
    let assignment = |roles: Roles, format: WeightFormat| Assignment {
        roles,
        format,
        compute: first.compute,
    };
    Some(Quantization {
        cache: None,
        method: quantization.method.clone(),
        assignments: alloc::vec![
            assignment(rest, format),
            assignment(widened, wider),
            assignment(Roles::NONE.with(Role::Head), head),
        ],
    })
}
