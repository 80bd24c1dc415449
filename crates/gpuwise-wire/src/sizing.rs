//! Saved sizings: every answer to a question, with what was dropped.

use crate::{
    deployment::{DeploymentDocument, EstimateDocument},
    mirror::{Mirror, document, words},
    quantities::{ByteCount, Real},
    workload::WorkloadDocument,
};
use gpuwise_domain::{
    deployment::{Dropped, FrontPoint, LoadPoint, ModelSummary, Objective, Sizing, Test},
    reason::Reason,
};

document! {
    /// The answer to "which GPUs does this model need under this traffic?".
    SizingDocument = Sizing {
        /// The model as understood.
        model(model): ModelDocument,
        /// The traffic, the promise and the limits as understood.
        workload(workload): WorkloadDocument,
        /// What deployments are ranked by.
        objective(objective): ObjectiveWord,
        /// Feasible deployments, best first.
        deployments(deployments): Vec<DeploymentDocument>,
        /// Cost, latency and energy of every feasible candidate.
        points(points): Vec<FrontPointDocument>,
        /// Alternatives that are not there, with the reason.
        dropped(dropped): Vec<DroppedDocument>,
        /// Candidates that were looked at.
        considered(considered): u64,
        /// Load against latency of the best deployment.
        curve(curve): Vec<LoadPointDocument>,
        /// What was assumed, in sentences.
        notes(notes): Vec<String>,
    }
}

document! {
    /// A model in a few figures.
    ModelDocument = ModelSummary {
        /// Its name.
        name(name): String,
        /// Where its shape was read.
        origin(origin): String,
        /// `model_type` of its configuration.
        model_type(model_type): String,
        /// Parameters of everything that is loaded.
        parameters(parameters): u64,
        /// Parameters that one token uses.
        active_parameters(active_parameters): u64,
        /// Layers.
        layers(layers): u64,
        /// Weight format as published.
        published(published): String,
        /// Bytes of the published weights.
        weight_bytes(weight_bytes): ByteCount,
        /// Bytes that one token adds to the key-value cache at 16 bits.
        cache_bytes_per_token(cache_bytes_per_token): u64,
        /// Longest context, where stated.
        max_context_tokens(max_context): Option<u64>,
        /// What was assumed because its configuration does not say.
        assumptions(assumptions): Vec<String>,
    }
}

words! {
    /// What deployments are ranked by.
    ObjectiveWord = Objective {
        /// Money an hour.
        Cost = "cost",
        /// End-to-end latency.
        Latency = "latency",
        /// Joules per output token.
        Energy = "energy",
    }
}

document! {
    /// A feasible candidate on the cost–latency front.
    FrontPointDocument = FrontPoint {
        /// GPUs, layout and precision.
        label(label): String,
        /// The GPU.
        gpu(gpu): String,
        /// Currency units an hour; null where the price is unknown.
        per_hour(per_hour): Option<Real>,
        /// Time to first token at the asked percentile.
        ttft_seconds(ttft): Real,
        /// Time per output token at the asked percentile.
        tpot_seconds(tpot): Real,
        /// From request to last token.
        end_to_end_seconds(end_to_end): Real,
        /// Energy per output token.
        joules_per_output_token(joules_per_token): Option<Real>,
        /// Whether no other point is cheaper and faster.
        on_front(on_front): bool,
    }
}

document! {
    /// A point of the load–latency curve.
    LoadPointDocument = LoadPoint {
        /// Requests a second, or in flight where the load is closed.
        load(load): Real,
        /// Time to first token at the asked percentile.
        ttft_seconds(ttft): EstimateDocument,
        /// Time per output token at the asked percentile.
        tpot_seconds(tpot): EstimateDocument,
        /// Whether the promise is kept.
        kept(kept): bool,
    }
}

document! {
    /// A candidate that is not there.
    DroppedDocument = Dropped {
        /// GPUs, layout and precision.
        label(label): String,
        /// The GPU.
        gpu(gpu): String,
        /// Which test it failed.
        test(test): TestWord,
        /// By how much.
        shortfall(shortfall): ReasonText,
        /// What would cure it, where something would.
        cure(cure): Option<String>,
        /// Needed over had; the smaller the nearer.
        ratio(ratio): Real,
    }
}

/// Why a candidate is not there, in a clause.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub(crate) struct ReasonText(String);

impl Mirror for ReasonText {
    type Noun = Reason;

    fn of(noun: &Reason) -> Self {
        Self(noun.to_string())
    }

    fn noun(self) -> Reason {
        Reason::Words(self.0)
    }
}

words! {
    /// The tests that a candidate passes, in order.
    TestWord = Test {
        /// Engine and hardware support it; heads divide.
        Support = "support",
        /// Weights, overheads and one request fit.
        Memory = "memory",
        /// The rate can be served at all.
        Throughput = "throughput",
        /// Time to first token.
        Ttft = "ttft",
        /// Time per output token.
        Tpot = "tpot",
        /// End-to-end latency.
        EndToEnd = "end_to_end",
        /// Budget, power, provider, region, quality.
        Limits = "limits",
        /// It works, but others are better.
        Dominated = "dominated",
    }
}
