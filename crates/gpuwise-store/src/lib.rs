//! Keeps runs, figures, findings and proposals, and the log of the broker, in SQLite by default or, with the feature
//! `postgres`, in PostgreSQL by URL.
//!
//! One SQL text serves both. Everything here blocks: the driver runs on a runtime of its own, so
//! that callers need none. A run is known by a hash of what it is: bringing it twice keeps one.

mod archive;
mod backup;
mod chain;
mod connect;
mod daily;
mod error;
mod hash;
mod log;
mod migrate;
mod proposals;
mod runs;
mod save;
mod series;
mod snapshots;
mod times;

pub use archive::Archive;
pub use backup::{Backup, read_backup};
pub use chain::{Head, NoHead};
pub use connect::{database_id, without_password as shown};
pub use daily::{DailyFigure, DailyGroup};
pub use error::StoreError;
pub use hash::{RunId, content_hash};
pub use log::{Epoch, Leader, LogEntry, LogSpan};
pub use proposals::StoredProposal;
pub use runs::{Filter, RunRow, StoredRun};
pub use save::{NewRun, Saved};
pub use series::Series;
pub use snapshots::{Snapshot, SnapshotRow};

use sqlx::AnyPool;
use std::sync::Mutex;
use tokio::runtime::Runtime;

#[derive(Debug)]
pub struct Store {
    pool: AnyPool,
    runtime: Runtime,
    kind: Kind,
    /// The end of the log as this program wrote it last.
    known: Mutex<Option<Head>>,
}

/// Which database it is; only the connection differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}
