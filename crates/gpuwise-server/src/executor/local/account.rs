//! Under which account of this machine commands of leases run.

use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
};

/// An account of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    /// Groups that it is in besides.
    pub groups: Vec<u32>,
    pub home: PathBuf,
    pub shell: String,
}

/// Under which accounts commands run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunAs {
    /// That of tenants that have none of their own; `None`: there is none.
    pub usual: Option<Account>,
    /// By tenant.
    pub of: BTreeMap<String, Account>,
    /// Whether commands of tenants without an account run under that of the broker.
    pub same_account: bool,
}

impl Account {
    /// The account of a name, as this machine's databases have it.
    ///
    /// # Errors
    /// When there is none, or that cannot be found out.
    pub fn named(name: &str) -> Result<Self, String> {
        let entry = asked("getent", &["passwd", "--", name])?;
        let groups = asked("id", &["-G", "--", name])?;
        Self::read(&entry, &groups)
            .ok_or_else(|| format!("what is said of account {name:?} cannot be read: {entry:?}"))
    }

    /// A line of passwd(5), and numbers of groups.
    fn read(entry: &str, groups: &str) -> Option<Self> {
        let fields: Vec<&str> = entry.trim().split(':').collect();
        let [name, _, uid, gid, _, home, shell] = fields.as_slice() else {
            return None;
        };
        let groups = groups.split_whitespace().map(|one| one.parse().ok());
        Some(Self {
            name: (*name).to_owned(),
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
            groups: groups.collect::<Option<Vec<u32>>>()?,
            home: home.into(),
            shell: (*shell).to_owned(),
        })
    }
}

fn asked(program: &str, words: &[&str]) -> Result<String, String> {
    let done = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program} cannot be started: {error}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    Err(match words.last() {
        Some(name) => format!("there is no account {name:?} on this machine"),
        None => format!("{program} ended with {}", done.status),
    })
}

impl RunAs {
    /// That of a tenant; `None`: the broker's own.
    ///
    /// # Errors
    /// When it has none.
    pub(super) fn of_tenant(&self, tenant: &str) -> Result<Option<&Account>, String> {
        let found = self.of.get(tenant).or(self.usual.as_ref());
        match found {
            None if !self.same_account => Err(format!(
                "tenant {tenant} has no account on this machine: --run-as names one for it, or for all"
            )),
            found => Ok(found),
        }
    }
}

/// Starts a command under an account, or under our own.
pub(super) fn spawn(command: &mut Command, account: Option<&Account>) -> io::Result<Child> {
    let gone = |_| io::Error::other("the thread that starts it has ended");
    // Identities are those of a thread: that of this process stays as it is.
    thread::scope(|scope| {
        let spawned = scope.spawn(|| {
            become_account(account)?;
            command.spawn()
        });
        spawned.join().map_err(gone)?
    })
}

fn become_account(account: Option<&Account>) -> io::Result<()> {
    use rustix::{
        process::{Gid, Uid},
        thread::{
            clear_ambient_capability_set, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
        },
    };
    if let Some(account) = account {
        let groups: Vec<Gid> = account
            .groups
            .iter()
            .map(|one| Gid::from_raw(*one))
            .collect();
        let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
        set_thread_groups(&groups)?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
    }
    // What a service manager lets the broker do is not for what it starts; old kernels know no such set.
    match clear_ambient_capability_set() {
        Err(rustix::io::Errno::INVAL) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_as_the_machine_has_them() {
        let read = |entry| Account::read(entry, "1000 44 109\n");
        let lab = read("lab:x:1000:1001:The lab,,,:/home/lab:/bin/bash\n").expect("is one");
        assert_eq!((lab.uid, lab.gid), (1000, 1001));
        assert_eq!(lab.groups, [1000, 44, 109]);
        assert_eq!(read("lab:x:1000"), None);
        assert_eq!(read("lab:x:root:0::/root:/bin/sh"), None);
        assert_eq!(Account::named("root").map(|root| root.uid), Ok(0));
        let none = Account::named("gpuwise-no-such-account").expect_err("is not there");
        assert!(none.contains("there is no account"), "{none}");
    }

    #[test]
    fn a_tenant_without_an_account_has_the_usual_one_or_does_not_run() {
        let root = Account::named("root").expect("is there");
        let mut accounts = RunAs::default();
        assert!(accounts.of_tenant("vision").is_err());
        accounts.of.insert("vision".into(), root.clone());
        assert_eq!(accounts.of_tenant("vision"), Ok(Some(&root)));
        assert!(accounts.of_tenant("batch").is_err());
        accounts.same_account = true;
        assert_eq!(accounts.of_tenant("batch"), Ok(None));
        accounts.usual = Some(root.clone());
        assert_eq!(accounts.of_tenant("batch"), Ok(Some(&root)));
    }
}
