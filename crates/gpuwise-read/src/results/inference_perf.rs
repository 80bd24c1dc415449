//! inference-perf's lifecycle reports, one for each stage, in seconds.

use super::{Asked, Figures, Measurement, ResultsError, Tool, json::Node};

const STATISTICS: [(&str, &str); 5] = [
    ("mean", "mean"),
    ("median", "p50"),
    ("p90", "p90"),
    ("p95", "p95"),
    ("p99", "p99"),
];

pub(super) fn read(root: Node<'_>) -> Result<Measurement, ResultsError> {
    let incomplete = |problem: &str| ResultsError::Incomplete {
        tool: Tool::InferencePerf,
        problem: problem.into(),
    };
    let latency = root.path("successes latency");
    if !latency.is_object() {
        return Err(incomplete(
            "this is what Prometheus saw of the server, not what the client measured; give stage_N_lifecycle_metrics.json",
        ));
    }
    let requests = root
        .path("successes count")
        .number()
        .filter(|count| *count >= 1.0)
        .ok_or_else(|| incomplete("`successes.count` is 0: no request was answered"))?;
    let summary = root.at("load_summary");
    let rate = summary
        .at("requested_rate")
        .number()
        .filter(|rate| *rate > 0.0);
    let cap = summary.any(&["concurrency", "concurrency_level"]).number();
    if rate.is_none() && cap.is_none() {
        return Err(incomplete(
            "`load_summary` says no `requested_rate`: a summary mixes stages of different load; give the files of its stages",
        ));
    }
    let each = |name: &str, statistic: &str| latency.at(name).at(statistic).number();
    let sent = summary.at("count").number().unwrap_or(requests);
    let throughput = |name: &str| root.path("successes throughput").at(name).number();
    let asked = Asked {
        rate,
        cap,
        requests: sent,
        // It times the whole run by its throughput.
        seconds: throughput("requests_per_sec")
            .filter(|served| *served > 0.0)
            .map(|served| requests / served),
        end_to_end: each("request_latency", "mean"),
    };
    let (load, latencies, mut notes) = asked.load();
    if let Some(delay) = summary.path("schedule_delay mean").number()
        && each("time_to_first_token", "mean").is_some_and(|ttft| delay > 0.05 * ttft)
    {
        notes.push(format!(
            "the client sent {:.0} ms late on average: requests waited where nobody counts it",
            delay * 1e3
        ));
    }
    let mut figures = Figures::of(requests);
    if latencies {
        for (statistic, name) in STATISTICS {
            figures.latency("ttft", name, each("time_to_first_token", statistic));
            figures.latency("tpot", name, each("time_per_output_token", statistic));
            figures.latency("e2e", name, each("request_latency", statistic));
        }
    }
    figures.throughput(
        &load,
        "output_throughput",
        "tokens/s",
        throughput("output_tokens_per_sec"),
    );
    figures.throughput(
        &load,
        "request_throughput",
        "requests/s",
        throughput("requests_per_sec"),
    );
    let (metrics, notes) = figures.done(notes);
    // Later releases keep lengths by kind.
    let length = |names: &[&str]| root.at("successes").any(names).number();
    Ok(Measurement {
        tool: Tool::InferencePerf,
        model: None,
        engine: None,
        load,
        input: length(&["prompt_len mean", "text prompt_len mean"]),
        output: length(&["output_len mean", "text output_len mean"]),
        requests: requests as u64,
        failed: root
            .path("failures count")
            .number()
            .map(|count| count as u64),
        metrics,
        place: String::new(),
        notes,
    })
}
