//! Traces of every kind that is read, and what is done to them before they are sent.

use super::{outcomes, place, report, same, simulate};
use crate::support::Place;
use gpuwise_domain::run::{Metric, Part, RunReport};

/// What the deployment predicts is no matter here.
const EASY: [&str; 2] = ["--slo", "ttft=p50:600s,tpot=p50:600s"];

/// Azure's columns; the first is due at 0.
const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,480,10
2023-11-16 18:17:04.0319600,318,8
2023-11-16 18:17:04.0781490,110,27
2023-11-16 18:17:05.9799600,800,14
";

/// Three requests that begin alike, then one of its own.
const MOONCAKE: &str = r#"{"timestamp": 0, "input_length": 1100, "output_length": 20, "hash_ids": [1, 2, 3]}
{"timestamp": 4000, "input_length": 1100, "output_length": 20, "hash_ids": [1, 2, 4]}
{"timestamp": 8000, "input_length": 1100, "output_length": 20, "hash_ids": [1, 2, 5]}
{"timestamp": 12000, "input_length": 1100, "output_length": 20, "hash_ids": [6, 7, 8]}
"#;

/// The second has failed.
const BURST_GPT: &str = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
6,GPT-4,417,0,417,Conversation log
7,ChatGPT,1087,23,1110,Conversation log
";

const SHARE_GPT: &str = r#"[
{"id": "a", "conversations": [{"from": "human", "value": "Why is the sky blue? Please say it in one line."}, {"from": "gpt", "value": "Air scatters short waves more than long ones."}]},
{"id": "b", "conversations": [{"from": "human", "value": "And at dusk?"}, {"from": "gpt", "value": "Then light takes a longer way, and the blue is gone."}]},
{"id": "c", "conversations": [{"from": "human", "value": "Nobody answers"}]}
]"#;

/// Two conversations of two tenants; a round waits for the answer before it, and repeats it where
/// pieces of prompts say so.
const SESSIONS: &str = "arrival_s,isl,osl,session,round,tenant,prefix_group,prefix_tokens
0,400,20,a,1,gold,system,320
0.1,520,20,a,2,gold,system,320
0.5,330,30,b,1,lead,system,320
";

fn traced(text: &str) -> Place {
    let place = place();
    place.write("t", text);
    place
}

#[track_caller]
fn sent(text: &str, flags: &[&str]) -> RunReport {
    let all = [&["--trace", "t"], &EASY[..], flags].concat();
    report(&traced(text), 0, &all)
}

fn mean(report: &RunReport, metric: Metric) -> f64 {
    report.distribution(metric).expect("values").mean
}

#[test]
fn azure() {
    let report = sent(AZURE, &[]);
    assert_eq!(outcomes(&report).completed, 4);
    same(
        mean(&report, Metric::Input),
        (480.0 + 318.0 + 110.0 + 800.0) / 4.0,
    );
    same(report.span.last_due.seconds().get(), 2.0);
    assert_eq!(report.engine.cache_hit, Some(0.0));
}

#[test]
fn mooncake_blocks_are_found_in_the_cache() {
    let report = sent(MOONCAKE, &[]);
    assert_eq!(outcomes(&report).completed, 4);
    same(report.span.last_due.seconds().get(), 12.0);
    // Two of four prompts find two blocks of 512 tokens.
    assert_eq!(report.engine.cache_hit, Some(2.0 * 1024.0 / 4400.0));
}

#[test]
fn burst_gpt_and_its_failures() {
    let report = sent(BURST_GPT, &[]);
    assert_eq!(outcomes(&report).completed, 2);
    same(mean(&report, Metric::Output), 20.5);
    assert!(
        report.notes.iter().any(|note| note.contains("1 failed")),
        "{:?}",
        report.notes
    );
}

#[test]
fn share_gpt_has_no_times() {
    let place = traced(SHARE_GPT);
    let untimed = simulate(&place, &["--trace", "t"]);
    assert_eq!(untimed.code, 2, "{untimed:?}");
    for part in ["t does not say when requests came", "--concurrency"] {
        assert!(untimed.err.contains(part), "{}", untimed.err);
    }
    let report = sent(SHARE_GPT, &["--concurrency", "1"]);
    assert_eq!(outcomes(&report).completed, 2);
    let notes = report.notes.join("; ");
    for part in ["characters / 4", "1 conversations without an answer"] {
        assert!(notes.contains(part), "{notes}");
    }
    // One after the other.
    same(report.engine.batch.expect("a batch").highest, 1.0);
}

#[test]
fn conversations_and_tenants_of_a_plain_table() {
    let found = sent(SESSIONS, &["--records", "r.csv"]);
    assert_eq!(outcomes(&found).completed, 3);
    let requests = |tenant: &str| {
        let mut groups = found.groups.iter();
        let group = groups.find(|group| group.part == Part::Tenant(tenant.into()));
        group.map(|group| group.outcomes.completed)
    };
    assert_eq!((requests("gold"), requests("lead")), (Some(2), Some(1)));
    // Two of three prompts find 320 tokens.
    assert_eq!(found.engine.cache_hit, Some(2.0 * 320.0 / 1250.0));
    let lines = r#"{"arrival_s": 0, "isl": 100, "osl": 5}
{"arrival_s": 1, "isl": 200, "osl": 5}
"#;
    same(mean(&sent(lines, &[]), Metric::Input), 150.0);
}

#[test]
fn traces_are_thinned_repeated_and_sped_up() {
    let last = |report: &RunReport| report.span.last_due.seconds().get();
    let count = |report: &RunReport| outcomes(report).total();
    same(last(&sent(AZURE, &["--speed-up", "4"])), 0.5);
    same(last(&sent(AZURE, &["--rate", "1"])), 3.0);
    let twice = sent(AZURE, &["--repeat", "3"]);
    assert_eq!(count(&twice), 12);
    assert!(last(&twice) > 6.0, "{}", last(&twice));
    assert_eq!(count(&sent(AZURE, &["--requests", "2"])), 2);
    assert_eq!(count(&sent(AZURE, &["--duration", "1s"])), 3);
    let thinned = sent(AZURE, &["--repeat", "50", "--thin", "25%"]);
    assert!((25..=75).contains(&count(&thinned)), "{}", count(&thinned));
    let other = sent(AZURE, &["--repeat", "50", "--thin", "0.25", "--seed", "1"]);
    assert_ne!(thinned.span, other.span, "other seeds keep others");
    let grown = sent(AZURE, &["--repeat", "10", "--growth", "100%"]);
    assert!(last(&grown) < last(&sent(AZURE, &["--repeat", "10"])));
    let paced = sent(AZURE, &["--repeat", "5", "--concurrency", "2"]);
    same(paced.engine.batch.expect("a batch").highest, 2.0);
    assert_eq!(count(&paced), 20);
}

#[test]
fn compressed_traces_are_read() {
    use std::io::Write as _;
    let place = place();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(AZURE.as_bytes()).expect("packed");
    place.write("t.csv.gz", packed.finish().expect("packed"));
    let flags = [&["--trace", "t.csv.gz"], &EASY[..]].concat();
    assert_eq!(outcomes(&report(&place, 0, &flags)).completed, 4);
}

#[test]
fn one_request_is_a_trace() {
    let one = "arrival_s,isl,osl\n7,100,2\n";
    let report = sent(one, &[]);
    assert_eq!(outcomes(&report).completed, 1);
    let place = traced(one);
    let shown = simulate(&place, &["--trace", "t"]);
    assert!(
        shown.code == 0 && !shown.out.contains("NaN"),
        "{}",
        shown.out
    );
    assert!(!shown.out.contains("inf"), "{}", shown.out);
}

#[test]
fn priorities_decide_where_the_engine_asks_for_them() {
    // A queue, of which the last comes first.
    let mut trace = String::from("arrival_s,isl,osl,priority\n");
    for number in 0..600 {
        trace += &format!("0,1000,200,{}\n", i32::from(number < 300));
    }
    let place = traced(&trace);
    let wait = |flags: &[&str]| {
        let all = [&["--trace", "t", "--records", "r.csv"], &EASY[..], flags].concat();
        let notes = report(&place, 0, &all).notes.join("; ");
        let text = std::fs::read_to_string(place.path("r.csv")).expect("records");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let mut sums = [0.0; 2];
        for row in reader.records() {
            let row = row.expect("a row");
            let number: usize = row[0].parse().expect("a number");
            sums[usize::from(number < 300)] += row[4].parse::<f64>().expect("a time");
        }
        (sums[1] / sums[0], notes)
    };
    let (by_arrival, said) = wait(&[]);
    assert!(by_arrival < 1.0, "{by_arrival}");
    assert!(said.contains("priorities change nothing"), "{said}");
    let (by_priority, silent) = wait(&["--scheduling-policy", "priority"]);
    assert!(by_priority > 1.0, "{by_priority}");
    assert!(!silent.contains("priorities"), "{silent}");
}

#[test]
fn what_was_meant_to_come_follows_what_is_done_to_it() {
    let meant = |flags: &[&str]| {
        let traffic = sent(AZURE, flags).traffic;
        traffic.offered.map(gpuwise_units::PerSecond::get)
    };
    let whole = meant(&[]).expect("a rate");
    same(meant(&["--speed-up", "4"]).expect("a rate"), 4.0 * whole);
    same(meant(&["--rate", "3"]).expect("a rate"), 3.0);
    // Of a part, or of a rate that grows, no one rate is meant; what came is told all the same.
    assert_eq!(meant(&["--requests", "3"]), None);
    assert_eq!(meant(&["--growth", "20%"]), None);
    assert!(
        sent(AZURE, &["--growth", "20%"])
            .traffic
            .delivered
            .is_some()
    );
}
