//! AIPerf's exports, and GenAI-Perf's before it: an object of statistics for each metric, with its
//! unit.

use super::{Figures, LoadSetting, Measurement, ResultsError, Tool, json::Node};

const STATISTICS: [(&str, &str); 5] = [
    ("avg", "mean"),
    ("p50", "p50"),
    ("p90", "p90"),
    ("p95", "p95"),
    ("p99", "p99"),
];

/// Where its metrics stand, if it is such a file.
pub(super) fn records(root: Node<'_>) -> Option<Node<'_>> {
    [root, root.at("records"), root.at("metrics")]
        .into_iter()
        .find(|node| {
            [
                "time_to_first_token",
                "request_latency",
                "inter_token_latency",
            ]
            .iter()
            .any(|name| node.at(name).at("avg").number().is_some())
        })
}

/// Seconds of a latency, in whatever unit it is.
fn seconds(records: Node<'_>, name: &str, statistic: &str) -> Option<f64> {
    let metric = records.at(name);
    let scale = match metric.at("unit").text().unwrap_or("ms") {
        "s" | "sec" | "seconds" => 1.0,
        "us" | "µs" => 1e-6,
        "ns" => 1e-9,
        _ => 1e-3,
    };
    metric.at(statistic).number().map(|value| value * scale)
}

fn incomplete(problem: &str) -> ResultsError {
    ResultsError::Incomplete {
        tool: Tool::AiPerf,
        problem: problem.into(),
    }
}

pub(super) fn read(root: Node<'_>, records: Node<'_>) -> Result<Measurement, ResultsError> {
    let requests = records
        .any(&["request_count avg", "request_count"])
        .number()
        .or_else(|| records.path("request_latency count").number())
        .filter(|count| *count >= 1.0)
        .ok_or_else(|| incomplete("`request_count` is 0 or missing: no request was answered"))?;
    let mean = |name: &str| records.at(name).at("avg").number();
    let asked = asked(root, records, requests)?;
    let (load, latencies, mut notes) = asked.load();
    let mut figures = Figures::of(requests);
    if latencies {
        for (statistic, name) in STATISTICS {
            let each = |metric: &str| seconds(records, metric, statistic);
            figures.latency("ttft", name, each("time_to_first_token"));
            figures.latency("tpot", name, each("inter_token_latency"));
            figures.latency("e2e", name, each("request_latency"));
        }
        notes.push("TPOT is what AIPerf calls inter-token latency".into());
    }
    figures.throughputs(
        &load,
        mean("output_token_throughput"),
        mean("request_throughput"),
    );
    let (metrics, notes) = figures.done(notes);
    let failed = records.any(&["error_request_count avg", "error_request_count"]);
    Ok(Measurement {
        tool: Tool::AiPerf,
        model: model(root).map(Into::into),
        engine: None,
        load,
        input: mean("input_sequence_length"),
        output: mean("output_sequence_length"),
        requests: requests as u64,
        failed: failed.number().map(|count| count as u64),
        metrics,
        place: String::new(),
        notes,
    })
}

fn asked(root: Node<'_>, records: Node<'_>, requests: f64) -> Result<LoadSetting, ResultsError> {
    let set = |names: &[&str]| root.at("input_config").any(names).number();
    let rate = set(&[
        "loadgen request_rate",
        "request_rate",
        "perf_analyzer stimulus request_rate",
    ]);
    let cap = set(&[
        "loadgen concurrency",
        "concurrency",
        "perf_analyzer stimulus concurrency",
    ]);
    if rate.is_none() && cap.is_none() {
        return Err(incomplete(
            "`input_config.loadgen` says neither `request_rate` nor `concurrency`",
        ));
    }
    let served = records.path("request_throughput avg").number();
    Ok(LoadSetting {
        rate: rate.filter(|rate| *rate > 0.0),
        cap,
        requests,
        seconds: served
            .filter(|served| *served > 0.0)
            .map(|served| requests / served),
        end_to_end: seconds(records, "request_latency", "avg"),
    })
}

fn model(root: Node<'_>) -> Option<&str> {
    let names = root.path("input_config endpoint model_names");
    names.list().next().and_then(Node::text).or_else(|| {
        root.any(&["input_config model_names", "input_config model"])
            .text()
    })
}
