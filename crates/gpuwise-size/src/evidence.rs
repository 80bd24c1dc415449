//! The published measurements nearest to a question.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_domain::{
    catalogue::{Catalogue, folded},
    evidence::EvidenceRow,
    gpu::Gpu,
    model::Architecture,
};

/// What is asked about: a model on a GPU.
#[derive(Debug, Clone, Copy)]
pub struct Sought<'a> {
    pub model: &'a str,
    pub shape: Shape,
    /// The GPU; `None`: any.
    pub gpu: Option<&'a Gpu>,
    /// The catalogue in which rows' GPUs are looked up.
    pub catalogue: &'a Catalogue,
}

/// What of a model decides its speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    pub parameters: f64,
    /// Parameters that one token uses.
    pub active: f64,
    pub layers: u64,
    /// Width of the residual stream.
    pub hidden: u64,
}

impl Shape {
    pub fn of(architecture: &Architecture) -> Self {
        Self {
            parameters: architecture.parameters().0 as f64,
            active: architecture.active_parameters().0 as f64,
            layers: architecture.layer_count(),
            hidden: architecture.hidden,
        }
    }

    /// Whether weights and activations have the same shape, as fine-tuned models have.
    fn same(&self, other: &Self) -> bool {
        let near = |a: f64, b: f64| libm::fabs(a - b) <= 0.005 * a.max(b);
        self.layers == other.layers
            && self.hidden == other.hidden
            && near(self.parameters, other.parameters)
    }
}

/// A row with how far it is from what was asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Nearby<'a> {
    pub row: &'a EvidenceRow,
    /// 0: the same model on the same GPU; the smaller the nearer.
    pub distance: f64,
    /// In what it differs, in words.
    pub why: String,
}

/// Distances between models and between GPUs; see [`nearest`].
const SAME_SHAPE: f64 = 0.25;
const OTHER_MODEL: f64 = 2.0;
const SAME_GENERATION: f64 = 1.0;
const OTHER_GENERATION: f64 = 3.0;
/// Models and GPUs that differ by more than this factor say nothing about each other.
const FARTHEST: f64 = 4.0;

/// The rows nearest to what is asked, nearest first, at most `limit`.
///
/// The same model comes before one of the same shape, that before one of similar size; the same GPU
/// before one of its generation, that before others with similar bandwidth. `shape_of` gives the
/// shape of a row's model, where it is known.
pub fn nearest<'a>(
    rows: &'a [EvidenceRow],
    sought: &Sought<'_>,
    shape_of: &dyn Fn(&str) -> Option<Shape>,
    limit: usize,
) -> Vec<Nearby<'a>> {
    let mut models: BTreeMap<&str, Option<(f64, String)>> = BTreeMap::new();
    let mut gpus: BTreeMap<&str, Option<(f64, String)>> = BTreeMap::new();
    let mut found: Vec<Nearby<'a>> = Vec::new();
    for row in rows {
        let model = models
            .entry(&row.model)
            .or_insert_with(|| model_distance(&row.model, sought, shape_of));
        let Some((model, of_model)) = model else {
            continue;
        };
        let gpu = gpus
            .entry(&row.gpu)
            .or_insert_with(|| gpu_distance(&row.gpu, sought));
        let Some((gpu, of_gpu)) = gpu else { continue };
        found.push(Nearby {
            row,
            distance: *model + *gpu,
            why: format!("{of_model}; {of_gpu}"),
        });
    }
    // A stable sort keeps the order of the file among equals.
    found.sort_by(|a, b| a.distance.total_cmp(&b.distance));
    found.truncate(limit);
    found
}

fn model_distance(
    name: &str,
    sought: &Sought<'_>,
    shape_of: &dyn Fn(&str) -> Option<Shape>,
) -> Option<(f64, String)> {
    if folded(base(name)) == folded(base(sought.model)) {
        return Some((0.0, "the same model".to_string()));
    }
    let shape = shape_of(name)?;
    if shape.same(&sought.shape) {
        return Some((SAME_SHAPE, "a model of the same shape".to_string()));
    }
    let ratio = factor(shape.active, sought.shape.active)
        .max(factor(shape.parameters, sought.shape.parameters));
    let size = format!(
        "another model, {:.2} times the parameters and {:.2} times those active",
        shape.parameters / sought.shape.parameters.max(1.0),
        shape.active / sought.shape.active.max(1.0)
    );
    (ratio <= FARTHEST).then(|| (OTHER_MODEL + libm::log2(ratio), size))
}

fn gpu_distance(name: &str, sought: &Sought<'_>) -> Option<(f64, String)> {
    let Some(wanted) = sought.gpu else {
        return Some((0.0, "any GPU".to_string()));
    };
    let gpu = sought.catalogue.gpu(name)?;
    if gpu.name == wanted.name {
        return Some((0.0, "the same GPU".to_string()));
    }
    let bandwidth = |gpu: &Gpu| gpu.bandwidth.get();
    let ratio = factor(bandwidth(gpu), bandwidth(wanted));
    let share = bandwidth(gpu) / bandwidth(wanted).max(1.0);
    if gpu.generation == wanted.generation {
        let why = format!(
            "the same generation ({}), {share:.2} times the bandwidth",
            gpu.generation
        );
        return Some((SAME_GENERATION + libm::log2(ratio), why));
    }
    let why = format!(
        "another generation ({}), {share:.2} times the bandwidth",
        gpu.generation
    );
    (ratio <= FARTHEST).then(|| (OTHER_GENERATION + libm::log2(ratio), why))
}

/// A name without who published it.
fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn factor(a: f64, b: f64) -> f64 {
    if a <= 0.0 || b <= 0.0 {
        return f64::INFINITY;
    }
    (a / b).max(b / a)
}
