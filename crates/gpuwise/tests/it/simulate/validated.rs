//! `gpuwise validate`: where a deployment breaks.

use super::{masked, place};
use crate::support::{Place, Ran, ran};
use gpuwise_domain::run::{Ladder, LoadUnit, RunSet};
use std::{fmt::Write as _, fs};

/// Few requests and seeds, so that it takes a moment.
const SMALL: [&str; 4] = ["--requests", "60", "--seeds", "2"];

fn validate(place: &Place, flags: &[&str]) -> Ran {
    place.run(&[&["validate", "d.json"], &SMALL[..], flags].concat())
}

#[track_caller]
fn found(place: &Place, code: i32, flags: &[&str]) -> Ladder {
    let ran = validate(place, &[flags, &["--format", "json"]].concat());
    assert_eq!(ran.code, code, "{flags:?}: {}{}", ran.err, ran.out);
    let RunSet { reports, ladder } = gpuwise_wire::runs_from_json(&ran.out).expect("runs");
    let ladder = ladder.expect("a ladder");
    assert_eq!(reports.len(), ladder.rungs.len());
    ladder
}

#[test]
fn the_largest_load_lies_between_what_holds_and_what_breaks() {
    let place = place();
    let ladder = found(&place, 0, &[]);
    assert_eq!(
        (ladder.unit, ladder.expected),
        (LoadUnit::RequestsPerSecond, Some(4.0))
    );
    let knee = ladder.knee.expect("a knee");
    assert_eq!(knee.seeds, 2);
    assert!(
        knee.low <= knee.load && knee.load <= knee.high && knee.low > 4.0,
        "{knee:?}"
    );
    let loads: Vec<_> = ladder
        .rungs
        .iter()
        .filter(|rung| rung.name.is_none())
        .collect();
    assert!(loads.is_sorted_by_key(|rung| rung.load));
    let broken = loads
        .iter()
        .find(|rung| rung.kept == Some(false) || rung.saturated == Some(true))
        .expect("it breaks");
    // The knee is of requests delivered, and so few of them come at another rate than asked for.
    let delivered = broken.delivered.expect("requests delivered");
    assert!(knee.low < delivered, "{knee:?} and {broken:?}");
    let named: Vec<_> = ladder
        .rungs
        .iter()
        .filter_map(|rung| rung.name.as_deref())
        .collect();
    assert_eq!(
        named,
        ["bursts", "prompts twice as long", "one replica lost"]
    );
    let shared = found(&place, 0, &["--prefix-hit", "0.5"]);
    assert!(
        shared
            .rungs
            .iter()
            .any(|rung| rung.name.as_deref() == Some("nothing shared: a cold cache"))
    );
    let closed = found(&place, 0, &["--concurrency", "4"]);
    assert_eq!(closed.unit, LoadUnit::Concurrent);
}

#[test]
fn more_replicas_bear_more() {
    let place = place();
    let knee = |replicas: &str| {
        let ran = place.run(&[
            "validate",
            "d.json",
            "--slo",
            "tpot=p95:60ms",
            "--requests",
            "300",
            "--seeds",
            "1",
            "--replicas",
            replicas,
            "--format",
            "json",
        ]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let runs = gpuwise_wire::runs_from_json(&ran.out).expect("runs");
        runs.ladder
            .and_then(|ladder| ladder.knee)
            .expect("a knee")
            .load
    };
    let (one, two) = (knee("1"), knee("2"));
    assert!(two > 1.5 * one && two < 2.7 * one, "{one} and {two}");
}

#[test]
fn a_promise_that_nothing_keeps() {
    let place = place();
    let ladder = found(&place, 1, &["--slo", "ttft=p95:1us"]);
    assert!(ladder.knee.is_none(), "{ladder:?}");
    assert!(ladder.rungs.iter().all(|rung| rung.kept == Some(false)));
    let said = validate(&place, &["--slo", "ttft=p95:1us"]);
    assert_eq!(said.code, 1, "{said:?}");
    let first = said.out.lines().next().expect("a line");
    assert!(
        first.starts_with('✗') && first.contains("requests/s"),
        "{first}"
    );
}

#[test]
fn the_screen_has_its_parts_and_the_same_seed_gives_the_same_bytes() {
    let place = place();
    let arguments = [&["validate", "d.json"], &SMALL[..]].concat();
    let narrow = ran(place.command(&arguments).env("COLUMNS", "80"));
    assert_eq!(narrow.code, 0, "{narrow:?}");
    for line in narrow.out.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let screen = masked(&narrow.out);
    for part in [
        "✓ The SLO is kept up to # requests/s",
        "Margin: # × the expected load",
        "Beside the formulas",
    ] {
        assert!(screen.contains(part), "{part} is not in {screen}");
    }
    for format in ["table", "json", "csv", "md"] {
        let once = validate(&place, &["--format", format]);
        assert_eq!(once.code, 0, "{format}: {}", once.err);
        assert_eq!(
            once.out,
            validate(&place, &["--format", format]).out,
            "{format}"
        );
    }
}

#[test]
fn files_hold_the_runs() {
    let place = place();
    let done = validate(&place, &["--save", "v.json", "--html", "v.html"]);
    assert_eq!(done.code, 0, "{done:?}");
    let saved = fs::read_to_string(place.path("v.json")).expect("a document");
    assert!(
        gpuwise_wire::runs_from_json(&saved)
            .expect("runs")
            .ladder
            .is_some()
    );
    let page = fs::read_to_string(place.path("v.html")).expect("a page");
    assert!(page.len() <= 1_000_000, "{} bytes", page.len());
    assert!(!page.contains("https://"));
}

#[test]
fn traces_are_validated_too() {
    let place = place();
    let mut trace = String::from("arrival_s,isl,osl\n");
    for number in 0..60 {
        writeln!(
            trace,
            "{},{},{}",
            f64::from(number) * 0.25,
            200 + 10 * (number % 30),
            20 + number % 40
        )
        .expect("written");
    }
    place.write("t.csv", trace);
    let ladder = found(&place, 0, &["--trace", "t.csv"]);
    assert!(ladder.knee.expect("a knee").load > 4.0);
    assert!(
        ladder
            .rungs
            .iter()
            .any(|rung| rung.name.as_deref() == Some("bursts"))
    );
    // Heavier loads keep more in flight, and nothing comes in bursts then.
    let closed = found(&place, 0, &["--trace", "t.csv", "--concurrency", "2"]);
    assert_eq!(closed.unit, LoadUnit::Concurrent);
    let named = closed.rungs.iter().filter_map(|rung| rung.name.as_deref());
    assert!(!named.clone().any(|name| name == "bursts"));
    let held: Vec<f64> = (closed.rungs.iter())
        .filter(|rung| rung.name.is_none())
        .filter_map(|rung| rung.concurrent)
        .collect();
    assert!(held.windows(2).all(|pair| pair[0] <= pair[1]), "{held:?}");
    let said = validate(&place, &["--trace", "t.csv", "--concurrency", "2"]);
    assert!(said.out.contains("bursts are not tried"), "{}", said.out);
}

#[test]
fn what_stands_beside_it_takes_of_its_knee() {
    let place = place();
    place.write("other.json", super::deployment());
    let easy = ["--slo", "tpot=p95:200ms", "--requests", "200"];
    let knee = |how: &[&str]| {
        let flags = [
            &["validate", "d.json", "--seeds", "1", "--format", "json"],
            &easy[..],
            how,
        ];
        let ran = place.run(&flags.concat());
        let runs = gpuwise_wire::runs_from_json(&ran.out).expect("runs");
        runs.ladder
            .and_then(|ladder| ladder.knee)
            .expect("a knee")
            .load
    };
    let alone = knee(&[]);
    let beside = |how: &[&str]| knee(&[&["--beside", "other.json"], how].concat());
    let turns = beside(&["--sharing", "time-slices"]);
    assert!(turns < 0.9 * alone, "{turns} of {alone}");
    let (weak, strong) = (
        beside(&["--sharing", "mps", "--interference", "1.1"]),
        beside(&["--sharing", "mps", "--interference", "1.6"]),
    );
    assert!(
        strong < 0.9 * weak && weak < 1.05 * alone,
        "{strong}, {weak}, {alone}"
    );
}
