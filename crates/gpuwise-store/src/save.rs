//! Writing a run: all of it or nothing.

use crate::{
    Store,
    error::{StoreError, failed},
    hash::{self, RunId},
    times,
};
use gpuwise_domain::profile::{
    figure::{Figure, Summary, Value},
    figures::NamedTime,
};
use sqlx::{Any, AnyConnection, query::Query};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    /// What makes it this run and no other: the same bytes are the same run.
    pub id: RunId,
    /// Where it comes from: `profile`, `bench`, `simulate`, `sampling`, `gpu`.
    pub source: String,
    pub name: String,
    /// When it is brought, in nanoseconds since 1970.
    pub imported_at_ns: i64,
    pub labels: BTreeMap<String, String>,
    pub summary: Summary,
    /// Kernel time by operator and by kernel; empty where there is none.
    pub times: Vec<NamedTime>,
    /// Findings as documents, in the order of `summary.findings`.
    pub finding_documents: Vec<String>,
    /// What it measured that predictions can be held against: a table of questions with their values
    /// (CSV with a header); empty where there is none.
    pub measured: String,
}

/// What became of a run that was brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saved {
    /// It is kept now.
    New,
    /// It was there; its labels were added.
    Known,
}

/// Rows of one statement; SQLite takes 32,766 values, PostgreSQL 65,535.
pub(crate) const ROWS: usize = 100;

impl Store {
    /// Keeps a run. One that is there already gets the labels that are new, and nothing else.
    ///
    /// # Errors
    /// When the database refuses; then nothing of the run is kept.
    pub fn save(&self, run: &NewRun) -> Result<Saved, StoreError> {
        self.save_all(std::slice::from_ref(run))
            .map(|saved| saved.first().copied().unwrap_or(Saved::Known))
    }

    /// Keeps several runs in one transaction, which is much faster than one by one.
    ///
    /// # Errors
    /// When the database refuses; then none of them is kept.
    pub fn save_all(&self, runs: &[NewRun]) -> Result<Vec<Saved>, StoreError> {
        self.runtime
            .block_on(async {
                let mut transaction = self.pool.begin().await?;
                let mut saved = Vec::with_capacity(runs.len());
                for run in runs {
                    saved.push(save(&mut transaction, run).await?);
                }
                transaction.commit().await?;
                Ok(saved)
            })
            .map_err(failed("saving a run"))
    }
}

async fn save(connection: &mut AnyConnection, run: &NewRun) -> Result<Saved, sqlx::Error> {
    let key = run.id.0;
    let summary = &run.summary;
    let texts = |list: &[String]| serde_json::Value::from(list.to_vec()).to_string();
    let new = sqlx::query(
        "INSERT INTO runs (run, id, source, name, started_at_ns, imported_at_ns, files, missing, measured) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING",
    )
    .bind(key)
    .bind(run.id.to_string())
    .bind(&run.source)
    .bind(&run.name)
    .bind(summary.started_at_ns)
    .bind(run.imported_at_ns)
    .bind(texts(&summary.files))
    .bind(texts(&summary.missing))
    .bind(&run.measured)
    .execute(&mut *connection)
    .await?
    .rows_affected();
    for (name, value) in &run.labels {
        sqlx::query(
            "INSERT INTO run_labels (run, name, value) VALUES ($1, $2, $3) \
             ON CONFLICT (run, name) DO UPDATE SET value = excluded.value",
        )
        .bind(key)
        .bind(name)
        .bind(value)
        .execute(&mut *connection)
        .await?;
    }
    if new == 0 {
        return Ok(Saved::Known);
    }
    for product in &summary.hardware {
        sqlx::query(
            "INSERT INTO run_hardware (run, product) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        )
        .bind(key)
        .bind(product)
        .execute(&mut *connection)
        .await?;
    }
    for (name, version) in &summary.software {
        sqlx::query(
            "INSERT INTO run_software (run, name, version) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        )
        .bind(key)
        .bind(name)
        .bind(version)
        .execute(&mut *connection)
        .await?;
    }
    names(connection, run).await?;
    figures(connection, key, &summary.figures).await?;
    times::save(connection, key, &run.times).await?;
    for (position, (finding, document)) in summary
        .findings
        .iter()
        .zip(&run.finding_documents)
        .enumerate()
    {
        sqlx::query(
            "INSERT INTO findings (run, position, class, statement, document) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(key)
        .bind(place(position))
        .bind(&finding.class)
        .bind(&finding.statement)
        .bind(document)
        .execute(&mut *connection)
        .await?;
    }
    Ok(Saved::New)
}

/// Names of figures, parts and times that are not there yet.
async fn names(connection: &mut AnyConnection, run: &NewRun) -> Result<(), sqlx::Error> {
    let of_figures = run.summary.figures.iter();
    let of_figures =
        of_figures.flat_map(|figure| [Some(figure.name.as_str()), figure.scope.part.as_deref()]);
    let of_times = run.times.iter().map(|time| time.name.as_deref());
    let mut texts: Vec<&str> = of_figures.chain(of_times).flatten().collect();
    texts.sort_unstable();
    texts.dedup();
    for chunk in texts.chunks(ROWS) {
        let sql = insert("names", &["name", "text"], chunk.len()) + " ON CONFLICT DO NOTHING";
        let mut query = sqlx::query(sqlx::AssertSqlSafe(sql));
        for text in chunk {
            query = query.bind(hash::key(text.as_bytes())).bind(*text);
        }
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

const FIGURE_COLUMNS: &[&str] = &[
    "figure",
    "run",
    "position",
    "rank",
    "device",
    "part",
    "integer_value",
    "real_value",
    "unknown",
];

async fn figures(
    connection: &mut AnyConnection,
    run: i64,
    figures: &[Figure],
) -> Result<(), sqlx::Error> {
    for (index, chunk) in figures.chunks(ROWS).enumerate() {
        let sql = insert("figures", FIGURE_COLUMNS, chunk.len());
        let mut query = sqlx::query(sqlx::AssertSqlSafe(sql));
        for (offset, figure) in chunk.iter().enumerate() {
            query = bound(query, run, index * ROWS + offset, figure);
        }
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

fn bound<'q>(
    query: Query<'q, Any, sqlx::any::AnyArguments>,
    run: i64,
    position: usize,
    figure: &'q Figure,
) -> Query<'q, Any, sqlx::any::AnyArguments> {
    let (integer, real, unknown) = match &figure.value {
        Value::Integer(value) => (Some(*value), None, None),
        Value::Real(value) => (None, Some(*value), None),
        Value::Unknown(reason) => (None, None, Some(reason.as_str())),
    };
    let part = figure.scope.part.as_deref();
    query
        .bind(hash::key(figure.name.as_bytes()))
        .bind(run)
        .bind(place(position))
        .bind(figure.scope.rank.map(i64::from))
        .bind(figure.scope.device)
        .bind(part.map(|part| hash::key(part.as_bytes())))
        .bind(integer)
        .bind(real)
        .bind(unknown)
}

/// A place in a list as a column has it.
pub(crate) fn place(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}

/// `INSERT INTO table (columns) VALUES ($1, $2), ($3, $4)…`
pub(crate) fn insert(table: &str, columns: &[&str], rows: usize) -> String {
    let mut sql = format!("INSERT INTO {table} ({}) VALUES ", columns.join(", "));
    for row in 0..rows {
        sql.push_str(if row == 0 { "(" } else { ", (" });
        for column in 0..columns.len() {
            if column > 0 {
                sql.push_str(", ");
            }
            sql.push('$');
            sql.push_str(&(row * columns.len() + column + 1).to_string());
        }
        sql.push(')');
    }
    sql
}
