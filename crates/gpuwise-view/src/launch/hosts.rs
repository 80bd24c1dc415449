//! A server that spans hosts: what each of its hosts is told besides.

use super::{EmitError, own_form};
use gpuwise_domain::deployment::Deployment;

/// What a host is told, in words of whoever starts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HostArgument {
    Text(String),
    /// The address of the first host.
    Leader,
    /// The same with a port.
    LeaderAt(u16),
    /// The host's place, from 0.
    Place,
    RanksBefore(u32),
}

/// A flag that differs between hosts, or names them.
pub(super) type HostFlag = (String, Option<HostArgument>);

/// How the hosts of a server find one another.
#[derive(Debug, Clone)]
pub(super) struct Hosts {
    pub(super) count: u32,
    pub(super) gpus: u32,
    pub(super) flags: Vec<HostFlag>,
    /// Told to all but the first, which answers requests.
    pub(super) others: Vec<HostFlag>,
}

/// Hosts of a server and GPUs of each; `None`: one is enough.
pub(super) fn of(deployment: &Deployment, gpus: u32) -> Result<Option<(u32, u32)>, EmitError> {
    let Some((instance, host)) = super::host_gpus(deployment).filter(|(_, host)| gpus > *host)
    else {
        return Ok(None);
    };
    if gpus.is_multiple_of(host) {
        return Ok(Some((gpus / host, host)));
    }
    Err(EmitError::UnevenHosts {
        gpus,
        instance: instance.into(),
        host,
        own: own_form(deployment.engine),
    })
}
