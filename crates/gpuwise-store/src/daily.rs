//! What is kept of runs that were forgotten: their figures day by day.

use crate::{
    Store,
    error::{StoreError, failed},
    hash,
    save::{ROWS, insert},
};
use sqlx::{AnyConnection, Row as _, any::AnyRow};
use std::collections::BTreeMap;

/// The runs of one name, source, hardware and labels that ran on one day and were forgotten together.
#[derive(Debug, Clone, PartialEq)]
pub struct DailyGroup {
    /// Days since 1970, UTC.
    pub day: i64,
    pub name: String,
    pub source: String,
    pub hardware: Vec<String>,
    pub labels: BTreeMap<String, String>,
    pub forgotten_at_ns: i64,
    pub runs: u64,
    /// By the figure's name.
    pub figures: BTreeMap<String, DailyFigure>,
}

/// A figure of whole files over the runs, and ranks, of a day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DailyFigure {
    /// Values: one for each run and rank that has it.
    pub count: u64,
    pub least: f64,
    pub median: f64,
    pub p90: f64,
    pub most: f64,
}

const GROUP: &[&str] = &[
    "day_group",
    "day",
    "name",
    "source",
    "hardware",
    "labels",
    "forgotten_at_ns",
    "runs",
];
const FIGURE: &[&str] = &[
    "day_group",
    "figure",
    "value_count",
    "least",
    "median",
    "p90",
    "most",
];

pub(crate) async fn save(
    connection: &mut AnyConnection,
    group: &DailyGroup,
) -> Result<(), sqlx::Error> {
    let hardware = serde_json::Value::from(group.hardware.clone()).to_string();
    let labels = labels_text(&group.labels);
    let identity = format!(
        "{} {:?} {:?} {hardware} {labels} {}",
        group.day, group.name, group.source, group.forgotten_at_ns
    );
    let key = hash::key(identity.as_bytes());
    let sql = insert("daily_groups", GROUP, 1);
    sqlx::query(sqlx::AssertSqlSafe(sql))
        .bind(key)
        .bind(group.day)
        .bind(&group.name)
        .bind(&group.source)
        .bind(hardware)
        .bind(labels)
        .bind(group.forgotten_at_ns)
        .bind(i64::try_from(group.runs).unwrap_or(i64::MAX))
        .execute(&mut *connection)
        .await?;
    let figures: Vec<(&String, &DailyFigure)> = group.figures.iter().collect();
    for chunk in figures.chunks(ROWS) {
        let sql = insert("daily_figures", FIGURE, chunk.len());
        let mut query = sqlx::query(sqlx::AssertSqlSafe(sql));
        for (name, figure) in chunk {
            query = query
                .bind(key)
                .bind(hash::key(name.as_bytes()))
                .bind(i64::try_from(figure.count).unwrap_or(i64::MAX))
                .bind(figure.least)
                .bind(figure.median)
                .bind(figure.p90)
                .bind(figure.most);
        }
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

fn labels_text(labels: &BTreeMap<String, String>) -> String {
    let pairs = labels
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().into()));
    serde_json::Value::Object(pairs.collect()).to_string()
}

impl Store {
    /// Days of forgotten runs of a name, or of all names, with these figures; the oldest first.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn daily(
        &self,
        name: Option<&str>,
        figures: &[&str],
    ) -> Result<Vec<DailyGroup>, StoreError> {
        let groups = sqlx::query(
            "SELECT day_group, day, name, source, hardware, labels, forgotten_at_ns, runs \
             FROM daily_groups WHERE CAST($1 AS TEXT) IS NULL OR name = $1 \
             ORDER BY day, name, forgotten_at_ns, day_group",
        )
        .bind(name);
        let of_groups = "SELECT f.day_group, f.value_count, f.least, f.median, f.p90, f.most \
             FROM daily_figures f JOIN daily_groups g ON g.day_group = f.day_group \
             WHERE f.figure = $2 AND (CAST($1 AS TEXT) IS NULL OR g.name = $1)";
        self.runtime
            .block_on(async {
                let mut connection = self.pool.acquire().await?;
                let mut all: BTreeMap<i64, DailyGroup> = BTreeMap::new();
                let mut order = Vec::new();
                for row in groups.fetch_all(&mut *connection).await? {
                    let (key, group) = group(&row)?;
                    order.push(key);
                    all.insert(key, group);
                }
                for figure in figures {
                    let query = sqlx::query(of_groups)
                        .bind(name)
                        .bind(hash::key(figure.as_bytes()));
                    for row in query.fetch_all(&mut *connection).await? {
                        let key: i64 = row.try_get(0)?;
                        if let Some(group) = all.get_mut(&key) {
                            group.figures.insert((*figure).to_owned(), values(&row)?);
                        }
                    }
                }
                let groups = order.iter().filter_map(|key| all.remove(key));
                Ok::<_, sqlx::Error>(groups.collect())
            })
            .map_err(failed("reading daily summaries"))
    }

    /// Forgets days before this one; how many groups of runs.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn forget_daily(&self, before_day: i64) -> Result<u64, StoreError> {
        let query = sqlx::query("DELETE FROM daily_groups WHERE day < $1").bind(before_day);
        self.runtime
            .block_on(query.execute(&self.pool))
            .map(|done| done.rows_affected())
            .map_err(failed("forgetting daily summaries"))
    }
}

fn group(row: &AnyRow) -> Result<(i64, DailyGroup), sqlx::Error> {
    let (hardware, labels): (String, String) = (row.try_get(4)?, row.try_get(5)?);
    let broken = |error: serde_json::Error| sqlx::Error::Decode(error.into());
    let runs: i64 = row.try_get(7)?;
    let group = DailyGroup {
        day: row.try_get(1)?,
        name: row.try_get(2)?,
        source: row.try_get(3)?,
        hardware: serde_json::from_str(&hardware).map_err(broken)?,
        labels: serde_json::from_str(&labels).map_err(broken)?,
        forgotten_at_ns: row.try_get(6)?,
        runs: runs.unsigned_abs(),
        figures: BTreeMap::new(),
    };
    Ok((row.try_get(0)?, group))
}

fn values(row: &AnyRow) -> Result<DailyFigure, sqlx::Error> {
    let count: i64 = row.try_get(1)?;
    Ok(DailyFigure {
        count: count.unsigned_abs(),
        least: row.try_get(2)?,
        median: row.try_get(3)?,
        p90: row.try_get(4)?,
        most: row.try_get(5)?,
    })
}
