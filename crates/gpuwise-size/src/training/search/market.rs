//! Clusters that can be had, with what they cost.

use super::{
    Cluster,
    request::{Machines, Market, TrainRequest},
};
use alloc::{collections::BTreeSet, string::String, vec::Vec};
use gpuwise_domain::{
    catalogue::{Catalogue, folded},
    deployment::Rental,
    gpu::Gpu,
    offer::{Host, Offer, Terms},
    provider::Provider,
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
    match &request.machines {
        Machines::Given(cluster) => alloc::vec![Candidate {
            rental: rent(request.catalogue, market, cluster),
            cluster: *cluster,
        }],
        Machines::Offered(market) => offered(request.catalogue, market),
    }
}

fn offered<'a>(catalogue: &'a Catalogue, market: &Market<'a>) -> Vec<Candidate<'a>> {
    let mut out = Vec::new();
    for gpu in gpus(catalogue, market) {
        let largest = offers(catalogue, market, gpu)
            .map(|offer| u64::from(offer.gpus()))
            .chain(owned(market, gpu).map(u64::from))
            .max()
            .unwrap_or(0);
        let mut sizes = counts(largest, market.most);
        // All that are owned, whatever instances are rented out.
        sizes.extend(
            owned(market, gpu)
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
            let Some(rental) = rent(catalogue, market, &cluster) else {
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

/// Offers of a GPU that the limits allow.
fn offers<'a>(
    catalogue: &'a Catalogue,
    market: &'a Market<'_>,
    gpu: &'a Gpu,
) -> impl Iterator<Item = &'a Offer> {
    catalogue.offers.iter().filter(move |offer| {
        offer.gpu == gpu.name
            && offer.gpus() >= 1
            && (market.providers.is_empty()
                || market
                    .providers
                    .iter()
                    .any(|provider| provider.eq_ignore_ascii_case(&offer.provider)))
            && (market.regions.is_empty()
                || market
                    .regions
                    .iter()
                    .any(|region| offer.region.starts_with(region.as_str())))
    })
}

fn owned(market: &Market<'_>, gpu: &Gpu) -> impl Iterator<Item = u32> {
    market
        .owned
        .iter()
        .filter(|(own, _)| own.name == gpu.name)
        .map(|(_, count)| *count)
}

/// The cheapest way to have a cluster: one's own, else instances of one kind; several only of the
/// GPU's largest instance, because smaller ones are not joined by a fast network.
fn rent(catalogue: &Catalogue, market: &Market<'_>, cluster: &Cluster<'_>) -> Option<Rental> {
    let gpus = cluster.gpus;
    if let Some(own) = owned(market, cluster.gpu).find(|own| u64::from(*own) >= gpus) {
        return Some(mine(own, gpus));
    }
    let terms = market.terms;
    let largest = offers(catalogue, market, cluster.gpu)
        .map(Offer::gpus)
        .max()?;
    let placed = offers(catalogue, market, cluster.gpu).filter_map(|offer| {
        let has = u64::from(offer.gpus());
        if gpus > has && (offer.gpus() < largest || !gpus.is_multiple_of(has)) {
            return None;
        }
        let instances = u32::try_from(gpus.div_ceil(has)).ok()?;
        let price = offer.price(terms).map_or(f64::INFINITY, |price| {
            price.0.as_f64() * f64::from(instances)
        });
        Some((price, instances, offer))
    });
    let name = |offer: &Offer| {
        (
            offer.provider.clone(),
            offer.instance.clone(),
            offer.region.clone(),
        )
    };
    let (_, instances, offer) = placed.min_by(|a, b| {
        a.0.total_cmp(&b.0)
            .then(a.1.cmp(&b.1))
            .then_with(|| name(a.2).cmp(&name(b.2)))
    })?;
    let all = u64::from(instances) * u64::from(offer.gpus());
    Some(Rental {
        provider: offer.provider.clone().into(),
        instance: offer.instance.clone(),
        region: offer.region.clone(),
        terms,
        instances,
        gpu_thousandths: offer.gpu_thousandths,
        idle: u32::try_from(all.saturating_sub(gpus)).unwrap_or(u32::MAX),
        price: offer.price(terms),
        date: offer.date.clone(),
        source: offer.source.clone(),
    })
}

/// Hosts of one's own: nothing more is paid for them, and what they cost is not known here.
fn mine(own: u32, gpus: u64) -> Rental {
    Rental {
        provider: Provider::Owned,
        instance: String::from("your host"),
        region: String::new(),
        terms: Terms::Reserved,
        instances: 1,
        gpu_thousandths: own.saturating_mul(1000),
        idle: u32::try_from(u64::from(own).saturating_sub(gpus)).unwrap_or(0),
        price: None,
        date: String::new(),
        source: "as given".into(),
    }
}
