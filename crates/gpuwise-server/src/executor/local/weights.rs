//! Weights are read into the memory of this machine before what needs them starts.
//!
//! What is read lies in the page cache: the next start reads it from there. The system drops what it needs the memory
//! for; nothing is pinned. What gives way is told to it as no longer needed.

use super::account::{self, Account};
use crate::message::Incoming;
use gpuwise_broker::{Lease, Observation, OrderId};
use rustix::fs::{Advice, fadvise};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc::Sender},
    thread,
};

/// Read at a time.
const PIECE: usize = 8 << 20;
/// Files of a folder at most, and folders within folders.
const FILES: usize = 100_000;
const DEPTH: usize = 8;

/// How a command of a tenant runs.
#[derive(Debug, Clone, Default)]
pub(super) struct CommandSettings {
    /// `None`: the broker's own.
    pub(super) account: Option<Account>,
    /// All of it.
    pub(super) environment: BTreeMap<String, String>,
}

/// Orders that are under way.
#[derive(Debug, Clone, Default)]
pub(super) struct Weights(Arc<Mutex<BTreeSet<OrderId>>>);

impl Weights {
    /// Puts the weights of a lease there, or lets go of them, beside all else; told twice it is done once.
    pub(super) fn take(
        &self,
        order: OrderId,
        lease: &Lease,
        keep: bool,
        how: Result<CommandSettings, String>,
        inbox: &Sender<Incoming>,
    ) -> Option<Observation> {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !own.insert(order) {
            return None;
        }
        drop(own);
        let service = lease.ask.service.as_ref();
        let path = service.and_then(|one| one.weights.clone());
        let command = service.and_then(|one| one.prefetch.clone());
        let (inbox, all) = (inbox.clone(), self.clone());
        let work = move || {
            let done = match (keep, command, path) {
                (true, Some(command), _) => how.and_then(|how| run(&command, &how)),
                (true, None, Some(path)) => each(Path::new(&path), read),
                (true, None, None) => Err("its weights have no path and no command".into()),
                (false, None, Some(path)) => each(Path::new(&path), forget),
                // What a command has put there is its own business.
                (false, _, _) => Ok(()),
            };
            let seen = match done {
                Ok(()) => Observation::Done(order),
                Err(reason) => Observation::failed(order, reason),
            };
            let mut own = all.0.lock().unwrap_or_else(PoisonError::into_inner);
            own.remove(&order);
            drop(own);
            // The writer may be gone already.
            let _ = inbox.send(Incoming::Observed(seen));
        };
        let spawned = thread::Builder::new().name("weights".into()).spawn(work);
        let reason = spawned.err()?.to_string();
        Some(Observation::failed(order, reason))
    }
}

fn run(command: &str, how: &CommandSettings) -> Result<(), String> {
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", command])
        .env_clear()
        .envs(&how.environment)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if how.account.is_some() {
        // Where we are may not be for it to see.
        shell.current_dir("/");
    }
    let child = account::spawn(&mut shell, how.account.as_ref());
    match child.and_then(|mut child| child.wait()) {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} ended with {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

/// Does something to a file, or to all files of a folder.
fn each(path: &Path, with: fn(&File) -> io::Result<()>) -> Result<(), String> {
    let named = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let mut files = Vec::new();
    list(path, DEPTH, &mut files).map_err(|error| named(path, error))?;
    if files.is_empty() {
        return Err(format!("{}: there is no file", path.display()));
    }
    for path in files {
        let file = File::open(&path).map_err(|error| named(&path, error))?;
        with(&file).map_err(|error| named(&path, error))?;
    }
    Ok(())
}

fn list(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let about = fs::metadata(path)?;
    if about.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    if !about.is_dir() || depth == 0 {
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        if files.len() >= FILES {
            return Err(io::Error::other("too many files"));
        }
        list(&entry?.path(), depth - 1, files)?;
    }
    Ok(())
}

/// Told first that all of it will be needed, in order: the system then reads ahead as far as it goes.
fn read(file: &File) -> io::Result<()> {
    fadvise(file, 0, None, Advice::Sequential)?;
    fadvise(file, 0, None, Advice::WillNeed)?;
    let mut piece = vec![0; PIECE];
    let mut from = file;
    while from.read(&mut piece)? > 0 {}
    Ok(())
}

fn forget(file: &File) -> io::Result<()> {
    fadvise(file, 0, None, Advice::DontNeed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_of_a_folder_are_read_and_let_go_of_and_what_is_not_there_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("snapshot");
        fs::create_dir(&inner).expect("a folder");
        for name in ["model-1.safetensors", "snapshot/model-2.safetensors"] {
            fs::write(folder.path().join(name), vec![7; 3 << 20]).expect("writes");
        }
        let mut files = Vec::new();
        list(folder.path(), DEPTH, &mut files).expect("is listed");
        assert_eq!(files.len(), 2);
        assert_eq!(each(folder.path(), read), Ok(()));
        assert_eq!(each(folder.path(), forget), Ok(()));
        let gone = each(&folder.path().join("nowhere"), read);
        assert!(gone.is_err_and(|error| error.contains("nowhere")));
        let mut how = CommandSettings::default();
        let failed = run("exit 3", &how);
        assert!(failed.is_err_and(|error| error.contains("exit 3")));
        how.environment.insert("GPUWISE_LEASE".into(), "L-1".into());
        let only = "test $GPUWISE_LEASE = L-1 && ! env | grep -q CARGO";
        how.environment
            .insert("PATH".into(), "/usr/bin:/bin".into());
        assert_eq!(run(only, &how), Ok(()));
    }
}
