//! What the operating system allows.

use std::io;

/// Lets this process have as many connections as the system ever lets it.
///
/// # Errors
/// When the limit cannot be raised.
#[cfg(unix)]
pub fn allow_connections() -> io::Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return Ok(());
    }
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// Lets this process have as many connections as the system ever lets it.
///
/// # Errors
/// Never: there is no such limit here.
#[cfg(not(unix))]
pub fn allow_connections() -> io::Result<()> {
    Ok(())
}
