//! Which tensors of a checkpoint become smaller, and why others stay.

use gpuwise_compress::{Part, Scheme, Stored};
use gpuwise_read::safetensors::Place;

/// A matrix: how its numbers are stored, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shape {
    pub(super) stored: Stored,
    pub(super) rows: u64,
    pub(super) columns: u64,
}

/// What becomes of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fate {
    Encoded {
        shape: Shape,
        parts: Vec<Part>,
    },
    /// As it is.
    Kept(Reason),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// Norms, biases and what else is no matrix.
    NoMatrix,
    Embedding,
    Head,
    Router,
    /// `--keep`.
    Asked,
    /// `--max-error`.
    Error,
    /// Engines make one matrix of it and of this layer, which stays.
    Beside(String),
    /// Numbers that are no BF16, F16 or F32.
    Format(String),
    Unfit(String),
    /// Nothing was to become smaller.
    Exact,
}

impl Reason {
    pub(super) fn text(&self) -> String {
        match self {
            Self::NoMatrix => "no matrices".into(),
            Self::Embedding => "embeddings".into(),
            Self::Head => "head".into(),
            Self::Router => "routers".into(),
            Self::Asked => "--keep".into(),
            Self::Error => "--max-error".into(),
            Self::Beside(layer) => {
                format!("one with {}", layer.rsplit('.').next().unwrap_or(layer))
            }
            Self::Format(dtype) => format!("stored as {dtype}"),
            Self::Unfit(why) => why.clone(),
            Self::Exact => "as they were".into(),
        }
    }
}

/// The layer of a weight: its name without `.weight`.
pub(super) fn layer(tensor: &str) -> Option<&str> {
    tensor.strip_suffix(".weight")
}

/// Linear layers are found by shape and name: a matrix called `weight` that is neither embedding, head nor router.
pub(super) fn fate(tensor: &Place, scheme: Scheme, keep: &[String]) -> Fate {
    let Some(layer) = layer(&tensor.name) else {
        return Fate::Kept(Reason::NoMatrix);
    };
    let &[rows, columns] = tensor.shape.as_slice() else {
        return Fate::Kept(Reason::NoMatrix);
    };
    let last = layer.rsplit('.').next().unwrap_or(layer);
    let named = |parts: &[&str]| parts.iter().any(|part| last.contains(part));
    if named(&["embed", "wte", "wpe"]) || layer.contains("embeddings") {
        return Fate::Kept(Reason::Embedding);
    }
    if last == "lm_head" || layer == "output" || last == "score" {
        return Fate::Kept(Reason::Head);
    }
    if last == "gate" || named(&["router"]) || layer.ends_with("shared_expert_gate") {
        return Fate::Kept(Reason::Router);
    }
    if named(&["norm", "ln_"]) {
        return Fate::Kept(Reason::NoMatrix);
    }
    if keep.iter().any(|part| tensor.name.contains(part.as_str())) {
        return Fate::Kept(Reason::Asked);
    }
    let Some(stored) = Stored::named(&tensor.dtype) else {
        return Fate::Kept(Reason::Format(tensor.dtype.clone()));
    };
    match scheme.parts(rows, columns, stored) {
        Ok(parts) => Fate::Encoded {
            shape: Shape {
                stored,
                rows,
                columns,
            },
            parts,
        },
        Err(why) => Fate::Kept(Reason::Unfit(why.to_string())),
    }
}
