//! Prices and months, through the command line.

use super::Daemon;
use std::time::{Duration, Instant};

/// A page that says whether its month is closed.
fn page(daemon: &Daemon, month: &str) -> String {
    let mut command =
        daemon.command(&["statement", "vision", "--month", month, "--format", "html"]);
    let output = command.output().expect("runs");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn a_month_is_closed_and_what_comes_later_is_corrected() {
    // Eleven days a second.
    let daemon = Daemon::start(&["--speed", "1000000"]);
    daemon.json(&["tenant", "create", "vision"]);
    let lease = [
        "lease", "request", "--tenant", "vision", "--gpu", "4xH100", "--for", "2h",
    ];
    let asked = daemon.json(&lease)["requested_at"]
        .as_str()
        .expect("a time")
        .to_owned();
    let ended = daemon.until("L-1", "ended");
    // The end of a month may lie between.
    let started = ended["started_at"].as_str().expect("it ran");
    let month = &started[..7];
    let end = Instant::now() + Duration::from_mins(1);
    let closed = loop {
        let text = page(&daemon, month);
        if text.contains("stays as it is") {
            break text;
        }
        assert!(Instant::now() < end, "{asked}: {text}");
    };
    assert!(
        closed.contains("GPU-hour") && closed.contains("@media print"),
        "{closed}"
    );
    let before = daemon.json(&["statement", "vision", "--month", month]);
    daemon.json(&[
        "prices",
        "set",
        "H100",
        "3.00usd",
        "--from",
        &format!("{month}-01"),
    ]);
    let after = daemon.json(&["statement", "vision", "--month", month]);
    assert_eq!(before["lines"], after["lines"], "it was stated");
    let now = daemon.json(&["top"])["now"].as_str().expect("a time")[..7].to_owned();
    let corrected = (0..4).any(|back| {
        // It may have been corrected in a month that was open a moment ago.
        let (year, number) = now.split_once('-').expect("a month");
        let all = year.parse::<i32>().expect("a year") * 12
            + number.parse::<i32>().expect("a month")
            - 1
            - back;
        let text = page(&daemon, &format!("{:04}-{:02}", all / 12, all % 12 + 1));
        text.contains("Corrections of earlier months")
    });
    assert!(corrected, "no month corrects {month}");
    let check = daemon.json(&["store", "check", "--store", "sqlite://log.db"]);
    assert_eq!(
        check["problems"].as_array().map(Vec::len),
        Some(0),
        "{check}"
    );
    assert_eq!(check["money"][0]["conserved"], true, "{check}");
}

/// As `prices list` prints moments, too: read without its time a price would hold from midnight on, in the past.
#[test]
fn a_moment_without_an_offset_is_in_utc() {
    let daemon = Daemon::start(&[]);
    for (text, from) in [
        ("2031-05-06T16:17:22", "2031-05-06T16:17:22.000Z"),
        ("2032-05-06 18:30:00", "2032-05-06T18:30:00.000Z"),
        ("2033-05-06T18:30+02:00", "2033-05-06T16:30:00.000Z"),
    ] {
        let set = daemon.json(&["prices", "set", "H100", "3usd", "--from", text]);
        let mut prices = set["items"].as_array().expect("prices").iter();
        assert!(prices.any(|one| one["from"] == from), "{text}: {set}");
    }
    let zoned = "2031-05-06T16:17:22[Europe/Paris]";
    let said = daemon.refused(&["prices", "set", "H100", "3usd", "--from", zoned]);
    assert!(said.contains("expected a day or moment"), "{said}");
}

#[test]
fn prices_are_listed_and_wrong_ones_named() {
    let daemon = Daemon::start(&[]);
    daemon.json(&["tenant", "create", "vision"]);
    daemon.json(&["prices", "set", "h100", "3usd", "--from", "2030-01-01"]);
    daemon.json(&[
        "prices", "set", "H100", "1 USD", "--tenant", "vision", "--class", "spot",
    ]);
    let list = daemon.json(&["prices", "list"]);
    let items = list["items"].as_array().expect("a list");
    let said: Vec<String> = items
        .iter()
        .map(|one| format!("{} {} {}", one["price"], one["tenant"], one["class"]))
        .collect();
    assert_eq!(
        said,
        [
            "\"1 USD\" \"vision\" \"spot\"",
            "\"3 USD\" null null",
            "\"2.5 USD\" null null"
        ]
    );
    assert_eq!(items[2]["to"], "2030-01-01T00:00:00.000Z");
    let token = daemon.token_of("ann", "member", Some("vision"));
    let seen = daemon
        .ask_as(Some(&token), ("GET", "/v1/prices"), &[], "")
        .json();
    assert_eq!(seen["items"].as_array().map(Vec::len), Some(3));
    for (arguments, wanted) in [
        (&["A100", "3usd"][..], "expected one of"),
        (&["H100", "three"], "price"),
        (
            &["H100", "3usd", "--from", "soon"],
            "expected a day or moment",
        ),
        (
            &["H100", "3usd", "--class", "cheap"],
            "expected on-demand or spot",
        ),
        (
            &["H100", "3usd", "--tenant", "nobody"],
            "there is no tenant",
        ),
    ] {
        let all = [&["prices", "set"][..], arguments].concat();
        let said = daemon.refused(&all);
        assert!(said.contains(wanted), "{arguments:?}: {said}");
    }
}
