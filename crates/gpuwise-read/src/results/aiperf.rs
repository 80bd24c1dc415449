//! AIPerf's exports, and GenAI-Perf's before it: an object of statistics for each metric, with its
//! unit.

use super::{Asked, Figures, Measurement, ResultsError, Tool, json::Node};

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

pub(super) fn read(root: Node<'_>, records: Node<'_>) -> Result<Measurement, ResultsError> {
    let requests = records
        .any(&["request_count avg", "request_count"])
        .number()
        .or_else(|| records.path("request_latency count").number())
        .filter(|count| *count >= 1.0)
        .ok_or_else(|| ResultsError::Incomplete {
            tool: Tool::AiPerf,
            problem: "`request_count` is 0 or missing: no request was answered".into(),
        })?;
    // Seconds of a latency, in whatever unit it is.
    let seconds = |name: &str, statistic: &str| {
        let metric = records.at(name);
        let scale = match metric.at("unit").text().unwrap_or("ms") {
            "s" | "sec" | "seconds" => 1.0,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => 1e-3,
        };
        metric.at(statistic).number().map(|value| value * scale)
    };
    let mean = |name: &str| records.at(name).at("avg").number();
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
        return Err(ResultsError::Incomplete {
            tool: Tool::AiPerf,
            problem: "`input_config.loadgen` says neither `request_rate` nor `concurrency`".into(),
        });
    }
    let asked = Asked {
        rate,
        cap,
        requests,
        seconds: mean("request_throughput")
            .filter(|served| *served > 0.0)
            .map(|served| requests / served),
        end_to_end: seconds("request_latency", "avg"),
    };
    let (load, latencies, mut notes) = asked.load();
    let mut figures = Figures::of(requests);
    if latencies {
        for (statistic, name) in STATISTICS {
            figures.latency("ttft", name, seconds("time_to_first_token", statistic));
            figures.latency("tpot", name, seconds("inter_token_latency", statistic));
            figures.latency("e2e", name, seconds("request_latency", statistic));
        }
        notes.push("TPOT is what AIPerf calls inter-token latency".into());
    }
    figures.throughput(
        &load,
        "output_throughput",
        "tokens/s",
        mean("output_token_throughput"),
    );
    figures.throughput(
        &load,
        "request_throughput",
        "requests/s",
        mean("request_throughput"),
    );
    let (metrics, notes) = figures.done(notes);
    let endpoint = root.path("input_config endpoint");
    let model = endpoint
        .at("model_names")
        .list()
        .next()
        .and_then(Node::text)
        .or_else(|| {
            root.any(&["input_config model_names", "input_config model"])
                .text()
        });
    Ok(Measurement {
        tool: Tool::AiPerf,
        model: model.map(Into::into),
        engine: None,
        load,
        input: mean("input_sequence_length"),
        output: mean("output_sequence_length"),
        requests: requests as u64,
        failed: records
            .any(&["error_request_count avg", "error_request_count"])
            .number()
            .map(|count| count as u64),
        metrics,
        place: String::new(),
        notes,
    })
}
