//! inference-perf's lifecycle reports, one for each stage, in seconds.

use super::{Figures, LoadSetting, Measurement, ResultsError, Tool, json::Node};

const STATISTICS: [(&str, &str); 5] = [
    ("mean", "mean"),
    ("median", "p50"),
    ("p90", "p90"),
    ("p95", "p95"),
    ("p99", "p99"),
];

/// A client that sends later than this share of the time to first token hides a queue.
const LATE: f64 = 0.05;

fn incomplete(problem: &str) -> ResultsError {
    ResultsError::Incomplete {
        tool: Tool::InferencePerf,
        problem: problem.into(),
    }
}

pub(super) fn read(root: Node<'_>) -> Result<Measurement, ResultsError> {
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
    let throughput = |name: &str| root.path("successes throughput").at(name).number();
    let asked = asked(root, requests, throughput("requests_per_sec"))?;
    let (load, latencies, mut notes) = asked.load();
    notes.extend(late(root));
    let mut figures = Figures::of(requests);
    if latencies {
        for (statistic, name) in STATISTICS {
            let each = |metric: &str| latency.at(metric).at(statistic).number();
            figures.latency("ttft", name, each("time_to_first_token"));
            figures.latency("tpot", name, each("time_per_output_token"));
            figures.latency("e2e", name, each("request_latency"));
        }
    }
    figures.throughputs(
        &load,
        throughput("output_tokens_per_sec"),
        throughput("requests_per_sec"),
    );
    let (metrics, notes) = figures.done(notes);
    // Later releases keep lengths by kind.
    let length = |names: &[&str]| root.at("successes").any(names).number();
    let failed = root.path("failures count").number();
    Ok(Measurement {
        tool: Tool::InferencePerf,
        model: None,
        engine: None,
        load,
        input: length(&["prompt_len mean", "text prompt_len mean"]),
        output: length(&["output_len mean", "text output_len mean"]),
        requests: requests as u64,
        failed: failed.map(|count| count as u64),
        metrics,
        place: String::new(),
        notes,
    })
}

fn asked(root: Node<'_>, requests: f64, served: Option<f64>) -> Result<LoadSetting, ResultsError> {
    let summary = root.at("load_summary");
    let rate = summary.at("requested_rate").number();
    let rate = rate.filter(|rate| *rate > 0.0);
    let cap = summary.any(&["concurrency", "concurrency_level"]).number();
    if rate.is_none() && cap.is_none() {
        return Err(incomplete(
            "`load_summary` says no `requested_rate`: a summary mixes stages of different load; give the files of its stages",
        ));
    }
    Ok(LoadSetting {
        rate,
        cap,
        requests: summary.at("count").number().unwrap_or(requests),
        // It times the whole run by its throughput.
        seconds: served
            .filter(|served| *served > 0.0)
            .map(|served| requests / served),
        end_to_end: root.path("successes latency request_latency mean").number(),
    })
}

/// What is to be said where the client could not keep up.
fn late(root: Node<'_>) -> Option<String> {
    let delay = root.path("load_summary schedule_delay mean").number()?;
    let ttft = root
        .path("successes latency time_to_first_token mean")
        .number()?;
    (delay > LATE * ttft).then(|| {
        format!(
            "the client sent {:.0} ms late on average: requests waited where nobody counts it",
            delay * 1e3
        )
    })
}
