//! The workload as it was understood.

use crate::{
    mirror::{Mirror, document, variants},
    quantities::{
        HourlyPriceText, RateNumber, Real, SecondsNumber, Statistic, TokenCount, WattsNumber,
    },
};
use gpuwise_domain::workload::{
    LengthDistribution, Lengths, Limits, Slo, Target, Traffic, Workload,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

document! {
    /// The traffic, the SLO and the limits of a plan.
    WorkloadDocument = Workload {
        /// How requests come.
        traffic(traffic): TrafficDocument,
        /// How long they are.
        lengths(lengths): LengthsDocument,
        /// Share of prompt tokens that the prefix cache holds (0 to 1).
        prefix_hit(prefix_hit): Real,
        /// The SLO.
        slo(slo): SloDocument,
        /// What the plan may use.
        limits(limits): LimitsDocument,
    }
}

variants! {
    /// How requests come.
    #[serde(tag = "kind")]
    TrafficDocument = Traffic {
        /// Poisson arrivals at a mean rate.
        Open {
            /// Requests a second.
            requests_per_second(rate): RateNumber,
            /// Squared coefficient of variation of the gaps between requests.
            burstiness(burstiness): Real,
        }
        /// A fixed number of concurrent requests.
        Closed {
            /// Concurrent requests.
            concurrency(concurrency): u64,
        }
    }
}

document! {
    /// Lengths of requests in tokens.
    LengthsDocument = Lengths {
        /// Input (ISL).
        input(input): LengthDocument,
        /// Output (OSL).
        output(output): LengthDocument,
    }
}

document! {
    /// A distribution of lengths.
    LengthDocument = LengthDistribution {
        /// Mean.
        mean_tokens(mean): Real,
        /// Squared coefficient of variation (0: all equal).
        variation(variation): Real,
        /// The longest.
        longest_tokens(longest): TokenCount,
    }
}

document! {
    /// A service-level objective: every target must hold.
    SloDocument = Slo {
        /// Time to first token.
        ttft(ttft): Option<TargetDocument>,
        /// Time per output token after the first.
        tpot(tpot): Option<TargetDocument>,
        /// From request to last token.
        end_to_end(end_to_end): Option<TargetDocument>,
        /// Output tokens a second in all, at least.
        output_tokens_per_second(throughput): Option<RateNumber>,
    }
}

document! {
    /// A bound on a latency.
    TargetDocument = Target {
        /// At which percentile of requests, or the mean.
        at(percentile): Statistic,
        /// At most this.
        at_most_seconds(at_most): SecondsNumber,
    }
}

document! {
    /// What a plan may use.
    LimitsDocument = Limits {
        /// Only these GPUs; empty: any.
        gpus(gpus): Vec<String>,
        /// Only these providers; empty: any.
        providers(providers): Vec<String>,
        /// Only regions that begin with one of these; empty: any.
        regions(regions): Vec<String>,
        /// At most this an hour.
        budget_per_hour(budget): Option<HourlyPriceText>,
        /// At most this for all GPUs.
        power_watts(power): Option<WattsNumber>,
        /// Replicas beyond what the load needs.
        spare_replicas(spare_replicas): u32,
        /// Quality that may be lost, in percent.
        quality_loss_percent(quality_loss): Option<Real>,
        /// Hosts already owned.
        owned(owned): Vec<OwnedDocument>,
    }
}

/// A host already owned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OwnedDocument {
    /// Its GPU.
    gpu: String,
    /// How many it has.
    gpus: u32,
}

impl Mirror for OwnedDocument {
    type Noun = (String, u32);

    fn of((gpu, gpus): &(String, u32)) -> Self {
        Self {
            gpu: gpu.clone(),
            gpus: *gpus,
        }
    }

    fn noun(self) -> (String, u32) {
        (self.gpu, self.gpus)
    }
}
