//! What can go wrong between us and the database.

/// Why the database did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The address is none that we know.
    #[error("`{address}` is no database: give a file, sqlite:FILE or postgres://user@host/name")]
    Address {
        /// What was given, without its password.
        address: String,
    },
    /// A server, and the driver for it is not built in.
    #[error("database {address}: this gpuwise was built without PostgreSQL")]
    NotBuilt {
        /// Which, without its password.
        address: String,
    },
    #[error("database {address} cannot be opened")]
    Open {
        /// Which, without its password.
        address: String,
        /// What the driver says.
        #[source]
        source: sqlx::Error,
    },
    #[error("database: {deed} failed")]
    Statement {
        deed: &'static str,
        /// What the driver says.
        #[source]
        source: sqlx::Error,
    },
    /// A newer program has changed the tables.
    #[error(
        "the database has tables of version {found}, this program knows {known}: a newer gpuwise wrote it"
    )]
    Newer {
        found: i64,
        /// The newest that this program knows.
        known: i64,
    },
    /// A migration that was applied reads differently now.
    #[error(
        "migration {version} was applied with another text: the database was made by a changed build"
    )]
    Changed { version: i64 },
    #[error("run {run}: {what} cannot be read back: {problem}")]
    Stored {
        run: String,
        what: &'static str,
        problem: String,
    },
    /// There is none, or more than one, by this name.
    #[error("{count} runs have an id that begins with `{prefix}`")]
    Which { prefix: String, count: usize },
    /// Another program was faster.
    #[error("some of these runs were forgotten meanwhile by another program; nothing was changed")]
    Meanwhile,
    /// Another program writes the log now.
    #[error(
        "the log is written by another gpuwise now: epoch {epoch}, which this one holds, is over"
    )]
    Fenced { epoch: i64 },
    #[error("the log has a gap: event {expected} is missing before event {found}")]
    Gap { expected: u64, found: u64 },
    #[error("the database driver cannot be started")]
    Runtime(#[source] std::io::Error),
}

/// A statement's failure with the deed that it was part of.
pub(crate) fn failed(deed: &'static str) -> impl FnOnce(sqlx::Error) -> StoreError {
    move |source| StoreError::Statement { deed, source }
}
