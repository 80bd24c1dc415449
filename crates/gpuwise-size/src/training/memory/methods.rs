//! What each parameter-efficient method keeps, as its code in PEFT allocates it.
//!
//! Read in `huggingface/peft@5d602fdbff04c33c1c4de55cda9d4ae1d7cb7e40:src/peft/tuners` and counted
//! by running each tuner's own layers (PEFT 0.21.2, transformers 5.23, PyTorch 2.15) on tensors
//! without data and adding up every storage that is alive after the forward pass.

use alloc::{string::String, vec::Vec};
use gpuwise_domain::{
    catalogue::{distance, run_together},
    training::AdapterKind as K,
};

/// What a method counts or keeps otherwise than others of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    OfKind,
    /// It sits on keys, values and the down projection where no modules are named (IA³).
    KeyValueDown,
    /// Two numbers for each output, instead of one for each feature (`RoAd`).
    TwoPerOutput,
    /// Three square layers are trained over its tokens (p-tuning).
    Encoder,
    /// A second attention over the prompt of each layer (Llama-Adapter).
    AdaptionPrompt,
    /// The norms' inputs are kept.
    Norms,
    /// The embedding with the trained rows put in is held.
    EmbeddingRows,
    /// One matrix of its rank by the outputs; one form of it composes weights (`MiSS`).
    OneMatrix,
    /// Its factors are shared by all layers (Lily).
    SharedFactors,
    /// It sits on any modules that count as stated, as LoRA does.
    AnyModules,
    /// With both factors trained the input is kept too (DEFT).
    TrainedFactors,
    /// With a rank it has a low-rank pair beside its sparse change.
    RankedPair,
}

/// What a method keeps beside the frozen model, for each module that it sits on. Adapters compute
/// in FP32, so a method that multiplies a module's input keeps a copy of four bytes an element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traits {
    /// Its name, run together in lower case.
    pub name: &'static str,
    /// How it uses memory.
    pub kind: K,
    /// Which rules of its own it has beside those of its kind.
    pub rule: Rule,
    /// Bytes per input feature and token.
    pub input: f64,
    /// Bytes per output feature and token.
    pub output: f64,
    /// Bytes per unit of rank and token.
    pub rank: f64,
    /// Whether it makes the weight part of the graph, so that the module's input is kept once in the
    /// model's own precision, shared by modules that read the same.
    pub through_weight: bool,
    /// Bytes per weight element kept until the backward pass: composed weights and their parts.
    pub composed: f64,
    /// Bytes per weight element held all the time: factors and indices.
    pub held: f64,
    /// Bytes per square of the input features, held all the time or until the backward pass:
    /// rotations of the input.
    pub rotation: f64,
}

const fn plain(name: &'static str, kind: K) -> Traits {
    Traits {
        name,
        kind,
        rule: Rule::OfKind,
        input: 0.0,
        output: 0.0,
        rank: 0.0,
        through_weight: false,
        composed: 0.0,
        held: 0.0,
        rotation: 0.0,
    }
}

/// A pair of low-rank factors beside the weight: the input in FP32 and the product with the first.
const fn pair(name: &'static str, kind: K) -> Traits {
    Traits {
        input: 4.0,
        rank: 4.0,
        ..plain(name, kind)
    }
}

/// A change of the weight that is as large as it, in so many bytes an element.
const fn whole(name: &'static str, kind: K, composed: f64) -> Traits {
    Traits {
        input: 4.0,
        composed,
        ..plain(name, kind)
    }
}

const METHODS: [Traits; 61] = [
    pair("lora", K::Lora),
    pair("qlora", K::Lora),
    pair("rslora", K::Lora),
    pair("pissa", K::Lora),
    pair("olora", K::Lora),
    pair("loraga", K::Lora),
    pair("eva", K::Lora),
    pair("corda", K::Lora),
    pair("loftq", K::Lora),
    pair("lorafa", K::Lora),
    pair("loraplus", K::Lora),
    pair("bdlora", K::Lora),
    pair("kasa", K::Lora),
    pair("mica", K::Lora),
    pair("xlora", K::Lora),
    pair("poly", K::Lora),
    pair("adalora", K::AdaLora),
    // The base's output and the adapter's are kept too: each is scaled by a trained magnitude.
    Traits {
        output: 6.0,
        ..pair("dora", K::Dora)
    },
    Traits {
        output: 6.0,
        ..pair("qdora", K::Dora)
    },
    Traits {
        output: 4.0,
        rank: 4.0,
        ..plain("vera", K::Vera)
    },
    Traits {
        output: 4.0,
        rank: 16.0,
        ..plain("pvera", K::Vera)
    },
    Traits {
        rule: Rule::KeyValueDown,
        ..plain("ia3", K::Ia3)
    },
    Traits {
        rule: Rule::TwoPerOutput,
        output: 8.0,
        ..plain("road", K::Ia3)
    },
    whole("loha", K::LoHa, 4.0),
    whole("lokr", K::LoKr, 4.25),
    Traits {
        composed: 0.7,
        ..whole("oft", K::Oft, 0.0)
    },
    whole("hra", K::Oft, 4.0),
    // Permutation and rotation, both as wide as the input, in FP32.
    Traits {
        rotation: 8.0,
        ..plain("boft", K::Boft)
    },
    // U, S and V of the whole matrix in 16 bits beside it, and the matrix composed of them.
    Traits {
        through_weight: true,
        composed: 2.0,
        ..plain("osf", K::Osf)
    },
    plain("prompttuning", K::Prompt),
    plain("multitaskprompttuning", K::Prompt),
    Traits {
        rule: Rule::Encoder,
        ..plain("ptuning", K::Prompt)
    },
    plain("cpt", K::Prompt),
    plain("prefixtuning", K::Prefix),
    plain("cartridge", K::Prefix),
    // A second attention, over the adaption prompt.
    Traits {
        rule: Rule::AdaptionPrompt,
        output: 8.5,
        ..plain("adaptionprompt", K::Prefix)
    },
    Traits {
        rule: Rule::Norms,
        ..plain("lntuning", K::Partial)
    },
    Traits {
        rule: Rule::EmbeddingRows,
        ..plain("trainabletokens", K::Partial)
    },
    plain("beft", K::Partial),
    plain("bitfit", K::Partial),
    whole("fourierft", K::Spectral, 4.0),
    whole("waveft", K::Spectral, 8.0),
    whole("c3a", K::Spectral, 0.0),
    whole("hira", K::Composed, 4.0),
    Traits {
        rank: 4.0,
        ..whole("randlora", K::Composed, 1.15)
    },
    // Joint factors of all layers, and sparse cores.
    Traits {
        output: 4.0,
        held: 6.0,
        ..plain("frod", K::Composed)
    },
    Traits {
        through_weight: true,
        composed: 2.1,
        held: 0.4,
        ..plain("shira", K::Composed)
    },
    Traits {
        rule: Rule::RankedPair,
        through_weight: true,
        composed: 2.1,
        ..plain("supertuning", K::Composed)
    },
    Traits {
        through_weight: true,
        composed: 2.0,
        ..plain("glora", K::Factored)
    },
    Traits {
        rank: 2.0,
        ..plain("adamss", K::Factored)
    },
    Traits {
        rule: Rule::AnyModules,
        rank: 8.0,
        ..pair("gralora", K::Factored)
    },
    Traits {
        rank: 8.0,
        ..pair("delora", K::Factored)
    },
    Traits {
        rule: Rule::TrainedFactors,
        output: 4.0,
        rank: 8.0,
        ..plain("deft", K::Factored)
    },
    Traits {
        rule: Rule::OneMatrix,
        rank: 4.0,
        ..plain("miss", K::Factored)
    },
    // Bone, and MiSS in its block-affine form, compose the change of the weight.
    whole("bone", K::Composed, 8.0),
    Traits {
        rule: Rule::SharedFactors,
        rank: 8.0,
        ..pair("lily", K::Factored)
    },
    whole("peanut", K::Composed, 8.0),
    // The matrix is decomposed in FP32 when the adapter is made.
    Traits {
        rank: 6.0,
        held: 1.5,
        ..plain("psoft", K::Factored)
    },
    pair("vblora", K::Factored),
    plain("tinylora", K::Factored),
    Traits {
        rank: 4.0,
        ..pair("unilora", K::Factored)
    },
];

/// What a method keeps, by its name, however it is cased and separated.
pub fn method_named(name: &str) -> Option<Traits> {
    let wanted = run_together(name);
    METHODS.iter().find(|known| known.name == wanted).copied()
}

/// A method as its settings make it: some names stand for two ways to allocate, that the rank and the
/// count of trained parameters tell apart. `counted` is the count by the method's formula.
pub(super) fn variant(traits: Traits, ranked: bool, trained: f64, counted: f64) -> Traits {
    match traits.rule {
        // Its block-affine form composes weights with as many parameters as the plain one: read as
        // between the two. The small one has fewer parameters.
        Rule::OneMatrix if trained >= 0.9 * counted => Traits {
            input: 4.0,
            composed: 5.0,
            ..traits
        },
        // With both factors trained the input is kept too.
        Rule::TrainedFactors if trained >= 0.9 * counted => Traits {
            input: 4.0,
            ..traits
        },
        // With a rank it has a low-rank pair beside its sparse change.
        Rule::RankedPair if ranked => Traits {
            input: 4.0,
            rank: 4.0,
            ..traits
        },
        _ => traits,
    }
}

/// What the methods of a kind keep, for an adapter whose own name is not known.
pub(super) fn method_of(kind: K) -> Traits {
    METHODS
        .iter()
        .find(|known| known.kind == kind)
        .copied()
        .unwrap_or_else(|| pair("lora", kind))
}

/// The kind of a method by its name.
pub fn adapter_named(name: &str) -> Option<K> {
    method_named(name).map(|known| known.kind)
}

/// Names of methods like this one, best first.
pub fn adapters_like(name: &str) -> Vec<String> {
    let wanted = run_together(name);
    let mut ranked: Vec<(usize, &str)> = METHODS
        .iter()
        .map(|known| (distance(known.name, &wanted), known.name))
        .collect();
    ranked.sort_unstable();
    ranked
        .iter()
        .take(3)
        .map(|(_, known)| (*known).into())
        .collect()
}
