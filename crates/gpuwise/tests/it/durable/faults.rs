//! Databases that refuse, fill up, go away and come back.

use super::{Daemon, Site, client::Client, until};
#[cfg(feature = "postgres")]
use gpuwise_needs::postgres;
use std::process::Command;

/// Nothing is kept while a log cannot be written, and it is said; afterwards it goes on.
fn refused_then_well(site: &Site, client: &Client, breaks: impl Fn(), mends: impl Fn()) {
    client.tenant("vision");
    assert_eq!(client.leased("before", 1), "L-1");
    breaks();
    let answer = client.lease("meanwhile", 1).expect("an answer");
    assert_eq!(answer.status, 503, "{}", answer.text);
    assert!(answer.head.contains("retry-after: "), "{}", answer.head);
    let ready = client.get("/readyz");
    assert_eq!(ready.status, 503, "{}", ready.text);
    assert!(
        ready.text.contains("the log cannot be written"),
        "{}",
        ready.text
    );
    assert_eq!(client.get("/v1/leases/L-1").status, 200, "it still answers");
    assert_eq!(client.get("/v1/leases/L-2").status, 404, "nothing was kept");
    mends();
    let second = until("it is well again", || {
        let answer = client.lease("meanwhile", 1)?;
        (answer.status != 503).then(|| answer.json()["id"].clone())
    });
    assert_eq!(second, "L-2");
    assert_eq!(client.leased("meanwhile", 1), "L-2", "it is asked for once");
    assert_eq!(client.get("/readyz").status, 200);
    until("what waited for the database goes on", || {
        let leases = [1, 2].map(|n| client.get(&format!("/v1/leases/L-{n}")).json());
        leases
            .iter()
            .all(|lease| lease["state"] == "ended")
            .then_some(())
    });
    assert_eq!(site.check()["leases"], 2);
}

/// One line when it goes, with what is refused and what to do, and one when it is back.
fn says_so(daemon: &Daemon) {
    let said = daemon.said();
    let count = |words: &str| said.matches(words).count();
    assert_eq!(count("cannot be written"), 1, "{said}");
    assert_eq!(count("is refused (503)"), 1, "{said}");
    assert_eq!(count("is written again, after"), 1, "{said}");
}

fn ends_well(daemon: &mut Daemon) {
    daemon.signal("-TERM");
    assert_eq!(daemon.end().code(), Some(0), "{}", daemon.said());
}

#[test]
fn a_database_that_refuses_loses_nothing() {
    let site = Site::sqlite();
    let (mut daemon, client) = site.serve("said");
    let database = rusqlite::Connection::open(site.place.path("log.db")).expect("opens");
    let done = |statement: &str| database.execute_batch(statement).expect("is done");
    refused_then_well(
        &site,
        &client,
        || {
            done(
                "CREATE TRIGGER full BEFORE INSERT ON log_events \
                 BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END",
            );
        },
        || done("DROP TRIGGER full"),
    );
    says_so(&daemon);
    ends_well(&mut daemon);
}

#[test]
fn a_full_disk_loses_nothing() {
    let site = Site::sqlite();
    let (mut daemon, client) = site.serve("said");
    let limit = |bytes: &str| {
        let process = format!("--pid={}", daemon.child.id());
        let set = Command::new("prlimit")
            .args([process, format!("--fsize={bytes}:unlimited")])
            .status();
        assert!(set.expect("prlimit runs").success());
    };
    // No file may grow beyond one byte: what is written anew fails as on a disk that is full.
    refused_then_well(&site, &client, || limit("1"), || limit("unlimited"));
    ends_well(&mut daemon);
}

#[cfg(feature = "postgres")]
#[test]
fn a_server_that_refuses_loses_nothing() {
    let Some(server) = postgres::server() else {
        return gpuwise_needs::skipped("no initdb under /usr/lib/postgresql");
    };
    let site = Site::new(&server.database());
    let (mut daemon, client) = site.serve("said");
    refused_then_well(
        &site,
        &client,
        || {
            server.sql(
                &site.store,
                "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN RAISE EXCEPTION USING ERRCODE = ''53100''; END'; \
                 CREATE TRIGGER full_disk BEFORE INSERT ON log_events \
                 FOR EACH ROW EXECUTE FUNCTION full_disk()",
            );
        },
        || server.sql(&site.store, "DROP TRIGGER full_disk ON log_events"),
    );
    says_so(&daemon);
    ends_well(&mut daemon);
}

#[cfg(feature = "postgres")]
#[test]
fn a_server_that_goes_away_and_comes_back_loses_nothing() {
    let Some(server) = postgres::Server::new() else {
        return gpuwise_needs::skipped("no initdb under /usr/lib/postgresql");
    };
    let site = Site::new(&server.database());
    let (mut daemon, client) = site.serve("said");
    refused_then_well(&site, &client, || server.stop(), || server.start());
    says_so(&daemon);
    // Nothing is asked of it, and it is not ready all the same.
    server.stop();
    let stopped = std::time::Instant::now();
    until("it is not ready", || {
        (client.get("/readyz").status == 503).then_some(())
    });
    let took = stopped.elapsed();
    assert!(took < std::time::Duration::from_secs(7), "{took:?}");
    server.start();
    until("it is ready", || {
        (client.get("/readyz").status == 200).then_some(())
    });
    ends_well(&mut daemon);
    server.stop();
}
