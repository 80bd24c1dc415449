//! Rows that contradict themselves, name what is not known or ask for the impossible: each gets one
//! reading with the word for it, or the reason why there is none.

use crate::support::Place;

const HEADER: &str = "id,model,gpu,num_gpus,tp,pp,dp,precision,engine,isl,osl,batch_or_concurrency,metric,unit,extra";

/// The answers to rows: value, low, high, basis and reason.
fn answers(rows: &[String]) -> Vec<(Option<[f64; 3]>, String, String)> {
    let place = Place::new();
    let table = place.write("questions.csv", format!("{HEADER}\n{}\n", rows.join("\n")));
    let ran = place.run(&["--offline", "predict", &table.display().to_string()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut reader = csv::Reader::from_reader(ran.out.as_bytes());
    let found: Vec<_> = reader
        .records()
        .map(|record| {
            let record = record.expect("a row of CSV");
            let cell = |at: usize| record.get(at).unwrap_or("").to_string();
            let number = |at: usize| cell(at).parse::<f64>().ok();
            let value = number(2).zip(number(3)).zip(number(4));
            let value = value.map(|((value, low), high)| [value, low, high]);
            (value, cell(6), cell(7))
        })
        .collect();
    assert_eq!(found.len(), rows.len());
    found
}

/// Rows about Llama-3.1-8B on an H100 with these cells changed.
fn row(changes: &[(&str, &str)]) -> String {
    let usual = [
        ("id", "x"),
        ("model", "meta-llama/Llama-3.1-8B"),
        ("gpu", "H100"),
        ("num_gpus", "1"),
        ("tp", "1"),
        ("pp", ""),
        ("dp", ""),
        ("precision", "bf16"),
        ("engine", "vllm 0.15.1"),
        ("isl", "1000"),
        ("osl", "100"),
        ("batch_or_concurrency", "8"),
        ("metric", "tpot_mean"),
        ("unit", "ms"),
        ("extra", ""),
    ];
    let cells = usual.map(|(name, value)| {
        let changed = changes.iter().find(|(field, _)| *field == name);
        changed.map_or(value, |(_, value)| *value)
    });
    cells.join(",")
}

/// Cells changed, whether there is a figure, its basis where that matters, and what is said.
type Case = (
    &'static [(&'static str, &'static str)],
    bool,
    &'static str,
    &'static str,
);

const CASES: &[Case] = &[
    (
        &[("num_gpus", "2"), ("tp", "8")],
        true,
        "",
        "takes 8 GPUs, more than the 2 stated",
    ),
    (&[("osl", "0")], false, "", "`osl` is 0"),
    (
        &[("osl", "0"), ("metric", "ttft_mean")],
        true,
        "",
        "`osl` of 0 read as one token",
    ),
    (
        &[("isl", "0"), ("metric", "ttft_mean")],
        true,
        "",
        "`isl` of 0 read as one token",
    ),
    (
        &[("batch_or_concurrency", "-8")],
        false,
        "",
        "`batch_or_concurrency` is \"-8\"",
    ),
    (&[("isl", "-3")], false, "", "line 2: `isl` is \"-3\""),
    (&[("isl", "many")], false, "", "`isl` is \"many\""),
    (&[("tp", "1e9")], false, "", "`tp` is"),
    (
        &[("extra", "moe_tp=99999999; moe_ep=99999999")],
        false,
        "",
        "`moe_tp` is",
    ),
    (&[("isl", "1e12")], false, "", "no model has such a context"),
    (
        &[("isl", "1e7")],
        false,
        "",
        "the cache of one request of 10000100 tokens",
    ),
    (
        &[("isl", "200000")],
        true,
        "",
        "more than the 131072 that the model was made for",
    ),
    (
        &[("batch_or_concurrency", "1e6")],
        true,
        "",
        "of 1000000 requests about",
    ),
    (
        &[("batch_or_concurrency", "1e12")],
        false,
        "",
        "the load is 1e12 requests",
    ),
    (
        &[("model", "meta-llama/Llama-3.1-405B")],
        false,
        "",
        "the weights take",
    ),
    (
        &[("gpu", "Rubin (VR200)")],
        true,
        "extrapolated",
        "only announced",
    ),
    (
        &[("engine", "vllm 9.99.0")],
        true,
        "extrapolated",
        "vllm 9.99.0 is newer than",
    ),
    (
        &[("engine", "llama.cpp b99999")],
        true,
        "",
        "llama.cpp b99999 is newer than b",
    ),
    (
        &[("engine", "no such engine")],
        true,
        "",
        "engine \"no such engine\" is not known",
    ),
    (
        &[("model", "foo/foo-13B-chat")],
        true,
        "extrapolated",
        "stands for it with",
    ),
    (
        &[("model", "foo-30B-A3B")],
        true,
        "extrapolated",
        "Qwen/Qwen3-30B-A3B stands for it",
    ),
    (&[("model", "foo")], false, "", "no model \"foo\""),
    (
        &[("gpu", "FooGPU 9000")],
        false,
        "",
        "is not in the catalogue",
    ),
    (
        &[
            ("gpu", "BarGPU 1"),
            (
                "extra",
                "gpu_memory_gib=48; gpu_bandwidth_gb_s=1000; gpu_tflops=200",
            ),
        ],
        true,
        "extrapolated",
        "rough answer from its figures in the row",
    ),
    (
        &[
            ("gpu", "M2 Ultra"),
            ("engine", "llama.cpp"),
            ("precision", "Q4_0"),
        ],
        true,
        "",
        "the smallest variant of the chip",
    ),
    (&[("gpu", "Ascend 910B")], true, "extrapolated", ""),
    (&[("gpu", "SambaNova SN40L")], true, "extrapolated", ""),
    (&[("gpu", "Arc Pro B70")], true, "", ""),
    (&[("gpu", "H100 96GB")], true, "", ""),
];

#[test]
fn odd_rows_are_answered_with_the_reading_taken_or_refused_with_the_reason() {
    for (cells, figure, basis, said) in CASES {
        let found = answers(&[row(cells)]);
        let (value, found_basis, reason) = &found[0];
        assert_eq!(value.is_some(), *figure, "{cells:?}: {reason}");
        assert!(reason.contains(said), "{cells:?}: {reason}");
        assert!(
            basis.is_empty() || found_basis == basis,
            "{cells:?}: {found_basis}"
        );
    }
}

#[test]
fn networks_are_answered_by_samples_and_refused_by_tokens() {
    let flux = ("model", "black-forest-labs/FLUX.1-dev");
    let samples = [
        ("metric", "sample_throughput"),
        ("unit", "samples/s"),
        ("batch_or_concurrency", ""),
        ("isl", ""),
        ("osl", ""),
    ];
    let ask =
        |model, more: &[(&'static str, &'static str)]| row(&[&[("model", model)], more].concat());
    let found = answers(&[
        ask(flux.1, &samples),
        ask("bge-m3", &samples),
        ask("openai/whisper-large-v3", &samples),
        ask(flux.1, &[]),
        ask("bge-m3", &[]),
        ask("openai/whisper-large-v3", &[]),
    ]);
    for (value, basis, reason) in &found[..3] {
        let [figure, low, high] = value.expect("a figure");
        assert!(low < figure && figure < high && low > 0.0, "{reason}");
        assert!(!basis.is_empty(), "{reason}");
    }
    assert_eq!(found[0].1, "extrapolated");
    for ((value, _, reason), task) in
        found[3..]
            .iter()
            .zip(["text to image", "text to vector", "speech to text"])
    {
        assert!(value.is_none() && reason.contains(task), "{reason}");
    }
}

#[test]
fn one_bad_row_does_not_hide_the_others() {
    let rows = [row(&[]), row(&[("osl", "x")]), row(&[])];
    let found = answers(&rows);
    assert!(found[0].0.is_some() && found[2].0.is_some());
    assert!(found[1].0.is_none());
    assert!(found[1].2.starts_with("line 3: `osl`"), "{}", found[1].2);
}

/// A step of xorshift64.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Cells that rows are drawn from: usual, odd and hostile.
const CELLS: [(&str, &[&str]); 14] = [
    (
        "model",
        &[
            "meta-llama/Llama-3.1-8B",
            "meta-llama/Llama-3.1-8B",
            "deepseek-ai/DeepSeek-V4-Flash",
            "openai/gpt-oss-20b",
            "Qwen/Qwen3-30B-A3B",
            "zai-org/GLM-5.3-Flash",
            "foo-1.1B",
            "foo-700B-A1B",
            "foo-9999999T",
            "",
            "../../etc",
        ],
    ),
    (
        "gpu",
        &[
            "H100",
            "A100 SXM4 80GB",
            "M2",
            "Max 1550 (one stack)",
            "MI300X",
            "Rubin (VR200)",
            "T4",
            "GB300",
            "SN40L",
            "?",
            "",
        ],
    ),
    (
        "num_gpus",
        &[
            "",
            "1",
            "2",
            "7",
            "8",
            "0",
            "4294967296",
            "1e15",
            "-1",
            "0.5",
        ],
    ),
    ("tp", &["", "1", "2", "3", "8", "64", "1024", "1e9", "NaN"]),
    ("pp", &["", "1", "2", "999", "inf"]),
    ("dp", &["", "1", "4", "1024"]),
    (
        "precision",
        &[
            "", "bf16", "fp8", "nvfp4", "Q4_0", "F16", "int4", "fp8 kv", "bf8;", "\"\"",
        ],
    ),
    (
        "engine",
        &[
            "",
            "vllm",
            "vllm 0.6.3",
            "sglang 0.5.6",
            "TensorRT-LLM 1.2.0",
            "llama.cpp",
            "llama.cpp (2023-10)",
            "vllm 99999999999.1.1",
            "vllm 0",
            "transformers",
            "\u{1f980}",
        ],
    ),
    (
        "isl",
        &[
            "", "0", "1", "128", "1000", "128000", "1e7", "1e15", "-1", "0.3",
        ],
    ),
    ("osl", &["", "0", "1", "2", "1000", "1e6", "1e15", "x"]),
    (
        "batch_or_concurrency",
        &[
            "",
            "1",
            "64",
            "1000000",
            "1e300",
            "0",
            "rate=1/s",
            "rate=1e6/s",
            "rate=1e-9/s",
            "rate=2/s then 9/s",
            "rate=/s",
        ],
    ),
    (
        "metric",
        &[
            "ttft_mean",
            "ttft_p99",
            "tpot_mean",
            "tpot_p0",
            "itl_mean",
            "e2e_p90",
            "output_throughput",
            "output_throughput_per_gpu",
            "request_throughput",
            "total_token_throughput",
            "batch_latency",
            "decode_speed",
            "prompt_eval_speed",
            "kv_cache_capacity",
            "weights_memory_per_gpu",
            "oom",
            "train_tokens_per_s_per_gpu",
            "mfu",
            "nonsense",
            "",
        ],
    ),
    ("unit", &["ms", "s", "tokens/s", "", "parsecs"]),
    (
        "extra",
        &[
            "",
            "max_num_seqs=0",
            "max_num_batched_tokens=0",
            "max_num_batched_tokens=-5",
            "gpu_memory_utilization=7",
            "gpu_memory_utilization=nan",
            "mode=disagg",
            "mode=disagg; decode_tp_size=1024; prefill_num_workers=0",
            "moe_tp=8; moe_ep=8",
            "mapping=DEP1024",
            "parallelism=tp0",
            "tokens=1e9",
            "note=TP8 + DCP8",
            "slo_ttft_ms=0; slo_tpot_ms=0",
            "slo_ttft_ms=500; slo_tpot_ms=-1",
            "benchmark=llama2-70b; scenario=Server",
            "kv_cache_memory_per_gpu_gib=-3",
            "max_model_len=0",
            "block_size=0",
            ";;=;",
        ],
    ),
];

/// A row that is usual but for about a third of its cells.
fn random_row(state: &mut u64) -> Vec<(&'static str, &'static str)> {
    let mut changed = Vec::new();
    for (name, cells) in CELLS {
        let drawn = next(state);
        if drawn % 100 < 35 {
            changed.push((name, cells[(drawn >> 32) as usize % cells.len()]));
        }
    }
    changed
}

#[test]
fn random_rows_get_a_finite_figure_or_a_reason() {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let rows: Vec<String> = (0..4000).map(|_| row(&random_row(&mut state))).collect();
    let found = answers(&rows);
    let mut answered = 0;
    for (text, (value, basis, reason)) in rows.iter().zip(&found) {
        let Some([value, low, high]) = value else {
            assert!(!reason.is_empty(), "no figure and no reason: {text}");
            continue;
        };
        answered += 1;
        let [value, low, high] = [value, low, high].map(|v| *v);
        assert!(value.is_finite() && value >= 0.0, "{text}: {value}");
        assert!(
            low <= value && value <= high && high.is_finite(),
            "{text}: {low} {value} {high}"
        );
        assert!(!basis.is_empty(), "{text}");
        let fields = HEADER.split(',').zip(text.split(','));
        let cell = |name: &str| fields.clone().find(|f| f.0 == name).map_or("", |f| f.1);
        // A token of a dense model cannot come faster than its weights are read once at the peak.
        if cell("model") == "meta-llama/Llama-3.1-8B"
            && cell("gpu") == "H100"
            && cell("precision") == "bf16"
            && cell("unit") == "ms"
            && matches!(cell("metric"), "tpot_mean" | "itl_mean")
            && !cell("extra").contains('=')
        {
            let ranks = |name: &str| cell(name).parse::<f64>().unwrap_or(1.0).max(1.0);
            let gpus = (ranks("tp") * ranks("pp")).max(ranks("num_gpus"));
            // Pipeline stages take turns: a token passes all of them.
            let least = 1e3 * 15.0e9 / 3.36e12 / gpus;
            assert!(value >= least, "{text}: {value} ms of at least {least} ms");
        }
    }
    assert!(answered > 200, "{answered} rows answered");
}
