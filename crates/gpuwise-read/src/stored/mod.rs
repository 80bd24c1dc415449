//! What a checkpoint stores, from its header: bytes by role.
//!
//! Where a header exists its tensors are the truth for sizes; the configuration says how they are
//! shared between ranks. Where the two disagree, the result says so with both numbers.

mod gguf_names;
mod infer;
mod module;
mod names;
mod packing;
mod reconcile;

pub use infer::{InferError, architecture_from_tensors};

use crate::gguf::GgufHeader;
use gpuwise_domain::{
    model::{Architecture, Role, StoredWeights},
    precision::WeightFormat,
};
use gpuwise_units::group_thousands;
use module::Names;
use std::collections::BTreeMap;

/// A tensor as a header describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTensor {
    /// Its name.
    pub name: String,
    /// How its elements are stored; scales may be tensors of their own.
    pub format: WeightFormat,
    /// Its dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Its bytes.
    pub bytes: u64,
}

impl StoredTensor {
    /// Elements by its shape; packed ones count as the integers that hold them.
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1, |product, dimension| product.saturating_mul(*dimension))
    }

    /// The last dimension; 1 for a scalar.
    pub(crate) fn last(&self) -> u64 {
        self.shape.last().copied().unwrap_or(1)
    }
}

/// What a tensor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// One role.
    Role(Role),
    /// Query, key and value in one: shared out as the architecture has them.
    FusedAttention,
    /// Computed, not learned: stored, but no parameter.
    Buffer(Role),
    /// Loaded only where speculation uses it.
    Prediction,
    /// A name that is not known; the role is what it stands beside.
    Unknown(Role),
}

/// The header's names: Hugging Face's or llama.cpp's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    HuggingFace,
    Gguf,
}

/// Adds what safetensors headers (of all shards together) say is stored.
pub fn with_header(architecture: Architecture, tensors: &[StoredTensor]) -> Architecture {
    with_tensors(architecture, tensors, Naming::HuggingFace)
}

/// Adds what a GGUF header (of all parts together) says is stored.
pub fn with_gguf(architecture: Architecture, header: &GgufHeader) -> Architecture {
    with_tensors(architecture, &header.tensors, Naming::Gguf)
}

fn with_tensors(mut architecture: Architecture, tensors: &[StoredTensor], naming: Naming) -> Architecture {
    let names = Names::new(tensors, naming, architecture.layer_count());
    let census = Census::take(&architecture, tensors, &names);
    reconcile::formats(&mut architecture, tensors, &names);
    notes(&mut architecture, &census);
    architecture.stored = Some(StoredWeights {
        by_role: census.by_role.into_iter().collect(),
        elements: census.elements,
    });
    architecture
}

/// Sums over a header.
#[derive(Debug, Default)]
struct Census {
    by_role: BTreeMap<Role, u64>,
    elements: u64,
    /// Left out: prediction layers.
    prediction: u64,
    /// Left out: a head that is stored although it is tied.
    tied_head: u64,
    /// Bytes of names that are not known, and one of them.
    unknown: u64,
    unknown_example: String,
}

impl Census {
    fn take(architecture: &Architecture, tensors: &[StoredTensor], names: &Names<'_>) -> Self {
        let mut census = Self::default();
        for tensor in tensors {
            let (place, kind) = names.place(tensor);
            match place {
                Place::Prediction => {
                    census.prediction = census.prediction.saturating_add(tensor.bytes);
                    continue;
                }
                Place::Role(Role::Head) if architecture.tied_head => {
                    census.tied_head = census.tied_head.saturating_add(tensor.bytes);
                    continue;
                }
                Place::Unknown(_) => {
                    census.unknown = census.unknown.saturating_add(tensor.bytes);
                    if census.unknown_example.is_empty() {
                        census.unknown_example.clone_from(&tensor.name);
                    }
                }
                _ => {}
            }
            for (role, bytes) in shares(place, tensor.bytes, architecture) {
                let sum = census.by_role.entry(role).or_default();
                *sum = sum.saturating_add(bytes);
            }
            if !matches!(place, Place::Buffer(_)) {
                let elements = packing::elements(tensor, kind, names, architecture);
                census.elements = census.elements.saturating_add(elements);
            }
        }
        census
    }

    fn total(&self) -> u64 {
        self.by_role.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// The bytes of a tensor by role.
fn shares(place: Place, bytes: u64, architecture: &Architecture) -> Vec<(Role, u64)> {
    let role = match place {
        Place::Role(role) | Place::Buffer(role) | Place::Unknown(role) => role,
        Place::Prediction => return Vec::new(),
        Place::FusedAttention => return fused_shares(bytes, architecture),
    };
    vec![(counted_as(role, architecture), bytes)]
}

/// Some families call a network for all tokens shared, others dense, whether or not routed experts
/// stand beside it: the architecture's word counts.
fn counted_as(role: Role, architecture: &Architecture) -> Role {
    let other = match role {
        Role::MlpUp => Role::SharedUp,
        Role::MlpDown => Role::SharedDown,
        Role::SharedUp => Role::MlpUp,
        Role::SharedDown => Role::MlpDown,
        _ => return role,
    };
    let has = |wanted: Role| architecture.tensors().any(|(_, tensor)| tensor.role == wanted);
    if !has(role) && has(other) { other } else { role }
}

fn fused_shares(bytes: u64, architecture: &Architecture) -> Vec<(Role, u64)> {
    let parts = [Role::Query, Role::Key, Role::Value].map(|role| (role, architecture.parameters_of(|r| r == role).0));
    let all: u128 = parts.iter().map(|(_, elements)| u128::from(*elements)).sum();
    if all == 0 {
        return vec![(Role::Query, bytes)];
    }
    let part = |elements: u64| (u128::from(bytes) * u128::from(elements) / all) as u64;
    let (key, value) = (part(parts[1].1), part(parts[2].1));
    // The query takes what rounding leaves, so that the sum is exact.
    vec![(Role::Query, bytes - key - value), (Role::Key, key), (Role::Value, value)]
}

/// Says where header and configuration disagree, and what was left out.
fn notes(architecture: &mut Architecture, census: &Census) {
    let stated = architecture.parameters().0;
    let difference = census.elements.abs_diff(stated) as f64 / (stated.max(1) as f64);
    if difference > 0.001 {
        architecture.assumptions.push(format!(
            "the header holds {} parameters, the configuration makes {} ({:.1} % apart): sizes are the header's",
            group_thousands(&census.elements.to_string()),
            group_thousands(&stated.to_string()),
            difference * 100.0,
        ));
    }
    let mut left_out = |bytes: u64, what: &str| {
        if bytes > 0 {
            let bytes = group_thousands(&bytes.to_string());
            architecture.assumptions.push(format!("{bytes} bytes of {what}"));
        }
    };
    left_out(census.prediction, "multi-token-prediction layers are stored, and left out of the count");
    left_out(census.tied_head, "an output head are stored although it is tied to the embedding, and left out of the count");
    if census.unknown > census.total() / 1000 {
        let example = &census.unknown_example;
        left_out(census.unknown, &format!("tensors with names that are not known (such as {example:?}) are counted by where they stand"));
    }
}
