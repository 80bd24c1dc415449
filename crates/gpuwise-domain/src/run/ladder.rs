//! Load against latency: runs at rising loads, and where the SLO breaks.

use alloc::{string::String, vec::Vec};
use gpuwise_units::Percentile;

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum LoadUnit:
        name
    {
        RequestsPerSecond = "requests/s",
        Concurrent = "concurrent requests",
    }
}

/// Runs at rising loads.
#[derive(Debug, Clone, PartialEq)]
pub struct Ladder {
    pub unit: LoadUnit,
    /// At which percentile times to first token are; `None` is the mean.
    pub ttft_at: Option<Percentile>,
    /// At which percentile times per output token are.
    pub tpot_at: Option<Percentile>,
    /// At which percentile end-to-end latencies are.
    pub end_to_end_at: Option<Percentile>,
    pub rungs: Vec<Rung>,
    /// Loads that were run under the first seed in search of the knee, rising.
    pub near: Vec<Rung>,
    /// The load that is expected, where one is.
    pub expected: Option<f64>,
    /// Where it breaks; `None` where no SLO was given, or no load keeps it.
    pub knee: Option<Knee>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Rung {
    /// What it is, where it is more than its load: `one replica lost`.
    pub name: Option<String>,
    /// The load as it was meant: the nominal one.
    pub load: f64,
    /// Requests a second that were due in the steady window, as chance drew them; `None` where a
    /// number was kept in flight, or it is not known.
    pub delivered: Option<f64>,
    /// Time to first token, in seconds; `None` where nothing was served.
    pub ttft: Option<f64>,
    /// Time per output token, in seconds.
    pub tpot: Option<f64>,
    /// End to end, in seconds.
    pub end_to_end: Option<f64>,
    /// Requests a second that met every target, of those due in the steady window.
    pub goodput: Option<f64>,
    /// Output tokens a second, over the steady window.
    pub output_tokens: Option<f64>,
    /// Concurrent requests on average.
    pub concurrent: Option<f64>,
    /// Share of requests that were not served (0 to 1).
    pub unserved: f64,
    /// Whether the SLO is kept; `None` where no SLO was given.
    pub kept: Option<bool>,
    /// Whether more came than was served; `None` where it cannot be told.
    pub saturated: Option<bool>,
}

/// The largest load that keeps the SLO.
#[derive(Debug, Clone, PartialEq)]
pub struct Knee {
    /// The load, as it was delivered where requests come at a rate.
    pub load: f64,
    /// The nominal load of which chance drew it; `None` where they are the same.
    pub nominal: Option<f64>,
    /// Lower end of its range.
    pub low: f64,
    /// Upper end of its range.
    pub high: f64,
    /// Runs with seeds of their own on which the range rests; 1 where it is the next load that fails.
    pub seeds: u64,
    /// What limits it beyond, in a clause: `TTFT p95, as the queue of prefills grows`.
    pub limited_by: String,
}
