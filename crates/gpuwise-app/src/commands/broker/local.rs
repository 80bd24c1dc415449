//! How commands of leases run on this machine, as flags of `gpuwise serve`.

use crate::error::Problem;
use clap::Args;
use gpuwise_server::{Account, LocalSettings, RunAs};
use gpuwise_units::Bytes;

/// Bytes of what a worker writes where nobody says how many.
const LOG: Bytes = Bytes::new(64 << 20);

/// Below that a log says nothing.
const LEAST: Bytes = Bytes::new(64 << 10);

#[derive(Debug, Args)]
pub(super) struct LocalFlags {
    /// Account of this machine under which commands of leases run: USER, or TENANT=USER for one tenant; repeat. The
    /// broker must be root, or have CAP_SETUID, CAP_SETGID and CAP_KILL
    #[arg(long, value_name = "[TENANT=]USER")]
    run_as: Vec<String>,
    /// Commands of leases run under the account of the broker, so that they can read its token and its log: for programs
    /// that are trusted as much as the administrator
    #[arg(long)]
    same_account: bool,
    /// Variable of the broker that commands of leases get, besides PATH, HOME, USER, LOGNAME, SHELL, TMPDIR, LANG,
    /// LANGUAGE, LC_*, TZ, LD_LIBRARY_PATH and those by which GPUs are found; repeat
    #[arg(long, value_name = "NAME")]
    pass_env: Vec<String>,
    /// Bytes that are kept of what each worker of a lease writes; the oldest go first [default: 64MiB]
    #[arg(long, value_name = "SIZE")]
    log_size: Option<Bytes>,
}

impl LocalFlags {
    /// Whether one of them was given.
    pub(super) const fn said(&self) -> bool {
        !self.run_as.is_empty()
            || self.same_account
            || !self.pass_env.is_empty()
            || self.log_size.is_some()
    }

    /// `umask` is that of the user who started the broker.
    pub(super) fn settings(&self, umask: u32) -> anyhow::Result<LocalSettings> {
        let is_root = rustix::process::geteuid().is_root();
        if is_root && self.run_as.is_empty() && !self.same_account {
            let what = "commands of leases would run as root";
            return Err(Problem::new(what)
                .hint(
                    "--run-as USER names another account for them, --run-as TENANT=USER one for each tenant; \
                     --same-account says that they may run as root",
                )
                .into());
        }
        let log_size = self.log_size.unwrap_or(LOG);
        if log_size.count() < LEAST.count() {
            return Err(
                Problem::new(format!("--log-size {log_size}: expected {LEAST} or more")).into(),
            );
        }
        Ok(LocalSettings {
            run_as: self.run_as(is_root)?,
            passed: self.pass_env.clone(),
            log_size: log_size.count(),
            umask,
        })
    }

    fn run_as(&self, is_root: bool) -> anyhow::Result<RunAs> {
        let mut found = RunAs {
            // Who is not root has no other account to give.
            same_account: self.same_account || self.run_as.is_empty() && !is_root,
            ..RunAs::default()
        };
        let own = rustix::process::geteuid().as_raw();
        for text in &self.run_as {
            let (tenant, name) = match text.split_once('=') {
                Some((tenant, name)) => (Some(tenant), name),
                None => (None, text.as_str()),
            };
            let wrong = |what: String| Problem::new(format!("--run-as {text}: {what}"));
            let account = Account::named(name).map_err(wrong)?;
            if (account.uid == 0 || account.uid == own) && !self.same_account {
                return Err(wrong("that is the account of the broker, or root".into())
                    .hint("name an account of its own for leases, or say --same-account")
                    .into());
            }
            let twice = match tenant {
                Some(tenant) => found.of.insert(tenant.to_owned(), account).is_some(),
                None => found.usual.replace(account).is_some(),
            };
            if twice {
                return Err(wrong("it is said twice".into()).into());
            }
        }
        Ok(found)
    }
}
