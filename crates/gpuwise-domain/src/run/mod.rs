//! What a run came to: simulated or measured, the same report.
//!
//! Latencies are in seconds and lengths in tokens. Only requests that were served whole and were due
//! inside of the steady window are in distributions; every other one is counted by its outcome.

mod comparison;
mod distribution;
mod ladder;
mod series;

pub use comparison::{Comparison, ComparisonRow, ComparisonUnit};
pub use distribution::{Distribution, Method, Metric, MetricUnit, Quantile};
pub use ladder::{Knee, Ladder, LoadUnit, Rung};
pub use series::{Bucket, Moment, Series, TimelineEvent};

use crate::{request::Outcome, workload::Slo};
use alloc::{string::String, vec::Vec};
use gpuwise_units::{Joules, Money, Nanoseconds, PerSecond, Percentile, Seconds};

/// One or more runs of one purpose: a single run, or the rungs of a ladder of loads.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunSet {
    /// The runs, in the order in which they were made.
    pub reports: Vec<RunReport>,
    /// The load–latency curve, where loads were climbed.
    pub ladder: Option<Ladder>,
}

/// A run under one load.
#[derive(Debug, Clone, PartialEq)]
pub struct RunReport {
    pub subject: Subject,
    pub origin: Origin,
    pub repeat: Repeat,
    pub traffic: RunTraffic,
    /// From when to when, and what of it counts.
    pub span: Span,
    pub attainment: Attainment,
    /// Throughput over the whole span, the drain included.
    pub whole: Throughput,
    /// Throughput over the steady window.
    pub steady: Throughput,
    /// Why requests were not served, the most frequent first.
    pub reasons: Vec<Reason>,
    /// All requests first, then by tenant, then by stage; a way to tell apart that has one group
    /// only is not there.
    pub groups: Vec<Group>,
    pub tokens: TokenCounts,
    /// What the engine did, as far as it is known.
    pub engine: EngineUse,
    pub spent: Spent,
    /// What happened over time; `None` where it was not kept.
    pub series: Option<Series>,
    /// Whether more came than was served.
    pub saturation: Option<Saturation>,
    /// What limits, in a clause; `None` where it is not known.
    pub limited_by: Option<String>,
    /// What a reader must know, in sentences.
    pub notes: Vec<String>,
}

impl RunReport {
    pub fn all(&self) -> Option<&Group> {
        self.groups.iter().find(|group| group.part == Part::All)
    }

    /// The distribution of a metric over all requests.
    pub fn distribution(&self, metric: Metric) -> Option<&Distribution> {
        self.all()?.distribution(metric)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subject {
    pub model: String,
    /// The deployment in words, `2 × H100 SXM5 80GB, TP2, fp8 weights`.
    pub deployment: Option<String>,
    /// The engine by its name, `vllm`.
    pub engine: Option<String>,
    pub release: Option<String>,
    /// The GPU by its catalogue name.
    pub gpu: Option<String>,
    pub gpus: Option<u64>,
    pub replicas: Option<u64>,
    /// The address of a measured server, without user, key and query.
    pub server: Option<String>,
}

/// Where the figures come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Computed; equal input gives equal figures.
    Simulated,
    Measured {
        /// When it began, in RFC 3339.
        started: String,
        /// The machine of the client in words, where it was asked for.
        client: Option<String>,
    },
}

/// What is needed to do a run again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repeat {
    pub version: String,
    /// Its arguments, one by one, without secrets.
    pub arguments: Vec<String>,
    pub seed: u64,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunTraffic {
    /// In words: `Poisson, 8 requests/s` or `azure_conv.csv, 2 × as fast`.
    pub words: String,
    /// Requests a second as they were meant to come: the nominal rate; `None` where a fixed number was
    /// in flight, or no one rate is meant.
    pub offered: Option<PerSecond>,
    /// Requests a second that were due in the steady window, as chance drew them; `None` where a fixed
    /// number was in flight, or the window is empty.
    pub delivered: Option<PerSecond>,
    /// Concurrent requests at most; `None` where nothing was held back.
    pub concurrent: Option<u64>,
    /// Requests that were due.
    pub requests: u64,
    /// Mean tokens of a prompt; `None` without requests.
    pub input: Option<f64>,
    /// Mean tokens generated; `None` without requests.
    pub output: Option<f64>,
}

/// From when to when, by one clock that starts with the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// When the first request was due.
    pub first_due: Nanoseconds,
    /// When the last request was due: what follows is the drain.
    pub last_due: Nanoseconds,
    /// When the last request ended.
    pub end: Nanoseconds,
    /// Where the steady window begins: what is before is warm-up.
    pub steady_from: Nanoseconds,
    /// Where the steady window ends.
    pub steady_to: Nanoseconds,
}

impl Span {
    /// From the first request to the end of the last.
    pub fn whole(&self) -> Seconds {
        Nanoseconds(self.end.0.saturating_sub(self.first_due.0)).seconds()
    }

    pub fn steady(&self) -> Seconds {
        Nanoseconds(self.steady_to.0.saturating_sub(self.steady_from.0)).seconds()
    }

    /// What is left out at the beginning.
    pub fn warm_up(&self) -> Seconds {
        Nanoseconds(self.steady_from.0.saturating_sub(self.first_due.0)).seconds()
    }

    /// What is left out at the end.
    pub fn drain(&self) -> Seconds {
        Nanoseconds(self.end.0.saturating_sub(self.steady_to.0)).seconds()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcomes {
    /// All of their tokens came.
    pub completed: u64,
    /// The service was full.
    pub rejected: u64,
    /// They can never be served.
    pub impossible: u64,
    /// The client gave up waiting.
    pub timed_out: u64,
    /// Errors, or broken off.
    pub failed: u64,
    /// Still queued or running when the run ended.
    pub unfinished: u64,
}

impl Outcomes {
    pub fn of(&self, outcome: Outcome) -> u64 {
        match outcome {
            Outcome::Completed => self.completed,
            Outcome::Rejected => self.rejected,
            Outcome::Impossible => self.impossible,
            Outcome::TimedOut => self.timed_out,
            Outcome::Failed => self.failed,
            Outcome::Unfinished => self.unfinished,
        }
    }

    pub fn add(&mut self, outcome: Outcome, more: u64) {
        let count = match outcome {
            Outcome::Completed => &mut self.completed,
            Outcome::Rejected => &mut self.rejected,
            Outcome::Impossible => &mut self.impossible,
            Outcome::TimedOut => &mut self.timed_out,
            Outcome::Failed => &mut self.failed,
            Outcome::Unfinished => &mut self.unfinished,
        };
        *count = count.saturating_add(more);
    }

    pub fn total(&self) -> u64 {
        Outcome::ALL
            .iter()
            .fold(0, |sum, outcome| sum + self.of(*outcome))
    }

    /// Those that ended without being served whole.
    pub fn unserved(&self) -> u64 {
        self.rejected + self.impossible + self.timed_out + self.failed
    }
}

/// Why requests were not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    pub outcome: Outcome,
    /// The reason, equal for all of them.
    pub text: String,
    pub count: u64,
    /// The first of them, in words: its number, and what the service said.
    pub first: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    All,
    /// Of one tenant, by its name or number.
    Tenant(String),
    /// Of one stage of a load test, by its name or number.
    Stage(String),
}

/// Requests that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub part: Part,
    /// By outcome, over the whole run.
    pub outcomes: Outcomes,
    /// Distributions of those served whole and due in the steady window; a metric without values is
    /// not there.
    pub distributions: Vec<(Metric, Distribution)>,
    /// Share of them that met every target (0 to 1); `None` where no SLO was given.
    pub attained: Option<f64>,
}

impl Group {
    pub fn distribution(&self, metric: Metric) -> Option<&Distribution> {
        let found = self
            .distributions
            .iter()
            .find(|(other, _)| *other == metric);
        found.map(|(_, distribution)| distribution)
    }
}

/// The SLO, and whether it was kept, over requests due in the steady window.
///
/// A request that was not served misses every target: at a percentile it counts as slower than
/// every other. One that was unfinished when the run ended misses a target that it had missed by
/// then, and is not judged otherwise.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attainment {
    pub slo: Slo,
    pub verdicts: Vec<Verdict>,
    /// Whether all are kept; `None` where no SLO was given or nothing can be judged.
    pub kept: Option<bool>,
    /// Requests that were judged.
    pub judged: u64,
    /// Share of them that met every target (0 to 1); `None` where no SLO was given or judged.
    pub share: Option<f64>,
    /// Goodput: requests a second that met every target; without an SLO those served. It is a part
    /// of [`RunReport::steady`]'s throughput, of the same requests over the same time.
    pub goodput: Option<PerSecond>,
}

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum SloMetric:
        name
    {
        /// Time to first token, in seconds.
        Ttft = "TTFT",
        /// Time per output token, in seconds.
        Tpot = "TPOT",
        /// From when it was due to its last token, in seconds.
        EndToEnd = "end to end",
        /// Output tokens a second in all, at least.
        Throughput = "output tokens/s",
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    pub about: SloMetric,
    /// At which percentile; `None` is the mean, or the whole.
    pub at: Option<Percentile>,
    /// The bound: seconds at most, or tokens a second at least.
    pub bound: f64,
    /// What was found; `None` where nothing was served, or so much was not that the percentile
    /// falls among it.
    pub found: Option<f64>,
    /// Share of the judged requests within the bound (0 to 1); `None` for a throughput.
    pub attained: Option<f64>,
    /// Whether it is kept; `None` where nothing was judged.
    pub kept: Option<bool>,
}

/// What went through; `None` where the time is zero.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Throughput {
    /// Requests served whole a second. Over the steady window: of those due in it, a second of the time
    /// in which they were due, or in which they ended where that is longer.
    pub requests: Option<PerSecond>,
    /// Prompt tokens of those a second.
    pub input_tokens: Option<PerSecond>,
    /// Output tokens a second, those of unserved requests included.
    pub output_tokens: Option<PerSecond>,
    /// Concurrent requests on average.
    pub concurrent: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenCounts {
    /// Prompt tokens that were meant to be sent; `None` where nobody meant a number.
    pub requested_input: Option<u64>,
    /// Prompt tokens that the server says it had.
    pub served_input: Option<u64>,
    pub requested_output: Option<u64>,
    /// Output tokens that the server says it made.
    pub served_output: Option<u64>,
    /// Output tokens of the same requests counted by chunks; `None` where nobody counted.
    pub chunks: Option<u64>,
    /// Requests whose server said no number, so that chunks were counted as tokens.
    pub uncounted: u64,
    /// Requests of which neither a number nor chunks are known: how many tokens were generated is not
    /// known then.
    pub unknown: u64,
}

/// A value that changes over time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gauge {
    /// Its mean over time.
    pub mean: f64,
    pub highest: f64,
}

/// What the engine did; `None` is not known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EngineUse {
    /// Sequences in a batch, over the time that steps run.
    pub batch: Option<Gauge>,
    /// Requests that wait for a place, a replica.
    pub waiting: Option<Gauge>,
    /// Share of key-value cache blocks in use (0 to 1).
    pub cache_use: Option<Gauge>,
    /// Share of prompt tokens found in the prefix cache (0 to 1).
    pub cache_hit: Option<f64>,
    /// Share of the time in which steps run (0 to 1), mean of the replicas.
    pub busy: Option<f64>,
    pub steps: Option<u64>,
    /// Preemptions: a request lost its cache and was recomputed.
    pub preemptions: Option<u64>,
    /// Prompt tokens computed, recomputation included.
    pub prefill_tokens: Option<u64>,
    pub decode_tokens: Option<u64>,
}

/// What a run took, over its whole span; `None` is not known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spent {
    /// Seconds of GPUs, busy or not.
    pub gpu_seconds: Option<f64>,
    pub energy: Option<Joules>,
    pub money: Option<Money>,
    /// Input and output tokens of requests served whole: what the rest is divided by.
    pub tokens: u64,
}

impl Spent {
    /// An amount for each million of input and output tokens.
    pub fn per_million(&self, amount: f64) -> Option<f64> {
        (self.tokens > 0).then(|| amount * 1e6 / self.tokens as f64)
    }
}

/// How a value changes, by a line through it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    /// Change a second.
    pub per_second: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end of its 95 % interval.
    pub high: f64,
}

impl Slope {
    /// Whether it rises beyond chance.
    pub fn rises(&self) -> bool {
        self.low > 0.0
    }
}

/// Signs that more came than was served, over the steady window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saturation {
    /// Of the concurrent requests.
    pub concurrent: Slope,
    /// Of the time to first token, in seconds a second.
    pub ttft: Slope,
    /// Whether both rise, by more than a run of this length must show: the longer it ran, the slower
    /// it would have been.
    pub saturated: bool,
}
