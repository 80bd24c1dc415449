//! Which published measurements count as near.

use crate::fixture::{catalogue, model};
use gpuwise_domain::evidence::EvidenceRow;
use gpuwise_read::catalogue::read_evidence;
use gpuwise_size::evidence::{Nearby, Shape, Sought, nearest};

fn row(model: &str, gpu: &str) -> EvidenceRow {
    EvidenceRow {
        model: model.into(),
        gpu: gpu.into(),
        value: 1.0,
        ..EvidenceRow::default()
    }
}

fn shape(name: &str) -> Option<Shape> {
    let known = [
        "meta-llama/Llama-3.1-8B",
        "meta-llama/Llama-3.1-8B-Instruct",
        "meta-llama/Llama-3.1-405B",
        "Qwen/Qwen2.5-7B-Instruct",
    ];
    known.contains(&name).then(|| Shape::of(&model(name)))
}

fn order(rows: &[EvidenceRow], limit: usize) -> Vec<(String, String)> {
    let catalogue = catalogue();
    let sought = Sought {
        model: "Llama-3.1-8B",
        shape: Shape::of(&model("meta-llama/Llama-3.1-8B")),
        gpu: catalogue.gpu("H100 SXM5 80GB"),
        catalogue: &catalogue,
    };
    let found: Vec<Nearby<'_>> = nearest(rows, &sought, &shape, limit);
    found
        .iter()
        .map(|near| (near.row.model.clone(), near.row.gpu.clone()))
        .collect()
}

#[test]
fn the_same_model_on_the_same_gpu_comes_first() {
    let rows = [
        row("Qwen/Qwen2.5-7B-Instruct", "H100 SXM5 80GB"),
        row("meta-llama/Llama-3.1-8B", "A100 SXM4 80GB"),
        row("meta-llama/Llama-3.1-8B-Instruct", "H100 SXM5 80GB"),
        row("meta-llama/Llama-3.1-8B", "H200 SXM 141GB"),
        row("meta-llama/Llama-3.1-405B", "H100 SXM5 80GB"),
        row("meta-llama/Llama-3.1-8B", "H100 SXM5 80GB"),
        row("no such model", "H100 SXM5 80GB"),
    ];
    let expected = [
        ("meta-llama/Llama-3.1-8B", "H100 SXM5 80GB"),
        ("meta-llama/Llama-3.1-8B-Instruct", "H100 SXM5 80GB"),
        ("meta-llama/Llama-3.1-8B", "H200 SXM 141GB"),
        ("Qwen/Qwen2.5-7B-Instruct", "H100 SXM5 80GB"),
        ("meta-llama/Llama-3.1-8B", "A100 SXM4 80GB"),
    ];
    let found = order(&rows, 10);
    let found: Vec<(&str, &str)> = found
        .iter()
        .map(|(m, g)| (m.as_str(), g.as_str()))
        .collect();
    assert_eq!(
        found, expected,
        "405 billion parameters say nothing about 8"
    );
    assert_eq!(order(&rows, 2).len(), 2);
}

#[test]
fn the_shipped_rows_have_sources_and_known_gpus() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../catalogue/evidence.csv.gz"
    );
    let rows = read_evidence("evidence.csv.gz", &std::fs::read(path).expect("the file"))
        .expect("evidence");
    let catalogue = catalogue();
    let known = rows
        .iter()
        .filter(|row| catalogue.gpu(&row.gpu).is_some())
        .count();
    assert!(
        known * 100 >= rows.len() * 85,
        "{known} of {} GPUs are known",
        rows.len()
    );
    assert!(
        rows.iter()
            .all(|row| row.source.contains('@') && row.source.contains('/'))
    );
}

#[test]
fn wrong_rows_are_named_by_their_line() {
    let header =
        "model,gpu,gpus,tp,dp,precision,engine,isl,osl,load,metric,unit,value,runs,note,source\n";
    for (line, says) in [
        (
            "m,g,1,1,,bf16,vllm,1,1,1,ttft_mean,ms,-3,1,,a@b:c\n",
            "line 2: `value` must be a positive number",
        ),
        (
            "m,g,1,1,,bf16,vllm,1,1,1,ttft_mean,ms,3,1,,\n",
            "line 2: `source` is empty",
        ),
        ("m,g,x,1,,bf16,vllm,1,1,1,ttft_mean,ms,3,1,,a\n", "line 2:"),
    ] {
        let error = read_evidence("mine.csv", format!("{header}{line}").as_bytes())
            .expect_err("an error")
            .to_string();
        assert!(
            error.starts_with("mine.csv: ") && error.contains(says),
            "{error}"
        );
    }
}
