//! Brings tables up to date: numbered texts, each applied once, in one transaction.

use crate::{
    error::{StoreError, failed},
    hash,
};
use sqlx::{AnyPool, Row as _};

/// Versions and their texts, oldest first. A text that was released is never changed.
const MIGRATIONS: &[(i64, &str)] = &[
    (1, include_str!("../migrations/0001_runs.sql")),
    (2, include_str!("../migrations/0002_kernel_times.sql")),
    (3, include_str!("../migrations/0003_daily.sql")),
    (4, include_str!("../migrations/0004_runs_by_name.sql")),
    (5, include_str!("../migrations/0005_log.sql")),
    (6, include_str!("../migrations/0006_snapshots.sql")),
    (7, include_str!("../migrations/0007_chain.sql")),
];

/// Applies what is missing.
pub(crate) async fn up_to_date(pool: &AnyPool) -> Result<(), StoreError> {
    up_to(pool, MIGRATIONS).await
}

async fn up_to(pool: &AnyPool, known: &[(i64, &'static str)]) -> Result<(), StoreError> {
    const DEED: &str = "bringing tables up to date";
    sqlx::query(
        "CREATE TABLE IF NOT EXISTS migrations (version BIGINT PRIMARY KEY, text_hash BIGINT NOT NULL)",
    )
    .execute(pool)
    .await
    .map_err(failed(DEED))?;
    let newest = known.last().map_or(0, |(version, _)| *version);
    for row in sqlx::query("SELECT version, text_hash FROM migrations ORDER BY version")
        .fetch_all(pool)
        .await
        .map_err(failed(DEED))?
    {
        let version: i64 = row.try_get(0).map_err(failed(DEED))?;
        let applied: i64 = row.try_get(1).map_err(failed(DEED))?;
        match known.iter().find(|(number, _)| *number == version) {
            None => {
                return Err(StoreError::Newer {
                    found: version,
                    known: newest,
                });
            }
            Some((_, text)) if hash::key(text.as_bytes()) != applied => {
                return Err(StoreError::Changed { version });
            }
            Some(_) => {}
        }
    }
    for (version, text) in known {
        apply(pool, *version, text).await.map_err(failed(DEED))?;
    }
    Ok(())
}

/// Applies one migration, unless somebody has. The row that says so is written first: of two
/// programs that start at once, one waits for the other and then finds it done.
async fn apply(pool: &AnyPool, version: i64, text: &'static str) -> Result<(), sqlx::Error> {
    let mut transaction = pool.begin().await?;
    let new = sqlx::query(
        "INSERT INTO migrations (version, text_hash) VALUES ($1, $2) ON CONFLICT (version) DO NOTHING",
    )
    .bind(version)
    .bind(hash::key(text.as_bytes()))
    .execute(&mut *transaction)
    .await?
    .rows_affected();
    if new == 1 {
        for statement in statements(text) {
            sqlx::query(sqlx::AssertSqlSafe(statement))
                .execute(&mut *transaction)
                .await?;
        }
    }
    transaction.commit().await
}

/// The statements of a migration, without its comments.
fn statements(text: &str) -> Vec<String> {
    let plain: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"))
        .fold(String::new(), |text, line| text + line + "\n");
    plain
        .split(';')
        .map(str::trim)
        .filter(|statement| !statement.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_older_release_kept_stays_when_tables_are_added() {
        sqlx::any::install_default_drivers();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let runs: i64 = runtime.block_on(async {
            let options = sqlx::any::AnyPoolOptions::new().max_connections(1);
            let pool = options.connect("sqlite::memory:").await.expect("opens");
            for (oldest, newest) in MIGRATIONS.iter().zip(MIGRATIONS.iter().skip(1)) {
                assert!(oldest.0 < newest.0);
            }
            up_to(&pool, &MIGRATIONS[..1]).await.expect("applies");
            let run = "INSERT INTO runs (run, id, source, name, imported_at_ns, files, missing, measured) \
                       VALUES (1, '01', 'profile', 'a', 1, '[]', '[]', '')";
            sqlx::query(run).execute(&pool).await.expect("inserts");
            for _ in 0..2 {
                up_to_date(&pool).await.expect("applies");
            }
            let both = "SELECT COUNT(*) FROM runs r LEFT JOIN kernel_times t ON t.run = r.run";
            let row = sqlx::query(both).fetch_one(&pool).await.expect("reads");
            row.try_get(0).expect("a count")
        });
        assert_eq!(runs, 1);
    }
}
