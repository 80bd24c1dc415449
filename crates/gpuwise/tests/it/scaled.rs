//! Services that follow demand: rehearsed on simulated GPUs by a trace, and with engines that are real processes.

use super::broker::Daemon;
use crate::{
    support::Place,
    suspend::{ask, until},
};
use serde_json::Value;

const FLEET: &str = r#"
name = "lab"
[[gpu_kind]]
name = "H100"
price = "2.50 USD"
[[node]]
name = "n1"
gpus = "8xH100"
cpu = 64
memory = "1TiB"
"#;

/// Nothing for an hour, then as many as three replicas serve, for hours, then nothing again.
const TRACE: &str = "time,rate\n2026-01-01T00:00:00Z,0\n2026-01-01T01:00:00Z,0\n2026-01-01T02:00:00Z,26\n\
     2026-01-01T03:00:00Z,26\n2026-01-01T04:00:00Z,26\n2026-01-01T05:00:00Z,0\n2026-01-01T06:00:00Z,0\n\
     2026-01-01T07:00:00Z,0\n";

fn service(daemon: &Daemon, words: &[&str], engine: &[&str]) -> Value {
    let all = [
        "lease",
        "request",
        "--tenant",
        "vision",
        "--gpu",
        "1xH100",
        "--serve",
        "tiny",
        "--scale",
        "scale.toml",
    ];
    let mut asked = daemon.command(&[&all[..], words].concat());
    let output = asked
        .args(["--format", "json", "--"])
        .args(engine)
        .output()
        .expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn members(shown: &Value, role: &str, state: &str) -> usize {
    let all = shown["scaling"]["members"].as_array().into_iter().flatten();
    all.filter(|one| one["role"] == role && one["state"] == state)
        .count()
}

#[test]
fn a_rehearsed_service_comes_to_three_replicas_and_to_none_through_a_restart() {
    let place = Place::new();
    place.write("fleet.toml", FLEET);
    place.write("traffic.csv", TRACE);
    place.write(
        "scale.toml",
        "min = 0\nmax = 5\nrate = 10.0\nstart = \"2min\"\nidle = \"10min\"\nwarm_cost = 0.1\n",
    );
    let flags = [
        "--speed",
        "1200",
        "--start-takes",
        "90s",
        "--rehearse",
        "tiny=traffic.csv",
    ];
    let mut daemon = Daemon::start_in(place, &flags, Vec::new());
    daemon.json(&["tenant", "create", "vision"]);
    let first = service(&daemon, &["--suspend", "sleep"], &["engine"]);
    assert_eq!(first["id"], "L-1");
    let show = |daemon: &Daemon| daemon.json(&["lease", "show", "L-1"]);
    until("nobody asks: it has none", || {
        show(&daemon)["state"] == "suspended"
    });
    until("three serve", || {
        members(&show(&daemon), "serving", "active") >= 3
    });
    daemon.crash(&flags);
    let after = show(&daemon);
    assert!(members(&after, "serving", "active") >= 3, "{after}");
    let decisions = after["scaling"]["decisions"].as_array().expect("a list");
    assert!(
        decisions
            .iter()
            .any(|one| one["steps"].to_string().contains("start-warm L-")),
        "{after}"
    );
    let why = daemon.json(&["lease", "explain", "L-1"]);
    let reason = why["reason"].as_str().expect("a reason");
    assert!(reason.contains("requests/s"), "{reason}");
    until("nobody asks any more", || {
        let shown = show(&daemon);
        shown["scaling"]["replicas"] == 0 && shown["state"] == "suspended"
    });
    // Another policy holds from the next look on, and is kept.
    daemon
        .place
        .write("two.toml", "min = 2\nmax = 5\nrate = 10.0\n");
    daemon.json(&["lease", "scale", "L-1", "--policy", "two.toml"]);
    until("two serve", || {
        members(&show(&daemon), "serving", "active") == 2
    });
    let asked = show(&daemon)["ask"]["service"]["scale"]["min"].clone();
    assert_eq!(asked, 2);
    let metrics = daemon.ask("GET", "/metrics", "").text;
    assert!(
        metrics.contains("gpuwise_service_replicas{service=\"L-1\",role=\"serving\"} 2"),
        "{metrics}"
    );
    let statement = daemon.json(&["statement", "vision"]);
    let starts = statement["lines"].as_array().expect("lines").iter();
    assert!(
        starts.filter(|line| !line["start_hours"].is_null()).count() > 0,
        "{statement}"
    );
    let whole = daemon.json(&["store", "check", "--store", "sqlite://log.db"]);
    assert_eq!(whole["problems"], Value::Array(Vec::new()));
    // Each was decided once more, from the log alone.
    assert!(whole["decisions"].as_u64() > Some(100), "{whole}");
    assert_eq!(whole["decisions_otherwise"], Value::Null, "{whole}");
}

const ENGINE: [&str; 8] = [
    env!("CARGO_BIN_EXE_gpuwise"),
    "engine",
    "--model",
    "tiny",
    "--listen",
    "127.0.0.1:{port}",
    "--ttft",
    "150ms",
];

#[test]
fn an_endpoint_follows_requests_to_two_replicas_to_none_and_back() {
    let daemon = Daemon::start_on(FLEET, &["--executor", "local"]);
    daemon.json(&["tenant", "create", "vision"]);
    daemon.place.write(
        "scale.toml",
        "min = 0\nmax = 2\nrate = 2.0\nperiod = \"1s\"\nstart = \"1s\"\nidle = \"3s\"\n",
    );
    let service = service(&daemon, &[], &ENGINE);
    let id = service["id"].as_str().expect("an id").to_owned();
    daemon.until(&id, "active");
    let show = || daemon.json(&["lease", "show", &id]);
    until("a second one serves", || {
        assert_eq!(ask(&daemon), 200);
        members(&show(), "serving", "active") == 2
    });
    assert_eq!(ask(&daemon), 200);
    until("nothing comes: none serves", || {
        show()["state"] == "suspended"
    });
    until("the second is over", || {
        let all = daemon.json(&["lease", "list"]);
        all["items"].as_array().map(Vec::len) == Some(1)
    });
    // The next request is held until it is back.
    assert_eq!(ask(&daemon), 200);
    assert_eq!(show()["state"], "active");
    let offers = daemon.json(&["lease", "offers"]);
    let cold = &offers["services"][0];
    assert!(cold["starts"].as_u64() >= Some(2), "{offers}");
    assert!(cold["p99"].as_f64() >= cold["p50"].as_f64(), "{offers}");
}

/// One that answers one request at a time, sent on by a gateway that holds none back.
#[test]
fn requests_that_wait_in_the_engine_are_seen_and_ask_for_another_replica() {
    let daemon = Daemon::start_on(FLEET, &["--executor", "local"]);
    daemon.json(&["tenant", "create", "vision"]);
    daemon.place.write(
        "scale.toml",
        "max = 4\nrate = 1.0\nwait = \"1s\"\nperiod = \"1s\"\nstart = \"1s\"\n",
    );
    let words = [&ENGINE[..6], &["--ttft", "2s", "--concurrency", "1"]].concat();
    let service = service(&daemon, &[], &words);
    let id = service["id"].as_str().expect("an id").to_owned();
    daemon.until(&id, "active");
    let show = || daemon.json(&["lease", "show", &id]);
    let said = std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| [ask(&daemon), ask(&daemon)]);
        }
        let mut said = None;
        until("the engine's queue counts", || {
            let decisions = show()["scaling"]["decisions"].clone();
            let all = decisions.as_array().cloned().unwrap_or_default();
            let queue = all.into_iter().find(|one| one["because"] == "queue");
            said = queue.map(|one| one["reason"].clone());
            said.is_some()
        });
        said
    });
    let said = said.expect("a reason").to_string();
    assert!(said.contains("of them in engines' queues"), "{said}");
}

#[test]
fn a_policy_that_cannot_be_is_refused_with_its_field() {
    let daemon = Daemon::start_on(FLEET, &[]);
    daemon.json(&["tenant", "create", "vision"]);
    for (text, told) in [
        ("max = 2\n", "service.scale.rate"),
        ("rate = 2.0\n", "service.scale.max"),
        (
            "max = 2\nrate = 2.0\nwarm_cost = 0.1\n",
            "service.scale.warm_cost",
        ),
        ("max = 2\nrate = 2.0\nwait = \"2\"\n", "service.scale.wait"),
        ("maximum = 2\n", "scale.toml: "),
    ] {
        daemon.place.write("scale.toml", text);
        let words = [
            "lease",
            "request",
            "--tenant",
            "vision",
            "--gpu",
            "1",
            "--serve",
            "tiny",
            "--scale",
            "scale.toml",
            "--",
            "engine",
        ];
        let refused = daemon.refused(&words);
        assert!(refused.contains(told), "{text}: {refused}");
    }
}

/// Four GPUs: what is warm is lent to guests, who leave within 5 s, and wakes within 5 s more.
#[test]
fn warm_spares_are_lent_and_come_back_within_a_time_that_is_said() {
    let place = Place::new();
    place.write("fleet.toml", FLEET.replace("8xH100", "4xH100"));
    // It comes and goes, after three hours high for an hour at a time: whoever begins anew at one rise, as a machine was
    // busy, is lent before the next.
    let varies = (0..18).map(|at| if at % 2 == 0 { 4 } else { 9 });
    let rises = (0..60).map(|at| if at / 6 % 2 == 0 { 28 } else { 4 });
    let rates = varies.chain(rises).zip(0..);
    let row = |(rate, at): (u32, u32)| {
        format!("2026-01-01T{:02}:{:02}:00Z,{rate}\n", at / 6, at % 6 * 10)
    };
    let rows: String = rates.map(row).collect();
    place.write("traffic.csv", format!("time,rate\n{rows}"));
    place.write(
        "scale.toml",
        "max = 4\nrate = 10.0\nstart = \"2min\"\nwarm_cost = 0.1\n",
    );
    place.write("lend.toml", "[disruption]\npreempt = true\nlend = true\n");
    let flags = [
        "--speed",
        "900",
        "--start-takes",
        "90s",
        "--rehearse",
        "tiny=traffic.csv",
    ];
    let daemon = Daemon::start_in(place, &flags, Vec::new());
    for tenant in ["vision", "batch"] {
        daemon.json(&["tenant", "create", tenant]);
    }
    daemon.json(&["policy", "set", "lend.toml"]);
    service(
        &daemon,
        &["--suspend", "sleep", "--priority", "9"],
        &["engine"],
    );
    daemon.until("L-1", "active");
    for _ in 0..4 {
        daemon.json(&[
            "lease",
            "request",
            "--tenant",
            "batch",
            "--gpu",
            "1xH100",
            "--preemptible",
        ]);
    }
    let guests = |state: &str| {
        let all = daemon.json(&["lease", "list", "--tenant", "batch"]);
        let all = all["items"].as_array().expect("a list").iter();
        all.filter(|one| one["state"] == state).count()
    };
    let show = || daemon.json(&["lease", "show", "L-1"]);
    let mut back = None;
    until(
        "three serve, one of them came back, and guests wait",
        || {
            let service = show();
            back = service["scaling"]["return_p99"].as_f64();
            back.is_some()
                && members(&service, "serving", "active") >= 3
                && guests("active") <= 1
                && guests("suspended") >= 2
        },
    );
    // Ten seconds, and what a busy machine takes: a second of it is fifteen minutes of this time.
    let back = back.expect("a time");
    assert!((10.0..1800.0).contains(&back), "{back}");
    earned(&daemon);
}

/// What was lent stands on the lender's statement as a credit, in each of its forms, and money is conserved.
fn earned(daemon: &Daemon) {
    let statement = daemon.json(&["statement", "vision"]);
    let lines = statement["lines"].as_array().expect("lines").iter();
    let lent: Vec<&Value> = lines.filter(|line| line["cause"] == "lent").collect();
    assert!(!lent.is_empty(), "{statement}");
    let number = |value: &Value| {
        let text = value.as_str().expect("a decimal");
        let number = text.trim_end_matches(" USD");
        number.parse::<f64>().expect("a number")
    };
    let mut all = 0.0;
    for line in lent {
        // Half of 2.50 USD for each hour.
        let by_hand = -1.25 * number(&line["lent_hours"]);
        assert!((number(&line["charge"]) - by_hand).abs() < 1e-6, "{line}");
        assert_eq!(line["lent_share"], "0.5");
        assert_eq!(line["granted_hours"], Value::Null);
        all += by_hand;
    }
    assert!(
        (number(&statement["totals"][0]["earned"]) - all).abs() < 1e-3,
        "{statement}"
    );
    let shown = |form: &[&str]| {
        let words = [&["statement", "vision"], form].concat();
        let output = daemon.command(&words).output().expect("runs");
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(shown(&[]).contains("lent for"), "{}", shown(&[]));
    assert!(shown(&["--format", "focus"]).contains(",Credit,"));
    assert!(shown(&["--format", "html"]).contains("earned by lent capacity"));
    let whole = daemon.json(&["store", "check", "--store", "sqlite://log.db"]);
    assert_eq!(whole["problems"], Value::Array(Vec::new()), "{whole}");
    assert_eq!(whole["money"][0]["conserved"], true);
    assert!(number(&whole["money"][0]["earned"]) < 0.0, "{whole}");
}
