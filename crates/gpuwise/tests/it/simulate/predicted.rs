//! `gpuwise predict --simulate`: rows with a rate or a trace, followed request by request.

use crate::support::Place;
use std::{collections::BTreeMap, fmt::Write as _};

const HEADER: &str =
    "id,model,gpu,num_gpus,engine,isl,osl,batch_or_concurrency,metric,unit,extra,value\n";

/// A row of a question about one L40S: lengths and number in flight, metric, what else is said.
fn row(id: &str, load: &str, metric: &str, extra: &str) -> String {
    format!(
        "{id},meta-llama/Llama-3.1-8B-Instruct,L40S,1,vllm 0.33.0,{load},{metric},ms,{extra},\n"
    )
}

/// Answers by id, as texts: value, low, high and reason.
fn answers(place: &Place, flags: &[&str]) -> BTreeMap<String, [String; 4]> {
    let ran = place.run(&[&["predict", "q.csv"], flags].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let mut reader = csv::Reader::from_reader(ran.out.as_bytes());
    let at = |name: &str| {
        let headers = ran.out.lines().next().expect("a header");
        headers
            .split(',')
            .position(|header| header == name)
            .expect("a column")
    };
    let places = ["value", "low", "high", "reason"].map(at);
    reader
        .records()
        .map(|record| {
            let record = record.expect("a row");
            (
                record[at("id")].to_owned(),
                places.map(|at| record[at].to_owned()),
            )
        })
        .collect()
}

fn number(text: &str) -> f64 {
    text.parse()
        .unwrap_or_else(|_| panic!("{text:?} is no number"))
}

#[test]
fn rows_with_a_rate_are_simulated_and_others_are_computed() {
    let place = Place::new();
    let mut questions = HEADER.to_owned();
    questions += &row("ttft", "1000,100,rate=4/s", "ttft_mean", "duration_s=20");
    questions += &row("tpot", "1000,100,rate=4/s", "tpot_mean", "duration_s=20");
    questions += &row("heavy", "1000,100,rate=40/s", "ttft_mean", "duration_s=20");
    questions += &row("closed", "1000,100,8", "tpot_mean", "");
    place.write("q.csv", questions);
    let (computed, simulated) = (answers(&place, &[]), answers(&place, &["--simulate"]));
    assert_eq!(
        computed.keys().collect::<Vec<_>>(),
        simulated.keys().collect::<Vec<_>>()
    );
    for id in ["ttft", "tpot", "heavy"] {
        let [value, low, high, reason] = &simulated[id];
        assert!(reason.starts_with("simulated: "), "{id}: {reason}");
        let (value, low, high) = (number(value), number(low), number(high));
        assert!(low < value && value < high, "{id}: {low} {value} {high}");
    }
    assert_eq!(computed["closed"], simulated["closed"]);
    // At a tenth of what it sustains both agree; far beyond it requests wait for seconds.
    let ratio = number(&simulated["tpot"][0]) / number(&computed["tpot"][0]);
    assert!((0.8..1.25).contains(&ratio), "{ratio}");
    assert!(number(&simulated["heavy"][0]) > 10.0 * number(&simulated["ttft"][0]));
    assert_eq!(
        simulated,
        answers(&place, &["--simulate"]),
        "the same seed gives the same"
    );
}

#[test]
fn rows_with_a_trace_are_replayed() {
    let place = Place::new();
    let mut trace = String::from("arrival_s,isl,osl\n");
    for number in 0..40 {
        writeln!(trace, "{},500,20", f64::from(number) * 0.5).expect("written");
    }
    place.write("t.csv", trace);
    let mut questions = HEADER.to_owned();
    questions += &row("e2e", "500,20,", "e2e_mean", "trace=t.csv");
    questions += &row("gone", "500,20,", "e2e_mean", "trace=none.csv");
    place.write("q.csv", questions);
    let found = answers(&place, &["--simulate"]);
    assert!(
        found["e2e"][3].starts_with("simulated: 40 requests"),
        "{found:?}"
    );
    assert!(number(&found["e2e"][0]) > 100.0, "{found:?}");
    // One row that cannot be answered says why and leaves the others alone.
    assert_eq!(found["gone"][0], "", "{found:?}");
    assert!(found["gone"][3].contains("none.csv"), "{found:?}");
}

#[test]
fn llama_cpp_serves_as_many_as_are_in_flight() {
    let place = Place::new();
    let mut questions = HEADER.to_owned();
    for load in ["1", "4", "16"] {
        let asked = row(
            load,
            &format!("500,100,{load}"),
            "tpot_mean",
            "max_num_seqs=16",
        );
        questions += &asked.replace("vllm 0.33.0", "llamacpp");
    }
    place.write("q.csv", questions);
    let found = answers(&place, &[]);
    let value = |load: &str| number(&found[load][0]);
    assert!(
        value("1") < value("4") && value("4") < value("16"),
        "{found:?}"
    );
}
