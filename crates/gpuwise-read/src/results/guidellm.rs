//! GuideLLM's reports: one benchmark for each rate.

use super::{Figures, LoadSetting, Measurement, ResultsError, Tool, json::Node};

const STATISTICS: [(&str, &str); 5] = [
    ("mean", "mean"),
    ("median", "p50"),
    ("percentiles p90", "p90"),
    ("percentiles p95", "p95"),
    ("percentiles p99", "p99"),
];

pub(super) fn read(root: Node<'_>) -> Result<Vec<Measurement>, ResultsError> {
    let model = root
        .any(&[
            "config spec backend model",
            "args model",
            "args backend_args model",
        ])
        .text();
    let mut out = Vec::new();
    for (number, benchmark) in (1..).zip(root.at("benchmarks").list()) {
        if !benchmark.at("metrics").is_object() {
            continue;
        }
        out.push(one(benchmark, number, model)?);
    }
    if out.is_empty() {
        return Err(ResultsError::Incomplete {
            tool: Tool::GuideLlm,
            problem: "no benchmark in `benchmarks` has `metrics`".into(),
        });
    }
    Ok(out)
}

struct Benchmark<'a> {
    node: Node<'a>,
    place: String,
}

impl<'a> Benchmark<'a> {
    fn incomplete(&self, problem: &str) -> ResultsError {
        ResultsError::Incomplete {
            tool: Tool::GuideLlm,
            problem: format!("{}: {problem}", self.place),
        }
    }

    /// A metric's statistics over answered requests.
    fn good(&self, name: &str) -> Node<'a> {
        self.node.at("metrics").at(name).at("successful")
    }

    fn mean(&self, name: &str) -> Option<f64> {
        self.good(name).at("mean").number()
    }

    /// Seconds of a latency in milliseconds.
    fn seconds(&self, name: &str, statistic: &str) -> Option<f64> {
        let milliseconds = self.good(name).path(statistic).number();
        milliseconds.map(|value| value / 1e3)
    }

    /// Requests that ended so.
    fn count(&self, which: &str) -> Option<f64> {
        self.node.path("metrics request_totals").at(which).number()
    }

    /// The rate asked for, and the most in flight.
    fn strategy(&self) -> Result<(Option<f64>, Option<f64>), ResultsError> {
        let strategy = self.node.any(&[
            "config strategy",
            "args strategy",
            "scheduler strategy",
            "config profile",
        ]);
        let kind = strategy.any(&["type_", "kind"]).text().unwrap_or("");
        let streams = strategy.any(&["streams", "max_concurrency"]).number();
        match kind {
            "synchronous" => Ok((None, Some(1.0))),
            "concurrent" => Ok((None, streams)),
            "throughput" => Ok((None, None)),
            "constant" | "poisson" | "async" => {
                let rate = strategy.at("rate").number().filter(|rate| *rate > 0.0);
                match rate {
                    // Its limit is some thousands unless it is set: no limit.
                    Some(rate) => Ok((Some(rate), streams.filter(|cap| *cap < 512.0))),
                    None => Err(self.incomplete(&format!("strategy {kind:?} has no `rate`"))),
                }
            }
            other => Err(self.incomplete(&format!(
                "strategy {other:?} is none that is read (synchronous, concurrent, throughput, constant, poisson)"
            ))),
        }
    }

    fn latencies(&self, figures: &mut Figures, notes: &mut Vec<String>) {
        const ITL: &str = "inter_token_latency_ms";
        for (statistic, name) in STATISTICS {
            figures.latency(
                "ttft",
                name,
                self.seconds("time_to_first_token_ms", statistic),
            );
            let end_to_end = self.good("request_latency").path(statistic).number();
            figures.latency("e2e", name, end_to_end);
            // A percentile over tokens: long requests count more than short ones.
            figures.latency("tpot", name, self.seconds(ITL, statistic));
        }
        if self.seconds(ITL, "mean").is_some() {
            notes.push(
                "TPOT is what GuideLLM calls inter-token latency; its own TPOT counts the first token"
                    .into(),
            );
        } else if let (Some(all), Some(first), Some(tokens)) = (
            self.seconds("time_per_output_token_ms", "mean"),
            self.seconds("time_to_first_token_ms", "mean"),
            self.mean("output_token_count")
                .filter(|tokens| *tokens > 1.0),
        ) {
            let tpot = (all * tokens - first) / (tokens - 1.0);
            figures.latency("tpot", "mean", Some(tpot));
            notes.push("GuideLLM's TPOT counts the first token: TTFT taken out of it".into());
        }
    }
}

fn one(node: Node<'_>, number: u32, model: Option<&str>) -> Result<Measurement, ResultsError> {
    let benchmark = Benchmark {
        node,
        place: format!("benchmark {number}"),
    };
    let requests = benchmark
        .count("successful")
        .or_else(|| benchmark.good("request_latency").at("count").number())
        .filter(|requests| *requests >= 1.0)
        .ok_or_else(|| benchmark.incomplete("no request was answered"))?;
    let (rate, cap) = benchmark.strategy()?;
    let asked = LoadSetting {
        rate,
        cap,
        requests,
        seconds: node.at("duration").number(),
        end_to_end: benchmark.mean("request_latency"),
    };
    let (load, latencies, mut notes) = asked.load();
    let mut figures = Figures::of(requests);
    if latencies {
        benchmark.latencies(&mut figures, &mut notes);
    }
    figures.throughputs(
        &load,
        benchmark.mean("output_tokens_per_second"),
        benchmark.mean("requests_per_second"),
    );
    let (metrics, notes) = figures.done(notes);
    let named = node.any(&["config backend model"]).text().or(model);
    Ok(Measurement {
        tool: Tool::GuideLlm,
        model: named.map(Into::into),
        engine: None,
        load,
        input: benchmark.mean("prompt_token_count"),
        output: benchmark.mean("output_token_count"),
        requests: requests as u64,
        failed: benchmark.count("errored").map(|failed| failed as u64),
        metrics,
        place: benchmark.place,
        notes,
    })
}
