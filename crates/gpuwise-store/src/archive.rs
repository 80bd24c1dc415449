//! Events that were moved out of the database into files: the log goes on behind them.

use crate::{
    Backup, LogEntry, Store,
    backup::read_backup,
    error::{StoreError, failed},
    hash,
    log::number,
};
use sqlx::Row as _;
use std::{fs::File, path::Path};

/// Events that are deleted at a time, so that whoever writes the log does not wait.
const GONE: u64 = 2_000;

/// Events that are in a file and no longer in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    /// The last of them.
    pub last: u64,
    pub events: u64,
    /// Where they were written, as it was named.
    pub file: String,
    /// SHA-256 of the file.
    pub sum: String,
}

impl Store {
    /// Archives in order, the first events first.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn archives(&self) -> Result<Vec<Archive>, StoreError> {
        let read = self.runtime.block_on(async {
            let all = "SELECT last, events, file, sum FROM log_archives ORDER BY last";
            let rows = sqlx::query(all).fetch_all(&self.pool).await?;
            let rows = rows.iter().map(|row| {
                Ok(Archive {
                    last: row.try_get::<i64, _>(0)?.unsigned_abs(),
                    events: row.try_get::<i64, _>(1)?.unsigned_abs(),
                    file: row.try_get(2)?,
                    sum: row.try_get(3)?,
                })
            });
            rows.collect::<Result<Vec<_>, sqlx::Error>>()
        });
        read.map_err(failed("reading what is archived"))
    }

    /// The last event that is archived; 0: none is.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn archived(&self) -> Result<u64, StoreError> {
        let archives = self.archives()?;
        Ok(archives.last().map_or(0, |archive| archive.last))
    }

    /// The last event that happened before a moment; 0: none did.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn last_before(&self, at_ns: i64) -> Result<u64, StoreError> {
        let read = self.runtime.block_on(async {
            let last = "SELECT COALESCE(MAX(seq), 0) FROM log_events WHERE at_ns < $1";
            let row = sqlx::query(last).bind(at_ns).fetch_one(&self.pool).await?;
            row.try_get::<i64, _>(0)
        });
        read.map(i64::unsigned_abs)
            .map_err(failed("reading the log"))
    }

    /// Moves events up to one into a new file, and reads that back before anything is deleted. The last
    /// event of the log stays.
    ///
    /// # Errors
    /// When there is such a file, nothing is to be moved, or what was written is not what is read back.
    pub fn archive(&self, last: u64, path: &Path) -> Result<Backup, StoreError> {
        let after = self.archived()?;
        let last = last.min(self.last_event()?.saturating_sub(1));
        if last <= after {
            return Err(StoreError::Empty);
        }
        let backup = self.backup_of(path, after, last)?;
        let read = |source| StoreError::File {
            file: path.display().to_string(),
            deed: "read back",
            source,
        };
        read_backup(path, &mut |_: LogEntry| Ok::<(), StoreError>(()))?;
        let sum = hash::content_hash(File::open(path).map_err(read)?).map_err(read)?;
        let file = std::path::absolute(path).map_err(read)?;
        let deed = "archiving";
        let done = self.runtime.block_on(async {
            let add = "INSERT INTO log_archives (last, events, file, sum) VALUES ($1, $2, $3, $4)";
            let query = sqlx::query(add)
                .bind(number(last))
                .bind(number(backup.events))
                .bind(file.display().to_string())
                .bind(sum);
            query.execute(&self.pool).await.map(|_| ())
        });
        done.map_err(failed(deed))?;
        self.drop_archived()?;
        Ok(backup)
    }

    /// Deletes events that are archived.
    fn drop_archived(&self) -> Result<(), StoreError> {
        let last = self.archived()?;
        let done = self.runtime.block_on(async {
            let first = "SELECT COALESCE(MIN(seq), 0) FROM log_events";
            let row = sqlx::query(first).fetch_one(&self.pool).await?;
            let mut next = row.try_get::<i64, _>(0)?.unsigned_abs() + GONE;
            loop {
                let most = next.min(last + 1);
                let some = sqlx::query("DELETE FROM log_events WHERE seq < $1").bind(number(most));
                some.execute(&self.pool).await?;
                if most > last {
                    return Ok(());
                }
                next += GONE;
            }
        });
        done.map_err(failed("deleting what is archived"))
    }
}
