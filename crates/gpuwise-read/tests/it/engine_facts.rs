//! Engine facts: every file of the catalogue is understood whole, and lookups pick the right row.

#![expect(
    clippy::unwrap_used,
    clippy::too_many_lines,
    reason = "tables of cases"
)]

use gpuwise_domain::{
    engine::Release,
    facts::{
        Context, EngineFacts, UNLIMITED, Usage, Value, Vendor, Verdict, default_settings,
        release_of,
    },
};
use gpuwise_read::catalogue::read_engine_facts;
use std::{fs, path::PathBuf};

pub(crate) fn facts(engine: &str) -> EngineFacts {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../catalogue/engines/{engine}.toml"));
    let text = fs::read_to_string(&path).unwrap();
    read_engine_facts(&format!("engines/{engine}.toml"), &text).unwrap()
}

fn release(text: &str) -> Option<Release> {
    text.parse().ok()
}

fn on(gib: f64, capability: (u8, u8)) -> Context {
    Context {
        gpu_gib: Some(gib),
        compute_capability: Some(capability),
        vendor: Some(Vendor::Nvidia),
        ..Context::default()
    }
}

fn amd(gib: f64) -> Context {
    Context {
        gpu_gib: Some(gib),
        vendor: Some(Vendor::Amd),
        ..Context::default()
    }
}

#[test]
fn every_engine_has_commands_and_a_port() {
    for engine in ["vllm", "sglang", "trtllm", "llamacpp", "transformers"] {
        let facts = facts(engine);
        assert!(facts.command(None).is_some(), "{engine} can be started");
        let port = facts.setting("port", None, &on(80.0, (9, 0)));
        assert!(port.and_then(Value::number).is_some(), "{engine} listens");
    }
}

#[test]
fn defaults_by_release_and_hardware() {
    let offline = Context {
        usage: Usage::Offline,
        ..on(79.6, (9, 0))
    };
    for (engine, setting, at, context, expected) in [
        (
            "vllm",
            "gpu_memory_utilization",
            "0.15.0",
            on(79.6, (9, 0)),
            0.9,
        ),
        (
            "vllm",
            "gpu_memory_utilization",
            "0.20.0",
            on(79.6, (9, 0)),
            0.92,
        ),
        (
            "vllm",
            "max_num_batched_tokens",
            "0.9.2",
            on(79.6, (9, 0)),
            8192.0,
        ),
        ("vllm", "max_num_batched_tokens", "0.9.2", offline, 16384.0),
        (
            "vllm",
            "max_num_batched_tokens",
            "0.9.2",
            on(79.6, (8, 0)),
            2048.0,
        ),
        (
            "vllm",
            "max_num_batched_tokens",
            "0.8.5",
            on(79.6, (8, 0)),
            8192.0,
        ),
        (
            "vllm",
            "max_num_batched_tokens",
            "0.30.0",
            on(179.0, (10, 0)),
            16384.0,
        ),
        (
            "vllm",
            "max_num_batched_tokens",
            "0.27.0",
            on(179.0, (10, 0)),
            8192.0,
        ),
        (
            "vllm",
            "max_num_batched_tokens",
            "0.30.0",
            on(22.0, (8, 9)),
            2048.0,
        ),
        (
            "vllm",
            "max_num_batched_tokens",
            "0.33.0",
            on(119.0, (12, 1)),
            2048.0,
        ),
        ("vllm", "max_num_seqs", "0.33.0", on(79.6, (9, 0)), 1024.0),
        ("vllm", "max_num_seqs", "0.33.0", on(44.0, (8, 9)), 256.0),
        // No compute capability: none of those that are singled out.
        (
            "vllm",
            "max_num_batched_tokens",
            "0.20.0",
            amd(191.0),
            8192.0,
        ),
        (
            "sglang",
            "chunked_prefill_size",
            "0.5.2",
            on(44.0, (8, 9)),
            8192.0,
        ),
        (
            "sglang",
            "chunked_prefill_size",
            "0.5.10",
            on(44.0, (8, 9)),
            4096.0,
        ),
        (
            "sglang",
            "chunked_prefill_size",
            "0.5.23",
            on(179.0, (10, 0)),
            16384.0,
        ),
        ("trtllm", "max_num_seqs", "0.12.0", on(79.6, (9, 0)), 256.0),
        ("trtllm", "max_num_seqs", "1.2.0", on(79.6, (9, 0)), 2048.0),
        ("llamacpp", "parallel", "0.0.7000", on(22.0, (8, 9)), 1.0),
        ("llamacpp", "parallel", "0.0.8000", on(22.0, (8, 9)), 4.0),
    ] {
        let value = facts(engine)
            .setting(setting, release(at), &context)
            .and_then(Value::number);
        assert_eq!(
            value,
            Some(expected),
            "{engine} {at} {setting} on {context:?}"
        );
    }
}

#[test]
fn the_backend_of_a_release_decides_its_rows() {
    let facts = facts("trtllm");
    let chunked = |at: &str| {
        facts
            .setting("enable_chunked_prefill", release(at), &on(79.6, (9, 0)))
            .cloned()
    };
    assert_eq!(chunked("0.18.0"), Some(Value::Switch(true)));
    assert_eq!(chunked("1.0.0"), Some(Value::Switch(false)));
    assert_eq!(chunked("0.15.0"), None);
}

#[test]
fn flags_by_spelling_and_release() {
    for (engine, at, spelling, expected) in [
        ("vllm", "0.33.0", "-tp", Some("--tensor-parallel-size")),
        (
            "vllm",
            "0.33.0",
            "--tensor_parallel_size",
            Some("--tensor-parallel-size"),
        ),
        (
            "vllm",
            "0.33.0",
            "--device-memory-utilization",
            Some("--device-memory-utilization"),
        ),
        ("vllm", "0.17.0", "--swap-space", Some("--swap-space")),
        ("vllm", "0.18.0", "--swap-space", None),
        ("vllm", "0.8.2", "-dp", None),
        ("sglang", "0.5.0", "--tp", Some("--tp-size")),
        (
            "trtllm",
            "1.2.0",
            "--max_num_tokens",
            Some("--max_num_tokens"),
        ),
        ("trtllm", "1.2.0", "--max-num-tokens", None),
        ("llamacpp", "0.0.9000", "-ngl", Some("--n-gpu-layers")),
    ] {
        let facts = facts(engine);
        let found = facts
            .flag(spelling, release(at))
            .map(|flag| flag.name.as_str());
        assert_eq!(found, expected, "{engine} {at} {spelling}");
    }
    assert_eq!(
        facts("vllm").flags_like("--max-model-length", None)[0],
        "--max-model-len"
    );
    assert_eq!(
        facts("vllm").flags_like("--tensor-paralel", None)[0],
        "--tensor-parallel-size"
    );
}

#[test]
fn support_by_release_and_hardware() {
    let check = |engine: &str, feature: &str, at: &str, context: &Context, expected: &str| {
        let verdict = facts(engine).supports(feature, release(at), context);
        let said = match verdict {
            Verdict::Supported => "supported".into(),
            Verdict::Unknown => "unknown".into(),
            Verdict::Since(release) => format!("since {release}"),
            Verdict::Until(release) => format!("until {release}"),
            Verdict::Needs(condition) => format!("needs {condition}"),
        };
        assert_eq!(said, expected, "{engine} {at} {feature}");
    };
    let (ampere, ada, hopper) = (on(79.6, (8, 0)), on(44.0, (8, 9)), on(79.6, (9, 0)));
    check("vllm", "kv:fp8", "0.10.0", &ada, "supported");
    check("vllm", "kv:fp8", "0.11.0", &ampere, "supported");
    check(
        "vllm",
        "kv:fp8",
        "0.11.0",
        &on(15.0, (7, 5)),
        "needs compute_capability>=8.0",
    );
    check("vllm", "weights:fp8", "0.10.0", &amd(191.0), "supported");
    check("vllm", "weights:awq", "0.10.0", &amd(191.0), "unknown");
    check("vllm", "mode:ep", "0.7.0", &hopper, "since 0.8.0");
    check(
        "vllm",
        "mode:speculative_draft_model",
        "0.9.0",
        &hopper,
        "since 0.15.0",
    );
    check("vllm", "mode:telepathy", "0.9.0", &hopper, "unknown");
    check(
        "llamacpp",
        "kv:fp8",
        "0.0.9000",
        &hopper,
        "needs vendor=none",
    );
    check("trtllm", "kv:int8", "1.0.0", &hopper, "until 1.0.0");
}

#[test]
fn images_by_vendor() {
    assert_eq!(
        facts("vllm")
            .image(Vendor::Nvidia, release("0.11.0"))
            .unwrap(),
        "vllm/vllm-openai:v0.11.0"
    );
    assert_eq!(facts("vllm").image(Vendor::Amd, release("0.8.0")), None);
    assert!(
        facts("llamacpp")
            .image(Vendor::Nvidia, None)
            .unwrap()
            .ends_with(":server-cuda-b11434")
    );
}

#[test]
fn broken_files_say_where() {
    let head =
        "name = \"vllm\"\ntitle = \"vLLM\"\nlatest = \"0.33.0\"\nchecked = \"\"\nsource = \"s\"\n";
    for (body, expected) in [
        ("name = 3\n", "x.toml: line 6: "),
        (
            "[[setting]]\nname = \"a\"\nvalue = 1\nwhen = \"gpu_gb>3\"\nsource = \"s\"",
            "x.toml: setting \"a\": ",
        ),
        (
            "[[setting]]\nname = \"a\"\nvalue = 1\nsource = \" \"",
            "x.toml: setting \"a\": `source` must say where the row comes from",
        ),
        (
            "[[setting]]\nname = \"a\"\nvalue = 1\nsince = \"new\"\nsource = \"s\"",
            "x.toml: setting \"a\": \"new\" is no release; expected one such as `0.20.1` or `b9000`",
        ),
        (
            "[[setting]]\nname = \"a\"\nvalue = 1\nsince = \"0.9\"\nuntil = \"0.9\"\nsource = \"s\"",
            "x.toml: setting \"a\": `until` 0.9.0 is not after `since` 0.9.0",
        ),
        (
            "[[flag]]\nname = \"--a\"\nsetting = \"a\"\ntype = \"word\"\nsource = \"s\"",
            "x.toml: flag \"--a\": `type` is \"word\"; expected bool, int, float, string, json or choice",
        ),
    ] {
        let error = read_engine_facts("x.toml", &format!("{head}{body}"))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

/// Batched tokens, sequences, share of memory and cache block that engines take by themselves.
#[test]
fn settings_that_engines_take_by_themselves() {
    let check = |engine: &str, at: &str, context: &Context, expected: (u64, u64, f64, u64)| {
        let facts = facts(engine);
        let settings = default_settings(&facts, release_of(facts.engine, at), context);
        let found = (
            settings.batched_tokens,
            settings.sequences,
            settings.memory_fraction,
            settings.block,
        );
        assert_eq!(found, expected, "{engine} {at} on {context:?}");
    };
    let l4 = on(22.5, (8, 9));
    let l40s = on(45.0, (8, 9));
    let a100 = on(80.0, (8, 0));
    let h100 = on(79.6, (9, 0));
    let h200 = on(140.4, (9, 0));
    let b200 = on(179.1, (10, 0));
    for at in ["0.9.0", "0.15.0", "0.19.0"] {
        check("vllm", at, &l4, (2048, 256, 0.9, 16));
        check("vllm", at, &l40s, (2048, 256, 0.9, 16));
        check("vllm", at, &a100, (2048, 256, 0.9, 16));
        check("vllm", at, &h100, (8192, 1024, 0.9, 16));
        check("vllm", at, &h200, (8192, 1024, 0.9, 16));
        check("vllm", at, &b200, (8192, 1024, 0.9, 16));
    }
    check("vllm", "0.6.0", &h100, (2048, 256, 0.9, 16));
    check("vllm", "0.8.0", &l4, (2048, 1024, 0.9, 16));
    check("vllm", "0.8.0", &b200, (2048, 1024, 0.9, 16));
    check("vllm", "0.8.5", &a100, (8192, 1024, 0.9, 16));
    check("vllm", "0.27.0", &b200, (8192, 1024, 0.92, 16));
    for at in ["0.28.0", "0.33.0"] {
        check("vllm", at, &l40s, (2048, 256, 0.92, 16));
        check("vllm", at, &h200, (8192, 1024, 0.92, 16));
        check("vllm", at, &b200, (16384, 1024, 0.92, 16));
    }
    // 1 - (512 + 1.5·8192 + 2·256 + 128) / (79.6·1024), and the floor of 10 GiB below it.
    check("sglang", "0.5.23", &h100, (8192, 4096, 0.835, 1));
    // Of memory in steps: 2.8 GiB and a tenth for the one rank.
    check("sglang", "0.5.0", &l4, (2048, 4096, 0.871, 1));
    let groups = Context {
        data: 8,
        ..h100.clone()
    };
    // 512 + 1.5·8192 + 2·512 + 128·8 + 4.5·512·8 MiB are kept; each group has its part of a step.
    check("sglang", "0.5.23", &groups, (1024, 4096, 0.592, 1));
    check("trtllm", "1.2.1", &h100, (8192, 2048, 0.9, 32));
    check("llamacpp", "b11434", &h100, (512, 4, 1.0, 1));
    check(
        "transformers",
        "4.55.0",
        &h100,
        (UNLIMITED, UNLIMITED, 1.0, 1),
    );
}
