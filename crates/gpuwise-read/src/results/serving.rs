//! Files of vLLM's serving client, and of its relatives in SGLang and InferenceX.
//!
//! vLLM and SGLang write milliseconds (`mean_ttft_ms`), InferenceX seconds (`median_ttft`).

use super::{Figures, LoadSetting, Measurement, ResultsError, Tool, json::Node};

const STATISTICS: [(&str, &str); 5] = [
    ("mean", "mean"),
    ("median", "p50"),
    ("p90", "p90"),
    ("p95", "p95"),
    ("p99", "p99"),
];

pub(super) fn is_result(root: Node<'_>) -> bool {
    let timed = [
        "mean_ttft_ms",
        "median_ttft_ms",
        "mean_tpot_ms",
        "median_tpot_ms",
        "mean_e2el_ms",
        "mean_ttft",
        "median_ttft",
        "median_tpot",
        "median_e2el",
    ];
    root.any(&timed).number().is_some()
        || (root.at("request_throughput").number().is_some()
            && root.at("completed").number().is_some())
}

fn tool(root: Node<'_>) -> Tool {
    if root.at("median_ttft").number().is_some() || root.at("median_e2el").number().is_some() {
        Tool::InferenceX
    } else if root
        .any(&["mean_e2e_latency_ms", "total_output_tokens_retokenized"])
        .number()
        .is_some()
    {
        Tool::SglangBench
    } else {
        Tool::VllmBench
    }
}

/// Seconds of a latency under its name with a statistic; some have two names.
fn latency(root: Node<'_>, statistic: &str, names: &[&str]) -> Option<f64> {
    names.iter().find_map(|name| {
        let milliseconds = root.at(&format!("{statistic}_{name}_ms")).number();
        milliseconds
            .map(|value| value / 1e3)
            .or_else(|| root.at(&format!("{statistic}_{name}")).number())
    })
}

const END_TO_END: [&str; 2] = ["e2el", "e2e_latency"];

fn latencies(root: Node<'_>, figures: &mut Figures, notes: &mut Vec<String>) {
    let mut has_tpot = false;
    for (statistic, name) in STATISTICS {
        figures.latency("ttft", name, latency(root, statistic, &["ttft"]));
        let tpot = latency(root, statistic, &["tpot"]);
        has_tpot |= tpot.is_some();
        figures.latency("tpot", name, tpot);
        figures.latency("e2e", name, latency(root, statistic, &END_TO_END));
    }
    // The pooled mean is that of requests weighted by their lengths; its tails are single gaps.
    if let (false, Some(itl)) = (has_tpot, latency(root, "mean", &["itl"])) {
        figures.latency("itl", "mean", Some(itl));
        notes.push("TPOT is the mean gap between tokens, pooled over requests".into());
    }
}

pub(super) fn read(root: Node<'_>) -> Result<Measurement, ResultsError> {
    let tool = tool(root);
    let completed = root.at("completed").number().unwrap_or(0.0);
    if completed < 1.0 {
        return Err(ResultsError::Incomplete {
            tool,
            problem: "`completed` is 0 or missing: no request was answered".into(),
        });
    }
    let sent = root.at("num_prompts").number();
    let asked = LoadSetting {
        rate: root.at("request_rate").number().filter(|rate| *rate > 0.0),
        cap: root.at("max_concurrency").number(),
        requests: sent.unwrap_or(completed),
        seconds: root.at("duration").number(),
        end_to_end: latency(root, "mean", &END_TO_END)
            .or_else(|| latency(root, "median", &END_TO_END)),
    };
    let (load, has_latencies, mut notes) = asked.load();
    let mut figures = Figures::of(completed);
    if has_latencies {
        latencies(root, &mut figures, &mut notes);
    }
    figures.throughputs(
        &load,
        root.at("output_throughput").number(),
        root.at("request_throughput").number(),
    );
    let shape = root.at("burstiness").number();
    let shape = shape.filter(|shape| asked.rate.is_some() && *shape > 0.0);
    if let Some(shape) = shape.filter(|shape| (*shape - 1.0).abs() > 1e-9) {
        notes.push(format!(
            "gaps between requests had a squared variation of {:.2}, not 1",
            1.0 / shape
        ));
    }
    let mean = |total: &str| root.at(total).number().map(|tokens| tokens / completed);
    let unanswered = sent.filter(|sent| *sent >= completed);
    let failed = root.at("failed").number();
    let (metrics, notes) = figures.done(notes);
    Ok(Measurement {
        tool,
        model: root.any(&["model_id", "model"]).text().map(Into::into),
        engine: root.at("backend").text().and_then(engine),
        load,
        input: mean("total_input_tokens"),
        output: mean("total_output_tokens"),
        requests: completed as u64,
        failed: failed
            .or(unanswered.map(|sent| sent - completed))
            .map(|failed| failed as u64),
        metrics,
        place: String::new(),
        notes,
    })
}

/// The engine that a backend names; `openai` is any.
fn engine(backend: &str) -> Option<String> {
    let name = ["vllm", "sglang", "tensorrt-llm", "tgi", "llama.cpp"]
        .into_iter()
        .find(|name| backend.starts_with(name))?;
    Some(
        if name == "tensorrt-llm" {
            "trtllm"
        } else {
            name
        }
        .into(),
    )
}
