//! Features of engines as a setup asks for them, by the keys of the facts about engines.

use alloc::{format, string::String};
use core::fmt;
use gpuwise_domain::precision::{Quantization, WeightFormat};

/// Something that an engine may or may not support.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Feature {
    /// Running on the hardware at all.
    Any,
    /// Weights stored so, by the facts' name of the scheme.
    Weights(&'static str),
    /// Weights of a method that is told by its name.
    Method(String),
    /// A key-value cache in this format.
    Cache(&'static str),
    /// A way of running.
    Mode(Mode),
}

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Mode: name {
        Tensor = "tp",
        Pipeline = "pp",
        Expert = "ep",
        DecodeContext = "dcp",
        CacheOffload = "kv_offload",
        DraftModel = "speculative_draft_model",
    }
}

impl Feature {
    /// The feature of a weight format: schemes that differ only in their blocks are one, and what is
    /// told by its method goes by that.
    pub(crate) fn of_weights(quantization: &Quantization, format: WeightFormat) -> Self {
        let method = quantization.method.as_str();
        let packed = matches!(method, "awq" | "gptq");
        match format.name {
            name if packed && name.starts_with("int4") => Self::Method(method.into()),
            "fp8-block" => Self::Weights("fp8"),
            "int4-g32" | "int4-zp" => Self::Weights("int4"),
            "nf4" => Self::Weights("bnb"),
            name if name.starts_with('q') || name.starts_with("iq") => Self::Weights("gguf"),
            name => Self::Weights(name),
        }
    }

    pub(crate) fn key(&self) -> String {
        match self {
            Self::Any => "engine:any".into(),
            Self::Weights(name) => format!("weights:{name}"),
            Self::Method(name) => format!("weights:{name}"),
            Self::Cache(name) => format!("kv:{name}"),
            Self::Mode(mode) => format!("mode:{}", mode.name()),
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key())
    }
}
