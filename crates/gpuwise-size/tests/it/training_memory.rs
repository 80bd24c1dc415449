//! Memory of training: what PEFT allocates, sums by hand, laws, and what is refused.

use crate::fixture::model;
use gpuwise_domain::{
    model::Architecture,
    training::{
        Adapter, AdapterKind, BaseStorage, Framework, LossKernel, MemoryCause, Method, Offload,
        Optimizer, Recipe, Recompute, Sharding, TrainingLayout, TrainingMemory, TrainingSetup,
    },
};
use gpuwise_size::training::memory::{
    adapter_named, checkpoint_bytes, fits, largest_micro_batch, training_memory,
};
use gpuwise_units::Tokens;
use proptest::prelude::*;

const GB: f64 = 1e9;

/// One GPU under Hugging Face in BF16, full fine-tuning.
fn one_gpu(sequence: u64, micro_batch: u64) -> TrainingSetup {
    TrainingSetup {
        method: Method::Full,
        alignment: None,
        recipe: Recipe::PureBf16,
        optimizer: Optimizer::AdamW,
        recompute: Recompute::None,
        loss: LossKernel::Eager,
        framework: Framework::HuggingFace,
        sequence: Tokens(sequence),
        micro_batch,
        global_batch: micro_batch,
        layout: TrainingLayout::data(1),
        sharding: Sharding::None,
        offload: Offload::default(),
        compiled: false,
        step_in_backward: false,
    }
}

fn adapter(name: &str, rank: Option<u32>, modules: &[&str]) -> Method {
    Method::Adapter(Adapter {
        kind: adapter_named(name).expect("a method"),
        name: Some(name.into()),
        rank,
        modules: modules.iter().map(ToString::to_string).collect(),
        trainable: None,
        base: BaseStorage::SixteenBit,
    })
}

fn cause(memory: &TrainingMemory, wanted: MemoryCause) -> f64 {
    let rank = memory.fullest().expect("a rank");
    let found = rank.causes.iter().find(|(cause, _)| *cause == wanted);
    found.map_or(0.0, |(_, bytes)| bytes.as_f64())
}

/// Peaks of Llama-3.2-3B at 4 x 768 tokens, found by running PEFT's own layers (0.21.2, transformers
/// 5.23) on tensors without data and adding up every storage alive: what PyTorch allocates, in GB.
#[test]
fn the_sum_is_what_peft_allocates() {
    let architecture = model("meta-llama/Llama-3.2-3B");
    let mlp = ["gate_proj", "up_proj", "down_proj"];
    for (name, rank, modules, allocated) in [
        ("lora", Some(32), &["q_proj", "v_proj"][..], 23.137),
        ("rslora", Some(64), &[], 23.269),
        ("dora", Some(32), &[], 25.254),
        ("delora", Some(32), &[], 23.160),
        ("vera", Some(256), &[], 22.484),
        ("pvera", Some(64), &[], 22.480),
        ("ia3", None, &[], 24.067),
        ("road", None, &[], 23.714),
        ("hira", Some(32), &[], 24.474),
        ("c3a", None, &[], 23.071),
        ("fourierft", None, &[], 24.366),
        ("glora", Some(8), &[], 22.155),
        ("oft", Some(32), &[], 23.369),
        ("peanut", Some(1), &[], 25.777),
        ("randlora", Some(32), &[], 23.583),
        ("supertuning", Some(8), &[], 24.331),
        ("supertuning", None, &[], 22.154),
        ("deft", Some(32), &[], 24.604),
        ("trainable_tokens", None, &[], 21.736),
        ("lora", Some(10), &mlp, 25.829),
    ] {
        let setup = TrainingSetup {
            method: adapter(name, rank, modules),
            ..one_gpu(768, 4)
        };
        let memory = training_memory(&architecture, &setup).expect("memory");
        let rank = memory.fullest().expect("a rank");
        let ours = (rank.peak.value - cause(&memory, MemoryCause::Context)) / GB;
        assert!(
            (ours / allocated - 1.0).abs() < 0.012,
            "{name}: {ours:.3} GB, allocated {allocated}"
        );
    }
}

#[test]
fn states_are_bytes_times_parameters() {
    use MemoryCause::{Gradients, MasterWeights, OptimizerStates, Weights};

    let architecture = model("meta-llama/Llama-3.1-8B");
    let parameters = architecture.parameters().0 as f64;
    let sharded = |setup: TrainingSetup, ranks: u32, sharding| TrainingSetup {
        layout: TrainingLayout::data(ranks),
        global_batch: setup.micro_batch * u64::from(ranks),
        sharding,
        ..setup
    };
    let mixed = |framework| TrainingSetup {
        recipe: Recipe::MixedBf16,
        framework,
        ..one_gpu(2048, 1)
    };
    // Bytes a parameter: weights, FP32 copy, gradients, moments.
    for (name, setup, expected) in [
        (
            "pure BF16, one GPU",
            sharded(one_gpu(2048, 1), 1, Sharding::None),
            [2.0, 0.0, 2.0, 4.0],
        ),
        (
            "Megatron, distributed optimizer over 8",
            sharded(mixed(Framework::Megatron), 8, Sharding::Optimizer),
            [2.0, 0.5, 4.0, 1.0],
        ),
        (
            "FSDP over 16",
            TrainingSetup {
                global_batch: 64,
                ..sharded(mixed(Framework::PyTorch), 16, Sharding::Full)
            },
            [0.0, 0.25, 0.25, 0.5],
        ),
        (
            "ZeRO-2 over 4",
            TrainingSetup {
                global_batch: 64,
                ..sharded(mixed(Framework::HuggingFace), 4, Sharding::Gradients)
            },
            [2.0, 1.0, 0.5, 2.0],
        ),
        (
            "HSDP, groups of 8",
            TrainingSetup {
                global_batch: 64,
                ..sharded(mixed(Framework::PyTorch), 16, Sharding::Hybrid { group: 8 })
            },
            [0.0, 0.5, 0.5, 1.0],
        ),
    ] {
        let memory = training_memory(&architecture, &setup).expect("memory");
        let causes = [Weights, MasterWeights, Gradients, OptimizerStates];
        for (kind, bytes) in causes.into_iter().zip(expected) {
            let held = cause(&memory, kind);
            // Gradients count where the highest phase has them.
            if kind == Gradients && held == 0.0 {
                continue;
            }
            let each = held / parameters;
            assert!(
                (each - bytes).abs() < 1e-6,
                "{name}: {kind:?} {each}, not {bytes}"
            );
        }
    }
}

#[test]
fn pipelines_hold_most_where_most_is_in_flight() {
    let architecture = model("meta-llama/Llama-3.1-70B");
    let setup = TrainingSetup {
        recipe: Recipe::MixedBf16,
        framework: Framework::Megatron,
        loss: LossKernel::VocabularyParallel,
        sharding: Sharding::Optimizer,
        global_batch: 128,
        layout: TrainingLayout {
            tensor: 4,
            pipeline: 4,
            data: 2,
            sequence_parallel: true,
            ..TrainingLayout::data(2)
        },
        ..one_gpu(8192, 1)
    };
    let activations = |interleave| {
        let layout = TrainingLayout {
            interleave,
            ..setup.layout
        };
        let memory = training_memory(
            &architecture,
            &TrainingSetup {
                layout,
                ..setup.clone()
            },
        )
        .expect("memory");
        let all: Vec<f64> = memory
            .ranks
            .iter()
            .map(|rank| {
                let found = rank
                    .causes
                    .iter()
                    .find(|(cause, _)| *cause == MemoryCause::Activations);
                found.map_or(0.0, |(_, bytes)| bytes.as_f64())
            })
            .collect();
        all
    };
    // 1F1B: 4, 3, 2, 1 micro-batches of 20 layers each.
    let plain = activations(1);
    assert_eq!(plain.len(), 4);
    for (stage, bytes) in plain.iter().enumerate() {
        let expected = plain[3] * (4 - stage) as f64;
        assert!((bytes / expected - 1.0).abs() < 1e-6, "stage {stage}");
    }
    // Interleaved, two chunks a rank: the first stage begins 2 x 3 + 4 + 1 = 11 of half the layers.
    let interleaved = activations(2);
    assert!((interleaved[0] / plain[3] - 5.5).abs() < 1e-6);
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    let architecture = model("meta-llama/Llama-3.1-8B");
    let wrong = |setup: TrainingSetup| {
        training_memory(&architecture, &setup)
            .expect_err("refused")
            .to_string()
    };
    let modules = wrong(TrainingSetup {
        method: adapter("lora", Some(8), &["q_proj", "query"]),
        ..one_gpu(512, 1)
    });
    assert!(
        modules.contains("\"query\"") && modules.contains("o_proj"),
        "{modules}"
    );
    let stages = wrong(TrainingSetup {
        layout: TrainingLayout {
            pipeline: 64,
            ..TrainingLayout::data(1)
        },
        ..one_gpu(512, 1)
    });
    assert!(stages.contains("64") && stages.contains("32"), "{stages}");
    let method = wrong(TrainingSetup {
        method: Method::Adapter(Adapter {
            kind: AdapterKind::Lora,
            name: Some("lorra".into()),
            rank: None,
            modules: Vec::new(),
            trainable: None,
            base: BaseStorage::SixteenBit,
        }),
        ..one_gpu(512, 1)
    });
    assert!(method.contains("lora"), "{method}");
    assert!(wrong(one_gpu(0, 1)).contains("at least 1"));
}

#[test]
fn cures_of_what_does_not_fit_make_it_fit() {
    let architecture = model("meta-llama/Llama-3.1-8B");
    let setup = TrainingSetup {
        recipe: Recipe::MixedBf16,
        ..one_gpu(4096, 2)
    };
    let visible = 79.0 * 1073741824.0;
    let fit = fits(&architecture, &setup, visible).expect("an answer");
    assert!(!fit.fits(), "16 bytes a parameter and more are {}", 16 * 8);
    assert!(fit.fixes.iter().any(|fix| fix.enough));
    for fix in &fit.fixes {
        let again = fits(&architecture, &fix.setup, visible).expect("an answer");
        assert_eq!(again.fits(), fix.enough, "{}", fix.change);
    }
}

#[test]
fn a_checkpoint_is_fourteen_bytes_a_parameter() {
    let architecture = model("meta-llama/Llama-3.1-70B");
    let setup = TrainingSetup {
        recipe: Recipe::MixedBf16,
        framework: Framework::Megatron,
        ..one_gpu(4096, 1)
    };
    let bytes = checkpoint_bytes(&architecture, &setup).expect("bytes");
    assert_eq!(bytes.count(), 14 * architecture.parameters().0);
}

fn setups() -> impl Strategy<Value = TrainingSetup> {
    (
        (0u32..4, 0u32..3, 0u32..3, 0u32..2),
        1u64..6,
        (0usize..3, 0usize..3, 0usize..4, any::<bool>()),
        7u32..14,
    )
        .prop_map(
            |((data, tensor, pipeline, context), micro_batch, kinds, length)| {
                let layout = TrainingLayout {
                    tensor: 1 << tensor,
                    pipeline: 1 << pipeline,
                    interleave: 1,
                    context: 1 << context,
                    expert: 1,
                    data: 1 << data,
                    sequence_parallel: kinds.3,
                };
                TrainingSetup {
                    method: Method::Full,
                    alignment: None,
                    recipe: [Recipe::MixedBf16, Recipe::PureBf16, Recipe::Fp32][kinds.0],
                    framework: [
                        Framework::HuggingFace,
                        Framework::PyTorch,
                        Framework::Megatron,
                    ][kinds.1],
                    sharding: [
                        Sharding::None,
                        Sharding::Optimizer,
                        Sharding::Gradients,
                        Sharding::Full,
                    ][kinds.2],
                    global_batch: u64::from(layout.data) * micro_batch * 8,
                    layout,
                    ..one_gpu(1 << length, micro_batch)
                }
            },
        )
}

fn peak(architecture: &Architecture, setup: &TrainingSetup) -> f64 {
    let memory = training_memory(architecture, setup).expect("memory");
    memory.fullest().expect("a rank").peak.value
}

/// What is kept on the host is not kept on the GPU, whatever is trained.
#[test]
fn what_is_offloaded_is_never_held_beside() {
    let architecture = model("meta-llama/Llama-3.1-8B");
    for method in [Method::Full, adapter("lora", Some(16), &[])] {
        for (framework, sharding) in [
            (Framework::HuggingFace, Sharding::None),
            (Framework::HuggingFace, Sharding::Full),
            (Framework::PyTorch, Sharding::Full),
        ] {
            let plain = TrainingSetup {
                method: method.clone(),
                framework,
                sharding,
                recompute: Recompute::Full,
                layout: TrainingLayout::data(8),
                global_batch: 32,
                ..one_gpu(4096, 1)
            };
            let with = |optimizer, parameters, activations| TrainingSetup {
                offload: Offload {
                    optimizer,
                    parameters,
                    activations,
                },
                ..plain.clone()
            };
            let now = peak(&architecture, &plain);
            let at = format!("{framework:?} {sharding:?} {method:?}");
            assert!(
                peak(&architecture, &with(true, false, false)) <= now,
                "{at}"
            );
            assert!(
                peak(&architecture, &with(false, false, true)) <= now,
                "{at}"
            );
            if framework == Framework::PyTorch && method == Method::Full {
                // Shards, gradients and moments in BF16: 8 bytes of each eighth, but for a layer's gradients.
                let moved = now - peak(&architecture, &with(false, true, false));
                assert!(moved > 0.9 * 8.0 * 8.03e9 / 8.0, "{at}: {moved}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn causes_sum_to_the_peak_and_phases_do_not_exceed_it(setup in setups()) {
        let architecture = model("meta-llama/Llama-3.1-8B");
        let memory = training_memory(&architecture, &setup).expect("memory");
        for rank in &memory.ranks {
            let sum: f64 = rank.causes.iter().map(|(_, bytes)| bytes.as_f64()).sum();
            prop_assert!((sum - rank.peak.value).abs() < 32.0);
            for (phase, bytes) in &rank.phases {
                prop_assert!(bytes.as_f64() <= rank.peak.value + 32.0, "{phase:?}");
            }
            prop_assert!(rank.reserved.value >= rank.peak.value);
            prop_assert!(rank.peak.low <= rank.peak.value && rank.peak.value <= rank.peak.high);
        }
    }

    #[test]
    fn less_is_held_of_less(setup in setups()) {
        let architecture = model("meta-llama/Llama-3.1-8B");
        let now = peak(&architecture, &setup);
        let with = |change: fn(&mut TrainingSetup)| {
            let mut changed = setup.clone();
            change(&mut changed);
            peak(&architecture, &changed)
        };
        prop_assert!(with(|s| s.micro_batch += 1) >= now);
        prop_assert!(with(|s| s.sequence = Tokens(2 * s.sequence.0)) >= now);
        prop_assert!(with(|s| s.loss = LossKernel::Chunked) <= now);
        prop_assert!(with(|s| s.optimizer = Optimizer::AdamW8bit) <= now);
        prop_assert!(with(|s| s.layout.tensor *= 2) <= now);
        prop_assert!(with(|s| s.sharding = Sharding::Optimizer) <= with(|s| s.sharding = Sharding::None));
    }

    #[test]
    fn the_largest_micro_batch_fits_and_one_more_does_not(setup in setups(), gib in 24u32..200) {
        let architecture = model("meta-llama/Llama-3.2-3B");
        let visible = f64::from(gib) * 1073741824.0;
        let largest = largest_micro_batch(&architecture, &setup, visible, 64).expect("an answer");
        let fitting = |micro_batch: u64| {
            let changed = TrainingSetup {
                micro_batch,
                global_batch: setup.global_batch.max(u64::from(setup.layout.data) * micro_batch),
                ..setup.clone()
            };
            fits(&architecture, &changed, visible).expect("an answer").fits()
        };
        let most = largest.unwrap_or(0);
        prop_assert!(most == 0 || fitting(most));
        prop_assert!(most == 64 || !fitting(most + 1));
    }
}
