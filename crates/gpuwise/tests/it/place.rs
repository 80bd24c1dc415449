//! `gpuwise place`, `lint` and `capacity`: answers, exit codes, bad input.

use crate::support::Place;

const FLEET: &str = r#"
name = "t"
[[node]]
name = "a"
gpus = "4xH100"
cpu = 32
memory = "512GiB"
nvlink = true
[[node]]
name = "b"
gpus = "2xL40S"
cpu = 16
memory = "128GiB"
"#;

fn with(jobs: &str) -> Place {
    let place = Place::new();
    place.write("fleet.toml", FLEET);
    place.write("jobs.toml", jobs);
    place
}

fn job(name: &str, rest: &str) -> String {
    format!("[[job]]\nname = \"{name}\"\ncpu = 1\nmemory = \"1GiB\"\n{rest}\n")
}

const PLAN: [&str; 3] = ["place", "fleet.toml", "jobs.toml"];

#[test]
fn who_fits_is_placed_and_the_plan_holds_together() {
    let place =
        with(&(job("x", "gpus = \"3xH100\"") + &job("y", "fraction = 0.5\ntypes = \"L40S\"")));
    let ran = place.run(&[&PLAN[..], &["--save", "plan.json"]].concat());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(ran.out.contains("All 2 jobs placed."), "{}", ran.out);
    assert!(ran.out.contains("a: 0–2"), "{}", ran.out);
    assert!(ran.out.contains("b: 0 (50 %)"), "{}", ran.out);
    let ran = place.run(&["lint", "plan.json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(ran.out.contains("The plan holds together."));
    // The same plan where one of its GPUs is used, and against a node that is away.
    let busy = job("x", "gpus = \"3xH100\"")
        + &job("y", "fraction = 0.5\ntypes = \"L40S\"")
        + &job("z", "gpus = \"1xH100\"\nrunning = \"a:2\"");
    place.write("busy.toml", busy);
    let ran = place.run(&[
        "lint",
        "plan.json",
        "--fleet",
        "fleet.toml",
        "--jobs",
        "busy.toml",
    ]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("exclusive"), "{}", ran.out);
    place.write(
        "drained.toml",
        FLEET.replace("nvlink = true", "health = \"draining\""),
    );
    let ran = place.run(&[
        "lint",
        "plan.json",
        "--fleet",
        "drained.toml",
        "--jobs",
        "jobs.toml",
    ]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("health"), "{}", ran.out);
}

#[test]
fn who_waits_is_told_why_and_a_what_if_keeps_its_word() {
    let place = with(
        &(job("x", "gpus = \"4xH100\"\nrunning = \"a:0-3\"") + &job("y", "gpus = \"2xH100\"")),
    );
    let said = place.json(&[&PLAN[..], &["--why", "y"]].concat());
    let waits = &said["waiting"][0];
    assert!(
        waits["why"].as_str().unwrap().contains("needs 2 GPUs"),
        "{said}"
    );
    let fixes = waits["fixes"].as_array().unwrap();
    assert!(
        fixes
            .iter()
            .any(|fix| fix["fix"].as_str().unwrap().contains("add 1 node like a"))
    );
    assert_eq!(place.run(&PLAN).code, 1);
    for (change, code) in [
        ("+a", 0),
        ("+2xH100", 0),
        ("+1xH100", 1),
        ("-b", 1),
        ("+2xL4", 1),
    ] {
        let ran = place.run(&[&PLAN[..], &["--what-if", change]].concat());
        assert_eq!(ran.code, code, "{change}: {}{}", ran.out, ran.err);
    }
    let ran = place.run(&["capacity", "fleet.toml", "jobs.toml"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("1 like a (4x"), "{}", ran.out);
    assert!(
        ran.out.contains("no policy can place more than 0"),
        "{}",
        ran.out
    );
}

/// A fix that adds nodes, the same asked as a what-if, and what the fleet lacks: one node, one answer, NVLink and all.
#[test]
fn a_node_like_another_is_the_same_to_a_fix_a_what_if_and_a_capacity() {
    let place = with(
        &(job("x", "gpus = \"4xH100\"\nrunning = \"a:0-3\"")
            + &job("y", "gpus = \"4xH100\"\nwithin = \"nvlink\"")),
    );
    let said = place.json(&[&PLAN[..], &["--why", "y"]].concat());
    let fixes = said["waiting"][0]["fixes"].as_array().unwrap().clone();
    let adds = |fix: &serde_json::Value| fix["fix"].as_str().unwrap().contains("add 1 node like a");
    assert!(fixes.iter().any(adds), "{said}");
    for change in ["+a", "+4xH100"] {
        let ran = place.run(&[&PLAN[..], &["--what-if", change, "--why", "y"]].concat());
        assert!(
            ran.code == 0 && ran.out.contains("what-if-1"),
            "{change}: {}{}",
            ran.out,
            ran.err
        );
    }
    let ran = place.run(&["capacity", "fleet.toml", "jobs.toml"]);
    assert!(ran.out.contains("1 like a (4x"), "{}", ran.out);
}

/// Who stops others was searched for; that is said as a number, and in words where it is asked for.
#[test]
fn an_answer_says_how_far_the_search_went() {
    let place = with(
        &(job(
            "low",
            "gpus = \"4xH100\"\nrunning = \"a:0-3\"\npreemptible = true\nduration = \"8h\"",
        ) + &job("high", "gpus = \"2xH100\"\npriority = 5")),
    );
    let preempts = [&PLAN[..], &["--preempt"]].concat();
    let said = place.json(&preempts);
    let (steps, most) = (&said["search"]["steps"], &said["search"]["most"]);
    assert!(steps.as_u64().unwrap() > 0, "{said}");
    assert_eq!(most.as_u64(), Some(16_000_000));
    assert_eq!(place.json(&PLAN)["search"]["steps"].as_u64(), Some(0));
    let words = format!("The search took {steps} of 16,000,000 steps.");
    assert!(!place.run(&preempts).out.contains(&words));
    let ran = place.run(&[&preempts[..], &["--explain"]].concat());
    assert!(ran.out.contains(&words), "{}", ran.out);
}

#[test]
fn a_page_shows_the_fleet_what_is_placed_and_what_is_pending() {
    let jobs = job("runs", "gpus = \"3xH100\"") + &job("waits<b>", "gpus = \"2xH100\"");
    let place = with(&jobs);
    let ran = place.run(&[&PLAN[..], &["--html", "page.html"]].concat());
    assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{}", ran.out);
    let page = std::fs::read_to_string(place.path("page.html")).expect("a page");
    for part in [
        "Placement on fleet t",
        "1 of 2 jobs placed; 1 wait.",
        "<svg",
        "waits&lt;b&gt;",
        "needs 2 GPUs",
        "cheapest fix",
    ] {
        assert!(page.contains(part), "no {part} in {page}");
    }
    assert!(!page.contains("waits<b>"));
    // A page that cannot be written is said before anything is decided.
    let ran = place.run(&[&PLAN[..], &["--html", "no/page.html"]].concat());
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(ran.err.contains("no/page.html"), "{}", ran.err);
}

#[test]
fn what_is_larger_than_the_fleet_is_an_answer() {
    let place = with(&job("x", "gpus = \"4xH100\"\nworkers = 3"));
    let ran = place.run(&[&PLAN[..], &["--why", "x"]].concat());
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert!(ran.out.contains("larger than the fleet"), "{}", ran.out);
    assert!(ran.out.contains("add 2 nodes like a"), "{}", ran.out);
}

#[test]
fn wrong_input_is_told_with_its_place() {
    let good = job("x", "gpus = 1");
    let check = |jobs: &str, arguments: &[&str], said: &str| {
        let place = with(jobs);
        let ran = place.run(&[&PLAN[..], arguments].concat());
        assert_eq!(ran.code, 2, "{}", ran.out);
        assert!(ran.err.contains(said), "{}\nnot {said}", ran.err);
        assert!(ran.out.is_empty());
    };
    check(&(good.clone() + &good), &[], "jobs.toml: line");
    check(&good, &["--why", "z"], "there is no such job");
    check(&good, &["--policy", "best"], "there is no such policy");
    check(
        &good,
        &["--what-if", "+2xZ100"],
        "neither the fleet nor the catalogue knows",
    );
    check(&good, &["--what-if", "-c"], "the fleet has no node \"c\"");
    let place = with(&good);
    place.write("plan.json", "{}");
    let ran = place.run(&["lint", "plan.json"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("hint:"), "{}", ran.err);
}

#[test]
fn a_rerun_gives_the_same_bytes() {
    let jobs: String = (0..30)
        .map(|at| {
            job(
                &format!("j{at}"),
                ["gpus = 1", "fraction = 0.3", "gpus = \"2xH100\""][at % 3],
            )
        })
        .collect();
    let place = with(&jobs);
    for format in ["table", "json", "csv", "md"] {
        let once = place.run(&[&PLAN[..], &["--format", format]].concat());
        let again = place.run(&[&PLAN[..], &["--format", format]].concat());
        assert_eq!(once.out, again.out);
        assert!(
            once.out
                .lines()
                .all(|line| format != "table" || line.chars().count() <= 100)
        );
    }
}

/// Who gets a place and who waits stand in one table of CSV, with a row for each fix.
#[test]
fn decisions_are_one_table() {
    let jobs: String = (0..30)
        .map(|at| job(&format!("j{at}"), "gpus = 2"))
        .collect();
    let place = with(&jobs);
    for more in [&[][..], &["--why", "j0", "--why", "j29"]] {
        let ran = place.run(&[&PLAN[..], &["--format", "csv"], more].concat());
        let mut reader = csv::Reader::from_reader(ran.out.as_bytes());
        let names = reader.headers().unwrap().clone();
        let at = |name: &str| names.iter().position(|known| known == name).unwrap();
        let (action, why, fix) = (at("action"), at("why"), at("fix"));
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let waits = |row: &&csv::StringRecord| &row[action] == "wait";
        assert!(rows.iter().filter(waits).all(|row| !row[why].is_empty()));
        assert!(rows.iter().filter(waits).any(|row| !row[fix].is_empty()));
        assert!(
            rows.iter()
                .any(|row| &row[action] == "start" && row[why].is_empty())
        );
    }
}

/// A trace is named by its file as by its directory, told by its header.
#[test]
fn a_trace_is_replayed_by_the_path_of_its_file() {
    let place = Place::new();
    let jobs = "vc,job,submit_s,gpus,duration_s\na,0,0,4,600\na,1,60,8,600\n";
    place.write("mine/jobs.csv", jobs);
    place.write("mine/vc_nodes.csv", "vc,nodes\na,1\n");
    let of = |path: &str| {
        let ran = place.run(&["replay", path, "--policy", "fifo", "--format", "csv"]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{path}");
        ran.out
    };
    assert_eq!(of("mine/jobs.csv"), of("mine"));
    assert!(of("mine/jobs.csv").contains("philly:a,fifo"));
    place.write("odd.csv", "a,b\n1,2\n");
    let ran = place.run(&["replay", "odd.csv"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("its header is \"a,b\"") && ran.err.contains("philly"),
        "{}",
        ran.err
    );
    let help = place.run(&["replay", "--help"]);
    assert!(help.out.contains("philly:CLUSTER"), "{}", help.out);
}
