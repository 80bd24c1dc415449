//! Flags of `gpuwise simulate` and `gpuwise validate`.

use super::{SloFlags, TrafficFlags};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Simulate {
    /// A saved deployment (`gpuwise plan … --save deployment.json`)
    #[arg(value_name = "DEPLOYMENT")]
    pub deployment: PathBuf,
    #[command(flatten)]
    pub load: Load,
    #[command(flatten, next_help_heading = "Traffic, changed")]
    pub changes: ChangeFlags,
    #[command(flatten, next_help_heading = "Result")]
    pub result: RunResultFlags,
}

/// What a deployment is put under: traffic, its SLO, and the replicas that share it.
#[derive(Debug, Clone, Args)]
pub struct Load {
    #[command(flatten, next_help_heading = "Traffic")]
    pub traffic: TrafficFlags,
    #[command(flatten, next_help_heading = "SLO")]
    pub slo: SloFlags,
    #[command(flatten, next_help_heading = "Cluster")]
    pub cluster: ClusterFlags,
}

/// What is done to traffic before it is sent.
#[derive(Debug, Clone, Args)]
pub struct ChangeFlags {
    /// Requests to send [default: all of a trace; else as many as 10 minutes bring, 1,000 to 20,000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,
    /// Send for so long, such as 10min
    #[arg(long, value_name = "TIME")]
    pub duration: Option<String>,
    /// Replay a trace so many times as fast
    #[arg(long, value_name = "FACTOR")]
    pub speed_up: Option<f64>,
    /// Keep each request of a trace with this probability, such as 0.25 or 25%
    #[arg(long, value_name = "SHARE")]
    pub thin: Option<String>,
    /// Replay a trace so many times, one after the other
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,
    /// Replay this trace after the other; may be repeated
    #[arg(long, value_name = "FILE", requires = "trace")]
    pub then: Vec<PathBuf>,
    /// Draw stretches of a trace of this length at random, such as 10min, in place of its order
    #[arg(long, value_name = "TIME", requires = "trace")]
    pub resample: Option<String>,
    /// Rates one after the other, such as 2/s@10min,6/s@10min; the report tells them apart
    #[arg(long, value_name = "RATE@TIME", value_delimiter = ',', conflicts_with_all = ["trace", "rate", "concurrency"])]
    pub stages: Vec<String>,
    /// Rates that change at random, with their mean times (Markov-modulated Poisson), such as
    /// 2/s@5min,20/s@30s
    #[arg(long, value_name = "RATE@TIME", value_delimiter = ',', conflicts_with_all = ["trace", "rate", "concurrency", "stages"])]
    pub states: Vec<String>,
    /// Rounds of conversations: each prompt repeats what was said before
    #[arg(long, value_name = "N", conflicts_with = "trace", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub turns: Option<u32>,
    /// Time that a client thinks after an answer, in the mean, such as 20s
    #[arg(
        long,
        value_name = "TIME",
        requires = "turns",
        conflicts_with = "trace",
        default_value = "10s"
    )]
    pub think: String,
    /// Growth of the rate an hour, such as 10%
    #[arg(long, value_name = "PERCENT")]
    pub growth: Option<String>,
    /// Where --trace is ServeGen's table of rates by client: its table of token lengths
    #[arg(long, value_name = "FILE")]
    pub lengths: Option<PathBuf>,
    /// The clients of this model of the table, such as language/m-large
    #[arg(long, value_name = "MODEL")]
    pub clients_of: Option<String>,
    /// When in the table to begin, such as 8h; --duration says how long [default: 1h]
    #[arg(long, value_name = "TIME")]
    pub start: Option<String>,
    /// Leave out of the figures what comes before, such as 60s
    #[arg(long, value_name = "TIME")]
    pub warm_up: Option<String>,
}

impl ChangeFlags {
    /// So many requests, nothing else.
    pub fn of_requests(requests: Option<u64>) -> Self {
        Self {
            requests,
            duration: None,
            speed_up: None,
            thin: None,
            repeat: None,
            then: Vec::new(),
            resample: None,
            stages: Vec::new(),
            states: Vec::new(),
            turns: None,
            think: String::new(),
            growth: None,
            lengths: None,
            clients_of: None,
            start: None,
            warm_up: None,
        }
    }
}

/// Replicas and what is between them and the clients.
#[derive(Debug, Clone, Args)]
pub struct ClusterFlags {
    /// Replicas, in place of those of the deployment
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub replicas: Option<u32>,
    /// Which replica a request goes to
    #[arg(long, value_enum, default_value_t = RouterName::LeastOutstanding)]
    pub router: RouterName,
    /// How old the router's knowledge of replicas is, such as 100ms
    #[arg(long, value_name = "TIME")]
    pub signal_age: Option<String>,
    /// Client timeout after which a request is aborted, such as 60s
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<String>,
    /// Times that a client sends a refused or lost request again, after a growing pause
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub retries: u32,
    /// Requests that wait at a replica at most; more are refused
    #[arg(long, value_name = "N")]
    pub max_queued: Option<u32>,
    /// Which waiting request an engine takes next, in place of the order in which they came; only
    /// vLLM's is modelled, and a trace's column `priority` says whose turn it is
    #[arg(long, value_enum, default_value_t = SchedulingName::Fcfs)]
    pub scheduling_policy: SchedulingName,
    /// Kill a replica, such as 0@300s; it starts again after --start-up
    #[arg(long, value_name = "REPLICA@TIME")]
    pub fail: Vec<String>,
    /// Mean time between failures of a replica, such as 200h
    #[arg(long, value_name = "TIME")]
    pub mtbf: Option<String>,
    /// Time that a replica takes to start again after it was lost, such as 90s [default: 3min]
    #[arg(long, value_name = "TIME")]
    pub start_up: Option<String>,
    /// Another saved deployment on the same GPUs, under the traffic that it was saved with
    #[arg(long, value_name = "DEPLOYMENT")]
    pub beside: Option<PathBuf>,
    /// How both share the GPUs
    #[arg(long, value_enum, requires = "beside", default_value_t = SharingName::TimeSlices)]
    pub sharing: SharingName,
    /// With --sharing mps: how many times as long steps take beside the other; it is not known
    #[arg(long, value_name = "FACTOR", requires = "beside")]
    pub interference: Option<f64>,
    /// Link from prefill to decode pool, as its bandwidth of each GPU, such as 50GB/s
    #[arg(long, value_name = "BANDWIDTH")]
    pub kv_link: Option<String>,
}

/// How requests are spread over replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RouterName {
    /// One after the other
    RoundRobin,
    /// The one with the fewest requests
    LeastOutstanding,
    /// The better of two drawn at random
    PowerOfTwo,
    /// At random
    Random,
    /// By session, on a ring
    Session,
    /// By the longest prefix that was sent there
    PrefixAware,
    /// By cached blocks and load
    KvAware,
    /// By weighted scores of prefix (3), queue (2) and free KV cache (2), the usual ones of llm-d
    #[value(name = "llm-d")]
    LlmD,
}

/// Which waiting request is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchedulingName {
    /// The one that came first
    Fcfs,
    /// The smallest priority, then the one that came first; the greatest is preempted first
    Priority,
}

/// How engines share a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SharingName {
    /// MIG slices of their own: no interference
    Slices,
    /// In turns
    TimeSlices,
    /// At the same time; their interference must be measured
    Mps,
}

/// What is done with a run.
#[derive(Debug, Clone, Args)]
pub struct RunResultFlags {
    /// Show the life of one request, by its number in the traffic
    #[arg(long, value_name = "NUMBER")]
    pub request: Option<u64>,
    /// Save the run as a document (gpuwise.run/v1)
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Write a report into one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write a trace that Perfetto and chrome://tracing open
    #[arg(long, value_name = "FILE")]
    pub chrome_trace: Option<PathBuf>,
    /// Write what became of every request (CSV)
    #[arg(long, value_name = "FILE")]
    pub records: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Validate {
    /// A saved deployment (`gpuwise plan … --save deployment.json`)
    #[arg(value_name = "DEPLOYMENT")]
    pub deployment: PathBuf,
    #[command(flatten)]
    pub load: Load,
    #[command(flatten, next_help_heading = "Effort and result")]
    pub effort: EffortFlags,
}

/// How much is simulated.
#[derive(Debug, Clone, Args)]
pub struct EffortFlags {
    /// Runs with seeds of their own, on which the range of the knee rests
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub seeds: u32,
    /// Requests of each run [default: as many as 10 minutes bring, 1,000 to 20,000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(10..))]
    pub requests: Option<u64>,
    /// Save all runs as a document (gpuwise.run/v1)
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Write a report into one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
