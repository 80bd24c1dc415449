//! One figure over many runs.

use crate::{
    Filter, Store,
    error::{StoreError, failed},
    hash,
};
use gpuwise_domain::profile::figure::Scope;
use sqlx::Row as _;

#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub run: String,
    pub name: String,
    /// When it ran, or was brought where that is not known, in nanoseconds since 1970.
    pub at_ns: i64,
    pub value: f64,
}

impl Store {
    /// A figure of one scope over the runs that match, the oldest first. Runs that lack it, or where
    /// it is unknown, are left out.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn series(
        &self,
        figure: &str,
        scope: &Scope,
        filter: &Filter,
    ) -> Result<Vec<Point>, StoreError> {
        let (condition, last) = filter.condition();
        let sql = format!(
            "SELECT r.id, r.name, COALESCE(r.started_at_ns, r.imported_at_ns) AS at_ns, \
             COALESCE(CAST(f.integer_value AS DOUBLE PRECISION), f.real_value) AS value \
             FROM figures f JOIN runs r ON r.run = f.run \
             WHERE f.figure = ${a} AND COALESCE(f.rank, -1) = ${b} \
             AND COALESCE(f.device, -9223372036854775807) = ${c} AND COALESCE(f.part, -1) = ${d} \
             AND (f.integer_value IS NOT NULL OR f.real_value IS NOT NULL) AND {condition} \
             ORDER BY at_ns, r.id",
            a = last + 1,
            b = last + 2,
            c = last + 3,
            d = last + 4,
        );
        let query = filter
            .bind(sqlx::query(sqlx::AssertSqlSafe(sql)))
            .bind(hash::key(figure.as_bytes()))
            .bind(scope.rank.map_or(-1, i64::from))
            .bind(scope.device.unwrap_or(-i64::MAX))
            .bind(
                scope
                    .part
                    .as_deref()
                    .map_or(-1, |part| hash::key(part.as_bytes())),
            );
        self.runtime
            .block_on(async {
                let rows = query.fetch_all(&self.pool).await?;
                rows.iter()
                    .map(|row| {
                        Ok(Point {
                            run: row.try_get(0)?,
                            name: row.try_get(1)?,
                            at_ns: row.try_get(2)?,
                            value: row.try_get(3)?,
                        })
                    })
                    .collect::<Result<Vec<_>, sqlx::Error>>()
            })
            .map_err(failed("reading a figure over runs"))
    }
}
