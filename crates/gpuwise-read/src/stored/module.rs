//! Names of tensors taken apart: the module, and what the tensor is to it.

use super::{Naming, Place, StoredTensor, gguf_names, names};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its weight, packed or not.
    Weight,
    Bias,
    /// A scale, zero point, index or table of a quantized weight.
    Scale,
}

/// Endings after the module's name that belong to a quantized weight.
const SCALES: [&str; 30] = [
    ".qzeros",
    ".scales",
    ".g_idx",
    ".weight_scale",
    ".weight_scale_inv",
    ".weight_scale_2",
    ".weight_zero_point",
    ".weight_shape",
    ".weight_g_idx",
    ".weight_global_scale",
    ".input_scale",
    ".input_scale_inv",
    ".input_zero_point",
    ".input_global_scale",
    ".output_scale",
    ".activation_scale",
    ".k_scale",
    ".v_scale",
    ".q_scale",
    ".SCB",
    ".weight_format",
    ".absmax",
    ".nested_absmax",
    ".quant_map",
    ".nested_quant_map",
    "_scales",
    "_scale_inv",
    "_weight_scale",
    "_weight_scale_2",
    "_input_scale",
];

/// Endings of a weight without its zeros, what stands beside each, and what it is.
const SPARSE: [(&str, &str, Kind); 3] = [
    (SPARSE_WEIGHT, ".bitmask", Kind::Weight),
    (".bitmask", SPARSE_WEIGHT, Kind::Scale),
    (".shape", SPARSE_WEIGHT, Kind::Scale),
];

/// The elements that are left.
pub(super) const SPARSE_WEIGHT: &str = ".compressed";

/// Endings of a weight; the longest first.
const WEIGHTS: [&str; 6] = [
    ".weight_packed",
    ".qweight",
    ".weight",
    "_blocks",
    "_packed",
    ".W_q",
];

/// The module of a tensor, and what the tensor is to it. `exists` says whether a name is there.
pub(super) fn split(name: &str, exists: impl Fn(&str) -> bool) -> (&str, Kind) {
    // bitsandbytes puts its tables after `.weight`.
    if let Some((module, _)) = name.split_once(".quant_state.") {
        return (
            module.strip_suffix(".weight").unwrap_or(module),
            Kind::Scale,
        );
    }
    for ending in SCALES {
        if let Some(module) = name.strip_suffix(ending) {
            return (
                module.strip_suffix(".weight").unwrap_or(module),
                Kind::Scale,
            );
        }
    }
    // A bare `.scale` is a parameter of its own in some models.
    for ending in [".scale", "_scale"] {
        if let Some(module) = name.strip_suffix(ending)
            && (exists(&format!("{module}.weight")) || exists(module))
        {
            return (module, Kind::Scale);
        }
    }
    // Common words, which mean this only beside one another.
    for (ending, beside, kind) in SPARSE {
        if let Some(module) = name.strip_suffix(ending)
            && exists(&format!("{module}{beside}"))
        {
            return (module, kind);
        }
    }
    for ending in WEIGHTS {
        if let Some(module) = name.strip_suffix(ending) {
            return (module, Kind::Weight);
        }
    }
    match name
        .strip_suffix(".bias")
        .or_else(|| name.strip_suffix("_bias"))
    {
        Some(module) => (module, Kind::Bias),
        None => (name, Kind::Weight),
    }
}

/// The tensors of a header by name, with what the names say of each other.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    by_name: BTreeMap<&'a str, &'a StoredTensor>,
    /// Modules that mix tokens by a recurrence: a decay or short convolution stands in them.
    recurrent: BTreeSet<&'a str>,
    pub(super) naming: Naming,
    /// Decoder layers; later ones predict further tokens.
    layers: u64,
}

impl<'a> Names<'a> {
    pub(super) fn new(tensors: &'a [StoredTensor], naming: Naming, layers: u64) -> Self {
        let by_name = tensors
            .iter()
            .map(|tensor| (tensor.name.as_str(), tensor))
            .collect();
        let recurrent = tensors
            .iter()
            .filter_map(|tensor| names::recurrent_module(&tensor.name))
            .collect();
        Self {
            by_name,
            recurrent,
            naming,
            layers,
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a StoredTensor> {
        self.by_name.get(name).copied()
    }

    /// The first tensor of a module under one of these endings.
    pub(super) fn of_module(&self, module: &str, endings: &[&str]) -> Option<&'a StoredTensor> {
        endings
            .iter()
            .find_map(|ending| self.get(&format!("{module}{ending}")))
    }

    /// The module of a tensor, and what the tensor is to it.
    pub(super) fn split<'b>(&self, name: &'b str) -> (&'b str, Kind) {
        split(name, |other| self.by_name.contains_key(other))
    }

    pub(super) fn place(&self, tensor: &StoredTensor) -> (Place, Kind) {
        let (module, kind) = self.split(&tensor.name);
        let place = match self.naming {
            Naming::Gguf => gguf_names::place(module, kind, self.layers, self),
            Naming::HuggingFace => names::place(
                module,
                kind,
                tensor.shape.len(),
                self.layers,
                &self.recurrent,
            ),
        };
        (place, kind)
    }
}
