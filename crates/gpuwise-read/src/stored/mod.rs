//! What a checkpoint stores, from its header: bytes by role.
//!
//! Where a header exists its tensors are the truth for sizes; the configuration says how they are
//! shared between ranks. Where the two disagree, the result says so with both numbers.

mod census;
mod gguf_names;
mod infer;
mod module;
mod names;
mod packing;
mod reconcile;

pub use infer::{InferError, architecture_from_tensors};
pub use names::tower;

use crate::gguf::GgufHeader;
use census::Census;
use gpuwise_domain::{
    model::{Architecture, Role, StoredWeights},
    precision::WeightFormat,
};
use gpuwise_units::group_thousands;
use module::Names;

/// A tensor as a header describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTensor {
    pub name: String,
    /// How its elements are stored; scales may be tensors of their own.
    pub format: WeightFormat,
    /// Its dimensions, outermost first.
    pub shape: Vec<u64>,
    pub bytes: u64,
}

impl StoredTensor {
    /// Elements by its shape; packed ones count as the integers that hold them.
    pub fn elements(&self) -> u64 {
        self.shape
            .iter()
            .fold(1, |product, dimension| product.saturating_mul(*dimension))
    }

    /// The last dimension; 1 for a scalar.
    pub(crate) fn last(&self) -> u64 {
        self.shape.last().copied().unwrap_or(1)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
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

fn with_tensors(
    mut architecture: Architecture,
    tensors: &[StoredTensor],
    naming: Naming,
) -> Architecture {
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
            architecture
                .assumptions
                .push(format!("{bytes} bytes of {what}"));
        }
    };
    left_out(
        census.prediction,
        "multi-token-prediction layers are stored, and left out of the count",
    );
    left_out(
        census.tied_head,
        "an output head are stored although it is tied to the embedding, and left out of the count",
    );
    if census.unknown > census.total() / 1000 {
        let example = &census.unknown_example;
        left_out(
            census.unknown,
            &format!(
                "tensors with names that are not known (such as {example:?}) are counted by where they stand"
            ),
        );
    }
}
