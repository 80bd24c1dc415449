//! Files of vLLM's serving client, and of its relatives in SGLang and InferenceX.
//!
//! vLLM and SGLang write milliseconds (`mean_ttft_ms`), InferenceX seconds (`median_ttft`).

use super::{Asked, Figures, Measurement, ResultsError, Tool, json::Node};

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

pub(super) fn read(root: Node<'_>) -> Result<Measurement, ResultsError> {
    let tool = tool(root);
    let completed = root.at("completed").number().unwrap_or(0.0);
    if completed < 1.0 {
        return Err(ResultsError::Incomplete {
            tool,
            problem: "`completed` is 0 or missing: no request was answered".into(),
        });
    }
    // Seconds of a latency under its name with a statistic.
    let latency = |statistic: &str, names: &[&str]| {
        names.iter().find_map(|name| {
            root.at(&format!("{statistic}_{name}_ms"))
                .number()
                .map(|value| value / 1e3)
                .or_else(|| root.at(&format!("{statistic}_{name}")).number())
        })
    };
    let end_to_end = ["e2el", "e2e_latency"];
    let asked = Asked {
        rate: root.at("request_rate").number(),
        cap: root.at("max_concurrency").number(),
        requests: root.at("num_prompts").number().unwrap_or(completed),
        seconds: root.at("duration").number(),
        end_to_end: latency("mean", &end_to_end).or(latency("median", &end_to_end)),
    };
    let (load, latencies, mut notes) = asked.load();
    let mut figures = Figures::of(completed);
    if latencies {
        let mut has_tpot = false;
        for (statistic, name) in STATISTICS {
            figures.latency("ttft", name, latency(statistic, &["ttft"]));
            let tpot = latency(statistic, &["tpot"]);
            has_tpot |= tpot.is_some();
            figures.latency("tpot", name, tpot);
            figures.latency("e2e", name, latency(statistic, &end_to_end));
        }
        // The pooled mean is that of requests weighted by their lengths; its tails are single gaps.
        if let (false, Some(itl)) = (has_tpot, latency("mean", &["itl"])) {
            figures.latency("itl", "mean", Some(itl));
            notes.push("TPOT is the mean gap between tokens, pooled over requests".into());
        }
    }
    figures.throughput(
        &load,
        "output_throughput",
        "tokens/s",
        root.at("output_throughput").number(),
    );
    figures.throughput(
        &load,
        "request_throughput",
        "requests/s",
        root.at("request_throughput").number(),
    );
    let burstiness = root
        .at("burstiness")
        .number()
        .filter(|_| asked.rate.is_some());
    if let Some(shape) = burstiness.filter(|shape| (*shape - 1.0).abs() > 1e-9 && *shape > 0.0) {
        notes.push(format!(
            "gaps between requests had a squared variation of {:.2}, not 1",
            1.0 / shape
        ));
    }
    let mean = |total: &str| root.at(total).number().map(|tokens| tokens / completed);
    let (metrics, notes) = figures.done(notes);
    Ok(Measurement {
        tool,
        model: root.any(&["model_id", "model"]).text().map(Into::into),
        engine: root.at("backend").text().and_then(engine),
        load,
        input: mean("total_input_tokens"),
        output: mean("total_output_tokens"),
        requests: completed as u64,
        failed: root
            .at("failed")
            .number()
            .map(|failed| failed as u64)
            .or_else(|| {
                let sent = root.at("num_prompts").number()?;
                (sent >= completed).then_some((sent - completed) as u64)
            }),
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
