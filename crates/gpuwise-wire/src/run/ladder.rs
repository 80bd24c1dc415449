//! Load against latency.

use crate::{
    mirror::{document, words},
    quantities::{Real, Statistic},
};
use gpuwise_domain::run::{Knee, Ladder, LoadUnit, Rung};

words! {
    /// In what loads are counted.
    LoadUnitWord = LoadUnit {
        RequestsPerSecond = "requests_per_second",
        Concurrent = "concurrent",
    }
}

document! {
    /// Runs at rising loads.
    LadderDocument = Ladder {
        /// In what loads are counted.
        unit(unit): LoadUnitWord,
        /// At which percentile times to first token are, or the mean.
        ttft_at(ttft_at): Statistic,
        /// At which percentile times per output token are.
        tpot_at(tpot_at): Statistic,
        /// At which percentile end-to-end latencies are.
        end_to_end_at(end_to_end_at): Statistic,
        /// The loads, rising.
        rungs(rungs): Vec<RungDocument>,
        /// Loads that were run in search of the knee, rising.
        #[serde(default)]
        near(near): Vec<RungDocument>,
        /// The load that is expected.
        expected(expected): Option<Real>,
        /// Where it breaks.
        knee(knee): Option<KneeDocument>,
    }
}

document! {
    /// One load.
    RungDocument = Rung {
        /// What it is, where it is more than its load.
        name(name): Option<String>,
        /// The nominal load.
        load(load): Real,
        /// Requests a second that were due in the steady window.
        delivered_per_second(delivered): Option<Real>,
        /// Time to first token.
        ttft_seconds(ttft): Option<Real>,
        /// Time per output token.
        tpot_seconds(tpot): Option<Real>,
        /// End to end.
        end_to_end_seconds(end_to_end): Option<Real>,
        /// Requests a second that met every target, of those due in the steady window.
        goodput_per_second(goodput): Option<Real>,
        /// Output tokens a second.
        output_tokens_per_second(output_tokens): Option<Real>,
        /// Concurrent requests on average.
        mean_concurrent(concurrent): Option<Real>,
        /// Share of requests that were not served (0 to 1).
        unserved_share(unserved): Real,
        /// Whether the SLO is kept.
        kept(kept): Option<bool>,
        /// Whether more came than was served.
        saturated(saturated): Option<bool>,
    }
}

document! {
    /// The largest load that keeps the SLO.
    KneeDocument = Knee {
        /// The load, as it was delivered where requests come at a rate.
        load(load): Real,
        /// The nominal load of which chance drew it; null where they are the same.
        nominal(nominal): Option<Real>,
        /// Lower end of its range.
        low(low): Real,
        /// Upper end of its range.
        high(high): Real,
        /// Seeds on which the range rests.
        seeds(seeds): u64,
        /// What limits it beyond, in a clause.
        limited_by(limited_by): String,
    }
}
