//! Several parts of one GPU in one lease, and what others tell of them, through the command line and HTTP.

use super::Daemon;
use std::time::{Duration, Instant};

const FLEET: &str = r#"
name = "parts"
[[gpu_kind]]
name = "H100 SXM5 80GB"
price = "2.50 USD"
[[gpu_kind]]
name = "L40S"
price = "1.00 USD"
[[node]]
name = "n1"
gpus = "1xH100 SXM5 80GB"
mig = true
cpu = 64
memory = "1TiB"
[[node]]
name = "n2"
gpus = "1xL40S"
cpu = 64
memory = "1TiB"
"#;

#[test]
fn each_part_of_a_gpu_is_charged() {
    // Ten minutes a second.
    let daemon = Daemon::start_on(FLEET, &["--speed", "600"]);
    for (tenant, gpu, workers, price) in [
        ("slices", "1g.10gb", "7", 2.5),
        ("tenths", "0.1xL40S", "10", 1.0),
    ] {
        daemon.json(&["tenant", "create", tenant]);
        let request = [
            "lease",
            "request",
            "--tenant",
            tenant,
            "--gpu",
            gpu,
            "--workers",
            workers,
            "--for",
            "1h",
        ];
        let lease = daemon.json(&request)["id"]
            .as_str()
            .expect("an id")
            .to_owned();
        daemon.until(&lease, "ended");
        let charged = daemon.charged(tenant);
        // What it takes to stop comes on top.
        assert!(
            (price..price * 1.3).contains(&charged),
            "{tenant}: {charged}"
        );
    }
    let tenants = daemon.json(&["tenant", "list"]);
    let mut tenants = tenants["items"].as_array().expect("tenants").iter();
    assert!(
        tenants.all(|one| one["spent"].is_string()),
        "it is said without a budget, too"
    );
    let metrics = daemon.ask("GET", "/metrics", "");
    assert!(
        metrics.text.contains("gpuwise_grants_not_charged 0\n"),
        "{}",
        metrics.text
    );
    let check = daemon.json(&["store", "check", "--store", "sqlite://log.db"]);
    assert_eq!(
        check["problems"].as_array().map(Vec::len),
        Some(0),
        "{check}"
    );
}

#[test]
fn sources_of_the_broker_are_its_own() {
    let daemon = Daemon::start_on(FLEET, &[]);
    daemon.json(&["tenant", "create", "vision"]);
    let request = ["lease", "request", "--tenant", "vision", "--gpu", "1xL40S"];
    let lease = daemon.json(&request)["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    daemon.until(&lease, "active");
    let event = |source: &str| {
        format!(
            r#"{{"specversion": "1.0", "id": "1", "source": "{source}", "type": "dev.gpuwise.usage.v1",
               "subject": "{lease}", "data": {{"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:00:01Z"}}}}"#
        )
    };
    for source in ["grants", "gpuwise/gateway", "gpuwise/metrics/x"] {
        let answer = daemon.ask("POST", "/v1/usage", &event(source));
        assert_eq!(answer.status, 422, "{}", answer.text);
        assert!(answer.text.contains(source), "{}", answer.text);
    }
}

#[test]
fn prices_are_for_what_can_be_leased_and_a_check_counts_them_by_class() {
    let mut daemon = Daemon::start_on(FLEET, &["--speed", "600"]);
    daemon.json(&["tenant", "create", "a", "--budget", "1000 USD"]);
    for wrong in [
        &["L40S", "77 USD", "--part", "0.5"][..],
        &["L40S", "77 USD", "--part", "9g.99gb"],
        &["H100", "77 USD", "--part", "9g.99gb"],
        &["H100", "9000000000000 USD"],
    ] {
        let why = daemon.refused(&[&["prices", "set"][..], wrong].concat());
        assert!(why.contains("expected"), "{wrong:?}: {why}");
    }
    daemon.json(&["prices", "set", "H100", "1 USD", "--part", "1g.10gb"]);
    // Until a month's end it may cost more than the budget at the later price.
    let lease = ["lease", "request", "--tenant", "a", "--gpu", "L40S"];
    daemon.json(&[&lease[..], &["--for", "12h"]].concat());
    daemon.until("L-1", "active");
    daemon.json(&["prices", "set", "L40S", "4.50 USD", "--class", "on-demand"]);
    let end = Instant::now() + Duration::from_mins(1);
    while daemon.charged("a") < 1.0 {
        assert!(Instant::now() < end, "an hour is charged");
    }
    daemon.json(&["lease", "release", "L-1"]);
    daemon.until("L-1", "ended");
    daemon.stop();
    let check = ["store", "check", "--store", "sqlite://log.db"];
    assert_eq!(daemon.json(&check)["problems"].to_string(), "[]");
    // Copies are for their account alone, as the log is.
    let backup = [&["store", "backup", "copy.jsonl"][..], &check[2..]].concat();
    daemon.json(&backup);
    let restore = ["store", "restore", "copy.jsonl", "--store"];
    daemon.json(&[&restore[..], &["sqlite://restored.db"]].concat());
    for file in ["copy.jsonl", "restored.db"] {
        use std::os::unix::fs::PermissionsExt as _;
        let about = std::fs::metadata(daemon.place.path(file)).expect("is there");
        assert_eq!(about.permissions().mode() & 0o077, 0, "{file}");
    }
}
