//! `gpuwise place` and `capacity`: who goes first, who may go ahead, where jobs wish to be, and what can
//! be given back.

use crate::support::Place;
use serde_json::Value;

/// Four GPUs on one node, of two queues.
const FLEET: &str = r#"
name = "t"
[[node]]
name = "a"
gpus = "4xH100"
cpu = 64
memory = "512GiB"
[[queue]]
name = "light"
[[queue]]
name = "heavy"
"#;

fn job(name: &str, rest: &str) -> String {
    format!("[[job]]\nname = \"{name}\"\ncpu = 1\nmemory = \"1GiB\"\n{rest}\n")
}

/// What `place` says of these files.
fn plan(fleet: &str, jobs: &str, flags: &[&str]) -> Value {
    let place = Place::new();
    place.write("fleet.toml", fleet);
    place.write("jobs.toml", jobs);
    place.json(&[&["place", "fleet.toml", "jobs.toml"], flags].concat())
}

/// Who starts, in order.
fn starts(said: &Value) -> Vec<String> {
    let rows = said["placed"].as_array().unwrap().iter();
    rows.map(|row| row["job"].as_str().unwrap().to_owned())
        .collect()
}

fn why(said: &Value, job: &str) -> String {
    let mut rows = said["waiting"].as_array().unwrap().iter();
    let row = rows.find(|row| row["job"] == job);
    row.unwrap_or_else(|| panic!("{job} does not wait: {said}"))["why"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn each_order_puts_somebody_else_first() {
    // One GPU is left; each of these is first by one rule.
    let jobs = job("busy", "gpus = \"3xH100\"\nrunning = \"a:0-2\"")
        + &job("old", "gpus = 1\nduration = \"5h\"\nsubmitted = \"2h\"")
        + &job("high", "gpus = 1\nduration = \"5h\"\npriority = 5")
        + &job("short", "gpus = 1\nduration = \"1h\"")
        + &job("due", "gpus = 1\nduration = \"5h\"\ndeadline = \"6h\"");
    let level = jobs.replace("priority = 5", "");
    for (jobs, order, first) in [
        (&jobs, "fifo", "old"),
        (&jobs, "priority", "high"),
        (&level, "shortest", "short"),
        (&level, "deadline", "due"),
    ] {
        let said = plan(FLEET, jobs, &["--order", order]);
        assert_eq!(starts(&said), [first], "{order}");
        assert_eq!(said["order"], order);
        // The file says it as the flag does, and the flag goes above it.
        let file = format!("scheduling = {{ order = \"{order}\" }}\n{FLEET}");
        assert_eq!(starts(&plan(&file, jobs, &[])), [first], "{order}");
        let said = plan(&file, jobs, &["--order", "fifo"]);
        assert_eq!(starts(&said), ["old"], "{order}");
    }
    // Who has waited too long goes before higher priority.
    let starved = plan(FLEET, &jobs, &["--starvation", "90min"]);
    assert_eq!(starts(&starved), ["old"]);
    let soon = plan(FLEET, &jobs, &["--starvation", "3h"]);
    assert_eq!(starts(&soon), ["high"]);
}

#[test]
fn weights_and_past_use_of_queues_decide_who_gets_more() {
    let each = |queue: &str| -> String {
        (0..4)
            .map(|at| {
                let rest = format!("gpus = 1\nqueue = \"{queue}\"");
                job(&format!("{queue}-{at}"), &rest)
            })
            .collect()
    };
    let jobs = each("light") + &each("heavy");
    let share = |fleet: &str| {
        let all = starts(&plan(fleet, &jobs, &[]));
        let heavy = all.iter().filter(|name| name.starts_with("heavy"));
        (heavy.count(), all.len())
    };
    let weighed = FLEET.replace("name = \"heavy\"", "name = \"heavy\"\nweight = 3");
    assert_eq!(share(&weighed), (3, 4));
    assert_eq!(
        share(&FLEET.replace("light\"", "light\"\nweight = 1")),
        (2, 4)
    );
    // Three quarters of what was used make weights of a quarter and three quarters.
    let used = FLEET
        .replace(
            "name = \"t\"",
            "name = \"t\"\nsharing = { half_life = \"7d\" }",
        )
        .replace("name = \"light\"", "name = \"light\"\nused = 300")
        .replace("name = \"heavy\"", "name = \"heavy\"\nused = 100");
    assert_eq!(share(&used), (3, 4));
}

#[test]
fn backfill_goes_ahead_only_as_far_as_it_says() {
    // The head needs all four, which are free in 2 h; one is free now.
    let jobs = job(
        "busy",
        "gpus = \"3xH100\"\nduration = \"2h\"\nrunning = \"a:0-2\"",
    ) + &job(
        "head",
        "gpus = \"4xH100\"\nduration = \"1h\"\nsubmitted = \"1h\"",
    ) + &job("long", "gpus = 1\nduration = \"5h\"")
        + &job("brief", "gpus = 1\nduration = \"1h\"");
    for (how, placed) in [
        ("none", &[][..]),
        ("any", &["long"]),
        ("easy", &["brief"]),
        ("conservative", &["brief"]),
    ] {
        let said = plan(FLEET, &jobs, &["--backfill", how]);
        assert_eq!(starts(&said), placed, "{how}");
        // Whoever waits is told why, those who were not looked at too.
        assert_eq!(
            said["waiting"].as_array().unwrap().len() + placed.len(),
            3,
            "{how}"
        );
        if how != "any" {
            assert!(why(&said, "long").contains("delay job head"), "{said}");
        }
    }
    let said = plan(FLEET, &jobs, &["--backfill", "easy"]);
    let head = &said["waiting"].as_array().unwrap()[0];
    assert_eq!(
        (head["job"].as_str(), head["start_seconds"].as_f64()),
        (Some("head"), Some(7200.0))
    );
}

#[test]
fn a_deadline_chooses_the_gpu_and_is_said_where_it_passes() {
    let fleet = r#"
[[node]]
name = "slow"
gpus = "2xL40S"
cpu = 32
memory = "128GiB"
[[node]]
name = "fast"
gpus = "2xH100"
cpu = 32
memory = "128GiB"
"#;
    let asks = |deadline: &str| {
        let rest = "gpus = 1\nduration = \"4h\"\nspeeds = { L40S = 0.5 }";
        job("x", &format!("{rest}\ndeadline = \"{deadline}\""))
    };
    for policy in ["gpuwise", "firstfit", "fgd"] {
        let said = plan(fleet, &asks("5h"), &["--policy", policy]);
        assert_eq!(said["placed"][0]["place"], "fast: 0", "{policy}");
        assert_eq!(said["late"].as_array().unwrap().len(), 0);
    }
    let place = Place::new();
    place.write("fleet.toml", fleet);
    place.write("jobs.toml", asks("3h"));
    let ran = place.run(&["place", "fleet.toml", "jobs.toml"]);
    assert_eq!(ran.code, 1, "a deadline that passes is no");
    assert!(ran.out.contains("after its deadline"), "{}", ran.out);
}

#[test]
fn a_job_goes_where_its_data_is_and_a_gang_keeps_to_its_rails() {
    let fleet = r#"
[[node]]
name = "n{1..3}"
gpus = "4xH100"
cpu = 64
memory = "512GiB"
rails = 4
"#;
    for policy in ["gpuwise", "fgd", "bestfit", "firstfit", "random"] {
        let near = job("x", "gpus = 1\nnear = \"n3\"");
        let said = plan(fleet, &near, &["--policy", policy]);
        assert_eq!(said["placed"][0]["place"], "n3: 0", "{policy}");
        // Where the data is nothing is free: it goes elsewhere.
        let full = job("y", "gpus = 4\nrunning = \"n3:0-3\"") + &near;
        let said = plan(fleet, &full, &["--policy", policy]);
        let place = said["placed"][0]["place"].as_str().unwrap();
        assert!(
            place.starts_with("n1") || place.starts_with("n2"),
            "{policy}: {place}"
        );
    }
    // Of n1 GPUs 2 and 3 are free; the other worker takes the same rails of n2, not its first two.
    let rails = job("y", "gpus = 2\nrunning = \"n1:0-1\"")
        + &job("z", "gpus = 4\nrunning = \"n3:0-3\"")
        + &job("x", "gpus = 2\nworkers = 2\nspread = { over = \"node\" }");
    let said = plan(fleet, &rails, &["--policy", "firstfit"]);
    assert_eq!(said["placed"][0]["place"], "n1: 2, 3; n2: 2, 3");
}

#[test]
fn instances_that_are_there_are_taken_before_new_ones_are_cut() {
    let fleet = r#"
[[node]]
name = "h"
gpus = "2xH100"
cpu = 64
memory = "512GiB"
mig = true
[[node]]
name = "a"
gpus = "2xA100 SXM4 80GB"
cpu = 64
memory = "512GiB"
mig = { 0 = ["1g.10gb@0", "1g.10gb@1"], 1 = ["7g.80gb@0"] }
"#;
    for policy in [
        "gpuwise", "fgd", "bestfit", "dotprod", "firstfit", "fullest", "random",
    ] {
        for ask in ["\"1g.10gb\"", "{ memory = \"9GiB\" }"] {
            let jobs = job("x", &format!("count = 3\nslice = {ask}"));
            let said = plan(fleet, &jobs, &["--policy", policy]);
            let places = said["placed"].as_array().unwrap().iter();
            let mut places: Vec<&str> = places.map(|row| row["place"].as_str().unwrap()).collect();
            places.sort_unstable();
            // Two are there; the third is cut rather than given the whole board.
            assert_eq!(
                places[..2],
                ["a: 0 (1g.10gb at 0)", "a: 0 (1g.10gb at 1)"],
                "{policy} {ask}"
            );
            assert!(places[2].contains("1g.10gb"), "{policy} {ask}: {places:?}");
        }
    }
}

/// What `capacity` says of `nodes` nodes of eight, and jobs.
fn capacity(nodes: u32, jobs: &str) -> Value {
    let place = Place::new();
    let fleet = format!(
        "[[node]]\nname = \"n{{1..{nodes}}}\"\ngpus = \"8xH100\"\ncpu = 64\nmemory = \"512GiB\"\n"
    );
    place.write("fleet.toml", fleet);
    place.write("jobs.toml", jobs);
    place.json(&["capacity", "fleet.toml", "jobs.toml"])
}

#[test]
fn what_can_go_together_leaves_everybody_what_they_have() {
    let back = |said: &Value| said["return"].as_array().unwrap().len();
    // A gang that needs one node more than there are: each node is part of the fix.
    let said = capacity(5, &job("x", "gpus = 8\nworkers = 6"));
    assert_eq!(
        (back(&said), said["add"].as_array().unwrap().len()),
        (0, 1),
        "{said}"
    );
    // One that runs with one worker and likes four.
    let said = capacity(
        5,
        &job("x", "gpus = 8\nworkers = { min = 1, preferred = 4 }"),
    );
    assert_eq!(back(&said), 1, "{said}");
    let said = capacity(5, &job("x", "gpus = 8\nworkers = 2"));
    assert_eq!(back(&said), 3, "{said}");
    // What was said to go is taken away: nobody is worse off.
    let place = Place::new();
    place.write(
        "fleet.toml",
        "[[node]]\nname = \"n{1..2}\"\ngpus = \"8xH100\"\ncpu = 64\nmemory = \"512GiB\"\n",
    );
    place.write("jobs.toml", job("x", "gpus = 8\nworkers = 2"));
    assert_eq!(place.run(&["place", "fleet.toml", "jobs.toml"]).code, 0);
}

#[test]
fn what_is_left_out_or_written_otherwise_is_said_plainly() {
    let said = plan(
        FLEET,
        &job("x", "gpus = 1\nduration = { expected = \"5h\" }"),
        &[],
    );
    assert_eq!(starts(&said), ["x"]);
    for (rest, words) in [
        ("duration = { expected = 5 }", "duration is a time such as"),
        ("duration = 5", "duration is a time such as"),
        ("workers = \"two\"", "workers is a number, or"),
        ("fraction = \"half\"", "fraction is a share such as"),
        ("slice = 3", "slice is a MIG profile such as"),
        ("within = 3", "within is a level such as"),
        ("preemptible = \"yes\"", "preemptible is true, false, or"),
        ("gpus = true", "gpus is a number, or"),
    ] {
        let place = Place::new();
        place.write("fleet.toml", FLEET);
        place.write("jobs.toml", job("x", rest));
        let ran = place.run(&["place", "fleet.toml", "jobs.toml"]);
        assert_eq!(ran.code, 2, "{rest}");
        assert!(
            ran.err.contains("jobs.toml: line") && ran.err.contains(words),
            "{}",
            ran.err
        );
    }
}

#[test]
fn vgpus_of_one_gpu_are_of_one_size() {
    let fleet = "[[node]]\nname = \"n\"\ngpus = \"2xL40S\"\ncpu = 64\nmemory = \"512GiB\"\n";
    let vgpu = |name: &str, memory: &str| {
        let fraction =
            format!("fraction = {{ share = 0.1, memory = \"{memory}\", isolation = \"vgpu\" }}");
        job(name, &fraction)
    };
    // Halves on one GPU, quarters on the other; a fifth quarter finds no place beside the halves.
    let mut jobs = vgpu("half", "20GiB");
    for at in 0..5 {
        jobs += &vgpu(&format!("quarter-{at}"), "10GiB");
    }
    for policy in ["gpuwise", "fgd", "bestfit", "firstfit"] {
        let said = plan(fleet, &jobs, &["--policy", policy]);
        assert_eq!(starts(&said).len(), 5, "{policy}: {said}");
        assert_eq!(said["placed"][0]["gpus"], 0.5, "{policy}");
        assert_eq!(said["placed"][1]["gpus"], 0.25, "{policy}");
    }
    // 48 clients of a hundredth each share a GPU under MPS, and no more.
    let mps = job(
        "m",
        "count = 200\nfraction = { share = 0.01, isolation = \"mps\" }\ncpu = 0",
    );
    let mps = mps.replace("cpu = 1\n", "");
    let said = plan(fleet, &mps, &["--fixes", "0"]);
    assert_eq!(
        starts(&said).len(),
        2 * 47,
        "a 48th is 2.1 % of a GPU, rounded up"
    );
}
