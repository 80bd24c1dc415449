//! Why a training setup has no memory figure.

use alloc::{string::String, vec::Vec};

/// What is wrong with a training setup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrainingMemoryError {
    /// No such method of fine-tuning.
    #[error("no method of fine-tuning is called {name:?}; nearest: {}", like.join(", "))]
    UnknownMethod { name: String, like: Vec<String> },
    /// An adapter names a module that the model does not have.
    #[error("the model has no linear module {name:?}; it has {}", known.join(", "))]
    NoSuchModule { name: String, known: Vec<String> },
    /// More pipeline stages than layers.
    #[error(
        "{stages} pipeline stages (with {interleave} virtual ones each) need as many layers, but the model has {layers}"
    )]
    StagesWithoutLayers {
        stages: u32,
        /// Virtual stages of each.
        interleave: u32,
        /// Layers of the model.
        layers: u64,
    },
    /// A degree of parallelism, batch or length of 0.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
}
