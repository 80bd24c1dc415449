//! Flags of a broker whose leases are jobs of Slurm.

use super::place;
use crate::error::Problem;
use clap::Args;
use gpuwise_server::{AccountNames, RestAddress, SlurmSettings, TokenFrom};
use gpuwise_units::Nanoseconds;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

const PORTS: &str = "20000-29999";
const PATIENCE: Nanoseconds = Nanoseconds(300_000_000_000);
const EVERY: Nanoseconds = Nanoseconds(2_000_000_000);

#[derive(Debug, Args)]
pub(super) struct SlurmFlags {
    /// Partition that jobs are submitted to [default: Slurm's own]
    #[arg(long = "slurm-partition", value_name = "NAME")]
    partition: Option<String>,
    /// Account that jobs are charged to at Slurm, or that of one tenant; repeat
    #[arg(long = "slurm-account", value_name = "[TENANT=]NAME")]
    account: Vec<String>,
    #[arg(
        long = "slurm-qos",
        value_name = "NAME",
        help = "Quality of service of jobs"
    )]
    qos: Option<String>,
    /// Ports on which workers of services listen
    #[arg(
        long = "slurm-ports",
        value_name = "FIRST-LAST",
        default_value = PORTS
    )]
    ports: String,
    /// How long a job may wait for its nodes before it is tried elsewhere
    #[arg(long = "slurm-patience", value_name = "TIME", default_value = "5min")]
    patience: Nanoseconds,
    /// How often Slurm is asked what jobs do
    #[arg(long = "slurm-every", value_name = "TIME", default_value = "2s")]
    every: Nanoseconds,
    /// slurmrestd that lists jobs and nodes in place of commands: unix:PATH, or http://HOST:PORT with a token in
    /// SLURM_JWT or --slurm-token-file
    #[arg(long = "slurm-rest", value_name = "ADDRESS")]
    rest: Option<String>,
    /// File with the token for slurmrestd, as `scontrol token` prints it; it is read again when it is renewed
    #[arg(long = "slurm-token-file", value_name = "FILE", requires = "rest")]
    rest_token: Option<PathBuf>,
    /// Folder, under one name on all nodes, for logs of leases and how their commands ended; the broker's own token
    /// lies elsewhere [default: the user's state directory]
    #[arg(long = "slurm-state", value_name = "FOLDER")]
    state: Option<PathBuf>,
}

impl SlurmFlags {
    /// Whether any of them was said.
    pub(super) fn said(&self) -> bool {
        self.partition.is_some()
            || !self.account.is_empty()
            || self.qos.is_some()
            || self.state.is_some()
            || self.rest.is_some()
            || self.rest_token.is_some()
            || self.ports != PORTS
            || self.patience != PATIENCE
            || self.every != EVERY
    }

    /// # Errors
    /// When the broker's own folder lies in it: what is there is for nodes and the jobs of tenants to see.
    pub(super) fn state(&self) -> anyhow::Result<Option<PathBuf>> {
        let Some(folder) = &self.state else {
            return Ok(None);
        };
        let own = place::state()?;
        // Where one of them is not there yet it is as it is written.
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        if real(&own).starts_with(real(folder)) {
            let what = format!(
                "--slurm-state {}: the broker keeps the administrator's token below it, in {}",
                folder.display(),
                own.display()
            );
            return Err(Problem::new(what)
                .hint("name a folder of its own for what nodes share, or set XDG_STATE_HOME to one that nodes do not see")
                .into());
        }
        Ok(Some(folder.clone()))
    }

    pub(super) fn settings(&self) -> anyhow::Result<SlurmSettings> {
        let text = &self.ports;
        let ports = text
            .split_once('-')
            .and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        let ports = ports.filter(|(first, last): &(u16, u16)| 0 < *first && first <= last);
        let ports = ports.ok_or_else(|| {
            Problem::new(format!(
                "--slurm-ports {text}: expected the first and the last port, such as 20000-29999"
            ))
        })?;
        let every = Duration::from_nanos(self.every.0);
        if every < Duration::from_millis(100) {
            let what = "--slurm-every: expected 100 ms or more";
            return Err(Problem::new(what).into());
        }
        let rest = self.rest.as_deref().map(RestAddress::read).transpose();
        let rest = rest.map_err(|problem| Problem::new(format!("--slurm-rest {problem}")))?;
        Ok(SlurmSettings {
            token: self.token().filter(|_| rest.is_some()),
            rest,
            partition: self.partition.clone(),
            accounts: self.accounts()?,
            qos: self.qos.clone(),
            ports,
            every,
            patience: Duration::from_nanos(self.patience.0),
        })
    }

    /// Who asks slurmrestd: a file, or what `scontrol token` has put into the environment.
    fn token(&self) -> Option<TokenFrom> {
        if let Some(file) = &self.rest_token {
            return Some(TokenFrom::File(file.clone()));
        }
        let said = std::env::var("SLURM_JWT").ok();
        said.filter(|token| !token.is_empty()).map(TokenFrom::Given)
    }

    /// Whose jobs are charged to which account.
    fn accounts(&self) -> anyhow::Result<AccountNames> {
        let mut names = AccountNames::default();
        for text in &self.account {
            let wrong = |why: &str| Problem::new(format!("--slurm-account {text:?}: {why}"));
            let (tenant, name) = text
                .split_once('=')
                .map_or((None, text.as_str()), |(tenant, name)| (Some(tenant), name));
            let plain = |name: &str| {
                !name.is_empty()
                    && !name.contains(|one: char| one.is_whitespace() || ",|=".contains(one))
            };
            if !plain(name) || tenant.is_some_and(str::is_empty) {
                return Err(wrong("expected an account, or TENANT=ACCOUNT").into());
            }
            let before = match tenant {
                Some(tenant) => names.of.insert(tenant.to_owned(), name.to_owned()),
                None => names.usual.replace(name.to_owned()),
            };
            if before.is_some_and(|before| before != name) {
                return Err(wrong("another account was named already").into());
            }
        }
        Ok(names)
    }
}
