//! Clocks that are wrong, and logs whose end is gone.

use super::{Daemon, Site, until};
use std::process::{Command, Stdio};

const YEARS: i64 = 8 * 365 * 86_400 * 1_000_000_000;

/// A daemon in real time.
fn start(site: &Site, name: &str, arguments: &[&str]) -> Daemon {
    let said = site.place.path(name);
    let file = std::fs::File::create(&said).expect("is made");
    let child = site
        .place
        .command(&["serve", "--listen", "127.0.0.1:0", "--fleet", "fleet.toml"])
        .args(["--store", &site.store])
        .args(arguments)
        .stderr(Stdio::from(file))
        .spawn()
        .expect("starts");
    Daemon { child, said }
}

fn ended_at_once(site: &Site, name: &str, wanted: &[&str]) {
    let mut daemon = start(site, name, &[]);
    assert_eq!(daemon.end().code(), Some(2), "{}", daemon.said());
    let said = daemon.said();
    for wanted in wanted {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}

fn site() -> Site {
    let site = Site::sqlite();
    let mut daemon = start(&site, "first", &[]);
    let client = daemon.leads(&site);
    client.tenant("vision");
    daemon.signal("-TERM");
    assert_eq!(daemon.end().code(), Some(0), "{}", daemon.said());
    site
}

fn sql(site: &Site, statement: &str) {
    let database = rusqlite::Connection::open(site.place.path("log.db")).expect("opens");
    database.execute_batch(statement).expect("is done");
}

#[test]
fn a_clock_that_does_not_fit_the_log_starts_nothing() {
    let site = site();
    let events = site.check()["events"].clone();
    // The clock was eight years ahead when the log was last written.
    sql(
        &site,
        &format!("UPDATE log_leader SET seen_ns = {YEARS} + (SELECT MAX(at_ns) FROM log_events)"),
    );
    let hints = ["ahead of this machine's clock", "--accept-clock"];
    ended_at_once(&site, "behind", &hints);
    // It is eight years ahead now.
    sql(
        &site,
        &format!(
            "UPDATE log_leader SET seen_ns = 0; \
             UPDATE log_events SET at_ns = at_ns - {YEARS}; DELETE FROM log_snapshots"
        ),
    );
    let hints = ["after the log was last written", "--accept-clock"];
    ended_at_once(&site, "ahead", &hints);
    let (_, out, _) = site.store(&["check", "--format", "json"]);
    let answer: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(answer["events"], events, "nothing was written");
    let mut daemon = start(&site, "accepted", &["--accept-clock"]);
    let client = daemon.leads(&site);
    assert_eq!(client.get("/readyz").status, 200);
}

#[test]
fn a_log_whose_end_is_gone_or_that_was_changed_is_not_whole() {
    let site = site();
    let head = site.check()["head"].as_str().expect("a head").to_owned();
    let (code, out, err) = site.store(&["check", "--head", &head]);
    assert_eq!(code, 0, "{out}{err}");
    sql(&site, "CREATE TABLE kept AS SELECT * FROM log_events");
    let check = |damage: &str, wanted: &str| {
        sql(
            &site,
            &format!("DELETE FROM log_events; INSERT INTO log_events SELECT * FROM kept; {damage}"),
        );
        let (code, out, err) = site.store(&["check", "--head", &head, "--format", "json"]);
        assert_eq!(code, 1, "{damage}: {out}{err}");
        assert!(out.contains(wanted), "{damage}: {out}");
    };
    check(
        "UPDATE log_events SET body = replace(body, '2.5', '2.4') WHERE seq = 1",
        "event 1 is not what was written",
    );
    check(
        "UPDATE log_events SET at_ns = at_ns + 1 WHERE seq = 2",
        "event 2 is not what was written",
    );
    // A chain that was made anew does not lead to what was noted.
    check(
        "UPDATE log_events SET body = replace(body, '2.5', '2.4'), chain = ''; \
         UPDATE log_events SET chain = ''",
        "does not prove what was noted",
    );
    let last = "DELETE FROM log_events WHERE seq = (SELECT MAX(seq) FROM log_events)";
    check(last, "are missing: the log was written up to event");
    ended_at_once(&site, "short", &["are missing", "restore the last backup"]);
}

#[test]
fn a_database_without_a_log_is_not_whole() {
    let site = Site::new("sqlite://other.db");
    sql_of(&site, "CREATE TABLE other (one BIGINT)");
    let (code, out, err) = site.store(&["check"]);
    assert_eq!(code, 2, "{out}{err}");
    assert!(
        err.contains("holds no log") && err.contains("--store"),
        "{err}"
    );
}

fn sql_of(site: &Site, statement: &str) {
    let database = rusqlite::Connection::open(site.place.path("other.db")).expect("opens");
    database.execute_batch(statement).expect("is done");
}

/// Where `faketime` is there, a clock that is set back while the broker runs.
#[test]
fn a_clock_that_is_set_back_while_it_runs_stops_what_would_happen() {
    let library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
    if !std::path::Path::new(library).exists() {
        return gpuwise_needs::skipped("no libfaketime");
    }
    let site = Site::sqlite();
    let stamp = site.place.path("stamp");
    std::fs::write(&stamp, "+0\n").expect("is written");
    let said = site.place.path("faked");
    let file = std::fs::File::create(&said).expect("is made");
    let mut command: Command = site.place.command(&["serve", "--listen", "127.0.0.1:0"]);
    let child = command
        .args(["--fleet", "fleet.toml", "--store", &site.store])
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", &stamp)
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .stderr(Stdio::from(file))
        .spawn()
        .expect("starts");
    let mut daemon = Daemon { child, said };
    let client = daemon.leads(&site);
    client.tenant("vision");
    std::fs::write(&stamp, "-1d\n").expect("is written");
    let ready = until("it is not ready", || {
        let ready = client.get("/readyz");
        (ready.status == 503).then_some(ready)
    });
    assert!(ready.text.contains("was set back by"), "{}", ready.text);
    let refused = client.lease("back", 1).expect("an answer");
    assert_eq!(refused.status, 503, "{}", refused.text);
    std::fs::write(&stamp, "+0\n").expect("is written");
    until("it is ready again", || {
        (client.get("/readyz").status == 200).then_some(())
    });
    assert_eq!(client.leased("back", 1), "L-1");
    assert!(
        daemon.said().contains("is believed again"),
        "{}",
        daemon.said()
    );
}
