//! Forms that hand a deployment to somebody who starts it: what is written is read back by the YAML
//! library, and says what was sized.

use crate::{
    fixture::sizing,
    launch::{emitted, facts, hopper, sized},
};
use gpuwise_domain::{
    deployment::{Deployment, PrefillPool},
    engine::EngineKind,
    facts::{Context, Vendor},
    layout::Layout,
    offer::Terms,
};
use gpuwise_units::Bytes;
use gpuwise_view::launch::{Form, emit};
use serde_json::{Value, json};

const VLLM: (EngineKind, &str) = (EngineKind::Vllm, "0.33.0");
const SGLANG: (EngineKind, &str) = (EngineKind::Sglang, "0.5.23");

fn on_hosts(engine: (EngineKind, &str), layout: Layout, host: u32) -> Deployment {
    let mut deployment = sized(engine.0, engine.1, layout);
    let mut rental = sizing().ranked[0].rental.clone().unwrap();
    (rental.instance, rental.gpu_thousandths) = ("hgx".into(), host * 1000);
    deployment.rental = Some(rental);
    deployment
}

fn sixteen(engine: (EngineKind, &str)) -> Deployment {
    let layout = Layout {
        replicas: 2,
        pipeline: 2,
        ..Layout::tensor(8)
    };
    on_hosts(engine, layout, 8)
}

fn documents(text: &str) -> Vec<Value> {
    text.split("---\n")
        .map(|part| serde_saphyr::from_str(part).unwrap_or_else(|error| panic!("{error}\n{part}")))
        .collect()
}

fn words(value: &Value) -> Vec<&str> {
    let all = value.as_array().unwrap();
    all.iter().map(|word| word.as_str().unwrap()).collect()
}

/// The value behind a flag.
fn told<'a>(args: &[&'a str], flag: &str) -> Option<&'a str> {
    let at = args.iter().position(|word| *word == flag)?;
    args.get(at + 1).copied()
}

fn refused(form: Form, deployment: &Deployment) -> String {
    emitted(form, deployment).unwrap_err().to_string()
}

#[test]
fn groups_of_pods_of_vllm() {
    let text = emitted(Form::Lws, &sixteen(VLLM)).unwrap();
    insta::assert_snapshot!("lws_vllm", text);
    let [group, service] = documents(&text).try_into().unwrap();
    assert_eq!(group["kind"], "LeaderWorkerSet");
    assert_eq!(group["spec"]["replicas"], 2);
    let template = &group["spec"]["leaderWorkerTemplate"];
    assert_eq!(template["size"], 2);
    let pod = |role: &str| &template[role]["spec"]["containers"][0];
    let (leader, worker) = (pod("leaderTemplate"), pod("workerTemplate"));
    for container in [leader, worker] {
        assert_eq!(
            container["resources"]["limits"],
            json!({"nvidia.com/gpu": 8})
        );
        let args = words(&container["args"]);
        assert_eq!(told(&args, "--nnodes"), Some("2"));
        assert_eq!(told(&args, "--node-rank"), Some("$(LWS_WORKER_INDEX)"));
        assert_eq!(told(&args, "--master-addr"), Some("$(LWS_LEADER_ADDRESS)"));
        assert_eq!(told(&args, "--pipeline-parallel-size"), Some("2"));
    }
    // The first answers; the others have nothing to ask or to probe.
    assert!(!words(&leader["args"]).contains(&"--headless"));
    assert!(words(&worker["args"]).contains(&"--headless"));
    assert!(leader["readinessProbe"].is_object() && worker["readinessProbe"].is_null());
    let labels = &template["leaderTemplate"]["metadata"]["labels"];
    assert_eq!(service["spec"]["selector"]["role"], labels["role"]);
}

#[test]
fn data_parallel_ranks_of_each_host_follow_those_before() {
    let layout = Layout {
        attention_data: 8,
        expert: 16,
        ..Layout::tensor(2)
    };
    let text = emitted(Form::Lws, &on_hosts(VLLM, layout, 8)).unwrap();
    insta::assert_snapshot!("lws_vllm_data", text);
    let group = &documents(&text)[0];
    let template = &group["spec"]["leaderWorkerTemplate"];
    let pod = |role: &str| &template[role]["spec"]["containers"][0];
    assert_eq!(pod("leaderTemplate")["command"], json!(["vllm"]));
    let worker = pod("workerTemplate");
    // Kubernetes makes one dollar of two; the rest is the shell's.
    assert_eq!(
        words(&worker["command"])[2],
        "exec \"$$@\" --data-parallel-start-rank \"$$((LWS_WORKER_INDEX * 4))\""
    );
    let args = words(&worker["args"]);
    assert_eq!(told(&args, "--data-parallel-size"), Some("8"));
    assert_eq!(told(&args, "--data-parallel-size-local"), Some("4"));
    assert!(args.contains(&"--headless"), "{text}");
    // A rank of sixteen GPUs is on two hosts itself.
    let layout = Layout {
        attention_data: 2,
        ..Layout::tensor(16)
    };
    let said = refused(Form::Lws, &on_hosts(VLLM, layout, 8));
    assert!(
        said.contains("rank of 16 GPUs") && said.contains("host of 8"),
        "{said}"
    );
}

#[test]
fn groups_of_pods_of_sglang() {
    let text = emitted(Form::Lws, &sixteen(SGLANG)).unwrap();
    insta::assert_snapshot!("lws_sglang", text);
    let group = &documents(&text)[0];
    let template = &group["spec"]["leaderWorkerTemplate"];
    for role in ["leaderTemplate", "workerTemplate"] {
        let args = words(&template[role]["spec"]["containers"][0]["args"]);
        assert_eq!(
            told(&args, "--dist-init-addr"),
            Some("$(LWS_LEADER_ADDRESS):20000")
        );
        assert_eq!(told(&args, "--nnodes"), Some("2"));
        assert_eq!(told(&args, "--node-rank"), Some("$(LWS_WORKER_INDEX)"));
    }
}

#[test]
fn what_groups_of_pods_cannot_be() {
    let one = on_hosts(VLLM, Layout::tensor(8), 8);
    assert_eq!(
        refused(Form::Lws, &one),
        "lws is for replicas that span hosts, and hgx has 8 GPUs for the 8 of this one; emit k8s"
    );
    let unknown = sized(VLLM.0, VLLM.1, Layout::tensor(16));
    assert!(refused(Form::Lws, &unknown).contains("how many GPUs a host has is not known"));
    let uneven = on_hosts(VLLM, Layout::tensor(12), 8);
    assert_eq!(
        refused(Form::Lws, &uneven),
        "a replica takes 12 GPUs and hgx has 8: it does not fill its hosts, which are started alike here; emit \
         vllm and start it on every host"
    );
    let mut old = sixteen((EngineKind::Vllm, "0.10.0"));
    old.settings.block = 16;
    assert!(refused(Form::Lws, &old).contains("`--nnodes` came with 0.11.1"));
    let mut other = sixteen((EngineKind::TensorRtLlm, "1.2.1"));
    other.settings.block = 32;
    assert!(refused(Form::Lws, &other).contains("vLLM and SGLang are"));
}

#[test]
fn values_for_llm_d() {
    let layout = Layout {
        replicas: 3,
        ..Layout::tensor(4)
    };
    let mut deployment = sized(VLLM.0, VLLM.1, layout);
    deployment.cache = "fp8".into();
    let text = emitted(Form::LlmD, &deployment).unwrap();
    insta::assert_snapshot!("llmd", text);
    let values = &documents(&text)[0];
    assert_eq!(values["modelArtifacts"]["uri"], "hf://org/Model-7B");
    assert_eq!(values["prefill"], json!({"create": false}));
    let decode = &values["decode"];
    assert_eq!(decode["replicas"], 3);
    assert_eq!(decode["parallelism"]["tensor"], 4);
    let args = words(&decode["containers"][0]["args"]);
    assert_eq!(told(&args, "--kv-cache-dtype"), Some("fp8"));
    // The chart says it from `parallelism`.
    assert_eq!(told(&args, "--tensor-parallel-size"), None);
    assert_eq!(decode["containers"][0]["ports"][0]["containerPort"], 8000);
}

#[test]
fn pools_for_llm_d() {
    let mut deployment = sized(VLLM.0, VLLM.1, Layout::tensor(4));
    deployment.prefill = Some(PrefillPool {
        layout: Layout {
            replicas: 3,
            ..Layout::tensor(2)
        },
    });
    deployment.host_cache = Bytes::new(32 << 30);
    let text = emitted(Form::LlmD, &deployment).unwrap();
    insta::assert_snapshot!("llmd_pools", text);
    let values = &documents(&text)[0];
    assert_eq!(values["routing"]["proxy"]["enabled"], true);
    assert_eq!(values["prefill"]["parallelism"]["tensor"], 2);
    assert_eq!(values["prefill"]["replicas"], 3);
    let container = |pool: &str| &values[pool]["containers"][0];
    assert_eq!(container("decode")["ports"][0]["containerPort"], 8200);
    assert_eq!(
        container("prefill")["resources"]["requests"]["memory"],
        "80Gi"
    );
    assert!(container("decode")["resources"]["requests"]["memory"].is_null());
}

#[test]
fn what_llm_d_does_not_start() {
    let sglang = sized(SGLANG.0, SGLANG.1, Layout::SINGLE);
    assert!(
        refused(Form::LlmD, &sglang).starts_with("this deployment was sized for SGLang; llm-d")
    );
    let mut path = sized(VLLM.0, VLLM.1, Layout::SINGLE);
    path.model = "/models/my model".into();
    let said = refused(Form::LlmD, &path);
    assert!(
        said.contains("\"/models/my model\" is none") && said.contains("emit k8s"),
        "{said}"
    );
    let said = refused(Form::LlmD, &sixteen(VLLM));
    assert!(said.contains("hgx has 8"), "{said}");
}

#[test]
fn a_service_of_skypilot() {
    let mut deployment = on_hosts(
        VLLM,
        Layout {
            replicas: 2,
            ..Layout::tensor(8)
        },
        8,
    );
    deployment.model = "/models/my model's".into();
    let rental = deployment.rental.as_mut().unwrap();
    (rental.provider, rental.terms) = ("aws".into(), Terms::Spot);
    let text = emitted(Form::SkyPilot, &deployment).unwrap();
    insta::assert_snapshot!("skypilot", text);
    let task = &documents(&text)[0];
    assert_eq!(
        task["resources"],
        json!({"infra": "aws/us-east-1", "accelerators": "H100:8", "use_spot": true, "ports": 8000})
    );
    assert_eq!(task["service"]["replicas"], 2);
    assert_eq!(task["setup"], "pip install vllm==0.33.0\n");
    let run = task["run"].as_str().unwrap();
    assert!(
        run.starts_with("vllm serve '/models/my model'\\''s' \\\n"),
        "{run}"
    );
    assert!(run.contains("--host 0.0.0.0"), "{run}");
}

#[test]
fn several_nodes_of_skypilot() {
    let text = emitted(Form::SkyPilot, &sixteen(VLLM)).unwrap();
    insta::assert_snapshot!("skypilot_nodes", text);
    let task = &documents(&text)[0];
    assert_eq!(task["num_nodes"], 2);
    assert_eq!(task["resources"]["accelerators"], "H100:8");
    let run = task["run"].as_str().unwrap();
    let [leader, others] = run.split("else\n").collect::<Vec<_>>().try_into().unwrap();
    assert!(
        !leader.contains("--headless") && others.contains("--headless"),
        "{run}"
    );
    let text = emitted(Form::SkyPilot, &sixteen(SGLANG)).unwrap();
    let task = &documents(&text)[0];
    let run = task["run"].as_str().unwrap();
    assert!(run.contains("--dist-init-addr \"$LEADER:20000\""), "{run}");
    assert!(!run.contains("else"), "{run}");
}

#[test]
fn what_skypilot_has_no_words_for() {
    let single = || sized(VLLM.0, VLLM.1, Layout::SINGLE);
    let mut slices = single();
    slices.slice = Some("1g.10gb".into());
    assert!(refused(Form::SkyPilot, &slices).contains("--no-slices"));
    let mut unnamed = single();
    unnamed.gpu = "H20 96GB".into();
    assert_eq!(
        refused(Form::SkyPilot, &unnamed),
        "skypilot has no name for H20 96GB that is known here; emit docker or k8s"
    );
    let amd = Context {
        vendor: Some(Vendor::Amd),
        ..hopper()
    };
    assert!(emit(Form::SkyPilot, &single(), facts(VLLM.0), &amd).is_err());
    let mut pools = single();
    pools.prefill = Some(PrefillPool {
        layout: Layout::SINGLE,
    });
    assert!(refused(Form::SkyPilot, &pools).contains("llm-d"));
    let llamacpp = sized(EngineKind::LlamaCpp, "b11434", Layout::SINGLE);
    assert!(refused(Form::SkyPilot, &llamacpp).contains("PyPI"));
}

fn gguf() -> Deployment {
    let mut deployment = sized(EngineKind::LlamaCpp, "b11434", Layout::SINGLE);
    deployment.model = "/models/model q4.gguf".into();
    deployment.weights = "q4_k".into();
    deployment.cache = "q8_0".into();
    deployment.settings.sequences = 8;
    deployment.memory.cache_tokens = 300_000;
    deployment.settings.batched_tokens = 512;
    deployment
}

#[test]
fn a_modelfile() {
    let mut deployment = gguf();
    deployment.layout.pipeline = 2;
    let text = emitted(Form::Ollama, &deployment).unwrap();
    insta::assert_snapshot!("ollama", text);
    deployment.model = "org/Model-7B".into();
    deployment.cache = "bf16".into();
    let text = emitted(Form::Ollama, &deployment).unwrap();
    assert!(
        text.contains("\nFROM hf.co/org/Model-7B:Q4_K_M\n"),
        "{text}"
    );
    assert!(text.contains("OLLAMA_KV_CACHE_TYPE=f16"), "{text}");
    // Only quantized caches need it.
    assert!(!text.contains("FLASH_ATTENTION"), "{text}");
    deployment.model = "\"odd\" .gguf".into();
    let text = emitted(Form::Ollama, &deployment).unwrap();
    assert!(
        text.contains("\nFROM \"\"\"\"odd\" .gguf\"\"\"\n"),
        "{text}"
    );
}

#[test]
fn what_ollama_has_no_words_for() {
    let check = |change: &dyn Fn(&mut Deployment), expected: &str| {
        let mut deployment = gguf();
        change(&mut deployment);
        let said = refused(Form::Ollama, &deployment);
        assert!(said.contains(expected), "{said}");
    };
    check(&|d| d.cache = "q5_1".into(), "f16, q8_0, q4_0, not as q5_1");
    check(&|d| d.layout = Layout::tensor(2), "not by rows (TP2)");
    check(&|d| d.draft_tokens = 2, "emit llamacpp");
    check(&|d| d.host_cache = Bytes::new(1 << 30), "keeps prefixes");
    check(
        &|d| d.model = "/models/two\nlines.gguf".into(),
        "rename the file",
    );
    let vllm = sized(VLLM.0, VLLM.1, Layout::SINGLE);
    assert_eq!(
        refused(Form::Ollama, &vllm),
        "this deployment was sized for vLLM; ollama starts another engine, with other memory and speed: plan again \
         for it, or emit vllm"
    );
}

/// Names that YAML, the shell or Kubernetes would take for something else come back as they are.
#[test]
fn odd_names_come_back() {
    for odd in [
        "/models/my model",
        "a: b #c",
        "- x",
        "yes",
        "m'\"\\n",
        "{x}",
        "$(HOME) $$",
        "*x",
        "ÄÖ漢",
    ] {
        let mut deployment = sixteen(VLLM);
        deployment.model = odd.into();
        let text = emitted(Form::Lws, &deployment).unwrap();
        let group = &documents(&text)[0];
        let template = &group["spec"]["leaderWorkerTemplate"]["leaderTemplate"];
        let args = words(&template["spec"]["containers"][0]["args"]);
        assert_eq!(args[1].replace("$$", "$"), odd);
        deployment.layout.pipeline = 1;
        let text = emitted(Form::SkyPilot, &deployment).unwrap();
        let run = documents(&text)[0]["run"].as_str().unwrap().to_owned();
        let quoted = odd.replace('\'', "'\\''");
        assert!(run.contains(&quoted), "{run}");
    }
}
