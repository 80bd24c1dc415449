//! The sizing part of a training recipe in the form of a tool: batches, precision, sharding,
//! recomputation, adapters, degrees of parallelism, optimizer. Data sets, learning rates and paths
//! stay the user's.
//!
//! Keys and flags were read in the tools' own sources, each named with its release at the head of
//! its file here; what a tool cannot express is an error, and what it takes from elsewhere is a
//! comment.

mod accelerate;
mod axolotl;
mod deepspeed;
mod megatron;
mod torchtune;
mod trl;

use gpuwise_domain::{
    deployment::ModelSummary,
    training::{Framework, Method, Optimizer, TrainingSetup},
    training_plan::TrainingPlan,
};

gpuwise_units::named! {
    /// Tools whose recipes can be written.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum RecipeForm: name {
        /// torchtune: YAML over a recipe's own.
        Torchtune = "torchtune",
        Axolotl = "axolotl",
        /// Megatron-LM: arguments of a training script.
        Megatron = "megatron",
        /// Hugging Face accelerate: the configuration of `accelerate launch`.
        Accelerate = "accelerate",
        /// DeepSpeed: its configuration in JSON.
        DeepSpeed = "deepspeed",
        /// TRL: the configuration of `trl sft`, `trl dpo` or `trl grpo`.
        Trl = "trl",
    }
}

impl RecipeForm {
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }

    /// The framework whose memory and time its recipes have.
    pub const fn framework(self) -> Framework {
        match self {
            Self::Torchtune => Framework::PyTorch,
            Self::Axolotl | Self::Accelerate | Self::DeepSpeed | Self::Trl => {
                Framework::HuggingFace
            }
            Self::Megatron => Framework::Megatron,
        }
    }
}

/// A setup that a tool has no words for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{tool} has no {what}; {instead}")]
pub struct EmitError {
    pub tool: &'static str,
    /// What it has not.
    pub what: String,
    pub instead: String,
}

fn cannot(tool: &'static str, what: impl Into<String>, instead: impl Into<String>) -> EmitError {
    EmitError {
        tool,
        what: what.into(),
        instead: instead.into(),
    }
}

/// The sizing part of a plan's recipe for a model.
///
/// # Errors
/// When the tool cannot express the setup.
pub fn recipe(
    form: RecipeForm,
    plan: &TrainingPlan,
    model: &ModelSummary,
) -> Result<String, EmitError> {
    match form {
        RecipeForm::Torchtune => torchtune::recipe(plan),
        RecipeForm::Axolotl => axolotl::recipe(plan),
        RecipeForm::Megatron => megatron::recipe(plan, model.layers),
        RecipeForm::Accelerate => accelerate::recipe(plan),
        RecipeForm::DeepSpeed => deepspeed::recipe(plan),
        RecipeForm::Trl => trl::recipe(plan, &model.name),
    }
}

/// Given texts alone: recipes of DPO and GRPO are those of TRL here.
fn only_texts(tool: &'static str, setup: &TrainingSetup) -> Result<(), EmitError> {
    setup.alignment.map_or(Ok(()), |alignment| {
        Err(cannot(
            tool,
            format!("recipe of {} that is written here", alignment.name()),
            "--emit trl has, and --emit accelerate or deepspeed have its launch",
        ))
    })
}

/// transformers' name of an optimizer (`OptimizerNames` of 5.0.0, which has no Muon).
const fn optimizer_name(optimizer: Optimizer) -> Option<&'static str> {
    match optimizer {
        Optimizer::AdamW => Some("adamw_torch_fused"),
        Optimizer::AdamW8bit => Some("adamw_bnb_8bit"),
        Optimizer::PagedAdamW => Some("paged_adamw_32bit"),
        Optimizer::PagedAdamW8bit => Some("paged_adamw_8bit"),
        Optimizer::Adafactor => Some("adafactor"),
        Optimizer::Muon => None,
        Optimizer::Lion => Some("lion_32bit"),
        Optimizer::Sgd => Some("sgd"),
    }
}

/// Hosts, and processes that train on each.
fn hosts(plan: &TrainingPlan) -> (u64, u64) {
    let gpus = plan.setup.layout.gpus();
    let each = u64::from(plan.gpus_per_host.max(1)).min(gpus);
    (gpus.div_ceil(each.max(1)), each)
}

/// Only data-parallel ranks: what tools other than Megatron-LM are written for here.
fn only_data(tool: &'static str, setup: &TrainingSetup) -> Result<(), EmitError> {
    let layout = &setup.layout;
    if layout.is_data_alone() {
        return Ok(());
    }
    Err(cannot(
        tool,
        format!("{layout} as it was sized here"),
        "--emit megatron has, or size data parallel ranks alone with --framework pytorch",
    ))
}

#[derive(Debug, Default)]
struct Yaml(String);

impl Yaml {
    fn comment(&mut self, text: &str) {
        for line in text.lines() {
            self.0 += "# ";
            self.0 += line;
            self.0.push('\n');
        }
    }

    /// `key: value` of a value that is a word, a number or flow YAML already.
    fn plain(&mut self, depth: usize, key: &str, value: impl std::fmt::Display) {
        use std::fmt::Write as _;
        let _ = writeln!(self.0, "{}{key}: {value}", "  ".repeat(depth));
    }

    fn open(&mut self, depth: usize, key: &str) {
        self.0 += &"  ".repeat(depth);
        self.0 += key;
        self.0 += ":\n";
    }

    /// A list of texts in one line, quoted as JSON, which is YAML.
    fn list(&mut self, depth: usize, key: &str, items: &[String]) {
        let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
        self.plain(depth, key, format!("[{}]", items.join(", ")));
    }
}

/// A text in quotes, as JSON and YAML have it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn heading(yaml: &mut Yaml, plan: &TrainingPlan, checked: &str) {
    yaml.comment(&format!(
        "The sizing part for {} × {}: {}; keys as of {checked}.",
        plan.gpus,
        plan.gpu,
        plan.setup.placement_words()
    ));
}

/// Rank of an adapter, where its method has one.
fn rank(method: &Method) -> Option<u32> {
    match method {
        Method::Full => None,
        Method::Adapter(adapter) => adapter.rank,
    }
}
