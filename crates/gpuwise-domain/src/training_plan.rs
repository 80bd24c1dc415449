//! The answer to "what does this training run need?": plans with layout, time, money, failures and
//! what they ask of storage and network. Data only.

use crate::{
    alignment::Alignment,
    answer::Answer,
    deployment::{ModelSummary, Rental},
    estimate::{Basis, Derivation, Estimate},
    limit::Limit,
    training::{Method, Optimizer, Recipe, StepCause, StepTime, TrainingMemory, TrainingSetup},
};
use alloc::{string::String, vec::Vec};
use gpuwise_units::{Bytes, Currency, Money};

/// What a run is asked to do, and within which limits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrainingJob {
    /// Tokens that are trained on in all; `None`: only a step is sized.
    pub tokens: Option<u64>,
    /// Seconds that the run may take, failures included.
    pub within: Option<f64>,
    /// What the run may cost.
    pub budget: Option<Money>,
    pub evaluation: Option<TrainingEvaluation>,
}

/// Evaluation during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainingEvaluation {
    /// Tokens of one evaluation.
    pub tokens: u64,
    /// Optimizer steps between evaluations.
    pub every: u64,
}

/// What is trained how, as asked.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingAsked {
    pub method: Method,
    /// What it learns from beyond given texts.
    pub alignment: Option<Alignment>,
    pub recipe: Recipe,
    /// What updates the weights.
    pub optimizer: Optimizer,
    /// Tokens of a sequence.
    pub sequence: u64,
    /// Sequences of an optimizer step; `None`: the usual.
    pub global_batch: Option<u64>,
}

/// How often GPUs stop a job, and how fast state is written and a job started again.
#[derive(Debug, Clone, PartialEq)]
pub struct Reliability {
    /// GPU-hours for each stop of a job.
    pub gpu_hours_per_stop: Estimate,
    /// Seconds from a stop until steps run again, reading the checkpoint excluded.
    pub restart_seconds: Estimate,
    /// Bytes a second that one GPU's share of storage takes.
    pub storage_per_gpu: Estimate,
    /// Where each of the three comes from, in this order.
    pub sources: [String; 3],
}

/// The answer to a training request: ways to run it, one for each kind of cluster.
pub type TrainingSizing = Answer<TrainingQuestion, TrainingPlan>;

/// What is to be trained, as understood.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingQuestion {
    pub model: ModelSummary,
    /// What is trained how.
    pub asked: TrainingAsked,
    pub job: TrainingJob,
}

/// One way to run the job.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingPlan {
    /// Catalogue name of the GPU.
    pub gpu: String,
    pub gpus: u64,
    /// GPUs of one host.
    pub gpus_per_host: u32,
    /// GPUs that reach one another over the fast link.
    pub domain: u32,
    /// Everything that decides memory and time.
    pub setup: TrainingSetup,
    pub memory: TrainingMemory,
    /// Memory that a program sees on one GPU.
    pub visible: Bytes,
    /// Memory of it that a job may fill.
    pub usable: Bytes,
    /// Time of a step.
    pub step: StepTime,
    /// The whole run; `None` where the job does not say how many tokens.
    pub run: Option<TrainingRun>,
    pub checkpoints: CheckpointPlan,
    /// What network and storage must give.
    pub needs: TrainingNeeds,
    /// Where it is rented; `None` where no offer has this GPU.
    pub rental: Option<Rental>,
    /// On what the figures rest.
    pub basis: Basis,
    /// What takes the largest share of a step.
    pub bottleneck: Option<Limit<StepCause>>,
    /// How its figures came about; filled in for the plan that is looked at.
    pub derivations: Vec<Derivation>,
}

impl TrainingPlan {
    /// Whether the range of its memory reaches beyond what a job may fill: it may run out.
    pub fn tight(&self) -> bool {
        let fullest = self.memory.fullest();
        fullest.is_some_and(|rank| rank.reserved.high > self.usable.as_f64())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct TrainingRun {
    pub steps: u64,
    /// Seconds of steps alone.
    pub stepping: Estimate,
    /// Seconds of evaluations.
    pub evaluating: f64,
    /// Seconds that checkpoints hold steps up.
    pub saving: Estimate,
    /// Seconds lost to failures: work done again, restarts.
    pub lost: Estimate,
    /// All of it, in seconds.
    pub total: Estimate,
    /// Stops expected during the run.
    pub failures: Estimate,
    /// What it costs; unknown where the price is.
    pub cost: Option<MoneyRange>,
    /// Joules of all GPUs, hosts excluded; unknown where the power limit is.
    pub energy: Option<Estimate>,
}

/// An amount of money with its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MoneyRange {
    pub value: Money,
    pub low: Money,
    /// The upper end.
    pub high: Money,
}

impl MoneyRange {
    pub const fn currency(&self) -> Currency {
        self.value.currency
    }
}

/// Checkpoints of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointPlan {
    /// Bytes of one.
    pub bytes: Bytes,
    /// Seconds that writing one takes.
    pub write: Estimate,
    /// Seconds between the ends of two, where least time is lost.
    pub interval: Estimate,
    /// The same in optimizer steps, at least 1.
    pub steps: u64,
    /// Mean seconds between two stops of this job.
    pub mtbf: Estimate,
    /// Share of the run that goes to saving, redoing and restarting (0 to 1).
    pub lost_share: Estimate,
}

/// What network and storage must give so that they do not hold steps up.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrainingNeeds {
    /// By kind of traffic.
    pub traffic: Vec<TrafficNeed>,
    /// Network of one GPU between hosts, as known, in bits a second.
    pub network_has: Option<f64>,
    /// Bytes of storage: checkpoints that are kept, and data.
    pub capacity: Option<Bytes>,
    /// Bytes a second that reading data takes.
    pub data: Option<f64>,
    /// Bytes a second with which checkpoints are written.
    pub checkpoint_write: f64,
}

/// Traffic of one kind of parallelism.
#[derive(Debug, Clone, PartialEq)]
pub struct TrafficNeed {
    pub kind: TrafficKind,
    /// Bytes that one GPU sends in one step.
    pub bytes: f64,
    /// Seconds of a step behind which they can hide.
    pub hidden_behind: f64,
    /// Bits a second of one GPU that hide them.
    pub bits_per_second: f64,
    /// Whether it crosses hosts.
    pub across_hosts: bool,
}

/// Kinds of traffic between GPUs of a training job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrafficKind {
    Tensor,
    /// Keys and values between parts of a sequence.
    Context,
    /// Tokens to experts and back.
    Expert,
    Pipeline,
    /// Gradients and weights between copies.
    Data,
}

impl TrafficKind {
    /// The words for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensor => "tensor parallel",
            Self::Context => "context parallel",
            Self::Expert => "expert parallel",
            Self::Pipeline => "pipeline",
            Self::Data => "data parallel",
        }
    }
}
