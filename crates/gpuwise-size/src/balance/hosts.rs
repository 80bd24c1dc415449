//! Hosts of the catalogue as systems.

use super::constants::{BalanceConstants, Known};
use alloc::format;
use gpuwise_domain::{
    balance::HostSystem,
    gpu::Gpu,
    offer::{Host, Offer},
};
use gpuwise_units::BytesPerSecond;

/// A shape of the catalogue, with its GPU's own links where that is known.
pub fn of_catalogue(host: &Host, gpu: Option<&Gpu>, constants: &BalanceConstants) -> HostSystem {
    let link = host.link.to_ascii_lowercase();
    let joined = ["nvlink", "xgmi", "neuronlink"]
        .iter()
        .any(|fast| link.contains(fast))
        && !link.contains("bridge");
    let said = joined || link.contains("pcie") || link.contains("bridge");
    HostSystem {
        name: host.shape.clone(),
        source: host.source.clone(),
        gpu: Some(gpu.map_or_else(|| host.gpu.clone(), |gpu| gpu.name.clone())),
        gpus: Some(host.gpus),
        cores: host
            .vcpus
            .map(|vcpus| f64::from(vcpus) / constants.get(Known::ThreadsPerCore)),
        memory: host.memory,
        numa_nodes: host.numa_nodes,
        pcie: gpu.and_then(|gpu| gpu.host_link),
        fast_link: said.then_some(joined),
        network: host
            .network_gbit
            .map(|gbit| BytesPerSecond::new(gbit * 1e9 / 8.0)),
        ..HostSystem::default()
    }
}

/// An offer, of which less is known.
pub fn of_offer(offer: &Offer, gpu: Option<&Gpu>, constants: &BalanceConstants) -> HostSystem {
    HostSystem {
        name: format!("{} {}", offer.provider, offer.instance),
        source: offer.source.clone(),
        gpu: Some(offer.gpu.clone()),
        gpus: Some(offer.gpus()),
        cores: offer
            .vcpus
            .map(|vcpus| f64::from(vcpus) / constants.get(Known::ThreadsPerCore)),
        memory: offer.memory,
        pcie: gpu.and_then(|gpu| gpu.host_link),
        ..HostSystem::default()
    }
}
