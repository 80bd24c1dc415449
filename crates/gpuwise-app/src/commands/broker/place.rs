//! Where the broker of this user keeps what is its own.

use crate::error::Problem;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// A directory of the XDG base directory specification for gpuwise; relative paths are ignored, as it says.
fn directory(variable: &str, usual: &str) -> anyhow::Result<PathBuf> {
    let set = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let found = set(variable).or_else(|| set("HOME").map(|home| home.join(usual)));
    let found = found.ok_or_else(|| {
        Problem::new("there is no directory of your own for the broker")
            .hint(format!("set HOME or {variable}"))
    })?;
    Ok(found.join("gpuwise"))
}

/// The database of a broker for which none is named.
pub(super) fn store() -> anyhow::Result<PathBuf> {
    Ok(directory("XDG_DATA_HOME", ".local/share")?.join("broker.db"))
}

/// Where processes of the local executor keep their logs.
pub(super) fn state() -> anyhow::Result<PathBuf> {
    directory("XDG_STATE_HOME", ".local/state")
}

/// Where, within its own directory, a broker that listens here writes the first administrator's token, and
/// clients look for it.
pub(super) fn token(state: &Path, host: &str, port: u16) -> PathBuf {
    state.join(format!(
        "{}_{port}.token",
        host.replace(['[', ']', ':'], "-")
    ))
}

pub(super) fn token_of(state: &Path, address: SocketAddr) -> PathBuf {
    token(state, &address.ip().to_string(), address.port())
}
