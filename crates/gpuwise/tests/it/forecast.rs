//! `gpuwise forecast`: forms of files, and what is wrong with them.

use crate::support::Place;
use serde_json::Value;
use std::fmt::Write as _;

fn said(place: &Place, more: &[&str]) -> Value {
    let mut arguments = vec!["forecast"];
    arguments.extend(more);
    arguments.extend(["--format", "json"]);
    let ran = place.run(&arguments);
    assert_eq!(ran.code, 0, "{more:?}: {}", ran.err);
    let said: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(crate::schemas::held(&said), "forecast");
    said
}

/// A table of rates that go up and down every eight readings.
fn rates(head: &str, row: impl Fn(u32, u32) -> String) -> String {
    let rows = (0..200_u32).map(|at| {
        let step = at % 8;
        row(at, 10 + step.min(8 - step)) + "\n"
    });
    format!("{head}\n{}", rows.collect::<String>())
}

#[test]
fn rates_counts_and_requests_are_one_thing() {
    let place = Place::new();
    place.write(
        "rates.csv",
        rates("t_s,rate", |at, rate| format!("{},{rate}", at * 60)),
    );
    place.write(
        "dates.csv",
        rates("time,requests", |at, rate| {
            let (day, hour, minute) = (at / 1440, at / 60 % 24, at % 60);
            let count = rate * 60;
            format!(
                "2026-11-{:02}T{:02}:{minute:02}:00+02:00,{count}",
                day + 1,
                hour
            )
        }),
    );
    let each = (0..200_u32).flat_map(|at| {
        let step = at % 8;
        let count = 10 + step.min(8 - step);
        (0..count).map(move |one| {
            let due = f64::from(at) * 60.0 + f64::from(one) * 60.0 / f64::from(count);
            format!("{due:.3},100,10\n")
        })
    });
    let trace = each.collect::<String>();
    // The minute of the last request is not over, and does not count.
    let trace = format!("arrival_s,isl,osl\n{trace}12000,100,10\n");
    place.write("trace.csv", trace);
    let point = |file: &str| {
        let said = said(&place, &[file, "--horizon", "1m"]);
        let series = &said["series"][0];
        assert_eq!(series["period_seconds"], 60.0);
        series["horizons"][0]["point"].as_f64().expect("a number")
    };
    let rates = point("rates.csv");
    assert!((9.0..=15.0).contains(&rates), "{rates}");
    assert!((point("dates.csv") - rates).abs() < 1e-6);
    // Requests of a minute are a sixtieth of that a second.
    let requests = point("trace.csv") * 60.0;
    assert!((requests - rates).abs() < 1e-6, "{requests} {rates}");
}

#[test]
fn series_are_told_apart_and_what_is_set_right_is_said() {
    let place = Place::new();
    let mut text = String::from("model,time,rate\n");
    for at in 0..100 {
        let _ = writeln!(text, "a,{},5", at * 600);
        if at != 50 {
            let rate = if at == 20 { "NaN" } else { "-0" };
            let _ = writeln!(text, "b,{},{rate}", at * 600);
        }
    }
    text += "a,600,7\nb,1200,-4\n";
    place.write("two.csv", &text);
    let said = said(&place, &["two.csv"]);
    let names: Vec<&str> = said["series"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(said["series"][1]["missing"], 2);
    let ran = place.run(&["forecast", "two.csv", "--series", "b", "--html", "b.html"]);
    assert!(
        ran.out.contains("2 readings are negative or no number"),
        "{}",
        ran.out
    );
    assert!(
        ran.out.contains("nothing is known of 2 of 100 periods"),
        "{}",
        ran.out
    );
    let page = std::fs::read_to_string(place.path("b.html")).expect("a page");
    assert!(page.contains("<svg") && page.contains("WAPE"));
    let ran = place.run(&["forecast", "two.csv", "--series", "c"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("no series is named \"c\"") && ran.err.contains("a, b"),
        "{}",
        ran.err
    );
}

#[test]
fn what_is_no_series_is_refused_with_what_to_do() {
    let place = Place::new();
    place.write("one.csv", "time,rate\n0,5\n");
    place.write("late.csv", "time,rate\n0,5\nyesterday,6\n");
    place.write("other.csv", "alpha,beta\n1,2\n");
    place.write("bare.csv", "time,rate\n");
    place.write("far.csv", "time,rate\n0,5\n1e15,6\n");
    let check = |arguments: &[&str], told: &str| {
        let ran = place.run(&[&["forecast"], arguments].concat());
        assert_eq!(ran.code, 2, "{arguments:?}");
        assert!(ran.err.contains(told), "{arguments:?}: {}", ran.err);
    };
    check(&["one.csv"], "--period 10m");
    check(&["late.csv"], "line 3: time \"yesterday\"");
    check(&["other.csv"], "no rates over time begin like this");
    check(&["bare.csv"], "bare.csv");
    check(
        &["far.csv", "--period", "1s"],
        "a longer --period has fewer",
    );
    check(&["one.csv", "--period", "1h"], "--horizon 10 min");
    check(&["one.csv", "--period", "0s"], "it is 0");
    check(&["one.csv", "--horizon", "soon"], "--horizon \"soon\"");
    check(&["nowhere.csv"], "nowhere.csv");
    // One reading with its period is enough to say something.
    let said = said(&place, &["one.csv", "--period", "10m", "--horizon", "10m"]);
    assert_eq!(said["series"][0]["horizons"][0]["point"], 5.0);
    assert!(said["series"][0]["horizons"][0]["backtest"].is_null());
}

#[test]
fn clients_and_tokens_are_told_apart() {
    let place = Place::new();
    let rows = (0..600_u32).flat_map(|at| {
        let job = if at % 144 < 72 { 30 } else { 0 };
        [
            format!("{},a,{job}\n", at * 600),
            format!("{},b,{}\n", at * 600, 10 + at % 7),
        ]
    });
    place.write(
        "clients.csv",
        format!("time,client,rate\n{}", rows.collect::<String>()),
    );
    let whole = said(&place, &["clients.csv", "--horizon", "10m"]);
    assert_eq!(whole["series"][0]["last"], 44.0);
    let notes = whole["series"][0]["notes"].to_string();
    assert!(
        notes.contains("2 of 2 clients are forecast one by one: 100 %"),
        "{notes}"
    );
    let trace = (0..6000_u32).map(|at| format!("{at},200,50\n"));
    place.write(
        "trace.csv",
        format!("arrival_s,isl,osl\n{}", trace.collect::<String>()),
    );
    let tokens = said(&place, &["trace.csv", "--tokens", "--horizon", "1m"]);
    let points: Vec<(&str, f64)> = (tokens["series"].as_array().expect("a list").iter())
        .map(|one| {
            let point = one["horizons"][0]["point"].as_f64().expect("a number");
            (
                one["name"].as_str().expect("a name"),
                (point * 1e6).round() / 1e6,
            )
        })
        .collect();
    let expected = [
        ("requests", 1.0),
        ("prefill tokens", 200.0),
        ("decode tokens", 50.0),
    ];
    assert_eq!(points, expected);
    let ran = place.run(&["forecast", "clients.csv", "--tokens"]);
    assert!(
        ran.code == 2 && ran.err.contains("says nothing of tokens"),
        "{}",
        ran.err
    );
}
