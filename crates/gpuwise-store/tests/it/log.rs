//! The broker's log: order, durability, one writer.

use crate::support::on_each;
use gpuwise_store::{Epoch, Leader, LogEntry, StoreError};

fn entry(seq: u64) -> LogEntry {
    LogEntry {
        seq,
        at_ns: 1_000 + i64::try_from(seq).expect("small"),
        kind: "tenant_created".into(),
        body: format!("{{\"n\":{seq},\"text\":\"it's \\\"ü\\\"\"}}"),
    }
}

#[test]
fn what_was_appended_is_read_back_in_order() {
    on_each(|fresh| {
        let store = fresh.open();
        let epoch = store.lead(None, "a").expect("asks").expect("is free");
        let entries: Vec<LogEntry> = (1..=250).map(entry).collect();
        store.append(epoch, &entries[..249]).expect("appends");
        store.append(epoch, &entries[249..]).expect("appends");
        drop(store);
        let again = fresh.open();
        assert_eq!(again.events_after(0, 1_000).expect("reads"), entries);
        assert_eq!(
            again.events_after(248, 1).expect("reads"),
            entries[248..249]
        );
        assert_eq!(again.last_event().expect("reads"), 250);
    });
}

#[test]
fn a_batch_is_kept_whole_or_not_at_all() {
    on_each(|fresh| {
        let store = fresh.open();
        let epoch = store.lead(None, "a").expect("asks").expect("is free");
        store.append(epoch, &[entry(1)]).expect("appends");
        let twice = store.append(epoch, &[entry(2), entry(1)]);
        assert!(
            matches!(twice, Err(StoreError::Statement { .. })),
            "{twice:?}"
        );
        assert_eq!(store.last_event().expect("reads"), 1);
    });
}

#[test]
fn a_gap_is_an_error() {
    on_each(|fresh| {
        let store = fresh.open();
        let epoch = store.lead(None, "a").expect("asks").expect("is free");
        store.append(epoch, &[entry(1), entry(3)]).expect("appends");
        let read = store.events_after(0, 10);
        assert!(
            matches!(
                read,
                Err(StoreError::Gap {
                    expected: 2,
                    found: 3
                })
            ),
            "{read:?}"
        );
    });
}

#[test]
fn who_was_replaced_writes_nothing_more() {
    on_each(|fresh| {
        let (old, new) = (fresh.open(), fresh.open());
        let first = old.lead(None, "old").expect("asks").expect("is free");
        assert_eq!(new.lead(None, "new").expect("asks"), None, "it is taken");
        let seen = new.leader().expect("asks").expect("somebody");
        assert_eq!((seen.epoch, seen.holder.as_str()), (first, "old"));
        old.beat(first, 7).expect("lives");
        assert_eq!(
            new.lead(Some(&seen), "new").expect("asks"),
            None,
            "it lives"
        );
        let seen = new.leader().expect("asks").expect("somebody");
        let second = new.lead(Some(&seen), "new").expect("asks").expect("taken");
        assert_eq!(second, Epoch(first.0 + 1));
        new.append(second, &[entry(1)]).expect("appends");
        let late = old.append(first, &[entry(2)]);
        assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
        assert!(matches!(old.beat(first, 7), Err(StoreError::Fenced { .. })));
        assert_eq!(new.last_event().expect("reads"), 1);
    });
}

#[test]
fn an_epoch_that_none_can_follow_is_named() {
    on_each(|fresh| {
        let store = fresh.open();
        store.lead(None, "a").expect("asks").expect("is free");
        let seen = store.leader().expect("asks").expect("there is one");
        let last = Leader {
            epoch: Epoch(i64::MAX),
            ..seen
        };
        let taken = store.lead(Some(&last), "b");
        assert!(
            matches!(taken, Err(StoreError::LastEpoch { epoch: i64::MAX })),
            "{taken:?}"
        );
    });
}
