//! Distributions.

use crate::{
    mirror::{document, variants, words},
    quantities::{PercentileText, Real},
};
use gpuwise_domain::run::{Distribution, Method, Metric, Quantile};

words! {
    /// What is measured of requests.
    MetricWord = Metric {
        /// Time to first token.
        Ttft = "ttft",
        /// Time per output token after the first.
        Tpot = "tpot",
        /// Gaps between tokens, pooled.
        InterToken = "inter_token",
        /// From when it was due to its last token.
        EndToEnd = "end_to_end",
        /// End to end divided by the output tokens.
        Normalised = "normalised",
        /// From when it was sent until it was in a batch.
        Queueing = "queueing",
        /// Tokens of the prompt.
        Input = "input",
        /// Tokens generated.
        Output = "output",
        /// From when it was due until the client sent it.
        ClientDelay = "client_delay",
    }
}

variants! {
    /// How percentiles were found.
    #[serde(tag = "kind")]
    MethodDocument = Method {
        /// From every value, by linear interpolation.
        Exact {}
        /// From a histogram.
        Histogram {
            /// Significant decimal digits of its values.
            digits(digits): u32,
        }
    }
}

document! {
    /// A value that a share of all does not exceed.
    QuantileDocument = Quantile {
        /// Which share.
        at(at): PercentileText,
        /// The value.
        value(value): Real,
    }
}

document! {
    /// Many values in a few numbers.
    DistributionDocument = Distribution {
        /// How many.
        count(count): u64,
        /// Mean.
        mean(mean): Real,
        /// The lowest.
        minimum(minimum): Real,
        /// The highest.
        maximum(maximum): Real,
        /// Standard deviation.
        standard_deviation(deviation): Real,
        /// At rising percentiles.
        percentiles(quantiles): Vec<QuantileDocument>,
        /// How they were found.
        method(method): MethodDocument,
    }
}
