//! Reading runs back, and letting them go.

use crate::{
    DailyGroup, RunId, Store, daily,
    error::{StoreError, failed},
};
use gpuwise_domain::profile::figure::{Figure, Scope, Value};
use sqlx::{AnyConnection, Row as _, any::AnyRow};
use std::{collections::BTreeMap, fmt::Write as _};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Those with all of these labels.
    pub labels: BTreeMap<String, String>,
    /// Those of this name.
    pub name: Option<String>,
    /// Those from one source (`profile`).
    pub source: Option<String>,
    /// Those that ran on this product.
    pub hardware: Option<String>,
    /// Those brought at this time or later, in nanoseconds since 1970.
    pub since_ns: Option<i64>,
    /// Those brought before this time.
    pub before_ns: Option<i64>,
    /// At most so many, the newest.
    pub limit: Option<u32>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    pub run: RunId,
    pub id: String,
    pub source: String,
    pub name: String,
    /// When it ran, in nanoseconds since 1970, where known.
    pub started_at_ns: Option<i64>,
    pub imported_at_ns: i64,
    pub labels: BTreeMap<String, String>,
    /// Products it ran on.
    pub hardware: Vec<String>,
    /// The class of its first finding.
    pub first_finding: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    pub row: RunRow,
    pub files: Vec<String>,
    pub missing: Vec<String>,
    pub software: Vec<(String, String)>,
    /// Figures, in the order in which they were saved.
    pub figures: Vec<Figure>,
    pub findings: Vec<String>,
    /// What it measured that predictions can be held against: CSV; empty where there is none.
    pub measured: String,
}

/// The condition of a filter; the labels follow, two parameters each.
const MATCHING: &str = "(CAST($1 AS TEXT) IS NULL OR r.source = $1) \
  AND (CAST($2 AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM run_hardware h WHERE h.run = r.run AND h.product = $2)) \
  AND (CAST($3 AS BIGINT) IS NULL OR r.imported_at_ns >= $3) \
  AND (CAST($4 AS BIGINT) IS NULL OR r.imported_at_ns < $4)";

impl Filter {
    /// The text of the condition and the number of its last parameter.
    pub(crate) fn condition(&self) -> (String, usize) {
        let mut text = MATCHING.to_owned();
        let mut last = 4;
        if self.name.is_some() {
            last += 1;
            // Writing to a text cannot fail.
            let _ = write!(text, " AND r.name = ${last}");
        }
        for _ in &self.labels {
            // Writing to a text cannot fail.
            let _ = write!(
                text,
                " AND EXISTS (SELECT 1 FROM run_labels l \
                 WHERE l.run = r.run AND l.name = ${} AND l.value = ${})",
                last + 1,
                last + 2
            );
            last += 2;
        }
        (text, last)
    }

    /// A query on its condition whose last parameter is its limit.
    fn limited(&self, sql: String) -> sqlx::query::Query<'_, sqlx::Any, sqlx::any::AnyArguments> {
        self.bind(sqlx::query(sqlx::AssertSqlSafe(sql)))
            .bind(self.limit.map_or(i64::MAX, i64::from))
    }

    /// Binds what [`Filter::condition`] asks for.
    pub(crate) fn bind<'q>(
        &'q self,
        query: sqlx::query::Query<'q, sqlx::Any, sqlx::any::AnyArguments>,
    ) -> sqlx::query::Query<'q, sqlx::Any, sqlx::any::AnyArguments> {
        let mut query = query
            .bind(self.source.as_deref())
            .bind(self.hardware.as_deref())
            .bind(self.since_ns)
            .bind(self.before_ns);
        if let Some(name) = &self.name {
            query = query.bind(name);
        }
        for (name, value) in &self.labels {
            query = query.bind(name).bind(value);
        }
        query
    }
}

impl Store {
    /// Runs that match, the newest first.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn list(&self, filter: &Filter) -> Result<Vec<RunRow>, StoreError> {
        self.runtime
            .block_on(async {
                let mut connection = self.pool.acquire().await?;
                list(&mut connection, filter).await
            })
            .map_err(failed("listing runs"))
    }

    /// The run whose id begins so.
    ///
    /// # Errors
    /// When there is none or more than one, or the database refuses.
    pub fn run(&self, prefix: &str) -> Result<StoredRun, StoreError> {
        const DEED: &str = "reading a run";
        let which = |count| StoreError::Which {
            prefix: prefix.into(),
            count,
        };
        if prefix.is_empty() || !prefix.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(which(0));
        }
        self.runtime.block_on(async {
            let mut connection = self.pool.acquire().await.map_err(failed(DEED))?;
            let found = sqlx::query("SELECT run FROM runs WHERE id LIKE $1")
                .bind(prefix.to_ascii_lowercase() + "%")
                .fetch_all(&mut *connection)
                .await
                .map_err(failed(DEED))?;
            let [row] = found.as_slice() else {
                return Err(which(found.len()));
            };
            let key: i64 = row.try_get(0).map_err(failed(DEED))?;
            stored(&mut connection, key).await.map_err(failed(DEED))
        })
    }

    /// Names and versions of the software under which a run ran.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn software(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError> {
        self.runtime
            .block_on(async {
                let mut connection = self.pool.acquire().await?;
                software(&mut connection, run.0).await
            })
            .map_err(failed("reading software of a run"))
    }

    /// Forgets runs with all that is theirs, and keeps these summaries of them; how many were there.
    ///
    /// # Errors
    /// When the database refuses, or some of the runs are not there any more: then nothing is changed.
    pub fn forget(&self, ids: &[String], summaries: &[DailyGroup]) -> Result<u64, StoreError> {
        let deed = || failed("forgetting runs");
        self.runtime.block_on(async {
            let mut transaction = self.pool.begin().await.map_err(deed())?;
            let mut gone = 0;
            for id in ids {
                gone += sqlx::query("DELETE FROM runs WHERE id = $1")
                    .bind(id)
                    .execute(&mut *transaction)
                    .await
                    .map_err(deed())?
                    .rows_affected();
            }
            if gone < ids.len() as u64 {
                // Whoever forgot them has their summaries.
                return Err(StoreError::Meanwhile);
            }
            for summary in summaries {
                daily::save(&mut transaction, summary)
                    .await
                    .map_err(deed())?;
            }
            sqlx::query(
                "DELETE FROM names WHERE name NOT IN (SELECT figure FROM figures) \
                 AND name NOT IN (SELECT part FROM figures WHERE part IS NOT NULL) \
                 AND name NOT IN (SELECT name FROM kernel_times WHERE name IS NOT NULL)",
            )
            .execute(&mut *transaction)
            .await
            .map_err(deed())?;
            transaction.commit().await.map_err(deed())?;
            Ok(gone)
        })
    }
}

async fn list(connection: &mut AnyConnection, filter: &Filter) -> Result<Vec<RunRow>, sqlx::Error> {
    let (condition, last) = filter.condition();
    let sql = format!(
        "SELECT r.run, r.id, r.source, r.name, r.started_at_ns, r.imported_at_ns, \
         (SELECT f.class FROM findings f WHERE f.run = r.run AND f.position = 0) AS first_finding \
         FROM runs r WHERE {condition} ORDER BY r.imported_at_ns DESC, r.id LIMIT ${}",
        last + 1
    );
    let rows = filter.limited(sql).fetch_all(&mut *connection).await?;
    let mut runs = Vec::with_capacity(rows.len());
    for row in &rows {
        runs.push(run_row(row)?);
    }
    // What each has several of, over all of them at once.
    let of_these = format!(
        "JOIN (SELECT r.run FROM runs r WHERE {condition} \
         ORDER BY r.imported_at_ns DESC, r.id LIMIT ${}) k ON k.run = l.run",
        last + 1
    );
    let places: BTreeMap<RunId, usize> = (0..).zip(&runs).map(|(at, run)| (run.run, at)).collect();
    let labels = format!("SELECT l.run, l.name, l.value FROM run_labels l {of_these}");
    let products =
        format!("SELECT l.run, l.product FROM run_hardware l {of_these} ORDER BY l.product");
    for row in filter.limited(labels).fetch_all(&mut *connection).await? {
        if let Some(run) = of_row(&row, &places)?.and_then(|at| runs.get_mut(at)) {
            run.labels.insert(row.try_get(1)?, row.try_get(2)?);
        }
    }
    for row in filter.limited(products).fetch_all(&mut *connection).await? {
        if let Some(run) = of_row(&row, &places)?.and_then(|at| runs.get_mut(at)) {
            run.hardware.push(row.try_get(1)?);
        }
    }
    Ok(runs)
}

/// Which of the runs a row is of.
fn of_row(row: &AnyRow, places: &BTreeMap<RunId, usize>) -> Result<Option<usize>, sqlx::Error> {
    Ok(places.get(&RunId(row.try_get(0)?)).copied())
}

/// A run without its labels and products.
fn run_row(row: &AnyRow) -> Result<RunRow, sqlx::Error> {
    Ok(RunRow {
        run: RunId(row.try_get(0)?),
        id: row.try_get(1)?,
        source: row.try_get(2)?,
        name: row.try_get(3)?,
        started_at_ns: row.try_get(4)?,
        imported_at_ns: row.try_get(5)?,
        labels: BTreeMap::new(),
        hardware: Vec::new(),
        first_finding: row.try_get(6)?,
    })
}

async fn stored(connection: &mut AnyConnection, key: i64) -> Result<StoredRun, sqlx::Error> {
    let row = sqlx::query(
        "SELECT r.run, r.id, r.source, r.name, r.started_at_ns, r.imported_at_ns, \
         (SELECT f.class FROM findings f WHERE f.run = r.run AND f.position = 0) AS first_finding, \
         r.files, r.missing, r.measured FROM runs r WHERE r.run = $1",
    )
    .bind(key)
    .fetch_one(&mut *connection)
    .await?;
    let (files, missing): (String, String) = (row.try_get(7)?, row.try_get(8)?);
    let texts = |text: &str| {
        serde_json::from_str::<Vec<String>>(text).map_err(|error| sqlx::Error::Decode(error.into()))
    };
    let software = software(connection, key).await?;
    let mut findings = Vec::new();
    for row in sqlx::query("SELECT document FROM findings WHERE run = $1 ORDER BY position")
        .bind(key)
        .fetch_all(&mut *connection)
        .await?
    {
        findings.push(row.try_get(0)?);
    }
    Ok(StoredRun {
        files: texts(&files)?,
        missing: texts(&missing)?,
        software,
        figures: figures(connection, key).await?,
        findings,
        measured: row.try_get(9)?,
        row: with_lists(connection, key, run_row(&row)?).await?,
    })
}

/// A run with its labels and products.
async fn with_lists(
    connection: &mut AnyConnection,
    key: i64,
    mut run: RunRow,
) -> Result<RunRow, sqlx::Error> {
    for label in sqlx::query("SELECT name, value FROM run_labels WHERE run = $1 ORDER BY name")
        .bind(key)
        .fetch_all(&mut *connection)
        .await?
    {
        run.labels.insert(label.try_get(0)?, label.try_get(1)?);
    }
    for product in sqlx::query("SELECT product FROM run_hardware WHERE run = $1 ORDER BY product")
        .bind(key)
        .fetch_all(&mut *connection)
        .await?
    {
        run.hardware.push(product.try_get(0)?);
    }
    Ok(run)
}

async fn software(
    connection: &mut AnyConnection,
    key: i64,
) -> Result<Vec<(String, String)>, sqlx::Error> {
    let rows =
        sqlx::query("SELECT name, version FROM run_software WHERE run = $1 ORDER BY name, version")
            .bind(key)
            .fetch_all(&mut *connection)
            .await?;
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect()
}

async fn figures(connection: &mut AnyConnection, key: i64) -> Result<Vec<Figure>, sqlx::Error> {
    let rows = sqlx::query(
        "SELECT n.text, f.rank, f.device, p.text AS part, f.integer_value, f.real_value, f.unknown \
         FROM figures f JOIN names n ON n.name = f.figure LEFT JOIN names p ON p.name = f.part \
         WHERE f.run = $1 ORDER BY f.position",
    )
    .bind(key)
    .fetch_all(&mut *connection)
    .await?;
    rows.iter().map(figure).collect()
}

fn figure(row: &AnyRow) -> Result<Figure, sqlx::Error> {
    let rank: Option<i64> = row.try_get(1)?;
    let integer: Option<i64> = row.try_get(4)?;
    let real: Option<f64> = row.try_get(5)?;
    let unknown: Option<String> = row.try_get(6)?;
    Ok(Figure {
        name: row.try_get(0)?,
        scope: Scope {
            rank: rank.and_then(|rank| u32::try_from(rank).ok()),
            device: row.try_get(2)?,
            part: row.try_get(3)?,
        },
        value: match (integer, real) {
            (Some(value), _) => Value::Integer(value),
            (None, Some(value)) => Value::Real(value),
            (None, None) => Value::Unknown(unknown.unwrap_or_default()),
        },
    })
}
