//! Snapshots of the state, made from the log beside the daemon that writes it: whoever writes never waits
//! for one. What is made is what the log comes to; it can be dropped at any time.

use crate::{replay::Replay, writer::Stopped};
use gpuwise_broker::{FORM, NoImage};
use gpuwise_store::{Snapshot, Store, StoreError};
use std::time::Duration;
use tokio::sync::watch;

/// Events after which another snapshot is made at least.
const LEAST: u64 = 10_000;

/// Of a long log, the share of its events that a start may read one by one: a sixteenth.
const SHARE: u64 = 16;

/// Events after which another snapshot is due, however long the log is.
const MOST: u64 = 100_000;

/// How often it is looked whether one is due.
const LOOK: Duration = Duration::from_secs(5);

/// A snapshot that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// The last event that is in it.
    pub seq: u64,
    pub bytes: u64,
    /// Events that were read one by one for it.
    pub read: u64,
}

/// Why none was made.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the log cannot be followed")]
    Log(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error(transparent)]
    Image(#[from] NoImage),
}

impl From<Stopped> for SnapshotError {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Store(error) => Self::Store(error),
            other @ Stopped::Broken(_) => Self::Log(Box::new(other)),
        }
    }
}

/// Makes a snapshot of all that is in the log by now; `None`: the log is empty.
///
/// # Errors
/// When the database refuses, or the log does not fit together.
pub fn snapshot(store: &Store) -> Result<Option<Made>, SnapshotError> {
    let mut replay = Replay::open(store)?;
    replay.catch_up(store)?;
    keep(store, &replay)
}

/// Keeps a state that was followed.
///
/// # Errors
/// When the database refuses.
pub fn keep(store: &Store, replay: &Replay) -> Result<Option<Made>, SnapshotError> {
    let Some(state) = replay.state() else {
        return Ok(None);
    };
    let body = state.image()?;
    let made = Made {
        seq: replay.last(),
        bytes: body.len() as u64,
        read: replay.last() - replay.from(),
    };
    store.keep_snapshot(&Snapshot {
        seq: made.seq,
        form: FORM.into(),
        body,
    })?;
    Ok(Some(made))
}

/// Makes one whenever it is due, until the daemon ends. What fails is tried again: nothing hangs on it.
pub(crate) async fn keep_up(address: String, mut closing: watch::Receiver<bool>) {
    loop {
        let over = closing.wait_for(|closing| *closing);
        if tokio::time::timeout(LOOK, over).await.is_ok() {
            return;
        }
        let address = address.clone();
        let (ended, end) = tokio::sync::oneshot::channel::<()>();
        let look = move || {
            // Whoever answers goes first. It is this thread alone that steps back.
            let _ = rustix::process::setpriority_process(None, 10);
            // Tried again in a while.
            let _ = looked(&address);
            drop(ended);
        };
        let look = std::thread::Builder::new()
            .name("snapshot".into())
            .spawn(look);
        if look.is_ok() {
            // It says nothing, and is gone.
            let _ = end.await;
        }
    }
}

fn looked(address: &str) -> Result<(), SnapshotError> {
    let store = Store::open(address)?;
    if is_due(&store)? {
        snapshot(&store)?;
    }
    Ok(())
}

fn is_due(store: &Store) -> Result<bool, StoreError> {
    let last = store.last_event()?;
    let rows = store.snapshots()?;
    let own = rows.iter().find(|row| row.form == FORM);
    Ok(is_due_after(last, own.map_or(0, |row| row.seq.min(last))))
}

/// Whether a log of so many events needs another snapshot than that of an event.
fn is_due_after(last: u64, kept: u64) -> bool {
    last - kept >= (last / SHARE).clamp(LEAST, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_start_reads_is_bounded_however_long_the_log_is() {
        let cases = [
            (9_999, 0, false),
            (10_000, 0, true),
            (320_000, 300_001, false),
            (320_000, 300_000, true),
            (100_000_000, 99_900_001, false),
            (100_000_000, 99_900_000, true),
        ];
        for (last, kept, due) in cases {
            assert_eq!(is_due_after(last, kept), due, "{last} {kept}");
        }
    }

    #[test]
    fn a_start_reads_a_sixteenth_at_most() {
        let folder = tempfile::tempdir().expect("a folder");
        let address = folder.path().join("log.db").display().to_string();
        let store = Store::open(&address).expect("opens");
        let epoch = store.lead(None, "a").expect("asks").expect("is free");
        let entry = |seq| gpuwise_store::LogEntry {
            seq,
            at_ns: 1,
            kind: "fleet".into(),
            body: "{}".into(),
        };
        let append = |from: u64, to: u64| {
            let entries: Vec<_> = (from..=to).map(entry).collect();
            store.append(epoch, &entries).expect("appends");
        };
        append(1, LEAST - 1);
        assert!(!is_due(&store).expect("looks"));
        append(LEAST, LEAST);
        assert!(is_due(&store).expect("looks"));
        let one = Snapshot {
            seq: LEAST,
            form: FORM.into(),
            body: vec![1],
        };
        store.keep_snapshot(&one).expect("keeps");
        assert!(!is_due(&store).expect("looks"));
        // Bytes that are no state are as if they were not there.
        assert_eq!(Replay::open(&store).expect("reads").from(), 0);
    }
}
