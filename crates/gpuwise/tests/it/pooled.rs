//! Services of one fleet: weights of the popular lie in host memory, and GPUs of which more are wanted than there are
//! are shared out; both rehearsed by traces.

use super::broker::Daemon;
use crate::{support::Place, suspend::until};
use serde_json::Value;

const FLEET: &str = r#"
name = "lab"
[[gpu_kind]]
name = "H100"
price = "2.50 USD"
[[node]]
name = "n1"
gpus = "4xH100"
cpu = 64
memory = "200GiB"
"#;

/// Requests come for a while every so many ten minutes.
fn pulses(every: usize, rate: u32) -> String {
    let rows: String = (0..1440_usize)
        .map(|at| {
            let (day, hour, minute) = (1 + at / 144, at / 6 % 24, at % 6 * 10);
            let rate = if at % every == 1 { rate } else { 0 };
            format!("2026-01-{day:02}T{hour:02}:{minute:02}:00Z,{rate}\n")
        })
        .collect();
    format!("time,rate\n{rows}")
}

fn service(daemon: &Daemon, model: &str, flags: &[&str]) -> String {
    let words = [
        "lease",
        "request",
        "--tenant",
        "vision",
        "--gpu",
        "1xH100",
        "--serve",
        model,
        "--scale",
        "scale.toml",
    ];
    let mut asked = daemon.command(&[&words[..], flags].concat());
    let output = asked
        .args(["--format", "json", "--", "engine"])
        .output()
        .expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let lease: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    lease["id"].as_str().expect("an id").to_owned()
}

fn shown(daemon: &Daemon, lease: &str) -> Value {
    daemon.json(&["lease", "show", lease])["scaling"].clone()
}

fn start<'v>(scaling: &'v Value, from: &str) -> Option<&'v Value> {
    let starts = scaling["starts"].as_array().into_iter().flatten();
    let mut own = starts.filter(|one| one["from"] == from);
    own.next()
}

#[test]
fn what_is_started_often_starts_from_host_memory_and_what_is_not_does_without() {
    let place = Place::new();
    place.write("fleet.toml", FLEET);
    place.write("often.csv", pulses(6, 5));
    place.write("seldom.csv", pulses(72, 5));
    place.write(
        "scale.toml",
        "min = 0\nmax = 1\nrate = 10.0\nstart = \"8min\"\nidle = \"5min\"\n",
    );
    let flags = [
        "--speed",
        "600",
        "--start-takes",
        "480s",
        "--warm-start-takes",
        "80s",
        "--warm-memory",
        "100GB",
        "--rehearse",
        "often=often.csv",
        "--rehearse",
        "seldom=seldom.csv",
    ];
    let mut daemon = Daemon::start_in(place, &flags, Vec::new());
    daemon.json(&["tenant", "create", "vision"]);
    let often = service(&daemon, "often", &["--weights-size", "60GB"]);
    let seldom = service(&daemon, "seldom", &["--weights-size", "60GB"]);
    // What was stated is 300 s in the median, eight minutes nine times of ten: it is learned that these are shorter, on a
    // machine too that is busy for a third of a second, which is three minutes of this time.
    until("it starts from host memory, and sooner than stated", || {
        let scaling = shown(&daemon, &often);
        let Some(seen) = start(&scaling, "weights in host memory") else {
            return false;
        };
        seen["seen"].as_u64() >= Some(3) && seen["median"].as_f64() < Some(300.0)
    });
    let scaling = shown(&daemon, &often);
    let resident = &scaling["weights"][0];
    assert_eq!(
        (&resident["node"], &resident["state"]),
        (&"n1".into(), &"there".into())
    );
    let reason = resident["reason"].as_str().expect("a reason");
    assert!(reason.contains("s a GB of 60.0 GB"), "{reason}");
    // Both do not fit into 100 GB.
    assert_eq!(shown(&daemon, &seldom)["weights"], Value::Null);
    let text = daemon
        .command(&["lease", "show", &often])
        .output()
        .expect("runs");
    let text = String::from_utf8(text.stdout).expect("UTF-8");
    assert!(text.contains("GB in the memory of n1 (there)"), "{text}");
    assert!(text.contains("weights in host memory: "), "{text}");
    daemon.crash(&flags);
    assert!(start(&shown(&daemon, &often), "weights in host memory").is_some());
    let whole = daemon.json(&["store", "check", "--store", "sqlite://log.db"]);
    assert_eq!(whole["problems"], Value::Array(Vec::new()), "{whole}");
}

#[test]
fn services_that_want_more_than_the_fleet_has_share_it_and_say_by_which_rule() {
    let place = Place::new();
    place.write("fleet.toml", FLEET);
    for name in ["one", "other"] {
        let rows: String = (0..40)
            .map(|at| format!("2026-01-01T{:02}:{:02}:00Z,30\n", at / 6, at % 6 * 10))
            .collect();
        place.write(&format!("{name}.csv"), format!("time,rate\n{rows}"));
    }
    place.write("scale.toml", "max = 4\nrate = 10.0\nstart = \"1min\"\n");
    let flags = [
        "--speed",
        "600",
        "--rehearse",
        "one=one.csv",
        "--rehearse",
        "other=other.csv",
    ];
    let daemon = Daemon::start_in(place, &flags, Vec::new());
    daemon.json(&["tenant", "create", "vision"]);
    let one = service(&daemon, "one", &[]);
    let serving = |lease: &str| {
        let scaling = shown(&daemon, lease);
        let members = scaling["members"].as_array().cloned().unwrap_or_default();
        let own = members.iter();
        own.filter(|one| one["role"] == "serving" && one["state"] == "active")
            .count()
    };
    until("one has what it wants", || serving(&one) >= 3);
    let other = service(&daemon, "other", &[]);
    until("they have as much", || {
        serving(&one) == 2 && serving(&other) == 2
    });
    let scaling = shown(&daemon, &other);
    let reason = scaling["reason"].as_str().expect("a reason");
    assert!(
        reason.contains("2 services want ") && reason.contains("it gets 2 by need"),
        "{reason}"
    );
    let decisions = scaling["decisions"].as_array().expect("a list").iter();
    let given: Vec<&Value> = decisions.filter(|one| !one["grant"].is_null()).collect();
    assert!(!given.is_empty(), "{scaling}");
    let whole = daemon.json(&["store", "check", "--store", "sqlite://log.db"]);
    assert_eq!(whole["problems"], Value::Array(Vec::new()), "{whole}");
    assert_eq!(whole["decisions_otherwise"], Value::Null, "{whole}");
}
