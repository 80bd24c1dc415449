//! What a broker keeps is readable by its own account alone.

use crate::error::Problem;
use rustix::{fs::Mode, process};
use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

/// From the first file on; what it was before.
pub(super) fn umask() -> u32 {
    process::umask(Mode::RWXG | Mode::RWXO).bits()
}

/// What an earlier release left readable for others is not any more.
///
/// # Errors
/// When it is another account's, or stays as it is.
pub(super) fn tighten(store: &str, state: &Path) -> anyhow::Result<()> {
    let database = store.strip_prefix("sqlite://").map(|rest| {
        let file = rest.split_once('?').map_or(rest, |(file, _)| file);
        PathBuf::from(file)
    });
    let mut all: Vec<PathBuf> = Vec::new();
    if let Some(database) = database {
        let name = database.as_os_str();
        let beside = ["-wal", "-shm", "-journal"].map(|end| {
            let mut name = name.to_owned();
            name.push(end);
            PathBuf::from(name)
        });
        all.push(database);
        all.extend(beside);
    }
    // Nothing below a folder that is for its account alone can be reached by another.
    all.push(state.to_owned());
    for path in all {
        tightened(&path).map_err(|source| {
            Problem::new(format!("{} can be read by other accounts", path.display()))
                .because(source)
                .hint("chmod go= takes that from them")
        })?;
    }
    Ok(())
}

fn tightened(path: &Path) -> io::Result<()> {
    let about = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        about => about?,
    };
    let (own, others) = (about.mode() & 0o7700, about.mode() & 0o077);
    if others == 0 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_an_earlier_release_are_taken_from_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let (database, state) = (folder.path().join("log.db"), folder.path().join("state"));
        fs::create_dir(&state).expect("is made");
        let wal = folder.path().join("log.db-wal");
        for file in [&database, &wal] {
            fs::write(file, "").expect("writes");
            fs::set_permissions(file, Permissions::from_mode(0o644)).expect("is set");
        }
        fs::set_permissions(&state, Permissions::from_mode(0o755)).expect("is set");
        let store = format!("sqlite://{}?mode=rwc", database.display());
        tighten(&store, &state).expect("is ours");
        let mode = |path: &Path| fs::metadata(path).expect("is there").mode() & 0o777;
        assert_eq!(mode(&database), 0o600);
        assert_eq!(mode(&wal), 0o600);
        assert_eq!(mode(&state), 0o700);
        tighten("postgres://user@host/name", &folder.path().join("nowhere"))
            .expect("nothing is there");
    }
}
