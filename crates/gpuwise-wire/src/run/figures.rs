//! Distributions.

use crate::{
    mirror::{document, variants, words},
    quantities::{PercentileText, Real},
};
use gpuwise_domain::run::{Distribution, Method, Metric, Quantile};

words! {
    /// What is measured of requests.
    MetricWord = Metric {
        Ttft = "ttft",
        Tpot = "tpot",
        InterToken = "inter_token",
        EndToEnd = "end_to_end",
        Normalised = "normalised",
        Queueing = "queueing",
        Input = "input",
        Output = "output",
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
