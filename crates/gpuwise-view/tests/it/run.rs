use crate::{html, run_fixture};
use gpuwise_domain::{
    request::{Outcome, RequestRecord},
    run::{Method, Metric, Moment, RunReport, RunSet, TimelineEvent},
    workload::Slo,
};
use gpuwise_units::{Nanoseconds, Percentile};
use gpuwise_view::{
    Style, run,
    svg::{self, Panel},
};
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

fn at(width: usize) -> Style {
    Style {
        width,
        colour: false,
    }
}

fn reports() -> [RunReport; 3] {
    [
        run_fixture::report(),
        run_fixture::overloaded(),
        run_fixture::empty(),
    ]
}

#[test]
fn first_screens() {
    insta::assert_snapshot!("run_100", run::text(&run_fixture::report(), at(100)));
    insta::assert_snapshot!("run_80", run::text(&run_fixture::report(), at(80)));
    insta::assert_snapshot!(
        "run_overloaded_100",
        run::text(&run_fixture::overloaded(), at(100))
    );
    insta::assert_snapshot!("run_empty_100", run::text(&run_fixture::empty(), at(100)));
    insta::assert_snapshot!(
        "run_ladder_100",
        run::set_text(&run_fixture::set(), at(100))
    );
    insta::assert_snapshot!(
        "run_comparison_100",
        run::comparison_text(&run_fixture::comparison(), at(100))
    );
    insta::assert_snapshot!("run_markdown", run::markdown(&run_fixture::overloaded()));
}

#[test]
fn one_request() {
    let record = run_fixture::record();
    let events = [
        TimelineEvent {
            at: Nanoseconds(3_000_000_000),
            moment: Moment::Preempted,
        },
        TimelineEvent {
            at: Nanoseconds(3_400_000_000),
            moment: Moment::Resumed,
        },
    ];
    insta::assert_snapshot!("run_request", run::timeline(&record, &events, at(100)));
    let refused = RequestRecord {
        scheduled: None,
        first_token: None,
        cached: None,
        end: record.sent,
        outcome: Outcome::Rejected,
        ..record
    };
    let text = run::timeline(&refused, &[], at(60));
    assert!(
        text.contains("rejected") && text.contains("aborted after 1 ms"),
        "{text}"
    );
    let never = RequestRecord {
        end: record.due,
        sent: record.due,
        ..refused
    };
    assert!(!run::timeline(&never, &[], at(100)).contains('█'));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [40, 60, 80, 100, 140] {
        let mut texts: Vec<String> = reports().iter().map(|r| run::text(r, at(width))).collect();
        texts.push(run::set_text(&run_fixture::set(), at(width)));
        texts.push(run::comparison_text(&run_fixture::comparison(), at(width)));
        texts.push(run::timeline(&run_fixture::record(), &[], at(width)));
        for line in texts.iter().flat_map(|text| text.lines()) {
            assert!(line.width() <= width, "{width}: {} {line:?}", line.width());
            assert!(!line.contains('\u{1b}'), "{line:?}");
        }
    }
}

#[test]
fn percentiles_that_few_values_cannot_tell_are_not_printed() {
    let mut report = run_fixture::report();
    let check = |report: &RunReport, at: Percentile, expected: bool| {
        let found = report.distribution(Metric::Ttft).unwrap().at(at);
        assert_eq!(found.is_some(), expected, "{at}");
    };
    let mut with = |count: u64| {
        for (_, values) in &mut report.groups[0].distributions {
            values.count = count;
        }
        report.clone()
    };
    check(&with(99), Percentile::P99, false);
    check(&with(100), Percentile::P99, true);
    check(&with(19), Percentile::P95, false);
    check(&with(20), Percentile::P95, true);
    let text = run::text(&with(60), at(100));
    assert!(
        text.contains("fewer values than the percentile needs"),
        "{text}"
    );
    let few = run::text(&with(12), at(100));
    assert!(few.contains("TTFT p95 rests on 12 requests"), "{few}");
    // Files have none of them either.
    let csv = run::csv(&with(60));
    let line = csv
        .lines()
        .find(|line| line.contains("all,ttft,p99,"))
        .unwrap();
    assert!(line.starts_with("1,all,ttft,p99,s,,60,"), "{line}");
}

#[test]
fn histograms_say_so() {
    let mut report = run_fixture::report();
    report.groups[0].distributions[0].1.method = Method::Histogram { digits: 3 };
    let text = run::text(&report, at(100));
    assert!(text.contains("histograms of 3 digits"), "{text}");
    assert!(run::csv(&report).contains("histogram of 3 digits"));
}

#[test]
fn without_a_promise_nothing_is_judged() {
    let mut report = run_fixture::report();
    report.attainment.slo = Slo::default();
    report.attainment.verdicts = Vec::new();
    (report.attainment.kept, report.attainment.share) = (None, None);
    let text = run::text(&report, at(100));
    let first = "3988 of 4000 requests served; no latency SLO; TTFT p95";
    assert!(text.starts_with(first), "{text}");
    assert_eq!(text.matches("SLO").count(), 1, "{text}");
}

#[test]
fn csv_has_a_row_for_every_figure() {
    let text = run::set_csv(&run_fixture::set());
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let columns = reader.headers().unwrap().len();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert!(rows.iter().all(|row| row.len() == columns));
    let find = |run: &str, group: &str, metric: &str, statistic: &str| -> f64 {
        let row = rows
            .iter()
            .find(|row| [&row[0], &row[1], &row[2], &row[3]] == [run, group, metric, statistic]);
        row.unwrap_or_else(|| panic!("{run} {group} {metric} {statistic}"))[5]
            .parse()
            .unwrap()
    };
    assert_eq!(find("1", "all", "outcome", "rejected"), 640.0);
    assert_eq!(find("1", "tenant search", "outcome", "completed"), 1155.0);
    assert_eq!(find("2", "all", "output_tokens", "steady"), 1682.0);
    assert_eq!(
        find("2", "all", "tpot", "p50"),
        0.0214 * (1.0 + 1.6 * 0.5_f64.powi(12) + 2.0 * 0.5_f64.powi(60))
    );
}

#[test]
fn pages() {
    let made = "gpuwise 0.1.0";
    for report in reports() {
        let set = RunSet {
            reports: vec![report],
            ladder: None,
        };
        html::check_page(&run::page(&set, made));
    }
    let text = html::check_page(&run::page(&run_fixture::set(), made));
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what}"));
    assert!(at("The SLO is kept up to 11.3 requests/s") < at("id=\"load-title\""));
    assert!(at("kept up to 11.3") < at("id=\"latencies-title\""));
    assert!(at("Distribution of TTFT") < at("id=\"time-title\""));
    html::check_page(&run::page(&RunSet::default(), made));
    let comparison = run::comparison_page(&run_fixture::comparison(), "Side by side", made);
    html::check_page(&comparison);
    if let Some(folder) = std::env::var_os("WRITE_PAGES") {
        let folder = std::path::PathBuf::from(folder);
        for (name, report) in ["run", "overloaded", "empty"].into_iter().zip(reports()) {
            let set = RunSet {
                reports: vec![report],
                ladder: None,
            };
            std::fs::write(folder.join(format!("{name}.html")), run::page(&set, made)).unwrap();
        }
        std::fs::write(folder.join("ladder.html"), text).unwrap();
        std::fs::write(folder.join("comparison.html"), comparison).unwrap();
    }
}

#[test]
fn pictures_lie_within_their_frame() {
    let mut pictures = Vec::new();
    for report in reports() {
        for metric in Metric::ALL {
            pictures.extend(svg::distribution(&report, metric, "d"));
        }
        for panel in Panel::ALL {
            pictures.extend(svg::over_time(&report, panel, "t"));
        }
    }
    pictures.extend(svg::ladder(
        &run_fixture::ladder(),
        &run_fixture::slo(),
        "l",
    ));
    assert!(pictures.len() > 15, "{}", pictures.len());
    for picture in pictures {
        crate::svg::check_inside(&picture);
    }
}

#[test]
fn what_cannot_be_drawn_is_not() {
    let empty = run_fixture::empty();
    assert!(svg::distribution(&empty, Metric::Ttft, "d").is_none());
    assert!(svg::over_time(&empty, Panel::Concurrent, "t").is_none());
    let measured = run_fixture::overloaded();
    assert!(svg::over_time(&measured, Panel::Cache, "t").is_none());
    let mut ladder = run_fixture::ladder();
    ladder.rungs.truncate(1);
    assert!(svg::ladder(&ladder, &Slo::default(), "l").is_none());
}

#[test]
fn ladders_say_what_they_found() {
    let check = |change: fn(&mut gpuwise_domain::run::Ladder), expected: &str| {
        let mut ladder = run_fixture::ladder();
        change(&mut ladder);
        let text = run::ladder_answer(&ladder);
        assert!(text.starts_with(expected), "{text}");
    };
    check(
        |_| {},
        "✓ The SLO is kept up to 11.3 requests/s (10.9–11.7, nominal 11.2), 1.41 × the expected 8; limited by: TTFT p95",
    );
    check(
        |ladder| ladder.expected = Some(12.0),
        "✗ The SLO breaks before the expected 12 requests/s: it is kept up to 11.3",
    );
    check(
        |ladder| ladder.expected = None,
        "The SLO is kept up to 11.3 requests/s",
    );
    check(
        |ladder| {
            ladder.knee = None;
            ladder
                .rungs
                .iter_mut()
                .for_each(|rung| rung.kept = Some(false));
        },
        "✗ The SLO is missed at every load, from 2 requests/s up.",
    );
    check(
        |ladder| {
            ladder.knee = None;
            ladder.rungs.truncate(4);
        },
        "✓ The SLO is kept at every load that was tried, up to 8 requests/s.",
    );
    check(
        |ladder| {
            ladder.knee = None;
            ladder.rungs.iter_mut().for_each(|rung| rung.kept = None);
        },
        "9 loads; no latency SLO.",
    );
}

#[test]
fn a_trace_is_json_that_viewers_know() {
    let mut trace = run::Trace::new(String::new()).unwrap();
    let steps = run::Steps {
        replica: 2,
        start: 1_500_000,
        duration: 20_000_000_000,
        steps: 40,
        decodes: 17,
        context: 20_000,
        kv_used: 512,
        running: 17,
        waiting: 3,
        ..run::Steps::default()
    };
    trace.steps(&steps).unwrap();
    trace
        .steps(&run::Steps {
            prefill: 512,
            steps: 1,
            ..steps
        })
        .unwrap();
    trace.request(&run_fixture::record()).unwrap();
    let text = trace.finish().unwrap();
    let events: Vec<Value> = serde_json::from_str(&text).unwrap();
    let phases = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert_eq!((phases("M"), phases("X"), phases("C")), (2, 2, 4));
    assert_eq!(phases("b"), phases("e"), "what begins ends");
    assert_eq!(phases("b"), 4);
    let decode = events.iter().find(|event| event["ph"] == "X").unwrap();
    assert_eq!(decode["name"], "decode ×40");
    assert_eq!(
        (decode["ts"].as_f64(), decode["dur"].as_f64()),
        (Some(1.5), Some(20_000.0))
    );
    assert_eq!(decode["args"]["decodes"], 17);
    let prefill = events
        .iter()
        .filter(|event| event["ph"] == "X")
        .nth(1)
        .unwrap();
    assert_eq!(prefill["name"], "prefill + decode");
    let queue = events
        .iter()
        .find(|event| event["name"] == "queue")
        .unwrap();
    assert_eq!(queue["ts"].as_f64(), Some(2_000_000.0));
    assert!(events.iter().all(|event| event["pid"] == 2));
    let none = run::Trace::new(String::new()).unwrap().finish().unwrap();
    assert_eq!(
        serde_json::from_str::<Vec<Value>>(&none).unwrap(),
        Vec::<Value>::new()
    );
}
