//! What a question's joint of GPU, engine, precision, architecture and load rests on.

use gpuwise_domain::{engine::EngineKind, estimate::Basis};
use gpuwise_size::knowledge::{
    ArchitectureClass, Cell, Cells, FittedCell, MetricClass, Range, RangeRow, Ranges, Regime,
};

fn cell(gpu: &str, silicon: &str, engine: &'static str, bucket: &str) -> Cell {
    Cell {
        gpu: gpu.into(),
        silicon: silicon.into(),
        engine,
        bucket: bucket.into(),
        weights: "bf16".into(),
        architecture: ArchitectureClass::Dense,
        regime: Regime::Served,
    }
}

fn fitted() -> Cells {
    let all = [
        cell("H100 SXM5 80GB", "Hopper", "vllm", "vllm"),
        cell("MI300X", "CDNA3", "llamacpp", "llamacpp-rocm"),
        Cell {
            architecture: ArchitectureClass::Experts,
            ..cell("B200 SXM", "Blackwell", "trtllm", "trtllm")
        },
    ];
    Cells {
        rows: all
            .into_iter()
            .map(|cell| FittedCell { cell, rows: 10 })
            .collect(),
    }
}

#[test]
fn the_joint_counts_and_not_its_parts() {
    let cells = fitted();
    let seen = cells.standing(&cell("H100 SXM5 80GB", "Hopper", "vllm", "vllm"));
    assert_eq!(seen.basis, Basis::Calibrated);
    assert!(seen.unseen.is_empty());

    // The generation and the engine were each seen, never together.
    let apart = cells.standing(&cell("MI300X", "CDNA3", "vllm", "vllm"));
    assert_eq!(apart.basis, Basis::Extrapolated);
    assert_eq!(
        apart.unseen,
        "no measured row of MI300X under vLLM was fitted"
    );
}

#[test]
fn another_gpu_of_the_generation_under_the_engine_is_transferred() {
    let cells = fitted();
    let other = cells.standing(&cell("H20", "Hopper", "vllm", "vllm"));
    assert_eq!(other.basis, Basis::Transferred);
    assert_eq!(
        other.unseen,
        "no measured row of H20 under vLLM was fitted; others of Hopper were"
    );
    let older = cells.standing(&cell("H100 SXM5 80GB", "Hopper", "vllm", "vllm-2024"));
    assert_eq!(older.basis, Basis::Transferred);
    assert!(older.unseen.contains("vllm-2024"), "{}", older.unseen);
}

#[test]
fn a_precision_or_architecture_that_neither_was_seen_with_is_extrapolated() {
    let cells = fitted();
    let h100 = || cell("H100 SXM5 80GB", "Hopper", "vllm", "vllm");
    let precision = cells.standing(&Cell {
        weights: "nvfp4".into(),
        ..h100()
    });
    assert_eq!(precision.basis, Basis::Extrapolated);
    assert!(precision.unseen.contains("nvfp4"), "{}", precision.unseen);
    let recurrent = cells.standing(&Cell {
        architecture: ArchitectureClass::Recurrent,
        ..h100()
    });
    assert_eq!(recurrent.basis, Basis::Extrapolated);
    assert!(
        recurrent.unseen.contains("recurrent layers"),
        "{}",
        recurrent.unseen
    );
    let batch = cells.standing(&Cell {
        regime: Regime::Batch,
        ..h100()
    });
    assert_eq!(batch.basis, Basis::Transferred);
    assert!(batch.unseen.contains("static batch"), "{}", batch.unseen);
}

fn row(class: MetricClass, bucket: &str, basis: Basis, high: f64) -> RangeRow {
    RangeRow {
        local: false,
        class,
        bucket: bucket.into(),
        basis,
        range: Range {
            low: 1.0 / high,
            high,
        },
        rows: 100,
        groups: 5,
    }
}

#[test]
fn a_missing_range_falls_back_to_a_wider_one() {
    let ranges = Ranges {
        rows: vec![
            row(MetricClass::Tpot, "", Basis::Calibrated, 1.2),
            row(MetricClass::Tpot, "vllm", Basis::Calibrated, 1.1),
            row(MetricClass::Tpot, "", Basis::Extrapolated, 1.8),
        ],
    };
    let high = |class, engine, bucket, basis| ranges.get(class, engine, bucket, basis).high;
    let vllm = EngineKind::Vllm;
    let own = high(MetricClass::Tpot, vllm, "vllm", Basis::Calibrated);
    let all = high(MetricClass::Tpot, vllm, "sglang", Basis::Calibrated);
    let between = high(MetricClass::Tpot, vllm, "vllm", Basis::Transferred);
    let tail = high(MetricClass::TpotTail, vllm, "vllm", Basis::Calibrated);
    assert!((own - 1.1).abs() < 1e-12 && (all - 1.2).abs() < 1e-12);
    assert!((between - 1.8).abs() < 1e-12);
    assert!(tail > own);
    // Ranges of servers say nothing of llama.cpp.
    let local = high(
        MetricClass::Tpot,
        EngineKind::LlamaCpp,
        "",
        Basis::Calibrated,
    );
    assert!(local > 2.5);
}
