//! Which tensors of a checkpoint become smaller, and why others stay.

use super::fused;
use gpuwise_compress::{Part, Scheme, Stored, Strategy};
use gpuwise_read::{safetensors::Place, stored::tower};

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
    /// Norms, biases, convolutions and what else is no matrix.
    NoMatrix,
    Embedding,
    Head,
    Router,
    /// Of images or sound, or between those and the language model; without `--towers`.
    Tower,
    /// Several matrices in one tensor, as experts are.
    Fused,
    /// A matrix that is not called `….weight`.
    Unnamed,
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
            Self::Tower => "towers of images and sound, projectors".into(),
            Self::Fused => "several matrices in one tensor".into(),
            Self::Unnamed => "matrices that are not called `….weight`".into(),
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

    /// Whether a weight that could be smaller stays though no flag asked for that.
    pub(super) fn is_unasked(&self) -> bool {
        match self {
            Self::Fused | Self::Unnamed | Self::Beside(_) | Self::Format(_) | Self::Unfit(_) => {
                true
            }
            Self::NoMatrix
            | Self::Embedding
            | Self::Head
            | Self::Router
            | Self::Tower
            | Self::Asked
            | Self::Error
            | Self::Exact => false,
        }
    }
}

/// What was asked for of all tensors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) scheme: Scheme,
    pub(super) keep: &'a [String],
    /// Whether towers of images and sound stay.
    pub(super) towers_stay: bool,
}

/// The layer of a weight: its name without `.weight`.
pub(super) fn layer(tensor: &str) -> Option<&str> {
    tensor.strip_suffix(".weight")
}

/// Rows or columns of the smallest matrix that counts as one: kernels of convolutions and buffers have fewer.
const MATRIX: u64 = 16;

/// Whether a tensor holds one matrix, or several.
fn matrices(tensor: &Place) -> Option<Reason> {
    let matrix = match tensor.shape.as_slice() {
        [.., rows, columns] => rows.min(columns) >= &MATRIX,
        _ => false,
    };
    let name = &tensor.name;
    let none = ["conv", "norm", "bias", "pos", "embed"];
    if !matrix || none.iter().any(|part| name.contains(part)) {
        return None;
    }
    match tensor.shape.len() {
        2 => layer(name).is_none().then_some(Reason::Unnamed),
        _ => Some(Reason::Fused),
    }
}

/// What stays by its name, whatever was asked for.
fn by_name(layer: &str) -> Option<Reason> {
    let last = layer.rsplit('.').next().unwrap_or(layer);
    let named = |parts: &[&str]| parts.iter().any(|part| last.contains(part));
    if named(&["embed", "wte", "wpe"]) || layer.contains("embeddings") {
        return Some(Reason::Embedding);
    }
    if last == "lm_head" || matches!(layer, "output" | "proj_out") || HEADS.contains(&last) {
        return Some(Reason::Head);
    }
    if layer.ends_with("predictions.decoder") {
        return Some(Reason::Head);
    }
    if last == "gate" || named(&["router"]) || layer.ends_with("shared_expert_gate") {
        return Some(Reason::Router);
    }
    named(&["norm", "ln_"]).then_some(Reason::NoMatrix)
}

/// Heads of classifiers, and of language models that have a name of their own.
const HEADS: [&str; 4] = ["score", "embed_out", "vocab_projector", "generator_lm_head"];

/// Linear layers are found by shape and name: a matrix called `weight` that is neither embedding, head nor router.
pub(super) fn fate(tensor: &Place, asked: Asked<'_>) -> Fate {
    let found = layer(&tensor.name).and_then(|layer| match tensor.shape.as_slice() {
        &[rows, columns] => Some((layer, rows, columns)),
        _ => None,
    });
    let keep = || {
        let mut named = asked.keep.iter();
        named.any(|part| tensor.name.contains(part.as_str()))
    };
    let tower = || asked.towers_stay && tower(&tensor.name).is_some();
    let Some((layer, rows, columns)) = found else {
        return Fate::Kept(match matrices(tensor) {
            None => Reason::NoMatrix,
            Some(_) if keep() => Reason::Asked,
            Some(_) if tower() => Reason::Tower,
            Some(several) => several,
        });
    };
    if let Some(reason) = by_name(layer) {
        return Fate::Kept(reason);
    }
    if keep() {
        return Fate::Kept(Reason::Asked);
    }
    if tower() {
        return Fate::Kept(Reason::Tower);
    }
    let Some(stored) = Stored::named(&tensor.dtype) else {
        return Fate::Kept(Reason::Format(tensor.dtype.clone()));
    };
    if let Some(why) = blocks(asked.scheme, &tensor.name, (rows, columns)) {
        return Fate::Kept(Reason::Unfit(why));
    }
    match asked.scheme.parts(rows, columns, stored) {
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

/// Why blocks of a matrix cannot be loaded. Activations are measured in runs as wide as a block, so that columns must
/// divide; of a matrix that engines make of several only the last may end within a block.
fn blocks(scheme: Scheme, tensor: &str, (rows, columns): (u64, u64)) -> Option<String> {
    let Scheme::Fp8(Strategy::Block(height, width)) = scheme else {
        return None;
    };
    if !columns.is_multiple_of(u64::from(width)) {
        return Some(format!(
            "its rows have {columns} elements, which do not divide into blocks of {width}"
        ));
    }
    if fused::is_before(tensor) && !rows.is_multiple_of(u64::from(height)) {
        return Some(format!(
            "it has {rows} rows, which do not divide into blocks of {height}, and another matrix below it in engines"
        ));
    }
    None
}
