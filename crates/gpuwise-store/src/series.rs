//! Figures over many runs, all of them in one look.

use crate::{
    Filter, RunId, Store,
    error::{StoreError, failed},
    hash,
    save::ROWS,
};
use gpuwise_domain::profile::figure::Scope;
use sqlx::{AnyConnection, Row as _, any::AnyRow};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

/// A figure of one scope over runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub figure: String,
    pub scope: Scope,
    /// By run; none where the figure is unknown.
    pub values: BTreeMap<RunId, Option<f64>>,
}

/// A row as it is kept: figure, rank, device, part.
type Key = (i64, Option<i64>, Option<i64>, Option<i64>);

impl Store {
    /// Figures over the runs that match, by figure and scope; the filter's limit does not count.
    /// `figures` are their names, all where it is empty; without `parts` only figures of whole files.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn series(
        &self,
        filter: &Filter,
        figures: &[&str],
        parts: bool,
    ) -> Result<Vec<Series>, StoreError> {
        let (condition, mut last) = filter.condition();
        let mut sql = format!(
            "SELECT f.run, f.figure, f.rank, f.device, f.part, \
             COALESCE(CAST(f.integer_value AS DOUBLE PRECISION), f.real_value) AS value \
             FROM figures f JOIN runs r ON r.run = f.run WHERE {condition}"
        );
        if !parts {
            sql += " AND f.part IS NULL AND f.device IS NULL";
        }
        if !figures.is_empty() {
            sql += &among("f.figure", &mut last, figures.len());
        }
        let mut query = filter.bind(sqlx::query(sqlx::AssertSqlSafe(sql)));
        for figure in figures {
            query = query.bind(hash::key(figure.as_bytes()));
        }
        self.runtime
            .block_on(async {
                let mut connection = self.pool.acquire().await?;
                let mut all: BTreeMap<Key, BTreeMap<RunId, Option<f64>>> = BTreeMap::new();
                for row in query.fetch_all(&mut *connection).await? {
                    let (key, run, value) = sample(&row)?;
                    all.entry(key).or_default().insert(run, value);
                }
                let keys: BTreeSet<i64> = all
                    .keys()
                    .flat_map(|(figure, _, _, part)| [Some(*figure), *part])
                    .flatten()
                    .collect();
                let names = texts(&mut connection, &keys).await?;
                let text = |key: i64| names.get(&key).cloned().unwrap_or_default();
                let series = all
                    .into_iter()
                    .map(|((figure, rank, device, part), values)| Series {
                        figure: text(figure),
                        scope: Scope {
                            rank: rank.and_then(|rank| u32::try_from(rank).ok()),
                            device,
                            part: part.map(text),
                        },
                        values,
                    });
                Ok::<_, sqlx::Error>(series.collect())
            })
            .map_err(failed("reading figures over runs"))
    }
}

fn sample(row: &AnyRow) -> Result<(Key, RunId, Option<f64>), sqlx::Error> {
    let key = (
        row.try_get(1)?,
        row.try_get(2)?,
        row.try_get(3)?,
        row.try_get(4)?,
    );
    Ok((key, RunId(row.try_get(0)?), row.try_get(5)?))
}

/// A condition that a column is one of so many parameters.
fn among(column: &str, last: &mut usize, count: usize) -> String {
    let mut text = format!(" AND {column} IN (");
    for place in 0..count {
        *last += 1;
        let comma = if place == 0 { "" } else { ", " };
        // Writing to a text cannot fail.
        let _ = write!(text, "{comma}${last}");
    }
    text + ")"
}

/// Names by their keys.
async fn texts(
    connection: &mut AnyConnection,
    keys: &BTreeSet<i64>,
) -> Result<BTreeMap<i64, String>, sqlx::Error> {
    let keys: Vec<i64> = keys.iter().copied().collect();
    let mut texts = BTreeMap::new();
    for chunk in keys.chunks(ROWS) {
        let sql = format!(
            "SELECT name, text FROM names WHERE 1 = 1{}",
            among("name", &mut 0, chunk.len())
        );
        let mut query = sqlx::query(sqlx::AssertSqlSafe(sql));
        for key in chunk {
            query = query.bind(*key);
        }
        for row in query.fetch_all(&mut *connection).await? {
            texts.insert(row.try_get(0)?, row.try_get(1)?);
        }
    }
    Ok(texts)
}
