//! Where the database is, and how it is opened.

use crate::error::Problem;
use clap::Args;
use gpuwise_store::Store;
use std::{
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

/// Which database.
#[derive(Debug, Clone, Args)]
pub(crate) struct DatabaseFlags {
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
    pub(crate) fn open(&self) -> anyhow::Result<Store> {
        let address = match &self.database {
            Some(address) => address.clone(),
            None => default_file()?,
        };
        Ok(Store::open(&address)?)
    }

    /// As messages name it, without a password.
    pub(crate) fn shown(&self) -> String {
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

/// Now, in nanoseconds since 1970.
pub(crate) fn now_ns() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_nanos()).ok())
        .unwrap_or(i64::MAX)
}
