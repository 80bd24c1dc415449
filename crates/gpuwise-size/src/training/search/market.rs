//! Clusters that can be had, with what they cost.

use super::{
    Cluster,
    request::{Machines, Market, TrainRequest},
};
use crate::search;
use alloc::{collections::BTreeSet, vec::Vec};
use gpuwise_domain::{
    catalogue::{Catalogue, folded},
    deployment::Rental,
    gpu::{Device, Gpu},
    offer::Host,
};

/// GPUs of a host that is built to train with others.
const TRAINING_HOST: u32 = 8;
/// The domain of a link beyond which it joins hosts of a rack.
const HOST_DOMAIN: u32 = 16;

/// A cluster with where it is rented.
#[derive(Debug, Clone)]
pub(crate) struct Candidate<'a> {
    pub(crate) cluster: Cluster<'a>,
    pub(crate) rental: Option<Rental>,
}

/// A cluster of a GPU as the catalogue knows its hosts: those of eight where there are such.
pub fn cluster<'a>(catalogue: &Catalogue, gpu: &'a Gpu, gpus: u64) -> Cluster<'a> {
    let hosts = catalogue.hosts.iter().filter(|host| host.gpu == gpu.name);
    // Reference systems say best what a host of this GPU is made of.
    let host = hosts.max_by_key(|host| {
        (
            host.gpus <= 8,
            host.gpus,
            host.network_gbit.is_some(),
            host.is_reference(),
        )
    });
    // A fabric composes hosts of as many as it allows.
    let composed = gpu.scale_up.as_ref().filter(|link| link.fabric.is_some());
    let per_host = match composed {
        Some(link) => link.domain.max(1),
        None => host.map_or(8, |host| host.gpus.max(1)),
    };
    Cluster {
        gpu,
        gpus,
        domain: domain(gpu, per_host),
        per_host,
        network: host.and_then(network),
    }
}

/// Bytes a second of one GPU's share of a host's network.
fn network(host: &Host) -> Option<f64> {
    Some(host.network_gbit? * 1e9 / 8.0 / f64::from(host.gpus.max(1)))
}

fn domain(gpu: &Gpu, per_host: u32) -> u32 {
    match &gpu.scale_up {
        Some(link) if link.domain > HOST_DOMAIN => link.domain.max(per_host),
        _ => per_host,
    }
}

/// Every cluster to look at, by GPU and then ascending.
pub(crate) fn candidates<'a>(
    request: &TrainRequest<'a>,
    market: &Market<'a>,
) -> Vec<Candidate<'a>> {
    let had = search::Market {
        catalogue: request.catalogue,
        providers: &market.providers,
        regions: &market.regions,
        owned: market
            .owned
            .iter()
            .map(|(gpu, count)| (gpu.name.as_str(), *count))
            .collect(),
        terms: market.terms,
    };
    match &request.machines {
        Machines::Given(cluster) => alloc::vec![Candidate {
            rental: rent(&had, cluster),
            cluster: *cluster,
        }],
        Machines::Offered(market) => offered(request.catalogue, market, &had),
    }
}

fn offered<'a>(
    catalogue: &'a Catalogue,
    market: &Market<'a>,
    had: &search::Market<'_>,
) -> Vec<Candidate<'a>> {
    let mut out = Vec::new();
    for gpu in gpus(catalogue, market) {
        let largest = had
            .offers(&gpu.name)
            .iter()
            .map(|offer| offer.gpus())
            .chain(had.owned(&gpu.name))
            .max()
            .map_or(0, u64::from);
        let mut sizes = counts(largest, market.most);
        // All that are owned, whatever instances are rented out.
        sizes.extend(
            had.owned(&gpu.name)
                .map(u64::from)
                .filter(|own| *own <= market.most),
        );
        sizes.sort_unstable();
        sizes.dedup();
        for count in sizes {
            let mut cluster = cluster(catalogue, gpu, count);
            cluster.per_host = cluster
                .per_host
                .min(u32::try_from(largest).unwrap_or(u32::MAX));
            let Some(rental) = rent(had, &cluster) else {
                continue;
            };
            if !rental.is_owned() {
                described(catalogue, &rental, &mut cluster);
                if apart(&cluster) {
                    continue;
                }
            }
            out.push(Candidate {
                cluster,
                rental: Some(rental),
            });
        }
    }
    out
}

/// Whether hosts meet over a network that nobody has told, and are too small for one to be built for
/// them: instances of one or a few GPUs are not sold to be trained on together.
fn apart(cluster: &Cluster<'_>) -> bool {
    let joined = cluster.gpus <= u64::from(cluster.domain.max(cluster.per_host));
    !joined && cluster.network.is_none() && cluster.per_host < TRAINING_HOST
}

/// What the catalogue knows of the host that is rented.
fn described(catalogue: &Catalogue, rental: &Rental, cluster: &mut Cluster<'_>) {
    cluster.per_host = (rental.gpu_thousandths / 1000).max(1);
    cluster.domain = domain(cluster.gpu, cluster.per_host);
    let same = |host: &&Host| {
        folded(&host.provider) == folded(rental.provider.name())
            && folded(&host.shape) == folded(&rental.instance)
    };
    if let Some(host) = catalogue.hosts.iter().find(same) {
        cluster.network = network(host);
    } else {
        cluster.network = None;
    }
}

/// GPUs that may be rented or are owned, in the catalogue's order.
fn gpus<'a>(catalogue: &'a Catalogue, market: &Market<'a>) -> Vec<&'a Gpu> {
    if !market.gpus.is_empty() {
        return market.gpus.clone();
    }
    if !market.owned.is_empty() {
        return market.owned.iter().map(|(gpu, _)| *gpu).collect();
    }
    let sold: BTreeSet<&str> = catalogue.offers.iter().map(|o| o.gpu.as_str()).collect();
    catalogue
        .gpus
        .iter()
        .filter(|gpu| !gpu.announced && sold.contains(gpu.name.as_str()))
        .collect()
}

/// Powers of two within a host, then hosts by powers of two.
fn counts(largest: u64, most: u64) -> Vec<u64> {
    let mut out: Vec<u64> = (0..32)
        .map(|power| 1_u64 << power)
        .take_while(|count| *count < largest)
        .collect();
    let hosts = (0..32).map(|power| largest.saturating_mul(1 << power));
    if largest > 0 {
        out.extend(hosts);
    }
    out.retain(|count| *count <= most);
    out
}

/// The cheapest way to have a cluster: one's own, else instances of one kind.
fn rent(market: &search::Market<'_>, cluster: &Cluster<'_>) -> Option<Rental> {
    let gpus = u32::try_from(cluster.gpus).ok()?;
    let offers = market.offers(&cluster.gpu.name);
    let device = Device::whole(cluster.gpu);
    market.rent(&offers, &device, (1, gpus), true)
}
