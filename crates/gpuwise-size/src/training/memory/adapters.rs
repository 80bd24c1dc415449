//! An adapter on a model: on which modules, with how many parameters, keeping what.

use super::{
    TrainingMemoryError,
    methods::{Rule, Traits, adapters_like, method_named, method_of, variant},
    modules::{Module, Targets, modules, named, runs},
};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_domain::{
    model::{Architecture, Layer, Role},
    training::{Adapter, AdapterKind as K, Framework},
};

/// Rank where none is stated: PEFT's default of LoRA.
const USUAL_RANK: f64 = 8.0;

/// Virtual tokens where neither they nor a count of parameters is stated.
const USUAL_TOKENS: f64 = 20.0;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Resolved {
    pub(super) traits: Traits,
    pub(super) targets: Targets,
    pub(super) rank: f64,
    /// Trainable parameters of all layers.
    pub(super) trainable: f64,
    /// Tokens put before each sequence, which every layer computes.
    pub(super) virtual_tokens: f64,
    /// Keys and values put before each sequence, which attention alone sees.
    pub(super) prefix: f64,
    pub(super) notes: Vec<String>,
}

impl Resolved {
    /// What an adapter is on this model.
    ///
    /// # Errors
    /// When its name or a module that it names does not exist.
    pub(super) fn new(
        adapter: &Adapter,
        architecture: &Architecture,
    ) -> Result<Self, TrainingMemoryError> {
        let mut traits = match &adapter.name {
            None => method_of(adapter.kind),
            Some(name) => method_named(name).ok_or_else(|| TrainingMemoryError::UnknownMethod {
                name: name.clone(),
                like: adapters_like(name),
            })?,
        };
        let mut notes = Vec::new();
        let stated = adapter.trainable.map(|count| count as f64);
        let mut rank = adapter.rank.map_or(USUAL_RANK, f64::from).max(1.0);
        let targets = if adapter.modules.is_empty() {
            let (found, dora) = inferred(architecture, &traits, rank, stated, &mut notes);
            if dora && let Some(with_magnitudes) = method_named("dora") {
                traits = with_magnitudes;
            }
            found
        } else {
            named(architecture, &adapter.modules)?
        };
        let mut resolved = Self {
            traits,
            targets,
            rank,
            trainable: 0.0,
            virtual_tokens: 0.0,
            prefix: 0.0,
            notes,
        };
        let counted = resolved.count(architecture, rank);
        resolved.trainable = stated.unwrap_or(counted);
        if traits.kind == K::AdaLora && resolved.trainable > 1.3 * counted {
            // It starts at a higher rank than it ends with.
            rank *= resolved.trainable / counted.max(1.0);
            resolved.rank = rank;
        }
        resolved.traits = variant(traits, adapter.rank.is_some(), resolved.trainable, counted);
        if resolved.traits.rule == Rule::OneMatrix && resolved.traits.composed > 0.0 {
            resolved.notes.push(
                "MiSS may compose weights or not with equal parameters: read as between the two"
                    .into(),
            );
        }
        resolved.put_before(architecture, stated, adapter.rank.map(f64::from));
        Ok(resolved)
    }

    /// Trainable parameters by the method's formula.
    fn count(&self, architecture: &Architecture, rank: f64) -> f64 {
        let hidden = architecture.hidden as f64;
        match self.traits.kind {
            K::Prompt => rank.max(USUAL_TOKENS) * hidden,
            K::Prefix => {
                let tokens = rank.max(USUAL_TOKENS);
                self.sum(architecture, |_| 0.0)
                    + runs(architecture)
                        .map(|run| run.count as f64 * tokens * key_values(&run.layer))
                        .sum::<f64>()
            }
            K::Partial => runs(architecture)
                .map(|run| run.count as f64 * norms(&run.layer))
                .sum(),
            _ => {
                let outside = rank * (architecture.vocabulary as f64 + hidden);
                self.sum(architecture, |module| {
                    parameters(self.traits.kind, self.traits.rule, module, rank)
                }) + self.targets.outside() as f64 * outside
            }
        }
    }

    /// The sum over the modules of all layers that it sits on.
    fn sum(&self, architecture: &Architecture, of: impl Fn(&Module) -> f64) -> f64 {
        sum(architecture, &self.targets, of)
    }

    fn put_before(&mut self, architecture: &Architecture, stated: Option<f64>, asked: Option<f64>) {
        let hidden = architecture.hidden as f64;
        match self.traits.kind {
            K::Prompt => {
                // Prompt tuning trains tokens; p-tuning also three square layers over them.
                let encoder = 3.0 * hidden * hidden + 3.0 * hidden;
                let of = |count: f64| {
                    if self.traits.rule == Rule::Encoder {
                        ((count - encoder) / hidden).max(1.0)
                    } else {
                        count / hidden
                    }
                };
                self.virtual_tokens = stated.map(of).or(asked).unwrap_or(USUAL_TOKENS);
                if self.traits.rule == Rule::Encoder && stated.is_none() {
                    self.trainable = self.virtual_tokens * hidden + encoder;
                }
            }
            K::Prefix if self.traits.rule != Rule::AdaptionPrompt => {
                let each: f64 = runs(architecture)
                    .map(|run| run.count as f64 * key_values(&run.layer))
                    .sum();
                self.prefix = stated
                    .map(|count| count / each.max(1.0))
                    .or(asked)
                    .unwrap_or(USUAL_TOKENS);
            }
            _ => {}
        }
    }

    /// Bytes that one layer keeps more than a frozen one: for each token, and whatever the tokens.
    pub(super) fn kept(
        &self,
        architecture: &Architecture,
        layer: &Layer,
        element: f64,
        framework: Framework,
    ) -> (f64, f64) {
        let in_recipe;
        let t =
            if framework == Framework::Torchtune && matches!(self.traits.kind, K::Lora | K::Dora) {
                // Inputs and what the narrow matrix makes, in the recipe's precision, inputs once.
                in_recipe = Traits {
                    input: 0.0,
                    output: 0.0,
                    rank: element,
                    through_weight: true,
                    ..self.traits
                };
                &in_recipe
            } else {
                &self.traits
            };
        let hidden = architecture.hidden as f64;
        let (mut token, mut fixed) = (0.0, 0.0);
        let mut inputs: Vec<(f64, bool)> = Vec::new();
        for module in modules(architecture, layer) {
            if !self.targets.has(architecture, &module) {
                continue;
            }
            let active = module.active;
            token +=
                active * (t.input * module.inputs + t.output * module.outputs + t.rank * self.rank);
            fixed += t.composed * module.elements()
                + t.rotation / 2.0 * module.inputs * module.inputs * module.copies;
            if t.kind == K::Ia3 && t.output == 0.0 {
                token += active
                    * if module.feed_forward {
                        4.0 * module.inputs
                    } else {
                        element * module.outputs
                    };
            }
            let input = (module.inputs, module.feed_forward);
            if t.through_weight && !inputs.contains(&input) {
                inputs.push(input);
                token += element * module.inputs * active;
            }
        }
        if t.rule == Rule::AdaptionPrompt {
            token = t.output * attention_width(layer);
        }
        if t.rule == Rule::Norms {
            token += element * norms(layer).max(hidden);
        }
        (token, fixed)
    }

    /// Bytes held all the time beside the trained parameters and the base.
    pub(super) fn held(&self, architecture: &Architecture, element: f64) -> f64 {
        let t = &self.traits;
        if t.rule == Rule::EmbeddingRows {
            // The table with the trained rows put in, while the head reads it.
            return element * (architecture.vocabulary * architecture.hidden) as f64;
        }
        let factors = if t.kind == K::Osf {
            // U, S and V: rank x (in + out) for the smaller side of each matrix.
            self.sum(architecture, |m| {
                element * m.inputs.min(m.outputs) * (m.inputs + m.outputs) * m.copies
            })
        } else {
            0.0
        };
        factors
            + self.sum(architecture, |m| {
                t.held * m.elements() + t.rotation / 2.0 * m.inputs * m.inputs * m.copies
            })
    }
}

fn attention_width(layer: &Layer) -> f64 {
    let shape = layer.mixer.head_shape();
    shape.map_or(0.0, |shape| (shape.heads * shape.value_dim) as f64)
}

/// Elements of keys and values of one token.
fn key_values(layer: &Layer) -> f64 {
    let shape = layer.mixer.head_shape();
    shape.map_or(0.0, |shape| shape.keys_and_values() as f64)
}

fn norms(layer: &Layer) -> f64 {
    layer
        .tensors
        .iter()
        .filter(|tensor| tensor.role == Role::Norm)
        .map(|tensor| tensor.elements() as f64)
        .sum()
}

fn sum(architecture: &Architecture, targets: &Targets, of: impl Fn(&Module) -> f64) -> f64 {
    runs(architecture)
        .map(|run| {
            let each: f64 = modules(architecture, &run.layer)
                .iter()
                .filter(|module| targets.has(architecture, module))
                .map(&of)
                .sum();
            run.count as f64 * each
        })
        .sum()
}

/// Trainable parameters of one module (all its copies).
fn parameters(kind: K, rule: Rule, module: &Module, rank: f64) -> f64 {
    let (i, o) = (module.inputs, module.outputs);
    let each = match kind {
        K::Dora => rank * (i + o) + o,
        K::AdaLora => rank * (i + o + 1.0) + 1.0,
        K::Vera => rank + o,
        K::Ia3 if rule == Rule::TwoPerOutput => 2.0 * o,
        K::Ia3 => {
            if module.feed_forward {
                i
            } else {
                o
            }
        }
        K::LoHa => 2.0 * rank * (i + o),
        K::LoKr => rank * (i + o) / 4.0 + 16.0,
        K::Oft => i * (rank - 1.0) / 2.0,
        K::Boft => 4.0 * i + o,
        K::Osf => {
            // The lowest 128 of the singular directions, as PEFT's example sets.
            let low = 128.0f64.min(i.min(o) / 2.0);
            low * (i + o + 1.0)
        }
        K::Spectral => 1000.0,
        K::Factored if rule == Rule::OneMatrix => rank * o,
        _ => rank * (i + o),
    };
    each * module.copies
}

/// Modules of an adapter that names none: its usual ones, or those whose count is the one stated.
/// Also whether it has magnitudes (`LoRA` that is counted as `DoRA`).
fn inferred(
    architecture: &Architecture,
    traits: &Traits,
    rank: f64,
    stated: Option<f64>,
    notes: &mut Vec<String>,
) -> (Targets, bool) {
    let usual = match traits.kind {
        K::Ia3 if traits.rule == Rule::KeyValueDown => Targets::KeyValueDown,
        K::Osf => Targets::All,
        _ => Targets::QueryValue,
    };
    let fixed = matches!(
        traits.kind,
        K::Prompt
            | K::Prefix
            | K::Partial
            | K::Osf
            | K::AdaLora
            | K::Composed
            | K::Factored
            | K::Spectral
            | K::Boft
            | K::Oft
            | K::LoKr
    ) && !matches!(traits.rule, Rule::SharedFactors | Rule::AnyModules);
    let Some(stated) = stated.filter(|_| !fixed) else {
        if stated.is_none() && !matches!(traits.kind, K::Prompt | K::Prefix | K::Partial) {
            notes.push("adapters on the modules that PEFT takes by default".to_string());
        }
        return (usual, false);
    };
    let mut best = (f64::INFINITY, usual.clone(), false);
    let sets = [
        usual,
        Targets::All,
        Targets::FeedForward,
        Targets::Attention,
    ];
    for targets in sets {
        let counts = counts(architecture, traits, rank, &targets);
        for (count, dora) in counts {
            let far = libm::fabs(libm::log(count.max(1.0) / stated.max(1.0)));
            if far + 1e-9 < best.0 {
                best = (far, targets.clone(), dora);
            }
        }
    }
    if best.0 > 1e-6 {
        notes.push(format!(
            "modules read from {stated:.0} trainable parameters: the nearest usual set"
        ));
    }
    (best.1, best.2)
}

/// Counts of trained parameters that a method on these modules may have, and whether each is one with
/// magnitudes.
fn counts(
    architecture: &Architecture,
    traits: &Traits,
    rank: f64,
    targets: &Targets,
) -> Vec<(f64, bool)> {
    let total = |of: &dyn Fn(&Module) -> f64| sum(architecture, targets, of);
    let mut out = alloc::vec![(
        total(&|m| parameters(traits.kind, traits.rule, m, rank)),
        false
    )];
    if traits.kind == K::Lora {
        out.push((total(&|m| parameters(K::Dora, Rule::OfKind, m, rank)), true));
        // One of the two factors is trained (LoRA-FA), or the wider one is block-diagonal.
        out.push((total(&|m| rank * m.outputs * m.copies), false));
        out.push((total(&|m| rank * m.inputs * m.copies), false));
        let block_diagonal = total(&|m| {
            let (narrow, wide) = (m.inputs.min(m.outputs), m.inputs.max(m.outputs));
            rank * (narrow + wide / 2.0) * m.copies
        });
        out.push((block_diagonal, false));
    }
    if traits.rule == Rule::SharedFactors {
        // Its factors are shared: two of each kind for all layers, and a router in each layer.
        let layers = runs(architecture).map(|run| run.count).sum::<u64>().max(1) as f64;
        let shared = total(&|m| 2.0 * rank * (m.inputs + m.outputs)) / layers;
        out.push((shared + total(&|_| 2.0 * rank), false));
    }
    out
}
