//! The past of a broker under other rules.

use super::broker::Daemon;

#[test]
fn a_log_is_replayed_as_it_was_and_under_another_policy() {
    let daemon = Daemon::start(&["--speed", "36000", "--order", "fifo", "--backfill", "none"]);
    daemon.json(&["tenant", "create", "vision"]);
    // One node is held, a large one waits for the other, and a small one behind it.
    let ask = |gpu: &str, length: &str| {
        let lease = daemon.json(&[
            "lease", "request", "--tenant", "vision", "--gpu", gpu, "--for", length,
        ]);
        lease["id"].as_str().expect("an id").to_owned()
    };
    let leases = [
        ask("8xH100", "3h"),
        ask("4xH100", "2h"),
        ask("8xH100", "2h"),
        ask("2xH100", "30min"),
    ];
    // 8 × 3 h + 4 × 2 h + 8 × 2 h + 2 × 0.5 h, and what starting and stopping took: a machine that has much to do takes
    // longer, and what was held is charged.
    let costs = leases.iter().map(|lease| {
        let over = daemon.until(lease, "ended");
        let cost = over["cost"].as_str().expect("a cost").to_owned();
        let amount = cost.strip_suffix(" USD").expect("dollars");
        amount.parse::<f64>().expect("a number")
    });
    let held = costs.sum::<f64>() / 2.5;
    assert!(held > 49.0, "{held}");
    let export = daemon
        .command(&["store", "export", "--store", "sqlite://log.db"])
        .output()
        .expect("runs");
    daemon.place.write("past.jsonl", &export.stdout);
    let rows = daemon.json(&["replay", "log", "past.jsonl", "--policy", "first-fit"]);
    let rows = rows["rows"].as_array().expect("rows");
    let names: Vec<&str> = rows
        .iter()
        .map(|row| row["policy"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["as recorded", "the log's own", "first-fit"]);
    for row in rows {
        assert_eq!(
            row["jobs_placed"].as_u64().or(row["placed"].as_u64()),
            Some(4),
            "{row}"
        );
        let hours = row["gpu_hours_held"].as_f64().expect("hours");
        assert!((hours - held).abs() < 0.02, "{held}: {row}");
        let cost = row["cost_held"].as_f64().expect("money");
        assert!((cost - hours * 2.5).abs() < 0.1, "{row}");
    }
    let wait = |at: usize| rows[at]["wait_mean_s"].as_f64().expect("a wait");
    assert!(wait(2) <= wait(1), "who may go ahead waits less: {rows:?}");
    daemon
        .place
        .write("bad.jsonl", "{\"seq\":1,\"at\":\"yesterday\"}\n");
    let bad = daemon
        .command(&["replay", "log", "bad.jsonl"])
        .output()
        .expect("runs");
    assert_eq!(bad.status.code(), Some(2));
    let said = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert!(said.contains("bad.jsonl: line 1"), "{said}");
    daemon.json(&["store", "backup", "kept.log", "--store", "sqlite://log.db"]);
    let said = daemon.refused(&["replay", "log", "kept.log"]);
    assert!(said.contains("kept.log is a backup"), "{said}");
}
