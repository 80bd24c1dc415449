//! The broker's log: events in order, and who may write.
//!
//! One program writes at a time: it holds an epoch, and every append is a transaction that proves it. A
//! program that was thought dead and wakes up holds an older epoch and is refused.

use crate::{
    Head, Kind, Store,
    error::{StoreError, failed},
    save::{ROWS, insert},
};
use sqlx::{AnyConnection, Connection as _, Row as _, any::AnyRow};
use std::time::Duration;
use tokio::time::timeout;

/// An event as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Its place in the log, from 1, without gaps.
    pub seq: u64,
    /// When it happened: nanoseconds since 1970, UTC.
    pub at_ns: i64,
    /// Which kind of event; the body says it, too.
    pub kind: String,
    /// The event as a JSON document.
    pub body: String,
}

/// The right to write the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch(pub i64);

/// Who holds the right to write, as the database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    pub epoch: Epoch,
    /// Its name, for people.
    pub holder: String,
    /// Goes up while it is alive.
    pub beat: i64,
}

/// What a log holds, as the database counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSpan {
    pub events: u64,
    /// Events before those, which were moved into files.
    pub archived: u64,
    /// The number of the last one: as many as there are and were, unless some are missing.
    pub last: u64,
    /// When the first and the last happened: nanoseconds since 1970, UTC.
    pub first_at_ns: i64,
    pub last_at_ns: i64,
}

/// How long a server may take for what a writer asks; a writer that waits longer is thought dead.
const PATIENCE: Duration = Duration::from_secs(8);

/// How long a connection that is given up may take to end.
const CLOSING: Duration = Duration::from_secs(1);

const LEADER: &str = "SELECT epoch, holder, beat FROM log_leader WHERE one = 1";

impl Store {
    /// Who may write the log; `None`: nobody ever has.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn leader(&self) -> Result<Option<Leader>, StoreError> {
        self.runtime
            .block_on(async {
                let row = sqlx::query(LEADER).fetch_optional(&self.pool).await?;
                row.map(|row| leader(&row)).transpose()
            })
            .map_err(failed("asking who writes the log"))
    }

    /// Takes the right to write from whoever was seen to hold it; `None`: somebody was faster.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn lead(&self, seen: Option<&Leader>, holder: &str) -> Result<Option<Epoch>, StoreError> {
        let next = match seen {
            Some(leader) => {
                let epoch = leader.epoch.0;
                let next = epoch.checked_add(1);
                next.ok_or(StoreError::LastEpoch { epoch })?
            }
            None => 1,
        };
        let deed = "taking the log";
        let taken = self.within(deed, async |connection| {
            let query = match seen {
                None => sqlx::query(
                    "INSERT INTO log_leader (one, epoch, holder, beat) VALUES (1, $1, $2, 0) \
                     ON CONFLICT DO NOTHING",
                )
                .bind(next)
                .bind(holder),
                Some(leader) => sqlx::query(
                    "UPDATE log_leader SET epoch = $1, holder = $2, beat = 0 \
                     WHERE one = 1 AND epoch = $3 AND beat = $4",
                )
                .bind(next)
                .bind(holder)
                .bind(leader.epoch.0)
                .bind(leader.beat),
            };
            query.execute(connection).await.map_err(failed(deed))
        });
        Ok((taken?.rows_affected() == 1).then_some(Epoch(next)))
    }

    /// Says that the writer is alive, and which time it has.
    ///
    /// # Errors
    /// When the database refuses, or somebody else writes now.
    pub fn beat(&self, epoch: Epoch, now_ns: u64) -> Result<(), StoreError> {
        let deed = "saying that we are alive";
        let sql =
            "UPDATE log_leader SET beat = beat + 1, seen_ns = $2 WHERE one = 1 AND epoch = $1";
        let done = self.within(deed, async |connection| {
            let query = sqlx::query(sql).bind(epoch.0).bind(number(now_ns));
            query.execute(connection).await.map_err(failed(deed))
        });
        match done?.rows_affected() {
            1 => Ok(()),
            _ => Err(StoreError::Fenced { epoch: epoch.0 }),
        }
    }

    /// The time of the last writer when it last said that it is alive: nanoseconds since 1970, UTC; 0: none has.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn last_seen(&self) -> Result<u64, StoreError> {
        let read = self.runtime.block_on(async {
            let seen = "SELECT COALESCE(MAX(seen_ns), 0) FROM log_leader";
            let row = sqlx::query(seen).fetch_one(&self.pool).await?;
            row.try_get::<i64, _>(0)
        });
        read.map(i64::unsigned_abs)
            .map_err(failed("asking when the log was last written"))
    }

    /// Gives the right to write back, so that another need not wait for our silence.
    ///
    /// # Errors
    /// When the database refuses, or somebody else writes now.
    pub fn give_back(&self, epoch: Epoch) -> Result<(), StoreError> {
        self.as_leader(
            epoch,
            "giving the log back",
            "UPDATE log_leader SET beat = beat + 1, holder = '' WHERE one = 1 AND epoch = $1",
        )
    }

    fn as_leader(
        &self,
        epoch: Epoch,
        deed: &'static str,
        sql: &'static str,
    ) -> Result<(), StoreError> {
        let done = self.within(deed, async |connection| {
            let query = sqlx::query(sql).bind(epoch.0);
            query.execute(connection).await.map_err(failed(deed))
        });
        match done?.rows_affected() {
            1 => Ok(()),
            _ => Err(StoreError::Fenced { epoch: epoch.0 }),
        }
    }

    /// The number of the last event, once nothing that we wrote is still on its way: what an append came
    /// to whose answer was lost.
    ///
    /// # Errors
    /// When the database refuses, or somebody else writes now.
    pub fn settled(&self, epoch: Epoch) -> Result<u64, StoreError> {
        let deed = "asking what was kept";
        // An append holds this row until it is kept or undone. SQLite's have ended when they are answered.
        let ours = match self.kind {
            Kind::Sqlite => "SELECT epoch FROM log_leader WHERE one = 1",
            Kind::Postgres => "SELECT epoch FROM log_leader WHERE one = 1 FOR UPDATE",
        };
        let asked = self.within(deed, async |connection| {
            let mut transaction = connection.begin().await.map_err(failed(deed))?;
            let row = sqlx::query(ours).fetch_optional(&mut *transaction).await;
            let row = row.map_err(failed(deed))?;
            let held: Option<i64> = row
                .map(|row| row.try_get(0))
                .transpose()
                .map_err(failed(deed))?;
            let row = sqlx::query(LAST).fetch_one(&mut *transaction).await;
            let last: i64 = row.and_then(|row| row.try_get(0)).map_err(failed(deed))?;
            transaction.rollback().await.map_err(failed(deed))?;
            Ok((held, last.unsigned_abs()))
        });
        match asked? {
            (Some(held), last) if held == epoch.0 => Ok(last),
            _ => Err(StoreError::Fenced { epoch: epoch.0 }),
        }
    }

    /// Asks as a writer does: a server has so long to answer, and a connection on which something failed is
    /// given up. After an I/O error SQLite's may stay within a transaction that nobody ends, into which all
    /// that follows would go: said to be kept, and lost.
    fn within<T>(
        &self,
        deed: &'static str,
        asked: impl AsyncFnOnce(&mut AnyConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.runtime.block_on(async {
            let mut connection = self.pool.acquire().await.map_err(failed(deed))?;
            let said = match self.kind {
                Kind::Sqlite => asked(&mut connection).await,
                Kind::Postgres => timeout(PATIENCE, asked(&mut connection))
                    .await
                    .unwrap_or(Err(StoreError::Silent {
                        deed,
                        seconds: PATIENCE.as_secs(),
                    })),
            };
            if said.is_err() {
                // It may be broken already, or never answer.
                let _ = timeout(CLOSING, connection.detach().close_hard()).await;
            }
            said
        })
    }

    /// Adds events to the log in one transaction, durably: all of them or none.
    ///
    /// # Errors
    /// When the database refuses, or somebody else writes now; then none is kept.
    pub fn append(&self, epoch: Epoch, entries: &[LogEntry]) -> Result<(), StoreError> {
        let deed = "adding to the log";
        let Some(first) = entries.first() else {
            return Ok(());
        };
        let heads = chained(self.head_before(first.seq)?, entries);
        let done = self.within(deed, async |connection| {
            let mut transaction = connection.begin().await.map_err(failed(deed))?;
            // The row is locked until the end: nobody takes the log in between.
            let head = heads.last().cloned().unwrap_or_default();
            let ours = sqlx::query(
                "UPDATE log_leader SET head_seq = $2, head = $3 WHERE one = 1 AND epoch = $1",
            )
            .bind(epoch.0)
            .bind(number(head.seq))
            .bind(head.chain)
            .execute(&mut *transaction)
            .await
            .map_err(failed(deed))?;
            if ours.rows_affected() != 1 {
                return Err(StoreError::Fenced { epoch: epoch.0 });
            }
            for (chunk, heads) in entries.chunks(ROWS).zip(heads.chunks(ROWS)) {
                add(&mut transaction, chunk, heads)
                    .await
                    .map_err(failed(deed))?;
            }
            let unsure = |source| StoreError::Unsure { deed, source };
            transaction.commit().await.map_err(unsure)
        });
        self.keep_head(heads.last().filter(|_| done.is_ok()).cloned());
        done
    }

    /// Events after one, in order; at most so many.
    ///
    /// # Errors
    /// When the database refuses, or the log has a gap.
    pub fn events_after(&self, seq: u64, most: u32) -> Result<Vec<LogEntry>, StoreError> {
        // Numbers that a database can hold have an end, after which there is none.
        if i64::try_from(seq).is_ok_and(|seq| seq < i64::MAX) {
            self.events_within(seq, most)
        } else {
            Ok(Vec::new())
        }
    }

    fn events_within(&self, seq: u64, most: u32) -> Result<Vec<LogEntry>, StoreError> {
        let read = self.runtime.block_on(async {
            let rows = sqlx::query(
                "SELECT seq, at_ns, kind, body FROM log_events WHERE seq > $1 ORDER BY seq LIMIT $2",
            )
            .bind(number(seq))
            .bind(i64::from(most))
            .fetch_all(&self.pool)
            .await?;
            rows.iter().map(entry).collect::<Result<Vec<_>, _>>()
        });
        let read = read.map_err(failed("reading the log"))?;
        for (expected, entry) in (seq + 1..).zip(&read) {
            if entry.seq != expected {
                let archives = self.archives()?;
                if let Some(archive) = archives.into_iter().find(|one| one.last >= expected) {
                    return Err(StoreError::Archived {
                        expected,
                        last: archive.last,
                        file: archive.file,
                    });
                }
                return Err(StoreError::Gap {
                    expected,
                    found: entry.seq,
                });
            }
        }
        Ok(read)
    }

    /// Events of some kinds before one, the newest first; at most so many.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn events_of(
        &self,
        kinds: &[&str],
        before: u64,
        most: u32,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let marks: Vec<String> = (3..kinds.len() + 3).map(|at| format!("${at}")).collect();
        let sql = format!(
            "SELECT seq, at_ns, kind, body FROM log_events WHERE seq < $1 AND kind IN ({}) \
             ORDER BY seq DESC LIMIT $2",
            marks.join(", ")
        );
        let read = self.runtime.block_on(async {
            let mut query = sqlx::query(sqlx::AssertSqlSafe(sql))
                .bind(number(before))
                .bind(i64::from(most));
            for kind in kinds {
                query = query.bind(*kind);
            }
            let rows = query.fetch_all(&self.pool).await?;
            rows.iter().map(entry).collect::<Result<Vec<_>, _>>()
        });
        read.map_err(failed("reading the log"))
    }

    /// The number of the last event; 0: there is none.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn last_event(&self) -> Result<u64, StoreError> {
        self.runtime
            .block_on(async {
                let row = sqlx::query(LAST).fetch_one(&self.pool).await?;
                row.try_get::<i64, _>(0)
            })
            .map(i64::unsigned_abs)
            .map_err(failed("reading the log"))
    }

    /// What the log holds; `None`: it is empty.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn log_span(&self) -> Result<Option<LogSpan>, StoreError> {
        const SPAN: &str = "SELECT COUNT(*), COALESCE(MAX(seq), 0), COALESCE(MIN(at_ns), 0), \
                            COALESCE(MAX(at_ns), 0) FROM log_events";
        let read = self.runtime.block_on(async {
            let row = sqlx::query(SPAN).fetch_one(&self.pool).await?;
            Ok(LogSpan {
                events: row.try_get::<i64, _>(0)?.unsigned_abs(),
                archived: 0,
                last: row.try_get::<i64, _>(1)?.unsigned_abs(),
                first_at_ns: row.try_get(2)?,
                last_at_ns: row.try_get(3)?,
            })
        });
        let mut span = read.map_err(failed("reading the log"))?;
        span.archived = self.archived()?;
        Ok((span.events > 0).then_some(span))
    }
}

const LAST: &str = "SELECT COALESCE(MAX(seq), 0) FROM log_events";

/// The chain of each event that follows a head.
pub(crate) fn chained(mut head: Head, entries: &[LogEntry]) -> Vec<Head> {
    let each = entries.iter().map(|entry| {
        head = head.with(entry);
        head.clone()
    });
    each.collect()
}

pub(crate) async fn add(
    connection: &mut AnyConnection,
    entries: &[LogEntry],
    heads: &[Head],
) -> Result<(), sqlx::Error> {
    let sql = insert(
        "log_events",
        &["seq", "at_ns", "kind", "body", "chain"],
        entries.len(),
    );
    let mut query = sqlx::query(sqlx::AssertSqlSafe(sql));
    for (entry, head) in entries.iter().zip(heads) {
        query = query
            .bind(number(entry.seq))
            .bind(entry.at_ns)
            .bind(&entry.kind)
            .bind(&entry.body)
            .bind(&head.chain);
    }
    query.execute(connection).await.map(|_| ())
}

fn entry(row: &AnyRow) -> Result<LogEntry, sqlx::Error> {
    Ok(LogEntry {
        seq: row.try_get::<i64, _>(0)?.unsigned_abs(),
        at_ns: row.try_get(1)?,
        kind: row.try_get(2)?,
        body: row.try_get(3)?,
    })
}

fn leader(row: &AnyRow) -> Result<Leader, sqlx::Error> {
    Ok(Leader {
        epoch: Epoch(row.try_get(0)?),
        holder: row.try_get(1)?,
        beat: row.try_get(2)?,
    })
}

/// A number as a column has it.
pub(crate) fn number(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}
