//! `gpuwise tier`: answers, files it keeps, and bad input.

use crate::support::Place;
use serde_json::Value;

const HEAD: &str = "job,gpu,seconds,compute_s,memory_s,peak_memory_gib,slo_s\n";

fn lessons() -> &'static str {
    include_str!("../../../../docs/guides/files/lessons.csv")
}

#[test]
fn a_job_that_fits_nothing_ends_with_1_and_says_why() {
    let place = Place::new();
    place.write(
        "jobs.csv",
        format!("{HEAD}a,H100 SXM5 80GB,1,0.5,0.4,20,0.0001\n"),
    );
    let ran = place.run(&["tier", "jobs.csv"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("no tier fits"), "{}", ran.out);
}

#[test]
fn json_has_every_opinion_and_every_refusal() {
    let place = Place::new();
    place.write(
        "jobs.csv",
        format!("{HEAD}a,H100 SXM5 80GB,1,0.2,0.7,20,\n"),
    );
    let ran = place.run(&["tier", "jobs.csv", "--format", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let all: Value = serde_json::from_str(&ran.out).expect("JSON");
    let one = &all["rows"][0];
    assert_eq!(one["forest"]["abstains"], "none was learned");
    let decided = &one["decided"];
    let cheapest = &one["candidates"][0];
    assert!(decided["price_per_hour"]["amount"].as_f64() > Some(0.0));
    let cost = |of: &Value| of["price_per_unit_of_work"]["amount"].as_f64();
    assert!(cost(cheapest).is_some() && cost(cheapest) <= cost(decided));
    let foreign = one["refused"]
        .as_array()
        .expect("refusals")
        .iter()
        .find(|refused| refused["tier"] == "MI300X")
        .expect("another vendor's GPU is refused");
    assert!(
        foreign["reason"]
            .as_str()
            .is_some_and(|why| why.contains("AMD"))
    );
}

/// Among GPUs that are all dearer for it, a job stays where it is; where it breaks its SLO, what keeps it is proposed for
/// more, and that is said.
#[test]
fn what_costs_more_is_proposed_for_a_broken_slo_alone() {
    let place = Place::new();
    place.write(
        "jobs.csv",
        format!("{HEAD}stays,H100 SXM5 80GB,1,0.5,0.4,20,\nslow,L4,1,0.25,0.05,10,0.85\n"),
    );
    for gpus in ["L4,L40S,A100", "A100", "H200"] {
        let ran = place.run(&["tier", "jobs.csv", "--gpus", gpus, "--format", "json"]);
        let all: Value = serde_json::from_str(&ran.out).expect("JSON");
        for one in all["rows"].as_array().expect("rows") {
            let (decided, why) = (&one["decided"], one["why"].as_str().unwrap_or_default());
            let dearer = decided["cost_change"]
                .as_f64()
                .is_some_and(|change| change > 1e-6);
            assert!(
                !dearer || why.contains("is broken where it runs"),
                "{gpus}: {one}"
            );
            if one["job"] == "stays" {
                assert_eq!(
                    (dearer, decided["tier"].is_string()),
                    (false, true),
                    "{gpus}: {one}"
                );
            }
        }
    }
    let ran = place.run(&["tier", "jobs.csv", "--gpus", "H200"]);
    assert!(ran.out.contains("broken"), "{}", ran.out);
}

#[test]
fn a_saved_forest_says_what_the_learned_one_says() {
    let place = Place::new();
    place.write("lessons.csv", lessons());
    place.write(
        "jobs.csv",
        format!("{HEAD}a,H100 SXM5 80GB,0.1,0.03,0.04,20,\n"),
    );
    let learned = place.run(&[
        "tier",
        "jobs.csv",
        "--learn",
        "lessons.csv",
        "--save",
        "f.json",
        "--format",
        "json",
    ]);
    assert_eq!(learned.code, 0, "{learned:?}");
    let saved = place.run(&["tier", "jobs.csv", "--forest", "f.json", "--format", "json"]);
    assert_eq!(learned.out, saved.out);
    let again = place.run(&["tier", "--learn", "lessons.csv", "--save", "g.json"]);
    assert_eq!(again.code, 0, "{again:?}");
    let read = |name: &str| std::fs::read(place.path(name)).expect("a forest");
    assert_eq!(read("f.json"), read("g.json"));
}

#[test]
fn bad_input_ends_with_2_and_says_where() {
    let place = Place::new();
    place.write(
        "jobs.csv",
        format!("{HEAD}a,H100 SXM5 80GB,1,0.5,0.4,20,\n"),
    );
    let forest = |trees: &str| {
        format!(
            r#"{{"schema":"gpuwise.tier_forest/v1","features":["a"],"bounds":[[0,1]],"range":[0,0],"rows":1,"trees":{trees}}}"#
        )
    };
    for (file, text, arguments, part) in [
        ("a.csv", "job,gpu\n".to_owned(), vec!["a.csv"], "line 1"),
        (
            "b.csv",
            format!("{HEAD}a,H101,1,,,,\n"),
            vec!["b.csv"],
            "no such GPU",
        ),
        ("c.csv", HEAD.to_owned(), vec!["c.csv"], "holds no job"),
        (
            "r.toml",
            "x = 1\n".to_owned(),
            vec!["jobs.csv", "--rules", "r.toml"],
            "r.toml",
        ),
        (
            "l.csv",
            lessons()
                .lines()
                .take(4)
                .map(|l| format!("{l}\n"))
                .collect(),
            vec!["jobs.csv", "--learn", "l.csv"],
            "only 3 rows",
        ),
        (
            "f.json",
            forest("[[[0,0.5,0,1,1.0],[0,0,0,0,1.0]]]"),
            vec!["jobs.csv", "--forest", "f.json"],
            "leads nowhere",
        ),
        (
            "g.json",
            forest("[[[7,0.5,1,1,1.0],[0,0,0,0,1.0]]]"),
            vec!["jobs.csv", "--forest", "g.json"],
            "leads nowhere",
        ),
        (
            "h.json",
            "{".to_owned(),
            vec!["jobs.csv", "--forest", "h.json"],
            "no learned forest",
        ),
        ("i", String::new(), vec!["--evaluate"], "nothing to judge"),
    ] {
        place.write(file, text);
        let ran = place.run(&[vec!["tier"], arguments].concat());
        assert_eq!(ran.code, 2, "{file}: {ran:?}");
        assert!(ran.err.contains(part), "{file}: {}", ran.err);
    }
}
