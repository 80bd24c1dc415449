//! One way of serving one model: everything that memory and speed depend on.

use crate::{
    engines::{self, EngineModel},
    speed::silicon,
};
use alloc::{borrow::Cow, string::String};
pub use gpuwise_domain::deployment::{Adapters, Settings};
use gpuwise_domain::{
    engine::{Engine, EngineKind, VersionBucket},
    gpu::Device,
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

    /// The format of the key-value cache where nobody says one: vLLM takes what the checkpoint asks for, of ModelOpt's
    /// since 0.12 (`kv_cache_quant_algo`), of compressed-tensors' since 0.16 (`kv_cache_scheme`, its pull request 30141).
    pub fn cache(&self, engine: &Engine) -> CacheFormat {
        let asked = self.quantization.as_ref().and_then(|quantization| {
            let since = match quantization.method.as_str() {
                "modelopt" => [0, 12, 0],
                "compressed-tensors" => [0, 16, 0],
                _ => return None,
            };
            let takes = engine.kind == EngineKind::Vllm && engine.at_least(since);
            quantization.cache.filter(|_| takes)
        });
        asked.unwrap_or(CacheFormat::HALF)
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
/// GGUF files quantize embedding and head too. Four-bit exports leave latent attention as it is,
/// recurrent mixers with the attention beside them, and the shared experts of such models; so does
/// the attention of models that were trained with four-bit experts.
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
    if four_bit && (latent || recurrent) {
        left = left.union(Roles::attention());
    }
    if four_bit && recurrent && architecture.has_experts() {
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
