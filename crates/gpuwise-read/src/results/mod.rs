//! Result files of load generators: vLLM's and SGLang's, InferenceX', GuideLLM's, inference-perf's and
//! AIPerf's, all as [`Measurement`]s with one meaning for each metric.
//!
//! Tools name the same thing differently: what AIPerf calls inter-token latency is a request's mean
//! time per output token; GuideLLM's time per output token counts the first token too. Here TTFT is the
//! time to the first token, TPOT is (last - first) / (n - 1) for each request, and E2E is the time to
//! the last token, all in milliseconds.

mod aiperf;
mod guidellm;
mod inference_perf;
mod json;
mod run;
mod serving;
mod setting;

pub use run::{of_any_run, of_run};
pub use setting::{Setting, SettingError};

use gpuwise_domain::question::Load;
use json::Node;

/// A result file with all its requests may be large.
const LARGEST_FILE: usize = 1 << 30;

/// What is wrong with a result file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResultsError {
    /// It is no JSON or YAML.
    #[error("it is no {form}: {problem}")]
    Syntax {
        form: &'static str,
        /// What the parser says.
        problem: String,
    },
    /// No tool is known that writes such a file.
    #[error(
        "no load generator that is read writes such a file; looked for `mean_ttft_ms` or `median_ttft` (vLLM, SGLang, \
         InferenceX), `benchmarks` (GuideLLM), `load_summary` with `successes` (inference-perf) and \
         `time_to_first_token` with `avg` (AIPerf); it has {}", .0
    )]
    Unknown(String),
    /// The file is one of the tool's, but not the one with measurements, or lacks what is needed.
    #[error("{tool}: {problem}")]
    Incomplete {
        tool: Tool,
        /// What is missing and where it is.
        problem: String,
    },
    #[error("{0} bytes; a result file has at most {LARGEST_FILE}")]
    TooLarge(usize),
}

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Tool: name {
        /// `vllm bench serve`, or its fork in SGLang.
        VllmBench = "vLLM bench",
        /// SGLang's `bench_serving`.
        SglangBench = "SGLang bench",
        InferenceX = "InferenceX",
        GuideLlm = "GuideLLM",
        InferencePerf = "inference-perf",
        AiPerf = "AIPerf",
        /// `gpuwise bench`.
        Gpuwise = "gpuwise",
    }
}

impl std::fmt::Display for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct MetricValue {
    /// As questions name it: `ttft_mean`, `tpot_p99`, `output_throughput`.
    pub name: String,
    pub value: f64,
    /// `ms`, `tokens/s` or `requests/s`.
    pub unit: &'static str,
}

/// What a load generator measured under one load.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    pub tool: Tool,
    /// The model, where the file tells it.
    pub model: Option<String>,
    /// The engine, where the file tells it.
    pub engine: Option<String>,
    pub load: Load,
    /// Mean tokens of prompts.
    pub input: Option<f64>,
    pub output: Option<f64>,
    /// Requests that were answered.
    pub requests: u64,
    /// Requests that failed; `None`: not told.
    pub failed: Option<u64>,
    pub metrics: Vec<MetricValue>,
    /// Where in the file, such as `benchmark 2`; empty where it holds one run.
    pub place: String,
    /// What was converted or left out, in sentences.
    pub notes: Vec<String>,
}

/// Reads a result file; what it holds tells the tool.
///
/// # Errors
/// When it is no JSON or YAML, of no known tool, or lacks what a measurement needs.
pub fn read_results(text: &str) -> Result<Vec<Measurement>, ResultsError> {
    if text.len() > LARGEST_FILE {
        return Err(ResultsError::TooLarge(text.len()));
    }
    let documents = json::documents(text)?;
    let several = documents.len() > 1;
    let mut out = Vec::new();
    for (number, document) in (1..).zip(&documents) {
        let mut read = one(Node::root(document))?;
        if several {
            for measurement in &mut read {
                measurement.place = format!("line {number}");
            }
        }
        out.extend(read);
    }
    Ok(out)
}

fn one(root: Node<'_>) -> Result<Vec<Measurement>, ResultsError> {
    if root.at("benchmarks").is_list() {
        return guidellm::read(root);
    }
    if root.at("load_summary").is_object() && root.at("successes").is_object() {
        return inference_perf::read(root).map(|one| vec![one]);
    }
    if let Some(records) = aiperf::records(root) {
        return aiperf::read(root, records).map(|one| vec![one]);
    }
    if serving::is_result(root) {
        return serving::read(root).map(|one| vec![one]);
    }
    Err(ResultsError::Unknown(root.keys()))
}

/// How a load was set: the rate asked for (`None`: as fast as it goes), and the most in flight.
struct LoadSetting {
    rate: Option<f64>,
    cap: Option<f64>,
    requests: f64,
    seconds: Option<f64>,
    /// Mean seconds of one.
    end_to_end: Option<f64>,
}

/// Of fewer requests pauses of the client may take most of the time.
const FEWEST: f64 = 20.0;

/// A run is saturated when it takes this much longer than sending and serving its last request.
const SATURATED: f64 = 1.25;

impl LoadSetting {
    /// The load that this means, with what is to be said of it, and whether latencies mean anything:
    /// where requests come faster than they are served, they measure how long the run was.
    fn load(&self) -> (Load, bool, Vec<String>) {
        match (self.rate, self.cap) {
            (Some(rate), cap) => {
                let sending = self.requests / rate;
                let usual = sending + self.end_to_end.unwrap_or(0.0);
                let slow = self.seconds.is_some_and(|seconds| {
                    self.end_to_end.is_some()
                        && self.requests >= FEWEST
                        && seconds > SATURATED * usual
                });
                match (slow, cap) {
                    (false, None) => (Load::Rate(vec![rate]), true, Vec::new()),
                    (false, Some(cap)) => (
                        Load::Rate(vec![rate]),
                        true,
                        vec![format!(
                            "at most {cap} were concurrent: waiting for the limit is not in its latencies"
                        )],
                    ),
                    (true, Some(cap)) => (
                        Load::InFlight(cap),
                        true,
                        vec![format!(
                            "{rate}/s is more than was served: read as {cap} concurrent, its limit"
                        )],
                    ),
                    (true, None) => (
                        Load::Unstated,
                        false,
                        vec![format!(
                            "{rate}/s is more than was served: only its throughput is taken"
                        )],
                    ),
                }
            }
            (None, Some(cap)) => (Load::InFlight(cap), true, Vec::new()),
            (None, None) => (
                Load::Unstated,
                false,
                vec!["all requests were sent at once: only its throughput is taken".into()],
            ),
        }
    }
}

/// Figures of a run as they are collected.
#[derive(Default)]
struct Figures {
    metrics: Vec<MetricValue>,
    requests: f64,
    left_out: Vec<String>,
}

impl Figures {
    fn of(requests: f64) -> Self {
        Self {
            requests,
            ..Self::default()
        }
    }

    /// A latency in seconds; a percentile with less than one request beyond it says no more than the
    /// extreme.
    fn latency(&mut self, name: &str, statistic: &str, seconds: Option<f64>) {
        let Some(seconds) = seconds.filter(|value| value.is_finite() && *value > 0.0) else {
            return;
        };
        let name = format!("{name}_{statistic}");
        let percent: Option<f64> = statistic.strip_prefix('p').and_then(|p| p.parse().ok());
        let beyond = percent.map_or(1.0, |percent| (1.0 - percent / 100.0) * self.requests);
        if beyond < 1.0 - 1e-9 {
            self.left_out.push(name);
            return;
        }
        self.metrics.push(MetricValue {
            name,
            value: seconds * 1e3,
            unit: "ms",
        });
    }

    /// Output tokens and requests a second.
    fn throughputs(&mut self, load: &Load, tokens: Option<f64>, requests: Option<f64>) {
        // Below saturation a rate serves what it sends: that measures nothing.
        if matches!(load, Load::Rate(_)) {
            return;
        }
        for (name, unit, value) in [
            ("output_throughput", "tokens/s", tokens),
            ("request_throughput", "requests/s", requests),
        ] {
            if let Some(value) = value.filter(|value| value.is_finite() && *value > 0.0) {
                self.metrics.push(MetricValue {
                    name: name.into(),
                    value,
                    unit,
                });
            }
        }
    }

    fn done(self, mut notes: Vec<String>) -> (Vec<MetricValue>, Vec<String>) {
        if !self.left_out.is_empty() {
            notes.push(format!(
                "{} left out: {} requests are too few for them",
                self.left_out.join(", "),
                self.requests
            ));
        }
        (self.metrics, notes)
    }
}
