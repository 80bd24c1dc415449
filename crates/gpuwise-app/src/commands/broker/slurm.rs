//! Flags of a broker whose leases are jobs of Slurm.

use crate::error::Problem;
use clap::Args;
use gpuwise_server::{RestAddress, RestToken, SlurmSettings};
use gpuwise_units::Nanoseconds;
use std::{path::PathBuf, time::Duration};

const PORTS: &str = "20000-29999";
const PATIENCE: Nanoseconds = Nanoseconds(300_000_000_000);
const EVERY: Nanoseconds = Nanoseconds(2_000_000_000);

#[derive(Debug, Args)]
pub(super) struct SlurmFlags {
    /// Partition that jobs are submitted to [default: Slurm's own]
    #[arg(long = "slurm-partition", value_name = "NAME")]
    partition: Option<String>,
    /// Account that jobs are charged to at Slurm
    #[arg(long = "slurm-account", value_name = "NAME")]
    account: Option<String>,
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
    /// SLURM_JWT
    #[arg(long = "slurm-rest", value_name = "ADDRESS")]
    rest: Option<String>,
    /// Folder, under one name on all nodes, for logs of leases and how their commands ended [default: the user's
    /// state directory]
    #[arg(long = "slurm-state", value_name = "FOLDER")]
    state: Option<PathBuf>,
}

impl SlurmFlags {
    /// Whether any of them was said.
    pub(super) fn said(&self) -> bool {
        self.partition.is_some()
            || self.account.is_some()
            || self.qos.is_some()
            || self.state.is_some()
            || self.rest.is_some()
            || self.ports != PORTS
            || self.patience != PATIENCE
            || self.every != EVERY
    }

    pub(super) fn state(&self) -> Option<PathBuf> {
        self.state.clone()
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
            token: token().filter(|_| rest.is_some()),
            rest,
            partition: self.partition.clone(),
            account: self.account.clone(),
            qos: self.qos.clone(),
            ports,
            every,
            patience: Duration::from_nanos(self.patience.0),
        })
    }
}

/// Who asks slurmrestd: what `scontrol token` has put into the environment.
fn token() -> Option<RestToken> {
    let said = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    Some(RestToken {
        token: said("SLURM_JWT")?,
        user: said("USER").or_else(|| said("LOGNAME")),
    })
}
