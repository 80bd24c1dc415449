//! Seconds of a step on a host: streams run beside GPUs, what GPUs wait for is added.
//!
//! `T = max(GPUs + exchange + offload + network beyond its cover, cores, storage, PCIe) · (1 + write
//! / interval)`: the busiest station sets the pace of a line with buffers (Denning and Buzen 1978,
//! bottleneck analysis).

use super::constants::{BalanceConstants, Known as K};
use gpuwise_domain::balance::{HostSystem, HostWork, Part};

/// Seconds that each part takes in a step; what the host does not say takes none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step<'a> {
    pub(crate) work: &'a HostWork,
    pub(crate) host: &'a HostSystem,
    pub(crate) constants: &'a BalanceConstants,
}

impl Step<'_> {
    fn get(&self, known: K) -> f64 {
        self.constants.get(known)
    }

    /// Cores of the reference clock over those of the host.
    pub(crate) fn clock(&self) -> f64 {
        self.host
            .clock_ghz
            .map_or(1.0, |clock| clock / self.get(K::ReferenceClock))
    }

    /// Core-seconds of the host's own cores in a step beside what drives GPUs, with rates at their
    /// value, or at one end.
    pub(crate) fn core_seconds(&self, rate: impl Fn(K) -> f64, streamed: f64) -> f64 {
        let cores = &self.work.cores;
        let reference = cores.images.as_f64() / rate(K::ImageBytes)
            + cores.tokenized / rate(K::TokenizerTokens)
            + cores.streamed * streamed;
        reference / self.clock() + cores.stated
    }

    /// Cores that keep up.
    pub(crate) fn cores_needed(&self) -> f64 {
        let work = self.core_seconds(|known| self.get(known), self.get(K::StreamedToken));
        self.driving() + work / self.work.seconds.max(1e-12)
    }

    /// Cores that are kept busy by driving GPUs.
    pub(crate) fn driving(&self) -> f64 {
        f64::from(self.work.processes) * self.get(K::DrivingCore) / self.clock()
    }

    /// Bytes a second between the host and all GPUs that are in use.
    pub(crate) fn pcie(&self) -> Option<f64> {
        let ways = f64::from(self.work.gpus.max(1))
            / f64::from(self.host.pcie_sharers.unwrap_or(1).max(1));
        Some(self.host.pcie?.get() * self.get(K::PcieShare) * ways.max(1.0))
    }

    /// Whether a group spans sockets without more than PCIe.
    pub(crate) fn crosses(&self) -> bool {
        let nodes = self
            .host
            .numa_nodes
            .or(self.host.sockets)
            .unwrap_or(1)
            .max(1);
        let gpus = self.host.gpus.unwrap_or(self.work.gpus).max(1);
        self.host.fast_link != Some(true) && nodes > 1 && self.work.group > gpus.div_ceil(nodes)
    }

    /// Bytes a second that a collective reaches within a socket.
    pub(crate) fn near(&self) -> Option<f64> {
        match self.host.fast_link {
            Some(true) => Some(self.get(K::FastLink)),
            Some(false) => Some(self.host.pcie?.get() * self.get(K::PeerShare)),
            None => None,
        }
    }

    /// The same across sockets, where a group spans them.
    pub(crate) fn far(&self) -> Option<f64> {
        let share = match self.host.peer_to_peer {
            Some(true) => self.get(K::CrossingShare),
            Some(false) => self.get(K::CrossingThroughHost),
            None => return None,
        };
        self.crosses().then_some(self.host.pcie?.get() * share)
    }

    fn over(bytes: f64, rate: Option<f64>) -> f64 {
        rate.map_or(0.0, |rate| bytes / rate.max(1e-12))
    }

    /// Seconds of a step where `unlimited` takes none.
    pub(crate) fn seconds(&self, unlimited: Option<Part>) -> f64 {
        let left_out = |part: Part| unlimited == Some(part);
        let with = |part: Part, seconds: f64| if left_out(part) { 0.0 } else { seconds };
        let work = self.work;
        if !left_out(Part::HostMemory) && self.memory_is_short() {
            return f64::INFINITY;
        }
        let near = self.near().filter(|_| !left_out(Part::Link));
        let far = self.far().filter(|_| !left_out(Part::Numa));
        let slowest = match (near, far) {
            (Some(near), Some(far)) => Some(near.min(far)),
            (near, far) => near.or(far),
        };
        let exchange = Self::over(self.exchanged(), slowest);
        let pcie = self.pcie();
        let offload = with(Part::Pcie, Self::over(work.offloaded.as_f64(), pcie));
        let copies = with(Part::Pcie, Self::over(work.copied.as_f64(), pcie)) + offload;
        let network = self
            .host
            .network
            .map(|rate| rate.get() * self.get(K::NetworkShare));
        let sends = with(Part::Network, Self::over(work.sent.as_f64(), network));
        let uncovered = (sends - work.hidden * work.seconds).max(0.0);
        let busy = work.seconds + exchange + offload + uncovered;
        let cores = self
            .host
            .cores
            .map_or(0.0, |has| self.cores_needed() / has.max(1e-12));
        let cores = with(Part::Cpu, cores * work.seconds);
        let storage = self
            .host
            .storage_read
            .map(|rate| rate.get() * self.get(K::StorageShare));
        let reads = with(Part::StorageRead, Self::over(work.stored.as_f64(), storage));
        let pace = busy.max(cores).max(reads).max(copies);
        pace * (1.0 + with(Part::StorageWrite, self.writing()))
    }

    /// Bytes that each GPU of a group sends in a step.
    pub(crate) fn exchanged(&self) -> f64 {
        if self.work.group > 1 {
            self.work.exchanged.as_f64()
        } else {
            0.0
        }
    }

    /// Seconds of a checkpoint over those between two.
    pub(crate) fn writing(&self) -> f64 {
        let rate = self
            .host
            .storage_write
            .map(|rate| rate.get() * self.get(K::StorageShare));
        let write = Self::over(self.work.checkpoint.as_f64(), rate);
        self.work
            .checkpoint_every
            .map_or(0.0, |every| write / every.max(1e-9))
    }

    fn memory_is_short(&self) -> bool {
        self.host
            .memory
            .is_some_and(|has| self.work.held.as_f64() > has.as_f64() * self.get(K::MemoryShare))
    }
}
