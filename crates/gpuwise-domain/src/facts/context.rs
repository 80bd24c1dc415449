//! What the conditions of facts are held against.

use super::{Quantity, State};
use crate::{gpu::Device, layout::Layout};
use gpuwise_units::Bytes;

/// Where and how an engine runs.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent states that conditions name"
)]
pub struct Context {
    /// Memory of the GPU or slice as the driver reports it, in GiB.
    pub gpu_gib: Option<f64>,
    /// CUDA compute capability as major, minor; unknown for others.
    pub compute_capability: Option<(u8, u8)>,
    /// Who makes the GPU.
    pub vendor: Option<Vendor>,
    pub tensor: u32,
    pub data: u32,
    pub pipeline: u32,
    /// Longest context that the engine is started with, where known.
    pub max_context: Option<u64>,
    /// Tokens of a step at most, where the command states them; `None`: the engine's own.
    pub batched_tokens: Option<u64>,
    /// Served, or called from a program.
    pub usage: Usage,
    /// Whether it runs on the CPU.
    pub on_cpu: bool,
    /// Whether chunked prefill is asked for where an engine does not always use it.
    pub chunked_prefill: bool,
    /// The backend of TensorRT-LLM; `None`: the release's own choice.
    pub backend: Option<Backend>,
    /// Whether the number of slots is left to llama.cpp.
    pub automatic_slots: bool,
    /// Whether Transformers uses logits processors.
    pub logits_processors: bool,
}

impl Default for Context {
    fn default() -> Self {
        Self {
            gpu_gib: None,
            compute_capability: None,
            vendor: None,
            tensor: 1,
            data: 1,
            pipeline: 1,
            max_context: None,
            batched_tokens: None,
            usage: Usage::Server,
            on_cpu: false,
            chunked_prefill: false,
            backend: None,
            automatic_slots: true,
            logits_processors: false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    Server,
    Offline,
}

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Vendor:
        name
    {
        Nvidia = "NVIDIA",
        Amd = "AMD",
        Intel = "Intel",
    }
}

impl Vendor {
    /// The vendor of this name, however it is cased.
    pub fn by_name(name: &str) -> Option<Self> {
        [
            ("nvidia", Self::Nvidia),
            ("amd", Self::Amd),
            ("intel", Self::Intel),
        ]
        .into_iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name.trim()))
        .map(|(_, vendor)| vendor)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// Engines that are built first.
    TensorRt,
    PyTorch,
}

impl Backend {
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "tensorrt" | "trt" => Some(Self::TensorRt),
            "pytorch" => Some(Self::PyTorch),
            _ => None,
        }
    }
}

impl Context {
    /// A server on a device under a layout.
    pub fn of(device: &Device<'_>, layout: &Layout) -> Self {
        let gib = match device.slice {
            Some(slice) => slice.memory.gib(),
            None => device.gpu.memory_reported.map_or_else(
                // As sold: 10⁹ bytes each.
                || device.gpu.memory_marketing_gb * 1e9 / f64::from(1u32 << 30),
                Bytes::gib,
            ),
        };
        Self {
            gpu_gib: Some(gib),
            compute_capability: device.gpu.compute_capability,
            vendor: Vendor::by_name(&device.gpu.vendor),
            ..Self::default()
        }
        .laid_out(layout)
    }

    /// The same under another layout.
    #[must_use]
    pub fn laid_out(self, layout: &Layout) -> Self {
        Self {
            tensor: layout.tensor,
            data: layout.attention_data,
            pipeline: layout.pipeline,
            ..self
        }
    }

    pub(super) fn quantity(&self, quantity: Quantity) -> Option<f64> {
        match quantity {
            Quantity::GpuGib => self.gpu_gib,
            // In tenths, so that 8.9 is the number that a text `8.9` gives.
            Quantity::ComputeCapability => self
                .compute_capability
                .map(|(major, minor)| (f64::from(major) * 10.0 + f64::from(minor)) / 10.0),
            Quantity::Tensor => Some(f64::from(self.tensor)),
            Quantity::Data => Some(f64::from(self.data)),
            Quantity::Pipeline => Some(f64::from(self.pipeline)),
        }
    }

    pub(super) fn state(&self, state: State) -> Option<bool> {
        match state {
            State::Usage(usage) => Some(self.usage == usage),
            State::Vendor(vendor) => self.vendor.map(|own| own == vendor),
            State::Always => Some(true),
            State::Never => Some(false),
            State::OnCpu => Some(self.on_cpu),
            State::ChunkedPrefill(on) => Some(self.chunked_prefill == on),
            State::Backend(backend) => self.backend.map(|own| own == backend),
            State::AutomaticSlots => Some(self.automatic_slots),
            State::LogitsProcessors(on) => Some(self.logits_processors == on),
        }
    }
}
