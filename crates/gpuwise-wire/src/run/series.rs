//! What happened over time.

use crate::{
    mirror::document,
    quantities::{NanosecondCount, Real},
};
use gpuwise_domain::run::{Bucket, Series};

document! {
    /// A run over time, in stretches of equal length.
    SeriesDocument = Series {
        /// Where the first stretch begins.
        start_nanoseconds(start): NanosecondCount,
        /// How long each is.
        width_nanoseconds(width): NanosecondCount,
        /// The stretches.
        buckets(buckets): Vec<BucketDocument>,
    }
}

document! {
    /// A stretch of time.
    BucketDocument = Bucket {
        /// Requests that were due in it.
        offered(offered): u64,
        /// Requests that were served whole in it.
        completed(completed): u64,
        /// Requests that ended in it unserved.
        unserved(unserved): u64,
        /// Output tokens in it.
        output_tokens(output_tokens): Option<Real>,
        /// Concurrent requests, on average.
        concurrent(concurrent): Real,
        /// Sequences in batches, on average.
        running(running): Option<Real>,
        /// Requests that waited, on average.
        waiting(waiting): Option<Real>,
        /// Share of key-value cache blocks in use (0 to 1), on average.
        cache_use(cache_use): Option<Real>,
        /// Median time to first token.
        ttft_p50_seconds(ttft_p50): Option<Real>,
        /// 95th percentile of the same.
        ttft_p95_seconds(ttft_p95): Option<Real>,
    }
}
