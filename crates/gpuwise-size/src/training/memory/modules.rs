//! Linear modules of a layer by the names that frameworks give them, and which of them an adapter
//! sits on.

use super::TrainingMemoryError;
use alloc::{
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_domain::model::{Architecture, FeedForward, Layer, LayerRun, Role, Tensor};

/// A linear module of one layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Module {
    /// As the framework names it, such as `q_proj`.
    pub name: &'static str,
    pub inputs: f64,
    pub outputs: f64,
    /// Equal modules side by side (experts); 1 for most.
    pub copies: f64,
    /// How many of them work on one token.
    pub active: f64,
    /// Whether it belongs to the feed-forward.
    pub feed_forward: bool,
}

impl Module {
    /// Whether two modules read the same input, so that a fused one may stand for both.
    fn reads_as(&self, other: &Self) -> bool {
        self.inputs.total_cmp(&other.inputs).is_eq() && self.copies.total_cmp(&other.copies).is_eq()
    }

    /// Elements of all copies.
    pub fn elements(&self) -> f64 {
        self.inputs * self.outputs * self.copies
    }
}

/// Names of one family's modules: query, key, value (one name thrice: fused), output, gate, up, down.
struct Names {
    types: &'static [&'static str],
    names: [&'static str; 7],
}

/// As in the modelling files of `transformers` 5 and the target modules of
/// `huggingface/peft@5d602fdbff04c33c1c4de55cda9d4ae1d7cb7e40:src/peft/utils/constants.py`.
const FAMILIES: [Names; 6] = [
    Names {
        types: &["t5", "mt5", "umt5"],
        names: ["q", "k", "v", "o", "wi_0", "wi_1", "wo"],
    },
    Names {
        types: &["bloom", "gpt_neox", "falcon", "chatglm"],
        names: [
            "query_key_value",
            "query_key_value",
            "query_key_value",
            "dense",
            "dense_gate",
            "dense_h_to_4h",
            "dense_4h_to_h",
        ],
    },
    Names {
        types: &["mpt"],
        names: [
            "Wqkv",
            "Wqkv",
            "Wqkv",
            "out_proj",
            "gate_proj",
            "up_proj",
            "down_proj",
        ],
    },
    Names {
        types: &["gpt2", "gpt_bigcode"],
        names: [
            "c_attn",
            "c_attn",
            "c_attn",
            "c_proj",
            "c_gate",
            "c_fc",
            "mlp.c_proj",
        ],
    },
    Names {
        types: &["opt"],
        names: [
            "q_proj",
            "k_proj",
            "v_proj",
            "out_proj",
            "gate_proj",
            "fc1",
            "fc2",
        ],
    },
    Names {
        types: &["phi3"],
        names: [
            "qkv_proj",
            "qkv_proj",
            "qkv_proj",
            "o_proj",
            "gate_up_proj",
            "gate_up_proj",
            "down_proj",
        ],
    },
];

const USUAL: [&str; 7] = [
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
];

fn names(architecture: &Architecture) -> [&'static str; 7] {
    FAMILIES
        .iter()
        .find(|family| family.types.contains(&architecture.model_type.as_str()))
        .map_or(USUAL, |family| family.names)
}

/// The layers that an adapter is put into: decoder and encoder.
pub(super) fn runs(architecture: &Architecture) -> impl Iterator<Item = &LayerRun> {
    let encoder = architecture.encoder.iter().flat_map(|e| e.layers.iter());
    architecture.layers.iter().chain(encoder)
}

/// Linear modules of a layer; fused ones as one.
pub fn modules(architecture: &Architecture, layer: &Layer) -> Vec<Module> {
    let names = names(architecture);
    let mut out: Vec<Module> = Vec::new();
    for tensor in layer.tensors.iter().filter(|tensor| tensor.is_matrix()) {
        let (called, module) = named_module(&names, layer, tensor);
        for name in called.into_iter().flatten() {
            let fused = out
                .iter_mut()
                .find(|known| known.name == name && known.reads_as(&module));
            match fused {
                Some(known) => known.outputs += module.outputs,
                None => out.push(Module { name, ..module }),
            }
        }
    }
    out
}

/// The one or two modules (gate and up are one tensor here) that a tensor is, by name.
fn named_module(
    &[query, key, value, output, gate, up, down]: &[&'static str; 7],
    layer: &Layer,
    tensor: &Tensor,
) -> ([Option<&'static str>; 2], Module) {
    let mut module = Module {
        name: "",
        inputs: tensor.columns as f64,
        outputs: tensor.rows as f64,
        copies: 1.0,
        active: 1.0,
        feed_forward: false,
    };
    let mut before = None;
    let name = match tensor.role {
        Role::Query => query,
        Role::Key => key,
        Role::Value => value,
        Role::AttentionOutput => output,
        Role::LatentQuery => "q_b_proj",
        Role::LatentKeyValue => "kv_b_proj",
        Role::LatentDown => "kv_a_proj_with_mqa",
        Role::StateInput => "in_proj",
        Role::StateOutput => "out_proj",
        Role::MlpUp | Role::SharedUp => {
            module.feed_forward = true;
            before = (tensor.copies > 1).then_some(gate);
            up
        }
        Role::MlpDown | Role::SharedDown => {
            module.feed_forward = true;
            down
        }
        Role::ExpertUp | Role::ExpertDown => {
            module.feed_forward = true;
            (module.copies, module.active) = experts(layer);
            let gated = tensor.copies as f64 > module.copies;
            if tensor.role == Role::ExpertDown {
                down
            } else {
                before = gated.then_some(gate);
                up
            }
        }
        _ => return ([None, None], module),
    };
    ([before, Some(name)], module)
}

fn experts(layer: &Layer) -> (f64, f64) {
    match layer.feed_forward {
        FeedForward::Experts { count, chosen, .. } => (count as f64, chosen as f64),
        _ => (1.0, 1.0),
    }
}

/// Which modules an adapter sits on.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Targets {
    /// Modules of these names.
    Named(Vec<String>),
    /// Query and value projections (the fused one where they are one): PEFT's usual choice.
    QueryValue,
    Attention,
    /// All of the feed-forward.
    FeedForward,
    All,
    /// Key, value and the feed-forward's last: IA3's usual choice.
    KeyValueDown,
}

impl Targets {
    /// How many modules outside of layers it names.
    pub(super) fn outside(&self) -> usize {
        match self {
            Self::Named(list) => list
                .iter()
                .filter(|name| OUTSIDE.contains(&name.as_str()))
                .count(),
            _ => 0,
        }
    }

    /// Whether a module is one of them.
    pub(super) fn has(&self, architecture: &Architecture, module: &Module) -> bool {
        let [query, key, value, _, _, _, down] = names(architecture);
        match self {
            Self::Named(list) => list.iter().any(|name| {
                name == module.name || name.ends_with(&alloc::format!(".{}", module.name))
            }),
            Self::QueryValue => {
                [query, value, "q_b_proj", "kv_b_proj", "in_proj"].contains(&module.name)
            }
            Self::Attention => !module.feed_forward,
            Self::FeedForward => module.feed_forward,
            Self::All => true,
            Self::KeyValueDown => [key, value, down, "kv_b_proj"].contains(&module.name),
        }
    }
}

/// Modules outside of layers that adapters may sit on.
pub(super) const OUTSIDE: [&str; 2] = ["lm_head", "embed_tokens"];

/// The named modules, if the model has them all.
///
/// # Errors
/// When one does not exist; the error names those that do.
pub(super) fn named(
    architecture: &Architecture,
    wanted: &[String],
) -> Result<Targets, TrainingMemoryError> {
    let mut known: Vec<&'static str> = runs(architecture)
        .flat_map(|run| modules(architecture, &run.layer))
        .map(|module| module.name)
        .collect();
    known.extend(OUTSIDE);
    known.sort_unstable();
    known.dedup();
    if wanted.len() == 1 && wanted[0] == "all-linear" {
        return Ok(Targets::All);
    }
    for name in wanted {
        let last = name.rsplit('.').next().unwrap_or(name);
        if !known.iter().any(|k| *k == name || *k == last) {
            return Err(TrainingMemoryError::NoSuchModule {
                name: name.clone(),
                known: known.iter().map(ToString::to_string).collect(),
            });
        }
    }
    let last = |name: &String| name.rsplit('.').next().unwrap_or(name).to_string();
    Ok(Targets::Named(wanted.iter().map(last).collect()))
}
