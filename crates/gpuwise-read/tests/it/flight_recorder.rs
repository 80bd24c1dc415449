//! Dumps of the NCCL flight recorder: both forms, older versions, damaged ones, the published sample.

use gpuwise_domain::profile::flight_recorder::{FlightRecord, FlightState};
use gpuwise_read::flight_recorder::{is_flight_record, rank_of_name, read};
use proptest::prelude::*;

const JSON: &[u8] = include_bytes!("data/flight_recorder.json");
/// The same as Python 3.11 pickles it, with tuples where the recorder has them.
const PICKLE: &[u8] = include_bytes!("data/flight_recorder.pickle");

fn said(record: &FlightRecord) -> String {
    let groups = record.groups.iter().map(|group| {
        format!(
            "{} ({}) of {:?} at {:?}/{:?}/{:?}",
            group.name,
            group.description.as_deref().unwrap_or("–"),
            group.ranks,
            group.last_enqueued,
            group.last_started,
            group.last_completed
        )
    });
    let entries = record.entries.iter().map(|entry| {
        format!(
            "{} {} {} {:?} {:?} {:?}",
            entry.group,
            entry.sequence,
            entry.operation,
            entry.input_sizes,
            entry.input_types,
            entry.state
        )
    });
    let losses = record
        .losses
        .iter()
        .map(|loss| format!("lost {} {}", loss.count, loss.what));
    groups
        .chain(entries)
        .chain(losses)
        .collect::<Vec<_>>()
        .join("; ")
}

#[track_caller]
fn check(json: &str, expect: &str) {
    let got = match read(json.as_bytes(), None) {
        Ok(record) => said(&record),
        Err(error) => format!("error: {error}"),
    };
    assert_eq!(got, expect);
}

#[test]
fn both_forms_say_the_same() {
    let json = read(JSON, Some(1)).expect("it is a dump");
    assert_eq!(
        said(&json),
        "0 (default_pg) of [0, 1] at Some(2)/Some(1)/Some(1); \
         0 1 nccl:broadcast [[3, 4]] [\"Float\"] Completed; \
         0 2 nccl:all_reduce [[3, 4]] [\"Float\"] Started"
    );
    assert_eq!(json.rank, Some(1));
    assert_eq!(json.entries[1].frames[0].line, 41);
    assert_eq!(json.entries[1].created_ns, Some(1_724_779_239_936_775_120));
    assert_eq!(read(PICKLE, Some(1)).expect("it is a dump"), json);
    assert!(is_flight_record(JSON) && is_flight_record(PICKLE));
    assert!(!is_flight_record(b"{\"traceEvents\": []}"));
}

#[test]
fn older_and_poorer_dumps() {
    check(
        r#"{"version": "1.5", "entries": [{"pg_id": 2, "seq_id": 7, "profiling_name": "nccl:all_gather", "state": "scheduled"}]}"#,
        "2 7 nccl:all_gather [] [] Scheduled",
    );
    check(r#"{"version": "2.5", "pg_config": {}}"#, "");
    check(
        r#"{"version": "2.5", "pg_config": {"1": {"ranks": [4, 5]}}, "entries": [{}, {"state": "flying"}, {"state": "started"}, {"state": "started", "pg_id": 1}, {"state": "started", "pg_id": 1, "seq_id": -1, "is_p2p": true, "profiling_name": "nccl:send 0->1"}]}"#,
        "1 (–) of [4, 5] at None/None/None; 1 0 nccl:send 0->1 [] [] Started; \
         lost 2 entries in no state that is known; lost 1 entries without a process group; \
         lost 1 entries without a number (`collective_seq_id`)",
    );
}

#[test]
fn other_files() {
    check(
        "[1]",
        "error: not a dump of the NCCL flight recorder: expected an object with `entries`, found another value",
    );
    check(
        "{\"entries\": 3}",
        "error: not a dump of the NCCL flight recorder: expected an object with `entries`, found `entries` that is no list",
    );
    check(
        "{\"traceEvents\": []}",
        "error: not a dump of the NCCL flight recorder: expected an object with `entries`, found an object without them",
    );
    check(
        "{\"entries\": [",
        "error: not a dump of the NCCL flight recorder: line 1: the text ends within a value",
    );
    // A pickle that would call `os.system`.
    let error = read(b"\x80\x02cos\nsystem\n.", None).expect_err("it is refused");
    assert!(error.to_string().contains("GLOBAL"), "{error}");
}

#[test]
fn ranks_of_names() {
    for (name, rank) in [
        ("nccl_trace_rank_13", Some(13)),
        ("dump/rank3.json", Some(3)),
        ("rank7.pkl", Some(7)),
        ("trace.json", None),
        ("rank99999999999", None),
    ] {
        assert_eq!(rank_of_name(name), rank, "{name}");
    }
}

#[test]
fn the_published_sample() {
    let Some(path) = gpuwise_needs::data("profile/nccl_flight/tutorial_sample.json") else {
        return;
    };
    let bytes = std::fs::read(path).expect("a file that can be read");
    let record = read(&bytes, Some(0)).expect("it is a dump");
    assert_eq!(
        said(&record),
        "0 (default_pg) of [0, 1] at Some(2)/None/Some(2); \
         0 1 nccl:all_reduce [[3, 4]] [\"Float\"] Completed"
    );
    assert_eq!(record.entries[0].state, FlightState::Completed);
    assert_eq!(record.entries[0].timeout_ms, Some(600_000));
}

proptest! {
    #[test]
    fn damaged_dumps_are_survived(at in 0_usize..2000, byte: u8, is_json: bool) {
        let mut bytes = if is_json { JSON.to_vec() } else { PICKLE.to_vec() };
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = read(&bytes, None);
        let _ = read(&bytes[..at], None);
    }
}
