//! Each kind of bad input gets one clear error, exit code 2, nothing on stdout and no file.

use crate::support::{Place, config_text, header, tensors};
use serde_json::{Value, json};

/// Runs a command that must fail: its error has these parts.
fn check(place: &Place, arguments: &[&str], parts: &[&str]) {
    let before = place.files();
    let ran = place.run(arguments);
    let said = &ran.err;
    assert_eq!(ran.code, 2, "{arguments:?}: {said}{}", ran.out);
    assert!(
        ran.out.is_empty(),
        "{arguments:?} wrote to stdout: {}",
        ran.out
    );
    assert!(said.starts_with("error: "), "{arguments:?}: {said}");
    assert_eq!(said.matches("error: ").count(), 1, "{arguments:?}: {said}");
    assert!(
        !said.contains("panicked") && !said.contains('\u{1b}'),
        "{arguments:?}: {said}"
    );
    for part in parts {
        assert!(
            said.contains(part),
            "{arguments:?}: {part:?} is not in: {said}"
        );
    }
    assert_eq!(place.files(), before, "{arguments:?} left files");
}

fn safetensors_bytes(header: &[u8], data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.resize(bytes.len() + data, 0);
    bytes
}

#[test]
fn hostile_safetensors_headers() {
    let entry = |shape: Value, offsets: Value| {
        json!({"model.norm.weight": {"dtype": "BF16", "shape": shape, "data_offsets": offsets}})
            .to_string()
    };
    let huge = 1_u64 << 63;
    let nested = format!("{{\"a\":{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let twice = r#"{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]},"a":{"dtype":"BF16","shape":[1],"data_offsets":[2,4]}}"#;
    let (whole, data) = header(&tensors(0..2, true));
    let whole = safetensors_bytes(&whole, usize::try_from(data).expect("small"));
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (Vec::new(), "cut short"),
        (u64::MAX.to_le_bytes().to_vec(), "the format allows"),
        (
            [&1000_u64.to_le_bytes()[..], b"{}"].concat(),
            "1000 bytes, the file has 10",
        ),
        (whole[..whole.len() - 1].to_vec(), "cut short"),
        (
            safetensors_bytes(entry(json!([huge, huge]), json!([0, 2])).as_bytes(), 2),
            "more than 2^64",
        ),
        (
            safetensors_bytes(entry(json!([4]), json!([0, 2])).as_bytes(), 2),
            "its shape makes 8 bytes",
        ),
        (
            safetensors_bytes(nested.as_bytes(), 0),
            "not a safetensors header",
        ),
        (safetensors_bytes(twice.as_bytes(), 4), "stands twice"),
        (
            safetensors_bytes(b"not json", 0),
            "not a safetensors header",
        ),
    ];
    for (bytes, part) in cases {
        let place = Place::new();
        place.write("config.json", config_text(|_| {}));
        place.write("model.safetensors", bytes);
        for model in [".", "./model.safetensors"] {
            check(
                &place,
                &["memory", model, "--gpu", "L4"],
                &["model.safetensors", part],
            );
        }
    }
}

#[test]
fn hostile_indexes() {
    let place = Place::new();
    place.write("config.json", config_text(|_| {}));
    let index = "model.safetensors.index.json";
    place.write(
        index,
        json!({"weight_map": {"a": "../../etc/passwd"}}).to_string(),
    );
    check(
        &place,
        &["memory", ".", "--gpu", "L4"],
        &[index, "plain file name"],
    );
    place.write(index, "{");
    check(&place, &["memory", ".", "--gpu", "L4"], &[index]);
}

#[test]
fn hostile_gguf_headers() {
    let start = |tensors: u64, entries: u64| {
        [
            &b"GGUF"[..],
            &3_u32.to_le_bytes(),
            &tensors.to_le_bytes(),
            &entries.to_le_bytes(),
        ]
        .concat()
    };
    let mut nested = start(0, 1);
    nested.extend(1_u64.to_le_bytes());
    nested.extend(b"a");
    for _ in 0..1000 {
        nested.extend(9_u32.to_le_bytes());
        nested.extend(9_u32.to_le_bytes());
        nested.extend(1_u64.to_le_bytes());
    }
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"GGUF".to_vec(), "cut short"),
        (b"MLGG0000000000000000000000".to_vec(), "not a GGUF file"),
        (start(u64::MAX, 0), "at most"),
        (start(0, u64::MAX), "at most"),
        (start(5, 5), "cut short"),
        (start(0, 0), "general.architecture"),
        (nested, "byte"),
    ];
    for (bytes, part) in cases {
        let place = Place::new();
        place.write("model.gguf", bytes);
        check(
            &place,
            &["memory", "model.gguf", "--gpu", "L4"],
            &["model.gguf", part],
        );
    }
}

#[test]
fn configurations_that_cannot_be() {
    let with = |field: &str, value: Value| {
        config_text(|config| {
            config.insert(field.into(), value);
        })
    };
    let cases: Vec<(String, &str)> = vec![
        (
            config_text(|config| drop(config.remove("hidden_size"))),
            "hidden_size",
        ),
        (with("num_hidden_layers", json!(-2)), "num_hidden_layers"),
        (with("num_attention_heads", json!(0)), "num_attention_heads"),
        (with("num_key_value_heads", json!(3)), "num_key_value_heads"),
        (with("hidden_size", json!(9e18)), "hidden_size"),
        (config_text(|_| {}).replace("256", "NaN"), "hidden_size"),
        ("[]".into(), "JSON object"),
        ("{\"a\"".into(), "not a JSON document"),
        ("[".repeat(200_000), "not a JSON document"),
        (with("model_type", json!("bert")), "bert"),
    ];
    for (text, part) in cases {
        let place = Place::new();
        place.write("tiny/config.json", text);
        check(
            &place,
            &["memory", "tiny", "--gpu", "L4"],
            &["config.json", part],
        );
        check(&place, &["plan", "tiny"], &["config.json", part]);
    }
}

#[test]
fn unknown_names() {
    let place = Place::new();
    place.write("empty/readme.txt", "nothing");
    for (arguments, parts) in [
        (
            vec!["memory", "llama-3.1-8c", "--gpu", "L4"],
            vec!["llama-3.1-8c", "did you mean", "Llama-3.1-8B"],
        ),
        (
            vec!["plan", "nobody/nothing"],
            vec!["nobody/nothing", "--offline"],
        ),
        (
            vec!["memory", "llama-3.1-8b", "--gpu", "H1000"],
            vec!["--gpu H1000", "did you mean", "H100"],
        ),
        (
            vec!["plan", "llama-3.1-8b", "--gpu", "H100,L5"],
            vec!["--gpu L5", "did you mean"],
        ),
        (
            vec!["plan", "llama-3.1-8b", "--why-not", "L5"],
            vec!["--why-not L5"],
        ),
        (
            vec!["plan", "llama-3.1-8b", "--owned", "L5:8"],
            vec!["--owned L5"],
        ),
        (
            vec!["plan", "llama-3.1-8b", "--provider", "acme"],
            vec!["--provider acme", "providers are"],
        ),
        (
            vec!["plan", "llama-3.1-8b", "--region", "moon"],
            vec!["--region moon", "lists offers with their regions"],
        ),
        (
            vec!["plan", "llama-3.1-8b", "--engine", "vlmm"],
            vec!["--engine vlmm", "vllm"],
        ),
        (
            vec!["plan", "llama-3.1-8b", "--engine", "vllm@new"],
            vec!["new", "no release"],
        ),
        (
            vec!["plan", "llama-3.1-8b", "--precision", "fp7"],
            vec!["--precision fp7", "fp8"],
        ),
        (
            vec!["plan", "llama-3.1-8b", "--kv", "fp7"],
            vec!["--kv fp7", "fp8"],
        ),
        (
            vec!["memory", "llama-3.1-8b", "--gpu", "L40S 1g.10gb"],
            vec!["no MIG profile", "cannot be partitioned"],
        ),
        (
            vec!["memory", "llama-3.1-8b", "--gpu", "A100 SXM4 80GB 9g.10gb"],
            vec!["no MIG profile", "1g.10gb"],
        ),
        (vec!["gpus", "warp-drive"], vec!["warp-drive"]),
        (vec!["models", "warp-drive"], vec!["warp-drive"]),
        (vec!["offers", "warp-drive"], vec!["warp-drive"]),
        (vec!["memory", "./nowhere"], vec!["./nowhere"]),
        (
            vec!["memory", "./empty"],
            vec!["holds no model", "config.json"],
        ),
        (vec!["memory", "", "--gpu", "L4"], vec!["empty"]),
        (vec!["memory"], vec!["no model is named"]),
        (vec!["man", "warp"], vec!["warp"]),
        (vec!["warp"], vec!["warp"]),
    ] {
        check(&place, &arguments, &parts);
    }
}

#[test]
fn quantities_that_cannot_be() {
    let place = Place::new();
    for (flags, parts) in [
        (vec!["--rate", "0"], vec!["--rate", "above 0"]),
        (vec!["--rate=-3"], vec!["--rate", "-3"]),
        (vec!["--rate", "1e300"], vec!["--rate"]),
        (vec!["--rate", "nan"], vec!["--rate"]),
        (
            vec!["--rate", "8", "--concurrency", "4"],
            vec!["--concurrency", "rate is given too"],
        ),
        (vec!["--concurrency", "0"], vec!["--concurrency"]),
        (vec!["--isl", "0"], vec!["--isl"]),
        (vec!["--isl", "99M"], vec!["--isl"]),
        (vec!["--prefix-hit", "1.5"], vec!["--prefix-hit"]),
        (vec!["--ttft", "p95:1"], vec!["--ttft", "unit"]),
        (vec!["--ttft", "1s"], vec!["--ttft", "p95:1s"]),
        (vec!["--ttft", "p101:1s"], vec!["--ttft", "percentile"]),
        (vec!["--ttft", "p95:0s"], vec!["--ttft", "above 0"]),
        (
            vec!["--ttft", "p95:5s", "--e2e", "p95:1s"],
            vec!["--ttft", "the first comes before the last"],
        ),
        (
            vec!["--osl", "1", "--tpot", "p95:40ms"],
            vec!["--tpot", "one output token"],
        ),
        (vec!["--budget", "20"], vec!["--budget", "currency"]),
        (vec!["--budget", "20EUR"], vec!["--budget", "EUR", "USD"]),
        (vec!["--budget", "0USD"], vec!["--budget", "above 0"]),
        (vec!["--power", "10"], vec!["--power", "unit"]),
        (
            vec!["--max-quality-loss", "1"],
            vec!["--max-quality-loss", "percent"],
        ),
        (vec!["--spare=-1"], vec!["--spare"]),
        (vec!["--owned", "H100:0"], vec!["--owned", "H100:8"]),
        (vec!["--lora", "4"], vec!["--lora", "4@16"]),
        (vec!["--context", "0"], vec!["--context"]),
        (vec!["--top", "0"], vec!["--top"]),
        (vec!["--emit", "systemd"], vec!["systemd"]),
        (vec!["--emit", "sglang", "--engine", "vllm"], vec!["--emit"]),
        (
            vec!["--from", "echo hello"],
            vec!["--from", "no engine is started"],
        ),
        (vec!["--from", "vllm serve 'x"], vec!["--from", "quote"]),
        (
            vec!["--params", "8e9", "--layers", "32"],
            vec!["one of them"],
        ),
    ] {
        check(
            &place,
            &[&["plan", "llama-3.1-8b"], flags.as_slice()].concat(),
            &parts,
        );
    }
}

#[test]
fn numbers_that_make_no_model() {
    let place = Place::new();
    for (flags, parts) in [
        (vec!["--layers", "32"], vec!["--params or --hidden"]),
        (vec!["--params", "8e9"], vec!["--layers is missing"]),
        (
            vec!["--params", "0", "--layers", "32"],
            vec!["--params is 0"],
        ),
        (
            vec!["--params", "1e6", "--layers", "32", "--hidden", "4096"],
            vec!["contradict"],
        ),
        (
            vec![
                "--params",
                "8e9",
                "--layers",
                "32",
                "--hidden",
                "4096",
                "--intermediate",
                "99",
            ],
            vec!["contradict"],
        ),
        (
            vec![
                "--layers",
                "9000000000000000000",
                "--hidden",
                "9000000000000000000",
            ],
            vec!["no model"],
        ),
        (
            vec!["--params", "8GB", "--layers", "32"],
            vec!["--params", "8e9"],
        ),
    ] {
        check(&place, &[&["memory"], flags.as_slice()].concat(), &parts);
    }
    for (flags, parts) in [
        (vec!["--context", "1.5"], vec!["--context"]),
        (vec!["--concurrency", "none"], vec!["--concurrency"]),
        (vec!["--memory-fraction", "9"], vec!["--memory-fraction"]),
        (vec!["--tp", "0"], vec!["--tp"]),
        (vec!["--tp", "3"], vec!["--tp 3", "divide by 2, 4, 8"]),
        (vec!["--pp", "33"], vec!["--pp 33", "32 layers"]),
        (vec!["--ep", "2"], vec!["--ep 2", "no experts"]),
        (
            vec!["--gpu", "A100 SXM4 80GB 1g.10gb", "--tp", "2"],
            vec!["slice"],
        ),
    ] {
        check(
            &place,
            &[&["memory", "llama-3.1-8b", "--gpu", "L4"], flags.as_slice()].concat(),
            &parts,
        );
    }
    check(
        &place,
        &["offers", "--max-price", "3EUR"],
        &["--max-price", "EUR"],
    );
}

#[test]
fn files_that_cannot_be_read() {
    let place = Place::new();
    place.write(
        "w.toml",
        "rate = \"8/s\"\nisl = 2000\nosl = 300\nttft = \"1\"\n",
    );
    place.write("typo.toml", "rat = 8\n");
    place.write("w.ini", "rate = 8\n");
    place.write("gpu.yaml", "rate: 8\nisl: 10\nosl: 10\ngpus: [L5]\n");
    place.write("whose.csv", "provider,instance,region,gpu,gpus,usd_per_hour,source\nme,a,here,L4,1,0.5,mine\nme,a,here,L5,1,0.5,mine\n");
    place.write("euro.csv", "provider,instance,region,gpu,gpus,usd_per_hour,currency,source\nme,a,here,L4,1,0.5,EUR,mine\n");
    place.write(
        "other.csv",
        "provider,instance,region,gpu,gpus,eur_per_hour,source\nme,a,here,L4,1,0.5,mine\n",
    );
    place.write(
        "minus.csv",
        "provider,instance,region,gpu,gpus,usd_per_hour,source\nme,a,here,L4,1,-0.5,mine\n",
    );
    place.write("trace.csv", "what,is,this\n1,2,3\n");
    place.write("binary.csv", [0xff, 0xfe, 0x00, 0x80]);
    place.write("gpus-of-mine.toml", "[[gpu]]\nname = 3\n");
    for (flags, parts) in [
        (vec!["--workload", "none.toml"], vec!["none.toml"]),
        (vec!["--workload", "w.toml"], vec!["w.toml, line 4", "ttft"]),
        (
            vec!["--workload", "typo.toml"],
            vec!["typo.toml, line 1", "rat"],
        ),
        (vec!["--workload", "w.ini"], vec!["w.ini", ".toml"]),
        (
            vec!["--workload", "gpu.yaml"],
            vec!["--workload", "gpus", "L5", "did you mean"],
        ),
        (
            vec!["--prices", "whose.csv"],
            vec!["whose.csv: line 3", "L5", "did you mean"],
        ),
        (vec!["--prices", "none.csv"], vec!["none.csv"]),
        (
            vec!["--prices", "euro.csv"],
            vec!["euro.csv", "line 2", "EUR"],
        ),
        (
            vec!["--prices", "other.csv"],
            vec!["other.csv", "eur_per_hour", "usd_per_hour"],
        ),
        (
            vec!["--prices", "minus.csv"],
            vec!["minus.csv", "line 2", "not negative"],
        ),
        (vec!["--prices", "binary.csv"], vec!["binary.csv"]),
        (vec!["--trace", "none.csv"], vec!["none.csv"]),
        (vec!["--trace", "trace.csv"], vec!["trace.csv", "line 1"]),
        (vec!["--trace", "binary.csv"], vec!["binary.csv"]),
    ] {
        check(
            &place,
            &[&["plan", "llama-3.1-8b"], flags.as_slice()].concat(),
            &parts,
        );
    }
    check(&place, &["gpus", "--check", "none.toml"], &["none.toml"]);
    check(&place, &["gpus", "--check", "w.ini"], &["w.ini", "gpus"]);
    let mut command = place.command(&["gpus"]);
    let ran = crate::support::ran(command.env("GPUWISE_CATALOGUE", "gpus-of-mine.toml"));
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("gpus-of-mine.toml: line 2"), "{}", ran.err);
}

#[test]
fn outputs_that_cannot_be_written() {
    let place = Place::new();
    place.write("folder/file", "");
    for flag in ["--save", "--html"] {
        check(
            &place,
            &["plan", "llama-3.1-8b", flag, "nowhere/out"],
            &["cannot write nowhere/out"],
        );
        check(
            &place,
            &["plan", "llama-3.1-8b", flag, "folder"],
            &["cannot write folder", "directory"],
        );
        // Nothing is written where the input is wrong.
        check(
            &place,
            &["plan", "llama-3.1-8b", flag, "out", "--rate", "0"],
            &["--rate"],
        );
    }
}
