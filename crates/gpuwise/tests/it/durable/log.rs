//! `gpuwise store`: checked, backed up, put back, exported.

use super::Site;

/// A log of a daemon that was told to end, with leases of which some have ended.
fn site() -> Site {
    let site = Site::sqlite();
    let (mut daemon, client) = site.serve("first");
    client.tenant("vision");
    for number in 0..4 {
        client.leased(&format!("k{number}"), 2);
    }
    super::until("a lease ends", || {
        let seen = client.get("/v1/leases/L-1").json();
        (seen["state"] == "ended").then_some(())
    });
    // While it writes.
    let (code, out, err) = site.store(&["backup", "early.backup"]);
    assert_eq!(code, 0, "{out}{err}");
    client.leased("late", 2);
    daemon.signal("-TERM");
    assert_eq!(daemon.end().code(), Some(0), "{}", daemon.said());
    site
}

#[test]
fn a_log_is_checked_backed_up_put_back_and_exported() {
    let mut site = site();
    let checked = site.check();
    assert_eq!(
        (&checked["tenants"], &checked["leases"]),
        (&1.into(), &5.into())
    );
    assert_eq!(checked["applied"], checked["events"]);
    assert_eq!(checked["money"][0]["conserved"], true);
    assert_ne!(checked["money"][0]["charged"], "0 USD");
    assert_eq!(site.store(&["backup", "late.backup"]).0, 0);
    let (code, _, err) = site.store(&["backup", "late.backup"]);
    assert!(code == 2 && err.contains("is there already"), "{err}");
    let (code, _, err) = site.store(&["restore", "late.backup"]);
    assert!(code == 2 && err.contains("into an empty one only"), "{err}");
    let (code, out, _) = site.store(&["export"]);
    assert!(code == 0 && !out.contains("token_added"), "{out}");
    let kinds = |kind: &str| out.matches(&format!("\"kind\":\"{kind}\"")).count();
    assert_eq!((kinds("began"), kinds("lease_requested")), (1, 5));
    for file in ["early.backup", "late.backup"] {
        site.store = format!("sqlite://{file}.db");
        let (code, out, err) = site.store(&["restore", file, "--format", "json"]);
        assert!(
            code == 0 && out.contains("gpuwise.store-backup/v1"),
            "{out}{err}"
        );
        let again = site.check();
        assert_eq!(file == "late.backup", again["events"] == checked["events"]);
    }
    let mut daemon = site.start("second");
    let client = daemon.leads(&site);
    let leases = client.get("/v1/leases").json();
    assert_eq!(leases["items"].as_array().expect("a list").len(), 5);
}

#[test]
fn what_is_wrong_with_a_log_is_named() {
    let mut site = site();
    assert_eq!(site.store(&["backup", "whole.backup"]).0, 0);
    let mut number = 0;
    let mut said = |statement: &str| {
        number += 1;
        let file = format!("bad{number}.db");
        site.store = format!("sqlite://{file}");
        assert_eq!(site.store(&["restore", "whole.backup"]).0, 0);
        let database = rusqlite::Connection::open(site.place.path(&file)).expect("opens");
        database.execute_batch(statement).expect("is done");
        drop(database);
        let (code, out, err) = site.store(&["check", "--format", "json"]);
        assert_eq!(code, 1, "{out}{err}");
        let answer: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        let backup = site.store(&["backup", &format!("bad{number}.backup")]);
        (answer["problems"].to_string(), backup.2)
    };
    for (statement, wanted) in [
        (
            "DELETE FROM log_events WHERE seq = 4",
            "event 4 is missing before event 5",
        ),
        (
            "UPDATE log_events SET body = replace(body, 'tenant_set', 'tenant_gone') WHERE kind = 'tenant_set'",
            "of kind \\\"tenant_set\\\": unknown variant `tenant_gone`",
        ),
        (
            "UPDATE log_events SET kind = 'ended' WHERE kind = 'tenant_set'",
            "is kept as \\\"ended\\\" and is \\\"tenant_set\\\"",
        ),
        (
            "UPDATE log_events SET at_ns = at_ns - 3600000000000 WHERE seq = 5",
            "event 5 is earlier than the one before it",
        ),
        (
            "UPDATE log_events SET body = '{\"ended\":{\"lease\":77,\"how\":\"ended\",\"reason\":\"\"}}', \
             kind = 'ended' WHERE seq = 6",
            "event 6, of kind \\\"ended\\\": there is no lease L-77",
        ),
    ] {
        let (problems, _) = said(statement);
        assert!(problems.contains(wanted), "{statement}: {problems}");
    }
    let (_, backup) = said("DELETE FROM log_events WHERE seq = 4");
    assert!(backup.contains("event 4 is missing"), "{backup}");
    let missing = Site::new("sqlite://none.db");
    let (code, _, err) = missing.store(&["check"]);
    assert!(code == 2 && err.contains("there is no database"), "{err}");
    assert!(!missing.place.path("none.db").exists());
}
