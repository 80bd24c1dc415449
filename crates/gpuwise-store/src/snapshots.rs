//! States as of an event: what a start reads in place of all events before. Each is a projection of the
//! log that can be dropped and made again.

use crate::{
    Store,
    error::{StoreError, failed},
    hash,
    log::number,
};
use sha2::{Digest as _, Sha256};
use sqlx::Row as _;

/// Bytes of a page: small enough that whoever writes the log does not notice when one is written.
const PAGE: usize = 256 << 10;

/// Between two transactions: whoever waits for SQLite's one writer looks for it ever more seldom, and would not
/// find it free.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// Pages that are deleted at a time.
const GONE: i64 = 32;

/// A state as of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The last event that is in it.
    pub seq: u64,
    /// Which program's form it has; another program makes its own from the log.
    pub form: String,
    pub body: Vec<u8>,
}

/// What is known of a snapshot without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRow {
    pub seq: u64,
    pub form: String,
    pub bytes: u64,
    sum: String,
    pages: i64,
}

impl Store {
    /// Keeps a snapshot, page by page, each in a transaction of its own; those before it are forgotten
    /// once it is whole. `false`: somebody else kept one meanwhile.
    ///
    /// # Errors
    /// When the database refuses; then what was there is there.
    pub fn keep_snapshot(&self, snapshot: &Snapshot) -> Result<bool, StoreError> {
        let sum = hash::hex(&Sha256::digest(&snapshot.body));
        let whole = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let pages = whole(snapshot.body.chunks(PAGE).len());
        let kept = self.runtime.block_on(async {
            for (page, body) in (0_i64..).zip(snapshot.body.chunks(PAGE)) {
                let add = "INSERT INTO log_snapshot_pages (sum, page, body) VALUES ($1, $2, $3) \
                           ON CONFLICT DO NOTHING";
                let query = sqlx::query(add).bind(&sum).bind(page).bind(body.to_vec());
                query.execute(&self.pool).await?;
                tokio::time::sleep(PAUSE).await;
            }
            // Whoever tidied up meanwhile took pages that had no row yet.
            let row = "INSERT INTO log_snapshots (seq, form, sum, pages, bytes) \
                         SELECT $1, $2, $3, $4, $5 WHERE $4 = \
                         (SELECT COUNT(*) FROM log_snapshot_pages WHERE sum = $3) \
                         ON CONFLICT DO NOTHING";
            let query = sqlx::query(row)
                .bind(number(snapshot.seq))
                .bind(&snapshot.form)
                .bind(&sum)
                .bind(pages)
                .bind(whole(snapshot.body.len()));
            Ok(query.execute(&self.pool).await?.rows_affected() == 1)
        });
        let kept = kept.map_err(failed("keeping a snapshot"))?;
        self.forget_snapshots(snapshot.seq)?;
        Ok(kept)
    }

    /// Forgets snapshots of events before one, and pages that belong to none.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn forget_snapshots(&self, before: u64) -> Result<(), StoreError> {
        let done = self.runtime.block_on(async {
            let old = "DELETE FROM log_snapshots WHERE seq < $1";
            let query = sqlx::query(old).bind(number(before));
            query.execute(&self.pool).await?;
            let sums = "SELECT DISTINCT sum FROM log_snapshot_pages \
                        WHERE sum NOT IN (SELECT sum FROM log_snapshots)";
            for row in sqlx::query(sums).fetch_all(&self.pool).await? {
                let sum: String = row.try_get(0)?;
                let mut first = 0;
                loop {
                    let some = "DELETE FROM log_snapshot_pages \
                                WHERE sum = $1 AND page >= $2 AND page < $3";
                    let query = sqlx::query(some).bind(&sum).bind(first).bind(first + GONE);
                    if query.execute(&self.pool).await?.rows_affected() == 0 {
                        break;
                    }
                    first += GONE;
                    tokio::time::sleep(PAUSE).await;
                }
            }
            Ok(())
        });
        done.map_err(failed("forgetting snapshots"))
    }

    /// Snapshots that are whole, the newest first.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn snapshots(&self) -> Result<Vec<SnapshotRow>, StoreError> {
        let read = self.runtime.block_on(async {
            let all = "SELECT seq, form, sum, pages, bytes FROM log_snapshots ORDER BY seq DESC";
            let rows = sqlx::query(all).fetch_all(&self.pool).await?;
            let rows = rows.iter().map(|row| {
                Ok(SnapshotRow {
                    seq: row.try_get::<i64, _>(0)?.unsigned_abs(),
                    form: row.try_get(1)?,
                    sum: row.try_get(2)?,
                    pages: row.try_get(3)?,
                    bytes: row.try_get::<i64, _>(4)?.unsigned_abs(),
                })
            });
            rows.collect::<Result<Vec<_>, sqlx::Error>>()
        });
        read.map_err(failed("reading snapshots"))
    }

    /// The newest snapshot of a form; `None`: there is none, or it is not what was written.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn snapshot(&self, form: &str) -> Result<Option<Snapshot>, StoreError> {
        let rows = self.snapshots()?;
        let Some(row) = rows.into_iter().find(|row| row.form == form) else {
            return Ok(None);
        };
        let read = self.runtime.block_on(async {
            let mut body = Vec::with_capacity(usize::try_from(row.bytes).unwrap_or(0));
            let mut first = 0;
            while first < row.pages {
                let some = "SELECT body FROM log_snapshot_pages \
                            WHERE sum = $1 AND page >= $2 AND page < $3 ORDER BY page";
                let query = sqlx::query(some)
                    .bind(&row.sum)
                    .bind(first)
                    .bind(first + GONE);
                for page in query.fetch_all(&self.pool).await? {
                    body.extend(page.try_get::<Vec<u8>, _>(0)?);
                }
                first += GONE;
            }
            Ok::<_, sqlx::Error>(body)
        });
        let body = read.map_err(failed("reading a snapshot"))?;
        let whole = hash::hex(&Sha256::digest(&body)) == row.sum;
        Ok(whole.then_some(Snapshot {
            seq: row.seq,
            form: row.form,
            body,
        }))
    }
}
