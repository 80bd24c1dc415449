//! Launch commands as people paste them.

#![expect(clippy::unwrap_used, reason = "tables of cases")]

use crate::engine_facts::facts;
use gpuwise_domain::{
    deployment::{Adapters, Settings},
    engine::{EngineKind, Release},
    facts::{EngineFacts, Launch, PoolRole},
};
use gpuwise_read::launch::{parse, parse_all, pools};
use std::sync::LazyLock;

static FACTS: LazyLock<Vec<EngineFacts>> = LazyLock::new(|| {
    ["vllm", "sglang", "trtllm", "llamacpp", "transformers"]
        .into_iter()
        .map(facts)
        .collect()
});

fn read(command: &str) -> Launch {
    parse(command, &FACTS, None).unwrap_or_else(|error| panic!("{command}: {error}"))
}

/// Engine, release, model, and what stands in a layout with experts.
fn check(command: &str, expected: &str) {
    let launch = read(command);
    let release = launch
        .release
        .map_or("-".into(), |release| release.to_string());
    let model = launch.model.clone().unwrap_or("-".into());
    let said = format!(
        "{} {release} {model} {}",
        launch.engine.name(),
        launch.layout(true)
    );
    assert_eq!(said, expected, "{command}\n{launch:?}");
    assert_eq!(launch.unknown, [], "{command}");
}

#[test]
fn forms_of_commands() {
    for (command, expected) in [
        (
            "vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 4",
            "vllm - meta-llama/Llama-3.1-70B-Instruct TP4",
        ),
        (
            "vllm serve m --tensor-parallel-size=4 --pipeline_parallel_size 2",
            "vllm - m TP4 × PP2",
        ),
        (
            "  HF_TOKEN=x CUDA_VISIBLE_DEVICES=0,1 vllm serve 'my model' -tp 2 \\\n  --port 80",
            "vllm - my model TP2",
        ),
        (
            "vllm serve m\n  -tp 8\n  -ep # spread\n  -dp 2",
            "vllm - m TP8 × DP2 × EP16",
        ),
        (
            "python3 -m vllm.entrypoints.openai.api_server --model m -tp=2",
            "vllm - m TP2",
        ),
        (
            "/opt/venv/bin/vllm serve m > log.txt 2>&1 &",
            "vllm - m 1 GPU",
        ),
        (
            "export A=1; cd /x && vllm serve m -tp 2 | tee log",
            "vllm - m TP2",
        ),
        ("bash -c \"vllm serve m -tp 2\"", "vllm - m TP2"),
        (
            "docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.11.0 --model m -tp 2",
            "vllm 0.11.0 m TP2",
        ),
        (
            "docker run --gpus all --entrypoint vllm docker.io/vllm/vllm-openai:v0.11.0 serve m -dcp 2 -tp 4",
            "vllm 0.11.0 m TP4 × DCP2",
        ),
        (
            "sudo podman run my.own/image:3 vllm serve m",
            "vllm - m 1 GPU",
        ),
        (
            "docker run lmsysorg/sglang:v0.5.3-cu129 python3 -m sglang.launch_server --model-path m --tp 8 --dp 8 --enable-dp-attention --ep 8",
            "sglang 0.5.3 m DP8 × EP8",
        ),
        (
            "python -m sglang.launch_server --model m --tp-size 8 --dp 2 --enable-dp-attention",
            "sglang - m TP4 × DP2",
        ),
        ("sglang serve --model-path m --dp 2", "sglang - m 2 × 1 GPU"),
        (
            "trtllm-serve m --tp_size 8 --ep_size 4",
            "trtllm - m TP8 × EP4",
        ),
        (
            "mpirun -n 8 trtllm-serve serve m --tp_size 8",
            "trtllm - m TP8",
        ),
        (
            "llama-server -m model.gguf -ngl 99 -c 8192 -np 4 -ts 1,1 -fa on",
            "llamacpp - model.gguf PP2",
        ),
        (
            "./build/bin/llama-cli -m a.gguf -sm row -ts 3,1",
            "llamacpp - a.gguf TP2",
        ),
        (
            "docker run ghcr.io/ggml-org/llama.cpp:server-cuda-b9000 -hf org/m:Q4_K_M",
            "llamacpp 0.0.9000 org/m:Q4_K_M 1 GPU",
        ),
        ("transformers serve org/m", "transformers - org/m 1 GPU"),
    ] {
        check(command, expected);
    }
}

#[test]
fn settings_in_engines_own_terms() {
    let defaults = Settings {
        batched_tokens: 1,
        sequences: 2,
        max_context: 3,
        memory_fraction: 0.5,
        block: 4,
        eager: false,
    };
    let settings = |command: &str| read(command).settings(defaults);
    let full = Settings {
        batched_tokens: 8192,
        sequences: 64,
        max_context: 32768,
        memory_fraction: 0.85,
        block: 32,
        eager: true,
    };
    for command in [
        "vllm serve m --gpu-memory-utilization 0.85 --max-num-seqs 64 --max-model-len 32K --max-num-batched-tokens 8192 \
         --block-size 32 --enforce-eager",
        "vllm serve m --gpu_memory_utilization=.85 --max_num_seqs=64 --max_model_len=32768 \
         --max_num_batched_tokens=8K --block_size=32 --enforce-eager",
        "python -m sglang.launch_server --model m --mem-fraction-static 0.85 --max-running-requests 64 \
         --chunked-prefill-size 8192 --context-length 32768 --page-size 32 --disable-cuda-graph",
        // Counted for both attention groups together.
        "python -m sglang.launch_server --model m --tp 2 --dp 2 --enable-dp-attention --mem-fraction-static 0.85 \
         --max-running-requests 128 --chunked-prefill-size 16384 --context-length 32768 --page-size 32 \
         --disable-cuda-graph",
        "cat > more.yaml <<'EOF'\nkv_cache_config:\n  tokens_per_block: 32\n  free_gpu_memory_fraction: 0.85\n\
         cuda_graph_config: null\nEOF\n\
         trtllm-serve m --max_batch_size 64 --max_num_tokens 8192 --max_seq_len 32768 --extra_llm_api_options /x/more.yaml",
    ] {
        assert_eq!(settings(command), full, "{command}");
    }
    let short = "python -m sglang.launch_server --model m --mem-frac 0.5 --context-len 3";
    assert_eq!(settings(short), defaults, "beginnings of flags");
    assert_eq!(settings("vllm serve m"), defaults);
    assert_eq!(
        settings("vllm serve m --max-model-len auto --max-model-len -1"),
        defaults
    );
    // A slot has its part of the context, unless the buffer is shared.
    assert_eq!(
        settings("llama-server -m m -c 32768 -np 4 -ub 512").max_context,
        8192
    );
    assert_eq!(
        settings("llama-server -m m -c 32768 -np 4 -kvu").max_context,
        32768
    );
}

#[test]
fn drafts_adapters_and_roles() {
    for command in [
        "vllm serve m --speculative-config '{\"method\": \"mtp\", \"num_speculative_tokens\": 3}'",
        "vllm serve m --speculative-config.method mtp --speculative-config.num_speculative_tokens 3",
        "vllm serve m --spec-method mtp --spec-tokens 3",
    ] {
        let launch = read(command);
        assert_eq!(
            (launch.draft_tokens, launch.draft_method.as_deref()),
            (Some(3), Some("mtp")),
            "{command}"
        );
    }
    let launch = read(
        "python -m sglang.launch_server --model m --speculative-algorithm EAGLE3 --speculative-draft-model-path d \
         --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
    );
    assert_eq!(
        (launch.draft_tokens, launch.draft_model.as_deref()),
        (Some(3), Some("d"))
    );
    let launch =
        read("vllm serve m --enable-lora --max-loras 4 --max-lora-rank 32 --lora-modules a=b c=d");
    assert_eq!(launch.adapters, Some(Adapters { count: 4, rank: 32 }));
    assert_eq!(launch.model.as_deref(), Some("m"));
    for (command, role) in [
        (
            "vllm serve m --kv-transfer-config '{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_producer\"}'",
            PoolRole::Prefill,
        ),
        (
            "python -m sglang.launch_server --model m --disaggregation-mode decode",
            PoolRole::Decode,
        ),
    ] {
        assert_eq!(read(command).role, Some(role), "{command}");
    }
}

#[test]
fn every_pool_of_a_script() {
    let text = "vllm serve a -tp 2 &\nvllm serve b -tp 4 &\nwait";
    let tensors: Vec<_> = parse_all(text, &FACTS, None)
        .unwrap()
        .iter()
        .map(|l| l.tensor)
        .collect();
    assert_eq!(tensors, [Some(2), Some(4)]);
}

#[test]
fn flags_that_a_release_lacks() {
    let old: Option<Release> = "0.9.0".parse().ok();
    for (command, release, expected) in [
        (
            "vllm serve m --max-model-length 8192 -tp 2",
            None,
            "`--max-model-length` is no flag of vLLM 0.33.0 that we know; did you mean --max-model-len, ",
        ),
        (
            "vllm serve m --async-scheduling -tp 2",
            old,
            "`--async-scheduling` is no flag of vLLM 0.9.0 that we know: it came with 0.10.0",
        ),
        (
            "vllm serve m --swap-space 8 -tp 2",
            None,
            "`--swap-space` is no flag of vLLM 0.33.0 that we know: it went with 0.18.0",
        ),
        (
            "vllm serve m --kv-cache-dtype nvfp4 -tp 2",
            old,
            "`--kv-cache-dtype nvfp4` is no choice of vLLM 0.9.0; expected one of auto, fp8, ",
        ),
    ] {
        let launch = parse(command, &FACTS, release).unwrap();
        let said = launch
            .unknown
            .first()
            .map(ToString::to_string)
            .unwrap_or_default();
        assert!(said.starts_with(expected), "{command}: {said}");
        assert_eq!(
            launch.tensor,
            Some(2),
            "what follows is still read: {command}"
        );
        assert_eq!(launch.model.as_deref(), Some("m"));
    }
}

#[test]
fn errors_say_what_and_where() {
    for (command, expected) in [
        (
            "echo hello",
            "no engine is started in `echo hello`; expected `vllm serve`, `python -m sglang.launch_server`, \
             `trtllm-serve`, `llama-server`, `transformers serve`, or a `docker run` of one",
        ),
        (
            "vllm serve 'm -tp 4",
            "a single quote is not closed; it was opened before `m -tp 4`",
        ),
        (
            "vllm serve m -tp",
            "`-tp` has no value; expected a whole number",
        ),
        (
            "vllm serve m -tp --port 3",
            "`-tp` has no value; expected a whole number",
        ),
        (
            "vllm serve m -tp four",
            "`-tp four`: expected a whole number from 1 to 100,000",
        ),
        (
            "vllm serve m -tp 0",
            "`-tp 0`: expected a whole number from 1 to 100,000",
        ),
        (
            "vllm serve m -tp -4",
            "`-tp -4`: expected a whole number from 1 to 100,000",
        ),
        (
            "vllm serve m --max-num-seqs 1e40",
            "`--max-num-seqs 1e40`: expected a whole number, such as `8192`, `8k` or `8K`",
        ),
        (
            "vllm serve m --gpu-memory-utilization 90",
            "`--gpu-memory-utilization 90`: expected a share above 0 and up to 1, such as `0.9`",
        ),
        (
            "vllm serve m --gpu-memory-utilization NaN",
            "`--gpu-memory-utilization NaN`: expected a share above 0 and up to 1, such as `0.9`",
        ),
        (
            "vllm serve m --speculative-config '{'",
            "`--speculative-config {`: expected a JSON object",
        ),
    ] {
        assert_eq!(
            parse(command, &FACTS, None).unwrap_err().to_string(),
            expected
        );
    }
    assert_eq!(
        parse("llama-server -m m", &[], None)
            .unwrap_err()
            .to_string()
            .split(':')
            .next(),
        Some("llama.cpp")
    );
    assert!(parse(&"a ".repeat(200_000), &FACTS, None).is_err());
}

proptest::proptest! {
    /// Whatever is pasted, reading ends without a panic, and one engine is never taken for another.
    #[test]
    fn hostile_text(tail in "[-a-z0-9 '\"\\\\\n=<>|&;#.{}:é]{0,80}") {
        if let Ok(launch) = parse(&format!("vllm serve m {tail}"), &FACTS, None) {
            proptest::prop_assert_eq!(launch.engine, EngineKind::Vllm);
        }
    }
}

/// Each pool of a manifest: what, role, how many, model and GPUs of a replica.
fn pools_of(text: &str) -> Vec<String> {
    let all = pools(text, &FACTS).unwrap().expect("a manifest");
    let line = |pool: &gpuwise_read::launch::LaunchedPool| {
        let role = pool.role.map_or("both".into(), |role| format!("{role:?}"));
        let model = pool.launch.model.as_deref().unwrap_or("-");
        let gpus = pool.launch.layout(false).gpus();
        format!("{}: {role} {} x {gpus} {model}", pool.what, pool.replicas)
    };
    all.iter().map(line).collect()
}

#[test]
fn manifests_say_what_runs() {
    let deployment = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n---\n\
        apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: llama}\nspec:\n  replicas: 3\n  template:\n    \
        spec:\n      containers:\n        - name: side\n          image: proxy\n        - name: server\n          \
        image: vllm/vllm-openai:v0.11.0\n          args: [--model, org/m, '--tensor-parallel-size=2']\n";
    assert_eq!(pools_of(deployment), ["Deployment llama: both 3 x 2 org/m"]);
    let dynamo = "apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\nmetadata: {name: g}\nspec:\n  \
        services:\n    Frontend: {replicas: 1, extraPodSpec: {mainContainer: {image: f, args: [python3, -m, \
        dynamo.frontend]}}}\n    VllmDecodeWorker:\n      replicas: 2\n      extraPodSpec:\n        \
        mainContainer:\n          image: vllm-runtime:1.0\n          command: [/bin/sh, -c]\n          args: \
        ['python3 -m dynamo.vllm --model org/m --tensor-parallel-size 4 2>&1 | tee /tmp/log']\n    \
        VllmPrefillWorker:\n      replicas: 5\n      extraPodSpec:\n        mainContainer:\n          command: \
        [python3, -m, dynamo.vllm]\n          args: [--model, org/m, --is-prefill-worker]\n";
    let mut found = pools_of(dynamo);
    found.sort();
    assert_eq!(
        found,
        [
            "DynamoGraphDeployment g VllmDecodeWorker: Decode 2 x 4 org/m",
            "DynamoGraphDeployment g VllmPrefillWorker: Prefill 5 x 1 org/m",
        ]
    );
    let llm_d = "modelArtifacts: {uri: 'hf://org/m'}\ndecode:\n  replicas: 2\n  parallelism: {tensor: 4}\n  \
        containers: [{name: vllm, args: [--max-model-len, '32000']}]\nprefill: {create: false}\n";
    assert_eq!(pools_of(llm_d), ["llm-d decode: both 2 x 4 org/m"]);
    let split = llm_d.replace("{create: false}", "{replicas: 3, parallelism: {tensor: 1}}");
    assert_eq!(
        pools_of(&split),
        [
            "llm-d decode: Decode 2 x 4 org/m",
            "llm-d prefill: Prefill 3 x 1 org/m",
        ]
    );
}

#[test]
fn deployments_of_llm_d_have_the_roles_of_their_pods() {
    let pool = |role: &str, replicas: u32| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: m-{role}}}\nspec:\n  replicas: {replicas}\n  \
             template:\n    metadata: {{labels: {{llm-d.ai/model: m, llm-d.ai/role: {role}}}}}\n    spec: \
             {{containers: [{{image: vllm, command: [vllm, serve, org/m]}}]}}\n"
        )
    };
    let both = format!("{}---\n{}", pool("decode", 2), pool("prefill", 3));
    assert_eq!(
        pools_of(&both),
        [
            "Deployment m-decode: Decode 2 x 1 org/m",
            "Deployment m-prefill: Prefill 3 x 1 org/m",
        ]
    );
    assert_eq!(
        pools_of(&pool("decode", 2)),
        ["Deployment m-decode: both 2 x 1 org/m"]
    );
}

#[test]
fn what_is_no_manifest_is_left_to_others_and_one_without_an_engine_is_an_error() {
    for text in ["vllm serve org/m -tp 4", "", "a: 1", "kind: [", "- kind: x"] {
        assert_eq!(pools(text, &FACTS), Ok(None), "{text}");
    }
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n";
    let error = pools(service, &FACTS).unwrap_err().to_string();
    assert!(
        error.contains("no engine is started in `Service`"),
        "{error}"
    );
}
