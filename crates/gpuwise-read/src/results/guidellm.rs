//! GuideLLM's reports: one benchmark for each rate.

use super::{Asked, Figures, Measurement, ResultsError, Tool, json::Node};

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

fn one(benchmark: Node<'_>, number: u32, model: Option<&str>) -> Result<Measurement, ResultsError> {
    let place = format!("benchmark {number}");
    let metrics = benchmark.at("metrics");
    let good = |name: &str| metrics.at(name).at("successful");
    let count = |which: &str| metrics.at("request_totals").at(which).number();
    let requests = count("successful")
        .or_else(|| good("request_latency").at("count").number())
        .unwrap_or(0.0);
    if requests < 1.0 {
        return Err(ResultsError::Incomplete {
            tool: Tool::GuideLlm,
            problem: format!("{place}: no request was answered"),
        });
    }
    let strategy = benchmark.any(&[
        "config strategy",
        "args strategy",
        "scheduler strategy",
        "config profile",
    ]);
    let mean = |name: &str| good(name).at("mean").number();
    let kind = strategy.any(&["type_", "kind"]).text().unwrap_or("");
    let streams = strategy.any(&["streams", "max_concurrency"]).number();
    let (rate, cap) = match kind {
        "synchronous" => (None, Some(1.0)),
        "concurrent" => (None, streams),
        "throughput" => (None, None),
        "constant" | "poisson" | "async" => {
            let rate = strategy.at("rate").number().filter(|rate| *rate > 0.0);
            if rate.is_none() {
                return Err(ResultsError::Incomplete {
                    tool: Tool::GuideLlm,
                    problem: format!("{place}: strategy {kind:?} has no `rate`"),
                });
            }
            // Its limit is some thousands unless it is set: no limit.
            (rate, streams.filter(|cap| *cap < 512.0))
        }
        other => {
            return Err(ResultsError::Incomplete {
                tool: Tool::GuideLlm,
                problem: format!(
                    "{place}: strategy {other:?} is none that is read (synchronous, concurrent, throughput, constant, poisson)"
                ),
            });
        }
    };
    let asked = Asked {
        rate,
        cap,
        requests,
        seconds: benchmark.at("duration").number(),
        end_to_end: mean("request_latency"),
    };
    let (load, latencies, mut notes) = asked.load();
    let mut figures = Figures::of(requests);
    let milliseconds =
        |name: &str, statistic: &str| good(name).path(statistic).number().map(|value| value / 1e3);
    if latencies {
        for (statistic, name) in STATISTICS {
            figures.latency(
                "ttft",
                name,
                milliseconds("time_to_first_token_ms", statistic),
            );
            figures.latency(
                "e2e",
                name,
                good("request_latency").path(statistic).number(),
            );
            // A percentile over tokens: long requests count more than short ones.
            figures.latency(
                "tpot",
                name,
                milliseconds("inter_token_latency_ms", statistic),
            );
        }
        if milliseconds("inter_token_latency_ms", "mean").is_some() {
            notes.push("TPOT is what GuideLLM calls inter-token latency; its own TPOT counts the first token".into());
        } else if let (Some(all), Some(first), Some(tokens)) = (
            milliseconds("time_per_output_token_ms", "mean"),
            milliseconds("time_to_first_token_ms", "mean"),
            mean("output_token_count").filter(|tokens| *tokens > 1.0),
        ) {
            figures.latency(
                "tpot",
                "mean",
                Some((all * tokens - first) / (tokens - 1.0)),
            );
            notes.push("GuideLLM's TPOT counts the first token: TTFT taken out of it".into());
        }
    }
    figures.throughput(
        &load,
        "output_throughput",
        "tokens/s",
        mean("output_tokens_per_second"),
    );
    figures.throughput(
        &load,
        "request_throughput",
        "requests/s",
        mean("requests_per_second"),
    );
    let (metrics_read, notes) = figures.done(notes);
    Ok(Measurement {
        tool: Tool::GuideLlm,
        model: benchmark
            .any(&["config backend model"])
            .text()
            .or(model)
            .map(Into::into),
        engine: None,
        load,
        input: mean("prompt_token_count"),
        output: mean("output_token_count"),
        requests: requests as u64,
        failed: count("errored").map(|failed| failed as u64),
        metrics: metrics_read,
        place,
        notes,
    })
}
