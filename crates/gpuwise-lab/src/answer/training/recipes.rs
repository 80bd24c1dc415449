//! Which trainer a row is of, what it lists as techniques, and what torchtune's recipes and
//! torchtitan's configurations set where it says nothing.
//!
//! Settings: `pytorch/torchtune@bd2a0fc7:recipes/configs` (170 files agree but for sizes),
//! `pytorch/torchtitan@9810191bb^:torchtitan/models/llama3/train_configs`.

use gpuwise_domain::{
    catalogue::run_together,
    model::Architecture,
    question::Question,
    training::{Framework, LossKernel, Method, Optimizer, Recipe, Recompute},
};

/// Parameters below which torchtune's recipes keep every activation.
const SMALL: f64 = 2e9;
/// Parameters from which torchtune's recipes of adapters on several GPUs recompute layers.
const LARGE_ADAPTED: f64 = 50e9;
/// Parameters from which torchtitan's configurations recompute whole layers: 70B and 405B do, 8B
/// recomputes by operator.
const LARGE: f64 = 20e9;

/// Sequences and tokens of a torchtune row that states none and packs nothing: two conversations of
/// Alpaca, padded to the longer.
pub(super) const CONVERSATIONS: (u64, u64) = (2, 256);

/// The trainer that a row names; Hugging Face's where it names none but a method of fine-tuning.
pub(super) fn framework(question: &Question) -> Framework {
    let engine = question.engine.to_ascii_lowercase();
    let names = |words: &[&str]| words.iter().any(|word| engine.contains(word));
    let techniques = question.extra("techniques").is_some();
    if names(&["automodel"]) {
        // NeMo's recipes on PyTorch's own FSDP and pipelines.
        Framework::PyTorch
    } else if names(&["megatron", "nemo"]) {
        Framework::Megatron
    } else if names(&["torchtune"]) {
        Framework::Torchtune
    } else if names(&["torchtitan"]) {
        Framework::Torchtitan
    } else if names(&[
        "peft",
        "transformers",
        "deepspeed",
        "accelerate",
        "trl",
        "unsloth",
        "axolotl",
        "llama-factory",
        "llamafactory",
    ]) {
        Framework::HuggingFace
    } else if names(&[
        "foundry", "composer", "pytorch", "fsdp", "lit-gpt", "litgpt",
    ]) {
        Framework::PyTorch
    } else if techniques && question.extra("method").is_none() {
        Framework::Torchtitan
    } else if question.extra("method").is_some() {
        Framework::HuggingFace
    } else {
        Framework::Megatron
    }
}

/// Whether a row is about training at all, where its metric's name does not say.
pub(super) fn is_training(question: &Question) -> bool {
    let keys = [
        "method",
        "techniques",
        "technique",
        "grad_ckpt",
        "act_ckpt",
        "MBS",
        "sharding",
    ];
    keys.iter().any(|key| question.extra(key).is_some())
        || matches!(
            framework(question),
            Framework::Torchtune | Framework::Torchtitan
        )
}

/// What a row lists as techniques.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Techniques {
    words: Vec<String>,
    /// Whether it names everything that departs from doing nothing of the kind: it names a baseline,
    /// or adds to the row before.
    pub(super) whole: bool,
}

/// The order in which torchtune's own table adds techniques to a baseline: a row that begins with a
/// plus has those before it too.
const ADDED: [&str; 7] = [
    "packed",
    "compile",
    "chunked",
    "activationcheckpointing",
    "optimizerinbackward",
    "activationoffloading",
    "8bitadamw",
];

impl Techniques {
    pub(super) fn of(question: &Question) -> Self {
        let stated = ["techniques", "technique"].map(|key| question.extra(key));
        let Some(list) = stated.into_iter().flatten().next() else {
            return Self::default();
        };
        let words: Vec<String> = list
            .split(['+', ',', '&', '|'])
            .map(run_together)
            .filter(|word| !word.is_empty())
            .collect();
        let mut out = Self {
            whole: words.iter().any(|word| {
                ["baseline", "naive", "vanilla"]
                    .iter()
                    .any(|b| word.contains(b))
            }),
            words,
        };
        if list.trim_start().starts_with('+') {
            out.whole = true;
            let newest = ADDED.iter().rposition(|name| out.names(name));
            let before = newest.map_or(&[][..], |at| &ADDED[..at]);
            out.words
                .extend(before.iter().map(|name| (*name).to_owned()));
        }
        out
    }

    /// The first word that is none of the techniques known here.
    pub(super) fn unknown(&self) -> Option<&str> {
        let degree = |word: &str| {
            let bare = word.strip_prefix("async").unwrap_or(word);
            let letters = bare.trim_matches(|at: char| at.is_ascii_digit());
            [
                "tp", "pp", "cp", "dp", "ep", "sp", "vp", "fsdp", "hsdp", "ddp",
            ]
            .contains(&letters)
        };
        let exactly = [
            "ac", "sac", "fullac", "qdora", "qlora", "dora", "lora", "none", "full",
        ];
        let parts = [
            "baseline",
            "naive",
            "vanilla",
            "pack",
            "compile",
            "chunk",
            "linearcross",
            "checkpointing",
            "selective",
            "backward",
            "bwd",
            "activationoffload",
            "8bit",
            "paged",
            "hsdp",
            "ddp",
            "fsdp",
            "float8",
            "fp8",
            "fp4",
            "flexattention",
            "flashattention",
            "sdpa",
            "zero",
            "fused",
        ];
        let mut words = self.words.iter().map(String::as_str);
        words.find(|word| {
            !degree(word)
                && !exactly.contains(word)
                && !parts.iter().any(|part| word.contains(part))
        })
    }

    /// Whether it names one of [`ADDED`], in whichever words.
    fn names(&self, technique: &str) -> bool {
        match technique {
            "packed" => self.any(&["pack"]),
            "chunked" => self.any(&["chunk", "linearcross"]),
            "activationcheckpointing" => self.recompute().is_some(),
            "optimizerinbackward" => self.any(&["backward", "bwd"]),
            "activationoffloading" => self.any(&["activationoffload"]),
            "8bitadamw" => self.any(&["8bit"]),
            other => self.any(&[other]),
        }
    }

    /// Whether any of the words contains one of these.
    pub(super) fn any(&self, parts: &[&str]) -> bool {
        (self.words.iter()).any(|word| parts.iter().any(|part| word.contains(part)))
    }

    /// The degree of a kind of parallelism: 1 where it is not named, and where it is named without a
    /// number as many as a node has, or are left.
    pub(super) fn degree(&self, kind: &str, left: u32) -> u32 {
        let named = self.words.iter().find_map(|word| {
            let bare = word.strip_prefix("async").unwrap_or(word);
            let rest = bare
                .strip_prefix(kind)
                .or_else(|| bare.strip_suffix(kind))?;
            if rest.is_empty() {
                Some(left.clamp(1, 8))
            } else {
                rest.parse().ok()
            }
        });
        named.unwrap_or(1).max(1)
    }

    /// The method of fine-tuning that is named.
    pub(super) fn method(&self) -> Option<&str> {
        ["qdora", "qlora", "dora", "lora"]
            .into_iter()
            .find(|name| self.words.iter().any(|word| word.as_str() == *name))
    }

    /// What is recomputed, where it is named.
    fn recompute(&self) -> Option<Recompute> {
        let exactly = |names: &[&str]| self.words.iter().any(|w| names.contains(&w.as_str()));
        if self.any(&["selective"]) || exactly(&["sac"]) {
            Some(Recompute::Selective)
        } else if self.any(&["checkpointing"]) || exactly(&["ac", "fullac"]) {
            Some(Recompute::Full)
        } else {
            None
        }
    }
}

/// What a trainer's recipes set of the choices that a row may leave open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Usual {
    pub(super) recompute: Recompute,
    pub(super) optimizer: Optimizer,
    pub(super) step_in_backward: bool,
    pub(super) loss: LossKernel,
}

/// What recipes set for a model, a method and a number of GPUs, with what the row lists.
pub(super) fn usual(
    (framework, gpus): (Framework, u32),
    architecture: &Architecture,
    method: &Method,
    techniques: &Techniques,
    compiled: bool,
) -> Usual {
    let parameters = architecture.parameters().0 as f64;
    let plain = Usual {
        recompute: Recompute::None,
        optimizer: Optimizer::AdamW,
        step_in_backward: false,
        loss: match framework {
            Framework::HuggingFace | Framework::Torchtune => LossKernel::Eager,
            // Compiled, the loss is one kernel.
            Framework::Torchtitan if !compiled => LossKernel::Eager,
            Framework::Torchtitan | Framework::PyTorch => LossKernel::Fused,
            Framework::Megatron => LossKernel::VocabularyParallel,
        },
    };
    let recipe = match framework {
        Framework::Torchtitan => Usual {
            recompute: if parameters < LARGE {
                Recompute::Selective
            } else {
                Recompute::Full
            },
            ..plain
        },
        Framework::Torchtune if !techniques.whole => {
            torchtune(architecture, parameters, method, gpus)
        }
        _ => plain,
    };
    Usual {
        recompute: techniques.recompute().unwrap_or(recipe.recompute),
        optimizer: match (techniques.any(&["8bit"]), techniques.any(&["paged"])) {
            (true, true) => Optimizer::PagedAdamW8bit,
            (true, false) => Optimizer::AdamW8bit,
            (false, true) => Optimizer::PagedAdamW,
            (false, false) => recipe.optimizer,
        },
        step_in_backward: recipe.step_in_backward || techniques.names("optimizerinbackward"),
        loss: if techniques.names("chunked") {
            LossKernel::Chunked
        } else {
            recipe.loss
        },
    }
}

fn torchtune(architecture: &Architecture, parameters: f64, method: &Method, gpus: u32) -> Usual {
    let full = *method == Method::Full;
    let alone = gpus == 1;
    let again = if full || alone {
        parameters >= SMALL
    } else {
        parameters >= LARGE_ADAPTED
    };
    // Of Llama 3's family: states of eight bits.
    let llama = architecture.model_type == "llama" && architecture.vocabulary > 100_000;
    Usual {
        recompute: if again {
            Recompute::Full
        } else {
            Recompute::None
        },
        optimizer: match (full && alone, llama) {
            (true, true) => Optimizer::PagedAdamW8bit,
            (true, false) => Optimizer::PagedAdamW,
            (false, _) => Optimizer::AdamW,
        },
        step_in_backward: full && alone,
        loss: LossKernel::Chunked,
    }
}

/// The recipe of numbers that a list of techniques names.
pub(super) fn named_recipe(techniques: &Techniques) -> Option<Recipe> {
    if techniques.any(&["mxfp8"]) {
        Some(Recipe::Fp8Block)
    } else if techniques.any(&["float8", "fp8"]) {
        Some(Recipe::Fp8)
    } else if techniques.any(&["nvfp4", "fp4"]) {
        Some(Recipe::Nvfp4)
    } else {
        None
    }
}
