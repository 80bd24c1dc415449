//! A foreign SQLite file, opened for reading: its tables, and rows by the names of columns.

use super::NsightError;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// An SQLite file with what is known of its tables.
pub(super) struct Database {
    connection: Connection,
    file: String,
    tables: BTreeMap<String, BTreeSet<String>>,
}

/// A row: the columns that were asked for, in that order; what is missing is null.
pub(super) struct Row<'r>(&'r rusqlite::Row<'r>);

impl Row<'_> {
    /// A whole number; `None` where the cell is empty, or holds something else.
    pub(super) fn integer(&self, column: usize) -> Option<i64> {
        match self.0.get_ref(column) {
            Ok(ValueRef::Integer(number)) => Some(number),
            // Some schemas write ratios where others count.
            Ok(ValueRef::Real(number)) if number.abs() < 9.0e15 => Some(number as i64),
            _ => None,
        }
    }

    pub(super) fn real(&self, column: usize) -> Option<f64> {
        match self.0.get_ref(column) {
            Ok(ValueRef::Integer(number)) => Some(number as f64),
            Ok(ValueRef::Real(number)) => Some(number),
            _ => None,
        }
    }

    /// A text that is not empty.
    pub(super) fn text(&self, column: usize) -> Option<String> {
        match self.0.get_ref(column) {
            Ok(ValueRef::Text(bytes)) if !bytes.is_empty() => {
                Some(String::from_utf8_lossy(bytes).into_owned())
            }
            Ok(ValueRef::Integer(number)) => Some(number.to_string()),
            _ => None,
        }
    }
}

impl Database {
    /// Opens a file for reading.
    pub(super) fn open(path: &Path) -> Result<Self, NsightError> {
        let file = path.display().to_string();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let damaged = |error: &rusqlite::Error| NsightError::Damaged {
            file: file.clone(),
            place: "its list of tables".into(),
            why: error.to_string(),
        };
        let connection = Connection::open_with_flags(path, flags).map_err(|e| damaged(&e))?;
        let tables = columns(&connection).map_err(|e| damaged(&e))?;
        Ok(Self {
            connection,
            file,
            tables,
        })
    }

    /// The file, as the user named it.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }

    pub(super) fn count(&self, table: &str) -> Result<u64, NsightError> {
        let sql = format!("SELECT count(*) FROM {}", quoted(table));
        self.connection
            .query_row(&sql, [], |row| row.get::<_, i64>(0))
            .map(|count| u64::try_from(count).unwrap_or(0))
            .map_err(|error| self.damaged(table, &error))
    }

    /// Hands over every row of a table in the order of the file; nothing where there is no such table.
    /// Columns before `needed` must be there.
    pub(super) fn rows(
        &self,
        table: &str,
        columns: &[&str],
        needed: usize,
        mut take: impl FnMut(&Row<'_>),
    ) -> Result<u64, NsightError> {
        let Some(known) = self.tables.get(table) else {
            return Ok(0);
        };
        let missing = columns
            .iter()
            .take(needed)
            .find(|column| !known.contains(**column));
        if let Some(column) = missing {
            return Err(NsightError::Column {
                file: self.file.clone(),
                table: table.into(),
                column: (*column).into(),
            });
        }
        let selected: Vec<String> = columns
            .iter()
            .map(|column| {
                if known.contains(*column) {
                    quoted(column)
                } else {
                    "NULL".into()
                }
            })
            .collect();
        let sql = format!("SELECT {} FROM {}", selected.join(", "), quoted(table));
        let mut run = || -> rusqlite::Result<u64> {
            let mut statement = self.connection.prepare(&sql)?;
            let mut rows = statement.query([])?;
            let mut count = 0;
            while let Some(row) = rows.next()? {
                take(&Row(row));
                count += 1;
            }
            Ok(count)
        };
        run().map_err(|error| self.damaged(table, &error))
    }

    fn damaged(&self, table: &str, error: &rusqlite::Error) -> NsightError {
        NsightError::Damaged {
            file: self.file.clone(),
            place: format!("table {table}"),
            why: error.to_string(),
        }
    }
}

/// A name of a table or column as SQL has it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn columns(connection: &Connection) -> rusqlite::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut statement =
        connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?;
    let names = statement.query_map([], |row| row.get::<_, String>(0))?;
    let names = names.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut tables = BTreeMap::new();
    for name in names {
        let mut statement = connection.prepare(&format!("PRAGMA table_info({})", quoted(&name)))?;
        let columns = statement.query_map([], |row| row.get::<_, String>(1))?;
        tables.insert(name, columns.collect::<rusqlite::Result<_>>()?);
    }
    Ok(tables)
}
