//! Snapshots: whole or none, one of each form at most, never in the way of the log.

use crate::support::on_each;
use gpuwise_store::{Snapshot, Store};

fn snapshot(seq: u64, form: &str, bytes: usize) -> Snapshot {
    Snapshot {
        seq,
        form: form.into(),
        body: (0..bytes).map(|at| (at % 251) as u8 ^ seq as u8).collect(),
    }
}

fn seqs(store: &Store) -> Vec<(u64, String)> {
    let rows = store.snapshots().expect("reads");
    rows.into_iter().map(|row| (row.seq, row.form)).collect()
}

#[test]
fn the_last_of_a_form_is_read_back_byte_for_byte() {
    on_each(|fresh| {
        let store = fresh.open();
        assert_eq!(store.snapshot("a").expect("reads"), None);
        // One page, several, and a page that is full to the last byte.
        for (seq, bytes) in [(5, 100), (9, 700_000), (12, 2 << 18)] {
            let one = snapshot(seq, "a", bytes);
            assert!(store.keep_snapshot(&one).expect("keeps"));
            assert!(!store.keep_snapshot(&one).expect("is there already"));
            assert_eq!(fresh.open().snapshot("a").expect("reads"), Some(one));
            assert_eq!(seqs(&store), [(seq, "a".to_owned())], "older ones are gone");
        }
        assert_eq!(
            store.snapshot("b").expect("reads"),
            None,
            "another build's is ignored"
        );
        let other = snapshot(12, "b", 10);
        assert!(store.keep_snapshot(&other).expect("keeps"));
        assert_eq!(seqs(&store).len(), 2, "both builds may start");
        store.forget_snapshots(u64::MAX).expect("drops");
        assert_eq!(seqs(&store), []);
        assert_eq!(store.snapshot("a").expect("reads"), None);
    });
}

#[test]
fn one_that_was_cut_off_or_changed_is_none() {
    let fresh = crate::support::Fresh::sqlite();
    let store = fresh.open();
    store
        .keep_snapshot(&snapshot(5, "a", 600_000))
        .expect("keeps");
    for change in [
        "UPDATE log_snapshot_pages SET body = x'00' WHERE page = 1",
        "DELETE FROM log_snapshot_pages WHERE page = 2",
    ] {
        fresh.execute(change);
        assert_eq!(store.snapshot("a").expect("reads"), None, "{change}");
    }
    assert!(
        store
            .keep_snapshot(&snapshot(6, "a", 600_000))
            .expect("keeps")
    );
    assert!(store.snapshot("a").expect("reads").is_some());
}
