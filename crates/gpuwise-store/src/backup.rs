//! Backups of the log: a file of lines, each of which proves those before it.
//!
//! The first line says what it is and how many events follow. Each event is one line whose `sum` is the
//! beginning of a SHA-256 over the sum of the line before and the line without its sum; so that what was
//! cut off, changed, moved or left out is found, and at which line.

use crate::{
    LogEntry, Store,
    error::{StoreError, failed},
    hash,
    log::{add, chained, number},
    save::ROWS,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use sqlx::Row as _;
use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, BufWriter, Write as _},
    path::Path,
};

/// What such a file says of itself.
const FORM: &str = "gpuwise.log/v1";

/// Events read at a time.
const PAGE: u32 = 5_000;

/// Hexadecimal digits of a sum: 64 bits find damage; they are no signature.
const DIGITS: usize = 16;

/// A backup that was written or read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The event after which it begins: those up to it are archived elsewhere.
    pub after: u64,
    pub events: u64,
    /// When the first and the last happened: nanoseconds since 1970, UTC.
    pub first_at_ns: i64,
    pub last_at_ns: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    schema: String,
    events: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    after: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// An event's line, up to its body, which is a document and is kept byte for byte.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    seq: u64,
    at_ns: i64,
    kind: String,
    sum: String,
}

impl Store {
    /// Writes all events up to now into a new file, also while a broker writes: what is in the log never
    /// changes.
    ///
    /// # Errors
    /// When there is such a file, it cannot be written, the log is empty or has a gap.
    pub fn backup(&self, path: &Path) -> Result<Backup, StoreError> {
        let last = self.last_event()?;
        if last == 0 {
            return Err(StoreError::Empty);
        }
        self.backup_of(path, self.archived()?, last)
    }

    /// The same of events after one, up to another.
    pub(crate) fn backup_of(
        &self,
        path: &Path,
        after: u64,
        last: u64,
    ) -> Result<Backup, StoreError> {
        if path.exists() {
            return Err(StoreError::There { file: shown(path) });
        }
        // It has its name once it is whole and on the disk.
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = Path::new(&part);
        let written = self.write(part, after, last);
        let done = written.and_then(|backup| {
            fs::rename(part, path).map_err(wrote(path))?;
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            let folder = File::open(folder.unwrap_or(Path::new(".")));
            folder
                .and_then(|folder| folder.sync_all())
                .map_err(wrote(path))?;
            Ok(backup)
        });
        if done.is_err() {
            // It may not be there.
            let _ = fs::remove_file(part);
        }
        done
    }

    fn write(&self, path: &Path, after: u64, until: u64) -> Result<Backup, StoreError> {
        let events = until - after;
        let file = File::create(path).map_err(wrote(path))?;
        let mut file = BufWriter::new(file);
        let header = Header {
            schema: FORM.into(),
            events,
            after,
        };
        let header = serde_json::to_string(&header).unwrap_or_default();
        writeln!(file, "{header}").map_err(wrote(path))?;
        let (mut sum, mut last) = (sum_of(&header, ""), after);
        let mut backup = Backup {
            after,
            events,
            first_at_ns: i64::MAX,
            last_at_ns: i64::MIN,
        };
        while last < until {
            let page = self.events_after(last, PAGE)?;
            let wanted = page.iter().filter(|entry| entry.seq <= until);
            for entry in wanted {
                sum = line(entry, &sum, &mut file).map_err(|problem| match problem {
                    Bad::Text(problem) => StoreError::Line {
                        seq: entry.seq,
                        problem,
                    },
                    Bad::File(source) => wrote(path)(source),
                })?;
                backup.first_at_ns = backup.first_at_ns.min(entry.at_ns);
                backup.last_at_ns = backup.last_at_ns.max(entry.at_ns);
                last = entry.seq;
            }
        }
        let file = file
            .into_inner()
            .map_err(|error| wrote(path)(error.into_error()))?;
        file.sync_all().map_err(wrote(path))?;
        Ok(backup)
    }

    /// Puts a backup into a log that ends where it begins, such as an empty one: all of it or nothing.
    ///
    /// # Errors
    /// When the file is damaged, the log is not empty, or the database refuses; then nothing is kept.
    pub fn restore(&self, path: &Path) -> Result<Backup, StoreError> {
        let deed = "restoring the log";
        let before = self.last_event()?;
        let mut chain = self.head_before(before + 1)?;
        // What is undone is undone within the driver's runtime.
        let _within = self.runtime.enter();
        let run = &self.runtime;
        let mut transaction = run.block_on(self.pool.begin()).map_err(failed(deed))?;
        let held = run.block_on(async {
            // The row is locked until the end, and whoever held the log is fenced.
            let lead = "INSERT INTO log_leader (one, epoch, holder, beat) VALUES (1, 1, '', 0) \
                        ON CONFLICT (one) DO UPDATE SET epoch = log_leader.epoch + 1, holder = ''";
            sqlx::query(lead).execute(&mut *transaction).await?;
            for old in [
                "DELETE FROM log_snapshots",
                "DELETE FROM log_snapshot_pages",
            ] {
                sqlx::query(old).execute(&mut *transaction).await?;
            }
            let row = sqlx::query("SELECT COALESCE(MAX(seq), 0) FROM log_events")
                .fetch_one(&mut *transaction)
                .await?;
            row.try_get::<i64, _>(0)
        });
        let held = held.map_err(failed(deed))?.unsigned_abs();
        let mut chunk = Vec::with_capacity(ROWS);
        let mut first = true;
        let backup = read_backup(path, &mut |entry| {
            if first && entry.seq != held + 1 {
                return Err(match entry.seq {
                    1 => StoreError::NotEmpty { events: held },
                    seq => StoreError::Gap {
                        expected: held + 1,
                        found: seq,
                    },
                });
            }
            first = false;
            chunk.push(entry);
            if chunk.len() == ROWS {
                let heads = chained(chain.clone(), &chunk);
                let added = run.block_on(add(&mut transaction, &chunk, &heads));
                chain = heads.last().cloned().unwrap_or_default();
                chunk.clear();
                return added.map_err(failed(deed));
            }
            Ok(())
        })?;
        if !chunk.is_empty() {
            let heads = chained(chain.clone(), &chunk);
            let added = run.block_on(add(&mut transaction, &chunk, &heads));
            chain = heads.last().cloned().unwrap_or_default();
            added.map_err(failed(deed))?;
        }
        let noted = run.block_on(async {
            let end = "UPDATE log_leader SET head_seq = $1, head = $2 WHERE one = 1";
            let query = sqlx::query(end).bind(number(chain.seq)).bind(&chain.chain);
            query.execute(&mut *transaction).await
        });
        noted.map_err(failed(deed))?;
        self.keep_head(None);
        run.block_on(transaction.commit()).map_err(failed(deed))?;
        Ok(backup)
    }
}

/// Reads a backup, event by event.
///
/// # Errors
/// When it cannot be read, or a line is not what was written; it is named. Errors of `each` end it.
pub fn read_backup<E: From<StoreError>>(
    path: &Path,
    each: &mut dyn FnMut(LogEntry) -> Result<(), E>,
) -> Result<Backup, E> {
    let read = |source| StoreError::File {
        file: shown(path),
        deed: "read",
        source,
    };
    let mut file = BufReader::new(File::open(path).map_err(read)?);
    let damaged = |line: u64, problem: &str| StoreError::Damaged {
        file: shown(path),
        line,
        problem: problem.to_owned(),
    };
    let mut text = String::new();
    next(&mut file, &mut text).map_err(|problem| damaged(1, &problem))?;
    let header: Header = serde_json::from_str(&text)
        .map_err(|_| damaged(1, "this is no backup of a log: it does not say so"))?;
    if header.schema != FORM {
        let what = format!("it says {:?}; this gpuwise reads {FORM:?}", header.schema);
        return Err(damaged(1, &what).into());
    }
    let mut sum = sum_of(&text, "");
    let mut backup = Backup {
        after: header.after,
        events: header.events,
        first_at_ns: i64::MAX,
        last_at_ns: i64::MIN,
    };
    for (seq, place) in (header.after + 1..).zip(2..header.events + 2) {
        let cut = |problem: &str| damaged(place, problem);
        next(&mut file, &mut text).map_err(|problem| {
            cut(&format!(
                "{problem}; {} events should follow line 1",
                header.events
            ))
        })?;
        let (entry, own) = entry(&text).map_err(cut)?;
        sum = sum_of(&plain(&entry), &sum);
        if own != sum {
            return Err(cut("its sum is not that of what it says and what comes before").into());
        }
        if entry.seq != seq {
            return Err(cut(&format!("it is event {}, not {seq}", entry.seq)).into());
        }
        backup.first_at_ns = backup.first_at_ns.min(entry.at_ns);
        backup.last_at_ns = backup.last_at_ns.max(entry.at_ns);
        each(entry)?;
    }
    if next(&mut file, &mut text).is_ok() {
        let line = header.events + 2;
        return Err(damaged(line, "there is more than line 1 says").into());
    }
    Ok(backup)
}

/// The next line, without its end, which must be there.
fn next(file: &mut BufReader<File>, text: &mut String) -> Result<(), String> {
    text.clear();
    match file.read_line(text) {
        Ok(0) => Err("the file ends here".into()),
        Ok(_) if text.ends_with('\n') => {
            text.pop();
            Ok(())
        }
        Ok(_) => Err("the file ends within this line".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Why a line cannot be written.
enum Bad {
    Text(&'static str),
    File(io::Error),
}

const BODY: &str = ",\"body\":";

/// Writes an event's line; its sum.
fn line(entry: &LogEntry, before: &str, file: &mut impl io::Write) -> Result<String, Bad> {
    if entry.body.contains(['\n', '\r']) {
        return Err(Bad::Text("its document holds the end of a line"));
    }
    let text = plain(entry);
    let sum = sum_of(&text, before);
    let (head, body) = text.split_once(BODY).unwrap_or((&text, ""));
    writeln!(file, "{head},\"sum\":\"{sum}\"{BODY}{body}").map_err(Bad::File)?;
    Ok(sum)
}

/// An event as a line without its sum.
fn plain(entry: &LogEntry) -> String {
    let kind = serde_json::to_string(&entry.kind).unwrap_or_default();
    let LogEntry {
        seq, at_ns, body, ..
    } = entry;
    format!("{{\"seq\":{seq},\"at_ns\":{at_ns},\"kind\":{kind}{BODY}{body}}}")
}

fn entry(text: &str) -> Result<(LogEntry, String), &'static str> {
    const NONE: &str = "this is no event: expected seq, at_ns, kind, sum and body";
    let (head, body) = text.split_once(BODY).ok_or(NONE)?;
    let head: Head = serde_json::from_str(&format!("{head}}}")).map_err(|_| NONE)?;
    let body = body.strip_suffix('}').ok_or(NONE)?;
    let entry = LogEntry {
        seq: head.seq,
        at_ns: head.at_ns,
        kind: head.kind,
        body: body.to_owned(),
    };
    Ok((entry, head.sum))
}

fn sum_of(text: &str, before: &str) -> String {
    let mut sum = Sha256::new();
    sum.update(before.as_bytes());
    sum.update(text.as_bytes());
    let mut digits = hash::hex(&sum.finalize());
    digits.truncate(DIGITS);
    digits
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn wrote(path: &Path) -> impl Fn(io::Error) -> StoreError {
    let file = shown(path);
    move |source| StoreError::File {
        file: file.clone(),
        deed: "written",
        source,
    }
}
