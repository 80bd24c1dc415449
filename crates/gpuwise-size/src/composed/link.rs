//! Collectives on a PCIe fabric.

use gpuwise_domain::fabric::{FabricLink, PeerToPeer};

/// The share of a port's bandwidth that an all-reduce over so many GPUs reaches.
pub fn share(link: &FabricLink, gpus: f64) -> f64 {
    let constants = &link.constants;
    let gpus = gpus.max(2.0);
    match link.peer_to_peer {
        PeerToPeer::Fabric => constants.pair_share / (1.0 + constants.spread * (gpus - 2.0) / gpus),
        PeerToPeer::None => constants.staged_share * libm::pow(2.0 / gpus, constants.staged_power),
    }
}

/// Seconds of an all-reduce of so many bytes over so many GPUs; 0 for one GPU alone. Each of the
/// `2(n − 1)` steps of a ring waits for what switches add.
pub fn all_reduce(link: &FabricLink, gpus: f64, bytes: f64) -> f64 {
    if gpus <= 1.0 {
        return 0.0;
    }
    let constants = &link.constants;
    let further = gpus - 1.0;
    constants.start
        + constants.rank * further
        + 2.0 * further * link.extra_latency
        + 2.0 * further / gpus * bytes / (link.bandwidth.get() * share(link, gpus))
        + constants.ramp * libm::sqrt(bytes * further)
}

/// Seconds to send so many bytes from one GPU to another.
pub fn send(link: &FabricLink, bytes: f64) -> f64 {
    link.constants.start + link.extra_latency + bytes / (link.bandwidth.get() * share(link, 2.0))
}
