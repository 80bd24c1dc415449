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

/// The same machines in another number.
pub(crate) fn resized<'a>(catalogue: &Catalogue, from: &Cluster<'a>, gpus: u64) -> Cluster<'a> {
    let mut out = cluster(catalogue, from.gpu, gpus);
    out.network = from.network.or(out.network);
    out
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

/// Given machines in another number, with what they cost.
pub(crate) fn given<'a>(
    request: &TrainRequest<'a>,
    market: &Market<'a>,
    cluster: Cluster<'a>,
) -> Candidate<'a> {
    Candidate {
        rental: rent(&had(request, market), &cluster),
        cluster,
    }
}

fn had<'a>(request: &TrainRequest<'a>, market: &'a Market<'a>) -> search::Market<'a> {
    search::Market {
        catalogue: request.catalogue,
        providers: &market.providers,
        regions: &market.regions,
        owned: market
            .owned
            .iter()
            .map(|(gpu, count)| (gpu.name.as_str(), *count))
            .collect(),
        terms: market.terms,
    }
}

/// Every cluster to look at, by GPU and then ascending.
pub(crate) fn candidates<'a>(
    request: &TrainRequest<'a>,
    market: &Market<'a>,
) -> Vec<Candidate<'a>> {
    match &request.machines {
        Machines::Given(cluster) => alloc::vec![given(request, market, *cluster)],
        Machines::Offered(market) => {
            let stated = stated_gpus(request);
            offered(request.catalogue, market, &had(request, market), stated)
        }
    }
}

/// GPUs of which degrees that are stated take a multiple.
fn stated_gpus(request: &TrainRequest<'_>) -> u64 {
    let degrees = &request.choices.degrees;
    let stated = [
        degrees.tensor,
        degrees.pipeline,
        degrees.context,
        degrees.data,
    ];
    let product = stated.into_iter().flatten().map(u64::from);
    product.fold(1, u64::saturating_mul)
}

fn offered<'a>(
    catalogue: &'a Catalogue,
    market: &Market<'a>,
    had: &search::Market<'_>,
    stated: u64,
) -> Vec<Candidate<'a>> {
    let mut out = Vec::new();
    for gpu in gpus(catalogue, market) {
        let unsold = had.owned(&gpu.name).next().is_none() && !sold(catalogue, gpu);
        let largest = if unsold {
            u64::from(cluster(catalogue, gpu, 1).per_host)
        } else {
            had.offers(&gpu.name)
                .iter()
                .map(|offer| offer.gpus())
                .chain(had.owned(&gpu.name))
                .max()
                .map_or(0, u64::from)
        };
        let mut sizes = counts(largest, market.most);
        // All that are owned, whatever instances are rented out.
        sizes.extend(
            had.owned(&gpu.name)
                .map(u64::from)
                .filter(|own| *own <= market.most),
        );
        // Numbers that no instance has, where stated degrees make them.
        let multiples = (0..32).map(|power| stated.saturating_mul(1 << power));
        sizes.extend(multiples.filter(|count| *count > 0 && *count <= market.most && largest > 0));
        sizes.sort_unstable();
        sizes.dedup();
        for count in sizes {
            let mut cluster = cluster(catalogue, gpu, count);
            cluster.per_host = cluster
                .per_host
                .min(u32::try_from(largest).unwrap_or(u32::MAX));
            let rental = rent(had, &cluster);
            match &rental {
                Some(rental) if rental.is_owned() => {}
                Some(rental) => {
                    described(catalogue, rental, &mut cluster);
                    if apart(&cluster) {
                        continue;
                    }
                }
                None if unsold => {}
                None => continue,
            }
            out.push(Candidate { cluster, rental });
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

/// Whether the price list has an offer of it at all; one without is sized without a price.
fn sold(catalogue: &Catalogue, gpu: &Gpu) -> bool {
    catalogue.offers.iter().any(|offer| offer.gpu == gpu.name)
}

/// GPUs that may be rented or are owned, in the catalogue's order.
fn gpus<'a>(catalogue: &'a Catalogue, market: &Market<'a>) -> Vec<&'a Gpu> {
    if !market.gpus.is_empty() {
        return market.gpus.clone();
    }
    if !market.owned.is_empty() {
        return market.owned.iter().map(|(gpu, _)| *gpu).collect();
    }
    let offered: BTreeSet<&str> = catalogue.offers.iter().map(|o| o.gpu.as_str()).collect();
    catalogue
        .gpus
        .iter()
        .filter(|gpu| !gpu.announced && offered.contains(gpu.name.as_str()))
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
