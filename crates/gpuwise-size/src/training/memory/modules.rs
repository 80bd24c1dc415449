//! Linear modules of a layer by the names that frameworks give them, and which of them an adapter
//! sits on.

use super::TrainingMemoryError;
use alloc::{
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_domain::model::{Architecture, FeedForward, Layer, LayerRun, Role};

/// A linear module of one layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Module {
    /// As the framework names it, such as `q_proj`.
    pub name: &'static str,
    /// Input features.
    pub inputs: f64,
    /// Output features.
    pub outputs: f64,
    /// Equal modules side by side (experts); 1 for most.
    pub copies: f64,
    /// How many of them work on one token.
    pub active: f64,
    /// Whether it belongs to the feed-forward.
    pub feed_forward: bool,
}

impl Module {
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
    let [query, key, value, output, gate, up, down] = names(architecture);
    let mut out: Vec<Module> = Vec::new();
    let mut add = |name: &'static str, module: Module| {
        let fused = out.iter_mut().find(|known| {
            known.name == name && known.inputs == module.inputs && known.copies == module.copies
        });
        match fused {
            Some(known) => known.outputs += module.outputs,
            None => out.push(Module { name, ..module }),
        }
    };
    for tensor in layer.tensors.iter().filter(|tensor| tensor.is_matrix()) {
        let module = Module {
            name: "",
            inputs: tensor.columns as f64,
            outputs: tensor.rows as f64,
            copies: 1.0,
            active: 1.0,
            feed_forward: false,
        };
        let inner = Module {
            feed_forward: true,
            ..module
        };
        match tensor.role {
            Role::Query => add(query, module),
            Role::Key => add(key, module),
            Role::Value => add(value, module),
            Role::AttentionOutput => add(output, module),
            Role::LatentQuery => add("q_b_proj", module),
            Role::LatentKeyValue => add("kv_b_proj", module),
            Role::LatentDown => add("kv_a_proj_with_mqa", module),
            Role::StateInput => add("in_proj", module),
            Role::StateOutput => add("out_proj", module),
            Role::MlpUp | Role::SharedUp => {
                if tensor.copies > 1 {
                    add(gate, inner);
                }
                add(up, inner);
            }
            Role::MlpDown | Role::SharedDown => add(down, inner),
            Role::ExpertUp | Role::ExpertDown => {
                let (count, chosen) = experts(layer);
                let expert = Module {
                    copies: count,
                    active: chosen,
                    ..inner
                };
                if tensor.role == Role::ExpertDown {
                    add(down, expert);
                } else {
                    if tensor.copies as f64 > count {
                        add(gate, expert);
                    }
                    add(up, expert);
                }
            }
            _ => {}
        }
    }
    out
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
    /// All of attention.
    Attention,
    /// All of the feed-forward.
    FeedForward,
    /// All linear modules.
    All,
    /// Key, value and the feed-forward's last: IA3's usual choice.
    KeyValueDown,
}

impl Targets {
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
