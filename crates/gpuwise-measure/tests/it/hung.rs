//! Which collective hangs, who waits in it, and who never came.

use gpuwise_domain::profile::flight_recorder::{
    FlightEntry, FlightRecord, FlightState, ProcessGroup,
};
use gpuwise_measure::hung::hangs;
use std::fmt::Write as _;

/// A rank's dump: `group:sequence operation state` for each entry (`done`, `runs`, `called`), of
/// groups `name=ranks`.
fn record(rank: u32, groups: &str, entries: &str) -> FlightRecord {
    FlightRecord {
        rank: Some(rank),
        groups: groups
            .split_whitespace()
            .map(|group| {
                let (name, ranks) = group.split_once('=').expect("name=ranks");
                ProcessGroup {
                    name: name.into(),
                    ranks: ranks
                        .split(',')
                        .map(|r| r.parse().expect("a rank"))
                        .collect(),
                    ..ProcessGroup::default()
                }
            })
            .collect(),
        entries: entries
            .split(", ")
            .filter(|entry| !entry.is_empty())
            .map(|entry| {
                let words: Vec<&str> = entry.split([' ', ':']).collect();
                let [group, sequence, operation, state] = words[..] else {
                    panic!("{entry}: four words")
                };
                FlightEntry {
                    group: group.into(),
                    sequence: sequence.parse().expect("a number"),
                    operation: operation.into(),
                    state: match state {
                        "done" => FlightState::Completed,
                        "runs" => FlightState::Started,
                        _ => FlightState::Scheduled,
                    },
                    ..FlightEntry::default()
                }
            })
            .collect(),
        ..FlightRecord::default()
    }
}

#[track_caller]
fn check(records: &[FlightRecord], expect: &[&str]) {
    let said: Vec<String> = hangs(records)
        .iter()
        .map(|hang| {
            let mut text = format!("{} {} {}:", hang.group, hang.sequence, hang.operation);
            for (what, ranks) in [
                ("waiting", &hang.waiting),
                ("scheduled", &hang.scheduled),
                ("completed", &hang.completed),
                ("missing", &hang.missing),
            ] {
                if !ranks.is_empty() {
                    let _ = write!(text, " {what} {ranks:?}");
                }
            }
            for late in &hang.late {
                let last = late.last.as_ref().map(|last| last.0);
                let _ = write!(text, " late {} after {last:?}", late.rank);
            }
            for (rank, operation) in &hang.astray {
                let _ = write!(text, " astray {rank} in {operation}");
            }
            let _ = write!(text, " -> {:?}", hang.suspects());
            if let Some(by) = hang.caused_by {
                let _ = write!(text, " by {by}");
            }
            text
        })
        .collect();
    assert_eq!(said, expect);
}

#[test]
fn one_rank_never_came() {
    check(
        &[
            record(0, "w=0,1,2", "w:1 reduce done, w:2 gather runs"),
            record(1, "w=0,1,2", "w:1 reduce done"),
            record(2, "w=0,1,2", "w:1 reduce done, w:2 gather runs"),
        ],
        &["w 2 gather: waiting [0, 2] late 1 after Some(1) -> [1]"],
    );
    // The rank died and left no dump, or a dump without anything.
    check(
        &[
            record(0, "w=0,1,2", "w:1 reduce runs"),
            record(2, "w=0,1,2", ""),
        ],
        &["w 1 reduce: waiting [0] missing [1] late 2 after None -> [1, 2]"],
    );
}

#[test]
fn nothing_hangs() {
    check(
        &[
            record(0, "w=0,1", "w:1 reduce done, w:2 gather done"),
            record(1, "w=0,1", "w:1 reduce done, w:2 gather done"),
        ],
        &[],
    );
    check(&[], &[]);
}

#[test]
fn a_ring_that_forgot_is_no_late_rank() {
    check(
        &[
            record(0, "w=0,1", "w:8 reduce done, w:9 gather runs"),
            record(1, "w=0,1", "w:12 reduce called"),
        ],
        &["w 9 gather: waiting [0] completed [1] -> []"],
    );
}

#[test]
fn a_device_that_did_not_begin() {
    check(
        &[
            record(0, "w=0,1", "w:1 reduce runs"),
            record(1, "w=0,1", "w:1 reduce called"),
        ],
        &["w 1 reduce: waiting [0] scheduled [1] -> [1]"],
    );
    check(
        &[
            record(0, "w=0,1", "w:1 reduce runs"),
            record(1, "w=0,1", "w:1 reduce runs"),
        ],
        &["w 1 reduce: waiting [0, 1] -> []"],
    );
}

#[test]
fn ranks_that_called_something_else() {
    check(
        &[
            record(0, "w=0,1,2", "w:1 reduce runs"),
            record(1, "w=0,1,2", "w:1 gather runs"),
            record(2, "w=0,1,2", "w:1 reduce runs"),
        ],
        &["w 1 reduce: waiting [0, 1, 2] astray 1 in gather -> [1]"],
    );
}

#[test]
fn a_hang_that_another_one_explains_comes_second() {
    // Rank 1 is late in `a` since it waits in `b` for rank 3, which never came.
    let both = "a=0,1 b=1,3";
    check(
        &[
            record(0, both, "a:1 reduce runs"),
            record(1, both, "b:5 gather runs"),
            record(3, both, "b:4 gather done"),
        ],
        &[
            "b 5 gather: waiting [1] late 3 after Some(4) -> [3]",
            "a 1 reduce: waiting [0] late 1 after None -> [1] by 0",
        ],
    );
}

#[test]
fn the_order_of_dumps_does_not_matter() {
    let mut records = vec![
        record(0, "w=0,1,2", "w:1 reduce done, w:2 gather runs"),
        record(1, "w=0,1,2", "w:1 reduce done"),
        record(2, "w=0,1,2", "w:2 gather called"),
    ];
    let first = hangs(&records);
    records.reverse();
    assert_eq!(hangs(&records), first);
}
