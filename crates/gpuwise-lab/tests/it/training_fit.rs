//! Fits of training: constants are found again from runs that they made.

use crate::fixture::{catalogue, model, training_facts};
use gpuwise_domain::training::{
    Framework, LossKernel, Method, Offload, Optimizer, Recipe, Recompute, Sharding, TrainingLayout,
    TrainingSetup,
};
use gpuwise_lab::training::{ConvergenceRun, FitRow, converge, fit_training};
use gpuwise_size::training::time::{
    StepWork, TrainingConstants, TrainingParameter, TrainingSystem,
};
use gpuwise_units::Tokens;

/// A run of PyTorch with sharded weights on eight GPUs.
fn sharded(sequence: u64, micro_batch: u64) -> TrainingSetup {
    TrainingSetup {
        method: Method::Full,
        alignment: None,
        recipe: Recipe::MixedBf16,
        optimizer: Optimizer::AdamW,
        recompute: Recompute::None,
        loss: LossKernel::VocabularyParallel,
        framework: Framework::PyTorch,
        sequence: Tokens(sequence),
        micro_batch,
        global_batch: 8 * micro_batch,
        layout: TrainingLayout::data(8),
        sharding: Sharding::Full,
        offload: Offload::default(),
        compiled: false,
        step_in_backward: false,
    }
}

#[test]
fn constants_are_found_again_from_runs_made_with_them() {
    // An oracle: runs of known constants, fitted blind, are predicted again.
    let catalogue = catalogue();
    let facts = training_facts();
    let mut truth = TrainingConstants::default();
    for (parameter, factor) in [
        (TrainingParameter::HalfMatmul, 0.85_f64),
        (TrainingParameter::Passes, 1.3),
        (TrainingParameter::LayerLaunch, 1.5),
        (TrainingParameter::GatherLink, 0.8),
    ] {
        truth.logarithms[parameter as usize] += factor.ln();
    }
    let mut rows = Vec::new();
    for name in [
        "llm-foundry/mpt-125m",
        "llm-foundry/mpt-1b",
        "mosaicml/mpt-7b",
    ] {
        let architecture = model(name);
        for gpu in ["A100 SXM4 80GB", "H100"] {
            let system = TrainingSystem::usual(catalogue.gpu(gpu).expect("a GPU"), &facts);
            for (sequence, micro_batch) in [(512, 16), (2048, 1), (2048, 8), (16384, 1)] {
                let setup = sharded(sequence, micro_batch);
                let work = StepWork::new(&architecture, &setup, &system);
                let mut row = FitRow {
                    work,
                    setup,
                    system: system.clone(),
                    measured: 1.0,
                };
                row.measured = row.predicted(&truth);
                rows.push(row);
            }
        }
    }
    let fitted = fit_training(&rows.iter().collect::<Vec<_>>());
    for row in &rows {
        let off = (row.predicted(&fitted) / row.measured - 1.0).abs();
        assert!(off < 0.03, "{off}");
    }
}

#[test]
fn time_to_a_quality_follows_its_table() {
    let facts = training_facts();
    let catalogue = catalogue();
    let gpu = catalogue.gpu("H200").expect("a GPU");
    let benchmark = facts.benchmark("stable_diffusion").expect("a benchmark");
    let constants = facts.convergence.unwrap_or_default();
    let run = |gpus: f64, batch: f64| {
        let run = ConvergenceRun {
            benchmark,
            system: TrainingSystem::usual(gpu, &facts),
            gpus,
            batch: Some(batch),
            without_libraries: false,
            four_bit: None,
        };
        converge(&run, &constants)
    };
    // Known points, between them, below the first and beyond the last.
    for (batch, samples) in [
        (256.0, 2_022_000.0),
        (512.0, 2_597_000.0),
        (724.077_343_935, 2_736_000.0),
        (64.0, 2_022_000.0),
        (8192.0, 7_954_000.0),
    ] {
        let off = run(8.0, batch).samples / samples - 1.0;
        assert!(off.abs() < 1e-6, "{batch}: {off}");
    }
    // More GPUs: sooner, by less than their number.
    let (eight, sixty_four) = (run(8.0, 512.0), run(64.0, 512.0));
    assert!(sixty_four.seconds < eight.seconds);
    assert!(sixty_four.throughput < 8.0 * eight.throughput);
    assert!((eight.throughput * eight.step / 512.0 - 1.0).abs() < 1e-12);
}
