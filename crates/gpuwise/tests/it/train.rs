//! `gpuwise train` from end to end: answers, refusals, recipes.

use crate::support::Place;

const MODEL: &str = "meta-llama/Llama-3.1-8B";

/// Runs `gpuwise train MODEL ...`; gives exit code, stdout, stderr.
fn train(arguments: &str) -> (i32, String, String) {
    train_of(MODEL, arguments)
}

fn train_of(model: &str, arguments: &str) -> (i32, String, String) {
    let place = Place::new();
    let mut all = vec!["train", model];
    all.extend(arguments.split_whitespace());
    let ran = place.run(&all);
    assert!(!ran.err.contains("panicked"), "{arguments}: {}", ran.err);
    (ran.code, ran.out, ran.err)
}

/// The first plan of `gpuwise train MODEL ...`, and its exit code.
fn first(arguments: &[&str]) -> (i32, serde_json::Value) {
    let place = Place::new();
    let all = [&["train"], arguments, &["--format", "json"]].concat();
    let ran = place.run(&all);
    let value: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    (ran.code, value["plans"][0].clone())
}

#[test]
fn all_owned_gpus_work_unless_gpu_hours_are_what_counts() {
    let job = [MODEL, "--method", "lora", "--tokens", "1e9"];
    let plan = |more: &[&str]| first(&[&job[..], more].concat()).1;
    let all = plan(&["--owned", "8xH100"]);
    assert_eq!(all["gpus"], 8, "{all}");
    assert_eq!(plan(&["--owned", "H100:8"])["gpus"], 8);
    let thrifty = plan(&["--owned", "8xH100", "--objective", "cost"]);
    assert_eq!(thrifty["gpus"], 1, "{thrifty}");
    let seconds = |plan: &serde_json::Value| plan["run"]["total_seconds"]["value"].as_f64();
    let (long, short) = (
        seconds(&thrifty).expect("a run"),
        seconds(&all).expect("a run"),
    );
    assert!(
        (6.0..10.0).contains(&(long / short)),
        "{long} s on one, {short} s on eight"
    );
    // Rented ones are ranked by money unless time is what counts.
    let rented = ["--gpu", "H100", "--max-gpus", "16"];
    let cheap = plan(&rented);
    let fast = plan(&[&rented[..], &["--objective", "time"]].concat());
    assert_eq!(fast["gpus"], 16);
    assert!(seconds(&fast) < seconds(&cheap));
}

/// A GPU that nobody in the price list rents out is sized without a price; what has none is within no limit on money or
/// places, as in `plan`.
#[test]
fn what_nobody_rents_out_has_no_price_and_is_within_no_budget() {
    let job = [MODEL, "--method", "lora", "--tokens", "1e8"];
    let ask = |more: &[&str]| first(&[&job[..], &["--gpu", "RTX 4090"], more].concat());
    let (code, plan) = ask(&[]);
    assert_eq!(code, 0, "{plan}");
    assert!(
        plan["rental"].is_null() && plan["gpus"].as_u64() > Some(0),
        "{plan}"
    );
    assert_eq!(ask(&["--budget", "10USD"]).0, 1);
    for (arguments, why) in [
        (
            "--gpu RTX-4090 --budget 10USD",
            "its price is not known, 10.00 USD allowed",
        ),
        (
            "--gpus 2xRTX-4090 --budget 10USD",
            "its price is not known, 10.00 USD allowed",
        ),
        ("--gpu RTX-4090 --provider aws", "no offer of aws holds it"),
    ] {
        let (code, out, err) = train(&format!("--method lora --tokens 1e8 {arguments}"));
        let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(code, 1, "{arguments}: {out}{err}");
        assert!(out.contains(why), "{arguments}: {out}");
    }
    // Beside one with a price it is not the cheapest.
    let (_, plan) = first(&[&job[..], &["--gpu", "RTX 4090", "--gpu", "L4"]].concat());
    assert_eq!(plan["gpu"], "L4", "{plan}");
}

#[test]
fn a_plan_without_room_for_the_range_of_its_memory_is_marked() {
    let model = "llama-3.1-70b";
    let (code, plan) = first(&[model, "--gpus", "16xH100"]);
    assert_eq!(code, 0);
    let figure = |plan: &serde_json::Value, name: &str| {
        let ranks = plan["memory"]["ranks"].as_array().expect("ranks");
        let all = ranks
            .iter()
            .map(|rank| rank["reserved_bytes"][name].as_f64());
        all.map(|bytes| bytes.expect("bytes")).fold(0.0, f64::max)
    };
    let usable = |plan: &serde_json::Value| plan["usable_bytes"].as_f64().expect("bytes");
    assert!(figure(&plan, "value") <= usable(&plan) && figure(&plan, "high") > usable(&plan));
    assert_eq!(plan["may_run_out_of_memory"], true);
    let (_, out, _) = train_of(model, "--gpus 16xH100");
    assert!(out.contains("may run out of memory"), "{out}");
    // Where one has the choice, one is taken that has room.
    let (code, roomy) = first(&[model, "--gpu", "H100"]);
    assert_eq!((code, &roomy["may_run_out_of_memory"]), (0, &false.into()));
    assert!(figure(&roomy, "high") <= usable(&roomy));
}

#[test]
fn wrong_flags_are_errors_that_name_the_nearest() {
    for (arguments, parts) in [
        (
            "--method lorra --gpus 8xH100",
            &["lorra", "did you mean lora"][..],
        ),
        (
            "--method lora --modules q_porj --gpus 8xH100",
            &["q_porj", "q_proj"],
        ),
        ("--rank 8 --gpus 8xH100", &["--rank", "--method lora"]),
        (
            "--method lora --rank 0 --gpus 8xH100",
            &["--rank 0", "from 1"],
        ),
        ("--gpus 0xH100", &["--gpus 0xH100", "64xH100"]),
        ("--gpus 8xH1000", &["H1000", "did you mean"]),
        ("--gpus H100", &["64xH100"]),
        ("--seq 0 --gpus 8xH100", &["--seq"]),
        ("--seq=-5 --gpus 8xH100", &["--seq"]),
        ("--global-batch 0 --gpus 8xH100", &["--global-batch 0"]),
        ("--tokens 0 --gpus 8xH100", &["--tokens 0"]),
        ("--tokens many --gpus 8xH100", &["--tokens many", "2e9"]),
        ("--within 3d --gpus 8xH100", &["--within", "--tokens"]),
        ("--tokens 1e9 --within 0s", &["--within"]),
        ("--tokens 1e9 --budget 5EUR", &["EUR", "USD"]),
        (
            "--recipe bf17 --gpus 8xH100",
            &["bf17", "did you mean bf16"],
        ),
        ("--sharding zero4 --gpus 8xH100", &["zero4", "zero3"]),
        ("--mtbf 0 --gpus 8xH100", &["--mtbf 0"]),
        ("--storage 20GB", &["--gpus 64xH100"]),
        (
            "--method dpo-lorra --gpus 8xH100",
            &["lorra", "did you mean lora"],
        ),
        (
            "--method dpo --rank 8 --gpus 8xH100",
            &["--rank", "--method dpo-lora"],
        ),
        (
            "--num-generations 4 --gpus 8xH100",
            &["--num-generations", "--method grpo"],
        ),
        (
            "--method grpo --precompute-ref-log-probs --gpus 8xH100",
            &["--precompute-ref-log-probs", "--method dpo"],
        ),
        (
            "--method grpo --num-generations 1 --gpus 8xH100",
            &["--num-generations 1", "2 to"],
        ),
        (
            "--method grpo --seq 4096 --gpus 8xH100",
            &["--seq 4096", "--prompt-tokens"],
        ),
        (
            "--method grpo --vllm-mode serve --gpus 8xH100",
            &["serve", "did you mean server"],
        ),
        (
            "--method grpo --vllm-gpu-memory-utilization 1.5 --gpus 8xH100",
            &["1.5", "up to 1"],
        ),
        (
            "--method grpo --vllm-data-parallel-size 2 --gpus 8xH100",
            &["--vllm-data-parallel-size", "--vllm-mode server"],
        ),
        (
            "--method grpo --beta=-1 --gpus 8xH100",
            &["--beta -1", "0 or more"],
        ),
        (
            "--method dpo --framework megatron --gpus 8xH100",
            &["megatron", "TRL"],
        ),
        (
            "--method dpo --loss fused --gpus 8xH100",
            &["--loss fused", "--loss eager"],
        ),
        (
            "--method dpo --loss chunked --precompute-ref-log-probs --gpus 8xH100",
            &["--loss chunked", "--precompute-ref-log-probs"],
        ),
        (
            "--emit torchtune --framework megatron --gpus 8xH100",
            &["torchtune", "Megatron"],
        ),
    ] {
        let (code, out, err) = train(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments}: {err}");
        for part in parts {
            assert!(err.contains(part), "{arguments}: {part:?} is not in {err}");
        }
    }
}

#[test]
fn what_does_not_go_is_an_answer_with_the_nearest_that_does() {
    for (arguments, parts) in [
        (
            "--gpus 8xH100 --tp 3",
            &["32 attention heads", "--tp 2", "--tp 4"][..],
        ),
        (
            "--gpus 64xH100 --pp 64",
            &["32 stages without a layer", "--pp 32"],
        ),
        (
            "--gpus 64xH100 --dp 64 --global-batch 1000",
            &["1000", "--global-batch 960", "--global-batch 1024"],
        ),
        ("--gpus 8xH100 --ep 2", &["no experts"]),
        (
            "--method dpo --gpus 8xH100 --tp 2",
            &["--tp 2", "data-parallel ranks alone", "--tp 1"],
        ),
        (
            "--method grpo-lora --gpus 8xH100 --global-batch 500",
            &["prompts of 8", "--global-batch 496", "--global-batch 504"],
        ),
        (
            "--method grpo-lora --gpus 2xH100 --vllm-mode server --vllm-data-parallel-size 2",
            &["none is left to train", "--gpus '3xH100 SXM5 80GB'"],
        ),
        (
            "--method grpo-lora --gpus 8xH100 --vllm-tensor-parallel-size 3",
            &["does not divide", "--vllm-tensor-parallel-size 2"],
        ),
        (
            "--method grpo-lora --gpus 1xH100 --vllm-gpu-memory-utilization 0.15",
            &["leaves no room", "--vllm-gpu-memory-utilization"],
        ),
        (
            "--method grpo-qlora --base 8bit --gpus 1xH100",
            &["8-bit integers", "nf4-double"],
        ),
        (
            "--method dpo --gpus 1xH100",
            &["out of memory", "--method dpo-lora", "LoRA"],
        ),
        ("--gpus 1xL4", &["out of memory", "GiB usable", "QLoRA"]),
        ("--gpus 8xT4", &["bf16"]),
        (
            "--method qlora --tokens 2e12 --within 1h --gpu L4",
            &["deadline"],
        ),
    ] {
        let (code, out, err) = train(arguments);
        assert_eq!(code, 1, "{arguments}: {out}{err}");
        // Lines are broken where the terminal ends.
        let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in parts {
            assert!(
                words.contains(part),
                "{arguments}: {part:?} is not in {out}"
            );
        }
        assert_eq!(train(arguments).1, out, "the same question, the same bytes");
    }
    // The reference's log-probs are computed before where its weights are all that is too much.
    let (_, out, _) = train_of("llama-3.2-3b", "--method dpo --gpus 1xH100");
    assert!(out.contains("--precompute-ref-log-probs"), "{out}");
}

/// torchtitan and others run FSDP beside every other parallelism, over stages of unequal layers too.
#[test]
fn pytorch_divides_models_by_the_degrees_that_are_stated() {
    for framework in ["pytorch", "torchtitan"] {
        let plan = |degrees: &str| {
            let base = [MODEL, "--gpus", "24xH100", "--framework", framework];
            let stated: Vec<&str> = degrees.split_whitespace().collect();
            let (code, plan) = first(&[&base[..], &stated].concat());
            assert_eq!(code, 0, "{framework} {degrees}");
            plan
        };
        let free = plan("");
        assert_eq!(free["setup"]["layout"]["data_parallel"], 24, "{free}");
        for (degrees, name, degree) in [
            ("--tp 4", "tensor_parallel", 4),
            ("--cp 2", "context_parallel", 2),
            ("--pp 3", "pipeline_parallel", 3),
            ("--pp 3 --vp 2", "interleave", 2),
        ] {
            let plan = plan(degrees);
            assert_eq!(
                plan["setup"]["layout"][name], degree,
                "{framework} {degrees}: {plan}"
            );
            assert_eq!(plan["basis"], "extrapolated", "{framework} {degrees}");
        }
    }
    let (code, out, err) =
        train("--gpus 24xH100 --pp 3 --framework megatron --vp 1 --emit megatron");
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("\"E,t*11|t*11|t*10,L\""), "{out}");
}

/// What is recomputed costs time and saves memory, in every framework that recomputes parts of layers.
#[test]
fn each_more_of_recomputation_takes_longer_and_holds_less() {
    for framework in ["pytorch", "torchtitan"] {
        let of = |recompute: &str| {
            let base = [MODEL, "--gpus", "8xH200", "--seq", "8192"];
            let stated = ["--framework", framework, "--micro-batch", "1"];
            let recompute = ["--recompute", recompute, "--sharding", "full"];
            let (code, plan) = first(&[&base[..], &stated, &recompute].concat());
            assert_eq!(code, 0, "{framework} {recompute:?}");
            let figure = |part: &serde_json::Value| part["value"].as_f64().expect("a figure");
            let memory = plan["memory"]["ranks"][0]["peak_bytes"].clone();
            (figure(&plan["step"]["seconds"]), figure(&memory))
        };
        let [none, selective, full] = ["none", "selective", "full"].map(of);
        assert!(
            none.0 < selective.0 && selective.0 < full.0,
            "{framework}: {none:?} {selective:?} {full:?}"
        );
        assert!(
            none.1 > selective.1 && selective.1 > full.1,
            "{framework}: {none:?} {selective:?} {full:?}"
        );
    }
    let (code, out, _) = train("--method lora --gpus 8xH100 --recompute selective");
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("--recompute full"), "{out}");
}

#[test]
fn recipes_and_documents_are_written() {
    for (arguments, part) in [
        (
            "--gpus 8xH100 --emit torchtune",
            "data_parallel_shard_dim: 8",
        ),
        (
            "--method qlora --gpus 1xH100 --emit axolotl",
            "adapter: \"qlora\"",
        ),
        (
            "--method dora --gpus 8xH100 --emit accelerate",
            "num_processes: 8",
        ),
        ("--method dpo --gpus 8xH100 --emit deepspeed", "\"stage\": "),
        (
            "--method grpo-lora --gpus 8xH100 --emit trl",
            "vllm_mode: colocate",
        ),
        ("--method lora --gpus 1xH100 --emit trl", "trl sft --config"),
        (
            "--gpus 64xH100 --tp 4 --emit megatron",
            "--tensor-model-parallel-size 4",
        ),
    ] {
        let (code, out, err) = train(arguments);
        assert_eq!(code, 0, "{arguments}: {err}");
        let plain = out.replace("adapter: qlora", "adapter: \"qlora\"");
        assert!(plain.contains(part), "{arguments}: {part} is not in {out}");
    }
    let (code, out, _) = train("--gpus 8xH100 --tokens 1e9 --format json");
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (code, &json["feasible"]),
        (0, &serde_json::Value::Bool(true))
    );
    assert!(
        json["plans"][0]["derivations"]
            .as_array()
            .is_some_and(|all| all.len() >= 4)
    );
}

/// A T4 and a V100 multiply in FP16 alone.
#[test]
fn without_bf16_training_is_in_fp16() {
    let model = "meta-llama/Llama-3.2-1B";
    for gpu in ["1xT4", "1xV100 SXM2 32GB"] {
        let asked = [model, "--method", "qlora", "--gpus", gpu];
        let (code, plan) = first(&asked);
        assert_eq!(code, 0, "{gpu}");
        assert_eq!(plan["setup"]["recipe"], "fp16", "{gpu}: {plan}");
        let place = Place::new();
        let stated = place.run(&[&["train"], &asked[..], &["--recipe", "bf16"]].concat());
        assert_eq!(stated.code, 1, "{stated:?}");
        assert!(stated.out.contains("--recipe fp16"), "{}", stated.out);
    }
    let (_, plan) = first(&[model, "--method", "qlora", "--gpus", "1xA100"]);
    assert_eq!(plan["setup"]["recipe"], "pure-bf16");
    for (form, part) in [
        ("trl", "fp16: true"),
        ("axolotl", "fp16: true"),
        ("accelerate", "mixed_precision: fp16"),
        ("deepspeed", "\"fp16\""),
    ] {
        let (code, out, err) = train_of(model, &format!("--method lora --gpus 1xT4 --emit {form}"));
        assert_eq!(code, 0, "{form}: {err}");
        assert!(out.contains(part), "{form}: {part} is not in {out}");
    }
}

#[test]
fn a_host_that_is_named_stands_in_every_form() {
    let asked = "--method full --gpus 8xH100 --seq 4096 --tokens 1e9 --host p5.48xlarge";
    let (code, json, _) = train(&format!("{asked} --format json"));
    assert_eq!(code, 0);
    let told: serde_json::Value = serde_json::from_str(&json).expect("one document");
    assert!(
        told["host"]["host"]
            .as_str()
            .is_some_and(|host| host.ends_with("p5.48xlarge")),
        "{}",
        told["host"]
    );
    let parts = told["host"]["parts"].as_array().expect("parts");
    assert!(parts.iter().any(|part| part["part"] == "CPU cores"));
    let (_, text, _) = train(asked);
    assert!(text.contains("CPU cores"), "{text}");
    let (_, markdown, _) = train(&format!("{asked} --format md"));
    assert!(markdown.contains("## What the host must have"));
}

#[test]
fn answers_have_pages() {
    let place = Place::new();
    for (asked, said) in [
        (
            "train meta-llama/Llama-3.1-8B --method lora --gpu H100 --tokens 500e6",
            "a month",
        ),
        (
            "tco --gpu L4 --gpus-per-host 8 --on-demand 6.40USD/h --growth 8%/month",
            "What to buy by when",
        ),
        (
            "plan black-forest-labs/FLUX.1-dev --images 2/s --gpu H100",
            "a month",
        ),
        (
            "table --models 8b --gpu H100 --method none",
            "The 25 % rule",
        ),
    ] {
        let words: Vec<&str> = asked.split(' ').collect();
        let ran = place.run(&[&words[..], &["--html", "page.html"]].concat());
        assert_eq!(ran.code, 0, "{asked}: {}", ran.err);
        let page = std::fs::read_to_string(place.path("page.html")).expect("a page");
        assert!(
            page.starts_with("<!doctype html>") && page.contains(said),
            "{asked}"
        );
        assert!(!page.contains("<script"), "{asked}");
    }
}

/// What reference, pairs and rollouts add stands in the answer, by cause.
#[test]
fn preference_tuning_and_rollouts_say_what_they_add() {
    let plan = |arguments: &str| {
        let all: Vec<&str> = arguments.split_whitespace().collect();
        let (code, plan) = first(&[&[MODEL, "--gpus", "8xH100"], &all[..]].concat());
        assert_eq!(code, 0, "{arguments}");
        plan
    };
    let part = |plan: &serde_json::Value, cause: &str| {
        let parts = plan["step"]["parts"].as_array().expect("parts").clone();
        let found = parts.into_iter().find(|part| part["cause"] == cause);
        found.and_then(|part| part["seconds"].as_f64())
    };
    let step = |plan: &serde_json::Value| plan["step"]["seconds"]["value"].as_f64().expect("s");
    let pairs = plan("--method dpo-lora --seq 1024 --global-batch 64 --samples 6400");
    assert_eq!(pairs["setup"]["alignment"]["kind"], "dpo");
    assert_eq!(pairs["setup"]["reference"], "base without adapter");
    assert_eq!(pairs["run"]["steps"], 100);
    assert!(part(&pairs, "reference log-probs").is_some());
    let texts =
        plan("--method lora --seq 1024 --global-batch 128 --samples 12800 --recompute full");
    let same =
        plan("--method dpo-lora --seq 1024 --global-batch 64 --samples 6400 --recompute full");
    assert_eq!(texts["run"]["steps"], same["run"]["steps"]);
    assert!(step(&same) > step(&texts));
    let written = plan("--method grpo-lora --samples 6400 --beta 0.04 --reward-time 2s");
    // 6400 prompts of 8 completions, 512 a step.
    assert_eq!(written["run"]["steps"], 100);
    let whole: f64 = [
        "rollout",
        "weights to the engine",
        "reward",
        "old log-probs",
    ]
    .iter()
    .map(|cause| part(&written, cause).expect("a part"))
    .sum();
    assert!(whole < step(&written));
    assert_eq!(part(&written, "reward"), Some(2.0));
    // Fewer GPUs train where a server has its own, and all are paid for.
    let served = plan("--method grpo-lora --vllm-mode server --vllm-data-parallel-size 2");
    assert_eq!(
        (&served["gpus"], &served["setup"]["layout"]["data_parallel"]),
        (&8.into(), &6.into())
    );
    let (_, text, _) = train("--method grpo-lora --gpus 8xH100");
    assert!(text.contains("Rollout  "), "{text}");
    assert!(text.contains("--reward-time states it"), "{text}");
}
