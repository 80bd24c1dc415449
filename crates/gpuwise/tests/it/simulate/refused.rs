//! Traffic, deployments and flags that cannot be: one line that names what is wrong, and no file.

use super::{deployment, outcomes, place, report, same, simulate};
use crate::support::{Place, Ran};
use gpuwise_domain::request::Outcome;
use serde_json::Value;

/// What a command says that must fail.
#[track_caller]
pub(super) fn refused(place: &Place, arguments: &[&str], parts: &[&str]) {
    let before = place.files();
    let Ran { code, out, err } = place.run(arguments);
    assert_eq!(code, 2, "{arguments:?}: {err}{out}");
    assert!(out.is_empty(), "{arguments:?} wrote to stdout: {out}");
    assert_eq!(err.matches("error: ").count(), 1, "{arguments:?}: {err}");
    for never in ["panicked", "RUST_BACKTRACE", "\u{1b}"] {
        assert!(!err.contains(never), "{arguments:?}: {err}");
    }
    for part in parts {
        assert!(
            err.contains(part),
            "{arguments:?}: {part:?} is not in: {err}"
        );
    }
    assert_eq!(place.files(), before, "{arguments:?} left files");
}

#[test]
fn traces_that_cannot_be() {
    let long = format!("arrival_s,isl,osl\n0,1,1{}\n", "0".repeat(5000));
    let cases: &[(&[u8], &[&str])] = &[
        (b"", &["t.csv", "no requests"]),
        (b"\n\n", &["t.csv", "no requests"]),
        (b"arrival_s,isl,osl\n", &["t.csv", "no requests"]),
        (b"a,b,c\n1,2,3\n", &["t.csv", "line 1", "no kind of trace"]),
        (b"arrival_s,osl\n0,5\n", &["t.csv", "line 1", "`isl`"]),
        (
            b"arrival_s,isl,osl\n0,10,5\n1,,5\n",
            &["t.csv", "line 3", "`isl`"],
        ),
        (b"arrival_s,isl,osl\n0,10\n", &["t.csv", "line 2"]),
        (
            b"arrival_s,isl,osl\n0,-10,5\n",
            &["t.csv", "line 2", "`isl` is -10"],
        ),
        (
            b"arrival_s,isl,osl\n0,10,2.5\n",
            &["t.csv", "line 2", "`osl` is 2.5"],
        ),
        (
            b"arrival_s,isl,osl\nnoon,10,5\n",
            &["t.csv", "line 2", "noon", "a time in seconds"],
        ),
        (
            b"arrival_s,isl,osl\nNaN,10,5\n",
            &["t.csv", "line 2", "arrival_s"],
        ),
        (
            b"arrival_s,isl,osl\n1e300,10,5\n",
            &["t.csv", "line 2", "arrival_s"],
        ),
        (
            b"arrival_s,isl,osl\n0,99999999999,5\n",
            &["t.csv", "line 2", "99999999999", "4294967295"],
        ),
        (long.as_bytes(), &["t.csv", "line 2", "`osl`"]),
        (
            b"arrival_s,isl,osl\n0,10,5\n1,\xff\xfe,5\n",
            &["t.csv", "line 3", "UTF-8"],
        ),
        (b"\xff\xfea\0,\0", &["t.csv", "UTF-16"]),
        (b"\x1f\x8b\x08\x00broken", &["t.csv", "gzip"]),
        (
            b"{\"timestamp\": 0, \"input_length\": -5, \"output_length\": 2}\n",
            &["t.csv", "line 1", "input_length"],
        ),
        (
            b"{\"timestamp\": 0, \"output_length\": 2}\n",
            &["t.csv", "line 1", "missing"],
        ),
        (b"{\"timestamp\": 0,\n", &["t.csv", "line 1"]),
        (b"[{\"conversations\": 7}]", &["t.csv", "line 1"]),
    ];
    let place = place();
    for (bytes, parts) in cases {
        place.write("t.csv", bytes);
        refused(&place, &["simulate", "d.json", "--trace", "t.csv"], parts);
    }
    refused(
        &place,
        &["simulate", "d.json", "--trace", "none.csv"],
        &["none.csv"],
    );
    refused(
        &place,
        &["simulate", "d.json", "--trace", "."],
        &["trace ."],
    );
}

#[test]
fn unsorted_traces_are_sorted_and_that_is_said() {
    let place = place();
    place.write("t.csv", "arrival_s,isl,osl\n3,100,5\n1,200,5\n2,300,5\n");
    let report = report(&place, 0, &["--trace", "t.csv"]);
    assert_eq!(outcomes(&report).completed, 3);
    same(report.span.last_due.seconds().get(), 2.0);
    assert!(
        report.notes.iter().any(|note| note.contains("sort")),
        "{:?}",
        report.notes
    );
}

#[test]
fn requests_that_can_never_be_served_are_counted_and_told() {
    let place = place();
    place.write(
        "t.csv",
        "arrival_s,isl,osl\n0,100,5\n1,4294967295,5\n2,130000,4294967295\n3,200000,10\n4,0,0\n",
    );
    let found = report(&place, 1, &["--trace", "t.csv"]);
    assert_eq!(outcomes(&found).impossible, 3, "{:?}", outcomes(&found));
    let reason = found.reasons.first().expect("a reason");
    assert_eq!((reason.outcome, reason.count), (Outcome::Impossible, 3));
    assert!(
        reason.text.contains("longer than the context of"),
        "{reason:?}"
    );
    assert!(
        reason
            .first
            // Tokenizing 4294967295 tokens takes longer, so that request 1 is refused after it.
            .contains("request 2: a prompt of 130000 tokens"),
        "{reason:?}"
    );
    let shown = simulate(&place, &["--trace", "t.csv"]);
    assert!(
        shown.out.contains("3 impossible: longer than the context"),
        "{}",
        shown.out
    );
    // The context is what the model sustains, the cache holds less.
    let mut saved: Value = serde_json::from_str(deployment()).expect("JSON");
    *context(&mut saved) = 131_072.into();
    saved["deployment"]["memory"]["cache_tokens"] = 4096.into();
    place.write("d.json", saved.to_string());
    place.write("t.csv", "arrival_s,isl,osl\n0,100,5\n1,5000,5\n");
    let found = report(&place, 1, &["--trace", "t.csv"]);
    let reason = found.reasons.first().expect("a reason");
    assert_eq!(reason.text, "larger than all of the KV cache, 4,080 tokens");
    assert_eq!(outcomes(&found).impossible, 1);
}

/// Where a saved deployment says the longest context.
fn context(saved: &mut Value) -> &mut Value {
    &mut saved["deployment"]["settings"]["max_context_tokens"]
}

#[test]
fn quantities_that_cannot_be() {
    let place = place();
    let cases: &[(&[&str], &[&str])] = &[
        (&["--rate", "0"], &["--rate"]),
        (&["--rate", "-3"], &["--rate"]),
        (&["--rate", "nan"], &["--rate"]),
        (&["--concurrency", "0"], &["--concurrency"]),
        (&["--isl", "0"], &["--isl"]),
        (&["--requests", "0"], &["--requests"]),
        (&["--duration", "5"], &["--duration", "unit"]),
        (&["--duration", "-5s"], &["--duration"]),
        (&["--warm-up", "x"], &["--warm-up"]),
        (&["--growth", "lots"], &["--growth"]),
        (&["--replicas", "0"], &["--replicas"]),
        (&["--replicas", "5000"], &["--replicas", "4096"]),
        (&["--router", "best"], &["--router", "round-robin"]),
        (&["--signal-age", "1"], &["--signal-age", "unit"]),
        (&["--timeout", "soon"], &["--timeout"]),
        (&["--retries", "-1"], &["--retries"]),
        (&["--fail", "0"], &["--fail 0", "0@300s"]),
        (&["--fail", "x@5s"], &["--fail x@5s", "0@300s"]),
        (&["--fail", "9@5s"], &["--fail", "replica"]),
        (&["--mtbf", "0s"], &["--mtbf"]),
        (&["--start-up", "long"], &["--start-up"]),
        (&["--kv-link", "50"], &["--kv-link 50", "50GB/s"]),
        (&["--kv-link", "-5GB/s"], &["--kv-link"]),
        (&["--slo", "ttft=p95:0s"], &["ttft"]),
        (&["--slo", "speed=1"], &["--slo speed=1", "ttft=p95:1s"]),
        (&["--prefix-hit", "3"], &["--prefix-hit"]),
        (&["--burstiness", "-1"], &["--burstiness"]),
    ];
    for (flags, parts) in cases {
        let joined: Vec<String> = match flags {
            [name, value] => vec![format!("{name}={value}")],
            _ => unreachable!("a flag and its value"),
        };
        let arguments = ["simulate", "d.json", "--requests", "20", &joined[0]];
        let arguments =
            if joined[0].starts_with("--requests") || joined[0].starts_with("--duration") {
                vec!["simulate", "d.json", &joined[0]]
            } else {
                arguments.to_vec()
            };
        refused(&place, &arguments, parts);
    }
}

#[test]
fn flags_that_contradict() {
    let place = place();
    place.write("t.csv", "arrival_s,isl,osl\n0,100,5\n1,100,5\n");
    let cases: &[(&[&str], &[&str])] = &[
        (&["--start-up", "60s"], &["--start-up", "--fail 0@300s"]),
        (&["--kv-link", "50GB/s"], &["--kv-link", "same GPUs"]),
        (
            &["--request", "3", "--format", "json"],
            &["--request", "--records"],
        ),
        (
            &["--beside", "d.json", "--concurrency", "4"],
            &["--beside", "a concurrency is kept"],
        ),
        (
            &["--turns", "3", "--prefix-hit", "0.5"],
            &["--prefix-hit", "--turns"],
        ),
        (
            &["--concurrency", "4", "--growth", "10%"],
            &["--growth", "a concurrency is kept"],
        ),
        (
            &["--rate", "5", "--concurrency", "5"],
            &["--concurrency: a rate is given too"],
        ),
        (
            &["--speed-up", "2"],
            &["--speed-up changes a trace", "--trace"],
        ),
        (&["--thin", "0.5"], &["--thin changes a trace"]),
        (&["--repeat", "2"], &["--repeat changes a trace"]),
        (&["--fail", "0@5s", "--mtbf", "5h"], &["--fail and --mtbf"]),
        (
            &["--trace", "t.csv", "--isl", "100"],
            &["--isl contradicts --trace"],
        ),
        (
            &["--trace", "t.csv", "--osl", "100"],
            &["--osl contradicts --trace"],
        ),
        (
            &["--trace", "t.csv", "--prefix-hit", "0.5"],
            &["--prefix-hit contradicts --trace"],
        ),
        (
            &["--trace", "t.csv", "--burstiness", "2"],
            &["--burstiness contradicts --trace"],
        ),
        (&["--trace", "t.csv", "--speed-up", "0"], &["speed-up is 0"]),
        (
            &["--trace", "t.csv", "--speed-up", "nan"],
            &["speed-up is NaN"],
        ),
        (&["--trace", "t.csv", "--thin", "7"], &["--thin"]),
        (&["--trace", "t.csv", "--thin", "0"], &["--thin"]),
        (
            &["--slo", "ttft=p95:1s", "--ttft", "p95:2s"],
            &["ttft", "twice"],
        ),
        (
            &["--from", "vllm serve x"],
            &["--from is for `gpuwise plan`"],
        ),
    ];
    for (flags, parts) in cases {
        refused(&place, &[&["simulate", "d.json"], *flags].concat(), parts);
    }
}

#[test]
fn deployments_that_cannot_be() {
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut saved: Value = serde_json::from_str(deployment()).expect("JSON");
        change(&mut saved);
        saved.to_string()
    };
    let set = |path: &[&str], value: Value| {
        changed(&|saved| {
            let mut place = &mut *saved;
            for key in path {
                place = &mut place[*key];
            }
            *place = value.clone();
        })
    };
    let cases = [
        (
            String::new(),
            vec!["d.json", "no saved deployment", "--save"],
        ),
        ("{".into(), vec!["d.json"]),
        ("[]".into(), vec!["d.json"]),
        ("{\"schema\": 7}".into(), vec!["d.json"]),
        (deployment()[..200].into(), vec!["d.json"]),
        (
            set(&["schema"], "gpuwise.deployment/v9".into()),
            vec!["gpuwise.deployment/v9"],
        ),
        (
            set(&["schema"], "gpuwise.run/v1".into()),
            vec!["gpuwise.run/v1"],
        ),
        (
            set(&["deployment", "colour"], "red".into()),
            vec!["d.json", "colour"],
        ),
        (
            set(&["deployment", "gpu"], "Voodoo 2".into()),
            vec!["Voodoo 2"],
        ),
        (
            set(&["deployment", "model"], "nobody/nothing".into()),
            vec!["nobody/nothing"],
        ),
        (
            set(&["deployment", "layout", "replicas"], (-1).into()),
            vec!["d.json", "replicas"],
        ),
        (
            set(&["deployment", "layout", "replicas"], 0.into()),
            vec!["replicas"],
        ),
    ];
    for command in ["simulate", "validate"] {
        for (text, parts) in &cases {
            let place = Place::new();
            place.write("d.json", text);
            refused(&place, &[command, "d.json"], parts);
        }
        refused(
            &Place::new(),
            &[command, "none.json"],
            &["none.json", "--save"],
        );
    }
}
