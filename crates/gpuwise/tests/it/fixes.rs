//! Each fix that an infeasible answer prints is applied to the question: it names flags with their amounts, and under
//! them what had failed passes.

use crate::support::{Place, Ran};
use serde_json::Value;

/// A question that has no answer, and the flag, or the first words, of the fix of what is nearest.
type Case = (&'static [&'static str], &'static str);

const PLANS: [Case; 18] = [
    (
        &[
            "llama-3.1-70b",
            "--rate",
            "1",
            "--gpu",
            "H100",
            "--budget",
            "1USD/h",
        ],
        "--budget",
    ),
    (
        &[
            "llama-3.1-8b",
            "--rate",
            "1",
            "--gpu",
            "A40",
            "--budget",
            "5USD/h",
        ],
        "--prices",
    ),
    (
        &[
            "llama-3.1-70b",
            "--rate",
            "1",
            "--gpu",
            "H100",
            "--power",
            "500W",
        ],
        "--power",
    ),
    (
        &[
            "llama-3.1-8b",
            "--rate",
            "1",
            "--gpu",
            "H100",
            "--precision",
            "int4",
            "--max-quality-loss",
            "0.01%",
        ],
        "",
    ),
    (
        &["llama-3.1-8b", "--rate", "200", "--owned", "A40:1"],
        "--owned",
    ),
    (
        &[
            "llama-3.1-8b",
            "--rate",
            "1",
            "--gpu",
            "MI300X",
            "--provider",
            "gcp",
        ],
        "--provider",
    ),
    (
        &[
            "llama-3.1-8b",
            "--rate",
            "1",
            "--gpu",
            "GH200 (96GB HBM3)",
            "--provider",
            "gcp",
        ],
        "--prices",
    ),
    (
        &[
            "llama-3.1-8b",
            "--concurrency",
            "4",
            "--gpu",
            "L4",
            "--throughput",
            "100000/s",
        ],
        "--throughput",
    ),
    (
        &["llama-3.1-70b", "--rate", "1000000", "--gpu", "L4"],
        "--rate",
    ),
    (
        &[
            "llama-3.1-70b",
            "--rate",
            "2",
            "--gpu",
            "L4",
            "--ttft",
            "p95:50ms",
            "--tpot",
            "p95:5ms",
        ],
        "--ttft",
    ),
    (
        &[
            "llama-3.1-70b",
            "--rate",
            "2",
            "--gpu",
            "H100",
            "--e2e",
            "p99:100ms",
        ],
        "--e2e",
    ),
    (
        &[
            "llama-3.1-8b",
            "--rate",
            "1",
            "--gpu",
            "MI300X",
            "--engine",
            "trtllm",
        ],
        "--engine",
    ),
    (
        &["llama-3.1-8b", "--rate", "1", "--gpu", "T4", "--kv", "fp8"],
        "--kv",
    ),
    (
        &[
            "llama-3.1-8b",
            "--rate",
            "1",
            "--gpu",
            "T4",
            "--precision",
            "bf16",
        ],
        "--precision",
    ),
    (
        &[
            "llama-3.1-8b",
            "--rate",
            "1",
            "--gpu",
            "H100",
            "--context",
            "300000",
        ],
        "--context",
    ),
    (&["llama-3.1-405b", "--rate", "0.1", "--gpu", "L4"], ""),
    (
        &[
            "llama-3.1-70b",
            "--rate",
            "0.1",
            "--gpu",
            "L40S",
            "--tp",
            "1",
            "--pp",
            "1",
            "--precision",
            "bf16",
        ],
        "--tp",
    ),
    (
        &[
            "llama-3.1-405b",
            "--rate",
            "0.1",
            "--gpu",
            "T4",
            "--precision",
            "bf16",
        ],
        "",
    ),
];

const MEDIA: [Case; 5] = [
    (
        &[
            "black-forest-labs/FLUX.1-dev",
            "--images",
            "1/s",
            "--gpu",
            "H100",
            "--latency",
            "p95:10ms",
        ],
        "--latency",
    ),
    (
        &[
            "black-forest-labs/FLUX.1-dev",
            "--images",
            "1/s",
            "--gpu",
            "H100",
            "--budget",
            "1USD/h",
        ],
        "--budget",
    ),
    (
        &[
            "black-forest-labs/FLUX.1-dev",
            "--images",
            "1/s",
            "--gpu",
            "T4",
            "--precision",
            "fp32",
        ],
        "",
    ),
    (
        &[
            "microsoft/resnet-50",
            "--samples",
            "1000000000/s",
            "--gpu",
            "T4",
        ],
        "--samples",
    ),
    (
        &[
            "openai/whisper-large-v3",
            "--audio",
            "40h/h",
            "--gpu",
            "A40",
            "--budget",
            "1USD/h",
        ],
        "--prices",
    ),
];

const TRAINED: [Case; 8] = [
    (&["llama-3.1-8b", "--gpus", "1xH100", "--seq", "8192"], "--"),
    (
        &["llama-3.1-70b", "--gpus", "1xL40S", "--method", "qlora"],
        "--",
    ),
    (
        &[
            "llama-3.1-8b",
            "--gpus",
            "4xA100 SXM4 40GB",
            "--micro-batch",
            "4",
        ],
        "--",
    ),
    (
        &[
            "llama-3.1-8b",
            "--gpus",
            "8xH100",
            "--tokens",
            "100B",
            "--within",
            "2d",
        ],
        "--gpus",
    ),
    (
        &[
            "llama-3.1-8b",
            "--gpu",
            "H100",
            "--max-gpus",
            "8",
            "--tokens",
            "100B",
            "--within",
            "2d",
        ],
        "--max-gpus",
    ),
    (
        &[
            "llama-3.1-8b",
            "--gpus",
            "8xH100",
            "--tokens",
            "1B",
            "--budget",
            "10USD",
        ],
        "--budget",
    ),
    (&["llama-3.1-8b", "--gpus", "8xH100", "--tp", "3"], "--tp"),
    (
        &["llama-3.1-8b", "--gpus", "6xH100", "--tp", "2", "--dp", "2"],
        "--dp 3",
    ),
];

/// Flags without a value.
const SWITCHES: [&str; 4] = [
    "--multi-host",
    "--disaggregated",
    "--precompute-ref-log-probs",
    "--vllm-enable-sleep-mode",
];

/// The words of a command line, as a shell splits them.
fn words(line: &str) -> Vec<String> {
    let quoted = line.split('\'').enumerate();
    let parts = quoted.flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    parts.collect()
}

/// The arguments without a flag and its value.
fn without(arguments: &mut Vec<String>, flag: &str) {
    while let Some(at) = arguments.iter().position(|one| one == flag) {
        arguments.remove(at);
        if !SWITCHES.contains(&flag) {
            arguments.remove(at);
        }
    }
}

/// The question with a fix applied, by the flags and amounts that it names.
fn applied(place: &Place, arguments: &[&str], fix: &str) -> Vec<String> {
    let mut asked: Vec<String> = arguments.iter().map(|one| (*one).to_owned()).collect();
    if let Some(rest) = fix.strip_prefix("--prices with an offer of ") {
        let (count, rest) = rest.split_once(" × ").expect("a count");
        let (gpu, price) = rest
            .split_once(" at up to ")
            .unwrap_or((rest, "1.00 USD/h"));
        let price = price.trim_end_matches(" USD/h");
        let offer = format!(
            "provider,instance,region,gpu,gpus,usd_per_hour,date,source\nmine,host,here,{gpu},{count},{price},2026-11-01,mine\n"
        );
        place.write("prices.csv", offer);
        without(&mut asked, "--provider");
        asked.extend(["--prices".into(), "prices.csv".into()]);
        return asked;
    }
    if let Some(rest) = fix.strip_prefix("without ") {
        let flags = rest.split(" (").next().unwrap_or_default();
        flags
            .split(" and ")
            .for_each(|flag| without(&mut asked, flag));
        return asked;
    }
    let flags = match fix.find(" (") {
        // A name of a GPU may have a bracket of its own.
        Some(at) if fix[..at].matches('\'').count().is_multiple_of(2) => &fix[..at],
        _ => fix.rsplit_once(" (").map_or(fix, |(flags, _)| flags),
    };
    assert!(flags.starts_with("--"), "{fix:?} names no flag");
    let flags = words(flags);
    for flag in flags.iter().filter(|word| word.starts_with("--")) {
        without(&mut asked, flag);
    }
    asked.extend(flags);
    asked
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}{}", ran.out, ran.err))
}

/// Candidates with the test that each fails.
fn failing(said: &Value) -> Vec<(&str, &str)> {
    let all = said["dropped"].as_array().expect("dropped");
    all.iter()
        .map(|one| {
            let text = |key: &str| one[key].as_str().unwrap_or_default();
            (text("label"), text("test"))
        })
        .collect()
}

fn hold(command: &str, cases: &[Case]) {
    for (arguments, expected) in cases {
        let place = Place::new();
        let run = |arguments: &[String]| {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            place.run(&[&[command], &arguments[..], &["--format", "json"]].concat())
        };
        let plain: Vec<String> = arguments.iter().map(|one| (*one).to_owned()).collect();
        let short = run(&plain);
        assert_eq!(short.code, 1, "{arguments:?}: {}{}", short.out, short.err);
        let said = json(&short);
        let dropped = said["dropped"].as_array().expect("dropped");
        let fixes = dropped.iter().flat_map(|one| {
            let fixes = one["fixes"].as_array().expect("fixes").iter();
            fixes.map(move |fix| (one, fix.as_str().expect("a text")))
        });
        let fixes: Vec<_> = fixes.take(8).collect();
        assert!(
            fixes
                .first()
                .is_some_and(|(_, fix)| fix.starts_with(expected)),
            "{arguments:?}: {expected} is not in {fixes:?}"
        );
        for (one, fix) in fixes {
            if fix.starts_with("a row of ") {
                // Its quality has to be measured; the format whose it is stands there.
                continue;
            }
            let asked = applied(&place, arguments, fix);
            let cured = run(&asked);
            let again = (
                one["label"].as_str().unwrap_or_default(),
                one["test"].as_str().unwrap_or_default(),
            );
            let passes =
                cured.code == 0 || cured.code == 1 && !failing(&json(&cured)).contains(&again);
            assert!(passes, "{asked:?} of {fix:?}: {}{}", cured.out, cured.err);
            let leads = fix.ends_with(')') && !fix.starts_with("without");
            assert!(
                !leads || cured.code == 0,
                "{asked:?} leads nowhere: {}",
                cured.out
            );
        }
    }
}

/// A step of xorshift64.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// A flag with the values of which one is asked.
type Choice = (&'static str, &'static [&'static str]);

const DEGREES: [Choice; 10] = [
    ("--tp", &["2", "3", "8"]),
    ("--pp", &["2", "5", "33"]),
    ("--dp", &["2", "3"]),
    ("--cp", &["2", "3"]),
    ("--ep", &["3", "8"]),
    ("--global-batch", &["7", "100"]),
    ("--sharding", &["hybrid:3", "full"]),
    ("--framework", &["pytorch", "megatron"]),
    ("--method", &["lora", "grpo"]),
    ("--budget", &["10USD", "300USD"]),
];

const LIMITS: [Choice; 10] = [
    ("--budget", &["0.5USD/h", "5USD/h"]),
    ("--power", &["100W", "700W"]),
    ("--throughput", &["100/s", "100000/s"]),
    ("--ttft", &["p95:10ms", "p95:300ms"]),
    ("--tpot", &["mean:5ms", "p95:30ms"]),
    ("--tp", &["2", "16"]),
    ("--pp", &["2", "3"]),
    ("--precision", &["fp8", "bf16"]),
    ("--max-quality-loss", &["0.01%", "1%"]),
    ("--context", &["128000"]),
];

/// Questions with several things wrong at once: every fix that is printed, applied by itself, gives a plan.
fn hold_random(command: &str, base: &[&[&'static str]], choices: &[Choice], seed: u64) {
    const QUESTIONS: usize = 16;
    let place = Place::new();
    let mut state = seed;
    let (mut asked, mut fixed) = (0, 0);
    while asked < QUESTIONS {
        let mut pick = |of: usize| (next(&mut state) % of as u64) as usize;
        let mut arguments = base[pick(base.len())].to_vec();
        for (flag, values) in choices {
            if pick(10) < 3 {
                arguments.extend([*flag, values[pick(values.len())]]);
            }
        }
        let run = |arguments: &[&str]| {
            place.run(&[&[command], arguments, &["--format", "json"]].concat())
        };
        let short = run(&arguments);
        if short.code != 1 || short.out.is_empty() {
            assert!(short.code < 3, "{arguments:?}: {}", short.err);
            continue;
        }
        asked += 1;
        let said = json(&short);
        let all = said["dropped"].as_array().expect("dropped").iter();
        let fixes = all.flat_map(|one| one["fixes"].as_array().expect("fixes"));
        let fixes = fixes
            .filter_map(Value::as_str)
            .filter(|fix| fix.starts_with("--"));
        for fix in fixes.filter(|fix| !fix.contains("an offer of")).take(3) {
            let cured = applied(&place, &arguments, fix);
            let words: Vec<&str> = cured.iter().map(String::as_str).collect();
            let ran = run(&words);
            assert_eq!(
                ran.code, 0,
                "{arguments:?}, {fix:?}: {}{}",
                ran.out, ran.err
            );
            fixed += 1;
        }
    }
    assert!(fixed >= QUESTIONS, "{fixed} fixes of {asked} questions");
}

#[test]
fn fixes_of_random_training_jobs_suffice() {
    let base: [&[&str]; 4] = [
        &[
            "llama-3.1-8b",
            "--gpus",
            "8xH100",
            "--tokens",
            "1B",
            "--within",
            "2h",
        ],
        &["mixtral-8x7b", "--gpus", "16xA100-80GB"],
        &["gemma-2-9b", "--gpus", "6xL40S"],
        &["llama-3.1-70b", "--gpus", "9xH200"],
    ];
    hold_random("train", &base, &DEGREES, 37);
}

#[test]
fn fixes_of_random_plans_suffice() {
    let base: [&[&str]; 4] = [
        &["llama-3.1-8b", "--rate", "2", "--gpu", "L4"],
        &["llama-3.1-70b", "--rate", "2", "--gpu", "H100"],
        &["mixtral-8x7b", "--rate", "50", "--gpu", "A40"],
        &["gemma-2-9b", "--rate", "50", "--gpu", "L40S"],
    ];
    hold_random("plan", &base, &LIMITS, 37);
}

#[test]
fn fixes_of_plans_suffice() {
    hold("plan", &PLANS);
}

#[test]
fn fixes_of_plans_of_networks_suffice() {
    hold("plan", &MEDIA);
}

#[test]
fn fixes_of_training_suffice() {
    hold("train", &TRAINED);
}

#[test]
fn fixes_of_memory_suffice() {
    let place = Place::new();
    for arguments in [
        ["llama-3.1-70b", "--gpu", "L40S", "--concurrency", "8"],
        ["llama-3.1-8b", "--gpu", "L4", "--concurrency", "64"],
        ["llama-3.1-405b", "--gpu", "L4", "--concurrency", "1"],
        ["mixtral-8x7b", "--gpu", "T4", "--concurrency", "4"],
    ] {
        let asked = [&["memory", "--context", "8192"], &arguments[..]].concat();
        let said = place.json(&asked);
        let fixes = said["devices"][0]["fixes"].as_array().expect("fixes");
        assert!(!fixes.is_empty(), "{asked:?}");
        for fix in fixes {
            let fix = fix["what"].as_str().expect("a text");
            let inside = fix
                .split_once("(--")
                .and_then(|(_, rest)| rest.split_once(')'));
            let flags = words(&format!("--{}", inside.expect("flags").0));
            let mut cured: Vec<String> = asked.iter().map(|one| (*one).to_owned()).collect();
            for flag in flags.iter().filter(|word| word.starts_with("--")) {
                without(&mut cured, flag);
            }
            cured.extend(flags);
            let cured: Vec<&str> = cured.iter().map(String::as_str).collect();
            let ran = place.run(&cured);
            assert_eq!(ran.code, 0, "{fix}: {}{}", ran.out, ran.err);
        }
    }
}
