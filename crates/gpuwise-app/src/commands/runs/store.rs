//! Where the database is, and how it is opened.

use crate::error::Problem;
use clap::Args;
use gpuwise_store::{Store, StoreError};
use std::path::PathBuf;

/// Which database.
#[derive(Debug, Clone, Args)]
pub struct DatabaseFlags {
    /// Database of runs and proposals: a file, or postgres://user@host/name [default: runs.db in the user's data directory]
    #[arg(
        long,
        env = "GPUWISE_DATABASE",
        value_name = "FILE|URL",
        hide_env_values = true
    )]
    database: Option<String>,
}

impl DatabaseFlags {
    /// Opens it; a file that is not there is made.
    ///
    /// # Errors
    /// When there is no such database, or no place for one.
    pub fn open(&self) -> anyhow::Result<Store> {
        let address = match &self.database {
            Some(address) => address.clone(),
            None => default_file()?,
        };
        match Store::open(&address) {
            Err(error @ StoreError::NotBuilt { .. }) => Err(Problem::new(error.to_string())
                .hint("the wheel has it; to build it: `cargo build --release -p gpuwise --features postgres`")
                .into()),
            opened => Ok(opened?),
        }
    }

    /// Where it is said to be.
    pub fn address(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// As messages name it, without a password.
    pub fn shown(&self) -> String {
        match &self.database {
            Some(address) => gpuwise_store::shown(address),
            None => default_file().unwrap_or_else(|_| "the database".into()),
        }
    }
}

/// The user's own database, its directory made.
fn default_file() -> anyhow::Result<String> {
    let set = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        // A relative path is to be ignored, as the XDG base directory specification says.
        path.is_absolute().then_some(path)
    };
    let directory = set("XDG_DATA_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".local/share")))
        .ok_or_else(|| {
            Problem::new("there is no place for a database of your own")
                .hint("set HOME or XDG_DATA_HOME, or name one with --database")
        })?
        .join("gpuwise");
    std::fs::create_dir_all(&directory).map_err(|source| {
        Problem::new(format!("{} cannot be made", directory.display())).because(source)
    })?;
    Ok(directory.join("runs.db").display().to_string())
}

/// Now, in nanoseconds since 1970; a clock that is set before that gives a negative time, never a late one.
pub fn now_ns() -> i64 {
    clamped(jiff::Timestamp::now().as_nanosecond())
}

/// So many days before a time, in nanoseconds since 1970. What lies before the first time that can be
/// written (1677) is that time: more days reach further back, never forward.
pub fn days_before(at_ns: i64, days: u32) -> i64 {
    clamped(i128::from(at_ns) - i128::from(days) * 86_400_000_000_000)
}

fn clamped(ns: i128) -> i64 {
    ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use super::days_before;

    #[test]
    fn more_days_never_reach_forward() {
        let now = 1_780_000_000_000_000_000;
        assert_eq!(days_before(now, 0), now);
        assert_eq!(days_before(now, 1), now - 86_400_000_000_000);
        let days = [1, 30, 106_751, 106_752, 213_503, 213_504, 365_000, u32::MAX];
        for pair in days.windows(2) {
            assert!(
                days_before(now, pair[1]) <= days_before(now, pair[0]),
                "{pair:?}"
            );
        }
        assert_eq!(days_before(now, u32::MAX), i64::MIN);
    }
}
