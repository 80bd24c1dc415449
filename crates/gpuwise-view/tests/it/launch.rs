//! What starts a deployment: exact commands and manifests, and that their reader gives back the
//! settings that were assumed.

use crate::fixture::{Row, deployment};
use gpuwise_domain::{
    deployment::{Adapters, Deployment, PrefillPool, Settings},
    engine::{EngineKind, Release},
    estimate::Basis,
    facts::{Context, EngineFacts, PoolRole, Vendor, release_of},
    layout::Layout,
};
use gpuwise_read::{catalogue::read_engine_facts, launch};
use gpuwise_units::Bytes;
use gpuwise_view::launch::{EmitError, Form, emit};
use proptest::prelude::*;
use std::{fs, path::PathBuf, sync::LazyLock};

static FACTS: LazyLock<Vec<EngineFacts>> = LazyLock::new(|| {
    ["vllm", "sglang", "trtllm", "llamacpp"]
        .map(|engine| {
            let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../catalogue/engines");
            let text = fs::read_to_string(root.join(format!("{engine}.toml"))).unwrap();
            read_engine_facts(engine, &text).unwrap()
        })
        .into()
});

pub(crate) fn facts(engine: EngineKind) -> &'static EngineFacts {
    FACTS.iter().find(|facts| facts.engine == engine).unwrap()
}

pub(crate) fn sized(engine: EngineKind, release: &str, layout: Layout) -> Deployment {
    let row = Row {
        gpu: "H100 SXM5 80GB",
        layout,
        weights: "bf16",
        ttft: (0.4, 0.3, 0.5),
        tpot: (0.03, 0.02, 0.04),
        load: 0.7,
        price: None,
        provider: "a",
        idle: 0,
        basis: Basis::Calibrated,
    };
    Deployment {
        model: "org/Model-7B".into(),
        engine,
        release: release_of(engine, release),
        rental: None,
        settings: Settings {
            max_context: 32_768,
            block: match engine {
                EngineKind::Sglang => 1,
                EngineKind::TensorRtLlm => 32,
                _ => 16,
            },
            ..deployment(&row).settings
        },
        ..deployment(&row)
    }
}

pub(crate) fn hopper() -> Context {
    Context {
        gpu_gib: Some(79.6),
        compute_capability: Some((9, 0)),
        vendor: Some(Vendor::Nvidia),
        ..Context::default()
    }
}

pub(crate) fn emitted(form: Form, deployment: &Deployment) -> Result<String, EmitError> {
    emit(form, deployment, facts(deployment.engine), &hopper())
}

#[test]
fn a_vllm_command() {
    let mut deployment = sized(
        EngineKind::Vllm,
        "0.33.0",
        Layout {
            replicas: 3,
            ..Layout::tensor(4)
        },
    );
    deployment.weights = "fp8".into();
    deployment.weights_published = false;
    deployment.cache = "fp8".into();
    insta::assert_snapshot!(emitted(Form::Engine(EngineKind::Vllm), &deployment).unwrap());
}

#[test]
fn an_sglang_command_with_experts() {
    let layout = Layout {
        attention_data: 8,
        expert: 8,
        ..Layout::SINGLE
    };
    let mut deployment = sized(EngineKind::Sglang, "0.5.23", layout);
    deployment.draft_tokens = 2;
    insta::assert_snapshot!(emitted(Form::Engine(EngineKind::Sglang), &deployment).unwrap());
}

#[test]
fn trtllm_with_its_settings_file() {
    let layout = Layout {
        attention_data: 8,
        expert: 8,
        ..Layout::SINGLE
    };
    let mut deployment = sized(EngineKind::TensorRtLlm, "1.2.1", layout);
    deployment.cache = "fp8".into();
    deployment.draft_tokens = 3;
    insta::assert_snapshot!(emitted(Form::Engine(EngineKind::TensorRtLlm), &deployment).unwrap());
    insta::assert_snapshot!(
        "trtllm_in_docker",
        emitted(Form::Docker, &deployment).unwrap()
    );
    insta::assert_snapshot!(
        "trtllm_in_kubernetes",
        emitted(Form::Kubernetes, &deployment).unwrap()
    );
    insta::assert_snapshot!(
        "trtllm_in_kserve",
        emitted(Form::KServe, &deployment).unwrap()
    );
}

#[test]
fn a_llamacpp_command() {
    let mut deployment = sized(
        EngineKind::LlamaCpp,
        "b11434",
        Layout {
            pipeline: 2,
            ..Layout::SINGLE
        },
    );
    deployment.model = "/models/model q4.gguf".into();
    deployment.weights = "q4_k".into();
    deployment.cache = "q8_0".into();
    deployment.settings.sequences = 8;
    deployment.memory.cache_tokens = 300_000;
    deployment.settings.batched_tokens = 512;
    insta::assert_snapshot!(emitted(Form::Engine(EngineKind::LlamaCpp), &deployment).unwrap());
}

#[test]
fn slices_in_kubernetes() {
    let mut deployment = sized(
        EngineKind::Vllm,
        "0.33.0",
        Layout {
            replicas: 2,
            ..Layout::SINGLE
        },
    );
    deployment.slice = Some("1g.10gb+me".into());
    insta::assert_snapshot!(
        "slices_in_kubernetes",
        emitted(Form::Kubernetes, &deployment).unwrap()
    );
    insta::assert_snapshot!(
        "slices_in_an_inference_pool",
        emitted(Form::Inference, &deployment).unwrap()
    );
    insta::assert_snapshot!(
        "slices_in_docker",
        emitted(Form::Docker, &deployment).unwrap()
    );
}

#[test]
fn pools_in_kubernetes() {
    let mut deployment = sized(
        EngineKind::Sglang,
        "0.5.23",
        Layout {
            replicas: 2,
            ..Layout::tensor(4)
        },
    );
    deployment.prefill = Some(PrefillPool {
        layout: Layout {
            replicas: 3,
            ..Layout::tensor(2)
        },
    });
    let text = emitted(Form::Kubernetes, &deployment).unwrap();
    insta::assert_snapshot!(text);
    let refused = emitted(Form::KServe, &deployment).unwrap_err().to_string();
    assert!(refused.contains("emit k8s"), "{refused}");
    let refused = emitted(Form::Inference, &deployment).unwrap_err();
    assert!(refused.to_string().contains("emit llm-d"), "{refused}");
}

#[test]
fn gpus_of_amd_are_asked_for_by_their_name() {
    let context = Context {
        vendor: Some(Vendor::Amd),
        gpu_gib: Some(191.0),
        ..Context::default()
    };
    let deployment = sized(EngineKind::Vllm, "0.33.0", Layout::tensor(2));
    let emitted = |form| emit(form, &deployment, facts(EngineKind::Vllm), &context).unwrap();
    let manifest = emitted(Form::Kubernetes);
    assert!(manifest.contains("amd.com/gpu: 2\n"), "{manifest}");
    assert!(
        manifest.contains("image: \"vllm/vllm-openai-rocm:v0.33.0\""),
        "{manifest}"
    );
    assert!(emitted(Form::Docker).contains("--device /dev/kfd"));
}

#[test]
fn what_a_release_cannot_do_is_said() {
    let check = |form: Form,
                 change: &dyn Fn(&mut Deployment),
                 engine: EngineKind,
                 release: &str,
                 expected: &str| {
        let mut deployment = sized(engine, release, Layout::SINGLE);
        change(&mut deployment);
        let error = emitted(form, &deployment).unwrap_err().to_string();
        assert_eq!(error, expected);
    };
    let vllm = EngineKind::Vllm;
    check(
        Form::Engine(EngineKind::Sglang),
        &|_| {},
        vllm,
        "0.33.0",
        "this deployment was sized for vLLM; sglang starts another engine, with other memory and speed: plan again \
         for it, or emit vllm",
    );
    check(
        Form::Engine(EngineKind::Vllm),
        &|d| d.layout.attention_data = 2,
        vllm,
        "0.8.0",
        "vLLM 0.8.0 has no flag for data parallel size, which this deployment needs (2): `--data-parallel-size` came \
         with 0.8.3",
    );
    check(
        Form::Engine(EngineKind::Vllm),
        &|d| d.cache = "nvfp4".into(),
        vllm,
        "0.15.0",
        "vLLM 0.15.0 does not take `--kv-cache-dtype nvfp4`; it takes auto, bfloat16, fp8, fp8_e4m3, fp8_e5m2, \
         fp8_inc, fp8_ds_mla",
    );
    check(
        Form::Engine(EngineKind::Vllm),
        &|d| {
            d.layout = Layout {
                attention_data: 4,
                expert: 2,
                ..Layout::SINGLE
            }
        },
        vllm,
        "0.33.0",
        "vLLM 0.33.0 cannot be started so: experts are spread over all 4 ranks of a stage or over none, not over 2",
    );
    check(
        Form::Engine(EngineKind::LlamaCpp),
        &|d| d.layout.attention_data = 2,
        EngineKind::LlamaCpp,
        "b11434",
        "llama.cpp (llama-server) b11434 cannot be started so: DP2: it splits layers (PP) or rows (TP) over GPUs and \
         nothing else",
    );
    check(
        Form::Engine(EngineKind::TensorRtLlm),
        &|_| {},
        EngineKind::TensorRtLlm,
        "0.12.0",
        "TensorRT-LLM 0.12.0: no server command of this release is known; name a newer release",
    );
    let rented = |d: &mut Deployment| {
        let row = sized(vllm, "0.33.0", Layout::SINGLE);
        *d = Deployment {
            layout: Layout {
                pipeline: 2,
                ..Layout::tensor(8)
            },
            ..row
        };
        d.rental = Some(crate::fixture::sizing().ranked[0].rental.clone().unwrap());
        let rental = d.rental.as_mut().unwrap();
        (rental.instance, rental.gpu_thousandths) = ("hgx".into(), 8000);
    };
    check(
        Form::Docker,
        &rented,
        vllm,
        "0.33.0",
        "a replica takes 16 GPUs and hgx has 8: one container cannot hold it; emit vllm and start it on every host",
    );
}

#[test]
fn llamacpp_has_as_many_slots_as_its_cache_holds() {
    for (sequences, cache_tokens, expected) in [
        (4096, 100_000, "--parallel 3 \\\n  --ctx-size 98304 "),
        (4096, u64::MAX, "--parallel 256 \\\n  --ctx-size 8388608 "),
        (2, 100_000, "--parallel 2 \\\n  --ctx-size 65536 "),
        (2, 0, "--parallel 1 \\\n  --ctx-size 32768 "),
    ] {
        let mut deployment = sized(EngineKind::LlamaCpp, "b11434", Layout::SINGLE);
        deployment.settings.sequences = sequences;
        deployment.memory.cache_tokens = cache_tokens;
        let text = emitted(Form::Engine(EngineKind::LlamaCpp), &deployment).unwrap();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn what_the_silicon_lacks_is_said_before_the_command() {
    let context = Context {
        compute_capability: Some((7, 5)),
        ..hopper()
    };
    let mut deployment = sized(EngineKind::Vllm, "0.33.0", Layout::SINGLE);
    deployment.cache = "fp8".into();
    let text = emit(
        Form::Engine(EngineKind::Vllm),
        &deployment,
        facts(EngineKind::Vllm),
        &context,
    )
    .unwrap();
    let expected = "# beware: kv:fp8 needs compute_capability>=8.0 in vLLM 0.33.0\n";
    assert!(text.contains(expected), "{text}");
    assert!(
        !emitted(Form::Engine(EngineKind::Vllm), &deployment)
            .unwrap()
            .contains("beware")
    );
}

fn layouts() -> impl Strategy<Value = Layout> {
    (0u32..4, 0u32..3, 0u32..4, any::<bool>()).prop_map(|(tensor, pipeline, data, expert)| {
        let mut layout = Layout {
            tensor: 1 << tensor,
            pipeline: pipeline + 1,
            attention_data: 1 << data,
            ..Layout::SINGLE
        };
        layout.expert = if expert { layout.stage_gpus() } else { 1 };
        layout
    })
}

fn deployments() -> impl Strategy<Value = Deployment> {
    let engines = [
        (EngineKind::Vllm, "0.9.0"),
        (EngineKind::Vllm, "0.20.0"),
        (EngineKind::Vllm, "0.33.0"),
        (EngineKind::Sglang, "0.5.0"),
        (EngineKind::Sglang, "0.5.23"),
        (EngineKind::TensorRtLlm, "1.0.0"),
        (EngineKind::TensorRtLlm, "1.2.1"),
        (EngineKind::LlamaCpp, "b8000"),
    ];
    let settings = (
        1u64..100_000,
        1u64..5000,
        1u64..1_000_000,
        1u32..100,
        1u64..128,
        any::<bool>(),
    );
    (
        prop::sample::select(engines.to_vec()),
        layouts(),
        settings,
        0u32..5,
        any::<bool>(),
        "[a-zA-Z0-9' $\"\\\\._/-]{1,20}",
    )
        .prop_map(
            |((engine, release), layout, settings, drafts, lora, model)| {
                let mut deployment = sized(engine, release, layout);
                let (batched_tokens, sequences, max_context, percent, block, eager) = settings;
                deployment.settings = Settings {
                    batched_tokens,
                    sequences,
                    max_context,
                    memory_fraction: f64::from(percent) / 100.0,
                    block,
                    eager,
                };
                deployment.draft_tokens = drafts;
                deployment.adapters = lora.then_some(Adapters { count: 3, rank: 16 });
                // A lone dash before it would be a flag in any shell.
                deployment.model = format!("m{model}.gguf");
                match engine {
                    EngineKind::TensorRtLlm if layout.attention_data > 1 => {
                        deployment.layout.tensor = 1;
                        deployment.layout.expert = if layout.expert > 1 {
                            layout.attention_data
                        } else {
                            1
                        };
                    }
                    EngineKind::LlamaCpp => {
                        deployment.layout = if layout.tensor > 1 {
                            Layout::tensor(layout.tensor)
                        } else {
                            Layout {
                                pipeline: layout.pipeline,
                                ..Layout::SINGLE
                            }
                        };
                        // As many slots as the cache holds and the server takes.
                        deployment.settings.sequences = sequences % 256 + 1;
                        deployment.memory.cache_tokens = u64::MAX;
                        // It has no such settings.
                        deployment.settings.memory_fraction = 0.9;
                        deployment.settings.block = 16;
                        deployment.settings.eager = false;
                        deployment.adapters = None;
                    }
                    _ => {}
                }
                deployment
            },
        )
}

fn own_form(engine: EngineKind) -> Form {
    Form::all()
        .into_iter()
        .find(|form| form.engine() == Some(engine))
        .unwrap()
}

/// What the engine takes where a command says nothing.
fn defaults(deployment: &Deployment) -> Settings {
    let facts = facts(deployment.engine);
    let number = |setting| {
        facts
            .setting(setting, deployment.release, &hopper())
            .and_then(gpuwise_domain::facts::Value::number)
    };
    Settings {
        batched_tokens: 0,
        sequences: 0,
        max_context: 0,
        memory_fraction: 0.9,
        block: number("block_size").or(number("page_size")).unwrap_or(16.0) as u64,
        eager: false,
    }
}

proptest! {
    #[test]
    fn what_is_emitted_is_read_back(deployment in deployments()) {
        for form in [own_form(deployment.engine), Form::Docker] {
            let text = emitted(form, &deployment).unwrap();
            let read = launch::parse(&text, &FACTS, deployment.release).unwrap();
            let context = format!("{text}\n{read:?}");
            prop_assert_eq!(read.engine, deployment.engine);
            prop_assert_eq!(read.model.as_deref(), Some(deployment.model.as_str()), "{}", context);
            prop_assert_eq!(read.layout(true), deployment.layout, "{}", context);
            prop_assert_eq!(read.settings(defaults(&deployment)), deployment.settings, "{}", context);
            prop_assert_eq!(read.draft_tokens.unwrap_or(0), deployment.draft_tokens, "{}", context);
            prop_assert_eq!(read.adapters, deployment.adapters, "{}", context);
            prop_assert_eq!(&read.unknown, &[], "{}", context);
        }
    }
}

#[test]
fn pools_are_read_back() {
    for (engine, release) in [
        (EngineKind::Vllm, "0.33.0"),
        (EngineKind::Sglang, "0.5.23"),
        (EngineKind::TensorRtLlm, "1.2.1"),
    ] {
        let mut deployment = sized(engine, release, Layout::tensor(4));
        deployment.prefill = Some(PrefillPool {
            layout: Layout::tensor(2),
        });
        let text = emitted(own_form(engine), &deployment).unwrap();
        let read: Vec<_> = launch::parse_all(&text, &FACTS, None)
            .unwrap()
            .iter()
            .map(|launch| (launch.role, launch.tensor))
            .collect();
        let expected = [
            (Some(PoolRole::Prefill), Some(2)),
            (Some(PoolRole::Decode), Some(4)),
        ];
        assert_eq!(read, expected, "{text}");
    }
}

/// A release that nobody states is the newest that the facts cover.
#[test]
fn an_unstated_release_is_the_newest() {
    let mut deployment = sized(EngineKind::Vllm, "0.33.0", Layout::SINGLE);
    let stated = emitted(Form::Engine(EngineKind::Vllm), &deployment);
    deployment.release = None::<Release>;
    assert_eq!(emitted(Form::Engine(EngineKind::Vllm), &deployment), stated);
}

/// A deployment whose GPUs keep prefixes in 64 GiB of host memory each.
fn offloaded(engine: EngineKind, release: &str, layout: Layout) -> Deployment {
    Deployment {
        host_cache: Bytes::new(64 << 30),
        ..sized(engine, release, layout)
    }
}

#[test]
fn host_memory_for_prefixes_is_told_as_each_release_takes_it() {
    let two = Layout::tensor(2);
    for (engine, release, form, expected) in [
        (
            EngineKind::Vllm,
            "0.33.0",
            Form::Engine(EngineKind::Vllm),
            "--kv-offloading-size 128 --kv-offloading-backend native",
        ),
        (
            EngineKind::Vllm,
            "0.11.0",
            Form::Engine(EngineKind::Vllm),
            "has to be configured: name OffloadingConnector",
        ),
        (
            EngineKind::Sglang,
            "0.5.23",
            Form::Engine(EngineKind::Sglang),
            "--enable-hierarchical-cache --hicache-size 68",
        ),
        (
            EngineKind::Sglang,
            "0.4.5",
            Form::Engine(EngineKind::Sglang),
            "has to be configured: --hicache-ratio",
        ),
        (
            EngineKind::TensorRtLlm,
            "1.2.1",
            Form::Engine(EngineKind::TensorRtLlm),
            "host_cache_size: 68719476736",
        ),
        (
            EngineKind::LlamaCpp,
            "b11434",
            Form::Engine(EngineKind::LlamaCpp),
            "--cache-ram 131072",
        ),
        (EngineKind::Vllm, "0.33.0", Form::Docker, "--shm-size 144g"),
        (
            EngineKind::Vllm,
            "0.33.0",
            Form::Kubernetes,
            "memory: 144Gi",
        ),
        (
            EngineKind::Vllm,
            "0.33.0",
            Form::Kubernetes,
            "sizeLimit: 144Gi",
        ),
    ] {
        let text = emitted(form, &offloaded(engine, release, two)).unwrap();
        let joined = text.replace(" \\\n  ", " ").replace("\n# ", " ");
        assert!(joined.contains(expected), "{expected} is not in {text}");
        let without = emitted(form, &sized(engine, release, two)).unwrap();
        assert!(
            !without.contains("hicache") && !without.contains("memory: "),
            "{without}"
        );
    }
}

#[test]
fn prefixes_are_kept_where_prompts_are_computed() {
    let mut deployment = offloaded(EngineKind::Sglang, "0.5.23", Layout::SINGLE);
    deployment.prefill = Some(PrefillPool {
        layout: Layout::SINGLE,
    });
    let text = emitted(Form::Engine(EngineKind::Sglang), &deployment).unwrap();
    assert_eq!(text.matches("--hicache-size").count(), 1, "{text}");
}

#[test]
fn draft_models_are_told_as_each_release_takes_them() {
    for (engine, release, expected) in [
        (
            EngineKind::Vllm,
            "0.33.0",
            r#"--speculative-config '{"method":"draft_model","model":"org/Draft-1B","num_speculative_tokens":4}'"#,
        ),
        (
            EngineKind::Vllm,
            "0.7.3",
            "--speculative-model org/Draft-1B --num-speculative-tokens 4",
        ),
        (
            EngineKind::Vllm,
            "0.11.0",
            "beware: mode:speculative_draft_model came with 0.15",
        ),
        (
            EngineKind::Sglang,
            "0.5.23",
            "--speculative-algorithm STANDALONE --speculative-draft-model-path org/Draft-1B \
             --speculative-num-steps 4 --speculative-eagle-topk 1 --speculative-num-draft-tokens 5",
        ),
        (
            EngineKind::TensorRtLlm,
            "1.2.1",
            "speculative_config:\n  decoding_type: DraftTarget\n  max_draft_len: 4\n  speculative_model_dir: \"org/Draft-1B\"\n",
        ),
        (
            EngineKind::TensorRtLlm,
            "1.3.0",
            "decoding_type: Draft_Target\n  max_draft_len: 4\n  speculative_model: \"org/Draft-1B\"\n",
        ),
        (
            EngineKind::LlamaCpp,
            "b11434",
            "--spec-draft-n-max 4 --model-draft org/Draft-1B --n-gpu-layers-draft 999 \
             --cache-type-k-draft f16 --cache-type-v-draft f16",
        ),
    ] {
        let deployment = Deployment {
            draft_tokens: 4,
            draft_model: Some("org/Draft-1B".into()),
            ..sized(engine, release, Layout::SINGLE)
        };
        let text = emitted(own_form(engine), &deployment).unwrap();
        let joined = text.replace(" \\\n  ", " ");
        assert!(joined.contains(expected), "{expected} is not in {text}");
        let read = launch::parse(&text, &FACTS, deployment.release).unwrap();
        assert_eq!(
            (read.draft_tokens, read.draft_model.as_deref()),
            (Some(4), Some("org/Draft-1B")),
            "{text}"
        );
        let none = Deployment {
            draft_tokens: 0,
            ..deployment
        };
        assert!(
            !emitted(own_form(engine), &none)
                .unwrap()
                .contains("Draft-1B")
        );
    }
}
