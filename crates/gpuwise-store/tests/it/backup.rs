//! Backups of the log: what was kept comes back byte for byte, or not at all.

use crate::support::{Fresh, on_each};
use gpuwise_store::{LogEntry, Store, StoreError};
use std::{fs, path::PathBuf};
use tempfile::TempDir;

fn fill(store: &Store, events: u64) {
    let epoch = store.lead(None, "a").expect("asks").expect("is free");
    let entry = |seq: u64| LogEntry {
        seq,
        at_ns: 1_700_000_000_000_000_000 + i64::try_from(seq).expect("small"),
        kind: if seq.is_multiple_of(2) {
            "fleet"
        } else {
            "it's \"ü\""
        }
        .into(),
        body: format!("{{ \"n\": {seq},\"body\":[1e3,\"\\u00fc ü \\n,\\\"body\\\":\"]}}"),
    };
    let entries: Vec<LogEntry> = (1..=events).map(entry).collect();
    store.append(epoch, &entries).expect("appends");
}

/// A backup of a log with so many events.
fn backup(events: u64) -> (TempDir, PathBuf) {
    let fresh = Fresh::sqlite();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("log.backup");
    let store = fresh.open();
    fill(&store, events);
    assert_eq!(store.backup(&file).expect("is written").events, events);
    (folder, file)
}

#[test]
fn what_goes_through_another_database_comes_back_byte_for_byte() {
    let (folder, first) = backup(250);
    on_each(|fresh| {
        let other = fresh.open();
        other.restore(&first).expect("is put back");
        let second = folder.path().join("second");
        other.backup(&second).expect("is written");
        let back = Fresh::sqlite();
        back.open().restore(&second).expect("is put back");
        let third = folder.path().join("third");
        back.open().backup(&third).expect("is written");
        let bytes = |file| fs::read(file).expect("reads");
        assert!(bytes(&first) == bytes(&second) && bytes(&first) == bytes(&third));
        for file in [second, third] {
            fs::remove_file(file).expect("is there");
        }
    });
}

#[test]
fn a_log_that_is_not_empty_stays_as_it_is() {
    let (_folder, file) = backup(3);
    on_each(|fresh| {
        let store = fresh.open();
        fill(&store, 2);
        let put = store.restore(&file);
        assert!(
            matches!(put, Err(StoreError::NotEmpty { events: 2 })),
            "{put:?}"
        );
        assert_eq!(store.last_event().expect("reads"), 2);
        let again = store.backup(&file);
        assert!(matches!(again, Err(StoreError::There { .. })), "{again:?}");
    });
}

#[test]
fn who_held_an_empty_log_is_fenced_by_what_is_put_into_it() {
    let (_folder, file) = backup(3);
    on_each(|fresh| {
        let store = fresh.open();
        let epoch = store.lead(None, "a").expect("asks").expect("is free");
        store.restore(&file).expect("is put back");
        assert!(matches!(
            store.beat(epoch, 7),
            Err(StoreError::Fenced { .. })
        ));
    });
}

#[test]
fn a_damaged_line_is_named_and_nothing_is_kept() {
    let (folder, file) = backup(150);
    let whole = fs::read_to_string(&file).expect("reads");
    let lines: Vec<&str> = whole.lines().collect();
    let joined = |lines: &[&str]| lines.join("\n") + "\n";
    let changed = whole.replace("\"n\": 120,", "\"n\": 121,");
    let mut swapped = lines.clone();
    swapped.swap(50, 51);
    let mut without = lines.clone();
    without.remove(70);
    let mut more = lines.clone();
    more.push(lines[150]);
    on_each(|fresh| {
        let store = fresh.open();
        for (text, line, wanted) in [
            (changed.clone(), 121, "its sum is not"),
            (joined(&swapped), 51, "its sum is not"),
            (joined(&without), 71, "its sum is not"),
            (joined(&more), 152, "more than line 1 says"),
            (joined(&lines[..100]), 101, "the file ends here; 150 events"),
            (
                whole[..whole.len() - 1].into(),
                151,
                "ends within this line",
            ),
            (whole.replacen("150", "149", 1), 2, "its sum is not"),
            (whole.replacen("v1", "v9", 1), 1, "this gpuwise reads"),
            (joined(&lines[1..]), 1, "no backup"),
            (String::new(), 1, "the file ends here"),
        ] {
            let bad = folder.path().join("bad");
            fs::write(&bad, text).expect("is written");
            let said = store.restore(&bad).expect_err("is damaged").to_string();
            assert!(
                said.contains(&format!("bad:{line}: ")) && said.contains(wanted),
                "{said}"
            );
            assert_eq!(store.log_span().expect("reads"), None);
        }
    });
}

#[test]
fn nothing_is_no_backup() {
    on_each(|fresh| {
        let file = tempfile::tempdir().expect("a folder");
        let none = fresh.open().backup(&file.path().join("log"));
        assert!(matches!(none, Err(StoreError::Empty)), "{none:?}");
    });
    let missing = Store::open_existing("sqlite:///no/such/file.db");
    assert!(matches!(missing, Err(StoreError::Missing { .. })));
}

#[test]
fn archives_and_a_backup_make_the_whole_log_again() {
    let folder = tempfile::tempdir().expect("a folder");
    on_each(|fresh| {
        let store = fresh.open();
        fill(&store, 250);
        let whole = store.events_after(0, 1_000).expect("reads");
        for last in [i64::MAX as u64 - 1, i64::MAX as u64, u64::MAX - 1, u64::MAX] {
            assert_eq!(store.events_after(last, 10).expect("reads"), []);
        }
        let file = |name: &str| folder.path().join(name);
        let first = store.archive(100, &file("first")).expect("is archived");
        assert_eq!((first.after, first.events), (0, 100));
        let second = store.archive(180, &file("second")).expect("is archived");
        assert_eq!((second.after, second.events), (100, 80));
        let gone = store.events_after(0, 10);
        assert!(
            matches!(
                gone,
                Err(StoreError::Archived {
                    expected: 1,
                    last: 100,
                    ..
                })
            ),
            "{gone:?}"
        );
        assert_eq!(store.events_after(180, 1_000).expect("reads"), whole[180..]);
        let span = store.log_span().expect("reads").expect("is there");
        assert_eq!((span.events, span.archived, span.last), (70, 180, 250));
        let again = store.archive(180, &file("third"));
        assert!(matches!(again, Err(StoreError::Empty)), "{again:?}");
        store.backup(&file("rest")).expect("is written");
        let other = Fresh::sqlite();
        let other = other.open();
        let early = other.restore(&file("rest"));
        assert!(matches!(early, Err(StoreError::Gap { .. })), "{early:?}");
        for name in ["first", "second", "rest"] {
            other.restore(&file(name)).expect("is put back");
            fs::remove_file(file(name)).expect("is there");
        }
        assert_eq!(other.events_after(0, 1_000).expect("reads"), whole);
    });
}

#[test]
fn the_last_event_is_never_archived() {
    let fresh = Fresh::sqlite();
    let folder = tempfile::tempdir().expect("a folder");
    let store = fresh.open();
    fill(&store, 3);
    store
        .archive(9, &folder.path().join("a"))
        .expect("is archived");
    assert_eq!(store.last_event().expect("reads"), 3);
}
