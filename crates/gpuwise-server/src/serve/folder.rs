//! Where a broker keeps what is of one log on this machine: known by the log, however its database is called.

use super::ServeError;
use crate::token;
use gpuwise_broker::Broker;
use gpuwise_store::database_id;
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::fs::{OpenOptionsExt as _, symlink},
    path::{Path, PathBuf},
};

/// By what a log is known: the nanosecond at which it began. A copy of a log is the same log, in whichever database,
/// also where its first events are archived.
pub(crate) fn log_id(broker: &Broker) -> String {
    format!("{:016x}", broker.begun().0)
}

/// Two brokers of a machine, each with its log, know nothing of one another's processes.
pub(super) fn of_log(state: &Path, id: &str, store: &str) -> Result<PathBuf, ServeError> {
    let folder = state.join(format!("log-{id}"));
    // An earlier release named it by how the database is called.
    let before = state.join(format!("broker-{}", &token::hash(store)[..8]));
    let moved = moved(&before, &folder);
    moved.map_err(|source| ServeError::Folder {
        folder: folder.display().to_string(),
        source,
    })?;
    Ok(folder)
}

/// Keeps other brokers from what one keeps of a log: a copy of the log, such as a backup that is tried, would take what
/// runs for its own. One of the same database goes on, as that has one writer.
///
/// # Errors
/// When another broker keeps it, or it cannot be made.
pub(super) fn hold(folder: &Path, store: &str) -> Result<File, ServeError> {
    let wrong = |source| ServeError::Folder {
        folder: folder.display().to_string(),
        source,
    };
    fs::create_dir_all(folder).map_err(wrong)?;
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let path = folder.join("broker.lock");
    let mut file = options.mode(0o600).open(path).map_err(wrong)?;
    let own = token::hash(&database_id(store));
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0).map_err(wrong)?;
            file.write_all(own.as_bytes()).map_err(wrong)?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            file.read_to_string(&mut holder).map_err(wrong)?;
            if holder == own {
                return Ok(file);
            }
            let folder = folder.display().to_string();
            Err(ServeError::Held { folder })
        }
        Err(TryLockError::Error(source)) => Err(wrong(source)),
    }
}

/// What runs writes how it ended where the folder was, and finds it there.
fn moved(before: &Path, folder: &Path) -> io::Result<()> {
    if folder.exists() || !before.is_dir() {
        return Ok(());
    }
    fs::rename(before, folder)?;
    symlink(folder, before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_a_log_is_kept_from_what_runs() {
        let state = tempfile::tempdir().expect("a folder");
        let folder = state.path().join("log-1");
        let database = |path: &str| {
            let path = state.path().join(path);
            fs::create_dir_all(path.parent().expect("has one")).expect("is made");
            fs::write(&path, "").expect("writes");
            format!("sqlite://{}", path.display())
        };
        let (own, copy) = (database("a/log.db"), database("copy/log.db"));
        let first = hold(&folder, &own).expect("is free");
        assert!(matches!(hold(&folder, &copy), Err(ServeError::Held { .. })));
        // Another one of the same database, whose writer no longer writes, by another name of it.
        let again = own.replace("/a/", "/copy/../a/");
        drop(hold(&folder, &again).expect("is the same"));
        drop(first);
        drop(hold(&folder, &copy).expect("is free again"));
    }

    #[test]
    fn what_an_earlier_release_kept_is_found_under_both_names() {
        let state = tempfile::tempdir().expect("a folder");
        let store = "sqlite://log.db";
        let old = state
            .path()
            .join(format!("broker-{}", &token::hash(store)[..8]));
        fs::create_dir_all(old.join("leases/L-1")).expect("is made");
        let folder = of_log(state.path(), "0123456789abcdef", store).expect("is moved");
        assert_eq!(folder, state.path().join("log-0123456789abcdef"));
        assert!(folder.join("leases/L-1").is_dir() && old.join("leases/L-1").is_dir());
        // Another spelling of the same database.
        let again = of_log(state.path(), "0123456789abcdef", "sqlite:///log.db");
        assert_eq!(again.expect("is found"), folder);
    }
}
