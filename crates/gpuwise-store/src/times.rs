//! Kernel time of a run by name.

use crate::{
    Store,
    error::{StoreError, failed},
    hash,
    save::{ROWS, insert, place},
};
use gpuwise_domain::profile::figures::{NamedTime, StepKind, StepTime, TimedBy};
use sqlx::{AnyConnection, Row as _, any::AnyRow};

const COLUMNS: &[&str] = &[
    "run",
    "position",
    "kind",
    "name",
    "calls",
    "time_ns",
    "call_variance",
    "step_kind",
    "step_count",
    "step_mean_ns",
    "step_variance",
];

pub(crate) async fn save(
    connection: &mut AnyConnection,
    run: i64,
    times: &[NamedTime],
) -> Result<(), sqlx::Error> {
    for (index, chunk) in times.chunks(ROWS).enumerate() {
        let sql = insert("kernel_times", COLUMNS, chunk.len());
        let mut query = sqlx::query(sqlx::AssertSqlSafe(sql));
        for (offset, time) in chunk.iter().enumerate() {
            let steps = time.steps.as_ref();
            query = query
                .bind(run)
                .bind(place(index * ROWS + offset))
                .bind(time.by.name())
                .bind(time.name.as_deref().map(|name| hash::key(name.as_bytes())))
                .bind(i64::try_from(time.calls).unwrap_or(i64::MAX))
                .bind(time.sum_ns)
                .bind(time.call_variance)
                .bind(steps.map(|steps| steps.kind.name()))
                .bind(steps.map(|steps| i64::try_from(steps.count).unwrap_or(i64::MAX)))
                .bind(steps.map(|steps| steps.mean_ns))
                .bind(steps.map(|steps| steps.variance));
        }
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

impl Store {
    /// Kernel time of a run, by its whole id, by operator and by kernel, as it was saved; empty for a run that had none,
    /// or that was kept before times were.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn times(&self, id: &str) -> Result<Vec<NamedTime>, StoreError> {
        let query = sqlx::query(
            "SELECT t.kind, n.text, t.calls, t.time_ns, t.call_variance, t.step_count, \
             t.step_mean_ns, t.step_variance, t.step_kind \
             FROM kernel_times t LEFT JOIN names n ON n.name = t.name \
             WHERE t.run = (SELECT run FROM runs WHERE id = $1) ORDER BY t.position",
        );
        self.runtime
            .block_on(async {
                let rows = query.bind(id).fetch_all(&self.pool).await?;
                rows.iter()
                    .map(time)
                    .collect::<Result<Vec<_>, sqlx::Error>>()
            })
            .map_err(failed("reading times of a run"))
    }
}

fn time(row: &AnyRow) -> Result<NamedTime, sqlx::Error> {
    let kind: String = row.try_get(0)?;
    let mut all = TimedBy::ALL.into_iter();
    let by = all
        .find(|by| by.name() == kind)
        .ok_or_else(|| sqlx::Error::Decode(format!("times by {kind:?}").into()))?;
    let (calls, step_count): (i64, Option<i64>) = (row.try_get(2)?, row.try_get(5)?);
    let (mean, variance): (Option<f64>, Option<f64>) = (row.try_get(6)?, row.try_get(7)?);
    let kind: Option<String> = row.try_get(8)?;
    let kind = kind.and_then(|kind| StepKind::ALL.into_iter().find(|one| one.name() == kind));
    let steps = kind.zip(step_count).zip(mean.zip(variance));
    Ok(NamedTime {
        by,
        name: row.try_get(1)?,
        calls: calls.unsigned_abs(),
        sum_ns: row.try_get(3)?,
        call_variance: row.try_get(4)?,
        steps: steps.map(|((kind, count), (mean_ns, variance))| StepTime {
            kind,
            count: count.unsigned_abs(),
            mean_ns,
            variance,
        }),
    })
}
