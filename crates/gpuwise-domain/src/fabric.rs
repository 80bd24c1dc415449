//! GPUs that are pooled on a PCIe fabric and attached to hosts: what there is, and how its links do.

use crate::gpu::{Gpu, ScaleUp};
use alloc::{format, string::String, vec::Vec};
use gpuwise_units::{BytesPerSecond, HourlyPrice};

/// A fabric with its pools and hosts. GPUs of any pool attach to any host of the fabric.
#[derive(Debug, Clone, PartialEq)]
pub struct Fabric {
    pub name: String,
    /// Bandwidth of one GPU's port, one direction.
    pub bandwidth: BytesPerSecond,
    /// Switches between a host and a GPU.
    pub hops: u32,
    /// Seconds that one switch adds in one direction.
    pub hop_latency: f64,
    /// Which GPUs reach each other without passing through host memory.
    pub peer_to_peer: PeerToPeer,
    /// GPUs that one host can have at most, unless the host says otherwise.
    pub gpus_per_host: u32,
    /// Seconds from asking for a GPU until the host can use it.
    pub attach: f64,
    /// Seconds from giving a GPU back until another host can ask for it.
    pub detach: f64,
    /// What one port (of a GPU or a host) costs an hour; unknown is not 0.
    pub port_price: Option<HourlyPrice>,
    pub pools: Vec<Pool>,
    pub hosts: Vec<FabricHost>,
}

/// GPUs of one kind that wait to be attached.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    pub name: String,
    /// Catalogue name of its GPUs.
    pub gpu: String,
    pub gpus: u32,
}

/// Hosts of one kind, without GPUs of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct FabricHost {
    pub name: String,
    pub count: u32,
    pub cores: u32,
    pub memory_gib: f64,
    pub ports: u32,
    /// GPUs that each can have at most.
    pub gpus_per_host: u32,
}

gpuwise_units::named! {
    /// Which GPUs reach each other without passing through host memory.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum PeerToPeer:
        name
    {
        Fabric = "fabric",
        /// None: what one GPU sends to another goes through host memory.
        None = "none",
    }
}

/// What moves between GPUs of a composed host costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FabricLink {
    /// Bandwidth of one GPU's port, one direction.
    pub bandwidth: BytesPerSecond,
    /// Seconds that the way from one GPU to another takes beyond that within one server.
    pub extra_latency: f64,
    /// Which GPUs reach each other directly.
    pub peer_to_peer: PeerToPeer,
    pub constants: PcieConstants,
}

/// Constants of an all-reduce of `m` bytes over `n` GPUs on PCIe, fitted to measured collectives:
/// `start + rank·(n − 1) + 2(n − 1)/n · m / (bandwidth · share(n)) + ramp·√(m·(n − 1))`, where
/// `share(n) = pair_share / (1 + spread·(n − 2)/n)` with peer-to-peer transfers and
/// `staged_share · (2/n)^staged_power` without.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PcieConstants {
    /// Seconds of the smallest all-reduce.
    pub start: f64,
    /// Seconds of each further rank.
    pub rank: f64,
    /// Seconds for the root of a byte.
    pub ramp: f64,
    /// Share of a port's bandwidth that two GPUs reach.
    pub pair_share: f64,
    /// How much lower it is with many.
    pub spread: f64,
    /// Share of a port's bandwidth that two GPUs reach through host memory.
    pub staged_share: f64,
    /// How fast that falls with the number of GPUs.
    pub staged_power: f64,
    /// Largest relative error with a GPU left out of the fit, in logarithms.
    pub error: f64,
}

impl Fabric {
    pub fn gpus(&self) -> u32 {
        self.pools
            .iter()
            .fold(0, |sum, pool| sum.saturating_add(pool.gpus))
    }

    pub fn host_count(&self) -> u32 {
        self.hosts
            .iter()
            .fold(0, |sum, host| sum.saturating_add(host.count))
    }

    /// GPUs that the largest host can have.
    pub fn largest_host(&self) -> u32 {
        let of = |host: &FabricHost| host.gpus_per_host;
        self.hosts
            .iter()
            .map(of)
            .max()
            .unwrap_or(self.gpus_per_host)
    }

    pub fn gpus_of(&self, gpu: &str) -> u32 {
        let pools = self.pools.iter().filter(|pool| pool.gpu == gpu);
        pools.fold(0, |sum, pool| sum.saturating_add(pool.gpus))
    }

    /// The link between GPUs of one host.
    pub fn link(&self, constants: PcieConstants) -> FabricLink {
        FabricLink {
            bandwidth: self.bandwidth,
            // From one GPU to another: up through all switches of the one and down to the other.
            extra_latency: 2.0 * f64::from(self.hops.saturating_sub(1)) * self.hop_latency,
            peer_to_peer: self.peer_to_peer,
            constants,
        }
    }

    /// A GPU as it is on this fabric: joined to its peers and its host by the fabric alone.
    pub fn composed(&self, gpu: &Gpu, constants: PcieConstants) -> Gpu {
        let link = self.link(constants);
        let port = gpu.host_link.map_or(self.bandwidth, |own| {
            BytesPerSecond::new(own.get().min(self.bandwidth.get()))
        });
        Gpu {
            name: format!("{} on {}", gpu.name, self.name),
            aliases: Vec::new(),
            scale_up: Some(ScaleUp {
                name: format!("fabric {}", self.name),
                bandwidth: port,
                domain: self.largest_host().min(self.gpus_of(&gpu.name)).max(1),
                fabric: Some(FabricLink {
                    bandwidth: port,
                    ..link
                }),
            }),
            host_link: Some(port),
            mig: false,
            ..gpu.clone()
        }
    }
}
