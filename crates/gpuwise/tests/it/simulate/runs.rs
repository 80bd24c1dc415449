//! Generated traffic: answers, exit codes, seeds, clusters and files.

use super::{deployment, joined, masked, outcomes, place, report, same, simulate};
use crate::support::ran;
use gpuwise_domain::{
    request::Outcome,
    run::{Metric, Part, RunReport},
};
use serde_json::Value;
use std::{collections::BTreeMap, fs};

#[test]
fn the_exit_code_says_whether_the_promise_is_kept() {
    let place = place();
    let kept = simulate(&place, &["--requests", "100"]);
    assert_eq!(kept.code, 0, "{kept:?}");
    assert!(
        kept.out.starts_with("✓ SLO attained: TTFT p95 "),
        "{}",
        kept.out
    );
    assert!(kept.err.is_empty(), "{}", kept.err);
    let missed = simulate(&place, &["--requests", "100", "--slo", "ttft=p95:1ms"]);
    assert_eq!(missed.code, 1, "{missed:?}");
    assert!(
        missed.out.starts_with("✗ SLO missed: TTFT p95 "),
        "{}",
        missed.out
    );
    let report = report(&place, 0, &["--requests", "100"]);
    assert_eq!(outcomes(&report).completed, 100);
    assert_eq!(outcomes(&report).total(), 100);
    assert_eq!(report.attainment.kept, Some(true));
}

#[test]
fn a_deployment_without_a_promise_is_no_miss() {
    let place = place();
    let mut saved: Value = serde_json::from_str(deployment()).expect("JSON");
    saved["workload"] = Value::Null;
    place.write("d.json", saved.to_string());
    let flags = [
        "--rate",
        "40",
        "--isl",
        "constant:500",
        "--osl",
        "constant:20",
        "--requests",
        "60",
    ];
    assert_eq!(report(&place, 0, &flags).attainment.kept, None);
    // What nobody says of the traffic is assumed, and that is said.
    let assumed = simulate(&place, &["--requests", "20"]);
    assert_eq!(assumed.code, 0, "{assumed:?}");
    assert!(
        assumed.out.contains("assumed of the traffic"),
        "{}",
        assumed.out
    );
}

#[test]
fn the_screen_fits_its_width_and_has_its_parts() {
    let place = place();
    for (width, format) in [("80", "table"), ("100", "table"), ("60", "table")] {
        let arguments = ["simulate", "d.json", "--requests", "60", "--format", format];
        let found = ran(place.command(&arguments).env("COLUMNS", width));
        let most: usize = width.parse().expect("a number");
        for line in found.out.lines() {
            assert!(line.chars().count() <= most, "{width}: {line}");
        }
    }
    let arguments = ["simulate", "d.json", "--requests", "60"];
    let plain = ran(place.command(&arguments).env("COLUMNS", "100"));
    assert_eq!(masked(&joined(&plain.out)), SCREEN);
    let coloured = ran(place
        .command(&[&arguments[..], &["--color", "always"]].concat())
        .env("COLUMNS", "100"));
    assert!(coloured.out.contains('\u{1b}'), "{}", coloured.out);
    let asked_not = ran(place
        .command(&[&arguments[..], &["--color", "auto"]].concat())
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1"));
    assert_eq!(asked_not.out, plain.out);
    assert!(!plain.out.contains('\u{1b}'));
}

const SCREEN: &str = "\
✓ SLO attained: TTFT p# # ms ≤ # s, TPOT p# # ms ≤ # ms; # % of requests met every target.
Served meta-llama/Llama-#-#B on # × L#S, # GPU, bf# weights, vllm #; simulated, seed #
Traffic Poisson, # requests/s: # requests, delivered at #/s, # tokens in, # out

latency unit p# p# p# p# mean deviation highest values
─
TTFT ms # # # – # # # #
TPOT ms # # # – # # # #
inter-token ms # # # # # # # #
end to end s # # # – # # # #
end to end / token ms # # # – # # # #
queueing ms # # # – # # # #
ISL tokens # # # – # # # #
OSL tokens # # # – # # # #
– fewer values than the percentile needs: # for p# # for p#

Through # requests/s, # output tokens/s, # input tokens/s, # concurrent
Goodput # of # requests/s that were judged met every target
Engine busy # %, batch # (highest #), waiting # (highest #), KV cache # % (highest # %), # % of prompt tokens cached, no preemption, # steps
Requests # completed
Spent # GPU-hours, # kWh, $#; a million tokens in and out: # GPU-seconds, # kWh, $#
Window # s of # s: warm-up of # ms and drain of # s left out; over the whole run # output tokens/s
";

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let place = place();
    for format in ["table", "json", "csv", "md"] {
        let flags = |seed: &'static str| ["--requests", "40", "--seed", seed, "--format", format];
        let once = simulate(&place, &flags("7"));
        assert_eq!(once.code, 0, "{format}: {}", once.err);
        assert_eq!(once.out, simulate(&place, &flags("7")).out, "{format}");
        assert_ne!(once.out, simulate(&place, &flags("8")).out, "{format}");
    }
}

#[test]
fn loads_of_each_kind() {
    let place = place();
    let mean = |report: &RunReport, metric| report.distribution(metric).expect("values").mean;
    let closed = report(&place, 0, &["--concurrency", "6", "--requests", "60"]);
    assert_eq!(closed.traffic.concurrent, Some(6));
    let held = closed.steady.concurrent.expect("a mean");
    assert!((5.0..=6.01).contains(&held), "{held}");
    let lasting = report(&place, 0, &["--duration", "10s"]);
    assert!((20..=60).contains(&lasting.traffic.requests), "{lasting:?}");
    let lengths = report(
        &place,
        0,
        &[
            "--requests",
            "40",
            "--isl",
            "constant:64",
            "--osl",
            "constant:8",
        ],
    );
    same(mean(&lengths, Metric::Input), 64.0);
    same(mean(&lengths, Metric::Output), 8.0);
    let cached = report(&place, 0, &["--requests", "60", "--prefix-hit", "0.5"]);
    assert!(
        cached.engine.cache_hit.expect("a share") > 0.2,
        "{cached:?}"
    );
    // Bursts wait.
    let even = report(&place, 0, &["--requests", "80", "--burstiness", "0"]);
    let bursts = report(
        &place,
        0,
        &[
            "--requests",
            "80",
            "--burstiness",
            "16",
            "--ttft",
            "p95:60s",
            "--tpot",
            "p95:1s",
        ],
    );
    assert!(mean(&bursts, Metric::Ttft) > mean(&even, Metric::Ttft));
    // A rate that grows a thousandfold within an hour sends the same number in less time.
    let steady = report(&place, 0, &["--requests", "80", "--rate", "1"]);
    let grows = report(
        &place,
        0,
        &["--requests", "80", "--rate", "1", "--growth", "100%"],
    );
    assert!(grows.span.last_due < steady.span.last_due);
    let warm = report(&place, 0, &["--requests", "40", "--warm-up", "5s"]);
    same(warm.span.steady_from.seconds().get(), 5.0);
}

#[test]
fn every_router_serves_every_request() {
    let place = place();
    for router in [
        "round-robin",
        "least-outstanding",
        "power-of-two",
        "random",
        "session",
        "prefix-aware",
        "kv-aware",
    ] {
        let flags = [
            "--requests",
            "60",
            "--rate",
            "12",
            "--replicas",
            "3",
            "--router",
            router,
            "--prefix-hit",
            "0.4",
            "--signal-age",
            "50ms",
            "--records",
            "r.csv",
        ];
        let report = report(&place, 0, &flags);
        assert_eq!(outcomes(&report).completed, 60, "{router}");
        assert_eq!(report.subject.replicas, Some(3), "{router}");
        assert_eq!(report.subject.gpus, Some(3), "{router}");
        let served: BTreeMap<String, usize> =
            records(&place)
                .iter()
                .fold(BTreeMap::new(), |mut counts, row| {
                    *counts.entry(row["replica"].clone()).or_default() += 1;
                    counts
                });
        if router == "round-robin" {
            let shares: Vec<_> = served.values().copied().collect();
            assert_eq!(shares, [20, 20, 20]);
        }
        assert_eq!(served.len(), 3, "{router}: {served:?}");
    }
}

fn records(place: &crate::support::Place) -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(place.path("r.csv")).expect("records");
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
    lines
        .map(|line| {
            let cells = line.split(',').map(str::to_owned);
            let row: BTreeMap<_, _> = names
                .iter()
                .map(|name| (*name).to_owned())
                .zip(cells)
                .collect();
            assert_eq!(row.len(), names.len(), "{line}");
            row
        })
        .collect()
}

#[test]
fn failures_time_outs_retries_and_full_queues() {
    let place = place();
    // Whether the SLO holds is no matter here.
    let tried = |flags: &[&str]| {
        let load = ["--requests", "120", "--rate", "12", "--format", "json"];
        let ran = simulate(&place, &[&load[..], flags].concat());
        assert!(ran.code < 2, "{flags:?}: {}", ran.err);
        let report = gpuwise_wire::runs_from_json(&ran.out)
            .expect("runs")
            .reports
            .remove(0);
        let outcomes = outcomes(&report);
        assert_eq!(outcomes.total(), 120, "{flags:?}: none is forgotten");
        outcomes
    };
    // One of two replicas dies: its requests are lost, or sent again.
    let dies = ["--replicas", "2", "--fail", "0@5s", "--start-up", "60s"];
    let lost = tried(&dies);
    assert!(lost.failed > 0 && lost.completed > 60, "{lost:?}");
    let again = tried(&[&dies[..], &["--retries", "3", "--records", "r.csv"]].concat());
    assert_eq!(again.completed, 120, "{again:?}");
    let retried = records(&place)
        .iter()
        .filter(|row| row["retries"] != "0")
        .count();
    assert_eq!(retried as u64, lost.failed);
    let impatient = tried(&["--timeout", "2s"]);
    assert!(impatient.timed_out > 0, "{impatient:?}");
    let full = tried(&["--max-queued", "1", "--burstiness", "8"]);
    assert!(full.rejected > 0, "{full:?}");
    let drawn = tried(&["--replicas", "2", "--mtbf", "4s", "--start-up", "1s"]);
    assert!(drawn.failed > 0, "{drawn:?}");
}

#[test]
fn the_life_of_one_request() {
    let place = place();
    let one = simulate(&place, &["--requests", "40", "--request", "7"]);
    assert_eq!(one.code, 0, "{one:?}");
    assert_eq!(
        masked(&one.out),
        "Request #: # tokens in (# cached), # out, completed on replica #
at after the one before what
─
# ms due
# ms # ms sent
# ms # ms in a batch
# ms # ms first token
# s # s completed
Counted from when it was due.

Latency TTFT # ms (client # ms, queue # ms, prefill # ms), TPOT # ms, end to end # s
Time ─ ─ waiting ─ prefill ─ decode
"
    );
    let none = simulate(&place, &["--requests", "40", "--request", "40"]);
    assert_eq!(none.code, 2, "{none:?}");
    assert!(
        none.err.contains("no request has this number"),
        "{}",
        none.err
    );
}

#[test]
fn traces_of_runs_are_events_that_nest() {
    let place = place();
    let flags = [
        "--requests",
        "60",
        "--replicas",
        "2",
        "--chrome-trace",
        "t.json",
    ];
    let report = report(&place, 0, &flags);
    let text = fs::read_to_string(place.path("t.json")).expect("a trace");
    let trace: Value = serde_json::from_str(&text).expect("JSON");
    let events = trace.as_array().expect("events");
    let number = |event: &Value, key: &str| event[key].as_f64().expect("a number");
    let mut open: BTreeMap<String, Vec<(String, f64)>> = BTreeMap::new();
    let mut steps: BTreeMap<String, f64> = BTreeMap::new();
    let (mut whole, mut counted) = (0, 0);
    for event in events {
        match event["ph"].as_str().expect("a phase") {
            "b" => {
                let stack = open.entry(event["id"].to_string()).or_default();
                stack.push((event["name"].to_string(), number(event, "ts")));
                whole += usize::from(stack.len() == 1);
            }
            "e" => {
                let stack = open.entry(event["id"].to_string()).or_default();
                let (name, began) = stack.pop().expect("what ends has begun");
                assert_eq!(name, event["name"].to_string());
                assert!(number(event, "ts") >= began, "{event}");
                if let Some((_, outer)) = stack.last() {
                    assert!(began >= *outer, "{event}");
                }
            }
            "X" => {
                // Steps of a replica follow one another, to the precision of what is written.
                let thread = format!("{}/{}", event["pid"], event["tid"]);
                let end = steps.entry(thread).or_default();
                assert!(
                    number(event, "ts") >= *end - 1e-2,
                    "{event} begins before {end}"
                );
                *end = number(event, "ts") + number(event, "dur");
                counted += event["args"]["steps"].as_u64().expect("steps");
            }
            _ => {}
        }
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
    assert_eq!(whole, 60, "each request has its line");
    assert_eq!(Some(counted), report.engine.steps);
    assert_eq!(steps.len(), 2);
}

#[test]
fn files_hold_the_run() {
    let place = place();
    let flags = [
        "--requests",
        "60",
        "--records",
        "r.csv",
        "--html",
        "r.html",
        "--save",
        "s.json",
    ];
    let report = report(&place, 0, &flags);
    let saved = fs::read_to_string(place.path("s.json")).expect("a document");
    let saved = gpuwise_wire::runs_from_json(&saved).expect("runs");
    assert_eq!(saved.reports, std::slice::from_ref(&report));
    let rows = records(&place);
    assert_eq!(rows.len(), 60);
    for (number, row) in rows.iter().enumerate() {
        let at = |name: &str| row[name].parse::<f64>().expect("a number");
        same(at("number"), number as f64);
        assert_eq!(row["outcome"], Outcome::Completed.name());
        let moments = ["due_s", "sent_s", "scheduled_s", "first_token_s", "end_s"].map(at);
        assert!(moments.is_sorted(), "{row:?}");
    }
    let page = fs::read_to_string(place.path("r.html")).expect("a page");
    assert!(page.len() <= 300_000, "{} bytes", page.len());
    for link in ["http://", "https://", "src=", "@import"] {
        let outside = page.replace("http://www.w3.org/", "");
        assert!(!outside.contains(link), "{link}");
    }
    assert!(report.groups.iter().any(|group| group.part == Part::All));
}

#[test]
fn a_run_is_not_lost_to_a_file_that_cannot_be_written() {
    let place = place();
    for flag in ["--save", "--html", "--records", "--chrome-trace"] {
        let found = simulate(&place, &["--requests", "20", flag, "no/such/file"]);
        assert_eq!(found.code, 2, "{flag}: {found:?}");
        assert!(found.err.contains("no/such/file"), "{flag}: {}", found.err);
        // Said before anything is simulated.
        assert!(found.out.is_empty(), "{flag}: {}", found.out);
    }
}
