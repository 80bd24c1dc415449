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
    /// The row of the one that writes was changed by hand.
    #[error("the log is damaged: its epoch is {epoch}, and none can follow it")]
    LastEpoch { epoch: i64 },
    #[error("the log has a gap: event {expected} is missing before event {found}")]
    Gap { expected: u64, found: u64 },
    /// Events at the end of the log that were written are no longer there.
    #[error("events after {last} are missing: the log was written up to event {head}")]
    Tail { last: u64, head: u64 },
    /// Events that are asked for were moved into a file.
    #[error(
        "event {expected} is no longer in the database: events up to {last} were archived in {file}"
    )]
    Archived {
        expected: u64,
        last: u64,
        file: String,
    },
    /// What was written may be kept or not: the answer was lost.
    #[error("database: {deed} may have failed")]
    Unsure {
        deed: &'static str,
        #[source]
        source: sqlx::Error,
    },
    /// A server that does not answer.
    #[error("database: {deed} had no answer for {seconds} s")]
    Silent { deed: &'static str, seconds: u64 },
    /// Only what is there can be read.
    #[error("there is no database {address}")]
    Missing { address: String },
    /// A backup is put back into an empty log only.
    #[error("the log holds {events} events already: a backup is restored into an empty one only")]
    NotEmpty { events: u64 },
    #[error("the log is empty: there is nothing to keep")]
    Empty,
    #[error("event {seq} of the log cannot be kept as a line: {problem}")]
    Line { seq: u64, problem: &'static str },
    /// A backup that was cut off or changed.
    #[error("{file}:{line}: {problem}")]
    Damaged {
        file: String,
        line: u64,
        problem: String,
    },
    #[error("{file} cannot be {deed}")]
    File {
        file: String,
        /// Written, read.
        deed: &'static str,
        #[source]
        source: std::io::Error,
    },
    #[error("{file} is there already")]
    There { file: String },
    #[error("the database driver cannot be started")]
    Runtime(#[source] std::io::Error),
}

impl StoreError {
    /// Whether what was to be written may have been: the answer was lost, not the deed refused.
    pub const fn is_unsure(&self) -> bool {
        matches!(self, Self::Unsure { .. } | Self::Silent { .. })
    }
}

/// A statement's failure with the deed that it was part of.
pub(crate) fn failed(deed: &'static str) -> impl FnOnce(sqlx::Error) -> StoreError {
    move |source| StoreError::Statement { deed, source }
}
