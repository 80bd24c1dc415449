//! Where a lease's page of metrics may be read: where the lease itself runs, and nowhere else.
//!
//! The address is said by a tenant, and asked by the broker, which reaches more than tenants do. So its name is
//! resolved once; what comes of that must be an address of a node that the lease runs on, or of a port that the
//! lease was given; and that very address is connected to. Redirects and proxies are not followed.

mod reads;
mod said;
#[cfg(test)]
mod tests;

pub(crate) use reads::Reads;
pub use said::{PageSaid, PageSaidError};

use crate::http::Shared;
use gpuwise_broker::{Broker, Lease};
use said::{cannot_be_a_node, plain};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};

/// A page that may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageAddress {
    /// By its name.
    pub url: String,
    /// What is connected to, whatever the name resolves to by then.
    pub at: SocketAddr,
}

/// Where a lease runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RunsAt {
    /// Hosts and ports that it was given by what runs it.
    pub(crate) given: Vec<String>,
    /// Names of its nodes.
    pub(crate) nodes: Vec<String>,
}

/// What the network says.
pub(crate) trait Network {
    fn resolve(&self, host: &str, port: u16) -> Vec<IpAddr>;

    /// Whether an address is one of the machine that the broker runs on.
    fn is_own(&self, address: IpAddr) -> bool;
}

/// The network as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfSystem;

impl Network for OfSystem {
    fn resolve(&self, host: &str, port: u16) -> Vec<IpAddr> {
        let found = (host, port).to_socket_addrs();
        found.map_or_else(
            |_| Vec::new(),
            |all| all.map(|one| plain(one.ip())).collect(),
        )
    }

    fn is_own(&self, address: IpAddr) -> bool {
        // An address that is not ours cannot be bound.
        UdpSocket::bind((address, 0)).is_ok()
    }
}

impl RunsAt {
    pub(crate) fn of(shared: &Shared, broker: &Broker, lease: &Lease) -> Self {
        let given = shared.endpoints.of(lease.number);
        let nodes = lease
            .place
            .iter()
            .filter_map(|one| broker.world().node(one.node));
        let mut nodes: Vec<String> = nodes.map(|state| state.node.name.clone()).collect();
        nodes.dedup();
        Self {
            given: given.iter().map(|one| one.address.clone()).collect(),
            nodes,
        }
    }

    /// The page that was said, where the lease runs.
    ///
    /// # Errors
    /// Why it is not read.
    pub(crate) fn page(
        &self,
        said: &PageSaid,
        network: &dyn Network,
    ) -> Result<PageAddress, String> {
        let given = |address: &String| -> Vec<SocketAddr> {
            let parts = address.rsplit_once(':');
            let parts = parts.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
            let Some((host, port)) = parts else {
                return Vec::new();
            };
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let all = network.resolve(host, port).into_iter();
            all.map(|ip| SocketAddr::new(ip, port)).collect()
        };
        let (url, host, port) = match said {
            PageSaid::Path(path) => {
                let address = self
                    .given
                    .first()
                    .ok_or("it was given no port, or does not answer there yet")?;
                let at = given(address).into_iter().next();
                let at = at.ok_or_else(|| format!("{address} has no address"))?;
                let url = format!("http://{address}{path}");
                return Ok(PageAddress { url, at });
            }
            PageSaid::Url { url, host, port } => (url.clone(), host, *port),
        };
        let found = network.resolve(host, port);
        if found.is_empty() {
            return Err(format!("{host} has no address"));
        }
        let own: Vec<SocketAddr> = self.given.iter().flat_map(given).collect();
        let nodes: Vec<IpAddr> = self
            .nodes
            .iter()
            .flat_map(|name| network.resolve(name, port))
            .collect();
        let may = |ip: IpAddr| {
            own.contains(&SocketAddr::new(ip, port))
                || nodes.contains(&ip) && !cannot_be_a_node(ip) && !network.is_own(ip)
        };
        let at = found.into_iter().find(|ip| may(*ip)).ok_or_else(|| {
            let nodes = self.nodes.join(", ");
            format!(
                "{host}:{port} is not where the lease runs ({nodes}), and no port that it was given"
            )
        })?;
        let at = SocketAddr::new(at, port);
        Ok(PageAddress { url, at })
    }
}
